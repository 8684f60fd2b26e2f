"""Purge: removing the bytes of objects for good, leaving a tombstone. Knows no path; what is removed is given.

The rows and the tombstone go in one transaction; packs that held the bytes are rewritten before it and the old
files deleted after it. Then the write-ahead log is emptied, because it holds the pages as they were.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from memlake.errors import Corrupt, NotFound, Unavailable
from memlake.objects import disk, leases
from memlake.objects.chunks import decode_list
from memlake.objects.layout import next_seq, now
from memlake.objects.packs import CHUNKED, PART, PackWriter, Record, Sealed, read_footer
from memlake.objects.store import OBJECT, Objects, part_name


class PurgeRequest(NamedTuple):
    oids: Sequence[str]
    reason: str
    who: str
    loose: Sequence[str] | None = None  # go with them, as do parts that nothing links to, and leave no tombstone


class Purged(NamedTuple):
    oids: tuple[str, ...]
    bytes: int
    packs: int
    seq: int
    notes: tuple[str, ...]


def purge(objects: Objects, request: PurgeRequest) -> Purged:
    """Remove objects everywhere this store keeps bytes. Cannot be undone."""
    db = objects.db
    with db.write():  # also while packs are copied: a purge is rare, and nothing may slip in between
        targets = _targets(objects, [*request.oids, *(request.loose or ())])
        targets |= _unlinked(objects, targets) if request.loose is not None else set()
        rewritten = _rewrite_packs(objects, targets)
        for old, sealed in rewritten:
            swap_pack(objects, [old], sealed)
        seq, time = next_seq(db), now()
        rows = db.rows_in("SELECT oid, size FROM object WHERE oid IN carray(?1)", targets)
        db.run_in("DELETE FROM object WHERE oid IN carray(?1)", targets)
        # Only what was named gets a tombstone: a chunk of it may well be part of a cleaned version later.
        named = {bytes.fromhex(oid) for oid in request.oids}
        tombs = [(oid, seq, time, size, request.reason, request.who) for oid, size in rows if oid in named]
        db.run_many("INSERT OR REPLACE INTO tombstone VALUES(?, ?, ?, ?, ?, ?)", tombs)
    for old, _ in rewritten:
        objects.packs.delete(old)
    notes = _sweep_files(objects, targets) + _empty_logs(objects)
    return Purged(tuple(sorted(request.oids)), sum(size for _, size in rows), len(rewritten), seq, notes)


def _targets(objects: Objects, oids: Sequence[str]) -> set[bytes]:
    """The objects and those of their chunks that nothing else is made of."""
    db, targets, chunks = objects.db, set[bytes](), set[bytes]()
    for oid in oids:
        row = db.row("SELECT oid, form, data FROM object WHERE oid = ?", (bytes.fromhex(oid),))
        if row is None:
            dead = db.row("SELECT 1 FROM tombstone WHERE oid = ?", (bytes.fromhex(oid),))
            if dead:  # once more: an earlier purge may have died before it deleted the files
                targets.add(bytes.fromhex(oid))
                continue
            raise NotFound(
                f"object {oid} is not in this repo. Nothing was purged.", hint="Check the id with: memlake ls -l"
            )
        targets.add(row[0])
        if row[1] == CHUNKED:
            chunks |= {chunk for chunk, _ in decode_list(row[0], row[2])}
    shared = {
        chunk
        for oid, data in db.each(f"SELECT oid, data FROM object WHERE form = {CHUNKED}")
        if oid not in targets
        for chunk, _ in decode_list(oid, data)
    }
    whole = {
        row[0] for row in db.rows_in(f"SELECT oid FROM object WHERE role & {OBJECT} AND oid IN carray(?1)", chunks)
    }
    return targets | (chunks - shared - whole)


def _unlinked(objects: Objects, gone: set[bytes]) -> set[bytes]:
    """Parts that nothing but these links to: of remembered work, over whatever rows, too."""
    left = (links for oid, links in objects.links().items() if bytes.fromhex(oid) not in gone)
    named = {bytes.fromhex(oid) for links in left for oid in links}
    return {oid for (oid,) in objects.db.rows(f"SELECT oid FROM object WHERE form = {PART}")} - named


def _rewrite_packs(objects: Objects, targets: set[bytes]) -> list[tuple[str, Sealed | None]]:
    """For each pack that holds a target: (its name, a new pack without the targets, None when nothing is left)."""
    known = {row[0] for row in objects.db.rows("SELECT name FROM pack")}
    # Every footer is read: a record may lie in a pack its row does not point to, stored twice or left by a crash.
    held = [
        name for name, _, _ in objects.packs.list() if any(record[0] in targets for record in _footer(objects, name))
    ]
    return [(name, repack(objects, [name], skip=targets) if name in known else None) for name in sorted(held)]


def _footer(objects: Objects, name: str) -> list[Record]:
    try:
        return read_footer(objects.packs, name)
    except (Corrupt, NotFound) as error:
        raise Unavailable(
            f"pack {name} cannot be searched for what is to be purged: {error.message} Nothing was purged.",
            hint="Run memlake fsck --full first.",
        ) from error


def repack(
    objects: Objects,
    names: Sequence[str],
    *,
    skip: AbstractSet[bytes] = frozenset(),
    keep: AbstractSet[bytes] | None = None,
) -> Sealed | None:
    """One new pack of the records of some packs; None when no record is left. Bytes are copied, not unpacked."""
    writer = PackWriter(objects.tmp)
    try:
        for name in names:
            records = read_footer(objects.packs, name)
            _copy(objects, name, [r for r in records if r[0] not in skip and (keep is None or r[0] in keep)], writer)
        if not writer.records:
            writer.abandon()
            return None
        sealed = writer.seal()
    except BaseException:
        writer.abandon()
        raise
    objects.packs.put(sealed.name, sealed.path)
    sealed.path.unlink(missing_ok=True)
    return sealed


def _copy(objects: Objects, name: str, records: list[Record], writer: PackWriter) -> None:
    written = {record[0] for record in writer.records}
    for start in range(0, len(records), 256):
        batch = [r for r in records[start : start + 256] if r[0] not in written]
        for record, payload in zip(batch, objects.packs.get_ranges(name, [r[2:4] for r in batch]), strict=True):
            writer.copy(record, payload)


def swap_pack(objects: Objects, old: Sequence[str], sealed: Sealed | None) -> None:
    """Point rows at the new pack and forget the old ones. Call inside a write; delete the old files after it."""
    db = objects.db
    ids = [row[0] for row in db.rows_in("SELECT id FROM pack WHERE name IN carray(?1)", old)]
    if sealed is not None:
        db.run("INSERT OR IGNORE INTO pack(name, size) VALUES(?, ?)", (sealed.name, sealed.size))
        row = db.row("SELECT id FROM pack WHERE name = ?", (sealed.name,))
        assert row is not None
        moved = [(row[0], start, oid, id) for oid, _, start, _, _ in sealed.records for id in ids]
        db.run_many("UPDATE object SET pack = ?, start = ? WHERE oid = ? AND pack = ?", moved)
    db.run_in("DELETE FROM pack WHERE id IN carray(?1)", ids)


def _sweep_files(objects: Objects, targets: set[bytes]) -> tuple[str, ...]:
    """Parts of the targets, and temporary files of writers that are gone."""
    for digest in targets:
        objects.parts.delete(part_name(digest))
    with objects.db.write():
        leases.drop_dead(objects.db)
        if leases.oldest(objects.db) != leases.NEVER:
            return ("a writer is at work; if it was storing the purged content, that write will be refused.",)
        # Without a lease no one needs a file that no row names. It may be what a purge that died had still to delete.
        known = {row[0] for row in objects.db.rows("SELECT name FROM pack")}
        for name in [name for name, _, _ in objects.packs.list() if name not in known]:
            objects.packs.delete(name)
        parts = {part_name(row[0]) for row in objects.db.rows(f"SELECT oid FROM object WHERE form = {PART}")}
        for name in [name for name, _, _ in objects.parts.list() if name not in parts]:
            objects.parts.delete(name)
        for file in objects.tmp.iterdir() if objects.tmp.exists() else ():
            disk.remove_tree(file)
    return ()


def _empty_logs(objects: Objects) -> tuple[str, ...]:
    for _ in range(20):  # a reader is usually done in a moment
        if objects.db.checkpoint():
            return ()
        time.sleep(0.1)
    return ("a reader still uses the write-ahead log, which may hold old pages: run memlake gc once it is done.",)
