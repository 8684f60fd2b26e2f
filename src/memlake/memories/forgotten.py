"""What a branch no longer has because somebody forgot it, and agents' state: what travels beside memories.

Forgetting travels as an id and the time of the value that was forgotten, never as its text. What an undo or a revert
took out was taken back, not forgotten, so that an import that was undone can be done again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from memlake.errors import Corrupt, NotFound, Purged
from memlake.memories import import_records, record, redact, state, store, timeline
from memlake.memories.context import MemoryContext
from memlake.memories.import_records import Item
from memlake.memories.index_sync import ROOM
from memlake.memories.kind import STATE
from memlake.memories.record import Memory, State
from memlake.named_tuple import NamedTuple
from memlake.records import Entry

_MEANT = ("forget ", "evict ", "remove state")  # how commits begin that forget on purpose


class Forgotten(NamedTuple):
    """A memory, or the value of a state key, that was forgotten. `memory` is what it was; None once that is erased."""

    memory_id: str = ""
    agent_id: str = ""
    updated_at: int = 0  # when what was forgotten had been written
    key: str = ""
    org_id: str = "local"
    memory: Memory | None = None


class Beside(NamedTuple):
    """What comes beside memories: what was forgotten, and state."""

    forgotten: tuple[Forgotten, ...] = ()
    states: tuple[State, ...] = ()


class Done(NamedTuple):
    """How much of it was new: memories forgotten, state values set or removed."""

    forgotten: int = 0
    states: int = 0


def list_forgotten(context: MemoryContext) -> list[Forgotten]:
    """What was forgotten on purpose and is not here under any path, the newest first. Reads all commits."""
    history, head = context.here.history, context.head()
    gone: dict[str, Forgotten] = {}
    for commit in timeline.walk_commits(context):
        if not commit.message.startswith(_MEANT) or len(commit.parents) > 1:
            continue
        for change in history.changes(commit):
            if change.new is None and change.old is not None and change.path not in gone:
                found = _read_gone(context, change.path, change.old, commit.time)
                if found is not None:
                    gone[change.path] = found
    if not gone:
        return []
    present = {path.rpartition("/")[2] for path, _ in history.scan(head, ROOM)}
    values = history.entries(head, [path for path, one in gone.items() if one.key])
    return [one for path, one in gone.items() if path not in values and one.memory_id not in present]


def _read_gone(context: MemoryContext, path: str, old: Entry, time: int) -> Forgotten | None:
    read = context.here.history.objects.read
    with contextlib.suppress(Corrupt, NotFound):
        try:
            if path.startswith(STATE.folder):
                value = record.decode_state(read(old.oid))
                return Forgotten("", value.agent_id, value.updated_at, value.key, value.org_id)
            memory = record.decode(read(old.oid))
            return Forgotten(memory.memory_id, memory.agent_id, memory.updated_at, "", memory.org_id, memory)
        except Purged:  # of a state value not even the key is known
            return None if path.startswith(STATE.folder) else Forgotten(path.rpartition("/")[2], "", time)
    return None


class KeptOut:
    """What an import may not bring back, because it was forgotten here and says nothing new since."""

    def __init__(self, context: MemoryContext) -> None:
        self._gone = {one.memory_id: one for one in list_forgotten(context)}
        self.count = 0

    def filter(self, items: Iterable[Item]) -> list[Item]:
        """The others; how many were kept out is counted."""
        listed = list(items)
        rest = [item for item in listed if not self._holds(item.memory)]
        self.count += len(listed) - len(rest)
        return rest

    def _holds(self, memory: Memory) -> bool:
        gone = self._gone.get(memory.memory_id)
        said = gone.memory.content if gone is not None and gone.memory is not None else None
        return gone is not None and (memory.updated_at <= gone.updated_at or memory.content == said)


def list_beside(context: MemoryContext, projects: Sequence[str] | None, *, states: bool) -> Beside:
    """What an export holds beside memories."""
    gone = [one for one in list_forgotten(context) if context.sees(one.org_id)]
    shown = [one for one in gone if one.key or one.memory is None or context.shows(one.memory, projects)]
    kept = tuple(state.list_states(context)) if states else ()
    return Beside(tuple(one for one in shown if states or not one.key), kept)


def apply_beside(context: MemoryContext, beside: Beside, *, dry_run: bool = False) -> Done:
    """Forget what was forgotten elsewhere and has not changed here since; the newer value of each state stands."""
    memories = [Memory(one.memory_id, "", one.agent_id) for one in beside.forgotten if one.memory_id]
    ours = dict(import_records.find_ours(context, memories)) if memories else {}
    times = {one.memory_id: one.updated_at for one in beside.forgotten}
    gone = [one for memory_id, one in ours.items() if one.memory.updated_at <= times[memory_id]]
    states = list(_list_states(context, beside))
    done = Done(len(gone), len(states))
    changes: dict[str, bytes | Entry | None] = dict.fromkeys(one.path for one in gone)
    changes |= {path: data for path, _, data in states}
    if changes and not dry_run:
        expects: dict[str, Entry | None] = {one.path: one.entry for one in gone}
        expects |= {path: entry for path, entry, _ in states}
        subject = f"forget {done.forgotten} memories and change {done.states} state values, as an import says"
        context.write(changes, store.describe_write(context, subject), context.author, expects=expects)
        store.update_index(context)
    return done


def _list_states(context: MemoryContext, beside: Beside) -> Iterator[tuple[str, Entry | None, bytes | None]]:
    """The paths of state values that are another one, or none, by now, with what is there."""
    how = context.settings.memory_secrets
    removed = {(g.org_id, g.agent_id, g.key): g.updated_at for g in list_forgotten(context)} if beside.states else {}
    for one in beside.states:
        path, entry, ours = state.find_by_org(context, one.org_id, one.agent_id, one.key)
        since = removed.get((one.org_id, one.agent_id, one.key), -1) if ours is None else ours.updated_at
        if since < one.updated_at and (ours is None or ours.value != one.value):
            value, _ = redact.guard_value(one.value, how, what="a state value", name=one.key)
            yield path, entry, record.encode_state(one._replace(value=value))
    for gone in beside.forgotten:
        if gone.key:
            path, entry, ours = state.find_by_org(context, gone.org_id, gone.agent_id, gone.key)
            if ours is not None and ours.updated_at <= gone.updated_at:
                yield path, entry, None
