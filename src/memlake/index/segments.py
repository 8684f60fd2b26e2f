"""Segments: the terms and columns of a run of rows, sorted for reading in place; how they are made, merged and cleaned.

A file is a line of JSON (what lies where), then arrays. It is written whole, synced and renamed, and never changed,
so readers map it and a crash leaves either no file or a good one. The score a word gives a row is kept ready made,
as a byte: reading it back is adding bytes, not computing logarithms.

Folding makes fresh rows a segment and small segments larger ones. The files are made while others go on reading and
writing; one short transaction puts them in place of what they replace. Only one process folds at a time; a crash
leaves a file nobody names, which the next fold removes.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from memlake.errors import Damaged
from memlake.index import generations, rows
from memlake.index.generations import SEGMENT_ALIGN, SEGMENT_MAGIC, sound
from memlake.index.rows import NEVER
from memlake.index.terms import score_count
from memlake.objects import disk
from memlake.objects.db import Database

Array = np.ndarray[Any, Any]
Postings = tuple[Array, Array]  # the rows (counted from the first of a block) that have a term; what it gives, 0 to 255

COLUMNS = ("session", "created", "importance", "expires", "from_seq", "to_seq")
SMALL = 4 << 20  # bytes up to which a segment is checked whole when it is opened: 3 ms
FRESH = 2048  # fresh rows from which a fold is worth it
LARGEST = 1 << 17  # rows up to which segments are merged: to merge more takes too much memory
GROWTH = 4  # a segment is merged with its neighbours while it is not this much smaller than them
_RANGES = 16  # a merge sorts the postings in so many slices, to need little memory


@dataclass(frozen=True, slots=True)
class Block:
    """Rows first, first + 1, ... and their terms: what a segment file holds, or the fresh rows in memory."""

    first: int
    hashes: Array
    starts: Array
    docs: Array
    scores: Array
    columns: Mapping[str, Array]
    size: int = 0  # bytes of its file

    @property
    def count(self) -> int:
        return len(self.columns["created"])

    def find(self, terms: Sequence[int]) -> list[Postings]:
        """The postings of each term, all looked up at once."""
        if not len(self.hashes):
            return [(self.docs, self.scores)] * len(terms)
        wanted = np.array(terms, np.int64)
        at = self.hashes.searchsorted(wanted)
        at[self.hashes.take(at, mode="clip") != wanted] = -1
        spans = ((0, 0) if i < 0 else (int(self.starts[i]), int(self.starts[i + 1])) for i in at.tolist())
        return [(self.docs[start:end], self.scores[start:end]) for start, end in spans]


def build_block(first: int, terms: Sequence[bytes], lengths: Array, columns: Mapping[str, Array]) -> Block:
    """A block from the packed terms of its rows (see `terms.pack_terms`)."""
    sizes = np.array([len(packed) // 9 for packed in terms], np.int64)
    joined = b"".join(packed[: len(packed) // 9 * 8] for packed in terms)
    counts = np.frombuffer(b"".join(packed[len(packed) // 9 * 8 :] for packed in terms), np.uint8).astype(np.float32)
    docs = np.repeat(np.arange(len(terms), dtype=np.uint32), sizes)
    shares: Array = score_count(counts, lengths[docs].astype(np.float32))
    scores = np.maximum(np.round(shares * 255), counts > 0).astype(np.uint8)
    return _sort_terms(first, np.frombuffer(joined, np.int64), docs, scores, columns)


def _sort_terms(first: int, hashes: Array, docs: Array, scores: Array, columns: Mapping[str, Array]) -> Block:
    order = np.argsort(hashes, kind="stable")  # rows of one term stay in order
    hashes, docs, scores = hashes[order], docs[order], scores[order]
    unique, starts = np.unique(hashes, return_index=True)
    return Block(first, unique, np.append(starts, len(hashes)).astype(np.int64), docs, scores, columns)


def merge_blocks(blocks: Sequence[Block]) -> Block:
    """Neighbouring blocks as one. The postings are sorted a slice of the hashes at a time."""
    parts = []
    for low, high in itertools.pairwise([*range(0, 1 << 63, (1 << 63) // _RANGES), None]):
        slices = []
        for block in blocks:
            a = int(np.searchsorted(block.hashes, low))
            b = len(block.hashes) if high is None else int(np.searchsorted(block.hashes, high))
            start, end = int(block.starts[a]), int(block.starts[b])
            hashes = np.repeat(block.hashes[a:b], np.diff(block.starts[a : b + 1]))
            docs = block.docs[start:end] + np.uint32(block.first - blocks[0].first)
            slices.append((hashes, docs, block.scores[start:end]))
        hashes, docs, scores = (np.concatenate(arrays) for arrays in zip(*slices, strict=True))
        parts.append(_sort_terms(0, hashes, docs, scores, {}))
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in COLUMNS}
    names = ("hashes", "docs", "scores")
    hashes, docs, scores = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Block(blocks[0].first, hashes, starts, docs, scores, columns)


# -- files ------------------------------------------------------------------------------------


def write_segment(path: Path, block: Block) -> None:
    """Write a segment file whole; it is there or it is not."""
    arrays = {name: getattr(block, name) for name in ("hashes", "starts", "docs", "scores")}
    arrays |= {name: block.columns[name] for name in COLUMNS}
    layout, at = {}, 0
    for name, array in arrays.items():
        layout[name] = [array.dtype.str, at, len(array)]
        at += -(-array.nbytes // SEGMENT_ALIGN) * SEGMENT_ALIGN
    pairs = [(array.view(np.uint8).data, bytes(-array.nbytes % SEGMENT_ALIGN)) for array in arrays.values()]
    pieces = list(itertools.chain.from_iterable(pairs))
    crc = functools.reduce(lambda so_far, piece: zlib.crc32(piece, so_far), pieces, 0)
    head = json.dumps({"first": block.first, "size": at, "crc": crc, "arrays": layout}).encode()
    start = SEGMENT_MAGIC + b"%08x %08x\n" % (len(head), zlib.crc32(head)) + head
    padded = start + b" " * (-len(start) % SEGMENT_ALIGN)
    disk.write_file(path, padded, *pieces)  # in place: copies would double the memory


def read_segment(path: Path, *, whole: bool = False) -> Block:
    """Map a segment file. Of a large one only the first page is read and checked, unless it is to be the whole."""
    try:
        mapped = np.asarray(np.memmap(path, np.uint8, "r"))  # a plain array: slices of a memmap cost more
    except (OSError, ValueError) as error:
        raise Damaged(f"index segment {path.name} cannot be read: {error}.") from error
    head, start = _read_head(path, mapped)
    if "crc" in head and (whole or len(mapped) <= SMALL) and zlib.crc32(mapped[start:].data) != head["crc"]:
        raise Damaged(f"index segment {path.name}: its rows are damaged.", hint="It is made again from the history.")
    with sound("an index segment"):
        arrays = {
            name: mapped[start + at : start + at + count * np.dtype(kind).itemsize].view(kind)
            for name, (kind, at, count) in head["arrays"].items()
        }
        if any(len(arrays[name]) != count for name, (_, _, count) in head["arrays"].items()):
            raise ValueError("it has fewer items than its head says")
        hashes, starts, docs, scores = (arrays[name] for name in ("hashes", "starts", "docs", "scores"))
        if (len(starts), len(scores)) != (len(hashes) + 1, len(docs)) or starts[-1] != len(docs):
            raise ValueError("its arrays are of different lengths")
        columns = {name: arrays[name] for name in COLUMNS}
        return Block(head["first"], hashes, starts, docs, scores, columns, len(mapped))


def _read_head(path: Path, whole: Array) -> tuple[dict[str, Any], int]:
    line = len(SEGMENT_MAGIC) + 18
    first = bytes(whole[:line])
    try:
        if not first.startswith(SEGMENT_MAGIC):
            raise ValueError("it is not a segment")
        length, crc = (int(part, 16) for part in first[len(SEGMENT_MAGIC) :].split())
        text = bytes(whole[line : line + length])
        if zlib.crc32(text) != crc:
            raise ValueError("its head is damaged")
        head: dict[str, Any] = json.loads(text)
        start = -(-(line + length) // SEGMENT_ALIGN) * SEGMENT_ALIGN
        if len(whole) != start + head["size"]:
            raise ValueError("it was cut short")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"index segment {path.name}: {error}.", hint="It is made again from the history.") from error
    return head, start


# -- folding ----------------------------------------------------------------------------------


def is_fold_due(db: Database) -> bool:
    # Each end by itself: asked for together, SQLite would read them all.
    row = db.row("SELECT (SELECT max(row) FROM fresh) - (SELECT min(row) FROM fresh)")
    return row is not None and row[0] is not None and row[0] >= FRESH - 1


def fold(db: Database, folder: Path) -> bool:
    """Fold what is fresh; False when there is nothing, or another process is at it."""
    with disk.named_errors(f"folding the index in {folder}"), generations.take_turn(folder) as ours:
        if not ours:
            return False
        _sweep(db, folder)
        has_folded = _fold_fresh(db, folder)
        while _merge_small(db, folder):
            has_folded = True
        return has_folded


def _sweep(db: Database, folder: Path) -> None:
    """Remove files of a fold that was cut off. Call in turn."""
    names = {name for (name,) in db.rows("SELECT name FROM segment")}
    for file in folder.glob("*.seg*"):
        if file.name not in names:
            disk.unlink(file)


def read_rows(db: Database, after: int, upto: int) -> tuple[list[bytes], Array, dict[str, Array]]:
    """Rows after..upto (exclusive, inclusive): packed terms, lengths, columns. One that was purged is empty."""
    sql = "SELECT id, length, session, created, importance, expires, from_seq, to_seq FROM row WHERE id > ? AND id <= ?"
    known = {row: values for row, *values in db.rows(sql, (after, upto))}  # in the order of COLUMNS
    packed: dict[int, bytes] = dict(db.rows("SELECT row, terms FROM fresh WHERE row > ? AND row <= ?", (after, upto)))
    blank, ids = (0, 0, 0, 0.0, 0, NEVER, NEVER), range(after + 1, upto + 1)
    lengths, *columns = zip(*(known.get(i, blank) for i in ids), strict=True) if ids else [()] * len(blank)
    kinds = (np.float32 if name == "importance" else np.int64 for name in COLUMNS)
    arrays = {name: np.array(column, kind) for name, column, kind in zip(COLUMNS, columns, kinds, strict=True)}
    return [packed.get(i, b"") for i in ids], np.array(lengths, np.int64), arrays


def _fold_fresh(db: Database, folder: Path) -> bool:
    with db.snapshot():
        last = db.row("SELECT max(row) FROM fresh")
        upto = last[0] if last else None
        if upto is None:
            return False
        after = find_last_folded(db)
        ended = db.row("SELECT max(id) FROM ended")
        packed, lengths, columns = read_rows(db, after, upto)
    block = build_block(after + 1, packed, lengths, columns)
    _replace_segments(db, folder, block, (), seen=(ended and ended[0]) or 0)
    return True


def find_last_folded(db: Database) -> int:
    """The last row that a segment holds."""
    row = db.row("SELECT max(last) FROM segment")
    return int((row and row[0]) or 0)


def _merge_small(db: Database, folder: Path) -> bool:
    """Join the newest segments as long as each is not much larger than all after it; False when none are."""
    listed = db.rows("SELECT name, first, last FROM segment ORDER BY first")
    start, size = len(listed), 0
    while start and (more := listed[start - 1][2] - listed[start - 1][1] + 1) + size <= LARGEST:
        if size and more > GROWTH * size:
            break
        start -= 1
        size += more
    joined = listed[start:]
    if len(joined) < GROWTH:
        return False
    ends = db.rows("SELECT id, row, to_seq FROM ended WHERE row >= ? ORDER BY id", (joined[0][1],))
    files = [generations.segment_file(folder, name) for name, _, _ in joined]
    block = merge_blocks([read_segment(file, whole=True) for file in files])
    to_seq = np.array(block.columns["to_seq"])
    for _, row, seq in ends:
        if row <= joined[-1][2]:
            to_seq[row - block.first] = seq
    block = replace(block, columns={**block.columns, "to_seq": to_seq})
    _replace_segments(db, folder, block, [name for name, _, _ in joined], seen=ends[-1][0] if ends else 0)
    return True


def _replace_segments(db: Database, folder: Path, block: Block, over: Sequence[str], *, seen: int = 0) -> None:
    """Write a segment and let it stand for the rows or segments it was made of; `seen` ends are in it."""
    last = block.first + block.count - 1
    name = f"{block.first}-{last}-{os.urandom(4).hex()}.seg"
    write_segment(folder / name, block)
    with db.write(), db.without_wiping():
        db.run_in("DELETE FROM segment WHERE name IN carray(?1)", over)
        db.run("INSERT INTO segment VALUES(?, ?, ?)", (name, block.first, last))
        db.run("DELETE FROM fresh WHERE row <= ?", (last,))
        db.run("DELETE FROM ended WHERE id <= ? AND row BETWEEN ? AND ?", (seen, block.first, last))
        rows.raise_stamp(db)
    for old in over:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(folder / old)


# -- erasing ----------------------------------------------------------------------------------

_ROWS = (
    "DELETE FROM row WHERE id IN carray(?1)",
    "DELETE FROM fresh WHERE row IN carray(?1)",
    "DELETE FROM pending WHERE row IN carray(?1)",
    "DELETE FROM ended WHERE row IN carray(?1)",
)


def erase_rows(db: Database, folder: Path, ids: Sequence[int]) -> None:
    """Leave nothing of these rows: a word that only they had is forgotten too. Call in turn and inside a write."""
    with disk.named_errors(f"erasing from the index in {folder}"):
        _sweep(db, folder)
        words = _find_words(db, folder, ids)
        for name, first, last in db.rows("SELECT name, first, last FROM segment"):
            within = [row for row in ids if first <= row <= last]
            if within:
                block = blank_rows(read_segment(generations.segment_file(folder, name)), within)
                _replace_segments(db, folder, block, [name])
        for sql in _ROWS:
            db.run_in(sql, ids)
        rows.raise_stamp(db)
        _forget_words(db, folder, words)


def blank_rows(block: Block, ids: Sequence[int]) -> Block:
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


def _find_words(db: Database, folder: Path, ids: Sequence[int]) -> set[int]:
    """Hashes of all words that one of the rows has."""
    words = set[int]()
    for (packed,) in db.rows_in("SELECT terms FROM fresh WHERE row IN carray(?1)", ids):
        words.update(np.frombuffer(packed[: len(packed) // 9 * 8], np.int64).tolist())
    for name, first, last in db.rows("SELECT name, first, last FROM segment"):
        within = np.array([row - first for row in ids if first <= row <= last])
        if len(within):
            block = read_segment(generations.segment_file(folder, name))
            at = np.flatnonzero(np.isin(block.docs, within))
            words.update(block.hashes[np.searchsorted(block.starts, at, side="right") - 1].tolist())
    return words


def _forget_words(db: Database, folder: Path, words: set[int]) -> None:
    """Forget the spelling of words that no row has any more."""
    gone = set(words)
    for (name,) in db.rows("SELECT name FROM segment"):
        block, left = read_segment(generations.segment_file(folder, name)), sorted(gone)
        gone = {word for word, (docs, _) in zip(left, block.find(left), strict=True) if not len(docs)}
    for (packed,) in db.rows("SELECT terms FROM fresh"):
        gone -= set(np.frombuffer(packed[: len(packed) // 9 * 8], np.int64).tolist())
    db.run_in("DELETE FROM term WHERE hash IN carray(?1)", gone)
    db.run_in("DELETE FROM spelling WHERE rowid IN carray(?1)", gone)
    db.run("INSERT INTO spelling(spelling) VALUES('optimize')")  # else the words stay in it as dead entries
    rows.forget_learnt(db)
