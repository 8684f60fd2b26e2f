"""The pack file: many objects or chunks in one sealed file that describes itself. Knows no database.

MLPACK02 | bytes of records ... | footer | length of footer, 8 bytes little-endian | MLPACKED
footer = msgpack [repo id, nonce, [[oid, form, start, length, size, role, links | nil], ...]]
name   = SHA-256 of the footer, in hex

The id says whose pack it is, wherever the file is kept. The nonce gives two writers of the same content two packs, so
that one can take its pack back without taking away what the other relies on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgpack

from memlake import nofollow
from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.places import Place

if TYPE_CHECKING:
    import zstandard

MAGIC, END = b"MLPACK02", b"MLPACKED"
LIMIT = 64 << 20  # bytes after which a pack is sealed, its footer included; no record is longer
_LONGEST_FOOTER = 2 * LIMIT  # packs that gc joins share one; a file may be sparse, so its size is not a limit
_LISTED = 64  # bytes of a footer that a record takes, without links
BLOCK = 4096
INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, CHUNKED, PART, DELTA, AWAY = range(8)
DEPTH = 16  # steps from a delta to what is stored whole
COPIED = {INLINE: PACKED, INLINE_ZSTD: PACKED_ZSTD, PART: PART}  # the form of the copy that a pack has of a row
SPAN = 8 << 20  # bytes of a pack that are held while they are copied elsewhere, beside one record
LARGEST = 2 << 20  # bytes of content of a delta: a few stored bytes can claim this many, so none may claim more
_FLUSH = 1 << 20
RATIO = 200  # a compressed record unpacks to at most so many times its length, so a small repo cannot fill the memory

OBJECT, CHUNK, LOG = 1, 2, 4  # roles; a log segment (versions/upkeep/log_packs.py) is not an object and has no row
NAME = re.compile(r"[0-9a-f]{64}")


class Record(NamedTuple):
    """One record of a pack. `size` is that of the content; `links` are the oids it needs, 32 bytes each."""

    oid: bytes
    form: int
    start: int
    length: int
    size: int
    role: int
    links: bytes | None = None


def spans(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of a pack in the order they lie, a few megabytes at once."""
    group: list[Record] = []
    size = 0
    for record in sorted(records, key=lambda record: record.start):
        if group and size + record.length > SPAN:
            yield group
            group, size = [], 0
        group.append(record)
        size += record.length
    if group:
        yield group


class Footer(NamedTuple):
    repo: str  # the id of the repo whose pack this is
    records: tuple[Record, ...]


class _Contexts(threading.local):
    """A pair for each thread: zstd releases the GIL, and a context that two threads use at once mixes their bytes.

    zstandard is loaded when it is first used: `status` and `log` unpack nothing, and it takes milliseconds.
    """

    @functools.cached_property
    def library(self) -> Any:
        import zstandard

        return zstandard

    @functools.cached_property
    def compressor(self) -> zstandard.ZstdCompressor:
        return self.library.ZstdCompressor(level=3)  # type: ignore[no-any-return]

    @functools.cached_property
    def decompressor(self) -> zstandard.ZstdDecompressor:
        return self.library.ZstdDecompressor()  # type: ignore[no-any-return]


_zstd = _Contexts()


def squeeze(data: bytes | memoryview) -> bytes | None:
    """The data compressed, or None when that would save less than a twentieth."""
    packed = _zstd.compressor.compress(data)
    packed = packed.ljust(-(-len(data) // RATIO), b"\0")  # zstd ignores what follows its frame
    return packed if len(packed) <= len(data) - len(data) // 20 - 8 else None


def expand(data: bytes, size: int) -> bytes:
    """Decompress to exactly `size` bytes. A frame that claims more is refused before it is unpacked."""
    if size > len(data) * RATIO:
        raise Corrupt(
            f"{len(data):,} compressed bytes claim to hold {size:,}, and memlake packs {RATIO} to one at most."
        )
    library = _zstd.library
    try:
        if library.frame_content_size(data) != size:
            raise Corrupt("a compressed record does not have the size its row says.")
        return _zstd.decompressor.decompress(data, max_output_size=size)
    except library.ZstdError as error:
        raise Corrupt(f"a compressed record cannot be unpacked: {error}.") from error


def squeeze_against(data: bytes, base: bytes) -> bytes:
    """The data compressed with the base as dictionary: what the two have in common takes next to nothing."""
    library = _zstd.library
    # From level 3 on zstd looks at all of a dictionary; below it, at its end only.
    sizes = {"source_size": len(data) + len(base), "dict_size": len(base)}
    params = library.ZstdCompressionParameters.from_level(3, **sizes)
    dictionary = library.ZstdCompressionDict(base, dict_type=library.DICT_TYPE_RAWCONTENT)
    packed: bytes = library.ZstdCompressor(dict_data=dictionary, compression_params=params).compress(data)
    return packed


def expand_against(data: bytes, base: bytes, size: int) -> bytes:
    """What `squeeze_against` compressed, of exactly `size` bytes."""
    if size > LARGEST:
        raise Corrupt(f"a delta claims {size:,} bytes, and memlake makes them of {LARGEST:,} at most.")
    library = _zstd.library
    dictionary = library.ZstdCompressionDict(base, dict_type=library.DICT_TYPE_RAWCONTENT)
    try:
        if library.frame_content_size(data) != size:
            raise Corrupt("a delta does not have the size its row says.")
        content: bytes = library.ZstdDecompressor(dict_data=dictionary).decompress(data, max_output_size=size)
        return content
    except library.ZstdError as error:
        raise Corrupt(f"a delta cannot be unpacked: {error}.") from error


def write_uuid(value: bytes) -> str:
    """The 16 bytes of an id as people write it. uuid is not loaded for it: with platform it is 2 % of start-up."""
    if len(value) != 16:
        raise ValueError(f"an id has 16 bytes, not {len(value)}")
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Sealed(NamedTuple):
    name: str
    path: Path
    size: int
    records: tuple[Record, ...]


class PackWriter:
    """Appends records to a temporary file; `seal` finishes it. A crash leaves only a file in tmp/."""

    def __init__(self, tmp: Path, repo: str) -> None:
        self._repo = bytes.fromhex(repo.replace("-", ""))
        self._path = tmp / f"{os.urandom(16).hex()}.pack"
        with disk.named_errors("making a pack"):
            self._fd = nofollow.open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._buffer = bytearray(MAGIC)
        self.records: list[Record] = []
        self._misses = 0  # records in a row that compression did not pay for
        self.size, self._footer = len(MAGIC), 0

    def append(self, oid: bytes, data: bytes | memoryview, role: int, *, at: int | None = None) -> Record:
        """Store one record, compressed where it pays.

        `at` is where the bytes stand in their file: an uncompressed record is put at the same place
        within a block, so that a file system with reflinks can share the blocks on checkout.
        """
        packed = self._try_squeeze(data)
        if packed is None and at is not None:
            self._extend(bytes((at - self.size) % BLOCK))
        form, payload = (PACKED, data) if packed is None else (PACKED_ZSTD, packed)
        return self.copy(Record(oid, form, 0, 0, len(data), role), payload)

    def _try_squeeze(self, data: bytes | memoryview) -> bytes | None:
        """Compressed where it pays. After eight misses in a row only every eighth record is tried."""
        if self._misses >= 8 and self._misses % 8:
            self._misses += 1
            return None
        packed = squeeze(data)
        self._misses = 0 if packed else self._misses + 1
        return packed

    def copy(self, record: Record, payload: bytes | memoryview) -> Record:
        """Store these bytes as they are, under what the record says but for its place."""
        placed = record._replace(start=self.size, length=len(payload))
        self._extend(payload)
        self.records.append(placed)
        self._footer += _LISTED + len(record.links or b"")
        return placed

    @property
    def is_full(self) -> bool:
        return self.size + self._footer >= LIMIT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind or self._fd >= 0:  # an error, or nothing came of it
            self.abandon()

    def deliver(self, place: Place, nonce: bytes | None = None) -> Sealed:
        """Seal the pack and hand it to its place."""
        sealed = self.seal(nonce)
        hand_over(sealed, place)
        return sealed

    def seal(self, nonce: bytes | None = None) -> Sealed:
        """Finish the file. With a `nonce` of its records, the same pack made again has the same name."""
        footer = msgpack.packb([self._repo, nonce or os.urandom(16), self.records])
        self._extend(footer + len(footer).to_bytes(8, "little") + END)
        self._flush()
        with disk.named_errors("writing a pack"):
            disk.fsync_file(self._fd)
            self._close()
        return Sealed(hashlib.sha256(footer).hexdigest(), self._path, self.size, tuple(self.records))

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._close()
        # It may be gone: its place can fail after it has taken the file.
        with disk.named_errors("removing a pack that was not finished"), contextlib.suppress(FileNotFoundError):
            disk.unlink(self._path)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1  # never close it twice: the number may be another file's by then
        if fd >= 0:
            os.close(fd)

    def _extend(self, data: bytes | memoryview) -> None:
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        with disk.named_errors("writing a pack"):
            disk.write_all(self._fd, self._buffer)
        self._buffer.clear()


class Joined(NamedTuple):
    """A pack made of others, in memory: its bytes, its footer, and by how much the records of each are shifted."""

    name: str
    data: bytes
    footer: bytes
    shifts: tuple[int, ...]


def join_packs(repo: str, nonce: bytes, packs: Sequence[tuple[Footer, bytes]]) -> Joined:
    """One pack of several, given with what lies between the beginning of each and its footer. Nothing is unpacked."""
    data, records, shifts = bytearray(MAGIC), list[Record](), list[int]()
    for footer, payload in packs:
        shift = len(data) - len(MAGIC)
        shifts.append(shift)
        records += [record._replace(start=record.start + shift) for record in footer.records]
        data += payload
    written = msgpack.packb([bytes.fromhex(repo.replace("-", "")), nonce, records])
    data += written + len(written).to_bytes(8, "little") + END
    return Joined(hashlib.sha256(written).hexdigest(), bytes(data), written, tuple(shifts))


def hand_over(sealed: Sealed, place: Place) -> None:
    """Store a sealed pack in its place. The temporary file is gone afterwards."""
    place.put(sealed.name, sealed.path)
    sealed.path.unlink(missing_ok=True)  # a bucket copies it, a folder has moved it


def read_footer(place: Place, name: str) -> Footer:
    """The owner and the records of a sealed pack, checked against its name."""
    return decode_footer(name, read_footer_bytes(place, name))


def read_footer_bytes(place: Place, name: str) -> bytes:
    """The footer of a sealed pack as it is in the file, not checked yet."""
    size = place.size(name)
    tail = place.get(name, max(0, size - 16), min(16, size))
    length = int.from_bytes(tail[:8], "little")
    whole = size >= len(MAGIC) + 16 and tail[8:] == END and length <= min(size - len(MAGIC) - 16, _LONGEST_FOOTER)
    if not whole or place.get(name, 0, len(MAGIC)) != MAGIC:
        raise Corrupt(f"pack {name} is not complete.", hint="Run memlake fsck --full.")
    return place.get(name, size - 16 - length, length)


def decode_footer(name: str, footer: bytes) -> Footer:
    """The owner and the records that the bytes of a footer tell, checked against the name of its pack."""
    if hashlib.sha256(footer).hexdigest() != name:
        raise Corrupt(f"the footer of pack {name} is damaged.", hint="Run memlake fsck --full.")
    try:
        repo, _, rows = msgpack.unpackb(footer)
        records = tuple(Record(*row) for row in rows)
        if type(repo) is not bytes or not all(map(_is_record, records)):
            raise ValueError("its values have the wrong types")
        return Footer(write_uuid(repo), records)
    except (ValueError, TypeError, msgpack.UnpackException) as error:  # a stranger may have written it
        raise Corrupt(f"the footer of pack {name} makes no sense.", hint="Run memlake fsck --full.") from error


def _is_record(record: Record) -> bool:
    oid, form, start, length, size, role, links = record
    return (
        type(oid) is bytes
        and type(form) is type(start) is type(length) is type(size) is type(role) is int
        and (length <= LIMIT or form == CHUNKED)  # the list of a file of half a terabyte is longer
        and (links is None or type(links) is bytes)
    )
