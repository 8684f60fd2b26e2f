"""Bytes of which nothing is known: which ranges differ. What is stored is compared by its chunks, and hardly read.

Equal chunks are equal bytes wherever they stand, so an insertion moves the rest and does not change it. Only the
chunks that differ are read, up to a bound, to say more exactly what differs in them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence

import numpy as np

from memlake.contents.content import Content, Pieces
from memlake.contents.explain import How
from memlake.named_tuple import NamedTuple
from memlake.objects.chunks import cut
from memlake.versions.text.lines import match_lines

_LARGEST = 1 << 30  # bytes of a working file that are cut into chunks to be compared
_READ = 32 << 20  # bytes of both sides that are read to see what differs in chunks that do
_NEAR = 16  # equal bytes between two ranges that are told as one


class ByteRange(NamedTuple):
    """Bytes of the old side, and what stands in their place on the new one; a length of 0 is nothing."""

    old_start: int
    old_length: int
    new_start: int
    new_length: int


class ByteDiff(NamedTuple):
    """What differs between two files of bytes. `same` bytes are equal on both sides, in the same order."""

    old_size: int
    new_size: int
    old_hash: str  # SHA-256; empty if the file was not read
    new_hash: str
    same: int
    range_count: int
    ranges: tuple[ByteRange, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.old_size == self.new_size == self.same


def diff(old: Content, new: Content, how: How) -> ByteDiff:
    for side in (old, new):
        if not side.has_pieces and side.size > _LARGEST:
            note = f"a working file of more than {_LARGEST >> 30} GiB is compared by its ranges once it is added"
            return ByteDiff(old.size, new.size, old.oid, new.oid, 0, 0, (), (note,))
    was, now = (_list_pieces(side, old.size) for side in (old, new))
    ranges, left = list[ByteRange](), _READ
    for gap in _find_gaps(was.pieces, now.pieces):
        size = gap.old_length + gap.new_length
        if size <= left:
            left -= size
            ranges += _look_closer(old, new, gap)
        else:
            ranges.append(gap)
    same = old.size - sum(one.old_length for one in ranges)
    return ByteDiff(old.size, new.size, was.hash, now.hash, same, len(ranges), tuple(ranges[: how.limit]))


class _Cut(NamedTuple):
    pieces: Pieces
    hash: str


def _list_pieces(content: Content, size: int) -> _Cut:
    """The chunks of a content. One that is stored whole, or not at all, is cut as one of `size` bytes would be."""
    stored = content.list_pieces() if content.has_pieces else ()
    if len(stored) > 1:
        return _Cut(stored, content.oid)
    whole, pieces = hashlib.sha256(), list[tuple[bytes, int]]()
    with io.BufferedReader(content.open()) as stream:
        for piece in cut(stream, size):
            whole.update(piece)
            pieces.append((hashlib.sha256(piece).digest(), len(piece)))
    return _Cut(pieces, whole.hexdigest())


def _find_gaps(old: Pieces, new: Pieces) -> Iterator[ByteRange]:
    """What lies between chunks that both sides have."""
    starts, ends = ([0, *np.cumsum([size for _, size in side]).tolist()] for side in (old, new))
    at_old = at_new = 0
    blocks = match_lines(*([digest.hex() for digest, _ in side] for side in (old, new)))
    for first, second, count in (*blocks, (len(old), len(new), 0)):
        gap = ByteRange(starts[at_old], starts[first] - starts[at_old], ends[at_new], ends[second] - ends[at_new])
        if gap.old_length or gap.new_length:
            yield gap
        at_old, at_new = first + count, second + count


def _look_closer(old: Content, new: Content, gap: ByteRange) -> Sequence[ByteRange]:
    """The ranges inside of one that differ: byte by byte if it kept its length, else from its first to its last."""
    was = np.frombuffer(old.read(gap.old_length, gap.old_start), np.uint8)
    now = np.frombuffer(new.read(gap.new_length, gap.new_start), np.uint8)
    shorter = min(len(was), len(now))
    if len(was) == len(now):
        places = np.flatnonzero(was != now)
        if not len(places):
            return ()
        breaks = np.flatnonzero(np.diff(places) > _NEAR)
        firsts, lasts = places[[0, *(breaks + 1)]], places[[*breaks, -1]]
        return [
            ByteRange(gap.old_start + first, last - first + 1, gap.new_start + first, last - first + 1)
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
        ]
    head = _count_equal(was[:shorter], now[:shorter])
    tail = _count_equal(was[head:][::-1][: shorter - head], now[head:][::-1][: shorter - head])
    return [
        ByteRange(gap.old_start + head, len(was) - head - tail, gap.new_start + head, len(now) - head - tail)
    ]  # fmt: skip


def _count_equal(
    was: np.ndarray[tuple[int], np.dtype[np.uint8]], now: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> int:
    different = np.flatnonzero(was != now)
    return int(different[0]) if len(different) else len(was)
