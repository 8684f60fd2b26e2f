"""How many memories there are, of whom and of what kind, and what the index costs. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from memlake.errors import NotFound, Purged
from memlake.index import rows
from memlake.memories import embed, index_sync, record
from memlake.memories.context import MemoryContext
from memlake.memories.record import Memory
from memlake.named_tuple import NamedTuple

_BATCH = 1000


class Stats(NamedTuple):
    """The memories of a branch in figures. `waiting` rows have no vector of `model` yet."""

    memories: int
    agents: dict[str, int]
    types: dict[str, int]
    categories: dict[str, int]
    model: str
    waiting: int
    index_bytes: int
    conflicts: int = 0
    in_doubt: int = 0
    stale: int = 0


def stats(context: MemoryContext, model: str, projects: Sequence[str] | None = None) -> Stats:
    """The memories of some projects, or of all; the index is counted whole."""
    agents, types, categories = Counter[str](), Counter[str](), Counter[str]()
    for memory in read_memories(context):
        if not context.shows(memory, projects):
            continue
        agents[memory.agent_id] += 1
        types[memory.memory_type] += 1
        categories[memory.category] += 1
    index_sync.follow(context.here.history, context.index, context.branch)
    pending = rows.count_pending(context.index.db) if model != "none" else 0
    return Stats(
        agents.total(),
        _sort_counts(agents),
        _sort_counts(types),
        _sort_counts(categories),
        model if model == "none" else embed.read_model(context.index) or model,
        pending,
        sum(file.stat().st_size for file in context.index.folder.rglob("*") if file.is_file()),
    )


def read_memories(context: MemoryContext) -> Iterator[Memory]:
    """Every memory of the branch, in the order of the tree; those that were purged are left out."""
    history = context.here.history
    entries = (entry for _, entry in history.scan(context.head(), index_sync.ROOM))
    while batch := [entry.oid for entry in islice(entries, _BATCH)]:
        try:
            yield from (record.decode(data) for _, data in history.objects.read_many(set(batch)))
        except (Purged, NotFound):
            yield from _one_by_one(context, batch)


def _one_by_one(context: MemoryContext, oids: list[str]) -> Iterator[Memory]:
    for oid in oids:
        try:
            yield record.decode(context.here.history.objects.read(oid))
        except (Purged, NotFound):
            continue


def _sort_counts(counts: Counter[str]) -> dict[str, int]:
    """The most frequent first, equals by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
