"""The kinds of this room, memories and agent state, their paths, and how one is written.

`status` loads it, so it must stay light. What people name (agents, keys) is salted in a path, so that a path tells
nobody a name.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from memlake import memories
from memlake.records import Conflict, Entry
from memlake.versions.kinds import Kind, define

if TYPE_CHECKING:
    from memlake.memories.record import Memory
    from memlake.versions.history.commits import History
    from memlake.versions.kinds import Edits, Sides


def _label(path: str) -> str:
    return path.rsplit("/", 1)[1]


def _sides(history: History, met: Conflict) -> Sides | None:
    return memories.conflicts.describe_sides(history, met)


def _settle(history: History, met: Conflict) -> Edits:
    return memories.conflicts.settle_choice(history, met)


def _note_contradictions(owner: Any, edits: Edits) -> dict[str, Entry | None]:
    """`owner` is the Repo: to look for what contradicts, its index is needed."""
    return memories.remember.note_contradictions(owner.memories().context, edits)


def _memory_words(data: bytes) -> bytes:
    return memories.record.decode(data).content.encode("utf-8", "surrogatepass")


def _state_words(data: bytes) -> bytes:
    state = memories.record.decode_state(data)
    value = state.value if isinstance(state.value, str) else json.dumps(state.value, ensure_ascii=False)
    return f"{state.key}: {value}".encode("utf-8", "surrogatepass")


def _advise_settle(memory_id: str) -> str:
    return f"For a memory: `memlake memory resolve {memory_id} --keep ours` (or theirs, or both)."


def _advise_restore(memory_id: str) -> str:
    return (
        f"See its values with: memlake memory history {memory_id}\n"
        f"Bring back the one before with: memlake memory restore {memory_id}"
    )


MEMORY = define(
    Kind(
        "memory", "memories", "memory", 4, ("memory", "memories"),
        label=_label, typed_in_part=True, words=_memory_words, sides=_sides, settle=_settle,
        arriving=_note_contradictions,
        to_list='use "memlake memory conflicts" to see what both sides of a memory say',
        to_settle=_advise_settle, to_restore=_advise_restore,
    )
)  # fmt: skip
STATE = define(Kind("state", "state", "memory", 5, ("state value", "state values"), words=_state_words, sides=_sides))


def memory_path(history: History, agent_id: str, memory_id: str) -> str:
    return f"{MEMORY.folder}{_hash_name(history, agent_id)}/{memory_id}"


def write_entry(history: History, memory: Memory, *, data: bytes | None = None) -> Entry:
    """A memory, written. Earlier values are linked: gc and a purge follow them without reading the record."""
    data = memories.record.encode(memory) if data is None else data
    links = [past.oid for past in memory.history]
    return Entry(history.objects.write(data, links=links), "memory", len(data))


def state_path(history: History, agent_id: str, key: str) -> str:
    return f"{STATE.folder}{_hash_name(history, agent_id)}/{_hash_name(history, key)}"


def state_room(history: History, agent_id: str) -> str:
    return f"{STATE.folder}{_hash_name(history, agent_id)}/"


def _hash_name(history: History, name: str) -> str:
    """One part of a path for a name: the same in all of a repo, and of no use without its salt."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=history.salt, digest_size=10)
    return digest.hexdigest()
