"""Collect: what some commits need and the other side lacks, as batches, packs and parts to send. Reads the repo.

A pack of ours is sent as it is when the other side lacks everything in it and may have all of it; else its records are
copied into a new pack, whose name follows from what is in it, so that a push that is run again makes the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgpack

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
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
    spans,
)
from memlake.objects.store import Objects
from memlake.versions import tables
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch, ChunkList, Pack, Part, Small, describe_file, encode_batch
from memlake.versions.sync.root import LogFile, PackFile
from memlake.versions.trees import codec

_AT_ONCE = 4000
_WINDOW = 4096  # commits whose rows are read in one go
_MANY = 50_000  # objects that are looked up at once
_BATCH_BYTES, _BATCH_COMMITS = 12 << 20, 100_000  # after which a batch ends, counted before compression
T = TypeVar("T")
Known = Callable[[Sequence[bytes]], set[bytes]]  # those of some objects that the other side has


class Picked:
    """Records of one pack of ours, by where they begin: a million of them whole would take 200 MB."""

    def __init__(self) -> None:
        self._places, self._roles = array("q"), bytearray()
        self._links: dict[int, bytes] = {}

    def add(self, record: Record) -> None:
        place = _place_of(record)
        self._places.append(place)
        self._roles.append(record.role)
        if record.links is not None:
            self._links[place] = record.links

    def read(self, name: str, footer: bytes) -> tuple[list[Record], bool]:
        """The records in order, and whether they are all that the footer has, which says the same of each."""
        held = {_place_of(one): one for one in decode_footer(name, footer).records if one.form != CHUNKED}
        found, is_whole = list[Record](), len(held) == len(self._places)
        for place, role in sorted(zip(self._places, self._roles, strict=True)):
            if place not in held:
                raise Corrupt(f"pack {name} lacks a record that it must have.", hint="Run memlake fsck --full.")
            record, links = held[place], self._links.get(place)
            is_whole = is_whole and (not role & OBJECT or (record.role & OBJECT > 0 and record.links == links))
            found.append(record._replace(role=role, links=links))
        return found, is_whole


def _place_of(record: Record) -> int:
    """Where a record begins, as a number of its own: the one behind an empty record begins there too."""
    return record.start * 2 + (record.length > 0)


class PackToSend(NamedTuple):
    """A pack: where it lies if it is ours as it is, or how to make it."""

    name: str
    size: int
    footer: bytes
    records: int
    copied: tuple[tuple[str, Picked], ...] = ()  # of one that is made: what it takes of which packs of ours
    nonce: bytes = b""


class KeptBatch(NamedTuple):
    """A batch that was collected: what is still asked of it, and the file that has all of it. A trial writes none."""

    file: LogFile
    path: Path
    token: bytes
    packs: Sequence[PackFile]
    parts: Sequence[Part]
    objects: int

    def read(self) -> bytes:
        return self.path.read_bytes()


class Sending(NamedTuple):
    """What goes to the other side for one lane."""

    batches: Sequence[KeptBatch]
    packs: Sequence[PackToSend]
    parts: Sequence[Part]
    oids: AbstractSet[bytes]  # of the objects and chunks that go, or are there
    small: int  # bytes of commits and small objects, before compression

    @property
    def size(self) -> int:
        """Bytes of content, before compression of what is small."""
        return self.small + sum(pack.size for pack in self.packs) + sum(part.size for part in self.parts)


@contextlib.contextmanager
def open_scratch(objects: Objects) -> Iterator[Path]:
    """A folder for batches until they are sent. A crash leaves it to gc, which knows its name."""
    with disk.named_errors(f"making a folder in {objects.tmp}"):
        folder = tempfile.TemporaryDirectory(prefix="backup-", dir=objects.tmp, ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name)


def keep_batch(batch: Batch, folder: Path | None, *, records: int = 0) -> KeptBatch:
    """Put a batch into a file, because a million commits must not fill the memory. Without a folder it is a trial.

    `records`: how many its packs have.
    """
    objects = len(batch.objects) + len(batch.lists) + len(batch.parts) + records
    packs = [PackFile(pack.name, pack.size, batch.lane) for pack in batch.packs]
    if folder is None:
        nowhere = LogFile("", 0, batch.lane, len(batch.commits), 0, 0)
        return KeptBatch(nowhere, Path(), batch.token, packs, batch.parts, objects)
    data = encode_batch(batch)
    file = describe_file(data, batch)
    with disk.named_errors(f"writing a batch to {folder}"):
        disk.write_file(folder / file.name, data)
    return KeptBatch(file, folder / file.name, batch.token, packs, batch.parts, objects)


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


def collect(
    history: History, seqs: Sequence[int], lane: int, known: Known, folder: Path | None, *, sweeps: int = 0
) -> Sending:
    """What these commits of one lane need and the other side lacks. `known` is asked in groups.

    Batches go into `folder`; without one this is a trial.
    `sweeps`: how often files were deleted there. No name of a file is one of before, which somebody may be deleting.
    """
    collector = _Collector(history, lane, known, folder, sweeps)
    for group in _groups(seqs, _AT_ONCE):
        collector.add_commits([row[1] for row in tables.list_commit_data(history.db, group)])
    return collector.finish()


class _Collector:
    """The commits and objects of one lane, in batches of a bounded size. The objects of a commit come before it."""

    def __init__(self, history: History, lane: int, known: Known, folder: Path | None, sweeps: int) -> None:
        self._history, self._objects, self._lane, self._known = history, history.objects, lane, known
        self._folder = folder
        self._repo = uuid.UUID(history.objects.repo).bytes
        self._sweeps = sweeps
        self._mark = sweeps.to_bytes(8, "big") if sweeps else b""  # part of every name
        self._seen: set[bytes] = set()
        self._batches: list[KeptBatch] = []
        self._commits: list[bytes] = []
        self._small: list[Small] = []
        self._lists: list[ChunkList] = []
        self._parts: list[Part] = []
        self._size = self._total = 0
        self._packed: dict[int, Picked] = {}  # by pack of ours
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
            if len(oids) > _MANY:  # one commit may have a million
                self._add_objects(oids)
                oids = set()
        self._add_objects(oids)
        self._commits += commits
        self._size += sum(map(len, commits))
        if self._size > _BATCH_BYTES or len(self._commits) > _BATCH_COMMITS:
            self._end_batch()

    def finish(self) -> Sending:
        if self._commits or self._small or self._lists or self._parts:
            self._end_batch()
        self._add_deltas()
        # First, so that whoever reads the batches in order has them before a commit needs them.
        heads, packs = list[KeptBatch](), list[PackToSend]()
        for group in _split(self._plan_packs(), at_least_one=bool(self._small)):
            told = [Pack(one.name, one.size, one.footer) for one in group]
            batch = Batch(self._repo, self._mark, self._lane, (), () if heads else self._small, (), told)
            heads.append(keep_batch(batch, self._folder, records=sum(one.records for one in group)))
            packs += [one._replace(footer=b"") for one in group]  # the batches have them
        self._batches[:0] = heads
        self._total += sum(len(one.content) for one in self._small)
        parts = [part for batch in self._batches for part in batch.parts]
        return Sending(self._batches, packs, parts, self._seen, self._total)

    def _end_batch(self) -> None:
        batch = Batch(self._repo, self._mark, self._lane, self._commits, self._small, self._lists, (), self._parts)
        self._batches.append(keep_batch(batch, self._folder))
        self._total += sum(len(one.content) for one in self._small) + sum(map(len, self._commits))
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
                self._packed.setdefault(pack, Picked()).add(record)
        return set()

    def _add_deltas(self) -> None:
        """Deltas whose base goes with them, or is there. Any other goes whole: its base may be of a branch that does
        not go."""
        bases = {base for base, _, _ in self._deltas} - self._seen
        there = {oid for group in _groups(bases, _AT_ONCE) for oid in self._known(group)} | self._seen
        for base, pack, record in self._deltas:
            if base in there:
                self._packed.setdefault(pack, Picked()).add(record)
            else:
                self._small.append(Small(self._objects.read(record.oid.hex()), record.role, record.links))

    def _add_small(self, content: bytes, role: int, links: bytes | None) -> None:
        self._small.append(Small(content, role, links))
        self._size += len(content)
        if self._size > _BATCH_BYTES:
            self._end_batch()

    # -- packs

    def _plan_packs(self) -> Iterator[PackToSend]:
        """Packs of ours that go as they are, and new ones of the records of others. One at a time, because the footers
        of a million objects take 60 MB."""
        # Asked now and not remembered: after a purge, an id may be another pack's.
        names = {row[0]: row[1] for row in object_tables.list_packs(self._history.db)}
        place, group, size = self._objects.packs, list[tuple[str, Record]](), 0
        for id, picked in sorted(self._packed.items()):
            name = names[id]
            footer = read_footer_bytes(place, name)
            records, is_whole = picked.read(name, footer)
            if is_whole and not self._mark:
                yield PackToSend(name, place.size(name), footer, len(records))
                continue
            for record in records:
                if group and size + record.length > LIMIT // 2:
                    yield _plan_pack(self._repo, group, self._mark)
                    group, size = [], 0
                group.append((name, record))
                size += record.length + 128
        if group:
            yield _plan_pack(self._repo, group, self._mark)


def _split(packs: Iterable[PackToSend], *, at_least_one: bool) -> Iterator[list[PackToSend]]:
    """Packs in groups for a batch each, by the bytes of their footers."""
    group, size = list[PackToSend](), 0
    for pack in packs:
        group.append(pack)
        size += len(pack.footer)
        if size > _BATCH_BYTES:
            yield group
            group, size, at_least_one = [], 0, False
    if group or at_least_one:
        yield group


def _plan_pack(repo: bytes, group: Sequence[tuple[str, Record]], mark: bytes) -> PackToSend:
    """The pack that these records make, in this order, without making it yet."""
    at, placed = len(MAGIC), list[Record]()
    for _, record in group:
        placed.append(record._replace(start=at))
        at += record.length
    nonce = hashlib.sha256(mark + b"".join(record.oid for _, record in group)).digest()[:16]
    footer = msgpack.packb([repo, nonce, placed])
    copied: dict[str, Picked] = {}
    for name, record in group:
        copied.setdefault(name, Picked()).add(record)
    size = at + len(footer) + 16
    return PackToSend(hashlib.sha256(footer).hexdigest(), size, footer, len(group), tuple(copied.items()), nonce)


def write_pack(objects: Objects, planned: PackToSend) -> PackWriter:
    """The planned pack in a file of its own, all but sealed."""
    writer = PackWriter(objects.tmp, objects.repo)
    try:
        for name, picked in planned.copied:
            for run in spans(picked.read(name, read_footer_bytes(objects.packs, name))[0]):
                payloads = objects.packs.get_ranges(name, [(record.start, record.length) for record in run])
                for record, payload in zip(run, payloads, strict=True):
                    writer.copy(record, payload)
    except BaseException:
        writer.abandon()
        raise
    return writer


def _groups(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    source = iter(items)
    while group := tuple(islice(source, size)):
        yield group
