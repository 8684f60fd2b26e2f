"""Taking in: batches into repo.db, in one transaction. Nothing is visible before all of it is known to be right.

The files are in their places by then. Commits are adopted, so their trees are replayed; everything a commit names must
be here or be known to lie at the remote; chunks must make up the objects they are said to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from memlake.errors import Corrupt
from memlake.objects import tables as object_tables
from memlake.objects.layout import tick
from memlake.objects.packs import AWAY, CHUNKED, DELTA, LOG, OBJECT, PART, Record, Sealed
from memlake.objects.store import Objects, encode_inline
from memlake.versions.history.adopt import adopt_memories
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch, ChunkList
from memlake.versions.sync.receive import Plan, check_links
from memlake.versions.trees import codec

_SPAN = 8 << 20
_GROUP = 4000
_MANY = 50_000  # files that commits may name before they are looked for
Item = TypeVar("Item")


class Taker:
    """Takes batches into repo.db, one after another. Use inside a write, with the files in their places."""

    def __init__(self, history: History, planned: Plan, made: Sequence[Sealed]) -> None:
        self._history, self._db, self._objects = history, history.db, history.objects
        self._away = planned.away
        self._whole, self._partial = {pack.name for pack in planned.whole}, planned.partial
        self._now = tick(self._db)
        self._named: set[bytes] = set()  # by commits and links, and not known yet to be here
        self._sizes: dict[bytes, int] = {}  # the same of files, as their entries say
        self._most = _MANY
        self._lists: list[bytes] = []
        self._deltas: list[bytes] = []
        self.commits = self.objects = 0
        for sealed in made:
            self._add_pack(sealed.name, sealed.size, sealed.records)

    def add(self, batch: Batch, *, memories: bool = True) -> list[bytes]:
        """Take a batch in; returns the oids of its small objects."""
        for pack in batch.packs:
            if pack.name in self._whole and not object_tables.has_pack(self._db, pack.name):
                self._add_pack(pack.name, pack.size, pack.read().records)
            elif pack.name in self._partial:
                away = (r for r in pack.read().records if r.role & OBJECT and r.form not in (CHUNKED, PART))
                self._put((r.oid, r.size, AWAY, r.role, None, None, None, self._now, r.links, None) for r in away)
        oids = self._add_small(batch)
        self._add_lists(batch.lists)
        self._add_parts(batch)
        if batch.lane == 0 or memories:
            self._add_commits(batch)
        self._check_named()  # after each batch, because a million files must not fill the memory
        return oids

    def finish(self) -> None:
        """Check what can be checked only now: that nothing is lacking, and that chunks and deltas make up objects."""
        self._check_named()
        if lacking := self._named | self._sizes.keys():
            raise Corrupt(f"object {min(lacking).hex()} is needed and was not sent. Nothing was changed.")
        for oid in self._lists:
            check_whole(self._objects, oid)
        for group in _groups(self._deltas):
            bases = {oid: object_tables.find_base(self._db, oid) for oid in group}
            away = {oid for oid, _, _ in object_tables.list_away(self._db, filter(None, bases.values()))}
            for oid in group:
                if bases[oid] is not None and bases[oid] not in away:  # else it is checked when its base comes
                    self._objects.read(oid.hex())

    def _check_named(self) -> None:
        """Compare what is named with what is here, and forget it. What is not here may come with a later batch."""
        named, said = sorted(self._named | self._sizes.keys()), self._sizes
        self._named, self._sizes = set(), {}
        for group in _groups(named):
            sizes: dict[bytes, int] = dict(object_tables.list_sizes(self._db, group))
            missing = set(group) - sizes.keys()
            if missing:
                missing -= {row[0] for row in object_tables.list_tombstones_of(self._db, missing)}
            for oid in missing:
                if oid in said:
                    self._sizes[oid] = said[oid]
                else:
                    self._named.add(oid)
            for oid, size in sizes.items():
                if said.get(oid, size) != size:
                    raise Corrupt(
                        f"a commit says that object {oid.hex()[:10]} has {said[oid]:,} bytes, but it has {size:,}. "
                        "Nothing was changed."
                    )

    def _add_pack(self, name: str, size: int, records: Sequence[Record]) -> None:
        id = object_tables.add_pack(self._db, name, size)
        kept = [record for record in records if record.role != LOG and record.form not in (CHUNKED, PART)]
        self._put(
            (r.oid, r.size, r.form, r.role, id, r.start, r.length, self._now, r.links, self._base(name, r))
            for r in kept
        )
        self._deltas += [record.oid for record in kept if record.form == DELTA]

    def _base(self, name: str, record: Record) -> bytes | None:
        return self._objects.packs.get(name, record.start, 32) if record.form == DELTA else None

    def _add_small(self, batch: Batch) -> list[bytes]:
        oids, rows = list[bytes](), []
        for one in batch.objects:
            oid = hashlib.sha256(one.content).digest()
            oids.append(oid)
            form, payload = encode_inline(one.content)
            check_links(oid, one.content, one.links)
            rows.append((oid, len(one.content), form, one.role, None, None, None, self._now, one.links, payload))
        self._put(rows)
        return oids

    def _add_lists(self, lists: Sequence[ChunkList]) -> None:
        rows = []
        unknown = self._objects.find_missing(one.oid.hex() for one in lists)
        for one in lists:
            form = AWAY if one.oid in self._away else CHUNKED
            rows.append((one.oid, one.size, form, one.role, None, None, None, self._now, one.links, one.data))
            if form == CHUNKED and one.oid.hex() in unknown:
                self._lists.append(one.oid)
        self._put(rows)

    def _add_parts(self, batch: Batch) -> None:
        self._put(
            (one.oid, one.size, AWAY if one.oid in self._away else PART, one.role, None, None, None, self._now,
             one.links, None)
            for one in batch.parts
        )  # fmt: skip

    def _put(self, rows: Iterable[Sequence[Any]]) -> None:
        """Store rows but those of what was purged here."""
        listed = sorted(rows, key=itemgetter(0))  # by oid, as they lie in the database
        for row in listed:
            if links := row[8]:
                self._named.update(links[at : at + 32] for at in range(0, len(links), 32))
        for group in _groups(listed):
            dead = {row[0] for row in object_tables.list_tombstones_of(self._db, [row[0] for row in group])}
            object_tables.put_objects(self._db, [row for row in group if row[0] not in dead])
        self.objects += len(listed)

    def _add_commits(self, batch: Batch) -> None:
        if batch.lane == 1:
            self.commits += adopt_memories(self._history, batch.commits, self._named)
            self._history.nodes.forget()  # later commits need few of them, and those of a million would take 150 MB
            return
        for data in batch.commits:
            fields = codec.unpack(data)
            if type(fields) is not list or len(fields) != 11 or fields[1] != 0:
                raise Corrupt("a commit was sent among those of another lane. Nothing was changed.")
            # A batch that was joined has old ones.
            self.commits += not self._history.has(hashlib.sha256(data).hexdigest())
            commit = self._history.adopt(data)
            self._named.update(map(bytes.fromhex, commit.meta.values()))
            for change in self._history.changes(commit):
                if change.new is not None and change.new.kind == "file":
                    self._note_size(bytes.fromhex(change.new.oid), change.new.size)
                elif change.new is not None:
                    self._named.add(bytes.fromhex(change.new.oid))
            if len(self._sizes) > self._most:  # a batch of few commits may name a million files
                self._check_named()
                self._history.nodes.forget()
                self._most = len(self._sizes) + _MANY

    def _note_size(self, oid: bytes, size: int) -> None:
        if self._sizes.setdefault(oid, size) != size:
            raise Corrupt(f"commits say that object {oid.hex()[:10]} has two sizes. Nothing was changed.")


def check_whole(objects: Objects, oid: bytes) -> None:
    """Whether the chunks of an object make it up. Its list alone proves nothing when somebody else wrote it."""
    digest, batch = hashlib.sha256(), list[tuple[bytes, int]]()
    for piece in [*objects.pieces(oid.hex()), None]:
        if piece is not None:
            batch.append(piece)
        if batch and (piece is None or sum(length for _, length in batch) > _SPAN):
            contents = dict(objects.read_chunks(batch))
            for chunk, _ in batch:
                digest.update(contents[chunk.hex()])
            batch.clear()
    if digest.digest() != oid:
        raise Corrupt(f"the chunks of object {oid.hex()[:10]} do not make it up. Nothing was changed.")


def _groups(rows: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (rows[at : at + _GROUP] for at in range(0, len(rows), _GROUP))
