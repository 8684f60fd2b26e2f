"""Erasing memories for good: every version's bytes. What is derived of them follows. Cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable

from memlake.errors import NotFound, Purged
from memlake.memories import index_sync, rebuild, record, search, store, timeline
from memlake.memories.access_counts import Access
from memlake.memories.context import MemoryContext
from memlake.memories.memory_paths import memory_path
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.reports import PurgeReport
from memlake.versions.upkeep import purge as purge_objects
from memlake.versions.verbs import show


def purge(ground: MemoryContext, access: Access, memory_id: str, *, reason: str) -> PurgeReport:
    """Delete a memory from the branch and erase all its versions, wherever history or the index keeps them."""
    key = record.Memory(record.checked_id(memory_id), "").key
    oids = _find_objects(ground, key)
    if not oids or not all(ground.sees(memory.org_id) for memory in _read_versions(ground, oids)):
        known = timeline.list_versions(ground, memory_id)  # says so where it was never stored
        if gone := tuple(version.oid for version in known if version.ended == "purged"):
            purge_objects.purge(ground.signed(), gone, reason)  # finishes one that died before it deleted the files
        raise NotFound(f"memory {memory_id} was purged already: {known[-1].reason}.")
    versions = list(_read_versions(ground, oids))
    copies = _copies(ground, versions)
    present = store.find(ground, memory_id)
    if present is not None:
        store.delete(ground, present)
    report = purge_objects.purge(ground.signed(), tuple(sorted(oids)), reason)
    follow(ground)
    access.forget([key])
    told = f"The same text stands in {', '.join(copies)}; that was not erased."
    return report._replace(notes=(*report.notes, told)) if copies else report


def _copies(ground: MemoryContext, versions: list[Memory]) -> list[str]:
    """Other memories of the branch, of any agent, that say word for word what one of these versions says."""
    texts, ids = {memory.content for memory in versions}, {memory.memory_id for memory in versions}
    asked = (Query(text[:2000], limit=20, mode="keyword") for text in sorted(texts)[:20])
    hits = [hit for query in asked for hit in search.search(ground, query) if hit["content"] in texts]
    return sorted({hit["memory_id"] for hit in hits} - ids)


@rebuild.heals
def follow(ground: MemoryContext) -> None:
    """Erase what was purged from the index and from the kept vectors."""
    index_sync.follow(ground.here.history, ground.index, ground.branch)


@rebuild.heals
def _find_objects(ground: MemoryContext, key: bytes) -> set[str]:
    """The objects of a memory, with the earlier values its records link to."""
    index_sync.follow(ground.here.history, ground.index, ground.branch)
    oids = {oid.hex() for (oid,) in ground.index.db.rows("SELECT oid FROM row WHERE key = ?", (key,))}
    for memory in _read_versions(ground, set(oids)):
        oids |= {past.oid for past in memory.history}
        # Branches that were never searched have no rows here: the history knows what was ever at the path.
        path = memory_path(ground.here.history, memory.agent_id, memory.memory_id)
        oids |= set(show.versions_of(ground.here, path))
    return oids


def _read_versions(ground: MemoryContext, oids: Iterable[str]) -> Iterable[Memory]:
    for oid in oids:
        try:
            yield record.decode(ground.here.history.objects.read(oid))
        except (Purged, NotFound):
            continue
