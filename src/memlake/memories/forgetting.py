"""Taking back what a session, an agent or a time wrote: what it had overwritten stands again, the rest is forgotten.

A value belongs to the session that said it. Only memories whose present value is meant are touched: what somebody
else wrote over it since stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memlake.errors import InvalidInput, NotFound, Purged
from memlake.memories import following, keeping, record, searching, timeline
from memlake.memories.ground import Ground, agent_author
from memlake.memories.paths import memory_path
from memlake.memories.record import Memory, Past
from memlake.memories.searching import Query
from memlake.objects import layout
from memlake.records import Commit, Entry

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
    commits: Mapping[str, Commit]  # by the object they wrote

    def means(self, memory: Memory, oid: str) -> bool:
        session, agent, since = self.choice
        commit = self.commits.get(oid)
        by_agent = agent is None or memory.agent_id == agent
        by_agent = by_agent or (commit is not None and commit.author == agent_author(agent or ""))
        return session in (None, memory.session_id) and by_agent and (since is None or commit is not None)


def forget(ground: Ground, choice: Choice, *, dry_run: bool = False) -> list[Forgotten]:
    """Take back what was written, in one commit; with `dry_run` only say what would go."""
    if choice == Choice():
        raise InvalidInput("say whose writing to take back: a session, an agent or a time. Nothing was forgotten.")
    commits, paths = _commits(ground, choice)
    written, found = _Written(choice, commits), dict[str, tuple[Entry, Forgotten]]()
    for path, entry in _candidates(ground, choice, paths):
        memory = record.decode(ground.here.history.objects.read(entry.oid))
        if ground.sees(memory.org_id) and written.means(memory, entry.oid):
            found[path] = (entry, Forgotten(memory, _before(ground, memory, written)))
    if found and not dry_run:
        _write(ground, found)
    return [one for _, one in found.values()]


def _commits(ground: Ground, choice: Choice) -> tuple[dict[str, Commit], set[str]]:
    """The commits by what they wrote, back to the time that is given, and the paths they changed."""
    commits, paths = dict[str, Commit](), set[str]()
    if choice.agent_id is None and choice.since is None:
        return commits, paths
    first = searching.moment(choice.since) or 0
    for commit in timeline.log(ground, _ALL):
        if commit.time < first:
            break
        for change in ground.here.history.changes(commit):
            if change.new is not None and following.is_memory(change.path):
                commits.setdefault(change.new.oid, commit)
                paths.add(change.path)
    return commits, paths


def _candidates(ground: Ground, choice: Choice, paths: set[str]) -> Iterator[tuple[str, Entry]]:
    """Memories of the branch that may be meant, at the paths where they lie."""
    history = ground.here.history
    if choice.session_id is not None or choice.agent_id is not None:
        query = Query(limit=_ALL, session_id=choice.session_id, agent_id=choice.agent_id or searching.EVERYONE)
        listed = searching.listed(ground, query, now=0)
        paths = paths | {memory_path(history, memory.agent_id, memory.memory_id) for memory in listed}
    yield from sorted(history.entries(ground.head(), paths).items())


def _before(ground: Ground, memory: Memory, written: _Written) -> Memory | None:
    """The last value that is not meant."""
    for past in reversed(memory.history):
        try:
            value = record.decode(ground.here.history.objects.read(past.oid))
        except (Purged, NotFound):
            continue
        if not written.means(value, past.oid):
            return value
    return None


def _write(ground: Ground, found: Mapping[str, tuple[Entry, Forgotten]]) -> None:
    history, now = ground.here.history, layout.now()
    restored = sum(one.restored is not None for _, one in found.values())
    with history.db.write():
        changes: dict[str, bytes | Entry | None] = {}
        for path, (entry, one) in found.items():
            past = (*one.memory.history, Past(entry.oid, now))
            again = one.restored and one.restored._replace(updated_at=now, history=past)
            changes[path] = again and keeping.entry_of(history, again)
        message = f"forget {len(found) - restored} memories, restore {restored}"
        ground.write(changes, message, ground.author, expects={path: entry for path, (entry, _) in found.items()})
    keeping.settle(ground)
