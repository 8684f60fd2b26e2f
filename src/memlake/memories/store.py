"""Memories by their ids: written, each write one commit that keeps what it replaces; read; found by part of an id.

Decides nothing about merging.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from memlake.errors import Conflict, Corrupt, InvalidInput, NotFound, Unavailable
from memlake.index.rows import Docs
from memlake.memories import branch_expiry, index_sync, record
from memlake.memories.context import MemoryContext, agent_author, heals, reads
from memlake.memories.kind import memory_path, write_entry
from memlake.memories.record import Caller, Memory, Past
from memlake.objects import layout
from memlake.records import Author, Commit, Entry

_PART = re.compile(r"[0-9a-f]{6,32}")


def choose_author(agent_id: str, context: MemoryContext) -> Author:
    """Who a commit is by: the agent that works here, else the one that is spoken for, else the person."""
    return context.author if context.agent or not agent_id else agent_author(agent_id)


def write_memories(
    context: MemoryContext,
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
    history = context.here.history
    encoded = [(memory, record.encode(memory)) for memory in memories]
    with history.db.write():
        if guard is not None:
            guard()
        changes: dict[str, bytes | Entry | None] = {}
        for memory, data in encoded:
            path = memory_path(history, memory.agent_id, memory.memory_id)
            changes[path] = write_entry(history, memory, data=data) if memory.history else data
        context.write(changes, message, choose_author(by, context), expects=expects)
    oids = [(memory, hashlib.sha256(data).hexdigest()) for memory, data in encoded]
    update_index(context, {bytes.fromhex(oid): record.doc(memory, oid) for memory, oid in oids})


def update_index(context: MemoryContext, known: Docs | None = None) -> None:
    """Let the index follow what was written, unless that waits in a transaction. `known` need not be read again.

    What was written is there whatever becomes of the index: a full disk delays it to the next search.
    """
    if context.group() is None and not context.here.history.db.is_writing:
        with contextlib.suppress(Unavailable, Corrupt):
            _follow(context, known or {})


@heals
def _follow(context: MemoryContext, known: Docs) -> None:
    index_sync.follow(context.here.history, context.index, context.branch, known)


def get(context: MemoryContext, memory_id: str) -> Memory:
    """A memory of the branch by its id."""
    found = find(context, memory_id)
    if found is None:
        raise NotFound(
            f"there is no memory {memory_id} on branch {context.branch!r}.",
            hint=f"If it was deleted, see what it was with: memlake memory history {memory_id}",
        )
    return found


def find(context: MemoryContext, memory_id: str) -> Memory | None:
    oid = find_oid(context, memory_id)
    found = None if oid is None else record.decode(context.here.history.objects.read(oid))
    return found if found is not None and context.sees(found.org_id) else None


@reads
def find_oid(context: MemoryContext, memory_id: str) -> str | None:
    branch_expiry.check(context.here, context.branch)
    shown = index_sync.find_shown(context.here.history, context.index, context.branch)
    oid = context.index.find(record.Memory(record.check_id(memory_id), "").key, shown)
    return oid.hex() if oid is not None else None


def replace(
    context: MemoryContext, old: Memory, new: Memory, message: str, *, by: str = "", said: Memory | None = None
) -> Memory:
    """A new version of a memory. The content it had stays readable as its history, and so does `said`, if given:
    the memory as it was worded that the new version took in.

    Nothing is written, and Conflict raised, when somebody changed the memory since `old` was read.
    """
    path = memory_path(context.here.history, old.agent_id, old.memory_id)
    entry = context.entry(path)
    if entry is None or record.decode(context.here.history.objects.read(entry.oid)) != old:
        raise Conflict(f"memory {old.memory_id} was changed meanwhile. Nothing was stored.", hint="Decide again.")
    now = layout.now()
    history = old.history if new.content == old.content else (*old.history, Past(entry.oid, now))
    if said is not None and said.content not in (old.content, new.content):
        history = (*history, Past(write_entry(context.here.history, said).oid, now))
    made = record.disown(new)._replace(
        memory_id=old.memory_id, agent_id=old.agent_id, created_at=old.created_at, updated_at=now, history=history
    )
    write_memories(context, [made], message, by=by, expects={path: entry})
    return made


def replace_many(context: MemoryContext, changes: Sequence[tuple[Memory, Memory]], message: str) -> None:
    """New versions, of the same content, of many memories in one commit; none if one was changed meanwhile."""
    history, now, expects = context.here.history, layout.now(), dict[str, Entry | None]()
    for old, _ in changes:
        path = memory_path(history, old.agent_id, old.memory_id)
        expects[path] = entry = context.entry(path)
        if entry is None or record.decode(history.objects.read(entry.oid)) != old:
            raise Conflict(f"memory {old.memory_id} was changed meanwhile. Nothing was stored.", hint="Run it again.")
    if changes:
        write_memories(
            context, [record.disown(new)._replace(updated_at=now) for _, new in changes], message, expects=expects
        )


def delete(context: MemoryContext, memory: Memory) -> None:
    """Remove a memory from the branch. Its history stays; `restore` brings it back."""
    path = memory_path(context.here.history, memory.agent_id, memory.memory_id)
    context.write({path: None}, describe_write(context, f"forget memory {memory.memory_id}"), context.author)
    update_index(context)


def describe_write(context: MemoryContext, subject: str) -> str:
    """A message that says who wrote what leaves no record of its own, so that it can be taken back."""
    said = {name: value for name, value in context.caller._asdict().items() if value}
    return f"{subject}\n\n{json.dumps(said, sort_keys=True)}" if said else subject


def read_caller(commit: Commit) -> Caller:
    """Who wrote a commit, as far as it says so."""
    try:
        said = json.loads(commit.message.partition("\n\n")[2])
        return Caller(**{name: str(said[name]) for name in Caller._fields if name in said})
    except (ValueError, TypeError):
        return Caller()


def find_full_id(context: MemoryContext, text: str) -> str:
    """The id that text is the end or the beginning of: of a memory the branch shows, else of one it or another had."""
    digits = text.strip().lower().replace("-", "")
    if len(digits) == 32 or not _PART.fullmatch(digits):
        return _whole_id(text)
    shown = index_sync.find_shown(context.here.history, context.index, context.branch)
    keys = list(dict.fromkeys((*_list_keys_ending(context, digits), *_list_keys_beginning(context, digits))))
    present = [key for key in keys if context.index.find(key, shown) is not None]
    found = [record.check_id(key.hex()) for key in present or keys]
    if not found:
        raise NotFound(
            f"no memory's id ends or begins with {text!r}.",
            hint="See the ids with: memlake memory ls\nOne that was purged is named by its whole id.",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} memories have an id that ends or begins with {text!r}.",
            hint="Name one by its last characters:\n" + "\n".join(found[:5]),
        )
    return found[0]


def _whole_id(text: str) -> str:
    try:
        return record.check_id(text)
    except InvalidInput as error:
        error.hint = "The last six characters of an id are enough.\nSee the ids with: memlake memory ls"
        raise


def _list_keys_ending(context: MemoryContext, digits: str) -> Iterator[bytes]:
    """Whole bytes are compared by the database, half a one here."""
    last = bytes.fromhex(digits[len(digits) % 2 :])
    sql = "SELECT DISTINCT key FROM row WHERE substr(key, ?) = ? LIMIT 1000"
    return (bytes(key) for (key,) in context.index.db.rows(sql, (-len(last), last)) if key.hex().endswith(digits))


def _list_keys_beginning(context: MemoryContext, digits: str) -> Iterator[bytes]:
    low, high = bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))
    sql = "SELECT DISTINCT key FROM row WHERE key BETWEEN ? AND ? LIMIT 1000"
    return (bytes(key) for (key,) in context.index.db.rows(sql, (low, high)))
