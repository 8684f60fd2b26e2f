"""Deltas: older versions stored as what differs from the newer one beside them. Knows no path.

payload = oid of the base (32 bytes) + a zstd frame whose dictionary is the base's content;  row.data = oid of the base

The newest version stays whole. The n-th before it rests on the one whose number is n with its lowest non-zero digit, in
base four, one less. So a hundred versions are at most nine steps deep, and a delta spans few edits. Nothing is deeper
than DEPTH: a version that would push another below that stays whole. See docs/decisions for the figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from memlake.errors import Error
from memlake.named_tuple import NamedTuple
from memlake.objects import packs, tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database
from memlake.objects.leases import Lease
from memlake.objects.packs import (
    DELTA,
    DEPTH,
    INLINE,
    INLINE_ZSTD,
    PACKED,
    PACKED_ZSTD,
    PackWriter,
    Record,
    Sealed,
)
from memlake.objects.store import Objects

SMALLEST = 512  # bytes of content
_WORTH = 256  # bytes a delta must save
_MISSES = 3  # versions in a row that resemble nothing, after which a path is left alone
_WHOLE = (INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD)
Needed = Callable[[int], bool]  # whether gc spares the object with this id


class _Stored(NamedTuple):
    """How an object is stored now. Its row must still say so when the delta takes its place."""

    oid: bytes
    size: int
    form: int
    role: int
    pack: int | None
    held: int  # bytes it costs
    links: bytes | None


def pair_chunks(objects: Objects, old: bytes, new: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Chunks of an object that its next version no longer has, each with the one that took its place there."""
    rows = tables.list_chunk_lists(objects.db, (old, new))
    lists = {oid: [chunk for chunk, _ in decode_list(oid, data)] for oid, data in rows}
    if len(lists) < 2:
        return
    before, after = lists[old], lists[new]
    places = {chunk: at for at, chunk in enumerate(after)}
    at, old_chunks = 0, set(before)
    for chunk in before:
        if chunk in places:
            at = places[chunk] + 1
        elif at < len(after) and after[at] not in old_chunks:
            yield chunk, after[at]
            at += 1


def store_deltas(objects: Objects, chains: Iterable[Sequence[bytes]]) -> int:
    """Store older versions as deltas. A chain is the versions of one thing, oldest first; returns how many deltas."""
    return _add_all(_Work(objects), chains).done


def try_deltas(objects: Objects, chains: Iterable[Sequence[bytes]], needed: Needed) -> Callable[[], int]:
    """Find which deltas a gc would store for objects whose ids are `needed`, and leave no pack.

    Returns a function that puts them into the rows and returns how many they are, for a write that the caller rolls
    back. Finding them takes long, so it is done before that write, and others can write meanwhile.
    """
    return _add_all(_Work(objects, needed), chains).swap_tried


def _add_all(work: _Work, chains: Iterable[Sequence[bytes]]) -> _Work:
    chains = [chain for chain in chains if len(chain) > 1]
    if not chains:
        return work
    lease = Lease(work.db, "gc")  # a purge leaves our temporary file alone
    try:
        for chain in chains:
            work.add(chain)
            lease.renew()
        work.finish()
    finally:
        work.abandon()
        lease.close()
    return work


class _Work:
    """The deltas of one run: chosen chain by chain, written into packs, and swapped in for whole objects."""

    def __init__(self, objects: Objects, tried: Needed | None = None) -> None:
        """With `tried` this is a trial, which looks at these objects only; without it the deltas are stored."""
        self._objects, self.db, self._tried = objects, objects.db, tried
        self._writer: PackWriter | None = None
        self._bases: dict[bytes, bytes] = {}  # of deltas in the pack being written
        self._resting: defaultdict[bytes, set[bytes]] = defaultdict(set)  # the same the other way: base -> deltas
        self._was: dict[bytes, _Stored] = {}
        self._sealed: Sealed | None = None  # of a trial
        self.done = 0

    def add(self, chain: Sequence[bytes]) -> None:
        rows = self._rows(chain)
        versions = [oid for oid in reversed(chain) if oid in rows]
        contents: dict[int, bytes] = {}
        misses = 0
        for n, oid in enumerate(versions):
            contents = {m: contents[m] for m in _above(n) if m in contents}
            if misses == _MISSES:
                return
            try:
                contents[n] = self._objects.read(oid.hex())
                below = base_of(n)
                base = self._objects.read(versions[below].hex()) if n and below not in contents else None
            except Error:  # damaged or purged meanwhile; fsck reports it
                return
            if n:
                contents.setdefault(below, base or b"")
                if rows[oid].form in _WHOLE and self._may_rest(oid, versions[below]):
                    misses = 0 if self._store(rows[oid], contents[n], versions[below], contents[below]) else misses + 1

    def _rows(self, chain: Sequence[bytes]) -> dict[bytes, _Stored]:
        rows = tables.list_versions(self.db, chain, least=SMALLEST, most=packs.LARGEST)
        # A gc has condemned or spared each row before this; a trial has only found out which ones it would spare.
        spared = (row for row in rows if (row[1] is None if self._tried is None else self._tried(row[0])))
        stored = (_Stored(*row[2:]) for row in spared)
        return {row.oid: row for row in stored if row.form in (*_WHOLE, DELTA)}

    def _may_rest(self, oid: bytes, base: bytes) -> bool:
        """Whether a delta on that base closes no circle and pushes nothing below DEPTH."""
        above = list(lineage(self.db, base, self._bases))
        return oid not in above and len(above) + self._height(oid) <= DEPTH

    def _height(self, oid: bytes) -> int:
        """How many steps rest on an object, one on the other."""
        level, height = {oid}, 0
        while level and height <= DEPTH:
            resting = {oid for oid, _ in tables.list_resting(self.db, level)}
            level = resting.union(*(self._resting.get(base, ()) for base in level))
            height += bool(level)
        return height

    def _store(self, row: _Stored, content: bytes, base: bytes, base_content: bytes) -> bool:
        payload = base + packs.squeeze_against(content, base_content)
        if len(payload) > row.held // 2 or row.held - len(payload) < _WORTH:
            return False
        if self._writer is None:
            self._writer = PackWriter(self._objects.tmp, self._objects.repo)
        self._writer.copy(Record(row.oid, DELTA, 0, 0, row.size, row.role, row.links), payload)
        if row.oid in self._bases:  # in two chains: the later one counts
            self._resting[self._bases[row.oid]].discard(row.oid)
        self._bases[row.oid] = base
        self._resting[base].add(row.oid)
        self._was[row.oid] = row
        if self._writer.is_full and self._tried is None:  # a row of a pack that is not there cannot be read
            self.finish()
        return True

    def swap_tried(self) -> int:
        """Point the rows at the deltas that were found. Call inside a write that is rolled back."""
        if self._sealed is not None:
            self._swap(self._sealed)
        return self.done

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()

    def finish(self) -> None:
        """Deliver what is written so far, and point the rows at it."""
        if self._writer is None:
            return
        if self._tried is not None:
            self._sealed = self._writer.seal()
            return  # `abandon` removes the file
        sealed, self._writer = self._writer.deliver(self._objects.packs), None
        if not self._swap(sealed):
            self._objects.packs.delete(sealed.name)  # it may hold what was purged meanwhile
        self._bases.clear()
        self._resting.clear()
        self._was.clear()

    def _swap(self, sealed: Sealed) -> bool:
        """Point the rows at their deltas; False when one of them, or a base, is no longer as it was."""
        db = self.db
        with db.write():
            now = {oid: (form, pack) for oid, form, pack, _ in tables.list_states(db, self._was)}
            bases = set(self._bases.values())
            kept = {oid for oid, _, _, condemned in tables.list_states(db, bases) if condemned is None}
            unchanged = all(now.get(oid) == (was.form, was.pack) for oid, was in self._was.items())
            circles = any(oid in lineage(db, base, self._bases) for oid, base in self._bases.items())
            if not unchanged or kept != bases or circles:
                return False
            pack = tables.add_pack(db, sealed.name, sealed.size)
            rows = [(DELTA, pack, r.start, r.length, self._bases[r.oid], r.oid) for r in sealed.records]
            tables.replace_objects(db, rows)
            self.done += len(rows)
            return True


def _above(n: int) -> Iterator[int]:
    """Version n, the one it rests on, the one that rests on, and so on down to 0."""
    while n:
        yield n
        n = base_of(n)
    yield 0


def base_of(n: int) -> int:
    """What version n rests on: n with its lowest non-zero digit, in base four, one less."""
    lowest = n & -n
    return n - (lowest if lowest.bit_length() % 2 else lowest >> 1)


def lineage(db: Database, oid: bytes, planned: dict[bytes, bytes] | None = None) -> Iterator[bytes]:
    """An object, what it rests on, what that rests on, and so on; at most one step more than DEPTH."""
    for _ in range(DEPTH + 2):
        yield oid
        base = (planned or {}).get(oid)
        if base is None:
            base = tables.find_base(db, oid)
        if base is None:
            return
        oid = base
