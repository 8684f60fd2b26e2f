"""Erasing rows from the index: their words, their vectors, their place in segment files. Knows rows, not memories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memlake.index import fold, generations, rows, segments
from memlake.index.rows import NEVER
from memlake.index.segments import Block
from memlake.objects import disk
from memlake.objects.db import Database

_ROWS = (
    "DELETE FROM row WHERE id IN carray(?1)",
    "DELETE FROM fresh WHERE row IN carray(?1)",
    "DELETE FROM pending WHERE row IN carray(?1)",
    "DELETE FROM ended WHERE row IN carray(?1)",
)

Array = np.ndarray[Any, Any]


def erase(db: Database, folder: Path, ids: Sequence[int]) -> None:
    """Leave nothing of these rows: a word that only they had is forgotten too. Call in turn and inside a write."""
    with disk.named_errors(f"erasing from the index in {folder}"):
        fold.sweep(db, folder)
        words = _words_of(db, folder, ids)
        for name, first, last in db.rows("SELECT name, first, last FROM segment"):
            within = [row for row in ids if first <= row <= last]
            if within:
                block = without(segments.read(generations.segment_file(folder, name)), within)
                fold.put(db, folder, block, [name])
        for sql in _ROWS:
            db.run_in(sql, ids)
        rows.stamp(db)
        _forget_words(db, folder, words)


def without(block: Block, ids: Sequence[int]) -> Block:
    """A block with nothing at the places of some rows."""
    gone = np.array(ids, np.int64) - block.first
    keep = ~np.isin(block.docs, gone)
    counts = (
        np.add.reduceat(np.append(keep, False).astype(np.int64), block.starts[:-1]) if len(block.hashes) else keep[:0]
    )
    used = counts > 0
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[used], dtype=np.int64)])
    columns = {name: np.array(column) for name, column in block.columns.items()}
    for name, column in columns.items():
        column[gone] = NEVER if name in ("from_seq", "to_seq") else 0
    return Block(block.first, block.hashes[used], starts, block.docs[keep], block.scores[keep], columns)


def _words_of(db: Database, folder: Path, ids: Sequence[int]) -> set[int]:
    """Hashes of all words that one of the rows has."""
    found: set[int] = set()
    for (packed,) in db.rows_in("SELECT terms FROM fresh WHERE row IN carray(?1)", ids):
        found |= set(np.frombuffer(packed[: len(packed) // 9 * 8], np.int64).tolist())
    for name, first, last in db.rows("SELECT name, first, last FROM segment"):
        within = np.array([row - first for row in ids if first <= row <= last])
        if len(within):
            block = segments.read(generations.segment_file(folder, name))
            at = np.flatnonzero(np.isin(block.docs, within))
            found |= set(block.hashes[np.searchsorted(block.starts, at, side="right") - 1].tolist())
    return found


def _forget_words(db: Database, folder: Path, words: set[int]) -> None:
    """Forget the spelling of words that no row has any more."""
    blocks = [segments.read(generations.segment_file(folder, name)) for (name,) in db.rows("SELECT name FROM segment")]
    fresh = [
        np.frombuffer(packed[: len(packed) // 9 * 8], np.int64) for (packed,) in db.rows("SELECT terms FROM fresh")
    ]
    waiting = set(np.concatenate(fresh).tolist()) if fresh else set()
    gone = [word for word in words if word not in waiting and not any(block.frequency(word) for block in blocks)]
    db.run_in("DELETE FROM term WHERE hash IN carray(?1)", gone)
    db.run_in("DELETE FROM spelling WHERE rowid IN carray(?1)", gone)
    db.run("INSERT INTO spelling(spelling) VALUES('optimize')")  # else the words stay in it as dead entries
    rows.forget_learnt(db)
