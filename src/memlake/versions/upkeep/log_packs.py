"""Log packs: what stands in repo.db alone, copied into packs by gc, so that packs alone can rebuild a repo.

Objects kept inline, and the names of parts, become records whose rows stay as they are and name the copy. Commits,
moves of refs and purges since the last time become a log segment, a record with the role LOG in a pack of its own:

segment = msgpack [1, repo id, salt, tick, [[seq, commit], ...],
                   [[id, kind, ref, lane, old, new, time, action, who], ...],
                   [[kind, name, work, memory, note], ...], [[seq, purge, [[oid, size], ...]], ...], head]

Refs are all there are at that moment, the tick, and head is what HEAD said last; the other lists are what came since
the segment before. Small segments are joined into one: a gc after every commit would leave a file each.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgpack

from memlake.errors import Corrupt, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.db import Database
from memlake.objects.layout import read_number, read_salt, read_text, tick
from memlake.objects.leases import Lease
from memlake.objects.packs import (
    COPIED,
    LOG,
    PACKED_ZSTD,
    PackWriter,
    Record,
    Sealed,
    expand,
    read_footer,
)
from memlake.objects.places import Place
from memlake.objects.sweep import FEW
from memlake.versions import tables
from memlake.versions.checkout.context import read_head
from memlake.versions.history.commits import History

Listed = TypeVar("Listed", bound=tuple[Any, ...])
MOST = 50_000  # commits and moves of a segment
_BATCH = 4000
_SMALL = 1 << 20  # bytes of a segment that is joined with others


class Segment(NamedTuple):
    repo: bytes
    salt: bytes
    tick: int
    commits: Sequence[tuple[int, bytes]]
    moves: Sequence[tuple[Any, ...]]
    refs: Sequence[tuple[int, str, bytes | None, bytes | None, bytes | None]]
    purges: Sequence[tuple[int, bytes, Sequence[tuple[bytes, int]]]]
    head: str | None = None


def read_segment(place: Place, name: str, record: Record) -> Segment:
    """A log segment of a pack, checked against its hash."""
    data = place.get(name, record.start, record.length)
    content = expand(data, record.size) if record.form == PACKED_ZSTD else data
    if hashlib.sha256(content).digest() != record.oid:
        raise Corrupt("its bytes do not match its hash.")
    try:
        return Segment(*msgpack.unpackb(content)[1:])
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Corrupt("a log segment cannot be read.") from error


def join_segments(segments: Iterable[Segment]) -> Segment:
    """One segment of all, with the refs of the newest. A crash may leave a joined one beside those it is made of."""
    ordered = sorted(segments, key=lambda segment: segment.tick)
    return ordered[-1]._replace(
        commits=_once(segment.commits for segment in ordered),
        moves=_once(segment.moves for segment in ordered),
        purges=_once(segment.purges for segment in ordered),
    )


def _once(lists: Iterable[Sequence[Listed]]) -> list[Listed]:
    return sorted({row[0]: row for rows in lists for row in rows}.values())


def write_logs(history: History) -> list[str]:
    """Copy into packs what is only in repo.db so far. What a purge removes meanwhile leaves no copy behind.

    Returns the packs whose segments were joined into one, and which are gone.
    """
    lease = Lease(history.db, "gc")
    are_many = bool(list_joinable_logs(history.db))
    try:
        _forget_lost(history)
        _copy_objects(history, lease)
        while _write_segment(history):
            lease.renew()
        return _join_small(history) if are_many else []
    finally:
        lease.close()


def _forget_lost(history: History) -> None:
    """What was copied into a pack that is gone counts as not copied, so that it is copied again."""
    db = history.db
    with db.write():
        there = {name for name, _, _ in history.objects.packs.list()}
        lost = [row for row in object_tables.list_packs(db) if row[1] not in there]
        for pack, _, _, log in lost:
            object_tables.forget_copies(db, pack)
            object_tables.delete_unused_pack(db, pack)
            if log:
                object_tables.delete_facts(db, "log_seq", "log_move", "log_purge")


def _copy_objects(history: History, lease: Lease) -> None:
    objects, db = history.objects, history.db
    ids = object_tables.list_uncopied(db)
    writer: PackWriter | None = None
    try:
        for at in range(0, len(ids), _BATCH):
            for oid, size, form, role, links, data in object_tables.list_to_copy(db, ids[at : at + _BATCH]):
                writer = writer or PackWriter(objects.tmp, objects.repo)
                writer.copy(Record(oid, COPIED[form], 0, 0, size, role, links), data or b"")
            if writer is not None and (writer.is_full or at + _BATCH >= len(ids)):
                sealed, writer = writer.deliver(objects.packs), None
                _keep_copies(history, sealed)
            lease.renew()
    finally:
        if writer is not None:
            writer.abandon()


def _keep_copies(history: History, sealed: Sealed) -> None:
    objects, db = history.objects, history.db
    with db.write():
        kept = not objects.find_missing(record.oid.hex() for record in sealed.records)
        if kept:
            pack = object_tables.add_pack(db, sealed.name, sealed.size)
            rows = [
                (pack, r.start, r.length, r.oid, form)
                for r in sealed.records
                for form in COPIED
                if COPIED[form] == r.form
            ]
            object_tables.add_copies(db, rows)
    if not kept:
        objects.packs.delete(sealed.name)


def _write_segment(history: History) -> bool:
    """One segment of what came since the last one; False when there is nothing."""
    db = history.db
    with db.write():  # so that of two segments the one with the later tick has the later refs
        moment = tick(db)
        commits = list(tables.scan_commits(db, after=read_number(db, "log_seq"), most=MOST))
        rows = tables.scan_moves(db, after=read_number(db, "log_move"), most=MOST)
        moves = [(id, *fields) for id, _, *fields in rows]
        purges = [
            (seq, data, object_tables.list_purged_sizes(db, oid))
            for seq, data, oid in object_tables.list_purges(db, read_number(db, "log_purge"))
        ]
        refs = tables.list_all_refs(db)
        head, logged = read_head(db), read_text(db, "log_head")
    if not commits and not moves and not purges and head == logged:
        return False
    repo = uuid.UUID(history.objects.repo).bytes
    sealed = _store_segment(history, Segment(repo, read_salt(db), moment, commits, moves, refs, purges, head))
    facts = {"log_seq": _last(commits), "log_move": _last(moves), "log_purge": _last(purges), "log_head": head}
    with db.write():
        object_tables.add_pack(db, sealed.name, sealed.size, log=True)
        object_tables.write_facts(db, {key: value for key, value in facts.items() if value is not None})
    return True


def _store_segment(history: History, segment: Segment) -> Sealed:
    data = msgpack.packb([1, *segment])
    with PackWriter(history.objects.tmp, history.objects.repo) as writer:
        writer.append(hashlib.sha256(data).digest(), data, LOG)
        return writer.deliver(history.objects.packs)


def list_joinable_logs(db: Database) -> list[str]:
    """The packs of small segments, once they are many: the next run makes one of them and of what it writes itself."""
    names = _list_small(db)
    return names if len(names) >= FEW else []


def _list_small(db: Database) -> list[str]:
    return object_tables.list_log_packs(db, below=_SMALL)


def _join_small(history: History) -> list[str]:
    """Make one segment of the small ones; returns the packs it replaced."""
    place, db = history.objects.packs, history.db
    names = _list_small(db)
    try:
        segments = [read_segment(place, name, record) for name in names for record in read_footer(place, name).records]
    except (NotFound, Corrupt):  # another gc was faster; of damage fsck tells
        return []
    sealed = _store_segment(history, join_segments(segments))
    with db.write():
        known = object_tables.list_packs_named(db, names)
        joined = {name for _, name in known} == set(names)
        if joined:
            object_tables.delete_packs(db, [id for id, _ in known])
            object_tables.add_pack(db, sealed.name, sealed.size, log=True)
    for name in names if joined else [sealed.name]:
        place.delete(name)
    return names if joined else []


def _last(rows: Iterable[tuple[Any, ...]]) -> int | None:
    return max((row[0] for row in rows), default=None)
