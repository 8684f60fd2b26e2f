"""Work over the index that outlives its damage: done again on one that was made anew from the history."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from memlake.errors import Damaged, Error
from memlake.memories.ground import Ground

Given = ParamSpec("Given")
Result = TypeVar("Result")
Work = Callable[Concatenate[Ground, Given], Result]


def heals(work: Work[Given, Result]) -> Work[Given, Result]:
    """Work that reads the index, done again on a new one where that turns out to be damaged, deleted or replaced."""

    @functools.wraps(work)
    def done(ground: Ground, /, *args: Given.args, **named: Given.kwargs) -> Result:
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
