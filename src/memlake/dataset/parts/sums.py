"""Sums: whether what is read of a part is what was written. DuckDB does not look: it would answer from a flipped bit.

The pages of a Parquet file carry a CRC each, its footer has none: that one is hashed in the manifest. Only columns that
are read are looked at, once for each process and file, at 3 GB a second. A stranger may have written the part with all
its sums right, so what it unpacks to is counted from the pages themselves, and has a limit.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple

_END = 8  # the length of the footer and the magic word after it
_checked: dict[tuple[str, int, int], dict[str, int]] = {}  # by path, time and size: what each sound column unpacks to
_KEPT = 100_000
_MOST_ROWS = 1 << 20
MOST_BYTES, _MOST_TIMES = 1 << 30, 1000  # unpacked: so many, and so many times what lies there
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4}
_LEVELS = 4  # bytes that reading takes for each value of a list
_BY_NUMBER = (2, 8)  # encodings of values: by their number in the dictionary
_ENCODINGS = (0, 3, *_BY_NUMBER)  # as they are, and in runs
_RUNS = 3
_LOOKED = 4 << 20  # bytes of a page of which several copies are made to count; ours have one megabyte, and a value
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2

_Array = npt.NDArray[Any]


def footer(path: str) -> str:
    """16 hex digits of what the footer of a Parquet file says."""
    with open(path, "rb") as file:
        return _footer_of(file.fileno(), os.fstat(file.fileno()).st_size)


def check(path: str, columns: Sequence[str], wanted: str, groups: Collection[int] | None = None) -> None:
    """Raise Corrupt where the footer or a page of these columns is not what was written, or unpacks to far too much.

    With `groups`, only these row groups are looked at.
    """
    with open(path, "rb") as file:
        fd, stat = file.fileno(), os.fstat(file.fileno())
        sound = _checked.get((path, stat.st_mtime_ns, stat.st_size))
        if sound is None:
            if _footer_of(fd, stat.st_size) != wanted:
                raise Corrupt(f"the footer of {path} is damaged.")
            if len(_checked) >= _KEPT:
                _checked.clear()
            sound = _checked.setdefault((path, stat.st_mtime_ns, stat.st_size), {})
        if fresh := [name for name in columns if name not in sound]:
            most = MOST_BYTES + _MOST_TIMES * stat.st_size
            sizes = {**(sound if groups is None else {}), **_check_pages(fd, path, fresh, groups)}
            if sum(sizes.values()) > most:
                sizes = _check_pages(fd, path, list(sizes), groups, is_exact=True)
            if (unpacked := sum(sizes.values())) > most:
                raise Corrupt(f"{path} has {stat.st_size:,} bytes, which unpack to {unpacked:,}: more than a part has.")
            sound.update(sizes if groups is None else {})


def missing_bytes(path: str, columns: Sequence[str]) -> int:
    """By how much a part is too short for what it unpacks to: as it is, nobody would read it."""
    with open(path, "rb") as file:
        unpacked = sum(_check_pages(file.fileno(), path, columns, is_exact=True).values())
    return max(0, -(-(unpacked - MOST_BYTES) // _MOST_TIMES) - os.path.getsize(path))


def _footer_of(fd: int, size: int) -> str:
    length = int.from_bytes(os.pread(fd, 4, size - _END), "little")
    return hashlib.sha256(os.pread(fd, length + _END, max(size - _END - length, 0))).hexdigest()[:16]


def _check_pages(
    fd: int, path: str, columns: Sequence[str], groups: Collection[int] | None = None, *, is_exact: bool = False
) -> dict[str, int]:
    """What each column unpacks to (at most, unless it `is_exact`), once all of its pages are seen to be sound."""
    file = pq.read_metadata(path)
    if file.num_rows > _MOST_ROWS:
        raise Corrupt(f"{path} says it holds {file.num_rows:,} rows, more than a part has.")
    sizes = dict.fromkeys(columns, 0)
    leaves = {number: file.schema.column(number) for number in range(file.num_columns)}
    homes = {number: _column_of(leaf.path, sizes) for number, leaf in leaves.items()}
    for group in range(file.num_row_groups) if groups is None else groups:
        row_group = file.row_group(group)
        for number, name in homes.items():
            if name is not None:
                chunk = row_group.column(number)
                start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
                data = os.pread(fd, chunk.total_compressed_size, start)
                pages = list(_read_pages(data))
                if len(data) < chunk.total_compressed_size or not all(page.is_sound(data) for page in pages):
                    raise Corrupt(f"column {name!r} of {path} is damaged.")
                try:
                    sizes[name] += _Chunk(leaves[number], chunk.compression, data, pages).count_unpacked(
                        is_exact=is_exact
                    )
                except (IndexError, ValueError) as error:
                    raise Corrupt(f"column {name!r} of {path} is written as no part is: {error}.") from error
    return sizes


def _column_of(leaf: str, columns: Mapping[str, int]) -> str | None:
    """The column that a leaf such as `a.b.list.element` is of."""
    return next((name for name in itertools.accumulate(leaf.split("."), "{}.{}".format) if name in columns), None)


class _Page(NamedTuple):
    start: int
    length: int
    crc: int = -1
    kind: int = -1
    unpacked: int = 0
    values: int = 0
    encoding: int = -1

    def is_sound(self, data: bytes) -> bool:
        end = self.start + self.length
        page = memoryview(data)[self.start : end]
        return self.length >= 0 and end <= len(data) and zlib.crc32(page) == self.crc & 0xFFFFFFFF

    def is_ours(self) -> bool:
        """Whether our writer makes such pages. Others, as of texts that share beginnings, could not be counted."""
        known = self.kind == _DICTIONARY_PAGE or (self.kind == _DATA_PAGE and self.encoding in _ENCODINGS)
        return known and min(self.values, self.unpacked) >= 0


class _Chunk(NamedTuple):
    """A column of a row group, to count what it unpacks to before anybody unpacks it."""

    leaf: pq.ColumnSchema
    compression: str
    data: bytes
    pages: Sequence[_Page]

    def count_unpacked(self, *, is_exact: bool) -> int:
        if not all(page.is_ours() for page in self.pages):
            raise ValueError("a page in another encoding")
        size, values = sum(page.unpacked for page in self.pages), sum(page.values for page in self.pages)
        width = _WIDTHS.get(self.leaf.physical_type) or self.leaf.length
        size = max(size, values * max(width, _LEVELS if self.leaf.max_repetition_level else 0))
        numbers = [page for page in self.pages if page.encoding in _BY_NUMBER]
        return size + (
            self._count_words(numbers, is_exact) if numbers and self.leaf.physical_type == "BYTE_ARRAY" else 0
        )

    def _count_words(self, pages: Sequence[_Page], is_exact: bool) -> int:
        """How many bytes of text the rows name in the dictionary: as if each named the longest, or exactly."""
        values = sum(page.values for page in pages)
        words = max((page for page in self.pages if page.kind == _DICTIONARY_PAGE), key=lambda page: page.unpacked)
        if words.unpacked > MOST_BYTES or (values * words.unpacked < _LOOKED and not is_exact):
            return values * words.unpacked
        lengths = _read_lengths(self._unpack_page(words))
        return (
            sum(self._count_page(page, lengths) for page in pages) if is_exact else values * int(lengths.max(initial=0))
        )

    def _count_page(self, page: _Page, lengths: _Array) -> int:
        if page.unpacked > _LOOKED:
            raise ValueError(f"a page of {page.unpacked:,} bytes")
        data, at = self._unpack_page(page), 0
        for level in (self.leaf.max_repetition_level, self.leaf.max_definition_level):
            at += 4 + int.from_bytes(data[at : at + 4], "little") if level else 0
        return sum(int(lengths[numbers].sum()) * times for numbers, times in _read_runs(data, at, page.values))

    def _unpack_page(self, page: _Page) -> bytes:
        data = self.data[page.start : page.start + page.length]
        if self.compression == "UNCOMPRESSED":
            return data
        return pa.Codec(self.compression.lower()).decompress(data, page.unpacked, asbytes=True)  # type: ignore[no-any-return]


def _read_lengths(words: bytes) -> _Array:
    """The lengths of the texts of a dictionary. Each stands before its text, so that one leads to the next."""
    if len(words) <= _LOOKED:  # short texts without zeros, as usual: all are guessed at once, and that is then checked
        data = np.frombuffer(words, np.uint8)
        guess = np.flatnonzero((data[1:-2] | data[2:-1] | data[3:]) == 0)
        lengths = data[guess].astype(np.int64)
        if np.array_equal(np.append(guess, len(words)), np.append(0, guess + 4 + lengths)):
            return lengths
    lengths_read, at = [], 0
    while at < len(words):
        lengths_read.append(int.from_bytes(words[at : at + 4], "little"))
        at += 4 + lengths_read[-1]
        if len(lengths_read) > _MOST_ROWS:
            raise ValueError(f"a dictionary of more than {_MOST_ROWS:,} texts")
    return np.array(lengths_read, np.int64)


def _read_runs(data: bytes, at: int, most: int) -> Iterator[tuple[_Array, int]]:
    """The numbers that a page of values has: a few, and how often these come. Runs of one number, or of packed bits."""
    width, at = data[at], at + 1
    if not width:
        yield np.zeros(1, np.int64), most
        return
    while most > 0 and at < len(data):
        head, at = _read_varint(data, at)
        if head & 1:
            count, length = min(most, (head >> 1) * 8), (head >> 1) * width
            bits = np.unpackbits(np.frombuffer(data[at : at + length], np.uint8), bitorder="little")
            rows = bits[: len(bits) // width * width].reshape(-1, width)[:count]
            yield rows @ (1 << np.arange(width, dtype=np.int64)), 1
        else:
            count, length = min(most, head >> 1), (width + 7) // 8
            yield np.array([int.from_bytes(data[at : at + length], "little")]), count
        most, at = most - count, at + length


# -- the headers of pages: structs of Thrift's compact protocol -------------------------------------------------------


def _read_pages(data: bytes) -> Iterator[_Page]:
    at = 0
    while at < len(data):
        try:
            fields, start = _read_struct(data, at)
            header = fields[5] if fields[1] == _DATA_PAGE else {1: 0, 2: -1}
            encoding = header[2] if header.get(3, _RUNS) == header.get(4, _RUNS) == _RUNS else -1  # with levels as ours
            page = _Page(start, fields[3], fields[4], fields[1], fields[2], header[1], encoding)
        except (IndexError, KeyError, RecursionError, ValueError):
            page = _Page(at, -1)
        yield page
        at = page.start + page.length if page.length >= 0 else len(data)


_INT, _STRUCT, _BINARY, _DOUBLE, _BYTE = 5, 12, 8, 7, 3
_BOOLS = (1, 2)


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The structs and 32-bit numbers of a struct by field, and where it ends. Of a field twice, the last counts."""
    fields: dict[int, Any] = {}
    field = 0
    while (head := data[at]) != 0:
        field, at = (field + (head >> 4), at + 1) if head >> 4 else _read_signed(data, at + 1)
        kind = head & 15
        if kind == _STRUCT:
            fields[field], at = _read_struct(data, at)
        elif kind == _INT:
            fields[field], at = _read_signed(data, at)
        else:
            at = _skip_value(data, at, kind)
    return fields, at + 1


def _skip_value(data: bytes, at: int, kind: int) -> int:
    """Where a value of a kind ends. The headers of pages hold numbers, flags, bytes and structs of these."""
    if kind in _BOOLS:
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    value, at = _read_varint(data, at)
    return at + value if kind == _BINARY else at


def _read_signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number of more than 64 bits")
