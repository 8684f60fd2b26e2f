"""Rewriting what a remote holds: batches and packs without some of their objects, or several as one. Swaps no root.

What is rewritten gets a new name, so whoever reads the old files meanwhile is not disturbed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from memlake.errors import Corrupt, Error
from memlake.named_tuple import NamedTuple
from memlake.objects.packs import (
    CHUNKED,
    DELTA,
    LOG,
    PACKED,
    PACKED_ZSTD,
    PART,
    PackWriter,
    Record,
    Sealed,
    expand,
    expand_against,
    read_footer_bytes,
    spans,
    squeeze,
)
from memlake.objects.places import Folder
from memlake.objects.store import Objects
from memlake.versions.sync.batch import Batch, Pack, describe_file, encode_batch
from memlake.versions.sync.fetch import Link
from memlake.versions.sync.mirror import Learn
from memlake.versions.sync.receive import check_record, read_batches
from memlake.versions.sync.remote import State
from memlake.versions.sync.root import LogFile, PackFile, Root, doom

Batches = Callable[[], Iterator[tuple[LogFile, Batch]]]
_BASE = 32  # bytes with which a delta begins: the oid of what it rests on


class Rewritten(NamedTuple):
    """A batch under another name, and the files whose content it has now."""

    file: LogFile
    data: bytes
    batch: Batch
    old: tuple[LogFile, ...]


class Rewriter:
    """Makes new files at a remote and keeps account of which take the place of which."""

    def __init__(self, objects: Objects, link: Link, root: Root) -> None:
        self._objects, self._link, self._root = objects, link, root
        self._read: set[str] = set()
        self.stored: set[str] = set()  # paths of files that were made
        self.done: list[Rewritten] = []
        self.gone: list[LogFile] = []
        self.gone_packs: set[str] = set()
        self.new_packs: list[PackFile] = []

    def read(self, files: Sequence[LogFile] | None = None) -> Iterator[tuple[LogFile, Batch]]:
        """Batches of the remote, one after another; all of them unless some are named."""
        folder = self._link.folder / "incoming"
        folder.mkdir(parents=True, exist_ok=True)
        wanted = self._root.log if files is None else files
        self._read.update(file.name for file in wanted)
        return read_batches(self._link.remote, wanted, self._root.repo, folder)

    def _forget_files(self) -> None:
        """Remove the batches that were downloaded."""
        for name in self._read:
            (self._link.folder / "incoming" / name).unlink(missing_ok=True)

    def replace(self, old: Sequence[LogFile], batch: Batch) -> None:
        """Store a batch that takes the place of others; one that holds nothing is not stored."""
        if not any((batch.commits, batch.objects, batch.lists, batch.packs, batch.parts, batch.moves, batch.purges)):
            self.gone += old
            return
        data = encode_batch(batch)
        file = describe_file(data, batch)
        self._link.remote.put_bytes(f"log/{file.name}", data, self._objects.tmp)
        self.stored.add(f"log/{file.name}")
        self.done.append(Rewritten(file, data, batch, tuple(old)))

    def repack(
        self, packs: Sequence[Pack], lane: int, skip: AbstractSet[bytes], whole: Mapping[bytes, bytes]
    ) -> list[Pack]:
        """Store the records of some packs in one, but for those to skip. `whole`: what takes the place of deltas."""
        self.gone_packs |= {pack.name for pack in packs}
        made: list[Pack] = []
        done = set(skip)
        with PackWriter(self._objects.tmp, self._objects.repo) as writer:
            for pack in packs:
                self._copy_records(pack, writer, done, whole)
                done.update(record.oid for record in pack.read().records)
            if writer.records:
                made.append(self._store(writer.seal(), lane))
        return made

    def _copy_records(
        self, pack: Pack, writer: PackWriter, skip: AbstractSet[bytes], whole: Mapping[bytes, bytes]
    ) -> None:
        place = self._link.remote.place
        for group in spans(record for record in pack.read().records if record.oid not in skip):
            payloads = place.get_ranges(f"packs/{pack.name}", [(record.start, record.length) for record in group])
            for record, payload in zip(group, payloads, strict=True):
                if record.oid in whole:
                    packed = squeeze(whole[record.oid])
                    form = PACKED if packed is None else PACKED_ZSTD
                    writer.copy(record._replace(form=form), packed or whole[record.oid])
                    continue
                if record.form in (PACKED, PACKED_ZSTD) and record.role != LOG:
                    check_record(record, payload)  # the old file will be deleted, so a bad copy must not replace it
                writer.copy(record, payload)

    def _store(self, sealed: Sealed, lane: int) -> Pack:
        footer = read_footer_bytes(Folder(sealed.path.parent), sealed.path.name)
        try:
            self._link.remote.place.put(f"packs/{sealed.name}", sealed.path)
        finally:
            sealed.path.unlink(missing_ok=True)
        self.stored.add(f"packs/{sealed.name}")
        self.new_packs.append(PackFile(sealed.name, sealed.size, lane))
        return Pack(sealed.name, sealed.size, footer)

    def next_root(self, root: Root) -> Root:
        """The root with the new files in the places of the old. `root` must still list what was read."""
        last = {one.old[-1].name: one.file for one in self.done}
        out = {file.name for one in self.done for file in one.old} | {file.name for file in self.gone}
        log: list[LogFile] = []
        for file in root.log:
            if file.name in last:
                log.append(last[file.name])  # where the last of them stood: what it rests on came before
            elif file.name not in out:
                log.append(file)
        packs = [pack for pack in root.packs if pack.name not in self.gone_packs]
        return root._replace(log=tuple(log), packs=(*packs, *self.new_packs))

    def _learn(self, learn: Learn, known: AbstractSet[str]) -> None:
        """Note the new batches in the mirror, of those that hold only what was taken in before."""
        for one in self.done:
            if all(f"log/{file.name}" in known for file in one.old):
                learn(one.file.name, one.file.size, one.batch, [oid_of(small.content) for small in one.batch.objects])

    def swap(self, root: Root, before: State, doomed: AbstractSet[str]) -> None:
        """Swap in a root with the new files, and delete those that it dooms. Raises Moved if somebody was faster."""
        remote, mirror = self._link.remote, self._link.mirror
        root = doom(root, doomed - root.paths())
        root = root._replace(generation=root.generation + 1, token=os.urandom(16).hex())
        state = remote.swap(root, before)
        known = mirror.list_taken()
        with mirror.learning(state.root, state.data, None) as learn:  # without a tag: it was not read in full
            self._learn(learn, known)
        remote.keep_copy(state, self._objects.tmp)
        remote.delete_doomed(state)
        self._forget_files()


def oid_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def list_links(links: bytes | None) -> Iterator[bytes]:
    return ((links or b"")[at : at + 32] for at in range(0, len(links or b""), 32))


def strip(batch: Batch, skip: AbstractSet[bytes], packs: Mapping[str, Sequence[Pack]]) -> Batch:
    """A batch without some objects, and with other packs in the place of those that were rewritten."""
    named = {new.name: new for pack in batch.packs for new in packs.get(pack.name, (pack,))}
    return batch._replace(
        objects=[one for one in batch.objects if oid_of(one.content) not in skip],
        lists=[one for one in batch.lists if one.oid not in skip],
        parts=[one for one in batch.parts if one.oid not in skip],
        packs=list(named.values()),
    )


def read_bases(link: Link, pack: Pack, deltas: Sequence[Record]) -> list[bytes]:
    """What deltas of a pack rest on: their first bytes name it."""
    place = link.remote.place
    return place.get_ranges(f"packs/{pack.name}", [(record.start, _BASE) for record in deltas]) if deltas else []


def find_resting(link: Link, pack: Pack, targets: AbstractSet[bytes]) -> dict[bytes, tuple[bytes, Record, bytes]]:
    """The deltas of a pack that rest on a target and are none: oid -> base, record, payload."""
    deltas = [record for record in pack.read().records if record.form == DELTA and record.oid not in targets]
    place, name = link.remote.place, f"packs/{pack.name}"
    bases = read_bases(link, pack, deltas)
    resting = {record: base for record, base in zip(deltas, bases, strict=True) if base in targets}
    payloads = place.get_ranges(name, [(record.start, record.length) for record in resting]) if resting else []
    return {
        record.oid: (base, record, payload[_BASE:])
        for (record, base), payload in zip(resting.items(), payloads, strict=True)
    }


def read_whole(
    objects: Objects, link: Link, batches: Batches, resting: Mapping[bytes, tuple[bytes, Record, bytes]]
) -> dict[bytes, bytes]:
    """The content of deltas: ours, or made from what they rest on at the remote."""
    found: dict[bytes, bytes] = {}
    for oid, (base, record, payload) in resting.items():
        with contextlib.suppress(Error):
            found[oid] = objects.read(oid.hex())
        if oid not in found:
            found[oid] = expand_against(payload, read_there(link, batches, base), record.size)
            if oid_of(found[oid]) != oid:
                raise Corrupt(f"object {oid.hex()[:10]} of {link.remote.url} does not match its hash.")
    return found


def read_there(link: Link, batches: Batches, oid: bytes) -> bytes:
    """The content of an object that deltas rest on, wherever it lies at the remote."""
    for _, batch in batches():
        for one in batch.objects:
            if oid_of(one.content) == oid:
                return one.content
        for pack in batch.packs:
            record = next((r for r in pack.read().records if r.oid == oid and r.form not in (CHUNKED, PART)), None)
            if record is not None:
                payload = link.remote.place.get(f"packs/{pack.name}", record.start, record.length)
                if record.form == DELTA:
                    return expand_against(payload[_BASE:], read_there(link, batches, payload[:_BASE]), record.size)
                return expand(payload, record.size) if record.form == PACKED_ZSTD else payload
    raise Corrupt(f"{link.remote.url} has no object {oid.hex()[:10]}, on which another rests.")
