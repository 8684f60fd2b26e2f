"""Rescue: a repo made again from its packs alone, when repo.db is lost. Reads the packs; writes a new repo.

What was written after the last gc is in no log segment: its chunks may be in packs, but which path they belonged to is
lost with repo.db, and that is said.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Sequence

from memlake.errors import Error, InvalidInput, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import packs
from memlake.objects import tables as object_tables
from memlake.objects.packs import CHUNKED, DELTA, LOG, PART, Footer, Record, read_footer
from memlake.objects.places import Place
from memlake.objects.purge import decode_purge
from memlake.objects.store import part_name
from memlake.reports import Rescued, Unnamed
from memlake.versions import tables
from memlake.versions.checkout.describe import media_type
from memlake.versions.history import refs
from memlake.versions.history.commits import History
from memlake.versions.upkeep.gc import objects_in
from memlake.versions.upkeep.log_packs import Segment, join_segments, read_segment

_BLOCK = 8 << 20
_HEAD = 4096  # bytes by which a media type is told
Sources = Sequence[tuple[Place, str, Footer]]


class Found(NamedTuple):
    """What packs hold: each with its footer, the log of all of them, and what could not be read."""

    sources: Sources
    log: Segment
    lost: list[str]


def read_packs(places: Sequence[Place]) -> Found:
    """The packs of one repo, or an error before anything is written."""
    lost: list[str] = []
    sources = _read_footers(places, lost)
    segments = _read_segments(sources, lost)
    if not segments:
        raise NotFound(
            "these packs hold no log segment, so no commit can be made again. Nothing was written.",
            hint="gc writes them: a repo in which gc never ran cannot be rescued from its packs.",
        )
    return Found(sources, join_segments(segments), lost)


def rebuild(history: History, found: Found, parts: Sequence[Place]) -> Rescued:
    """Fill a new, empty repo from packs; `parts` are places that hold parts."""
    sources, log, lost = found
    for place, name, _ in sources:
        _copy_file(history, place, name, history.objects.packs, name)
    with history.db.write():
        _write_meta(history, log)
        _write_purges(history, log)
        count = _write_objects(history, sources, parts, lost)
        commits = _write_commits(history, log, lost)
        _write_refs(history, log, lost)
    unnamed = tuple(_list_unnamed(history))
    return Rescued(len(sources), count, commits, len(log.refs), unnamed, tuple(lost))


def _read_footers(places: Sequence[Place], lost: list[str]) -> Sources:
    found: dict[str, tuple[Place, str, Footer]] = {}
    for place in places:
        for name, _, _ in place.list():
            if packs.NAME.fullmatch(name) and name not in found:
                try:
                    found[name] = (place, name, read_footer(place, name))
                except Error as error:
                    lost.append(f"pack {name[:10]}: {error.message}")
    repos = {footer.repo for _, _, footer in found.values()}
    if len(repos) != 1:
        what = f"the packs of {len(repos)} repos: {', '.join(sorted(repos))}" if repos else "no pack"
        raise InvalidInput(f"{', '.join(map(str, places))}: there is {what}. Nothing was written.")
    return list(found.values())


def _read_segments(sources: Sources, lost: list[str]) -> list[Segment]:
    segments = []
    for place, name, footer in sources:
        for record in footer.records:
            if record.role == LOG:
                try:
                    segments.append(read_segment(place, name, record))
                except Error as error:
                    lost.append(f"a log segment in pack {name[:10]}: {error.message}")
    return segments


def _copy_file(history: History, source: Place, name: str, target: Place, new_name: str) -> None:
    file = history.objects.tmp / f"{os.urandom(16).hex()}.pack"
    size = source.size(name)
    with file.open("xb") as stream:
        for at in range(0, size, _BLOCK):
            stream.write(source.get(name, at, min(_BLOCK, size - at)))
    target.put(new_name, file)
    file.unlink(missing_ok=True)


def _write_meta(history: History, log: Segment) -> None:
    facts = {
        "id": str(uuid.UUID(bytes=log.repo)), "salt": log.salt, "clock": log.tick,
        "log_seq": max((row[0] for row in log.commits), default=0),
        "log_move": max((row[0] for row in log.moves), default=0),
        "log_purge": max((row[0] for row in log.purges), default=0),
    }  # fmt: skip
    facts["seq"] = max(facts["log_seq"], facts["log_purge"])
    object_tables.write_facts(history.db, facts)
    vars(history.objects).pop("repo", None)  # remembered: the id that init had given
    vars(history).pop("salt", None)


def _write_purges(history: History, log: Segment) -> None:
    for seq, data, sizes in log.purges:
        record, digest = decode_purge(data), hashlib.sha256(data).digest()
        object_tables.add_purge(history.db, digest, seq, data)
        rows = [(oid, seq, record.time, size, record.reason, record.who, digest) for oid, size in sizes]
        object_tables.add_tombstones(history.db, rows)


def _write_objects(history: History, sources: Sources, parts: Sequence[Place], lost: list[str]) -> int:
    """Rows for every record, those that are whole before deltas of the same object."""
    db = history.db
    dead = {row[0] for row in object_tables.list_tombstones(db)}
    found: list[tuple[Record, int, bytes | None]] = []
    for place, name, footer in sources:
        log = any(record.role == LOG for record in footer.records)
        pack = object_tables.add_pack(db, name, place.size(name), log=log)
        for record in footer.records:
            if record.role != LOG and record.oid not in dead:
                length = {CHUNKED: record.length, DELTA: 32}.get(record.form, 0)
                found.append((record, pack, place.get(name, record.start, length) if length else None))
    known: set[bytes] = set()
    for record, pack, data in sorted(found, key=lambda item: item[0].form == DELTA):
        if record.oid in known or (record.form == PART and not _copy_part(history, record, parts, lost)):
            continue
        known.add(record.oid)
        where = (pack, record.start, record.length)
        object_tables.put_objects(
            db, [(record.oid, record.size, record.form, record.role, *where, 0, record.links, data)]
        )
    return len(known)


def _copy_part(history: History, record: Record, parts: Sequence[Place], lost: list[str]) -> bool:
    name = part_name(record.oid)
    for place in parts:
        try:
            if place.size(name) == record.size:
                _copy_file(history, place, name, history.objects.parts, name)
                return True
        except NotFound:
            continue
    lost.append(f"part {record.oid.hex()}: not in the folders given")
    return False


def _write_commits(history: History, log: Segment, lost: list[str]) -> int:
    count = 0
    for seq, data in log.commits:
        try:
            history.adopt(data, seq=seq)
            count += 1
        except Error as error:
            lost.append(f"commit {hashlib.sha256(data).hexdigest()}: {error.message}")
    return count


def _write_refs(history: History, log: Segment, lost: list[str]) -> None:
    db = history.db
    tables.clear_refs(db)  # init made one branch
    before = 0
    for id, *fields in log.moves:
        before = refs.chain_mark(before, tuple(fields))
        tables.add_move(db, fields, before, id=id)
    for kind, name, *heads, note in log.refs:
        here = [head if head is not None and history.has(head.hex()) else None for head in heads]
        if here != heads:
            lost.append(f"{name}: the commit it named")
        tables.add_ref(db, (kind, name, *here, note))
    object_tables.delete_facts(db, "head")  # that of init
    if log.head is not None:
        object_tables.write_facts(db, {"head": log.head, "log_head": log.head})


def _list_unnamed(history: History) -> Iterator[Unnamed]:
    """Whole objects that no commit names: stored after the last log segment, or by a write that was taken back."""
    objects = history.objects
    named = {oid for _, data in tables.scan_commits(history.db) for oid in objects_in(history, data)}
    linked = {bytes.fromhex(oid) for links in objects.links().values() for oid in links}
    for oid, size in object_tables.list_all_whole(history.db):
        if oid not in named and oid not in linked:
            yield Unnamed(oid.hex(), size, _guess_media(history, oid.hex()))


def _guess_media(history: History, oid: str) -> str:
    try:
        with history.objects.open(oid) as stream:
            return media_type("", stream.read(_HEAD))
    except Error:  # its chunks may be in no pack
        return ""
