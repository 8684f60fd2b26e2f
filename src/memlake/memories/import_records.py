"""What an import does with ready-made memories: which are new, which bring a newer text, which speak against ours.

An id says that two memories are one; their texts may differ. Whichever follows from the other wins; where neither
does, ours stays and theirs is kept beside it, as a contradiction.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence

from memlake import projects
from memlake.errors import NotFound, Purged
from memlake.memories import index_sync, record, store
from memlake.memories.anchors.anchor import COMMIT, FILE, TENSOR, Anchor
from memlake.memories.context import MemoryContext
from memlake.memories.kind import memory_path
from memlake.memories.record import IMPORTED, Memory, Past
from memlake.named_tuple import NamedTuple
from memlake.projects import Place
from memlake.records import Entry
from memlake.versions.history.commits import History


class Earlier(NamedTuple):
    """What a memory said before, and until when."""

    memory: Memory
    until: int


class Item(NamedTuple):
    """One memory on its way in or out, with what it said before, oldest first."""

    memory: Memory
    past: tuple[Earlier, ...] = ()
    is_dated: bool = True  # its time is its own; one that was given none is of the moment it is read
    is_placed: bool = True  # it says which project it belongs to, or that it belongs to none
    where: str = ""  # where it stood in what it was read from


class Ours(NamedTuple):
    """A memory that is here, and where."""

    memory: Memory
    path: str
    entry: Entry


class Planned(NamedTuple):
    """What is to be done with items: each kind with what is here of the same id."""

    new: list[Item]
    newer: list[tuple[Item, Ours]]
    differing: list[tuple[Item, Ours]]

    @property
    def all(self) -> list[Item]:
        return [*self.new, *(item for item, _ in (*self.newer, *self.differing))]


def plan(context: MemoryContext, items: Sequence[Item]) -> Planned:
    """Sort items, each of another id, by what is here. What is known, or once was under this id, is left out."""
    known = dict(find_ours(context, [item.memory for item in items]))
    planned = Planned([], [], [])
    place = context.place if all(item.is_placed for item in items) else projects.claim(context.place)
    history = context.here.history
    for item in (_put_in_place(history, _with_org(item, context.org or "local"), place) for item in items):
        ours = known.get(item.memory.memory_id)
        if ours is None:
            planned.new.append(item)
        elif item.memory.content != ours.memory.content:
            _compare(context, item, ours, planned)
    return planned


def _with_org(item: Item, org: str) -> Item:
    """An item that names no organisation, nor do its earlier texts, belongs to this one."""
    past = tuple(one._replace(memory=_of_org(one.memory, org)) for one in item.past)
    return item._replace(memory=_of_org(item.memory, org), past=past)


def _put_in_place(history: History, item: Item, place: Place) -> Item:
    """An item that names no project belongs to the one we are in; so does all that is brought into a project's own
    repo, under the name it came with: in another clone the project may have another.
    """
    memory = item.memory._replace(uses=_keep_uses(history, item.memory))
    if not item.is_placed:
        memory = memory._replace(project=place.project)
    return item._replace(memory=memory._replace(own=place.own and memory.project != ""))


def _keep_uses(history: History, memory: Memory) -> tuple[Anchor, ...]:
    """What a memory rests on, without objects of the repo that it came from: files are the project's, and in any."""
    return tuple(use for use in memory.uses if use.kind in (FILE, TENSOR) or _has_object(history, use))


def _has_object(history: History, use: Anchor) -> bool:
    with contextlib.suppress(NotFound, Purged):
        return history.has(use.oid) if use.kind == COMMIT else bool(history.objects.read(use.oid))
    return False


def _of_org(memory: Memory, org: str) -> Memory:
    return memory if memory.org_id else memory._replace(org_id=org)


def _compare(context: MemoryContext, item: Item, ours: Ours, planned: Planned) -> None:
    theirs, mine = item.memory, ours.memory
    said_here, said_there = [*_read_earlier(context, mine), mine.content], [one.memory.content for one in item.past]
    goes_on = [*said_there, theirs.content][: len(said_here)] == said_here
    is_newer = item.is_dated and not item.past and theirs.updated_at > mine.updated_at
    is_newer = is_newer and (not mine.history or _is_as_imported(mine, theirs))
    # We went on from their text, perhaps back to an earlier one. Theirs is newer only where it goes on from ours.
    if theirs.content in said_here and not goes_on:
        return
    if goes_on or mine.content in said_there or is_newer:
        planned.newer.append((item, ours))
    elif not _was_kept(context, item):
        planned.differing.append((item, ours))


def _is_as_imported(mine: Memory, theirs: Memory) -> bool:
    """Whether ours says what an import from the same place brought: whoever changes a text here becomes its source."""
    return mine.source.startswith("import") and (mine.source, mine.client) == (theirs.source, theirs.client)


def find_ours(context: MemoryContext, memories: Sequence[Memory]) -> Iterator[tuple[str, Ours]]:
    """What the branch has under these ids: by their paths all at once, then of other agents, which the index knows."""
    history = context.here.history
    paths = {memory_path(history, m.agent_id, m.memory_id): m for m in memories}
    there = history.entries(context.head(), paths)
    elsewhere = dict(_find_of_other_agents(context, [m for path, m in paths.items() if path not in there]))
    for path, memory in paths.items():
        entry, at = there.get(path), path
        if entry is None:
            if memory.key not in elsewhere:
                continue
            ours = record.decode(history.objects.read(elsewhere[memory.key]))
            at = memory_path(history, ours.agent_id, ours.memory_id)
            entry = history.entries(context.head(), [at])[at]
        yield memory.memory_id, Ours(record.decode(history.objects.read(entry.oid)), at, entry)


def _find_of_other_agents(context: MemoryContext, memories: Iterable[Memory]) -> Iterator[tuple[bytes, str]]:
    """Keys the branch shows under another path, and their objects."""
    shown = index_sync.find_shown(context.here.history, context.index, context.branch)
    sql = "SELECT DISTINCT key FROM row WHERE key IN carray(?1)"
    for (key,) in context.index.db.rows_in(sql, [memory.key for memory in memories]):
        oid = context.index.find(key, shown)
        if oid is not None:
            yield bytes(key), oid.hex()


def _read_earlier(context: MemoryContext, memory: Memory) -> Iterator[str]:
    for past in memory.history:
        try:
            yield record.decode(context.here.history.objects.read(past.oid)).content
        except Purged:
            continue


def _was_kept(context: MemoryContext, item: Item) -> bool:
    """Whether this text stands, or once stood, beside ours: what a person settled does not come back."""
    key = uuid.UUID(_make_id_beside(item)).bytes
    return context.index.db.row("SELECT 1 FROM row WHERE key = ? LIMIT 1", (key,)) is not None


def _make_id_beside(item: Item) -> str:
    """The id of a text that is kept beside the memory whose id it came with: the same at every import."""
    named = record.whole(item.memory.content)
    return str(uuid.uuid5(uuid.UUID(item.memory.memory_id), named))


def carry_out(context: MemoryContext, planned: Planned, count: int) -> None:
    """Write all of it in one commit. Raises Conflict when one of ours was changed, or came, since it was planned."""
    if not planned.all:
        return
    history = context.here.history
    with history.db.write():  # one transaction for all that was said before
        memories = [_link_past(context, item, ()) for item in planned.new]
        memories += [_update_ours(context, item, ours) for item, ours in planned.newer]
        memories += [_contradict(context, item, ours) for item, ours in planned.differing]
    expects: dict[str, Entry | None] = {ours.path: ours.entry for _, ours in planned.newer}
    expects |= {memory_path(history, item.memory.agent_id, item.memory.memory_id): None for item in planned.new}
    store.write_memories(context, memories, f"import {count} memories", expects=expects or None)


def _update_ours(context: MemoryContext, item: Item, ours: Ours) -> Memory:
    """Ours with their text, and the texts between: everything that was said since ours."""
    mine, contents = ours.memory, [one.memory.content for one in item.past]
    since = item.past[contents.index(mine.content) + 1 :] if mine.content in contents else ()
    until = since[0].memory.updated_at if since else item.memory.updated_at
    history = (*mine.history, Past(ours.entry.oid, until))
    theirs = item.memory._replace(
        agent_id=mine.agent_id, created_at=mine.created_at, project=mine.project, own=mine.own
    )
    return _link_past(context, Item(theirs, tuple(since)), history)


def _contradict(context: MemoryContext, item: Item, ours: Ours) -> Memory:
    made = _link_past(context, item, ())
    return made._replace(memory_id=_make_id_beside(item), related=(ours.memory.memory_id,), review=IMPORTED)


def _link_past(context: MemoryContext, item: Item, history: tuple[Past, ...]) -> Memory:
    """A record that links to what it said before, each of which is written ahead of it."""
    for earlier in item.past:
        data = record.encode(earlier.memory._replace(history=history))
        oid = context.here.history.objects.write(data, links=[past.oid for past in history])
        history = (*history, Past(oid, earlier.until))
    return item.memory._replace(history=history)
