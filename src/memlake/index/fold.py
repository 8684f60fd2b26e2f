"""Folding: fresh rows become a segment, small segments become larger ones. Nobody waits for it.

The files are made while others go on reading and writing; one short transaction puts them in place of what they
replace. Only one process folds at a time; a crash leaves a file nobody names, which the next fold removes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memlake.index import generations, rows, segments
from memlake.objects import disk
from memlake.objects.db import Database, Row

FRESH = 2048  # fresh rows from which a fold is worth it
GROWTH = 4  # a segment is merged with its neighbours while it is not this much smaller than them
Array = np.ndarray[Any, Any]
_COLUMNS = "id, length, session, created, importance, expires, from_seq, to_seq"


def is_due(db: Database) -> bool:
    # Each end by itself: asked for together, SQLite would read them all.
    row = db.row("SELECT (SELECT max(row) FROM fresh) - (SELECT min(row) FROM fresh)")
    return row is not None and row[0] is not None and row[0] >= FRESH - 1


def fold(db: Database, folder: Path) -> bool:
    """Fold what is fresh; False when there is nothing, or another process is at it."""
    with disk.named_errors(f"folding the index in {folder}"), generations.take_turn(folder) as ours:
        if not ours:
            return False
        sweep(db, folder)
        made = _fold_fresh(db, folder)
        while _merge_small(db, folder):
            made = True
        return made


def sweep(db: Database, folder: Path) -> None:
    """Remove files of a fold that was cut off. Call in turn."""
    named = {row[0] for row in db.rows("SELECT name FROM segment")}
    for file in folder.glob("*.seg*"):
        if file.name not in named:
            disk.unlink(file)


def columns_of(found: Sequence[Row]) -> tuple[Array, dict[str, Array]]:
    """Lengths and columns of rows read as _COLUMNS."""
    parts = list(zip(*found, strict=True)) if found else [()] * (2 + len(segments.COLUMNS))
    columns = {
        name: np.array(part, np.float32 if name == "importance" else np.int64)
        for name, part in zip(segments.COLUMNS, parts[2:], strict=True)
    }
    return np.array(parts[1], np.int64), columns


def read_rows(db: Database, after: int, upto: int) -> tuple[list[Row], list[bytes]]:
    """Rows after..upto (exclusive, inclusive) with their packed terms. An id without a row was purged: it is empty."""
    found = {row[0]: row for row in db.rows(f"SELECT {_COLUMNS} FROM row WHERE id > ? AND id <= ?", (after, upto))}
    packed: dict[int, bytes] = dict(db.rows("SELECT row, terms FROM fresh WHERE row > ? AND row <= ?", (after, upto)))
    never = rows.NEVER
    blank = (0, 0, 0, 0, 0.0, 0, never, never)
    ids = range(after + 1, upto + 1)
    return [found.get(i, blank) for i in ids], [packed.get(i, b"") for i in ids]


def _fold_fresh(db: Database, folder: Path) -> bool:
    with db.snapshot():
        last = db.row("SELECT max(row) FROM fresh")
        upto = last[0] if last else None
        if upto is None:
            return False
        after = find_last_folded(db)
        seen = db.row("SELECT max(id) FROM ended")
        found, packed = read_rows(db, after, upto)
    lengths, columns = columns_of(found)
    block = segments.build(after + 1, packed, lengths, columns)
    put(db, folder, block, (), seen=(seen and seen[0]) or 0)
    return True


def find_last_folded(db: Database) -> int:
    """The last row that a segment holds."""
    row = db.row("SELECT max(last) FROM segment")
    return int((row and row[0]) or 0)


def _merge_small(db: Database, folder: Path) -> bool:
    """Join the newest segments as long as each is not much larger than all after it; False when none are."""
    listed = db.rows("SELECT name, first, last FROM segment ORDER BY first")
    start, size = len(listed), 0
    while start and (size == 0 or listed[start - 1][2] - listed[start - 1][1] < GROWTH * size):
        start -= 1
        size += listed[start][2] - listed[start][1] + 1
    joined = listed[start:]
    if len(joined) < GROWTH:
        return False
    ends = db.rows("SELECT id, row, to_seq FROM ended WHERE row >= ? ORDER BY id", (joined[0][1],))
    block = segments.merge([segments.read(generations.segment_file(folder, name), whole=True) for name, _, _ in joined])
    to_seq = np.array(block.columns["to_seq"])
    for _, row, seq in ends:
        if row <= joined[-1][2]:
            to_seq[row - block.first] = seq
    block = dataclasses.replace(block, columns={**block.columns, "to_seq": to_seq})
    put(db, folder, block, [name for name, _, _ in joined], seen=ends[-1][0] if ends else 0)
    return True


def put(db: Database, folder: Path, block: segments.Block, over: Sequence[str], *, seen: int = 0) -> None:
    """Write a segment and let it stand for the rows or segments it was made of; `seen` ends are in it."""
    last = block.first + block.count - 1
    name = f"{block.first}-{last}-{os.urandom(4).hex()}.seg"
    segments.write(folder / name, block)
    with db.write(), db.without_wiping():
        db.run_in("DELETE FROM segment WHERE name IN carray(?1)", over)
        db.run("INSERT INTO segment VALUES(?, ?, ?)", (name, block.first, last))
        db.run("DELETE FROM fresh WHERE row <= ?", (last,))
        db.run("DELETE FROM ended WHERE id <= ? AND row BETWEEN ? AND ?", (seen, block.first, last))
        rows.stamp(db)
    for old in over:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(folder / old)
