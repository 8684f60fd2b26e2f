"""Forgetting: taking back what a session, an agent or a time wrote, and erasing a memory for good.

Of what is taken back, what it had overwritten stands again; the rest is forgotten and can be restored. Erasing removes
every version's bytes, what is derived of them follows, and it cannot be undone.

A value belongs to the session that said it. Only memories whose present value is meant are touched: what somebody
else wrote over it since stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memlake.errors import InvalidInput, NotFound, Purged
from memlake.memories import index_sync, record, search, store, timeline
from memlake.memories.access_counts import Access
from memlake.memories.context import MemoryContext, agent_author, heals
from memlake.memories.kind import memory_path
from memlake.memories.record import Memory, Past
from memlake.memories.search import Query
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.records import Change, Commit, Entry
from memlake.reports import PurgeReport
from memlake.versions.upkeep import purge as purge_objects
from memlake.versions.verbs import show

_ALL = 1_000_000  # memories


class Choice(NamedTuple):
    """Whose writing is meant: all that is given must be so."""

    session_id: str | None = None
    agent_id: str | None = None
    since: str | int | None = None


class Forgotten(NamedTuple):
    """A memory as it was, and the earlier value that stands again; None where it is forgotten whole."""

    memory: Memory
    restored: Memory | None


class _Written(NamedTuple):
    """What is meant: a session's values, an agent's, and those of some commits (all of them when no time is given)."""

    choice: Choice
    commits: Mapping[str, Commit]  # by the objects they were the first to write

    def means(self, memory: Memory, oid: str) -> bool:
        session, agent, since = self.choice
        commit = self.commits.get(oid)
        by_agent = agent is None or memory.agent_id == agent
        by_agent = by_agent or (commit is not None and commit.author == agent_author(agent or ""))
        return session in (None, memory.session_id) and by_agent and (since is None or commit is not None)


def forget(context: MemoryContext, choice: Choice, *, dry_run: bool = False) -> list[Forgotten]:
    """Take back what was written, in one commit; with `dry_run` only say what would go."""
    if choice == Choice():
        raise InvalidInput("say whose writing to take back: a session, an agent or a time. Nothing was forgotten.")
    commits, paths = _find_commits(context, choice)
    written, found = _Written(choice, commits), dict[str, tuple[Entry, Forgotten]]()
    for path, entry in _list_candidates(context, choice, paths):
        memory = record.decode(context.here.history.objects.read(entry.oid))
        if context.sees(memory.org_id) and written.means(memory, entry.oid):
            found[path] = (entry, Forgotten(memory, _find_before(context, memory, written)))
    if found and not dry_run:
        _write(context, found)
    return [one for _, one in found.values()]


def _find_commits(context: MemoryContext, choice: Choice) -> tuple[dict[str, Commit], set[str]]:
    """The commits by the objects they were the first to write, back to the time that is given, and the paths they
    changed. What a merge brought in belongs to the commits it was merged from.
    """
    commits, paths = dict[str, Commit](), set[str]()
    if choice.agent_id is None and choice.since is None:
        return commits, paths
    brought = list[tuple[str, str]]()
    for commit in _walk_commits(context, search.parse_moment(choice.since) or 0):
        found = [c for c in context.here.history.changes(commit) if c.new is not None and index_sync.is_memory(c.path)]
        paths.update(change.path for change in found)
        same = _find_brought(context, commit, found) if len(commit.parents) > 1 else {}
        commits.update((c.new.oid, commit) for c in found if c.new is not None and c.new.oid not in same)
        brought += same.items()
    for oid, before in reversed(brought):  # oldest first: what a merge brought may have been merged before
        if oid != before and before in commits:
            commits[oid] = commits[before]
    return commits, paths


def _walk_commits(context: MemoryContext, first: int) -> Iterator[Commit]:
    """The commits of the branch since a time, those of merged branches too, each before its parents."""
    history, head = context.here.history, context.head()
    waiting, seen = [(-head.seq, head.oid)] if head else [], set[str]()
    while waiting:
        commit = history.get(heapq.heappop(waiting)[1])
        if commit.time < first or commit.oid in seen:
            continue
        seen.add(commit.oid)
        yield commit
        for parent in commit.parents:
            heapq.heappush(waiting, (-history.seq(parent), parent))


def _find_brought(context: MemoryContext, merge: Commit, changes: Sequence[Change]) -> dict[str, str]:
    """The objects of a merge that say what one of its sides said, and that side's object.

    They need not be the same object: a merge notes doubts on what it brings, and adds the text that lost to a history.
    """
    history, brought = context.here.history, dict[str, str]()
    others = [history.entries(history.get(oid), [change.path for change in changes]) for oid in merge.parents[1:]]
    for change in changes:
        sides = [entry.oid for entry in (change.old, *(held.get(change.path) for held in others)) if entry]
        new = change.new.oid if change.new else ""
        said = _read_content(context, new) if new not in sides else None
        same = [oid for oid in sides if oid == new or (said is not None and _read_content(context, oid) == said)]
        brought |= {new: same[-1]} if same else {}  # the last is what came; the first is what was here
    return brought


def _read_content(context: MemoryContext, oid: str) -> str | None:
    try:
        return record.decode(context.here.history.objects.read(oid)).content
    except (Purged, NotFound):
        return None


def _list_candidates(context: MemoryContext, choice: Choice, paths: set[str]) -> Iterator[tuple[str, Entry]]:
    """Memories of the branch that may be meant, at the paths where they lie."""
    history = context.here.history
    if choice.session_id is not None or choice.agent_id is not None:
        query = Query(limit=_ALL, session_id=choice.session_id, agent_id=choice.agent_id or search.EVERYONE)
        listed = search.list_memories(context, query, now=0)
        paths = paths | {memory_path(history, memory.agent_id, memory.memory_id) for memory in listed}
    yield from sorted(history.entries(context.head(), paths).items())


def _find_before(context: MemoryContext, memory: Memory, written: _Written) -> Memory | None:
    """The last value that is not meant."""
    for past in reversed(memory.history):
        try:
            value = record.decode(context.here.history.objects.read(past.oid))
        except (Purged, NotFound):
            continue
        if not written.means(value, past.oid):
            return value
    return None


def _write(context: MemoryContext, found: Mapping[str, tuple[Entry, Forgotten]]) -> None:
    history, now = context.here.history, layout.now()
    restored = sum(one.restored is not None for _, one in found.values())
    with history.db.write():
        changes: dict[str, bytes | Entry | None] = {}
        for path, (entry, one) in found.items():
            past = (*one.memory.history, Past(entry.oid, now))
            again = one.restored and one.restored._replace(updated_at=now, history=past)
            changes[path] = again and store.write_entry(history, again)
        message = f"forget {len(found) - restored} memories, restore {restored}"
        context.write(changes, message, context.author, expects={path: entry for path, (entry, _) in found.items()})
    store.update_index(context)


# -- for good --------------------------------------------------------------------------------


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
    report = purge_objects.purge(context.sign_checkout(), tuple(sorted(oids)), reason)
    follow(context)
    access.forget([key])
    note = f"The same text stands in {', '.join(copies)}; that was not erased."
    return report._replace(notes=(*report.notes, note)) if copies else report


def _find_copies(context: MemoryContext, versions: list[Memory]) -> list[str]:
    """Other memories of the branch, of any agent, that say word for word what one of these versions says."""
    texts, ids = {memory.content for memory in versions}, {memory.memory_id for memory in versions}
    asked = (Query(text[:2000], limit=20, mode="keyword") for text in sorted(texts)[:20])
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
