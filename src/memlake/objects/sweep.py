"""Sweeping: marking objects with all they need, condemning, deleting, joining packs. Knows no root.

The caller (versions/upkeep/gc.py, which explains the two phases) marks what is needed and passes the marks in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from memlake.errors import NotFound
from memlake.objects import leases, tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Database
from memlake.objects.layout import tick
from memlake.objects.leases import Lease
from memlake.objects.packs import CHUNKED, DELTA, LIMIT
from memlake.objects.purge import repack, swap_pack
from memlake.objects.store import Objects
from memlake.objects.strays import Stray, find_old_strays
from memlake.reports import GcReport

_BATCH = 4000
_HOUR = 3_600_000_000
FEW = 8  # packs under a quarter of the limit that may exist before they are joined
# Bytes of a record's own line in the footer, at most. If they did not count, a pack of tiny records would be "half
# empty" for ever, and every gc would rewrite it as it was.
_LINE = 64
_SMALL, _FREE, _FREE_OF_SMALL = 4096, 3, 16  # pages of a small file; free pages go back when they are 1/3, 1/16 of it


class Marks:
    """One byte for each object id, 1 if it is needed. Ten million objects cost ten megabytes."""

    def __init__(self, newest: int) -> None:
        self._bits = bytearray(newest + 1)

    def __contains__(self, id: int) -> bool:
        return id >= len(self._bits) or bool(self._bits[id])  # an object newer than the marking counts as needed

    def mark(self, db: Database, oids: Iterable[bytes]) -> None:
        """Mark objects, their chunks, what deltas rest on, and everything they link to."""
        source = iter(oids)
        while batch := set(islice(source, _BATCH)):
            while batch:
                batch = self._mark_batch(db, batch)

    def _mark_batch(self, db: Database, oids: set[bytes]) -> set[bytes]:
        more: set[bytes] = set()
        for id, oid, links, form, data in tables.list_needs(db, oids):
            if id < len(self._bits) and not self._bits[id]:
                self._bits[id] = 1
                if links:
                    more.update(links[at : at + 32] for at in range(0, len(links), 32))
                if form == CHUNKED:
                    more.update(chunk for chunk, _ in decode_list(oid, data))
                elif form == DELTA:
                    more.add(data)
        return more


def sweep_rows(db: Database, marks: Marks, since: int, grace_hours: float) -> GcReport:
    """Condemn what is not marked, spare what is, delete what was condemned long enough ago. Call inside a write."""
    before = since - int(grace_hours * _HOUR)
    oldest = leases.oldest(db)
    condemn, revive, delete, size = [], [], [], 0
    for id, condemned, held in tables.scan_held(db):
        if id in marks:
            if condemned is not None:
                revive.append(id)
        elif condemned is None and (grace_hours > 0 or oldest != leases.NEVER):
            condemn.append(id)
        elif condemned is None or (condemned <= before and condemned < oldest):
            # The first case: without a grace period and without a lease there is nobody to wait for.
            delete.append(id)
            size += held
    now = tick(db)
    for batch in _batches(condemn):
        tables.condemn_objects(db, batch, now)
    for batch in _batches(revive):
        tables.condemn_objects(db, batch, None)
    for batch in _batches(delete):
        tables.delete_objects(db, batch)
    return GcReport(False, len(condemn), len(revive), len(delete), 0, 0, 0, 0, size, {"objects": size})


def _batches(ids: list[int]) -> Iterator[list[int]]:
    return (ids[at : at + 10_000] for at in range(0, len(ids), 10_000))


# -- files ----------------------------------------------------------------------------------------


def sweep_files(objects: Objects, report: GcReport, grace_hours: float) -> GcReport:
    """Join thin and small packs, delete empty ones, and remove files no row names and no writer can be using."""
    joined = [name for group in _join_packs(objects) for name in group]
    with objects.db.write():
        # Removed inside the write: a part is named by its content, so someone may be about to store it again.
        strays = find_old_strays(objects, grace_hours)
        for stray in strays:
            stray.remove()
    return count_files(report, joined, strays)


def count_files(report: GcReport, joined: Iterable[str], strays: list[Stray]) -> GcReport:
    freed = {**report.freed, "files": sum(stray.size for stray in strays)}
    packs = [f"packs/{name}" for name in joined]
    names = (*packs, *(stray.name for stray in strays))
    return report._replace(packs=len(packs), files=len(strays), bytes=sum(freed.values()), freed=freed, names=names)


def list_joinable(objects: Objects) -> list[str]:
    """The packs that a gc would replace by new ones."""
    return [name for group in _groups(objects.db) for _, name in group]


def _join_packs(objects: Objects) -> list[list[str]]:
    """Rewrite packs that are half empty, or small and too many. A reader that misses one looks up its records again."""
    groups = list(_groups(objects.db))
    if not groups:
        return []
    lease = Lease(objects.db, "gc")  # a purge leaves our temporary file alone
    try:
        return [_join(objects, group) for group in groups]
    finally:
        lease.close()


def _join(objects: Objects, group: list[tuple[int, str]]) -> list[str]:
    """Make one pack of several. Returns those it replaced; none if another gc or a purge came between."""
    by_id = dict(group)
    names = list(by_id.values())
    live: dict[str, set[bytes]] = {name: set() for name in names}
    for oid, id, *_ in tables.list_packed(objects.db, by_id):
        live[by_id[id]].add(oid)  # by pack, because another pack may hold an old record of the same object
    try:
        sealed = repack(objects, names, keep=live)
    except NotFound:  # another gc or a purge was faster
        return []
    with objects.db.write():
        # Writers meanwhile add rows, but never to old packs. A purge may have rewritten one; then leave them all.
        is_unchanged = {name for _, name in tables.list_packs_named(objects.db, names)} == set(names)
        if is_unchanged:
            swap_pack(objects, names, sealed)
    # If a purge came between, the new pack holds what was purged.
    for name in names if is_unchanged else [sealed.name] if sealed else []:
        objects.packs.delete(name)
    return names if is_unchanged else []


def _groups(db: Database) -> Iterator[list[tuple[int, str]]]:
    rows = tables.list_pack_use(db, _LINE)
    small = [row for row in rows if row[3] < LIMIT // 4]
    thin = [row for row in rows if row[3] < row[2] // 2]
    chosen = {row[0]: row for row in (thin + small if len(small) > FEW else thin)}
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


def compact(db: Database) -> None:
    """Fold the log in, and give free pages back if they are a third of the file, or a few of a small one."""
    row = db.row(
        "SELECT (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_count FROM pragma_page_count)"
    )
    if row is not None and row[0] * (_FREE if row[1] > _SMALL else _FREE_OF_SMALL) > row[1]:
        db.vacuum()
    db.checkpoint()
