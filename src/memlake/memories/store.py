"""Writing memories: each write one commit, with what it replaces kept. Decides nothing about merging."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence

from memlake.errors import Conflict, Corrupt, NotFound, Unavailable
from memlake.index.rows import Docs
from memlake.memories import branch_expiry, index_sync, rebuild, record
from memlake.memories.context import MemoryContext, agent_author
from memlake.memories.memory_paths import memory_path
from memlake.memories.record import Memory, Past
from memlake.objects import layout
from memlake.records import Author, Entry
from memlake.versions.history.commits import History


def choose_author(agent_id: str, ground: MemoryContext) -> Author:
    """Who a commit is by: the agent that works here, else the one that is spoken for, else the person."""
    return ground.author if ground.agent or not agent_id else agent_author(agent_id)


def put(
    ground: MemoryContext,
    memories: Sequence[Memory],
    message: str,
    *,
    by: str = "",
    expects: Mapping[str, Entry | None] | None = None,
    guard: Callable[[], None] | None = None,
) -> None:
    """Store new memories, or new versions of old ones, in one commit; then the text index knows them.

    The commit is by the agent that works here, else by the one named in `by`, else by the person. `guard` is called
    where nobody else can write; what it raises leaves everything as it was.
    """
    history = ground.here.history
    encoded = [(memory, record.encode(memory)) for memory in memories]
    with history.db.write():
        if guard is not None:
            guard()
        changes = {memory_path(history, m.agent_id, m.memory_id): _content(history, m, data) for m, data in encoded}
        ground.write(changes, message, choose_author(by, ground), expects=expects)
    oids = [(memory, hashlib.sha256(data).hexdigest()) for memory, data in encoded]
    settle(ground, {bytes.fromhex(oid): record.doc(memory, oid) for memory, oid in oids})


def settle(ground: MemoryContext, known: Docs | None = None) -> None:
    """Let the index follow what was written, unless that waits in a transaction. `known` need not be read again.

    What was written is there whatever becomes of the index: a full disk delays it to the next search.
    """
    if ground.group() is None and not ground.here.history.db.is_writing:
        with contextlib.suppress(Unavailable, Corrupt):
            _follow(ground, known or {})


@rebuild.heals
def _follow(ground: MemoryContext, known: Docs) -> None:
    index_sync.follow(ground.here.history, ground.index, ground.branch, known)


def _content(history: History, memory: Memory, data: bytes) -> bytes | Entry:
    """What is to be written: bytes, where no earlier value is to be linked."""
    return write_entry(history, memory, data=data) if memory.history else data


def write_entry(history: History, memory: Memory, *, data: bytes | None = None) -> Entry:
    """A memory, written. Earlier values are linked: gc and a purge follow them without reading the record."""
    data = record.encode(memory) if data is None else data
    links = [past.oid for past in memory.history]
    return Entry(history.objects.write(data, links=links), "memory", len(data))


def get(ground: MemoryContext, memory_id: str) -> Memory:
    """A memory of the branch by its id."""
    found = find(ground, memory_id)
    if found is None:
        raise NotFound(
            f"there is no memory {memory_id} on branch {ground.branch!r}.",
            hint=f"If it was deleted, see what it was with: memlake memory history {memory_id}",
        )
    return found


def find(ground: MemoryContext, memory_id: str) -> Memory | None:
    oid = find_oid(ground, memory_id)
    found = None if oid is None else record.decode(ground.here.history.objects.read(oid))
    return found if found is not None and ground.sees(found.org_id) else None


@rebuild.reads
def find_oid(ground: MemoryContext, memory_id: str) -> str | None:
    branch_expiry.check(ground.here, ground.branch)
    shown = index_sync.find_shown(ground.here.history, ground.index, ground.branch)
    oid = ground.index.find(record.Memory(record.checked_id(memory_id), "").key, shown)
    return oid.hex() if oid is not None else None


def replace(ground: MemoryContext, old: Memory, new: Memory, message: str, *, by: str = "") -> Memory:
    """A new version of a memory. The content it had stays readable as its history.

    Nothing is written, and Conflict raised, when somebody changed the memory since `old` was read.
    """
    path = memory_path(ground.here.history, old.agent_id, old.memory_id)
    entry = ground.entry(path)
    if entry is None or record.decode(ground.here.history.objects.read(entry.oid)) != old:
        raise Conflict(f"memory {old.memory_id} was changed meanwhile. Nothing was stored.", hint="Decide again.")
    now = layout.now()
    history = old.history if new.content == old.content else (*old.history, Past(entry.oid, now))
    made = new._replace(
        memory_id=old.memory_id, agent_id=old.agent_id, created_at=old.created_at, updated_at=now, history=history
    )
    put(ground, [made], message, by=by, expects={path: entry})
    return made


def delete(ground: MemoryContext, memory: Memory) -> None:
    """Remove a memory from the branch. Its history stays; `restore` brings it back."""
    path = memory_path(ground.here.history, memory.agent_id, memory.memory_id)
    ground.write({path: None}, f"forget memory {memory.memory_id}", ground.author)
    settle(ground)
