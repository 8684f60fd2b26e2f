"""Cutting a stream by its content, and the list of chunks a large object is made of. Knows no store.

Equal content is cut at equal places wherever it stands, so a small edit of a large file changes a few chunks. Where it
is cut is not part of any identity: an object's oid is the hash of its whole content.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Protocol

from memlake.errors import Corrupt

WHOLE_BELOW = 1 << 20  # smaller objects are kept whole
COARSE_FROM = 64 << 20  # from here chunks of 256 KB cost 4 % more bytes and a quarter of the rows
FINE, COARSE = 64 << 10, 256 << 10
BUFFER = 8 << 20
_ITEM = struct.Struct("<32sI")


class Stream(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


def cut(stream: Stream, size: int) -> Iterator[memoryview]:
    """The pieces of a stream in order. A piece is valid only until the next one is asked for."""
    from pyfastcdc import FastCDC

    cutter = FastCDC(avg_size=COARSE if size >= COARSE_FROM else FINE)
    buffer = bytearray(BUFFER)
    view, kept = memoryview(buffer), 0
    while True:
        got = _fill(stream, view[kept:])
        end = kept + got
        if end == 0:
            return
        last = end < len(buffer)
        pieces = [(c.offset, c.length) for c in cutter.cut_buf(view[:end])]
        # The last piece may go on in the next buffer. Cutting it again there is right, because a cut depends only on
        # what follows the cut before it.
        tail = None if last else pieces.pop()
        for start, length in pieces:
            yield view[start : start + length]
        if tail is None:
            return
        kept = tail[1]
        buffer[:kept] = bytes(view[tail[0] : tail[0] + kept])


def _fill(stream: Stream, view: memoryview) -> int:
    got = 0
    while got < len(view):
        n = stream.readinto(view[got:])
        if not n:
            break
        got += n
    return got


def encode_list(oid: bytes, items: list[tuple[bytes, int]]) -> bytes:
    """A chunk list: a check over itself and its object, then (oid, length) of each chunk.

    With the check, a read of a few chunks can trust the list without reading the whole object.
    """
    body = b"".join(_ITEM.pack(chunk, length) for chunk, length in items)
    return hashlib.sha256(oid + body).digest() + body


def decode_list(oid: bytes, data: bytes, size: int | None = None) -> list[tuple[bytes, int]]:
    """The chunks of an object. If its size is given, they must add up to it, and each be smaller: none holds itself."""
    check, body = data[:32], data[32:]
    if len(body) % _ITEM.size or hashlib.sha256(oid + body).digest() != check:
        raise Corrupt(f"the chunk list of object {oid.hex()} is damaged.", hint="Run memlake fsck --full.")
    items = list(_ITEM.iter_unpack(body))
    if size is not None and (sum(n for _, n in items) != size or max((n for _, n in items), default=-1) >= size):
        raise Corrupt(f"the chunks of object {oid.hex()} do not add up to its size.", hint="Run memlake fsck --full.")
    return items
