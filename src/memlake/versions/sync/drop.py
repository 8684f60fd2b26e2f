"""Drop: content of files that a remote has leaves this machine. The paths stay tracked, and a read brings it again.

First it is known that a remote has every byte, then rows say so, then working files go. A file that is removed last
has its mark already, so a crash in between loses nothing and shows nothing as deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memlake.errors import Conflict, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.chunks import decode_list
from memlake.objects.db import Row
from memlake.objects.packs import AWAY, CHUNKED, DELTA, OBJECT, PACKED, PACKED_ZSTD
from memlake.objects.store import Objects
from memlake.objects.swap import Same
from memlake.records import Change, count
from memlake.versions import tables
from memlake.versions.checkout import update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.local import NOT_HERE, Tracked
from memlake.versions.paths import FILES, file_path, matches
from memlake.versions.sync.fetch import Link
from memlake.versions.sync.partial import Links
from memlake.versions.upkeep.gc import changes_in

_DROPPED = (PACKED, PACKED_ZSTD, CHUNKED, DELTA)  # what is in rows is small, and parts belong to datasets


class Dropped(NamedTuple):
    """Tree paths whose files are gone, and what of their content in all versions left: objects, and their bytes."""

    paths: tuple[str, ...] = ()
    objects: int = 0
    size: int = 0


class _Going(NamedTuple):
    """Rows of objects that leave, and of chunks that only they need."""

    objects: Sequence[Row]
    chunks: Sequence[Row]


def drop(here: Checkout, links: Links, paths: Sequence[str], *, dry_run: bool = False) -> Dropped:
    """Let the content of files at or below some paths, in all versions, be at a remote only."""
    rows = {path: row for given in paths for path, row in here.local.under(given).items() if row.entry is not None}
    if not rows:
        raise NotFound(
            f"path {paths[0]!r} matches nothing that is tracked. Nothing was changed.",
            hint="See what is tracked with: memlake ls",
        )
    _refuse_edited(here, rows.values())
    objects = here.history.objects
    owners = _list_versions(here, paths) | {bytes.fromhex(r.entry.oid): path for path, r in rows.items() if r.entry}
    going = _find_going(objects, owners)
    _refuse_lone(links, going, owners)
    gone = {row[0].hex() for row in going.objects} | objects.find_away(oid.hex() for oid in owners)
    files = [row for row in rows.values() if row.entry and row.entry.oid in gone and row.stat != NOT_HERE]
    size = sum(row[6] or 0 for row in (*going.objects, *going.chunks))
    if not dry_run:
        with objects.db.write():
            lists = [(AWAY, None, None, None, r[8] if r[2] == CHUNKED else None, r[0]) for r in going.objects]
            object_tables.replace_objects(objects.db, lists)
            object_tables.delete_objects_by_oid(objects.db, [row[0] for row in going.chunks])
        here.local.put(row._replace(stat=NOT_HERE) for row in files)
        update.write_files(objects, here.root, [Change(FILES + row.path, row.entry, None) for row in files])
    return Dropped(tuple(sorted(FILES + row.path for row in files)), len(going.objects), size)


def _refuse_edited(here: Checkout, rows: Iterable[Tracked]) -> None:
    edited = [
        row.path
        for row in rows
        if row.entry is not None
        and worktree.find_stat(here.root, row.path) is not None
        and not worktree.holds(here.root, row.path, row.entry, row.stat, row.racy)
    ]
    if edited:
        raise Conflict(
            f"these files have changes that no remote has:\n  {chr(10).join(edited[:10])}\nNothing was dropped.",
            hint="Keep the changes: memlake commit -a -m MESSAGE && memlake push\n"
            f"Or drop them: memlake restore {worktree.path_as_typed(here.root, edited[0])}",
        )


def _list_versions(here: Checkout, paths: Sequence[str]) -> dict[bytes, str]:
    """Everything that the files at these paths ever were, each with a path."""
    return {
        new[:32]: file_path(path)
        for _, data in tables.scan_commits(here.history.db)
        for path, _, new in changes_in(here.history, data)
        if new is not None and path.startswith(FILES) and matches(file_path(path), paths)
    }


def _find_going(objects: Objects, owners: dict[bytes, str]) -> _Going:
    """What is here and can leave: not that on which a delta rests that stays."""
    db = objects.db
    resting = [oid for oid, _ in object_tables.list_resting(db, owners) if oid not in owners]
    bases = {row[4] for row in object_tables.list_needs(db, resting)}
    going = [row for row in object_tables.list_to_send(db, owners.keys() - bases) if row[2] in _DROPPED]
    listed = {row[0] for row in going if row[2] == CHUNKED}
    chunks = {chunk for row in going if row[2] == CHUNKED for chunk, _ in decode_list(row[0], row[8])}
    for oid, data in object_tables.scan_chunk_lists(db) if chunks else ():
        if oid not in listed:
            chunks.difference_update(chunk for chunk, _ in decode_list(oid, data))
    rows = object_tables.list_to_send(db, chunks)
    return _Going(going, [row for row in rows if not row[3] & OBJECT and row[2] in _DROPPED])


def _refuse_lone(links: Links, going: _Going, owners: dict[bytes, str]) -> None:
    """Every byte must be at a remote, as it is now: what was known of it may be old."""
    needs = {row[0]: [row[0]] for row in going.objects if row[2] != CHUNKED}
    needs |= {row[0]: [c for c, _ in decode_list(row[0], row[8])] for row in going.objects if row[2] == CHUNKED}
    lacking = {oid for pieces in needs.values() for oid in pieces}
    for opened in links:
        if lacking:
            with opened as link:
                lacking -= _find_held(link, lacking)
    lone = sorted({owners[oid] for oid, pieces in needs.items() if not lacking.isdisjoint(pieces)})
    if lone:
        raise Conflict(
            f"no remote has all versions of {count(len(lone), 'file')}, such as {lone[0]!r}. Nothing was dropped.",
            hint="Send them first: memlake push",
        )


def _find_held(link: Link, oids: set[bytes]) -> set[bytes]:
    try:
        state = link.remote.load(link.mirror.tag())
    except Same:
        return {one.oid for one in link.mirror.find(oids)}
    if state is not None:
        link.mirror.follow_joins(state.root)
    held = link.mirror.find(oids)
    packs = {f"packs/{pack.name}" for pack in state.root.packs} if state else set[str]()
    logs = {f"log/{file.name}" for file in state.root.log} if state else set[str]()
    return {one.oid for one in held if one.file in packs or one.file in logs}
