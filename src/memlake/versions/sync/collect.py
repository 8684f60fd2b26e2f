"""Collect: what some commits need and the other side lacks, as batches, packs and parts to send. Reads the repo.

A pack of ours is sent as it is when the other side lacks everything in it and may have all of it; else its records are
copied into a new pack, whose name follows from what is in it, so that a push that is run again makes the same files.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgpack

from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Row
from memlake.objects.packs import (
    AWAY,
    CHUNKED,
    DELTA,
    INLINE,
    INLINE_ZSTD,
    LIMIT,
    MAGIC,
    OBJECT,
    PART,
    PackWriter,
    Record,
    decode_footer,
    expand,
    read_footer_bytes,
)
from memlake.objects.store import Objects
from memlake.versions import tables
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch, ChunkList, Pack, Part, Small
from memlake.versions.trees import codec

_AT_ONCE = 4000
_WINDOW = 4096  # commits whose rows are read in one go
_BATCH_BYTES, _BATCH_COMMITS = 12 << 20, 100_000  # after which a batch ends, counted before compression
_COPIED_AT_ONCE = 8 << 20
T = TypeVar("T")
Known = Callable[[Sequence[bytes]], set[bytes]]  # those of some objects that the other side has


class PackToSend(NamedTuple):
    """A pack: where it lies if it is ours as it is, or how to make it."""

    name: str
    size: int
    footer: bytes
    copied: tuple[tuple[str, Record], ...] = ()  # of one that is made: what it takes of which packs of ours
    nonce: bytes = b""


class Sending(NamedTuple):
    """What goes to the other side for one lane."""

    batches: Sequence[Batch]
    packs: Sequence[PackToSend]
    parts: Sequence[Part]

    @property
    def size(self) -> int:
        """Bytes of content, before compression of what is small."""
        small = sum(len(one.content) for batch in self.batches for one in batch.objects)
        commits = sum(len(commit) for batch in self.batches for commit in batch.commits)
        return small + commits + sum(pack.size for pack in self.packs) + sum(part.size for part in self.parts)


def list_new_commits(history: History, heads: Iterable[bytes], known: Iterable[bytes]) -> list[int]:
    """The seqs of commits behind the heads and not behind the known ones, parents first.

    A parent's seq is smaller than its child's, so one pass down the seqs meets every child before its parents.
    """
    wanted = set(tables.list_seqs(history.db, heads))
    hidden = set(tables.list_seqs(history.db, known))
    found: list[int] = []
    top = max(wanted, default=0)
    while wanted - hidden:
        for seq, p1, p2 in tables.list_parents_below(history.db, top, _WINDOW):
            top = seq - 1
            parents = [parent for parent in (p1, p2) if parent is not None]
            if seq in hidden:
                hidden.discard(seq)
                hidden.update(parents)
            elif seq in wanted:
                found.append(seq)
                wanted.update(parents)
            wanted.discard(seq)
    return found[::-1]


def collect(history: History, seqs: Sequence[int], lane: int, known: Known, *, sweeps: int = 0) -> Sending:
    """What these commits of one lane need and the other side lacks. `known` is asked in groups.

    `sweeps`: how often files were deleted there. No name of a file is one of before, which somebody may be deleting.
    """
    collector = _Collector(history, lane, known, sweeps)
    for group in _groups(seqs, _AT_ONCE):
        collector.add_commits([row[1] for row in tables.list_commit_data(history.db, group)])
    return collector.finish()


class _Collector:
    """The commits and objects of one lane, in batches of a bounded size. The objects of a commit come before it."""

    def __init__(self, history: History, lane: int, known: Known, sweeps: int) -> None:
        self._history, self._objects, self._lane, self._known = history, history.objects, lane, known
        self._repo = uuid.UUID(history.objects.repo).bytes
        self._sweeps = sweeps
        self._mark = sweeps.to_bytes(8, "big") if sweeps else b""  # part of every name
        self._seen: set[bytes] = set()
        self._batches: list[Batch] = []
        self._commits: list[bytes] = []
        self._small: list[Small] = []
        self._lists: list[ChunkList] = []
        self._parts: list[Part] = []
        self._size = 0
        self._packed: dict[int, list[Record]] = {}  # by pack of ours
        self._deltas: list[tuple[bytes, int, Record]] = []  # what each rests on, and its pack

    def add_commits(self, commits: Sequence[bytes]) -> None:
        oids: set[bytes] = set()
        for data in commits:
            fields = codec.unpack(data)
            changes, meta = fields[8], fields[9]
            oids.update(meta.values())
            if changes is None and "changes" in meta:
                changes = codec.unpack(self._objects.read(meta["changes"].hex()))
            oids.update(new[:32] for _, _, new in changes or () if new is not None)
        self._add_objects(oids)
        self._commits += commits
        self._size += sum(map(len, commits))
        if self._size > _BATCH_BYTES or len(self._commits) > _BATCH_COMMITS:
            self._end_batch()

    def finish(self) -> Sending:
        if self._commits or self._small or self._lists or self._parts:
            self._end_batch()
        self._add_deltas()
        packs = self._plan_packs()
        if packs or self._small:
            # First, so that whoever reads the batches in order has them before a commit needs them.
            first, *more = _split([Pack(one.name, one.size, one.footer) for one in packs]) or [[]]
            heads = [Batch(self._repo, self._mark, self._lane, (), self._small, (), first)]
            self._batches[:0] = [*heads, *(Batch(self._repo, self._mark, self._lane, packs=group) for group in more)]
        parts = [part for batch in self._batches for part in batch.parts]
        return Sending(self._batches, packs, parts)

    def _end_batch(self) -> None:
        batch = Batch(self._repo, self._mark, self._lane, self._commits, self._small, self._lists, (), self._parts)
        self._batches.append(batch)
        self._commits, self._small, self._lists, self._parts, self._size = [], [], [], [], 0

    # -- objects

    def _add_objects(self, oids: Iterable[bytes]) -> None:
        """Objects with all they need, but for what the other side has."""
        wanted = set(oids)
        while wanted:
            wanted -= self._seen
            self._seen |= wanted
            fresh = [oid for group in _groups(sorted(wanted), _AT_ONCE) for oid in set(group) - self._known(group)]
            wanted = set()
            for group in _groups(sorted(fresh), _AT_ONCE):
                wanted |= self._add_rows(set(group))

    def _add_rows(self, oids: set[bytes]) -> set[bytes]:
        """Take these objects in; returns what they need."""
        rows = object_tables.list_to_send(self._history.db, oids)
        if away := [row[0] for row in rows if row[2] == AWAY]:
            self._objects.bring(oid.hex() for oid in away)
            rows = object_tables.list_to_send(self._history.db, oids)
        if missing := oids - {row[0] for row in rows}:
            self._refuse_missing(missing)
        needs: set[bytes] = set()
        for row in sorted(rows):
            links = row[7]
            if links:
                needs.update(links[at : at + 32] for at in range(0, len(links), 32))
            needs |= self._add_row(row)
        return needs

    def _refuse_missing(self, oids: set[bytes]) -> None:
        """What was purged does not travel; anything else that is not here is damage, and raises."""
        purged = {row[0] for row in object_tables.list_tombstones_of(self._history.db, oids)}
        for oid in oids - purged:
            self._objects.size(oid.hex())

    def _add_row(self, row: Row) -> set[bytes]:
        oid, size, form, role, pack, start, length, links, data = row
        if form in (INLINE, INLINE_ZSTD):
            self._add_small(data if form == INLINE else expand(data, size), role, links)
        elif form == CHUNKED:
            self._lists.append(ChunkList(oid, size, role, links, data))
            self._size += len(data)
            return {chunk for chunk, _ in decode_list(oid, data, size)}
        elif form == PART:
            self._parts.append(Part(oid, size, role, links, self._sweeps))
        else:
            record = Record(oid, form, start, length, size, role, links)
            if form == DELTA:
                self._deltas.append((data, pack, record))
            else:
                self._packed.setdefault(pack, []).append(record)
        return set()

    def _add_deltas(self) -> None:
        """Deltas whose base goes with them, or is there. Any other goes whole: its base may be of a branch that does
        not go."""
        bases = {base for base, _, _ in self._deltas} - self._seen
        there = {oid for group in _groups(bases, _AT_ONCE) for oid in self._known(group)} | self._seen
        for base, pack, record in self._deltas:
            if base in there:
                self._packed.setdefault(pack, []).append(record)
            else:
                self._small.append(Small(self._objects.read(record.oid.hex()), record.role, record.links))

    def _add_small(self, content: bytes, role: int, links: bytes | None) -> None:
        self._small.append(Small(content, role, links))
        self._size += len(content)
        if self._size > _BATCH_BYTES:
            self._end_batch()

    # -- packs

    def _plan_packs(self) -> list[PackToSend]:
        """Packs of ours that go as they are, and new ones of the records of others."""
        whole: list[PackToSend] = []
        loose: list[tuple[str, Record]] = []
        # Asked now and not remembered: after a purge, an id may be another pack's.
        names = {row[0]: row[1] for row in object_tables.list_packs(self._history.db)}
        for id, records in sorted(self._packed.items()):
            name = names[id]
            pack = None if self._mark else self._find_whole(name, records)
            if pack is not None:
                whole.append(pack)
            else:
                loose += [(name, record) for record in sorted(records, key=lambda record: record.start)]
        return whole + [_plan_pack(self._repo, group, self._mark) for group in _fill(loose)]

    def _find_whole(self, name: str, wanted: Sequence[Record]) -> PackToSend | None:
        """The pack as it is, if everything in it is wanted and it says of every object that it is one."""
        place = self._objects.packs
        footer = read_footer_bytes(place, name)
        held = {one.oid: one for one in decode_footer(name, footer).records if one.form != CHUNKED}
        is_whole = held.keys() == {record.oid for record in wanted} and not any(
            record.role & OBJECT and not (held[record.oid].role & OBJECT and held[record.oid].links == record.links)
            for record in wanted
        )
        return PackToSend(name, place.size(name), footer) if is_whole else None


def _split(packs: Iterable[Pack]) -> list[list[Pack]]:
    """Packs in groups for a batch each, by the bytes of their footers."""
    groups, size = list[list[Pack]](), _BATCH_BYTES + 1
    for pack in packs:
        if size > _BATCH_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(pack)
        size += len(pack.footer)
    return groups


def _fill(records: Iterable[tuple[str, Record]]) -> Iterator[list[tuple[str, Record]]]:
    """Records in groups that each make a pack."""
    group: list[tuple[str, Record]] = []
    size = 0
    for name, record in records:
        if group and size + record.length > LIMIT // 2:
            yield group
            group, size = [], 0
        group.append((name, record))
        size += record.length + 128
    if group:
        yield group


def _plan_pack(repo: bytes, group: Sequence[tuple[str, Record]], mark: bytes) -> PackToSend:
    """The pack that these records make, in this order, without making it yet."""
    at, placed = len(MAGIC), list[Record]()
    for _, record in group:
        placed.append(record._replace(start=at))
        at += record.length
    nonce = hashlib.sha256(mark + b"".join(record.oid for _, record in group)).digest()[:16]
    footer = msgpack.packb([repo, nonce, placed])
    return PackToSend(hashlib.sha256(footer).hexdigest(), at + len(footer) + 16, footer, tuple(group), nonce)


def write_pack(objects: Objects, planned: PackToSend) -> PackWriter:
    """The planned pack in a file of its own, all but sealed."""
    writer = PackWriter(objects.tmp, objects.repo)
    try:
        for name, run in _runs(planned.copied):
            payloads = objects.packs.get_ranges(name, [(record.start, record.length) for record in run])
            for record, payload in zip(run, payloads, strict=True):
                writer.copy(record, payload)
    except BaseException:
        writer.abandon()
        raise
    return writer


def _runs(copied: Iterable[tuple[str, Record]]) -> Iterator[tuple[str, list[Record]]]:
    """Neighbouring records of one pack, a few megabytes at once."""
    run: list[Record] = []
    of, size = "", 0
    for name, record in copied:
        if run and (name != of or size > _COPIED_AT_ONCE):
            yield of, run
            run, size = [], 0
        of = name
        run.append(record)
        size += record.length
    if run:
        yield of, run


def _groups(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    source = iter(items)
    while group := tuple(islice(source, size)):
        yield group
