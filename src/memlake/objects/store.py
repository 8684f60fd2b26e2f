"""Objects by oid: reading them, checked against their hash, and writing small ones. Knows no path.

Every byte is hashed before it is handed out, so damaged content is never served. `write` and `adopt` are for use
inside a transaction; many or large objects go through `writer.py`, before the lock is taken.
"""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from memlake.errors import Corrupt, InvalidInput, NotFound, Purged, Unavailable
from memlake.objects import disk, packs, tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database, Row
from memlake.objects.layout import read_id, tick
from memlake.objects.packs import AWAY, CHUNKED, DELTA, DEPTH, INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, PART
from memlake.objects.places import Place
from memlake.objects.windows import WindowedStream

RECORD = 64 << 20  # bytes of an object in chunks that is read whole; any other takes no more than its stored size
_TRIES = 3
_SPAN = 4 << 20  # neighbouring records are read in one call up to this size


Progress = Callable[[int, int, str], object]  # told of bytes that came, of how many in all, and of what
Bring = Callable[["Objects", Sequence[bytes], Progress | None], None]


class Objects:
    """The object store of one repo: rows in repo.db, packs and parts beside it."""

    def __init__(
        self, db: Database, packs_at: Place, parts_at: Place, tmp: Path, *, remotes: Bring | None = None
    ) -> None:
        """`remotes` brings the content of objects that is at a remote only."""
        self.db, self.packs, self.parts, self.tmp = db, packs_at, parts_at, tmp
        self._remotes = remotes
        self._names: dict[int, str] = {}

    @cached_property
    def repo(self) -> str:
        """The id of the repo these objects belong to."""
        return read_id(self.db)

    # -- writing ------------------------------------------------------------------------------

    def write(self, data: bytes, *, links: Sequence[str] = ()) -> str:
        """Store one object inline and return its oid. Its content must name what it links to."""
        digest = hashlib.sha256(data).digest()
        for link in links:
            if link.encode() not in data and bytes.fromhex(link) not in data:
                raise InvalidInput(f"object links to {link[:10]} but its content does not name it.")
        encoded_links = _encode_links(links)
        with self.db.write():
            now = tick(self.db)
            if tables.touch_object(self.db, digest, now, encoded_links):
                return digest.hex()
            form, payload = encode_inline(data)
            if len(payload) > packs.LIMIT:
                raise InvalidInput(
                    f"a record takes {len(payload):,} bytes; at most {packs.LIMIT:,} are kept. Nothing was changed.",
                    hint="Keep it as a file, which may have any size.",
                )
            refuse_purged(self.db, [digest])
            tables.add_object(self.db, digest, size=len(data), form=form, tick=now, links=encoded_links, data=payload)
        return digest.hex()

    def adopt(self, oids: Iterable[str]) -> None:
        """Rely on objects that are stored already: gc spares them. Raises when one is missing or purged."""
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
            os.fsync(stream.fileno())  # before the lock, because it takes longest
        refuse_purged(self.db, [digest])
        if self._is_damaged(digest):
            self.parts.delete(part_name(digest))
        # Before the lock, because a bucket may take minutes. Another writer or a purge may meanwhile have stored or
        # deleted this very name (the name is the content), so _check_part looks again inside the lock.
        self.parts.put(part_name(digest), file)
        with self.db.write():
            self._check_part(digest, size)
            now = tick(self.db)
            encoded_links = _encode_links(links)
            if not tables.touch_object(self.db, digest, now, encoded_links):
                tables.add_object(self.db, digest, size=size, form=PART, tick=now, links=encoded_links, data=None)
            elif tables.list_away(self.db, [digest]):
                tables.replace_objects(self.db, [(PART, None, None, None, None, digest)])
        return digest.hex()

    def _check_part(self, digest: bytes, size: int) -> None:
        """Inside the lock: refuse a part that was purged or collected since it was stored."""
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
        """Whether a part of this name is here already and holds other bytes, so that the new file must replace it."""
        path = self.parts.local_path(part_name(digest))
        if path is None:
            return False
        with disk.named_errors(f"reading {path}"), path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest() != digest

    # -- reading ------------------------------------------------------------------------------

    def read(self, oid: str, *, most: int | None = RECORD) -> bytes:
        """A whole object. One in chunks may have `most` bytes; None is for what a person asked for by its id."""
        row = self._row(bytes.fromhex(oid))
        _check_fits(row, most)
        return self._content(row)

    def find_away(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects whose content is at a remote only."""
        return {row[0].hex() for row in tables.list_away(self.db, map(bytes.fromhex, oids))}

    def bring(self, oids: Iterable[str], progress: Progress | None = None) -> None:
        """Have the content of these objects here: all that is at a remote only, in as few requests as it takes."""
        away = [row[0] for row in tables.list_away(self.db, map(bytes.fromhex, oids))]
        if away and self._remotes is None:
            raise Unavailable(
                f"the content of object {away[0].hex()[:10]} is at a remote, and none is known here. Nothing was read.",
                hint="See the remotes with: memlake remote -v",
            )
        if away and self._remotes is not None:
            self._remotes(self, away, progress)

    def read_many(self, oids: Iterable[str], *, most: int = RECORD) -> Iterator[tuple[str, bytes]]:
        """Objects in the order that is cheapest to read, each checked. One in chunks may have `most` bytes."""
        rows = self._rows({bytes.fromhex(oid) for oid in oids})
        for row in rows:
            if row[2] == CHUNKED:
                _check_fits(row, most)
        yield from self._read_rows(rows)

    def read_chunks(self, pieces: Iterable[tuple[bytes, int]], *, nested: bool = False) -> Iterator[tuple[str, bytes]]:
        """Chunks by what their list says of them, (oid, length). Refuses one whose row says another length.

        A chunk may itself be an object in chunks, but the chunks of that one (`nested`) may not: memlake cuts them too
        small for it.
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
        rows = tables.list_objects(self.db, digests)
        if away := [row[0].hex() for row in rows if row[2] == AWAY]:
            self.bring(away)
            rows = tables.list_objects(self.db, digests)
        for row in rows:
            _check_row(row)
        for digest in set(digests) - {row[0] for row in rows}:
            self._row(digest)  # raises, and says what became of it
        return rows

    def _read_rows(self, rows: list[Row], *, nested: bool = False) -> Iterator[tuple[str, bytes]]:
        packed = sorted((r for r in rows if r[2] in (PACKED, PACKED_ZSTD)), key=lambda r: (r[3], r[4]))
        for span in _spans(packed):
            yield from self._read_span(span)
        for row in rows:
            if row[2] == INLINE:  # what there is most of
                yield row[0].hex(), _check_hash(row[0], row[6])
            elif row[2] not in (PACKED, PACKED_ZSTD):
                yield row[0].hex(), self._content(row, nested=nested)

    def open(self, oid: str) -> io.BufferedReader:
        """A seekable stream over an object. It checks that all chunks exist, and fetches only those that are read."""
        self.check_places([oid])
        return io.BufferedReader(ObjectStream(self, oid), buffer_size=64 << 10)

    def pieces(self, oid: str) -> list[tuple[bytes, int]]:
        """The chunks of an object in order, (oid, length); one piece when it is not chunked."""
        row = self._row(bytes.fromhex(oid))
        return decode_list(row[0], row[6], row[1]) if row[2] == CHUNKED else [(row[0], row[1])]

    def size(self, oid: str) -> int:
        return int(self._row(bytes.fromhex(oid), here=False)[1])

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """The sizes of those of these objects that are stored."""
        return {oid.hex(): size for oid, size in tables.list_sizes(self.db, map(bytes.fromhex, oids))}

    def find_missing(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects that are not stored."""
        wanted = set(oids)
        return wanted - {oid.hex() for oid in tables.list_present(self.db, map(bytes.fromhex, wanted))}

    def find_purged(self, oids: Iterable[str]) -> set[str]:
        """Those of these objects that were erased on purpose."""
        return {row[0].hex() for row in tables.list_tombstones_of(self.db, map(bytes.fromhex, oids))}

    def links(self) -> dict[str, tuple[str, ...]]:
        """Every object that links to others, with the oids it links to."""
        rows = tables.scan_links(self.db)
        return {oid.hex(): tuple(links[at : at + 32].hex() for at in range(0, len(links), 32)) for oid, links in rows}

    def check_places(self, oids: Iterable[str]) -> None:
        """Raise when a row, pack or part that holds one of these objects or its chunks is missing or cut short.

        So nobody gets half of an object and then an error. It looks at names and sizes only.
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
        # Only these forms need their pack; of any other it holds a mere copy.
        packed = (PACKED, PACKED_ZSTD, DELTA)
        for pack in {row[3] for row in (*rows.values(), *held.values()) if row[2] in packed}:
            self._check_pack(pack)

    def _check_pack(self, pack: int) -> None:
        row = tables.find_pack(self.db, pack)
        # gc joins packs and removes the rows before the files. A row that is gone is no loss: the records have moved.
        if row is not None and self._size_in(self.packs, row[0]) != row[1] and tables.find_pack(self.db, pack) == row:
            raise _lost(f"pack {row[0][:10]}", None)

    def _size_in(self, place: Place, name: str) -> int | None:
        try:
            return place.size(name)
        except NotFound:
            return None

    def part_path(self, oid: str) -> Path | None:
        """Where a part lies on this machine, for engines that read it in place."""
        self.bring([oid])
        return self.parts.local_path(part_name(bytes.fromhex(oid)))

    def locate(self, digests: Sequence[bytes]) -> dict[bytes, tuple[str, int, int]]:
        """Where uncompressed records are: oid -> (pack name, start, length). For reflinks."""
        rows = tables.list_plain_records(self.db, digests)
        return {row[0]: (self.pack_name(row[1]), row[2], row[3]) for row in rows}

    def pack_name(self, pack: int) -> str:
        if pack not in self._names:
            row = tables.find_pack(self.db, pack)
            if row is None:
                raise Corrupt(f"pack {pack} is not in the pack directory.", hint="Run memlake fsck.")
            self._names[pack] = row[0]
        return self._names[pack]

    def _row(self, digest: bytes, *, here: bool = True) -> Row:
        """Where an object lies. Where its content is wanted `here`, it is brought here first."""
        row = tables.find_object(self.db, digest)
        if row is not None and here and row[2] == AWAY:
            self.bring([digest.hex()])
            row = tables.find_object(self.db, digest)
        if row is not None:
            _check_row(row)
            return row
        tombstone = tables.find_tombstone(self.db, digest)
        if tombstone:
            raise Purged(f"object {digest.hex()[:10]} was purged: {tombstone[1]}.")
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
        """A delta applied to its base. gc or a purge may store either elsewhere meanwhile, so look for both again."""
        for attempt in range(_TRIES):
            try:
                return self._resolve(row if attempt == 0 else self._row(row[0]), 0)
            except (NotFound, Purged, Corrupt):
                if attempt == _TRIES - 1:
                    raise
                self._names.clear()
        raise AssertionError("the last attempt returns or raises")

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
        base_row = self._row(base)
        # memlake makes no delta on an object in chunks, which could be deltas in turn.
        if base_row[1] > packs.LARGEST or base_row[2] == CHUNKED:
            raise Corrupt(
                f"object {base.hex()} has {base_row[1]:,} bytes or is in chunks, and a delta rests on it. "
                "It was not read.",
                hint="Run memlake fsck --full.",
            )
        below = self._resolve(base_row, depth + 1)
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
            # gc may have joined this pack with others and deleted it, so look once more where the records are now.
            self._names.pop(pack, None)
            for row in span:
                yield self._read_moved(row[0])
            return
        for digest, size, form, _, start, stored, _ in span:
            data = block[start - first : start - first + stored]
            yield digest.hex(), _check_hash(digest, _expand(digest, data, size) if form == PACKED_ZSTD else data)

    def _read_moved(self, digest: bytes) -> tuple[str, bytes]:
        row = self._row(digest)
        _, size, form, pack, start, length, _ = row
        if form not in (PACKED, PACKED_ZSTD):
            return digest.hex(), self._content(row)
        try:
            data = self.packs.get(self.pack_name(pack), start, length)
        except NotFound as error:
            raise _lost(f"pack {self.pack_name(pack)[:10]}", digest) from error
        return digest.hex(), _check_hash(digest, _expand(digest, data, size) if form == PACKED_ZSTD else data)


class ObjectStream(WindowedStream):
    """Random access over one object, chunk by chunk."""

    def __init__(self, objects: Objects, oid: str) -> None:
        self._objects, self._pieces = objects, objects.pieces(oid)
        self._starts = [0, *accumulate(length for _, length in self._pieces)]
        super().__init__(self._starts[-1])

    def _load(self, wanted: int) -> tuple[int, bytes]:  # noqa: ARG002  a chunk comes whole or not at all
        index = bisect_right(self._starts, self._at) - 1
        oid, length = self._pieces[index]
        if len(self._pieces) == 1:
            return 0, self._objects.read(oid.hex())
        ((_, chunk),) = self._objects.read_chunks([(oid, length)])
        return self._starts[index], chunk


def part_name(digest: bytes) -> str:
    """The name of a part: a folder by its first two digits, then the oid."""
    text = digest.hex()
    return f"{text[:2]}/{text}"


def refuse_purged(db: Database, digests: Iterable[bytes]) -> None:
    """Raise when one of these objects was purged, because purged content must not come back by being added again."""
    for digest, _, reason in tables.list_tombstones_of(db, digests):
        raise Purged(
            f"content {digest.hex()[:10]} was purged from this repo ({reason}) and may not be stored again. "
            "Nothing was changed.",
            hint="Remove it from what you add, or ask whoever purged it.",
        )


def _lost(what: str, digest: bytes | None) -> Corrupt:
    needed = f"object {digest.hex()[:10]} cannot be read" if digest else "what was asked for cannot be read"
    return Corrupt(
        f"{what} is missing or cut short, so {needed}. Nothing was written.",
        hint="See every path that needs it with: memlake fsck\n"
        "Then put the file back from a backup or another copy of the repo.",
    )


def encode_inline(data: bytes) -> tuple[int, bytes]:
    """The form and the bytes under which a row holds this content: compressed where that pays."""
    packed = packs.squeeze(data) if len(data) > 128 else None
    return (INLINE, data) if packed is None else (INLINE_ZSTD, packed)


def _encode_links(links: Sequence[str]) -> bytes | None:
    return b"".join(map(bytes.fromhex, links)) or None


def _check_hash(digest: bytes, data: bytes) -> bytes:
    if hashlib.sha256(data).digest() != digest:
        raise Corrupt(
            f"object {digest.hex()} is damaged: its bytes do not match its hash. It was not served.",
            hint="Run `memlake fsck --full` to see which paths are affected; restore it from a backup or another copy.",
        )
    return data


def _check_fits(row: Row, most: int | None) -> None:
    """Refuse an object too large for memory: a list of many equal chunks is small, and the object it lists is not."""
    if most is not None and row[2] == CHUNKED and row[1] > most:
        raise Corrupt(
            f"object {row[0].hex()} has {row[1]:,} bytes in chunks; a record has at most {most:,}. It was not read.",
            hint="Run `memlake fsck --full` to see which paths are affected.",
        )


def _check_row(row: Row) -> None:
    """Refuse a row whose values are not what its form says: a flipped bit can make SQLite hand out any type.

    Lengths are limited too, because a pack may be sparse: that it has so many bytes does not mean that they are stored.
    """
    digest, size, form, pack, start, length, data = row
    is_right = type(size) is int
    if is_right and form in (PACKED, PACKED_ZSTD, DELTA):
        is_right = type(pack) is int and type(start) is int and type(length) is int
        is_right = is_right and max(size, length) <= packs.LIMIT and (form != PACKED or length == size)
        is_right = is_right and (form != DELTA or type(data) is bytes)
    else:
        is_right = is_right and (form in (PART, AWAY) or type(data) is bytes)
    if not is_right:
        raise Corrupt(f"object {digest.hex()} is damaged: its row makes no sense.", hint="Run memlake fsck --full.")


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
