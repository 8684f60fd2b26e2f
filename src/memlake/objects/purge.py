"""Purge: removing the bytes of objects for good, leaving a tombstone. Knows no path; it is told which objects.

One transaction deletes the rows and writes the tombstones. Packs that held the bytes are rewritten before it, and the
old files deleted after it. Then the write-ahead log is emptied, because it holds the pages as they were.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgpack

from memlake.errors import Corrupt, NotFound, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects import leases, tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database
from memlake.objects.layout import next_seq, now
from memlake.objects.packs import CHUNKED, MAGIC, NAME, PackWriter, Record, Sealed, read_footer, spans
from memlake.objects.store import Objects, part_name
from memlake.objects.strays import find_strays


class PurgeRequest(NamedTuple):
    oids: Sequence[str]
    reason: str
    who: str
    loose: Sequence[str] | None = None  # removed too, with parts that nothing links to; these leave no tombstone


class PurgeRecord(NamedTuple):
    """What one purge erased, as it is stored and sent, so that every copy of the repo erases the same, once.

    `oids` left tombstones and may not come back. `loose` were erased with them, chunks and parts among them; they may
    be stored again if clean content contains them.
    """

    repo: str
    oids: tuple[str, ...]
    loose: tuple[str, ...]
    time: int
    reason: str
    who: str

    def encode(self) -> bytes:
        """Canonical bytes: msgpack [1, repo id, [oid, ...], [loose oid, ...], time, reason, who], oids in order."""
        oids, loose = ([bytes.fromhex(oid) for oid in sorted(group)] for group in (self.oids, self.loose))
        fields = [1, uuid.UUID(self.repo).bytes, oids, loose, self.time, self.reason, self.who]
        return msgpack.packb(fields)  # type: ignore[no-any-return]


def decode_purge(data: bytes) -> PurgeRecord:
    try:
        _, repo, oids, loose, time, reason, who = msgpack.unpackb(data)
        named, others = (tuple(oid.hex() for oid in group) for group in (oids, loose))
        are_texts = type(reason) is type(who) is str
        if {*map(len, (*named, *others))} - {64} or type(time) is not int or abs(time) >> 58 or not are_texts:
            raise ValueError("its values are of the wrong types")
        return PurgeRecord(str(uuid.UUID(bytes=repo)), named, others, time, reason, who)
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise Corrupt("the record of a purge cannot be read.", hint="Run memlake fsck.") from error


class Purged(NamedTuple):
    oids: tuple[str, ...]
    bytes: int
    packs: int
    seq: int
    notes: tuple[str, ...]


def purge(objects: Objects, request: PurgeRequest) -> Purged:
    """Remove objects everywhere this store keeps bytes. Cannot be undone."""
    db = objects.db
    objects.packs.claim()
    with db.write():  # also while packs are copied: a purge is rare, and nothing may slip in between
        targets = _find_targets(objects, [*request.oids, *(request.loose or ())])
        if request.loose is not None:
            # Parts that nothing else links to: results of work on any rows, these among them.
            targets |= {oid for oid, _ in tables.scan_parts(db)} - _list_linked(objects, targets)
        rewritten, rows = _erase_rows(objects, targets)
        if rows:
            seq = _write_record(objects, request, rows)
        else:  # an earlier purge erased them already
            seq = max(seq for _, seq, _ in tables.list_tombstones_of(db, map(bytes.fromhex, request.oids)))
    notes = _erase_files(objects, targets, rewritten)
    return Purged(tuple(sorted(request.oids)), sum(rows.values()), len(rewritten), seq, notes)


def obey(objects: Objects, record: PurgeRecord) -> Purged:
    """Erase here what was purged in another copy of this repo, and keep the record of it. Once is enough."""
    db, data = objects.db, record.encode()
    digest, named = hashlib.sha256(data).digest(), {bytes.fromhex(oid) for oid in record.oids}
    objects.packs.claim()
    with db.write():
        targets = _find_targets(objects, [oid.hex() for oid in tables.list_present(db, named)])
        loose = tables.list_present(db, map(bytes.fromhex, record.loose))
        # Clean content here may need what went with the purged content there.
        targets |= loose - _list_linked(objects, targets) - _list_chunks(objects, targets)
        rewritten, rows = _erase_rows(objects, targets)
        seq = tables.find_purge_seq(db, digest)
        if seq is None:
            seq = next_seq(db)
            tables.add_purge(db, digest, seq, data)
        tombs = [(oid, seq, record.time, rows.get(oid, 0), record.reason, record.who, digest) for oid in named]
        tables.add_tombstones(db, tombs)
    notes = _erase_files(objects, targets | named, rewritten)
    return Purged(record.oids, sum(rows.values()), len(rewritten), seq, notes)


def _list_linked(objects: Objects, targets: set[bytes]) -> set[bytes]:
    """What objects other than the targets link to."""
    left = (links for oid, links in objects.links().items() if bytes.fromhex(oid) not in targets)
    return {bytes.fromhex(oid) for links in left for oid in links}


def _list_chunks(objects: Objects, targets: set[bytes]) -> set[bytes]:
    """The chunks of objects other than the targets."""
    lists = tables.scan_chunk_lists(objects.db)
    return {chunk for oid, data in lists if oid not in targets for chunk, _ in decode_list(oid, data)}


def _erase_rows(objects: Objects, targets: set[bytes]) -> tuple[list[tuple[str, Sealed | None]], dict[bytes, int]]:
    """Take the targets out of packs and tables. Returns the packs that were replaced, and the sizes of what went."""
    _store_deltas_whole(objects, targets)
    rewritten = _rewrite_packs(objects, targets)
    for old, sealed in rewritten:
        swap_pack(objects, [old], sealed)
    rows: dict[bytes, int] = dict(tables.list_sizes(objects.db, targets))
    tables.delete_objects_by_oid(objects.db, targets)
    return rewritten, rows


def _erase_files(
    objects: Objects, targets: set[bytes], rewritten: Sequence[tuple[str, Sealed | None]]
) -> tuple[str, ...]:
    for old, _ in rewritten:
        objects.packs.delete(old)
    return _sweep_files(objects, targets) + _empty_log(objects)


def _store_deltas_whole(objects: Objects, targets: set[bytes]) -> None:
    """Store deltas whole that rest on a target. Those that rest on these deltas in turn stay as they are."""
    resting = [row for row in tables.list_resting(objects.db, targets) if row[0] not in targets]
    if not resting:
        return
    with PackWriter(objects.tmp, objects.repo) as writer:
        for oid, role in resting:
            writer.append(oid, objects.read(oid.hex()), role)
        sealed = writer.deliver(objects.packs)
    pack = tables.add_pack(objects.db, sealed.name, sealed.size)
    rows = [(record.form, pack, record.start, record.length, None, record.oid) for record in sealed.records]
    tables.replace_objects(objects.db, rows)


def _write_record(objects: Objects, request: PurgeRequest, rows: Mapping[bytes, int]) -> int:
    """The record of a purge, and a tombstone for what was named; returns the seq. An earlier tombstone stands."""
    db, seq = objects.db, next_seq(objects.db)
    # Only what was named gets a tombstone: a chunk of it may well be part of a cleaned version later.
    named = rows.keys() & {bytes.fromhex(oid) for oid in request.oids}
    record = PurgeRecord(
        objects.repo,
        tuple(sorted(oid.hex() for oid in named)),
        tuple(sorted(oid.hex() for oid in rows.keys() - named)),
        now(),
        request.reason,
        request.who,
    )
    data = record.encode()
    digest = hashlib.sha256(data).digest()
    tables.add_purge(db, digest, seq, data)
    tombs = [(oid, seq, record.time, rows[oid], record.reason, record.who, digest) for oid in named]
    tables.add_tombstones(db, tombs)
    return seq


def read_purges(db: Database, after: int = 0) -> list[tuple[int, PurgeRecord]]:
    """(seq, record) of the purges after a seq, oldest first: what a copy of these objects must erase, too."""
    return [(seq, decode_purge(data)) for seq, data, _ in tables.list_purges(db, after)]


def find_last(db: Database) -> bytes | None:
    """The oid of the record of the last purge."""
    return tables.find_last_purge(db)


def read_since(db: Database, seen: bytes | None) -> list[PurgeRecord]:
    """The purges after one, by the oid of its record; all of them after one that is not known here."""
    after = tables.find_purge_seq(db, seen) if seen is not None else None
    return [record for _, record in read_purges(db, after or 0)]


def _find_targets(objects: Objects, oids: Sequence[str]) -> set[bytes]:
    """The objects, and those of their chunks that no other object has."""
    db, targets, chunks = objects.db, set[bytes](), set[bytes]()
    for oid in oids:
        row = tables.find_object(db, bytes.fromhex(oid))
        if row is None:
            if tables.find_tombstone(db, bytes.fromhex(oid)):
                # Purge it again: an earlier purge may have died before it deleted the files.
                targets.add(bytes.fromhex(oid))
                continue
            raise NotFound(
                f"object {oid} is not in this repo. Nothing was purged.", hint="Check the id with: memlake ls -l"
            )
        targets.add(row[0])
        if row[2] == CHUNKED:
            chunks |= {chunk for chunk, _ in decode_list(row[0], row[6])}
    return targets | (chunks - _list_chunks(objects, targets) - tables.list_whole(db, chunks))


def _rewrite_packs(objects: Objects, targets: set[bytes]) -> list[tuple[str, Sealed | None]]:
    """For each pack that holds a target: its name, and a new pack without the targets (None if nothing is left)."""
    # Every footer is read, because a record may be in a pack that its row does not name: stored twice, or by a crash.
    names = sorted(name for name, _, _ in objects.packs.list() if NAME.fullmatch(name))
    if missing := tables.list_packs_holding(objects.db, targets).difference(names):
        # It cannot be rewritten now, and its bytes would come back with it.
        raise Unavailable(
            f"pack {min(missing)[:10]} holds what is to be purged, and it is not in {objects.packs}. "
            "Nothing was purged.",
            hint="Bring it back (mount the disk, or restore a backup), then run this again. "
            "To see what is missing: memlake doctor",
        )
    held = [name for name in names if any(record.oid in targets for record in _list_own_records(objects, name))]
    in_use = tables.list_pack_names(objects.db)
    return [(name, repack(objects, [name], skip=targets) if name in in_use else None) for name in held]


def _list_own_records(objects: Objects, name: str) -> tuple[Record, ...]:
    """The records of a pack of ours; none for a file that belongs to somebody else."""
    try:
        footer = read_footer(objects.packs, name)
        return footer.records if footer.repo == objects.repo else ()
    except (Corrupt, NotFound) as error:
        if isinstance(error, Corrupt) and not tables.has_pack(objects.db, name):
            begin = objects.packs.get(name, 0, min(7, objects.packs.size(name)))
            if begin != MAGIC[:7]:
                return ()
        raise Unavailable(
            f"pack {name} cannot be searched for what is to be purged: {error.message} Nothing was purged.",
            hint="Run `memlake fsck --full` first.",
        ) from error


def repack(
    objects: Objects,
    names: Sequence[str],
    *,
    skip: AbstractSet[bytes] = frozenset(),
    keep: Mapping[str, AbstractSet[bytes]] | None = None,
) -> Sealed | None:
    """One new pack of the records of some packs; None if no record is left. Bytes are copied, not unpacked."""
    done = set(skip)
    with PackWriter(objects.tmp, objects.repo) as writer:
        for name in names:
            records = read_footer(objects.packs, name).records
            kept = [r for r in records if r.oid not in done and (keep is None or r.oid in keep[name])]
            for batch in spans(kept):
                pieces = objects.packs.get_ranges(name, [(record.start, record.length) for record in batch])
                for record, payload in zip(batch, pieces, strict=True):
                    writer.copy(record, payload)
            done.update(record.oid for record in kept)
        return writer.deliver(objects.packs) if writer.records else None


def swap_pack(objects: Objects, old: Sequence[str], sealed: Sealed | None) -> None:
    """Point rows at the new pack and forget the old ones. Call inside a write, and delete the old files after it."""
    db = objects.db
    ids = [id for id, _ in tables.list_packs_named(db, old)]
    if sealed is not None:
        pack = tables.add_pack(db, sealed.name, sealed.size)
        held = {row[0] for row in tables.list_packed(db, ids)}
        moved = [(pack, record.start, record.oid) for record in sealed.records if record.oid in held]
        tables.move_objects(db, moved)
    tables.delete_packs(db, ids)


def _sweep_files(objects: Objects, targets: set[bytes]) -> tuple[str, ...]:
    """Delete the parts of the targets, and files that dead writers left; returns notes for the user."""
    for digest in targets:
        objects.parts.delete(part_name(digest))
    with objects.db.write():
        leases.drop_dead(objects.db)
        if leases.oldest(objects.db) != leases.NEVER:
            return ("a writer is at work; if it was storing the purged content, that write will be refused.",)
        # Without a lease nobody needs a file that no row names. It may be one that an earlier purge died on.
        for stray in list(find_strays(objects)):
            stray.remove()
    return ()


def _empty_log(objects: Objects) -> tuple[str, ...]:
    """Empty the write-ahead log; returns a note for the user if that fails."""
    for _ in range(20):  # a reader is usually done in a moment
        if objects.db.checkpoint():
            return ()
        time.sleep(0.1)
    return ("a reader still uses the write-ahead log, which may hold old pages: run `memlake gc` once it is done.",)
