"""Archives: the data of old commits in one compressed file, and reading it from there. Knows no remote.

file = MLARCHV1 | frames | index | length of the index in 4 bytes
name = SHA-256 of the file
frame = zstd, with a checksum, of msgpack [commit, ...]; index = zstd of msgpack [1, repo id, [length of a frame, ...]]
row  = 00 | 8 bytes of the name | number of the frame in 4 | place in the frame in 2

The row of a commit in an archive keeps its oid, parents, lane and generation, and instead of its data where that lies.
`meta` has the whole name, the size and the number of commits of each archive. A file here is a copy that may go.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgpack
import zstandard

from memlake import nofollow
from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.db import Database
from memlake.objects.forks import Mutex
from memlake.objects.layout import advise_restore, read_text, wrong_fact

WINDOW = 4096  # commits of a frame
_MAGIC = b"MLARCHV1"
_FACT = "archive "
_NOTE = re.compile(r"([0-9a-f]{64}) (\d{1,15}) (\d{1,15})")
_PLACE = struct.Struct(">x8sIH")
_LENGTH = struct.Struct(">I")
_KEPT = 8  # frames that are remembered: both lanes are walked at once
_LARGEST = 1 << 30  # bytes of a frame: four thousand commits of four MiB would be more, and nobody has those


class ArchiveFile(NamedTuple):
    """A file of commits, by what is known of it without reading it."""

    name: str
    size: int
    commits: int


Bring = Callable[[ArchiveFile], object]  # has the copy of an archive brought, checked, or raises


def copy_of(db: Database, file: ArchiveFile) -> Path:
    """Where a copy of an archive lies, if one is here."""
    return db.path.parent / "archives" / file.name


def write_archive(path: Path, repo: str, commits: Iterable[bytes]) -> ArchiveFile:
    """Write a file with these commits, and say what it is called."""
    lengths, count, batch = list[int](), 0, list[bytes]()
    compressor = zstandard.ZstdCompressor(level=12, write_checksum=True)
    with open(nofollow.open_file(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), "w+b") as stream:
        stream.write(_MAGIC)

        def end_frame() -> None:
            lengths.append(stream.write(compressor.compress(msgpack.packb(batch))))
            batch.clear()

        for data in commits:
            batch.append(data)
            count += 1
            if len(batch) == WINDOW:
                end_frame()
        if batch:
            end_frame()
        index = compressor.compress(msgpack.packb([1, bytes.fromhex(repo.replace("-", "")), lengths]))
        stream.write(index + _LENGTH.pack(len(index)))
        stream.flush()
        os.fsync(stream.fileno())
        stream.seek(0)
        return ArchiveFile(hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell(), count)


def place_of(name: str, number: int) -> bytes:
    """What the row of a commit says that is the one with this number in an archive."""
    return _PLACE.pack(bytes.fromhex(name)[:8], *divmod(number, WINDOW))


def note_archive(db: Database, file: ArchiveFile) -> None:
    """Remember an archive that rows name. Call inside a write."""
    object_tables.write_facts(db, {_FACT + file.name[:16]: f"{file.name} {file.size} {file.commits}"})


def forget_archive(db: Database, file: ArchiveFile) -> None:
    """Call inside a write, when no row names it any more."""
    object_tables.delete_facts(db, _FACT + file.name[:16])


def list_archives(db: Database) -> list[ArchiveFile]:
    """The archives that rows may name."""
    return [_parse(db, key, text) for key, text in object_tables.list_facts(db, _FACT)]


def _parse(db: Database, key: str, text: object) -> ArchiveFile:
    found = _NOTE.fullmatch(text) if type(text) is str else None
    if found is None or found[1][:16] != key.removeprefix(_FACT):
        raise wrong_fact(db, key, text)
    return ArchiveFile(found[1], int(found[2]), int(found[3]))


class Archives:
    """Reads commits out of the archives of a repo. A file that is not here is brought first, once.

    The database reads through it, so it must not hold the database: such a cycle would keep a closed repo's files open.
    """

    def __init__(self, db: Database, bring: Bring) -> None:
        self._find_db, self._bring = weakref.ref(db), bring
        self._files: dict[bytes, tuple[int, list[tuple[int, int]]]] = {}  # open file, and where its frames lie
        self._frames: OrderedDict[tuple[bytes, int], list[bytes]] = OrderedDict()
        self._lock = Mutex()

    @property
    def _db(self) -> Database:
        db = self._find_db()
        assert db is not None, "who reads a row holds its database"
        return db

    def read(self, row: bytes) -> bytes:
        """The data of a commit whose row says that it lies in an archive."""
        mark, frame, place = _PLACE.unpack(row)
        with self._lock:
            key = (mark, frame)
            if key not in self._frames:
                self._frames[key] = self._read_frame(mark, frame)
                if len(self._frames) > _KEPT:
                    self._frames.popitem(last=False)
            self._frames.move_to_end(key)
            data: bytes = self._frames[key][place]
            return data

    def have_all(self) -> None:
        """Have the copies of all archives here."""
        for file in list_archives(self._db):
            self._have(file)

    def _have(self, file: ArchiveFile) -> Path:
        path = copy_of(self._db, file)
        if not path.exists():
            self._bring(file)
        return path

    def close(self) -> None:
        """Let go of all files: they may be removed."""
        with self._lock:
            for fd, _ in self._files.values():
                os.close(fd)
            self._files.clear()
            self._frames.clear()

    def _read_frame(self, mark: bytes, frame: int) -> list[bytes]:
        key = _FACT + mark.hex()
        text = read_text(self._db, key)
        if text is None:
            raise Corrupt(
                f"the data of a commit lies in archive {mark.hex()}, of which nothing is known here.",
                hint=advise_restore(self._db),
            )
        file = _parse(self._db, key, text)
        with _named_errors(file):
            if mark not in self._files:
                self._files[mark] = self._open(file)
            fd, spans = self._files[mark]
            start, length = spans[frame]
            return _decode(os.pread(fd, length, start))

    def _open(self, file: ArchiveFile) -> tuple[int, list[tuple[int, int]]]:
        fd = nofollow.open_file(self._have(file))
        try:
            end = file.size - _LENGTH.size
            (length,) = _LENGTH.unpack(os.pread(fd, _LENGTH.size, end))
            _, _, lengths = _decode(os.pread(fd, length, end - length))
            ends = list(accumulate(lengths, initial=len(_MAGIC)))
            return fd, list(zip(ends, lengths, strict=False))
        except BaseException:
            os.close(fd)
            raise


def _decode(data: bytes) -> list[Any]:
    if zstandard.frame_content_size(data) > _LARGEST:
        raise ValueError("a frame is too large")
    found: list[Any] = msgpack.unpackb(zstandard.ZstdDecompressor().decompress(data), max_array_len=1 << 24)
    return found


@contextlib.contextmanager
def _named_errors(file: ArchiveFile) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, IndexError, struct.error, zstandard.ZstdError, msgpack.UnpackException) as error:
        raise Corrupt(
            f"the copy of archive {file.name[:10]} here is damaged ({error}). Nothing was changed.",
            hint="Have it brought again when it is read next: memlake archive --drop",
        ) from error
