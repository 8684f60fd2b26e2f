"""What became of a memory that was to be stored. Pure, and light: reading needs no rules of deciding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from memlake.memories.record import Memory


class Outcome(NamedTuple):
    """What became of a new memory: the one that stands for it now, the decision and its reason."""

    memory_id: str
    decision: str
    rule: str
    why: str
    content: str
    other_id: str | None = None
    review: bool = False
    scores: Mapping[str, float] = {}
    warnings: tuple[str, ...] = ()


def added(memory: Memory) -> Outcome:
    """What became of a memory that was stored as it is."""
    return Outcome(memory.memory_id, "add", "asked", "It was to be added as it is.", memory.content)


class Updated(Memory):
    """A memory as it was changed, and what its author should know about it."""

    warnings: tuple[str, ...] = ()


def updated(memory: Memory, warnings: tuple[str, ...]) -> Updated:
    made = Updated(*memory)
    made.warnings = warnings
    return made
