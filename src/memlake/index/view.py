"""One moment of the index as a reader holds it: blocks, ends, masks. Read again only as far as something changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memlake.errors import Damaged
from memlake.index import fold, generations, rows, segments, word_scores
from memlake.index.fold import columns_of
from memlake.index.scope import Filter, Shown
from memlake.index.word_scores import Array
from memlake.objects.db import Database, Row

_MASKS = 64  # views of the trunk that are remembered


class Tail:
    """Fresh rows in memory: what a segment offers, found by looking at every term. `grown` makes the next one."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._hashes = np.zeros(0, np.int64)
        self._docs = np.zeros(0, np.uint32)
        self._scores = np.zeros(0, np.uint8)
        self.columns: Mapping[str, Array] = columns_of(())[1]

    @property
    def count(self) -> int:
        return len(self.columns["created"])

    def find(self, term: int) -> tuple[Array, Array]:
        at = np.flatnonzero(self._hashes == term)
        return self._docs[at], self._scores[at]

    def frequency(self, term: int) -> int:
        return int(np.count_nonzero(self._hashes == term))

    def grown(self, found: Sequence[Row], packed: Sequence[bytes]) -> Tail:
        """This tail and the rows that follow it."""
        if not found:
            return self
        lengths, columns = columns_of(found)
        block = segments.build(0, packed, lengths, columns)
        tail = Tail(self.first)
        hashes = np.repeat(block.hashes, np.diff(block.starts))
        tail._hashes = np.concatenate([self._hashes, hashes])
        tail._docs = np.concatenate([self._docs, block.docs + np.uint32(self.count)])
        tail._scores = np.concatenate([self._scores, block.scores])
        tail.columns = {name: np.concatenate([self.columns[name], columns[name]]) for name in columns}
        return tail


AnyBlock = segments.Block | Tail


@dataclass(frozen=True, slots=True)
class Moment:
    """What was read at one stamp of the index."""

    stamp: object
    names: tuple[str, ...]
    blocks: tuple[segments.Block, ...]
    tail: Tail
    ended: word_scores.Ended
    last_end: int

    @property
    def all(self) -> tuple[AnyBlock, ...]:
        return (*self.blocks, self.tail) if self.tail.count else self.blocks

    @property
    def count(self) -> int:
        return self.tail.first - 1 + self.tail.count

    def is_mapped(self, folder: Path) -> bool:
        """Whether the files are as long as when they were mapped: reading a map beyond its file ends the process."""
        beside = f"{folder}{os.sep}"  # a Path costs more than the stat
        try:
            return all(os.stat(beside + n).st_size == b.size for n, b in zip(self.names, self.blocks, strict=True))
        except OSError:
            return False


_NOTHING = Moment(None, (), (), Tail(1), (np.zeros(0, np.int64), np.zeros(0, np.int64)), 0)


class View:
    """Hands out the present moment, and which rows of it may be seen."""

    def __init__(self, db: Database, folder: Path) -> None:
        self._db, self._folder = db, folder
        self._now = _NOTHING
        self._masks: dict[tuple[Any, ...], Array] = {}

    def now(self) -> Moment:
        """The index as it is, read again as far as it changed."""
        stamp = rows.read_meta(self._db, "stamp")
        if stamp != self._now.stamp or stamp is None or not self._now.is_mapped(self._folder):
            for attempt in range(3):
                try:
                    self._now = self._read()
                    break
                except Damaged:  # a fold replaced a segment between our reading its name and the file
                    if attempt == 2:
                        raise
        return self._now

    def _read(self) -> Moment:
        old, db = self._now, self._db
        with db.snapshot():
            stamp = rows.read_meta(db, "stamp")
            named = db.rows("SELECT name, last FROM segment ORDER BY first")
            names = tuple(name for name, _ in named)
            same = names == old.names and old.stamp is not None and old.is_mapped(self._folder)
            first = named[-1][1] + 1 if named else 1
            tail = old.tail if same else Tail(first)
            last = db.row("SELECT max(id) FROM row")
            known, newest = tail.first - 1 + tail.count, int((last and last[0]) or 0)
            found = fold.read_rows(db, known, newest)
            ends = db.rows("SELECT id, row, to_seq FROM ended WHERE id > ? ORDER BY id", (old.last_end if same else 0,))
        tail = tail.grown(*found)
        if not same:
            self._masks.clear()
        return Moment(
            stamp,
            names,
            old.blocks if same else self._map(names),
            tail,
            _join_ends(old.ended if same else _NOTHING.ended, ends),
            ends[-1][0] if ends else (old.last_end if same else 0),
        )

    def _map(self, names: Sequence[str]) -> tuple[segments.Block, ...]:
        now = self._now
        known = dict(zip(now.names, now.blocks, strict=True)) if now.is_mapped(self._folder) else {}
        return tuple(known.get(name) or segments.read(generations.segment_file(self._folder, name)) for name in names)

    def may(self, moment: Moment, block: AnyBlock, shown: Shown, wanted: Filter) -> Array:
        """Which rows of a block a search may find."""
        mask = self._trunk(moment, block, shown.overlay.base if shown.overlay else shown.seq)
        if shown.overlay is not None:
            mask = word_scores.overlaid(block, mask, shown.overlay, shown.only_added)  # type: ignore[arg-type]
        return word_scores.apply_filter(block, mask, wanted)  # type: ignore[arg-type]

    def _trunk(self, moment: Moment, block: AnyBlock, at: int | None) -> Array:
        """What the trunk shows at a seq, remembered: many branches begin at the same one."""
        key = (block.first, block.count, len(moment.ended[0]), at)
        mask = self._masks.get(key)
        if mask is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            mask = self._masks[key] = word_scores.visible(block, at, moment.ended)  # type: ignore[arg-type]
        return mask


def _join_ends(old: word_scores.Ended, ends: Sequence[tuple[int, int, int]]) -> word_scores.Ended:
    if not ends:
        return old
    new = np.array(ends, np.int64)
    return np.concatenate([old[0], new[:, 1]]), np.concatenate([old[1], new[:, 2]])
