"""Which of many ready-made memories a branch does not have yet. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memlake.memories import following
from memlake.memories.ground import Ground
from memlake.memories.paths import memory_path
from memlake.memories.record import Memory


def unknown(ground: Ground, memories: Sequence[Memory]) -> list[Memory]:
    """Those whose id the branch does not have, each id once: the first that says it."""
    history = ground.here.history
    once: dict[str, Memory] = {}
    for memory in memories:
        once.setdefault(memory.memory_id, memory)
    paths = {memory_path(history, m.agent_id, m.memory_id): m for m in once.values()}
    there = history.entries(ground.head(), paths)  # all at once; the index looks for one at a time
    rest = [memory for path, memory in paths.items() if path not in there]
    elsewhere = _of_other_agents(ground, rest)
    return [memory for memory in rest if memory.key not in elsewhere]


def _of_other_agents(ground: Ground, memories: Iterable[Memory]) -> set[bytes]:
    """Keys the branch shows under another path: only the index knows an id without its agent."""
    shown = following.shown(ground.here.history, ground.index, ground.branch)
    sql = "SELECT DISTINCT key FROM row WHERE key IN carray(?1)"
    seen = ground.index.db.rows_in(sql, [memory.key for memory in memories])
    return {key for (key,) in seen if ground.index.find(key, shown) is not None}
