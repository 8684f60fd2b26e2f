"""What a function is run over: shards, items of work cut from their rows, and how many rows an item should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from memlake.dataset.parts.frames import Fragment
from memlake.dataset.run.call_work import Done

_ITEM = 0.25  # seconds an item of work should take
_FIRST, _MOST = 32, 16_384  # rows of the first items, and of any
Array = np.ndarray[Any, Any]


@dataclass
class Shard:
    """A fragment a function is to run over: its rows, which of them are answered, and the answers so far."""

    index: int
    fragment: Fragment
    key: str
    table: pa.Table
    keys: Array | None
    found: Array  # for each row the row of Known that answers it, or -1
    todo: Array
    looked: Array  # for each row what its answer hangs on: file_keys.py
    done: list[tuple[Array, Done]] = field(default_factory=list)
    left: int = 0

    def rows(self, rows: Array) -> pa.Table:
        return self.table.take(pa.array(rows)) if len(rows) < len(self.table) else self.table


Item = tuple[Shard, Array]  # which rows of a shard


def take_until(items: Iterator[Item], *, until: Sequence[Item]) -> Iterator[Item]:
    """Items, as long as there is nothing in `until`."""
    while not until and (item := next(items, None)) is not None:
        yield item


def cut(items: Sequence[Item], size: int) -> list[Item]:
    """The same rows in items of so many."""
    return [(shard, rows[at : at + size]) for shard, rows in items for at in range(0, len(rows), size)]


@dataclass
class Pace:
    """How many rows an item of work should have, from what rows have cost so far."""

    rows: int = 0
    seconds: float = 0.0
    total: int = 0
    one_by_one: bool = False  # rows do not share the time they take, so one tells what they cost

    def left(self) -> float:
        """Seconds of work that are probably left; none, as long as too little was seen to say."""
        seen = self.rows >= _FIRST or self.seconds >= _ITEM
        return max(self.total - self.rows, 0) * self.cost if seen else 0.0

    def add(self, rows: int, seconds: float) -> None:
        self.rows += rows
        self.seconds += seconds

    @property
    def cost(self) -> float:
        return self.seconds / self.rows if self.rows else 0.0

    def next(self) -> int:
        """One row first: if it takes a minute, a kill costs a minute and not the half hour of a larger item."""
        if not self.rows:
            return 1 if self.one_by_one else _FIRST
        return int(min(max(_ITEM / max(self.cost, 1e-9), 1), _MOST if self.rows >= _FIRST else _FIRST))


class Paced:
    """Tables of items, made as they are needed, and how much work they still are."""

    def __init__(self, tables: Iterator[pa.Table], pace: Pace) -> None:
        self._tables, self._pace = tables, pace

    def __iter__(self) -> Iterator[pa.Table]:
        return self._tables

    def seconds_left(self) -> float:
        return self._pace.left()
