"""Sums: whether what is read of a part is what was written. DuckDB does not look: it would answer from a flipped bit.

The pages of a Parquet file carry a CRC each, its footer has none: that one is hashed in the manifest. Only columns that
are read are looked at, once for each process and file, at 3 GB a second.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.parquet as pq

from memlake.errors import Corrupt

_END = 8  # the length of the footer and the magic word after it
_checked: dict[tuple[str, int, int], set[str]] = {}  # by path, time and size: the columns seen to be sound
_KEPT = 100_000


def footer(path: str) -> str:
    """16 hex digits of what the footer of a Parquet file says."""
    with open(path, "rb") as file:
        return _footer_of(file.fileno(), os.fstat(file.fileno()).st_size)


def check(path: str, columns: Sequence[str], wanted: str) -> None:
    """Raise Corrupt where the footer or a page of these columns is not what was written."""
    with open(path, "rb") as file:
        fd, stat = file.fileno(), os.fstat(file.fileno())
        sound = _checked.get((path, stat.st_mtime_ns, stat.st_size))
        if sound is None:
            if _footer_of(fd, stat.st_size) != wanted:
                raise Corrupt(f"the footer of {path} is damaged.")
            if len(_checked) >= _KEPT:
                _checked.clear()
            sound = _checked.setdefault((path, stat.st_mtime_ns, stat.st_size), set())
        if fresh := [name for name in columns if name not in sound]:
            _check_pages(fd, path, fresh)
            sound.update(fresh)


def _footer_of(fd: int, size: int) -> str:
    length = int.from_bytes(os.pread(fd, 4, size - _END), "little")
    return hashlib.sha256(os.pread(fd, length + _END, max(size - _END - length, 0))).hexdigest()[:16]


def _check_pages(fd: int, path: str, columns: Sequence[str]) -> None:
    tops = tuple(f"{name}." for name in columns)
    for start, length, leaf in _chunks(path):
        if f"{leaf}.".startswith(tops):
            data = os.pread(fd, length, start)
            if len(data) < length or not all(_sums(data)):
                raise Corrupt(f"column {leaf!r} of {path} is damaged.")


def _chunks(path: str) -> Iterator[tuple[int, int, str]]:
    """Where each column of each row group lies: start, length, the path of the column."""
    found = pq.read_metadata(path)
    for group in range(found.num_row_groups):
        row_group = found.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            yield start, chunk.total_compressed_size, chunk.path_in_schema


class _Page(NamedTuple):
    start: int
    length: int
    crc: int


def _sums(data: bytes) -> Iterator[bool]:
    """Whether each page of a chunk has the sum its header says."""
    at, view = 0, memoryview(data)
    while at < len(data):
        page = _page(data, at)
        at = page.start + page.length
        yield page.length >= 0 and at <= len(data) and zlib.crc32(view[page.start : at]) == page.crc & 0xFFFFFFFF


def _page(data: bytes, at: int) -> _Page:
    """The header of a page: a struct of Thrift's compact protocol, of which two fields are looked at."""
    length = crc = -1
    try:
        field = 0
        while (head := data[at]) != 0:
            field, at = (field + (head >> 4), at + 1) if head >> 4 else _signed(data, at + 1)
            if field == 3:
                length, at = _signed(data, at)
            elif field == 4:
                crc, at = _signed(data, at)
            else:
                at = _skip(data, at, head & 15)
    except (IndexError, RecursionError):
        return _Page(at, -1, -1)
    return _Page(at + 1, length, crc)


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


_STRUCT, _BINARY, _DOUBLE, _BYTE = 12, 8, 7, 3
_BOOLS = (1, 2)


def _skip(data: bytes, at: int, kind: int) -> int:
    """Where a value of a kind ends. The headers of pages hold numbers, flags, bytes and structs of these."""
    if kind in _BOOLS:
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if kind != _STRUCT:
        value, at = _varint(data, at)
        return at + value if kind == _BINARY else at
    while (head := data[at]) != 0:
        at = at + 1 if head >> 4 else _varint(data, at + 1)[1]
        at = _skip(data, at, head & 15)
    return at + 1
