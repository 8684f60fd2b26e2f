"""One moment of the index as a reader holds it: blocks, ends, and masks of the rows a search may see.

It is read again only as far as something changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memlake.errors import Damaged
from memlake.index import generations, rows, segments
from memlake.index.rows import NEVER, Filter, Overlay, Shown
from memlake.index.segments import Array, Block, Postings
from memlake.objects.db import Database

Ends = tuple[Array, Array]  # rows, and the seqs at which the trunk stopped showing them
_MASKS = 64  # views of the trunk that are remembered


class Tail:
    """Fresh rows in memory: what a segment offers, found by looking at every term. `extend` makes the next one."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._hashes = np.zeros(0, np.int64)
        self._docs = np.zeros(0, np.uint32)
        self._scores = np.zeros(0, np.uint8)
        self.columns: Mapping[str, Array] = {
            name: np.zeros(0, np.float32 if name == "importance" else np.int64) for name in segments.COLUMNS
        }

    @property
    def count(self) -> int:
        return len(self.columns["created"])

    def find(self, terms: Sequence[int]) -> list[Postings]:
        places = (np.flatnonzero(self._hashes == term) for term in terms)
        return [(self._docs[at], self._scores[at]) for at in places]

    def extend(self, packed: Sequence[bytes], lengths: Array, columns: Mapping[str, Array]) -> Tail:
        """This tail and the rows that follow it, as `segments.read_rows` has them."""
        if not packed:
            return self
        block = segments.build_block(0, packed, lengths, columns)
        tail = Tail(self.first)
        hashes = np.repeat(block.hashes, np.diff(block.starts))
        tail._hashes = np.concatenate([self._hashes, hashes])
        tail._docs = np.concatenate([self._docs, block.docs + np.uint32(self.count)])
        tail._scores = np.concatenate([self._scores, block.scores])
        tail.columns = {name: np.concatenate([self.columns[name], columns[name]]) for name in columns}
        return tail


AnyBlock = Block | Tail


@dataclass(frozen=True, slots=True)
class Moment:
    """What was read at one stamp of the index."""

    stamp: object
    names: tuple[str, ...]
    blocks: tuple[Block, ...]
    tail: Tail
    ended: Ends
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
        is_mapped = old.is_mapped(self._folder)
        with db.snapshot():
            stamp = rows.read_meta(db, "stamp")
            listed = db.rows("SELECT name, last FROM segment ORDER BY first")
            names = tuple(name for name, _ in listed)
            same = names == old.names and old.stamp is not None and is_mapped
            base = old if same else _NOTHING
            tail = old.tail if same else Tail(listed[-1][1] + 1 if listed else 1)
            last = db.row("SELECT max(id) FROM row")
            fresh = segments.read_rows(db, tail.first - 1 + tail.count, int((last and last[0]) or 0))
            ends = db.rows("SELECT id, row, to_seq FROM ended WHERE id > ? ORDER BY id", (base.last_end,))
        if not same:
            self._masks.clear()
        known = dict(zip(old.names, old.blocks, strict=True)) if is_mapped else {}
        blocks = tuple(
            known.get(name) or segments.read_segment(generations.segment_file(self._folder, name)) for name in names
        )
        ended = base.ended
        if ends:
            new = np.array(ends, np.int64)
            ended = np.concatenate([ended[0], new[:, 1]]), np.concatenate([ended[1], new[:, 2]])
        return Moment(stamp, names, blocks, tail.extend(*fresh), ended, ends[-1][0] if ends else base.last_end)

    def find_allowed(self, moment: Moment, block: AnyBlock, shown: Shown, limits: Filter) -> Array:
        """Which rows of a block a search may find: one bool a row."""
        at = shown.overlay.base if shown.overlay else shown.seq
        # What the trunk shows at a seq is remembered, because many branches begin at the same one.
        key = (block.first, block.count, len(moment.ended[0]), at)
        mask = self._masks.get(key)
        if mask is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            mask = self._masks[key] = find_visible(block, at, moment.ended)
        if shown.overlay is not None:
            mask = _lay_over(block, mask, shown.overlay, shown.only_added)
        return apply_filter(block, mask, limits)


def find_visible(block: AnyBlock, at: int | None, ended: Ends) -> Array:
    """One bool a row: whether the trunk shows it at a seq; None: now."""
    ends = block.columns["to_seq"]
    here = (ended[0] >= block.first) & (ended[0] < block.first + block.count)
    if here.any():
        ends = np.array(ends)
        ends[ended[0][here] - block.first] = ended[1][here]
    if at is None:
        mask: Array = (ends == NEVER) & (block.columns["from_seq"] < NEVER)
    else:
        mask = (block.columns["from_seq"] <= at) & (ends > at)
    return mask


def _lay_over(block: AnyBlock, mask: Array, overlay: Overlay, only_added: bool) -> Array:
    """What a branch shows over what the trunk shows at its base."""
    mask = np.zeros(block.count, bool) if only_added else mask.copy()
    for ids, is_shown in ((overlay.hidden, False), (overlay.added, True)):
        at = np.fromiter(ids, np.int64, len(ids)) - block.first
        mask[at[(at >= 0) & (at < block.count)]] = is_shown
    return mask


def apply_filter(block: AnyBlock, mask: Array, limits: Filter) -> Array:
    """The rows of a mask that a filter lets through."""
    columns = block.columns
    for group in limits.marks:
        has = np.zeros(block.count, bool)
        for docs, _ in block.find(group):
            has[docs] = True
        mask = mask & has
    if limits.since is not None:
        mask = mask & (columns["created"] >= limits.since)
    if limits.until is not None:
        mask = mask & (columns["created"] < limits.until)
    if limits.least is not None:
        mask = mask & (columns["importance"] >= limits.least - 1e-6)
    if columns["expires"].any():
        mask = mask & ((columns["expires"] == 0) | (columns["expires"] > limits.now))
    return mask
