"""Erasing a memory for good: every version's bytes, what is derived of them follows, and it cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable

from memlake.errors import NotFound, Purged
from memlake.memories import index_sync, record, search, store, timeline
from memlake.memories.access_counts import Access
from memlake.memories.context import MemoryContext, heals
from memlake.memories.kind import memory_path
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.reports import PurgeReport
from memlake.versions.upkeep import purge as purge_objects
from memlake.versions.verbs import show


def purge(context: MemoryContext, access: Access, memory_id: str, *, reason: str) -> PurgeReport:
    """Delete a memory from the branch and erase all its versions, wherever history or the index keeps them."""
    key = record.Memory(record.check_id(memory_id), "").key
    oids = _find_objects(context, key)
    if not oids or not all(context.sees(memory.org_id) for memory in _read_versions(context, oids)):
        known = timeline.list_versions(context, memory_id)  # says so where it was never stored
        if gone := tuple(version.oid for version in known if version.ended == "purged"):
            purge_objects.purge(
                context.sign_checkout(), gone, reason
            )  # finishes one that died before it deleted the files
        raise NotFound(f"memory {memory_id} was purged already: {known[-1].reason}.")
    versions = list(_read_versions(context, oids))
    copies = _find_copies(context, versions)
    present = store.find(context, memory_id)
    if present is not None:
        store.delete(context, present)
    report = context.note_holders(purge_objects.purge(context.sign_checkout(), tuple(sorted(oids)), reason))
    follow(context)
    access.forget([key])
    note = f"The same text stands in {', '.join(copies)}; that was not erased."
    return report._replace(notes=(*report.notes, note)) if copies else report


def _find_copies(context: MemoryContext, versions: list[Memory]) -> list[str]:
    """Other memories of the branch, of any agent, that say word for word what one of these versions says."""
    texts, ids = {memory.content for memory in versions}, {memory.memory_id for memory in versions}
    asked = (Query(text[:2000], limit=20, mode="keyword", min_score=0) for text in sorted(texts)[:20])
    hits = [hit for query in asked for hit in search.search(context, query) if hit["content"] in texts]
    return sorted({hit["memory_id"] for hit in hits} - ids)


@heals
def follow(context: MemoryContext) -> None:
    """Erase what was purged from the index and from the kept vectors."""
    index_sync.follow(context.here.history, context.index, context.branch)


@heals
def _find_objects(context: MemoryContext, key: bytes) -> set[str]:
    """The objects of a memory, with the earlier values its records link to."""
    index_sync.follow(context.here.history, context.index, context.branch)
    oids = {oid.hex() for (oid,) in context.index.db.rows("SELECT oid FROM row WHERE key = ?", (key,))}
    for memory in _read_versions(context, set(oids)):
        oids |= {past.oid for past in memory.history}
        # Branches that were never searched have no rows here: the history knows what was ever at the path.
        path = memory_path(context.here.history, memory.agent_id, memory.memory_id)
        oids |= set(show.versions_of(context.here, path))
    return oids


def _read_versions(context: MemoryContext, oids: Iterable[str]) -> Iterable[Memory]:
    for oid in oids:
        try:
            yield record.decode(context.here.history.objects.read(oid))
        except (Purged, NotFound):
            continue
