"""Bytes from elsewhere as a stream that can be read and sought, one window of them in memory. Knows no source."""

from __future__ import annotations

import io
from abc import abstractmethod


class WindowedStream(io.RawIOBase):
    """Holds one window of the bytes, so that reading on costs one fetch a window and not one a call."""

    def __init__(self, size: int) -> None:
        self._size = max(0, size)  # a damaged row can claim a negative one
        self._at = self._start = 0
        self._window = b""

    @abstractmethod
    def _load(self, wanted: int) -> tuple[int, bytes]:
        """Bytes that hold the place `_at`, and where they start. `wanted` is how many bytes are asked for there."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0, self._at, self._size)[whence]
        if at < 0:
            raise ValueError(f"cannot seek to {at}")
        self._at = at
        return at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._at >= self._size or not view:
            return 0
        if not self._start <= self._at < self._start + len(self._window):
            self._start, self._window = self._load(len(view))
        begin = self._at - self._start
        piece = self._window[begin : begin + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
