"""What a search may see: a filter, and what a branch shows. Plain records, so that a quick look needs no numpy."""

from __future__ import annotations

from typing import NamedTuple

from memlake.index.rows import Overlay


class Filter(NamedTuple):
    """What a row must have: of each group of marks one; a time, an importance, a life that lasts."""

    marks: tuple[tuple[int, ...], ...] = ()
    since: int | None = None
    until: int | None = None
    least: float | None = None
    now: int = 0


class Shown(NamedTuple):
    """Which rows are there to be seen: the trunk at a seq (None: now), or a branch over it."""

    seq: int | None = None
    overlay: Overlay | None = None
    only_added: bool = False
