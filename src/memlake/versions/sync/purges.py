"""Purges that travel: what was erased here is erased at a remote before anything else is sent there.

One swap lists the records of the purges, rewritten files in the place of those that held the content, and dooms these.
Then they are deleted. A push that dies before the swap has changed nothing; after it, the next push deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from memlake.errors import Corrupt, NotFound, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.chunks import decode_list
from memlake.objects.packs import CHUNKED, OBJECT, PART, decode_footer, read_footer_bytes
from memlake.objects.purge import PurgeRecord, decode_purge
from memlake.objects.store import part_name
from memlake.objects.swap import Moved
from memlake.versions.history.commits import History
from memlake.versions.sync.batch import Batch, Pack
from memlake.versions.sync.fetch import Link, check_repo, obey_purges
from memlake.versions.sync.remote import TRIES
from memlake.versions.sync.rewrite import Rewriter, find_resting, list_links, oid_of, read_whole, strip
from memlake.versions.sync.root import Root

Obey = Callable[[PurgeRecord], object]


class Erased(NamedTuple):
    """What a push erased at a remote: the records it sent, and how many files were rewritten or deleted for it."""

    records: tuple[PurgeRecord, ...] = ()
    files: int = 0


def list_unsent(history: History, root: Root | None) -> dict[str, bytes]:
    """Records of purges that a remote does not have yet, by their oid, oldest first."""
    sent = set(root.purges) if root else set()
    return {oid.hex(): data for _, data, oid in object_tables.list_purges(history.db) if oid.hex() not in sent}


def send_purges(history: History, link: Link, obey: Obey) -> Erased:
    """Erase at a remote what was purged here, for good. Nothing happens where nobody has pushed yet."""
    remote = link.remote
    left = set[str]()  # what an attempt stored that lost the race
    for _ in remote.attempts():
        state = remote.load()
        if state is None:
            return Erased()
        check_repo(history, remote, state.root, link.mirror.root())
        obey_purges(history, remote, state.root, obey)
        state = remote.delete_doomed(state)
        unsent = list_unsent(history, state.root)
        if not unsent:
            return Erased()
        records = {name: decode_purge(data) for name, data in unsent.items()}
        rewriter = Rewriter(history.objects, link, state.root)
        doomed = _rewrite_all(history, link, rewriter, state.root, list(records.values()))
        for name, data in unsent.items():
            remote.put_bytes(f"purges/{name}", data, history.objects.tmp)
        root = rewriter.next_root(state.root)
        # No results: any of them may repeat what was purged, as any here may.
        root = root._replace(purges=(*root.purges, *unsent), results=())
        try:
            rewriter.swap(root, state, doomed | left)
        except Moved:
            left |= rewriter.stored
            continue
        return Erased(tuple(records.values()), len(doomed))
    raise Unavailable(
        f"{remote.url} was changed by others {TRIES} times while this was being erased there. It is not erased yet.",
        hint=f"Run it again: memlake push {pasted(remote.name)}",
    )


def _rewrite_all(
    history: History, link: Link, rewriter: Rewriter, root: Root, records: Sequence[PurgeRecord]
) -> set[str]:
    """Rewrite each file that holds what was purged; returns the paths of those to delete."""
    targets = _find_targets(rewriter, records)
    packs: dict[str, list[Pack]] = {}
    doomed = _find_unlisted(link, root, targets)
    for file, batch in rewriter.read():
        for pack in batch.packs:
            if pack.name not in packs and pack.name in {one.name for one in root.packs}:
                resting = find_resting(link, pack, targets)
                if resting or any(record.oid in targets for record in pack.read().records):
                    whole = read_whole(history.objects, link, rewriter.read, resting)
                    packs[pack.name] = rewriter.repack([pack], file.lane, targets, whole)
        stripped = strip(batch, targets, packs)
        if _differ(batch, stripped):
            rewriter.replace([file], stripped)
            doomed |= {f"log/{file.name}"}
    return doomed | {f"packs/{name}" for name in packs}


def _differ(batch: Batch, stripped: Batch) -> bool:
    counts = ((len(one.objects), len(one.lists), len(one.parts)) for one in (batch, stripped))
    return len(set(counts)) > 1 or list(batch.packs) != list(stripped.packs)


def _find_targets(rewriter: Rewriter, records: Sequence[PurgeRecord]) -> set[bytes]:
    """What is to go from the remote: what was named, and what went with it here unless something there needs it."""
    named = {bytes.fromhex(oid) for record in records for oid in record.oids}
    loose = {bytes.fromhex(oid) for record in records for oid in record.loose}
    purged, chunks = named | loose, set[bytes]()
    for _, batch in rewriter.read():
        for one in batch.lists:
            if one.oid in purged:
                chunks.update(chunk for chunk, _ in decode_list(one.oid, one.data, one.size))
    doubtful = (loose | chunks) - named
    needed = set[bytes]()
    for _, batch in rewriter.read():
        needed |= _list_needs(batch, purged, chunks) & doubtful
    return named | (doubtful - needed)


def _list_needs(batch: Batch, purged: AbstractSet[bytes], chunks: AbstractSet[bytes]) -> set[bytes]:
    """What the other objects of a batch need: what they link to, their chunks, and chunks that are objects, too."""
    needs = set[bytes]()
    for oid, links in _list_objects(batch):
        if oid not in purged:
            needs.update(list_links(links))
            if oid in chunks:
                needs.add(oid)
    for one in batch.lists:
        if one.oid not in purged:
            needs.update(chunk for chunk, _ in decode_list(one.oid, one.data, one.size))
    return needs


def _list_objects(batch: Batch) -> Iterator[tuple[bytes, bytes | None]]:
    yield from ((oid_of(one.content), one.links) for one in batch.objects)
    yield from ((one.oid, one.links) for one in batch.lists)
    yield from ((one.oid, one.links) for one in batch.parts)
    for pack in batch.packs:
        yield from ((record.oid, record.links) for record in pack.read().records if record.role & OBJECT)


def _find_unlisted(link: Link, root: Root, targets: AbstractSet[bytes]) -> set[str]:
    """Files that no root names and that hold what was purged, or may: a push that died left them, or gc waits."""
    place, listed = link.remote.place, root.paths()
    found = {path for path, _, _ in place.list("log/") if path not in listed}
    found |= {path for path, _, _ in place.list("results/")}
    for path, _, _ in place.list("packs/"):
        if path not in listed and _may_hold(link, path, targets):
            found.add(path)
    parts = {f"parts/{part_name(oid)}" for oid in targets}
    return found | {path for path, _, _ in place.list("parts/") if path.partition(".")[0] in parts}


def _may_hold(link: Link, path: str, targets: AbstractSet[bytes]) -> bool:
    try:
        footer = decode_footer(path.removeprefix("packs/"), read_footer_bytes(link.remote.place, path))
    except (Corrupt, NotFound):  # not a pack, or deleted meanwhile
        return True
    return any(record.oid in targets and record.form not in (CHUNKED, PART) for record in footer.records)
