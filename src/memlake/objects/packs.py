"""The pack file: many objects or chunks in one sealed file that describes itself. Knows no database.

MLPACK01 | bytes of records ... | footer | length of footer, 8 bytes little-endian | MLPACKED
footer = msgpack [nonce, [[oid, form, start, length, size], ...]];  name = SHA-256 of the footer, in hex

The nonce gives two writers of the same content two packs: what one takes back is never what the other relies on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path
from typing import NamedTuple

import msgpack
import zstandard

from memlake.errors import Corrupt
from memlake.objects import disk
from memlake.objects.places import Place

MAGIC, END = b"MLPACK01", b"MLPACKED"
LIMIT = 64 << 20
BLOCK = 4096
INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, CHUNKED, PART = range(6)
_FLUSH = 1 << 20

Record = tuple[bytes, int, int, int, int]  # oid, form, start, length, size


class _Contexts(threading.local):
    """A pair for each thread: zstd lets go of the GIL, and a context used by two at once mixes their bytes."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Contexts()


def squeeze(data: bytes | memoryview) -> bytes | None:
    """The data compressed, or None when that would save less than a twentieth."""
    packed = _zstd.compressor.compress(data)
    return packed if len(packed) <= len(data) - len(data) // 20 - 8 else None


def expand(data: bytes, size: int) -> bytes:
    """Decompress to exactly `size` bytes: a frame that claims more is refused before it is unpacked."""
    try:
        if zstandard.frame_content_size(data) != size:
            raise Corrupt("a compressed record does not have the size its row says.")
        return _zstd.decompressor.decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Corrupt(f"a compressed record cannot be unpacked: {error}.") from error


class Sealed(NamedTuple):
    name: str
    path: Path
    size: int
    records: tuple[Record, ...]


class PackWriter:
    """Appends records to a temporary file; `seal` finishes it. A crash leaves only a file in tmp/."""

    def __init__(self, tmp: Path) -> None:
        self._path = tmp / f"{os.urandom(16).hex()}.pack"
        with disk.named_errors("making a pack"):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._buffer = bytearray(MAGIC)
        self.records: list[Record] = []
        self._misses = 0  # records in a row that compression did not pay for
        self.size = len(MAGIC)

    def append(self, oid: bytes, data: bytes | memoryview, *, at: int | None = None) -> Record:
        """Store one record, compressed where it pays.

        `at` is where the bytes stand in their file: an uncompressed record is put at the same place
        within a block, so that a file system with reflinks can share the blocks on checkout.
        """
        packed = self._squeezed(data)
        if packed is None and at is not None:
            self._extend(bytes((at - self.size) % BLOCK))
        form, payload = (PACKED, data) if packed is None else (PACKED_ZSTD, packed)
        record = (oid, form, self.size, len(payload), len(data))
        self._extend(payload)
        self.records.append(record)
        return record

    def _squeezed(self, data: bytes | memoryview) -> bytes | None:
        """Compressed where it pays. After eight misses in a row only every eighth record is tried."""
        if self._misses >= 8 and self._misses % 8:
            self._misses += 1
            return None
        packed = squeeze(data)
        self._misses = 0 if packed else self._misses + 1
        return packed

    def copy(self, record: Record, payload: bytes) -> Record:
        """Store a record taken from another pack as it is."""
        moved = (record[0], record[1], self.size, record[3], record[4])
        self._extend(payload)
        self.records.append(moved)
        return moved

    def seal(self) -> Sealed:
        footer = msgpack.packb([os.urandom(16), self.records])
        self._extend(footer + len(footer).to_bytes(8, "little") + END)
        self._flush()
        with disk.named_errors("writing a pack"):
            disk.fsync_file(self._fd)
            os.close(self._fd)
        return Sealed(hashlib.sha256(footer).hexdigest(), self._path, self.size, tuple(self.records))

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # closed already, when sealing it failed late
            os.close(self._fd)
        with disk.named_errors("removing a pack that was not finished"):
            disk.unlink(self._path)

    def _extend(self, data: bytes | memoryview) -> None:
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        with disk.named_errors("writing a pack"):
            disk.write_all(self._fd, self._buffer)
        self._buffer.clear()


def read_footer(place: Place, name: str) -> list[Record]:
    """The records of a sealed pack, checked against its name."""
    size = place.size(name)
    tail = place.get(name, max(0, size - 16), min(16, size))
    length = int.from_bytes(tail[:8], "little")
    whole = size >= len(MAGIC) + 16 and tail[8:] == END and length <= size - len(MAGIC) - 16
    if not whole or place.get(name, 0, len(MAGIC)) != MAGIC:
        raise Corrupt(f"pack {name} is not complete.", hint="Run memlake fsck --full.")
    footer = place.get(name, size - 16 - length, length)
    if hashlib.sha256(footer).hexdigest() != name:
        raise Corrupt(f"the footer of pack {name} is damaged.", hint="Run memlake fsck --full.")
    return [tuple(record) for record in msgpack.unpackb(footer)[1]]
