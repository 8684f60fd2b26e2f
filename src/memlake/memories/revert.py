"""Taking back what a session, an agent, a source or a time wrote, in one commit, and who was told of it meanwhile.

Of what is taken back, what it had replaced stands again and what it had forgotten is there again; the rest is
forgotten and can be restored. A value belongs to whoever said it: only memories whose present value is meant are
touched, and what somebody else wrote over it since stays, unless it was made from it and that is to go too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from memlake.errors import Corrupt, InvalidInput, NotFound, Purged
from memlake.memories import index_sync, lineage, record, search, store, timeline
from memlake.memories.answers.recalls import Recalls
from memlake.memories.context import MemoryContext, agent_author
from memlake.memories.kind import MEMORY, STATE, memory_path, write_entry
from memlake.memories.record import Memory, Past
from memlake.memories.rules import decide
from memlake.memories.search import Query
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.records import Change, Commit, Entry

_ALL = 1_000_000  # memories
_FOREVER = record.LATEST


class Choice(NamedTuple):
    """Whose writing is meant: all that is given must be so. `derived`: also what was made from it."""

    session_id: str | None = None
    agent_id: str | None = None
    since: str | int | None = None
    source: str | None = None
    derived: bool = False


class Reverted(NamedTuple):
    """A memory as it was, None where it had been forgotten; the value that stands again, None where it is forgotten
    now; and the memory it was made from, if it is only derived from what was meant.
    """

    memory: Memory | None
    restored: Memory | None
    derived_from: str = ""


class Exposed(NamedTuple):
    """A session (or, of those without one, an agent) that was told what was taken back: by which doors, when last."""

    session: str
    agent: str
    surfaces: tuple[str, ...]
    memory_ids: tuple[str, ...]
    time: int


class Taken(NamedTuple):
    """What a revert did, or would do."""

    memories: list[Reverted]
    states: list[str]  # keys of agents' state
    told: list[Exposed]


class _Value(NamedTuple):
    """One value of a memory, and from when to when it stood."""

    oid: str
    memory: Memory
    start: int
    end: int


class _Walked(NamedTuple):
    """What the commits of the branch say: who was first to write an object, who forgot a memory last and what it was
    then, and the changes of each state path, newest first.
    """

    writers: dict[str, Commit]
    paths: set[str]
    forgotten: dict[str, tuple[Commit, Entry]]
    states: dict[str, list[tuple[Commit, Change]]]


class _Written(NamedTuple):
    """What is meant: a session's or a source's values, an agent's, and those of some commits (all without a time)."""

    choice: Choice
    writers: Mapping[str, Commit]

    def means(self, memory: Memory, oid: str) -> bool:
        choice, commit = self.choice, self.writers.get(oid)
        by_agent = choice.agent_id is None or memory.agent_id == choice.agent_id
        by_agent = by_agent or (commit is not None and commit.author == agent_author(choice.agent_id or ""))
        by_source = choice.source is None or choice.source in record.name_sources(memory.source)
        in_session = choice.session_id in (None, memory.session_id)
        return in_session and by_source and by_agent and (choice.since is None or commit is not None)

    def means_commit(self, commit: Commit) -> bool:
        """Whether a commit that forgot something, or set a state, is meant: by what it says of who wrote it."""
        choice, said = self.choice, store.read_caller(commit)
        by_agent = choice.agent_id is None or commit.author == agent_author(choice.agent_id)
        by_source = choice.source is None or choice.source in record.name_sources(said.source)
        return by_agent and by_source and choice.session_id in (None, said.session)


def revert(context: MemoryContext, records: Recalls, choice: Choice, *, dry_run: bool = False) -> Taken:
    """Take back what was written, in one commit; with `dry_run` only say what would go."""
    if choice._replace(derived=False) == Choice():
        raise InvalidInput(
            "say whose writing to take back: a session, an agent, a source or a time. Nothing was taken back.",
            hint="See who wrote what with: memlake memory ls --source agent",
        )
    walked = _walk(context, choice)
    written = _Written(choice, walked.writers)
    found = _find_written(context, written, walked)
    states = dict(_find_states(context, written, walked))
    bad = _list_bad(found)
    if (found or states) and not dry_run:
        _write(context, found, {path: entry for path, (_, entry) in states.items()})
    return Taken(
        [one.told for one in found.values()], [name for name, _ in states.values()], _list_exposed(records, bad)
    )


class _Found(NamedTuple):
    """What is to be done at a path: what lies there, what is told of it, and the values that are bad."""

    entry: Entry | None
    told: Reverted
    bad: Mapping[str, Sequence[_Value]]


def _walk(context: MemoryContext, choice: Choice) -> _Walked:
    """Read the commits back to the time that is given. What a merge brought belongs to those it was merged from."""
    walked = _Walked({}, set(), {}, {})
    brought = list[tuple[str, str]]()
    head = context.head()
    for commit in timeline.walk_commits(context, search.parse_moment(choice.since) or 0):
        changes, is_merge = context.here.history.changes(commit), len(commit.parents) > 1
        found = [c for c in changes if c.new is not None and index_sync.is_memory(c.path)]
        walked.paths.update(change.path for change in found)
        same = _find_brought(context, commit, found) if is_merge else {}
        walked.writers.update((c.new.oid, commit) for c in found if c.new is not None and c.new.oid not in same)
        brought += same.items()
        for change in () if is_merge else changes:
            if change.path.startswith(STATE.folder):
                walked.states.setdefault(change.path, []).append((commit, change))
            elif change.new is None and change.old is not None and change.path.startswith(MEMORY.folder):
                walked.forgotten.setdefault(change.path, (commit, change.old))
    for oid, before in reversed(brought):  # oldest first: what a merge brought may have been merged before
        if oid != before and before in walked.writers:
            walked.writers[oid] = walked.writers[before]
    here = context.here.history.entries(head, walked.forgotten)
    return walked._replace(forgotten={path: what for path, what in walked.forgotten.items() if path not in here})


def _find_brought(context: MemoryContext, merge: Commit, changes: Sequence[Change]) -> dict[str, str]:
    """The objects of a merge that say what one of its sides said, and that side's object.

    They need not be the same object: a merge notes contradictions on what it brings, and adds the text that lost to a
    history.
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


def _read(context: MemoryContext, oid: str) -> Memory | None:
    try:
        return record.decode(context.here.history.objects.read(oid))
    except (Purged, NotFound, Corrupt):
        return None


def _read_content(context: MemoryContext, oid: str) -> str | None:
    memory = _read(context, oid)
    return None if memory is None else memory.content


# -- what is taken back -----------------------------------------------------------------------


def _find_written(context: MemoryContext, written: _Written, walked: _Walked) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for path, entry in _list_candidates(context, written.choice, walked.paths):
        one = _judge(context, entry, written.means)
        if one is not None:
            found[path] = one
    if written.choice.derived:
        _add_derived(context, written, found)
    for path, (commit, entry) in sorted(walked.forgotten.items()):
        memory = _read(context, entry.oid) if written.means_commit(commit) else None
        if memory is not None and context.sees(memory.org_id):
            values = _list_values(context, memory, entry.oid)
            good = [value for value in values if not written.means(value.memory, value.oid)]
            if good:
                found[path] = _Found(None, Reverted(None, _choose_again(memory, good)), {})
    return found


def _list_candidates(context: MemoryContext, choice: Choice, paths: set[str]) -> Iterator[tuple[str, Entry]]:
    """Memories of the branch that may be meant, at the paths where they lie."""
    history = context.here.history
    if choice.agent_id is None and choice.since is None:
        paths = set()  # a session and a source stand in the record
    if choice.session_id is not None or choice.agent_id is not None or choice.source is not None:
        query = Query(
            limit=_ALL, session_id=choice.session_id, agent_id=choice.agent_id or search.EVERYONE,
            source=choice.source, project=search.EVERYONE,
        )  # fmt: skip
        listed = search.list_memories(context, query, now=0)
        paths = paths | {memory_path(history, memory.agent_id, memory.memory_id) for memory in listed}
    yield from sorted(history.entries(context.head(), paths).items())


def _judge(context: MemoryContext, entry: Entry, is_bad: Callable[[Memory, str], bool]) -> _Found | None:
    """What is to be done with a memory: None where its present value stands."""
    memory = _read(context, entry.oid)
    if memory is None or not context.sees(memory.org_id) or not is_bad(memory, entry.oid):
        return None
    values = _list_values(context, memory, entry.oid)
    bad = [value for value in values if is_bad(value.memory, value.oid)]
    again = _choose_again(memory, [value for value in values if value not in bad])
    return _Found(entry, Reverted(memory, again), {memory.memory_id: bad})


def _choose_again(memory: Memory, good: Sequence[_Value]) -> Memory | None:
    """What stands again: the last good value. One that never stood alone, because it was joined to what goes, is
    joined to the good one before it.
    """
    again: Memory | None = None
    for value in good:
        verdict = decide(again.content, value.memory.content) if again and value.start == value.end else None
        text = verdict.text if verdict is not None and verdict == "merge" else None
        again = value.memory._replace(content=text) if text else value.memory
    # Before it was joined, a text had an id of its own.
    return again and again._replace(memory_id=memory.memory_id, agent_id=memory.agent_id, created_at=memory.created_at)


def _list_values(context: MemoryContext, memory: Memory, oid: str) -> list[_Value]:
    """The values a memory had, oldest first, without those that were purged.

    A text that was joined to another was written by whoever wrote the joined one, so it is listed under that object.
    """
    values, start = list[_Value](), memory.created_at
    written = [*(past.oid for past in memory.history), oid][1:]
    for past, following in zip(memory.history, written, strict=True):
        value = _read(context, past.oid)
        if value is not None:
            values.append(_Value(following if start == past.until else past.oid, value, start, past.until))
        start = past.until
    return [*values, _Value(oid, memory, start, _FOREVER)]


def _add_derived(context: MemoryContext, written: _Written, found: dict[str, _Found]) -> None:
    """Add what was made from what is there, through any number of steps: texts that were joined with one of these, and
    memories that name one in their source or metadata at a time when it said what is taken back.
    """
    history = context.here.history
    entries = dict(history.scan(context.head(), MEMORY.folder))
    bad = _list_bad(found)
    while True:
        more: dict[str, _Found] = {}
        is_bad = functools.partial(_is_bad, context, written, bad)
        for path, entry in entries.items():
            judged = _judge(context, entry, is_bad) if path not in found else None
            if judged is not None and judged.told.memory is not None:
                cause = _find_cause(judged.told.memory, bad)
                more[path] = judged._replace(told=judged.told._replace(derived_from=cause))
        if not more:
            return
        found |= more
        bad |= _list_bad(more)


def _list_bad(found: Mapping[str, _Found]) -> dict[str, Sequence[_Value]]:
    return {memory_id: values for one in found.values() for memory_id, values in one.bad.items()}


def _is_bad(
    context: MemoryContext, written: _Written, bad: Mapping[str, Sequence[_Value]], memory: Memory, oid: str
) -> bool:
    """Whether a value is meant, or made from one that is bad."""
    if written.means(memory, oid) or _find_cause(memory, bad):
        return True
    commit = written.writers.get(oid)
    if not memory.history or commit is None or not commit.message.startswith("merge memory "):
        return False
    joined = [past.oid for past in memory.history if past.until == memory.history[-1].until]  # the old text and the new
    values = [(_read(context, before), before) for before in joined]
    return any(value is not None and _is_bad(context, written, bad, value, before) for value, before in values)


def _find_cause(memory: Memory, bad: Mapping[str, Sequence[_Value]]) -> str:
    """The bad memory that a memory names, if that said then what is bad; empty where it names none."""
    return next((name for name in lineage.list_named(memory) if _stood(bad.get(name, ()), memory)), "")


def _stood(values: Sequence[_Value], memory: Memory) -> bool:
    """Whether one of these values stood when a memory was written."""
    return any(value.start <= memory.updated_at < value.end for value in values)


def _find_states(
    context: MemoryContext, written: _Written, walked: _Walked
) -> Iterator[tuple[str, tuple[str, Entry | None]]]:
    """The state values whose newest changes are meant: path -> (the key, what stood there before)."""
    for path, changes in sorted(walked.states.items()):
        before: Entry | None = None
        meant = 0
        for commit, change in changes:
            if not written.means_commit(commit):
                break
            before, meant = change.old, meant + 1
        shown = next((c.new or c.old for _, c in changes), None)
        if meant and shown is not None:
            with contextlib.suppress(Purged, NotFound, Corrupt):
                state = record.decode_state(context.here.history.objects.read(shown.oid))
                if context.sees(state.org_id):
                    yield path, (state.key, before)


def _write(context: MemoryContext, found: Mapping[str, _Found], states: Mapping[str, Entry | None]) -> None:
    history, now = context.here.history, layout.now()
    restored = sum(one.told.restored is not None for one in found.values())
    with history.db.write():
        changes: dict[str, bytes | Entry | None] = dict(states)
        for path, one in found.items():
            was, again = one.told.memory, one.told.restored
            past = (*was.history, Past(one.entry.oid, now)) if was is not None and one.entry is not None else None
            again = again and again._replace(updated_at=now, history=again.history if past is None else past)
            changes[path] = again and write_entry(history, again)
        message = f"revert: forget {len(found) - restored} memories, restore {restored}"
        message += f", {len(states)} state values" if states else ""
        context.write(changes, message, context.author, expects={path: one.entry for path, one in found.items()})
    store.update_index(context)


# -- who was told -----------------------------------------------------------------------------


def _list_exposed(records: Recalls, bad: Mapping[str, Iterable[_Value]]) -> list[Exposed]:
    """Who was told one of these values, newest first, by the records of this machine."""
    told: dict[tuple[str, str], Exposed] = {}
    for memory_id, values in bad.items():
        oids = {value.oid for value in values}
        for recall in records.scan(memory_id=memory_id):
            if any(one.memory_id == memory_id and one.oid in (*oids, "") for one in recall.told):
                key = (recall.session, recall.agent)
                one = told.get(key, Exposed(*key, (), (), 0))
                told[key] = one._replace(
                    surfaces=tuple(dict.fromkeys((*one.surfaces, recall.surface))),
                    memory_ids=tuple(dict.fromkeys((*one.memory_ids, memory_id))),
                    time=max(one.time, recall.time),
                )
    return sorted(told.values(), key=lambda one: -one.time)
