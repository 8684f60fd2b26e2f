"""Tree paths of memories and state. What people name (agents, keys) is salted, so that a path tells nobody a name."""

from __future__ import annotations

import hashlib

from memlake.memories.kind import MEMORY, STATE
from memlake.versions.history.commits import History


def memory_path(history: History, agent_id: str, memory_id: str) -> str:
    return f"{MEMORY.folder}{part(history, agent_id)}/{memory_id}"


def state_path(history: History, agent_id: str, key: str) -> str:
    return f"{STATE.folder}{part(history, agent_id)}/{part(history, key)}"


def state_room(history: History, agent_id: str) -> str:
    return f"{STATE.folder}{part(history, agent_id)}/"


def part(history: History, name: str) -> str:
    """One part of a path for a name: the same in all of a repo, and of no use without its salt."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=history.salt, digest_size=10)
    return digest.hexdigest()
