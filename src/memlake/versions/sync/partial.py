"""Partial: content that is at a remote only, brought here when it is first read. Checked like everything that comes."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from memlake.errors import NotFound
from memlake.objects import tables as object_tables
from memlake.objects.chunks import decode_list
from memlake.objects.layout import tick
from memlake.objects.leases import Lease
from memlake.objects.packs import (
    CHUNK,
    CHUNKED,
    DELTA,
    INLINE,
    PACKED,
    PART,
    PackWriter,
    Record,
    Sealed,
    expand_against,
)
from memlake.objects.store import Objects
from memlake.objects.swap import Same
from memlake.versions.history.commits import History
from memlake.versions.history.log import walk
from memlake.versions.sync import receive
from memlake.versions.sync.batch import part_path
from memlake.versions.sync.fetch import Link, check_state, list_tracked, look_again
from memlake.versions.sync.mirror import Held
from memlake.versions.sync.remote import Meter, Progress
from memlake.versions.sync.root import LogFile
from memlake.versions.sync.take_in import check_whole

Links = Iterable[AbstractContextManager[Link]]


def bring(objects: Objects, links: Links, oids: Sequence[bytes], progress: Progress | None = None) -> None:
    """Have the content of these objects here, from the first remote that has each."""
    lists = {oid: data for oid, _, data in object_tables.list_away(objects.db, oids) if data is not None}
    whole = {oid for oid, _, _ in object_tables.list_away(objects.db, oids)} - lists.keys()
    pieces = {oid: [chunk for chunk, _ in decode_list(oid, data)] for oid, data in lists.items()}
    chunks = {chunk for listed in pieces.values() for chunk in listed}
    lacking = whole | (chunks - object_tables.list_present(objects.db, chunks))
    lease = Lease(objects.db, "fetch")
    try:
        for opened in links:
            if lacking or lists:
                with opened as link:
                    lacking -= _bring_from(objects, link, lacking, progress)
        _settle(objects, {oid: data for oid, data in lists.items() if not lacking & set(pieces[oid])})
    finally:
        with contextlib.suppress(Exception):
            lease.close()
    if lacking:
        raise NotFound(
            f"no remote that is known here has object {min(lacking).hex()[:10]}, so what was asked for cannot be read.",
            hint="Ask the remotes what they have: memlake fetch --all",
        )


def bring_recent(history: History, link: Link, last: int, below: int | None) -> None:
    """Have the content here that the last commits of each branch of a remote hold, of objects under a size."""
    wanted: set[str] = set()
    heads = [target.work for target in list_tracked(history, link.remote.name).values() if target.work]
    for head in map(history.get, heads):
        wanted.update(entry.oid for _, entry in history.scan(head))
        for commit in islice(walk(history, [head]), last - 1):
            wanted.update(change.old.oid for change in history.changes(commit) if change.old is not None)
    oids, known = {bytes.fromhex(oid) for oid in wanted}, set[bytes]()
    while oids:  # a version of a dataset is its parts, too
        known |= oids
        linked = (row[2] for row in object_tables.list_needs(history.db, oids) if row[2])
        oids = {links[at : at + 32] for links in linked for at in range(0, len(links), 32)} - known
    away = object_tables.list_away(history.db, known)
    near = [oid for oid, size, _ in away if below is None or size < below]
    bring(history.objects, [contextlib.nullcontext(link)], near)


def _bring_from(objects: Objects, link: Link, oids: set[bytes], progress: Progress | None) -> set[bytes]:
    """Bring those of these objects and chunks that a remote has; returns them.

    What is known of it may be old: a gc or a purge of somebody else's put them into other files. Then it looks again.
    """
    with contextlib.suppress(NotFound):
        found = _bring_held(objects, link, oids, progress)
        if found == oids:
            return found
    try:
        state = link.remote.load(link.mirror.tag())
    except Same:
        state = None
    if state is not None:
        check_state(objects.repo, link.remote, state.root, link.mirror.root())
        look_again(link, state.root)
    return _bring_held(objects, link, oids, progress)


def _bring_held(objects: Objects, link: Link, oids: set[bytes], progress: Progress | None) -> set[bytes]:
    """Bring those of these objects and chunks of which it is known where they lie; returns them."""
    held = link.mirror.find(oids)
    single: dict[str, list[Record]] = {}
    for one in held:
        if one.form not in (DELTA, PART, INLINE):
            record = Record(one.oid, one.form, one.start, one.length, one.size, CHUNK)
            single.setdefault(one.file.removeprefix("packs/"), []).append(record)
    parts = [one for one in held if one.form == PART]
    total = sum(record.length for records in single.values() for record in records) + sum(one.size for one in parts)
    meter = Meter(progress, total, "content")
    sealed = receive.bring_records(objects, link.remote, single, meter)
    sealed += _bring_deltas(objects, link, [one for one in held if one.form == DELTA])
    sealed += _bring_small(objects, link, [one for one in held if one.form == INLINE])
    for one in parts:
        receive.bring_part(objects, link.remote, (one.oid, one.size, part_path(one.oid, one.start)), meter)
    with objects.db.write():
        now = tick(objects.db)
        for made in sealed:
            _add_pack(objects, made, now)
        object_tables.replace_objects(objects.db, [(PART, None, None, None, None, one.oid) for one in parts])
    return {one.oid for one in held}


def _bring_deltas(objects: Objects, link: Link, held: Sequence[Held]) -> list[Sealed]:
    """Deltas become whole: what they rest on may not be wanted here."""
    if not held:
        return []
    with PackWriter(objects.tmp, objects.repo) as writer:
        for one in held:
            payload = link.remote.place.get(one.file, one.start, one.length)
            content = expand_against(payload[32:], _read_base(objects, link, payload[:32]), one.size)
            receive.check_record(Record(one.oid, PACKED, 0, 0, one.size, CHUNK), content)
            writer.append(one.oid, content, CHUNK)
        return [writer.deliver(objects.packs)]


def _bring_small(objects: Objects, link: Link, held: Sequence[Held]) -> list[Sealed]:
    """What lies in a batch now. It was in a pack when it became known here."""
    if not held:
        return []
    wanted, files = {one.oid for one in held}, link.mirror.files()
    with PackWriter(objects.tmp, objects.repo) as writer:
        for path in sorted({one.file for one in held}):
            file = LogFile(path.partition("/")[2], files[path], 0, 0, 0, 0)
            for small in receive.read_batch(link.remote, file, uuid.UUID(objects.repo).bytes).objects:
                if (oid := hashlib.sha256(small.content).digest()) in wanted:
                    writer.append(oid, small.content, CHUNK)
                    wanted.discard(oid)
        return [writer.deliver(objects.packs)]


def _read_base(objects: Objects, link: Link, oid: bytes) -> bytes:
    """The content that a delta rests on: ours, or read at the remote and not kept."""
    if object_tables.list_present(objects.db, [oid]):
        return objects.read(oid.hex())
    for one in link.mirror.find([oid]):
        payload = link.remote.place.get(one.file, one.start, one.length)
        if one.form == DELTA:
            return expand_against(payload[32:], _read_base(objects, link, payload[:32]), one.size)
        return receive.check_record(Record(oid, one.form, 0, 0, one.size, CHUNK), payload)
    raise NotFound(f"{link.remote.url} has no object {oid.hex()[:10]}, on which another rests.")


def _add_pack(objects: Objects, sealed: Sealed, now: int) -> None:
    """Rows of a pack that was made: objects that were away lie here now; chunks are new."""
    db = objects.db
    pack = object_tables.add_pack(db, sealed.name, sealed.size)
    away = {oid for oid, _, _ in object_tables.list_away(db, [record.oid for record in sealed.records])}
    here: list[tuple[Any, ...]] = [(r.form, pack, r.start, r.length, None, r.oid) for r in sealed.records]
    object_tables.replace_objects(db, [row for row in here if row[-1] in away])
    object_tables.put_objects(
        db,
        [
            (r.oid, r.size, r.form, r.role, pack, r.start, r.length, now, None, None)
            for r in sealed.records
            if r.oid not in away
        ],
    )


def _settle(objects: Objects, lists: dict[bytes, bytes]) -> None:
    """Objects whose chunks are all here are objects in chunks, once the chunks are known to make them up."""
    if lists:
        with objects.db.write():
            rows = [(CHUNKED, None, None, None, data, oid) for oid, data in lists.items()]
            object_tables.replace_objects(objects.db, rows)
            for oid in lists:
                check_whole(objects, oid)
