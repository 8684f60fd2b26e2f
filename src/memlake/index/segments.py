"""Segment files: the terms and columns of a run of rows, sorted for reading in place. Knows numbers only.

A file is a line of JSON (what lies where), then arrays. It is written whole, synced and renamed, and never changed,
so readers map it and a crash leaves either no file or a good one. The score a word gives a row is kept ready made,
as a byte: reading it back is adding bytes, not computing logarithms.
"""

from __future__ import annotations

import functools
import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memlake.errors import Damaged
from memlake.index import bm25
from memlake.index.derived_db import sound
from memlake.objects import disk

COLUMNS = ("session", "created", "importance", "expires", "from_seq", "to_seq")
_MAGIC = b"memlake segment 1\n"
_ALIGN = 64
SMALL = 4 << 20  # bytes up to which a segment is checked whole when it is opened: 3 ms
Array = np.ndarray[Any, Any]
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

    def find(self, term: int) -> tuple[Array, Array]:
        """The rows (counted from `first`) that have a term, and the score it gives each, 0 to 255."""
        at = int(np.searchsorted(self.hashes, term))
        if at == len(self.hashes) or self.hashes[at] != term:
            return self.docs[:0], self.scores[:0]
        start, end = int(self.starts[at]), int(self.starts[at + 1])
        return self.docs[start:end], self.scores[start:end]

    def frequency(self, term: int) -> int:
        at = int(np.searchsorted(self.hashes, term))
        known = at < len(self.hashes) and self.hashes[at] == term
        return int(self.starts[at + 1]) - int(self.starts[at]) if known else 0


def score_bytes(counts: Array, lengths: Array) -> Array:
    """BM25's share of the count of a word in a row of some length, as a byte."""
    shares: Array = bm25.score_count(counts, lengths)
    return np.maximum(np.round(shares * 255), counts > 0).astype(np.uint8)


def build(first: int, terms: Sequence[bytes], lengths: Array, columns: Mapping[str, Array]) -> Block:
    """A block from the packed terms of its rows (see `terms.pack`)."""
    sizes = np.array([len(packed) // 9 for packed in terms], np.int64)
    joined = b"".join(packed[: len(packed) // 9 * 8] for packed in terms)
    counts = np.frombuffer(b"".join(packed[len(packed) // 9 * 8 :] for packed in terms), np.uint8)
    docs = np.repeat(np.arange(len(terms), dtype=np.uint32), sizes)
    scores = score_bytes(counts.astype(np.float32), lengths[docs].astype(np.float32))
    return _sort_terms(first, np.frombuffer(joined, np.int64), docs, scores, columns)


def _sort_terms(first: int, hashes: Array, docs: Array, scores: Array, columns: Mapping[str, Array]) -> Block:
    order = np.argsort(hashes, kind="stable")  # rows of one term stay in order
    hashes, docs, scores = hashes[order], docs[order], scores[order]
    unique, starts = np.unique(hashes, return_index=True)
    return Block(first, unique, np.append(starts, len(hashes)).astype(np.int64), docs, scores, columns)


def merge(blocks: Sequence[Block]) -> Block:
    """Neighbouring blocks as one. The postings are sorted a slice of the hashes at a time."""
    edges = [*range(0, 1 << 63, (1 << 63) // _RANGES), None]
    parts = [_merged_slice(blocks, low, high) for low, high in itertools.pairwise(edges) if low is not None]
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in COLUMNS}
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", "docs", "scores")]
    return Block(blocks[0].first, joined[0], starts, joined[1], joined[2], columns)


def _merged_slice(blocks: Sequence[Block], low: int, high: int | None) -> Block:
    hashes, docs, scores = [], [], []
    for block in blocks:
        a = int(np.searchsorted(block.hashes, low))
        b = len(block.hashes) if high is None else int(np.searchsorted(block.hashes, high))
        start, end = int(block.starts[a]), int(block.starts[b])
        hashes.append(np.repeat(block.hashes[a:b], np.diff(block.starts[a : b + 1])))
        docs.append(block.docs[start:end] + np.uint32(block.first - blocks[0].first))
        scores.append(block.scores[start:end])
    return _sort_terms(0, np.concatenate(hashes), np.concatenate(docs), np.concatenate(scores), {})


# -- files ------------------------------------------------------------------------------------


def write(path: Path, block: Block) -> None:
    """Write a segment file whole; it is there or it is not."""
    arrays = {name: getattr(block, name) for name in ("hashes", "starts", "docs", "scores")}
    arrays |= {name: block.columns[name] for name in COLUMNS}
    layout, at = {}, 0
    for name, array in arrays.items():
        layout[name] = [array.dtype.str, at, len(array)]
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    pairs = [(array.view(np.uint8).data, bytes(-array.nbytes % _ALIGN)) for array in arrays.values()]
    pieces = list(itertools.chain.from_iterable(pairs))
    crc = functools.reduce(lambda so_far, piece: zlib.crc32(piece, so_far), pieces, 0)
    head = json.dumps({"first": block.first, "size": at, "crc": crc, "arrays": layout}).encode()
    start = _MAGIC + b"%08x %08x\n" % (len(head), zlib.crc32(head)) + head
    padded = start + b" " * (-len(start) % _ALIGN)
    disk.write_file(path, padded, *pieces)  # in place: copies would double the memory


def read(path: Path, *, whole: bool = False) -> Block:
    """Map a segment file. Of a large one only the first page is read and checked, unless it is to be the whole."""
    mapped = _map(path)
    head, start = _head(path, mapped)
    if "crc" in head and (whole or len(mapped) <= SMALL) and zlib.crc32(mapped[start:].data) != head["crc"]:
        raise Damaged(f"index segment {path.name}: its rows are damaged.", hint="It is made again from the history.")
    return _block(mapped, head, start)


def _map(path: Path) -> Array:
    try:
        return np.asarray(np.memmap(path, np.uint8, "r"))  # a plain array: slices of a memmap cost more
    except (OSError, ValueError) as error:
        raise Damaged(f"index segment {path.name} cannot be read: {error}.") from error


def _block(whole: Array, head: Mapping[str, Any], start: int) -> Block:
    with sound("an index segment"):
        return _arrays(whole, head, start)


def _arrays(whole: Array, head: Mapping[str, Any], start: int) -> Block:
    arrays = {
        name: whole[start + at : start + at + count * np.dtype(kind).itemsize].view(kind)
        for name, (kind, at, count) in head["arrays"].items()
    }
    columns = {name: arrays[name] for name in COLUMNS}
    if any(len(arrays[name]) != count for name, (_, _, count) in head["arrays"].items()):
        raise ValueError("it has fewer items than its head says")
    terms, postings = len(arrays["hashes"]), len(arrays["docs"])
    if (len(arrays["starts"]), len(arrays["scores"])) != (terms + 1, postings) or arrays["starts"][-1] != postings:
        raise ValueError("its arrays are of different lengths")
    return Block(
        head["first"], arrays["hashes"], arrays["starts"], arrays["docs"], arrays["scores"], columns, len(whole)
    )


def _head(path: Path, whole: Array) -> tuple[dict[str, Any], int]:
    line = len(_MAGIC) + 18
    first = bytes(whole[:line])
    try:
        if not first.startswith(_MAGIC):
            raise ValueError("it is not a segment")
        length, crc = (int(part, 16) for part in first[len(_MAGIC) :].split())
        text = bytes(whole[line : line + length])
        if zlib.crc32(text) != crc:
            raise ValueError("its head is damaged")
        head: dict[str, Any] = json.loads(text)
        start = -(-(line + length) // _ALIGN) * _ALIGN
        if len(whole) != start + head["size"]:
            raise ValueError("it was cut short")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"index segment {path.name}: {error}.", hint="It is made again from the history.") from error
    return head, start
