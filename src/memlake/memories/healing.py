"""Work over the index that outlives its damage: done again on one that was made anew from the history."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from memlake.errors import Damaged, Error, Unavailable
from memlake.index.index import Index
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


def reads(work: Work[Given, Result]) -> Work[Given, Result]:
    """As `heals`. Where the index cannot be brought up to the history, as on a full disk, one is made for this once.

    What was acknowledged must be readable, and a full disk has no room for the newest rows of the index.
    """
    healed = heals(work)

    @functools.wraps(work)
    def done(ground: Ground, /, *args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return healed(ground, *args, **named)
        except Unavailable as full:
            try:
                with _spare_index() as index:
                    told = f"{full.message} So this was looked up without the index: slower, and by words alone."
                    return work(dataclasses.replace(ground, index=index, notes=(told,)), *args, **named)
            except (Unavailable, OSError):
                raise full from None

    return done


@contextlib.contextmanager
def _spare_index() -> Iterator[Index]:
    """An empty index in memory, or where there is no such place in the folder for temporary files."""
    import tempfile  # slow to import, and hardly ever needed

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memlake-", dir=memory) as folder:
        index = Index(Path(folder) / "index")
        try:
            yield index
        finally:
            index.close()
