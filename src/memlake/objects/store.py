"""Objects by oid: reading them, checked against their hash, and writing small ones. Knows no path.

Every byte handed out was hashed first; damaged content is never served. `write` and `adopt` are for
use inside a transaction; many or large objects go through `writer.py`, before the lock.
"""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from memlake.errors import Corrupt, InvalidInput, NotFound, Purged, Unavailable
from memlake.objects import disk, packs, tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database, Row
from memlake.objects.layout import read_id, tick
from memlake.objects.packs import CHUNKED, DELTA, DEPTH, INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, PART
from memlake.objects.places import Place

RECORD = 64 << 20  # bytes in chunks that are read as one; what is not in chunks is bounded by what is stored
_TRIES = 3
_SPAN = 4 << 20  # neighbouring records are read in one call up to this size


class Objects:
    """The object store of one repo: rows in repo.db, packs and parts beside it."""

    def __init__(self, db: Database, packs_at: Place, parts_at: Place, tmp: Path) -> None:
        self.db, self.packs, self.parts, self.tmp = db, packs_at, parts_at, tmp
        self._names: dict[int, str] = {}

    @cached_property
    def repo(self) -> str:
        """The id of the repo these objects belong to."""
        return read_id(self.db)

    # -- writing ------------------------------------------------------------------------------

    def write(self, data: bytes, *, links: Sequence[str] = ()) -> str:
        """Store one object inline and return its oid. What it links to must be named in its content."""
        digest = hashlib.sha256(data).digest()
        joined = _encode_links(data, links)
        with self.db.write():
            now = tick(self.db)
            if tables.touch_object(self.db, digest, now, joined):
                return digest.hex()
            packed = packs.squeeze(data) if len(data) > 128 else None
            form, payload = (INLINE, data) if packed is None else (INLINE_ZSTD, packed)
            if len(payload) > packs.LIMIT:
                raise InvalidInput(
                    f"a record takes {len(payload):,} bytes; at most {packs.LIMIT:,} are kept. Nothing was changed.",
                    hint="Keep it as a file, which may have any size.",
                )
            refuse_purged(self.db, [digest])
            tables.add_object(self.db, digest, size=len(data), form=form, tick=now, links=joined, data=payload)
        return digest.hex()

    def adopt(self, oids: Iterable[str]) -> None:
        """Rely on objects that are there already: takes them back from gc; raises when one is missing or purged."""
        wanted = set(oids)
        if not wanted:
            return
        with self.db.write():
            for oid in self.find_missing(wanted):
                self._row(bytes.fromhex(oid))
            tables.touch_objects(self.db, map(bytes.fromhex, wanted), tick(self.db))

    def write_part(self, file: Path, *, links: Sequence[str] = ()) -> str:
        """Move a whole file into parts/, where engines read it in place, and return its oid."""
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
            size = stream.tell()
            os.fsync(stream.fileno())  # the long part of it, before the lock
        refuse_purged(self.db, [digest])
        if self._is_damaged(digest):
            self.parts.delete(part_name(digest))
        # Before the lock, because a bucket may take minutes. What another did to this very name meanwhile (the name is
        # the content) is looked at again inside.
        self.parts.put(part_name(digest), file)
        with self.db.write():
            self._check_part(digest, size)
            now = tick(self.db)
            joined = b"".join(map(bytes.fromhex, links)) or None
            if not tables.touch_object(self.db, digest, now, joined):
                tables.add_object(self.db, digest, size=size, form=PART, tick=now, links=joined, data=None)
        return digest.hex()

    def _check_part(self, digest: bytes, size: int) -> None:
        """Inside the lock: what was stored before it was not purged or collected meanwhile."""
        name = part_name(digest)
        try:
            refuse_purged(self.db, [digest])
        except Purged:
            self.parts.delete(name)  # the purge may have looked before we stored it
            raise
        try:
            stored = self.parts.size(name)
        except NotFound:
            stored = -1
        if stored != size:
            raise Unavailable("gc removed a part while it was being stored. Nothing was changed.", hint="Run it again.")

    def _is_damaged(self, digest: bytes) -> bool:
        """Whether a part that lies here already is not what its name says: then the new file heals it."""
        path = self.parts.local_path(part_name(digest))
        if path is None:
            return False
        with disk.named_errors(f"reading {path}"), path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest() != digest

    # -- reading ------------------------------------------------------------------------------

    def read(self, oid: str, *, most: int | None = RECORD) -> bytes:
        """A whole object, in chunks of at most so many bytes; None for any, where a person asked for this very one."""
        row = self._row(bytes.fromhex(oid))
        return self._content(_check_fits(row, most))

    def read_many(self, oids: Iterable[str], *, most: int = RECORD) -> Iterator[tuple[str, bytes]]:
        """Objects in the order that is cheapest to read, each checked; in chunks of at most so many bytes."""
        rows = self._rows({bytes.fromhex(oid) for oid in oids})
        for row in rows:
            _check_fits(row, most)
        yield from self._read_rows(rows)

    def read_chunks(self, pieces: Iterable[tuple[bytes, int]], *, nested: bool = False) -> Iterator[tuple[str, bytes]]:
        """Chunks by what their list says of them, (oid, length): whose row says another length is not read.

        A chunk may be an object in chunks itself, the chunks of that (`nested`) may not: memlake cuts them too small.
        """
        wanted = dict(pieces)
        rows = self._rows(wanted)
        for row in rows:
            if row[1] != wanted[row[0]] or (nested and row[2] == CHUNKED):
                raise Corrupt(
                    f"object {row[0].hex()} is not the chunk of {wanted[row[0]]:,} bytes that a list names. "
                    "It was not read.",
                    hint="Run `memlake fsck --full` to see which paths are affected.",
                )
        yield from self._read_rows(rows, nested=True)

    def _rows(self, digests: Collection[bytes]) -> list[Row]:
        rows = [_check_row(row) for row in tables.list_objects(self.db, digests)]
        for digest in set(digests) - {row[0] for row in rows}:
            self._row(digest)  # raises, naming what became of it
        return rows

    def _read_rows(self, rows: list[Row], *, nested: bool = False) -> Iterator[tuple[str, bytes]]:
        packed = sorted((r for r in rows if r[2] in (PACKED, PACKED_ZSTD)), key=lambda r: (r[3], r[4]))
        for span in _spans(packed):
            yield from self._read_span(span)
        for row in rows:
            if row[2] not in (PACKED, PACKED_ZSTD):
                yield row[0].hex(), self._content(row, nested=nested)

    def open(self, oid: str) -> io.BufferedReader:
        """A seekable stream over an object, all of which is there; only the chunks that are read are fetched."""
        self.check_places([oid])
        return io.BufferedReader(ObjectStream(self, oid), buffer_size=64 << 10)

    def pieces(self, oid: str) -> list[tuple[bytes, int]]:
        """The chunks of an object in order, (oid, length); one piece when it is not chunked."""
        row = self._row(bytes.fromhex(oid))
        return decode_list(row[0], row[6], row[1]) if row[2] == CHUNKED else [(row[0], row[1])]

    def size(self, oid: str) -> int:
        return int(self._row(bytes.fromhex(oid))[1])

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """The sizes of those of these objects that are there."""
        return {oid.hex(): size for oid, size in tables.list_sizes(self.db, map(bytes.fromhex, oids))}

    def find_missing(self, oids: Iterable[str]) -> set[str]:
        wanted = set(oids)
        return wanted - {oid.hex() for oid in tables.list_present(self.db, map(bytes.fromhex, wanted))}

    def find_purged(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects that were erased on purpose."""
        return {row[0].hex() for row in tables.list_tombstones_of(self.db, map(bytes.fromhex, oids))}

    def links(self) -> dict[str, tuple[str, ...]]:
        """What objects need, of all that need others."""
        rows = tables.scan_links(self.db)
        return {oid.hex(): tuple(told[at : at + 32].hex() for at in range(0, len(told), 32)) for oid, told in rows}

    def check_places(self, oids: Iterable[str]) -> None:
        """Raise when a row, pack or part that one of these objects or its chunks lies in is not there, or is cut short.

        Looks at names and sizes only, so that nobody gets half of an object and then an error.
        """
        rows = {row[0]: row for row in tables.list_places(self.db, map(bytes.fromhex, oids))}
        listed = [(oid, decode_list(oid, data)) for oid, _, form, _, data in rows.values() if form == CHUNKED]
        chunks = {chunk: oid for oid, pieces in listed for chunk, _ in pieces}
        held = {row[0]: row for row in tables.list_places(self.db, chunks)}
        if lost := chunks.keys() - held.keys():
            raise _lost(f"chunk {min(lost).hex()[:10]}", chunks[min(lost)])
        for oid, size, form, _, _ in (*rows.values(), *held.values()):
            if form == PART and self._size_in(self.parts, part_name(oid)) != size:
                raise _lost(f"part {oid.hex()[:10]}", oid)
        # Of what stands in its row a pack has a copy only.
        packed = (PACKED, PACKED_ZSTD, DELTA)
        for pack in {row[3] for row in (*rows.values(), *held.values()) if row[2] in packed}:
            self._check_pack(pack)

    def _check_pack(self, pack: int) -> None:
        row = tables.find_pack(self.db, pack)
        # gc joins packs: first the rows go, then the files. Whoever reads looks once more where a record is now.
        if row is not None and self._size_in(self.packs, row[0]) != row[1] and tables.find_pack(self.db, pack) == row:
            raise _lost(f"pack {row[0][:10]}", None)

    def _size_in(self, place: Place, name: str) -> int | None:
        try:
            return place.size(name)
        except NotFound:
            return None

    def part_path(self, oid: str) -> Path | None:
        """Where a part lies on this machine, for engines that read it in place."""
        return self.parts.local_path(part_name(bytes.fromhex(oid)))

    def locate(self, digests: Sequence[bytes]) -> dict[bytes, tuple[str, int, int]]:
        """Where uncompressed records lie: oid -> (pack name, start, length). For reflinks."""
        rows = tables.list_plain_records(self.db, digests)
        return {row[0]: (self.pack_name(row[1]), row[2], row[3]) for row in rows}

    def pack_name(self, pack: int) -> str:
        if pack not in self._names:
            row = tables.find_pack(self.db, pack)
            if row is None:
                raise Corrupt(f"pack {pack} is not in the pack directory.", hint="Run memlake fsck.")
            self._names[pack] = row[0]
        return self._names[pack]

    def _row(self, digest: bytes) -> Row:
        row = tables.find_object(self.db, digest)
        if row is not None:
            return _check_row(row)
        dead = tables.find_tombstone(self.db, digest)
        if dead:
            raise Purged(f"object {digest.hex()[:10]} was purged: {dead[1]}.")
        raise NotFound(f"object {digest.hex()} is not in this repo.", hint="Run `memlake fsck` to see what needs it.")

    def _content(self, row: Row, *, nested: bool = False) -> bytes:
        digest, size, form, _, _, _, data = row
        if form == CHUNKED:
            wanted = decode_list(digest, data, size)
            chunks = dict(self.read_chunks(wanted, nested=nested))
            return _check_hash(digest, b"".join(chunks[chunk.hex()] for chunk, _ in wanted))
        if form == INLINE:
            return _check_hash(digest, data)
        if form == INLINE_ZSTD:
            return _check_hash(digest, _expand(digest, data, size))
        if form == PART:
            return _check_hash(digest, self.parts.get(part_name(digest), 0, size))
        if form == DELTA:
            return _check_hash(digest, self._read_delta(row))
        return next(self._read_span([row]))[1]

    def _read_delta(self, row: Row) -> bytes:
        """A delta applied to what it rests on. gc and purge may store either anew: then both are looked up again."""
        for attempt in range(_TRIES):
            try:
                return self._resolve(row if attempt == 0 else self._row(row[0]), 0)
            except (NotFound, Purged, Corrupt):
                if attempt == _TRIES - 1:
                    raise
                self._names.clear()
        raise AssertionError  # never reached

    def _resolve(self, row: Row, depth: int) -> bytes:
        digest, size, form, pack, start, length, base = row
        if form != DELTA:
            return self._content(row)
        if depth >= DEPTH:
            raise Corrupt(f"object {digest.hex()} rests on too many others.", hint="Run memlake fsck --full.")
        payload = self.packs.get(self.pack_name(pack), start, length)
        if payload[:32] != base:
            raise Corrupt(
                f"object {digest.hex()} rests on another one than its row says.", hint="Run memlake fsck --full."
            )
        below = self._resolve(_check_base(self._row(base)), depth + 1)
        try:
            return packs.expand_against(payload[32:], below, size)
        except Corrupt as error:
            raise Corrupt(
                f"object {digest.hex()} is damaged: {error.message}", hint="Run memlake fsck --full."
            ) from error

    def _read_span(self, span: list[Row]) -> Iterator[tuple[str, bytes]]:
        """Records that lie side by side in one pack, read with one call."""
        pack, first = span[0][3], span[0][4]
        length = span[-1][4] + span[-1][5] - first
        try:
            block = self.packs.get(self.pack_name(pack), first, length)
        except (NotFound, Corrupt):
            # gc joins packs and deletes the old ones: look once more where the records are now.
            self._names.pop(pack, None)
            for row in span:
                yield self._read_moved(row)
            return
        for digest, size, form, _, start, stored, _ in span:
            data = block[start - first : start - first + stored]
            yield digest.hex(), _check_hash(digest, _expand(digest, data, size) if form == PACKED_ZSTD else data)

    def _read_moved(self, row: Row) -> tuple[str, bytes]:
        fresh = self._row(row[0])
        if fresh[2] not in (PACKED, PACKED_ZSTD):
            return row[0].hex(), self._content(fresh)
        try:
            data = self.packs.get(self.pack_name(fresh[3]), fresh[4], fresh[5])
        except NotFound as error:
            raise _lost(f"pack {self.pack_name(fresh[3])[:10]}", row[0]) from error
        return row[0].hex(), _check_hash(row[0], _expand(row[0], data, fresh[1]) if fresh[2] == PACKED_ZSTD else data)


class ObjectStream(io.RawIOBase):
    """Random access over one object. Keeps one chunk, so that reading on costs one fetch a chunk."""

    def __init__(self, objects: Objects, oid: str) -> None:
        self._objects, self._pieces = objects, objects.pieces(oid)
        self._starts = [0, *accumulate(length for _, length in self._pieces)]
        self._at, self._held, self._chunk = 0, -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._starts[-1])[whence])
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self._starts[-1]:
            return 0
        index = bisect_right(self._starts, self._at) - 1
        if index != self._held:
            oid, length = self._pieces[index]
            if len(self._pieces) > 1:
                ((_, self._chunk),) = self._objects.read_chunks([(oid, length)])
            else:
                self._chunk = self._objects.read(oid.hex())
            self._held = index
        start = self._at - self._starts[index]
        part = self._chunk[start : start + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def part_name(digest: bytes) -> str:
    text = digest.hex()
    return f"{text[:2]}/{text}"


def refuse_purged(db: Database, digests: Iterable[bytes]) -> None:
    """Purged content does not come back by being added again."""
    for digest, _, reason in tables.list_tombstones_of(db, digests):
        raise Purged(
            f"content {digest.hex()[:10]} was purged from this repo ({reason}) and may not be stored again. "
            "Nothing was changed.",
            hint="Remove it from what you add, or ask whoever purged it.",
        )


def _lost(what: str, digest: bytes | None) -> Corrupt:
    needed = f"object {digest.hex()[:10]} cannot be read" if digest else "what is asked for cannot be read"
    return Corrupt(
        f"{what} is missing or cut short, so {needed}. Nothing was written.",
        hint="See every path that needs it with: memlake fsck\n"
        "Then put the file back from a backup or another copy of the repo.",
    )


def _encode_links(data: bytes, links: Sequence[str]) -> bytes | None:
    for link in links:
        if link.encode() not in data and bytes.fromhex(link) not in data:
            raise InvalidInput(f"object links to {link[:10]} but its content does not name it.")
    return b"".join(map(bytes.fromhex, links)) or None


def _check_hash(digest: bytes, data: bytes) -> bytes:
    if hashlib.sha256(data).digest() != digest:
        raise Corrupt(
            f"object {digest.hex()} is damaged: its bytes do not match its hash. It was not served.",
            hint="Run `memlake fsck --full` to see which paths are affected; restore it from a backup or another copy.",
        )
    return data


def _check_fits(row: Row, most: int | None) -> Row:
    """A row whose object may be held in memory: a list of many equal chunks is small, and what it stands for is not."""
    if most is not None and row[2] == CHUNKED and row[1] > most:
        raise Corrupt(
            f"object {row[0].hex()} has {row[1]:,} bytes in chunks; a record has at most {most:,}. It was not read.",
            hint="Run `memlake fsck --full` to see which paths are affected.",
        )
    return row


def _check_base(row: Row) -> Row:
    """A row that a delta may rest on. memlake lets none rest on what is in chunks, which could be deltas in turn."""
    if row[1] > packs.LARGEST or row[2] == CHUNKED:
        raise Corrupt(
            f"object {row[0].hex()} has {row[1]:,} bytes or is in chunks, and a delta rests on it. It was not read.",
            hint="Run memlake fsck --full.",
        )
    return row


def _check_row(row: Row) -> Row:
    """A row whose values are what its form says: a flipped bit can make SQLite hand out any type.

    A pack may be sparse, so what a row says of one is no bound on what is stored.
    """
    digest, size, form, pack, start, length, data = row
    right = type(size) is int
    if right and form in (PACKED, PACKED_ZSTD, DELTA):
        right = type(pack) is int and type(start) is int and type(length) is int
        right = right and max(size, length) <= packs.LIMIT and (form != PACKED or length == size)
        right = right and (form != DELTA or type(data) is bytes)
    else:
        right = right and (form == PART or type(data) is bytes)
    if not right:
        raise Corrupt(f"object {digest.hex()} is damaged: its row makes no sense.", hint="Run memlake fsck --full.")
    return row


def _expand(digest: bytes, data: bytes, size: int) -> bytes:
    try:
        return packs.expand(data, size)
    except Corrupt as error:
        raise Corrupt(f"object {digest.hex()} is damaged: {error.message}", hint="Run memlake fsck --full.") from error


def _spans(rows: list[Row]) -> Iterator[list[Row]]:
    """Rows sorted by place, grouped where they nearly touch (blocks are aligned, so gaps are small)."""
    span: list[Row] = []
    for row in rows:
        if span:
            end = span[-1][4] + span[-1][5]
            near = row[3] == span[0][3] and 0 <= row[4] - end <= packs.BLOCK
            if not near or row[4] + row[5] - span[0][4] > _SPAN:
                yield span
                span = []
        span.append(row)
    if span:
        yield span
