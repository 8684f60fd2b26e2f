"""Work over the index that outlives its damage: done again on one that was made anew from the history."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from memlake.errors import Damaged, Error, Unavailable
from memlake.memories.context import MemoryContext
from memlake.memories.resources import describe_spare, spare_index

Given = ParamSpec("Given")
Result = TypeVar("Result")
Work = Callable[Concatenate[MemoryContext, Given], Result]


def heals(work: Work[Given, Result]) -> Work[Given, Result]:
    """Work that reads the index, done again on a new one where that turns out to be damaged, deleted or replaced."""

    @functools.wraps(work)
    def done(ground: MemoryContext, /, *args: Given.args, **named: Given.kwargs) -> Result:
        ground.index.refresh()
        seen = ground.index.mark
        try:
            return work(ground, *args, **named)
        except Error as error:
            ground.index.refresh()
            if isinstance(error, Damaged):
                ground.index.renew(seen)
            if ground.index.mark == seen:
                raise
        return work(ground, *args, **named)

    return done


def reads(work: Work[Given, Result]) -> Work[Given, Result]:
    """As `heals`. Where the index cannot be brought up to the history, as on a full disk, one is made for this once.

    What was acknowledged must be readable, and a full disk has no room for the newest rows of the index.
    """
    healed = heals(work)

    @functools.wraps(work)
    def done(ground: MemoryContext, /, *args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return healed(ground, *args, **named)
        except Unavailable as full:
            try:
                with spare_index() as index:
                    notes = (describe_spare(full),)
                    return work(dataclasses.replace(ground, index=index, notes=notes), *args, **named)
            except (Unavailable, OSError):
                raise full from None

    return done
