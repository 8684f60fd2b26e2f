"""The files of a vector index: what is in them, mapped for reading; rows added and erased. Knows nothing of searching.

    CURRENT      the header: small, replaced whole as the last step of every change, so it alone says what is true
    rows.<n>     int64 row ids, slot after slot
    vectors.<n>  float16 unit vectors, slot after slot
    bits.<n>     sign bits of full blocks: (blocks, words, slots of a block) uint64, so that each word is a column

Bytes beyond what the header counts are an append that did not finish. Files of other numbers are leftovers.
A map is never shortened, and the bytes a header counts are never changed but by erasing.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from memlake import nofollow
from memlake.errors import Damaged, InvalidInput
from memlake.index import binary_vectors
from memlake.index.binary_vectors import Floats, Halves, Rows, Words
from memlake.objects import disk

BLOCK = 4096  # slots; the newest ones, less than a block, have no bits and are scored exactly (under 0.5 ms)

_NAME = "CURRENT"
_MAGIC = b"MLVECT01"
_STAMP = struct.Struct("<8sQII")  # magic, serial, length of the body, crc32 of serial and body
_KINDS = ("rows", "vectors", "bits")
_ROW = 8
Sums = np.ndarray[Any, np.dtype[np.uint32]]


@dataclass(frozen=True)
class Header:
    """Everything true of the files at one moment."""

    model: str
    dimension: int
    block: int
    serial: int = 0  # one more with each change
    data: int = 0  # the number in the names of rows and vectors
    bits: int = 0  # and of bits
    count: int = 0  # slots, erased ones too
    ascending: bool = True
    rescore: int = binary_vectors.RESCORE
    mean: bytes = b""  # float32, subtracted before taking signs; mostly none
    sums: bytes = b""  # three crc32 a begun block: rows, vectors, bits
    gone: bytes = b""  # int64 slots that were erased, ascending
    erasing: bytes = b""  # those of them whose bytes may still be there, if a process died

    @property
    def blocks(self) -> int:
        return self.count // self.block

    @property
    def vector(self) -> int:
        """Bytes of one vector."""
        return 2 * self.dimension

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.blocks, binary_vectors.words(self.dimension), self.block

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each kind of file that count."""
        blocks, words, block = self.shape
        return {"rows": self.count * _ROW, "vectors": self.count * self.vector, "bits": blocks * words * block * 8}

    @property
    def next_number(self) -> int:
        """A number no file of this index has."""
        return max(self.serial, self.data, self.bits) + 1

    @property
    def names(self) -> dict[str, str]:
        return {"rows": f"rows.{self.data}", "vectors": f"vectors.{self.data}", "bits": f"bits.{self.bits}"}


def make_number() -> int:
    """The first number of an index: one made again in the same folder has other names, so no map is mistaken."""
    return secrets.randbits(32)


# -- the header on disk


def read_stamp(folder: Path) -> bytes:
    """The first bytes of the header, which differ after every change; empty before the first."""
    try:
        fd = os.open(f"{folder}{os.sep}{_NAME}", os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.read(fd, _STAMP.size)
    finally:
        os.close(fd)


def read_header(folder: Path) -> tuple[bytes, Header] | None:
    try:
        content = (folder / _NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        magic, serial, length, check = _STAMP.unpack_from(content)
    except struct.error:
        raise _make_error(folder / _NAME, f"has {len(content)} bytes") from None
    body = content[_STAMP.size :]
    if magic != _MAGIC or length != len(body) or check != _checksum(serial, body):
        raise _make_error(folder / _NAME, "does not match its checksum")
    try:
        header = Header(**msgpack.unpackb(body), serial=serial)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise _make_error(folder / _NAME, f"cannot be read: {error}") from error
    # They become names and sizes of files, so nothing but numbers may stand there, whoever wrote the checksum.
    numbers = (header.dimension, header.block, header.data, header.bits, header.count, header.rescore)
    if not all(type(number) is int and 0 <= number < 1 << 40 for number in numbers) or not header.block:
        raise _make_error(folder / _NAME, "counts what cannot be")
    return content[: _STAMP.size], header


def publish(folder: Path, header: Header) -> Header:
    """Make a header the current one; until here nobody sees what was written for it."""
    header = replace(header, serial=header.serial + 1)
    told = asdict(header)
    del told["serial"]
    body = msgpack.packb(told)
    start = _STAMP.pack(_MAGIC, header.serial, len(body), _checksum(header.serial, body))
    disk.write_file(folder / _NAME, start + body)
    return header


def _checksum(serial: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(serial.to_bytes(8, "little")))


def _make_error(path: Path, problem: str) -> Damaged:
    return Damaged(
        f"{path} {problem}. Nothing was changed.",
        hint=f"It is derived: delete {path.parent} and it is made again from what is stored.",
    )


# -- reading


@dataclass(frozen=True, eq=False)
class View:
    """The files as one header describes them, mapped; it stays valid whatever others write meanwhile."""

    stamp: bytes
    header: Header
    rows: Rows
    vectors: Halves
    bits: Words

    @cached_property
    def gone(self) -> Rows:
        return np.frombuffer(self.header.gone, np.int64)

    @cached_property
    def mean(self) -> Floats | None:
        return np.frombuffer(self.header.mean, np.float32) if self.header.mean else None

    @cached_property
    def newest(self) -> Floats:
        """The vectors of the open block, widened once: every search scores all of them (6 MB at most)."""
        return binary_vectors.widen(self.vectors[self.header.blocks * self.header.block :])

    @cached_property
    def order(self) -> Rows | None:
        """Slots by row, where rows came out of order."""
        return None if self.header.ascending else np.argsort(self.rows, kind="stable")

    def find(self, rows: Rows) -> Rows:
        """The slot of each row, erased or not; -1 for one that is not here."""
        if not self.header.count:
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows, sorter=self.order), self.header.count - 1)
        at = at if self.order is None else self.order[at]
        return np.where(self.rows[at] == rows, at, -1)

    def live(self, slots: Rows) -> Rows:
        """Slots without -1 and without erased ones."""
        slots = slots[slots >= 0]
        return slots[~np.isin(slots, self.gone)] if len(self.gone) else slots


def read_view(folder: Path, empty: Header, known: View | None = None) -> View:
    """The files as they are now, keeping the maps of `known` that are still right."""
    while True:
        found = read_header(folder)
        seen, header = found or (b"", empty)
        if (header.model, header.dimension) != (empty.model, empty.dimension):
            raise InvalidInput(
                f"{folder} holds vectors of {header.model!r} with {header.dimension} dimensions, "
                f"not of {empty.model!r} with {empty.dimension}. Nothing was changed.",
                hint="Each model needs a folder of its own.",
            )
        try:
            return map_files(folder, header, known=known, seen=seen)
        except FileNotFoundError as error:  # compacted between the header and here, or lost
            if read_stamp(folder) == seen:
                raise _make_error(Path(error.filename), "is missing") from error


def map_files(folder: Path, header: Header, *, known: View | None = None, seen: bytes = b"") -> View:
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "rows": ((header.count,), np.int64),
        "vectors": ((header.count, header.dimension), np.float16),
        "bits": (header.shape, np.uint64),
    }
    maps: dict[str, Any] = {}
    known = known if known and is_mapped(folder, known) else None
    for kind, (shape, dtype) in shapes.items():
        old = getattr(known, kind) if known and known.header.names[kind] == header.names[kind] else None
        same = old is not None and old.shape == shape
        maps[kind] = old if same else _map_array(folder / header.names[kind], shape, dtype)
    return View(seen, header, **maps)


def _map_array(path: Path, shape: tuple[int, ...], dtype: Any) -> Any:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return np.empty(shape, dtype)
    with path.open("rb") as file:
        there = os.fstat(file.fileno()).st_size
        if there < size:  # reading a map beyond its file would end the process
            raise _make_error(path, f"has {there:,} bytes where the header counts {size:,}")
        return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), dtype).reshape(shape)


def is_mapped(folder: Path, view: View) -> bool:
    """Whether the files still have what was mapped of them: reading a map beyond its file ends the process."""
    names, sizes, beside = view.header.names, view.header.sizes, f"{folder}{os.sep}"  # a Path costs more than the stat
    try:
        return all(not sizes[kind] or os.stat(beside + names[kind]).st_size >= sizes[kind] for kind in _KINDS)
    except OSError:
        return False


def find_damaged(view: View) -> list[tuple[str, int]]:
    """(kind, block) of what does not match its checksum."""
    sums, skipped = _read_sums(view.header), _find_blocks(view.header, view.header.erasing)
    wrong = []
    for block in range(len(sums)):
        for column, kind in enumerate(_KINDS):
            if block not in skipped and zlib.crc32(_read_part(view, kind, block)) != sums[block, column]:
                wrong.append((kind, block))
    return wrong


def make_damage_error(folder: Path, header: Header, wrong: list[tuple[str, int]]) -> Damaged:
    kind, block = wrong[0]
    more = f", and {len(wrong) - 1} more places" if len(wrong) > 1 else ""
    first, last = block * header.block, min(header.count, (block + 1) * header.block)
    return _make_error(folder / header.names[kind], f"does not match its checksum in slots {first:,} to {last:,}{more}")


def _read_part(view: View, kind: str, block: int) -> memoryview:
    """The bytes of one block in one kind of file; an open block has no bits."""
    if kind == "bits":
        return view.bits[block : block + 1].data
    whole: Rows | Halves = getattr(view, kind)
    return whole[block * view.header.block : (block + 1) * view.header.block].data


def _read_sums(header: Header) -> Sums:
    return np.frombuffer(header.sums, np.uint32).reshape(-1, 3).copy()


def _find_blocks(header: Header, slots: bytes) -> set[int]:
    return set((np.frombuffer(slots, np.int64) // header.block).tolist())


# -- adding


class Writer:
    """Adds rows after those a header counts. Only `finish`, then `publish` of what it returns, makes them count."""

    def __init__(self, folder: Path, header: Header) -> None:
        self._header, self._mean = header, np.frombuffer(header.mean, np.float32) if header.mean else None
        self._sums = _read_sums(header)
        self._touched: set[str] = set()
        self._files = contextlib.ExitStack()
        new = [name for name in header.names.values() if not (folder / name).exists()]
        self._fds = {kind: self._files.enter_context(_open_file(folder / header.names[kind])) for kind in _KINDS}
        if new:
            disk.fsync_dir(folder)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, rows: Rows, vectors: Halves) -> None:
        """Write rows block by block; the bits of a block when it is full."""
        while len(rows):
            room = self._header.block - self._header.count % self._header.block
            self._add_to_block(rows[:room], vectors[:room])
            rows, vectors = rows[room:], vectors[room:]

    def _add_to_block(self, rows: Rows, vectors: Halves) -> None:
        header = self._header
        block = header.count // header.block
        if block == len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros((1, 3), np.uint32)])
        self._write_part("rows", block, content=rows.tobytes(), offset=header.count * _ROW)
        self._write_part("vectors", block, content=vectors.tobytes(), offset=header.count * header.vector)
        self._header = replace(header, count=header.count + len(rows))
        if self._header.blocks > header.blocks:
            self._seal(block)

    def _seal(self, block: int) -> None:
        size = self._header.block * self._header.vector
        content = os.pread(self._fds["vectors"], size, block * size)
        vectors = np.frombuffer(content, np.float16).reshape(self._header.block, -1)
        bits = binary_vectors.pack(vectors, self._mean).tobytes()
        self._write_part("bits", block, content=bits, offset=block * len(bits))

    def _write_part(self, kind: str, block: int, *, content: bytes, offset: int) -> None:
        column = _KINDS.index(kind)
        self._sums[block, column] = zlib.crc32(content, int(self._sums[block, column]))
        self._touched.add(kind)
        disk.write_at(self._fds[kind], content, offset)

    def finish(self, *, ascending: bool) -> Header:
        """Everything on disk; the header that counts it."""
        for kind in sorted(self._touched):
            disk.fsync_file(self._fds[kind])
        return replace(self._header, sums=self._sums.tobytes(), ascending=ascending)


@contextlib.contextmanager
def _open_file(path: Path) -> Iterator[int]:
    fd = nofollow.open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        yield fd
    finally:
        os.close(fd)


def write_bits(folder: Path, view: View, mean: Floats) -> Header:
    """All bits once more in a file of their own, with a mean subtracted; the header that names it."""
    header = replace(view.header, bits=view.header.next_number, mean=mean.tobytes())
    sums, block = _read_sums(header), header.block
    with _open_file(folder / header.names["bits"]) as fd:
        for number in range(header.blocks):
            bits = binary_vectors.pack(view.vectors[number * block : (number + 1) * block], mean).tobytes()
            sums[number, _KINDS.index("bits")] = zlib.crc32(bits)
            disk.write_at(fd, bits, number * len(bits))
        disk.fsync_file(fd)
    disk.fsync_dir(folder)
    return replace(header, sums=sums.tobytes())


# -- removing


def erase(folder: Path, header: Header) -> Header:
    """Zero what the header says is being erased, and what an unfinished append left; the header of the result."""
    slots = np.frombuffer(header.erasing, np.int64)
    for kind in ("vectors", "bits"):
        with _open_file(folder / header.names[kind]) as fd:
            for offset, length in _list_places(header, kind, slots):
                disk.write_at(fd, bytes(length), offset)
            excess = os.fstat(fd).st_size - header.sizes[kind]
            if excess > 0:
                disk.write_at(fd, bytes(excess), header.sizes[kind])
            disk.fsync_file(fd)
    view, sums = map_files(folder, header), _read_sums(header)
    for block in _find_blocks(header, header.erasing):
        sums[block] = [zlib.crc32(_read_part(view, kind, block)) for kind in _KINDS]
    return replace(header, erasing=b"", sums=sums.tobytes())


def _list_places(header: Header, kind: str, slots: Rows) -> Iterator[tuple[int, int]]:
    """(offset, length) of these slots in a file."""
    blocks, words, block = header.shape
    for slot in slots.tolist():
        if kind == "vectors":
            yield slot * header.vector, header.vector
        elif slot < blocks * block:
            first = slot // block * words * block + slot % block
            yield from (((first + word * block) * 8, 8) for word in range(words))


def sweep(folder: Path, header: Header) -> None:
    """Remove files that an interrupted change or an older header left."""
    mine = {_NAME, *header.names.values()} if header.serial else set()
    for name in os.listdir(folder):
        if name not in mine and name.split(".")[0] in {_NAME, *_KINDS}:
            disk.unlink(folder / name)
