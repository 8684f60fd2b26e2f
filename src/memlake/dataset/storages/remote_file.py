"""Remote bytes as a file that can be read and sought: small ones whole, large ones in windows that grow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol, cast

from memlake.errors import Conflict, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects.windows import WindowedStream

WHOLE = 4 << 20  # up to here one request is cheaper than several
PIECE = 16 << 20  # of a download: what is read again when a connection breaks
_FIRST, _MOST = 256 << 10, 16 << 20  # of a window: small after a seek, doubled while reading on


class Named(Protocol):
    """What is asked of a File: where it is, and what it was when it was listed (no etag: not known)."""

    @property
    def source(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def version(self) -> str: ...
    @property
    def etag(self) -> str: ...


class Known(NamedTuple):
    """A Named whose size and etag are known."""

    source: str
    path: str
    size: int
    version: str
    etag: str

    @property
    def uri(self) -> str:
        return uri_of(self)


class Remote(NamedTuple):
    """`read(start, end)` gives exactly those bytes of exactly that version, or raises."""

    file: Known
    read: Callable[[int, int], bytes]

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, self.file.size, PIECE):
            yield self.read(start, min(start + PIECE, self.file.size))


def uri_of(file: Named) -> str:
    """For messages: without the query of a web address, which may be a signature."""
    path = file.path.partition("?")[0] if file.source.startswith("http") else file.path
    return f"{file.source}/{path}"


def changed_error(file: Named) -> Conflict:
    what = f"{uri_of(file)} is not what it was when it was listed; its bytes were not read."
    return Conflict(what, hint="List the storage again: read_storage(..., update=True).")


def missing_error(file: Named) -> NotFound:
    hint = "List the storage again: read_storage(..., update=True)." if file.etag else ""
    return NotFound(f"there is no {uri_of(file)}.", hint=hint)


def open_remote(remote: Remote) -> BinaryIO:
    if remote.file.size <= WHOLE:
        return io.BytesIO(remote.read(0, remote.file.size))
    return cast(BinaryIO, io.BufferedReader(_Window(remote), 64 << 10))


class _Window(WindowedStream):
    """Read on past the end of a window and the next is twice as long."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote.file.size)
        self._remote, self._length = remote, _FIRST

    def _load(self, wanted: int) -> tuple[int, bytes]:
        goes_on = self._window and self._at == self._start + len(self._window)
        self._length = min(self._length * 2, _MOST) if goes_on else _FIRST
        end = min(self._at + max(self._length, wanted), self._size)
        return self._at, self._remote.read(self._at, end)
