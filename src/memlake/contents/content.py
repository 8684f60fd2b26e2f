"""One side of a file: its name, its size, and how to read it. Counts what is read. Knows no format and no repo."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from memlake.errors import Error
from memlake.objects.store import Objects
from memlake.records import Entry

_HEAD = 512  # bytes that tell what a file is
Pieces = Sequence[tuple[bytes, int]]
Beside = Callable[[str], "Content | None"]


class Unreadable(Error):
    """The file is not what its name says. Whoever asked falls back on its bytes, and says why."""


class Content:
    """Bytes that may be large: read from where they are, by whoever needs which of them.

    `pieces` are the chunks it is stored in, (hash, length), so that two contents can be found equal in places
    without reading either; a working file has none. `beside` opens another file of the same commit by its path, if
    there is one: the ids of a matrix, for example.
    """

    def __init__(
        self,
        path: str,
        size: int,
        opener: Callable[[], BinaryIO],
        pieces: Callable[[], Pieces] | None = None,
        beside: Beside | None = None,
    ):
        self.path, self.size, self._opener, self._list_pieces = path, size, opener, pieces
        self._beside = beside
        self.oid = ""  # of what is stored
        self.bytes_read = 0
        self._stream: BinaryIO | None = None
        self._head: bytes | None = None
        self._whole: bytes | None = None
        self._pieces: tuple[Pieces, list[int]] | None = None
        self._held: dict[tuple[int, int, int], bool] = {}

    @property
    def suffix(self) -> str:
        return self.path.rsplit(".", 1)[-1].lower()

    def read_head(self, length: int) -> bytes:
        """The first bytes, which several may look at before one of them reads on. They are read once."""
        if self._head is None:
            self._head = self.read(_HEAD)
        return self._head[:length]

    def read(self, length: int | None = None, start: int = 0) -> bytes:
        if self._stream is None:
            self._stream = self._opener()
        self._stream.seek(start)
        data = self._stream.read(-1 if length is None else length)
        self.bytes_read += len(data)
        return data

    def find_beside(self, path: str) -> Content | None:
        return self._beside(path) if self._beside else None

    def read_whole(self) -> bytes:
        """All of it, for those who need it more than once. It is read once, and kept until this is closed."""
        if self._whole is None:
            self._whole = self.read()
        return self._whole

    def open(self) -> io.RawIOBase:
        """A stream of its own, whose reads are counted."""
        return _Counted(self)

    @property
    def has_pieces(self) -> bool:
        return self._list_pieces is not None

    def list_pieces(self) -> Pieces:
        return self._list_pieces() if self._list_pieces else ()

    def describe_range(self, start: int, length: int) -> tuple[object, ...] | None:
        """What a range consists of by its chunks. Two ranges with equal descriptions hold equal bytes."""
        if self._list_pieces is None:
            return None
        pieces, starts = self._load_pieces()
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, start + length - 1))
        return (start - starts[first], length, *(digest for digest, _ in pieces[first:last]))

    def has_same_range(self, start: int, other: Content, other_start: int, length: int) -> bool:
        """Whether a range of this one holds what a range of another holds; reads them only if their chunks differ.

        If one side alone is stored, the other is read and hashed chunk by chunk, and of what is stored next to nothing.
        """
        mine, theirs = self.describe_range(start, length), other.describe_range(other_start, length)
        if mine is not None and mine == theirs:
            return True
        if mine is not None and theirs is None:
            return self._matches(start, other, other_start, length)
        if theirs is not None and mine is None:
            return other._matches(other_start, self, start, length)
        return self.read(length, start) == other.read(length, other_start)

    def _load_pieces(self) -> tuple[Pieces, list[int]]:
        if self._pieces is None:
            pieces = self.list_pieces()
            self._pieces = pieces, [0, *accumulate(size for _, size in pieces)]
        return self._pieces

    def _matches(self, start: int, other: Content, other_start: int, length: int) -> bool:
        """Whether a file that is not stored has what this one has in a range, by the hashes of chunks of this one."""
        starts, shift, stop = self._load_pieces()[1], other_start - start, start + length
        for number in range(bisect_right(starts, start) - 1, bisect_right(starts, max(start, stop - 1))):
            first, last = max(starts[number], start), min(starts[number + 1], stop)
            if self._holds_chunk(number, other, shift):
                continue
            is_whole = last - first == starts[number + 1] - starts[number]
            if is_whole or self.read(last - first, first) != other.read(last - first, first + shift):
                return False
        return True

    def _holds_chunk(self, number: int, other: Content, shift: int) -> bool:
        """Whether another has a chunk of this one, so far from where it is here. Ranges side by side share chunks."""
        pieces, starts = self._load_pieces()
        at, length, key = starts[number] + shift, pieces[number][1], (id(other), shift, number)
        if key not in self._held:
            is_inside = at >= 0 and at + length <= other.size
            self._held[key] = is_inside and sha256(other.read(length, at)).digest() == pieces[number][0]
        return self._held[key]

    def close(self) -> None:
        self._whole = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Counted(io.RawIOBase):
    """A stream over a content: what libraries call a file."""

    def __init__(self, content: Content) -> None:
        self._content, self._at = content, 0

    def readinto(self, buffer: Any, /) -> int:
        data = self._content.read(len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (0, self._at, self._content.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def open_stored(objects: Objects, path: str, entry: Entry, beside: Beside | None = None) -> Content:
    """The content of an object; nothing is read yet."""
    content = Content(path, entry.size, lambda: objects.open(entry.oid), lambda: objects.pieces(entry.oid), beside)
    content.oid = entry.oid
    return content


def open_file(path: str, file: Path, beside: Beside | None = None) -> Content:
    """The content of a file on disk."""
    return Content(path, file.stat().st_size, lambda: file.open("rb"), beside=beside)
