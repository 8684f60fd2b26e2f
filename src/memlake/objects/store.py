"""Objects by oid: reading them, checked against their hash, and writing small ones. Knows no path.

Every byte handed out was hashed first; damaged content is never served. `write` and `adopt` are for
use inside a transaction; many or large objects go through `writer.py`, before the lock.
"""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from memlake.errors import Corrupt, InvalidInput, NotFound, Purged
from memlake.objects import disk, packs
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database, Row
from memlake.objects.layout import tick
from memlake.objects.packs import CHUNKED, INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, PART
from memlake.objects.places import Place

COLUMNS = "oid, size, form, pack, start, length, data"
OBJECT, CHUNK = 1, 2
_SPAN = 4 << 20  # neighbouring records are read in one call up to this size


class Objects:
    """The object store of one repo: rows in repo.db, packs and parts beside it."""

    def __init__(self, db: Database, packs_at: Place, parts_at: Place, tmp: Path) -> None:
        self.db, self.packs, self.parts, self.tmp = db, packs_at, parts_at, tmp
        self._names: dict[int, str] = {}

    # -- writing ------------------------------------------------------------------------------

    def write(self, data: bytes, *, links: Sequence[str] = ()) -> str:
        """Store one object inline and return its oid. What it links to must be named in its content."""
        digest = hashlib.sha256(data).digest()
        joined = _joined(data, links)
        with self.db.write():
            now = tick(self.db)
            if self._touch(digest, now, joined):
                return digest.hex()
            packed = packs.squeeze(data) if len(data) > 128 else None
            form, payload = (INLINE, data) if packed is None else (INLINE_ZSTD, packed)
            refuse_purged(self.db, [digest])
            self.db.run(
                "INSERT INTO object(oid, size, form, role, touched, links, data) VALUES(?, ?, ?, 1, ?, ?, ?)",
                (digest, len(data), form, now, joined, payload),
            )
        return digest.hex()

    def adopt(self, oids: Iterable[str]) -> None:
        """Rely on objects that are there already: takes them back from gc; raises when one is missing or purged."""
        wanted = set(oids)
        if not wanted:
            return
        with self.db.write():
            for oid in self.missing(wanted):
                self._row(bytes.fromhex(oid))
            sql = "UPDATE object SET touched = ?2, condemned = NULL, role = role | 1 WHERE oid IN carray(?1)"
            self.db.run_in(sql, map(bytes.fromhex, wanted), (tick(self.db),))

    def write_part(self, file: Path, *, links: Sequence[str] = ()) -> str:
        """Move a whole file into parts/, where engines read it in place, and return its oid."""
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
            size = stream.tell()
            os.fsync(stream.fileno())  # the long part of it, before the lock
        damaged = self._is_damaged(digest)
        with self.db.write():
            # The name is the content, so another may be storing, purging or collecting this very part: under the lock.
            refuse_purged(self.db, [digest])
            if damaged:
                self.parts.delete(part_name(digest))
            self.parts.put(part_name(digest), file)
            now = tick(self.db)
            joined = b"".join(map(bytes.fromhex, links)) or None
            if not self._touch(digest, now, joined):
                self.db.run(
                    "INSERT INTO object(oid, size, form, role, touched, links) VALUES(?, ?, ?, 1, ?, ?)",
                    (digest, size, PART, now, joined),
                )
        return digest.hex()

    def _is_damaged(self, digest: bytes) -> bool:
        """Whether a part that lies here already is not what its name says: then the new file heals it."""
        path = self.parts.local_path(part_name(digest))
        if path is None:
            return False
        with disk.named_errors(f"reading {path}"), path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest() != digest

    def _touch(self, digest: bytes, now: int, links: bytes | None) -> bool:
        """Rely on an object that is already there: takes it back from gc. False when it is not there."""
        sql = (
            "UPDATE object SET touched = ?, condemned = NULL, role = role | 1, links = coalesce(?, links) WHERE oid = ?"
        )
        return self.db.run(sql, (now, links, digest)) == 1

    # -- reading ------------------------------------------------------------------------------

    def read(self, oid: str) -> bytes:
        digest = bytes.fromhex(oid)
        return self._content(self._row(digest))

    def read_many(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Objects in the order that is cheapest to read, each checked."""
        digests = {bytes.fromhex(oid) for oid in oids}
        rows = self.db.rows_in(f"SELECT {COLUMNS} FROM object WHERE oid IN carray(?1)", digests)
        for row in rows:
            digests.discard(_sound(row)[0])
        for digest in digests:
            self._row(digest)  # raises, naming what became of it
        packed = sorted((r for r in rows if r[2] in (PACKED, PACKED_ZSTD)), key=lambda r: (r[3], r[4]))
        for span in _spans(packed):
            yield from self._read_span(span)
        for row in rows:
            if row[2] not in (PACKED, PACKED_ZSTD):
                yield row[0].hex(), self._content(row)

    def open(self, oid: str) -> io.BufferedReader:
        """A seekable stream over an object; only the chunks that are read are fetched."""
        return io.BufferedReader(ObjectStream(self, oid), buffer_size=64 << 10)

    def pieces(self, oid: str) -> list[tuple[bytes, int]]:
        """The chunks of an object in order, (oid, length); one piece when it is not chunked."""
        row = self._row(bytes.fromhex(oid))
        return decode_list(row[0], row[6]) if row[2] == CHUNKED else [(row[0], row[1])]

    def size(self, oid: str) -> int:
        return int(self._row(bytes.fromhex(oid))[1])

    def missing(self, oids: Iterable[str]) -> set[str]:
        wanted = set(oids)
        rows = self.db.rows_in("SELECT oid FROM object WHERE oid IN carray(?1)", [bytes.fromhex(o) for o in wanted])
        return wanted - {row[0].hex() for row in rows}

    def purged(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects that were erased on purpose."""
        sql = "SELECT oid FROM tombstone WHERE oid IN carray(?1)"
        return {row[0].hex() for row in self.db.rows_in(sql, [bytes.fromhex(oid) for oid in oids])}

    def links(self) -> dict[str, tuple[str, ...]]:
        """What objects need, of all that need others."""
        rows = self.db.rows("SELECT oid, links FROM object WHERE links IS NOT NULL")
        return {oid.hex(): tuple(told[at : at + 32].hex() for at in range(0, len(told), 32)) for oid, told in rows}

    def check_places(self, oids: Iterable[str]) -> None:
        """Raise when a pack that holds one of these objects, or a chunk of one, is not there."""
        digests = [bytes.fromhex(oid) for oid in oids]
        sql = "SELECT oid, form, pack, CASE WHEN form = 4 THEN data END FROM object WHERE oid IN carray(?1)"
        rows = self.db.rows_in(sql, digests)
        chunks = {chunk for oid, form, _, data in rows if form == CHUNKED for chunk, _ in decode_list(oid, data)}
        used = {row[2] for row in rows if row[2] is not None}
        used |= {row[0] for row in self.db.rows_in("SELECT DISTINCT pack FROM object WHERE oid IN carray(?1)", chunks)}
        for pack in used - {None}:
            self.packs.size(self.pack_name(pack))

    def part_path(self, oid: str) -> Path | None:
        """Where a part lies on this machine, for engines that read it in place."""
        return self.parts.local_path(part_name(bytes.fromhex(oid)))

    def locate(self, digests: Sequence[bytes]) -> dict[bytes, tuple[str, int, int]]:
        """Where uncompressed records lie: oid -> (pack name, start, length). For reflinks."""
        sql = "SELECT oid, pack, start, length FROM object WHERE form = ?2 AND oid IN carray(?1)"
        rows = self.db.rows_in(sql, digests, (PACKED,))
        return {row[0]: (self.pack_name(row[1]), row[2], row[3]) for row in rows}

    def pack_name(self, pack: int) -> str:
        if pack not in self._names:
            row = self.db.row("SELECT name FROM pack WHERE id = ?", (pack,))
            if row is None:
                raise Corrupt(f"pack {pack} is not in the pack directory.", hint="Run memlake fsck.")
            self._names[pack] = row[0]
        return self._names[pack]

    def _row(self, digest: bytes) -> Row:
        row = self.db.row(f"SELECT {COLUMNS} FROM object WHERE oid = ?", (digest,))
        if row is not None:
            return _sound(row)
        dead = self.db.row("SELECT reason, seq FROM tombstone WHERE oid = ?", (digest,))
        if dead:
            raise Purged(f"object {digest.hex()[:10]} was purged: {dead[0]}.")
        raise NotFound(f"object {digest.hex()} is not in this repo.", hint="Run memlake fsck to see what needs it.")

    def _content(self, row: Row) -> bytes:
        digest, size, form, _, _, _, data = row
        if form == CHUNKED:
            wanted = decode_list(digest, data)
            chunks = dict(self.read_many({chunk.hex() for chunk, _ in wanted}))
            return b"".join(chunks[chunk.hex()] for chunk, _ in wanted)
        if form == INLINE:
            return _checked(digest, data)
        if form == INLINE_ZSTD:
            return _checked(digest, _expanded(digest, data, size))
        if form == PART:
            return _checked(digest, self.parts.get(part_name(digest), 0, size))
        return next(self._read_span([row]))[1]

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
                yield self._moved(row)
            return
        for digest, size, form, _, start, stored, _ in span:
            data = block[start - first : start - first + stored]
            yield digest.hex(), _checked(digest, _expanded(digest, data, size) if form == PACKED_ZSTD else data)

    def _moved(self, row: Row) -> tuple[str, bytes]:
        fresh = self._row(row[0])
        if fresh[2] not in (PACKED, PACKED_ZSTD):
            return row[0].hex(), self._content(fresh)
        data = self.packs.get(self.pack_name(fresh[3]), fresh[4], fresh[5])
        return row[0].hex(), _checked(row[0], _expanded(row[0], data, fresh[1]) if fresh[2] == PACKED_ZSTD else data)


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
            self._chunk, self._held = self._objects.read(self._pieces[index][0].hex()), index
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
    sql = "SELECT oid, reason FROM tombstone WHERE oid IN carray(?1) LIMIT 1"
    for digest, reason in db.rows_in(sql, digests):
        raise Purged(
            f"content {digest.hex()[:10]} was purged from this repo ({reason}) and may not be stored again. "
            "Nothing was changed.",
            hint="Remove it from what you add, or ask whoever purged it.",
        )


def _joined(data: bytes, links: Sequence[str]) -> bytes | None:
    for link in links:
        if link.encode() not in data and bytes.fromhex(link) not in data:
            raise InvalidInput(f"object links to {link[:10]} but its content does not name it.")
    return b"".join(map(bytes.fromhex, links)) or None


def _checked(digest: bytes, data: bytes) -> bytes:
    if hashlib.sha256(data).digest() != digest:
        raise Corrupt(
            f"object {digest.hex()} is damaged: its bytes do not match its hash. It was not served.",
            hint="Run memlake fsck to see which paths are affected; restore it from a backup or another clone.",
        )
    return data


def _sound(row: Row) -> Row:
    """A row whose types are what its form says: a flipped bit can make SQLite hand out any type."""
    digest, size, form, pack, start, length, data = row
    if form in (PACKED, PACKED_ZSTD):
        right = type(pack) is int and type(start) is int and type(length) is int
    else:
        right = form == PART or type(data) is bytes
    if not right or type(size) is not int:
        raise Corrupt(f"object {digest.hex()} is damaged: its row makes no sense.", hint="Run memlake fsck.")
    return row


def _expanded(digest: bytes, data: bytes, size: int) -> bytes:
    try:
        return packs.expand(data, size)
    except Corrupt as error:
        raise Corrupt(f"object {digest.hex()} is damaged: {error.message}", hint="Run memlake fsck.") from error


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
