"""Sweeping: marking objects with all they need, condemning, deleting, joining packs. Knows no root.

What is needed is decided above and handed in as marks. See gc.py for the two phases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from memlake.errors import NotFound
from memlake.objects import disk, leases
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database
from memlake.objects.layout import tick
from memlake.objects.leases import Lease
from memlake.objects.packs import CHUNKED, LIMIT, PART
from memlake.objects.purge import repack, swap_pack
from memlake.objects.store import Objects, part_name
from memlake.reports import GcReport

_BATCH = 4000
_HOUR = 3_600_000_000
_FEW = 8  # packs under a quarter of the limit that may lie about before they are joined


class Marks:
    """One byte an object id: 1 when it is needed. Ten million objects cost ten megabytes."""

    def __init__(self, newest: int) -> None:
        self._bits = bytearray(newest + 1)

    def __contains__(self, id: int) -> bool:
        return id >= len(self._bits) or bool(self._bits[id])  # newer than the marking: needed

    def mark(self, db: Database, oids: Iterable[bytes]) -> None:
        """Mark objects, their chunks and everything they link to."""
        source = iter(oids)
        while batch := set(islice(source, _BATCH)):
            while batch:
                batch = self._mark_batch(db, batch)

    def _mark_batch(self, db: Database, oids: set[bytes]) -> set[bytes]:
        sql = f"SELECT id, oid, links, CASE WHEN form = {CHUNKED} THEN data END FROM object WHERE oid IN carray(?1)"
        more: set[bytes] = set()
        for id, oid, links, chunks in db.rows_in(sql, oids):
            if id < len(self._bits) and not self._bits[id]:
                self._bits[id] = 1
                if links:
                    more.update(links[at : at + 32] for at in range(0, len(links), 32))
                if chunks:
                    more.update(chunk for chunk, _ in decode_list(oid, chunks))
        return more


def sweep_rows(db: Database, marks: Marks, since: int, grace_hours: float, *, dry_run: bool) -> GcReport:
    """Condemn what is not marked, spare what is, delete what was condemned long enough. Inside a write unless dry."""
    before = since - int(grace_hours * _HOUR)
    oldest = leases.oldest(db)
    condemn, revive, delete, size = [], [], [], 0
    for id, condemned, held in db.each("SELECT id, condemned, coalesce(length, size) FROM object"):
        if id in marks:
            if condemned is not None:
                revive.append(id)
        elif condemned is None and (grace_hours > 0 or oldest != leases.NEVER):
            condemn.append(id)
        elif condemned is None or (condemned <= before and condemned < oldest):
            # Without a grace period and without a lease there is nobody to wait for.
            delete.append(id)
            size += held
    if not dry_run:
        now = tick(db)
        _in_batches(db, "UPDATE object SET condemned = ?2 WHERE id IN carray(?1)", condemn, now)
        _in_batches(db, "UPDATE object SET condemned = NULL WHERE id IN carray(?1)", revive)
        _delete_rows(db, delete)
    return GcReport(dry_run, len(condemn), len(revive), len(delete), 0, 0, 0, 0, size, {"objects": size})


def _delete_rows(db: Database, ids: list[int]) -> None:
    _in_batches(db, "DELETE FROM object WHERE id IN carray(?1)", ids)


def _in_batches(db: Database, sql: str, ids: list[int], *args: int) -> None:
    for at in range(0, len(ids), 10_000):
        db.run_in(sql, ids[at : at + 10_000], args)


# -- files ----------------------------------------------------------------------------------------


def sweep_files(objects: Objects, report: GcReport, grace_hours: float) -> GcReport:
    """Join thin and small packs, delete empty ones, and remove files no row names and no writer can be using."""
    joined = _join_packs(objects)
    with objects.db.write():
        # Still inside: a part is named by its content, so someone may be about to store this very one again.
        strays, size = _strays(objects, grace_hours)
        for remove in strays:
            remove()
    _compact(objects.db)
    freed = {**report.freed, "files": size}
    return report._replace(packs=joined, files=len(strays), bytes=sum(freed.values()), freed=freed)


def _join_packs(objects: Objects) -> int:
    """Rewrite packs that are half empty or too many and small. A reader that misses one looks up its place again."""
    groups = list(_groups(objects.db))
    if not groups:
        return 0
    lease = Lease(objects.db, "gc")  # a purge leaves our temporary file alone
    try:
        return sum(_join(objects, group) for group in groups)
    finally:
        lease.close()


def _join(objects: Objects, group: list[tuple[int, str]]) -> int:
    ids = [id for id, _ in group]
    names = [name for _, name in group]
    live = {row[0] for row in objects.db.rows_in("SELECT oid FROM object WHERE pack IN carray(?1)", ids)}
    try:
        sealed = repack(objects, names, keep=live)
    except NotFound:  # another gc or a purge was faster
        return 0
    with objects.db.write():
        # Only rows are added meanwhile, never to old packs; a purge may have rewritten one: then leave it.
        known = {row[0] for row in objects.db.rows_in("SELECT name FROM pack WHERE name IN carray(?1)", names)}
        if known == set(names):
            swap_pack(objects, names, sealed)
    # When a purge came between, ours holds what was purged.
    for name in names if known == set(names) else [sealed.name] if sealed else []:
        objects.packs.delete(name)
    return len(names) if known == set(names) else 0


def _groups(db: Database) -> Iterator[list[tuple[int, str]]]:
    sql = (
        "SELECT p.id, p.name, p.size, coalesce(sum(o.length), 0) "
        "FROM pack p LEFT JOIN object o ON o.pack = p.id GROUP BY p.id"
    )
    rows = db.rows(sql)
    small = [row for row in rows if row[3] < LIMIT // 4]
    thin = [row for row in rows if row[3] < row[2] // 2]
    chosen = {row[0]: row for row in (thin + small if len(small) > _FEW else thin)}
    group: list[tuple[int, str]] = []
    size = 0
    for id, name, _, live in sorted(chosen.values()):
        if group and size + live > LIMIT:
            yield group
            group, size = [], 0
        group.append((id, name))
        size += live
    if group:
        yield group


def _strays(objects: Objects, grace_hours: float) -> tuple[list[Callable[[], None]], int]:
    """Files that are in no row: (how to remove each, bytes). Call inside a write, so that no writer is half way."""
    # A writer's files are younger than its lease; ten seconds allow for a file system's own clock.
    limit = min(time.time() - grace_hours * 3600, leases.oldest(objects.db) / 1e6 - 10)
    known = {row[0] for row in objects.db.rows("SELECT name FROM pack")}
    strays: list[Callable[[], None]] = []
    size = 0
    for name, length, modified in list(objects.packs.list()):
        if name not in known and modified < limit:
            strays.append(partial(objects.packs.delete, name))
            size += length
    parts = {part_name(row[0]) for row in objects.db.each(f"SELECT oid FROM object WHERE form = {PART}")}
    for name, length, modified in list(objects.parts.list()):
        if name not in parts and modified < limit:
            strays.append(partial(objects.parts.delete, name))
            size += length
    for file in objects.tmp.iterdir() if objects.tmp.exists() else ():
        found = file.stat(follow_symlinks=False) if file.exists() else None
        if found is not None and found.st_mtime < limit:
            strays.append(partial(disk.remove_tree, file))
            size += found.st_size
    return strays, size


def _compact(db: Database) -> None:
    """Give a third of the file back when it is free; skipped while someone reads."""
    row = db.row(
        "SELECT (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_count FROM pragma_page_count)"
    )
    if row is not None and row[0] > 1000 and row[0] * 3 > row[1]:
        db.vacuum()
    db.checkpoint()
