"""Erasing memories for good: every version's bytes. What is derived of them follows. Cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable

from memlake.errors import NotFound, Purged
from memlake.memories import following, healing, keeping, record, searching, timeline
from memlake.memories.access import Access
from memlake.memories.ground import Ground
from memlake.memories.paths import memory_path
from memlake.memories.record import Memory
from memlake.memories.searching import Query
from memlake.reports import PurgeReport
from memlake.versions import looking, purging


def purge(ground: Ground, access: Access, memory_id: str, *, reason: str) -> PurgeReport:
    """Delete a memory from the branch and erase all its versions, wherever history or the index keeps them."""
    key = record.Memory(record.checked_id(memory_id), "").key
    oids = _everything(ground, key)
    if not oids or not all(ground.sees(memory.org_id) for memory in _versions(ground, oids)):
        known = timeline.versions(ground, memory_id)  # says so where it was never stored
        if gone := tuple(version.oid for version in known if version.ended == "purged"):
            purging.purge(ground.signed(), gone, reason)  # finishes one that died before it deleted the files
        raise NotFound(f"memory {memory_id} was purged already: {known[-1].reason}.")
    versions = list(_versions(ground, oids))
    copies = _copies(ground, versions)
    present = keeping.find(ground, memory_id)
    if present is not None:
        keeping.delete(ground, present)
    report = purging.purge(ground.signed(), tuple(sorted(oids)), reason)
    follow(ground)
    access.forget([key])
    told = f"The same text stands in {', '.join(copies)}; that was not erased."
    return report._replace(notes=(*report.notes, told)) if copies else report


def _copies(ground: Ground, versions: list[Memory]) -> list[str]:
    """Other memories of the branch, of any agent, that say word for word what one of these versions says."""
    texts, ids = {memory.content for memory in versions}, {memory.memory_id for memory in versions}
    asked = (Query(text[:2000], limit=20, mode="keyword") for text in sorted(texts)[:20])
    hits = [hit for query in asked for hit in searching.search(ground, query) if hit["content"] in texts]
    return sorted({hit["memory_id"] for hit in hits} - ids)


@healing.heals
def follow(ground: Ground) -> None:
    """Erase what was purged from the index and from the kept vectors."""
    following.follow(ground.here.history, ground.index, ground.branch)


@healing.heals
def _everything(ground: Ground, key: bytes) -> set[str]:
    """The objects of a memory, with the earlier values its records link to."""
    following.follow(ground.here.history, ground.index, ground.branch)
    oids = {oid.hex() for (oid,) in ground.index.db.rows("SELECT oid FROM row WHERE key = ?", (key,))}
    for memory in _versions(ground, set(oids)):
        oids |= {past.oid for past in memory.history}
        # Branches that were never searched have no rows here: the history knows what was ever at the path.
        path = memory_path(ground.here.history, memory.agent_id, memory.memory_id)
        oids |= set(looking.versions_of(ground.here, path))
    return oids


def _versions(ground: Ground, oids: Iterable[str]) -> Iterable[Memory]:
    for oid in oids:
        try:
            yield record.decode(ground.here.history.objects.read(oid))
        except (Purged, NotFound):
            continue
