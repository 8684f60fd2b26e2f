"""A stream over bytes from elsewhere: it reads and seeks as a file does, and loads one window at a time."""

from __future__ import annotations

import io

import pytest

from memlake.objects.windows import WindowedStream

DATA = bytes(range(256)) * 4
WINDOW = 100


class Counted(WindowedStream):
    """Windows of a fixed length, of which it notes those that were loaded."""

    def __init__(self, size: int = len(DATA)) -> None:
        super().__init__(size)
        self.loaded: list[int] = []

    def _load(self, wanted: int) -> tuple[int, bytes]:
        start = self._at // WINDOW * WINDOW
        self.loaded.append(start)
        return start, DATA[start : start + WINDOW]


def test_it_reads_and_seeks_as_a_file_does() -> None:
    ours, file = io.BufferedReader(Counted(), 16), io.BytesIO(DATA)
    for offset, whence, count in ((0, 0, 7), (5, 1, 250), (-30, 2, 100), (0, 0, -1), (2000, 0, 5)):
        assert ours.seek(offset, whence) == file.seek(offset, whence)
        assert ours.read(count) == file.read(count)
        assert ours.tell() == file.tell()


def test_reading_on_loads_each_window_once() -> None:
    stream = Counted()
    assert stream.readall() == DATA
    assert stream.loaded == list(range(0, len(DATA), WINDOW))


def test_seeking_before_the_start_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot seek to -1"):
        Counted().seek(-1)


def test_a_negative_size_is_an_empty_stream() -> None:
    stream = Counted(-1)
    assert stream.seek(0, io.SEEK_END) == 0
    assert stream.read(10) == b""
