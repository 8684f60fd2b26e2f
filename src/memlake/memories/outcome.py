"""What became of a memory that was to be stored. Pure, and light: reading needs no rules of deciding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from memlake.memories.record import Memory

# Rules of a memory that is kept beside another agent's.
AGENT_CONFLICT, AGENT_SAME = "agent-conflict", "agent-same"
IMPORTED = "import-conflict"  # an import brought another text of a memory that had changed here


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


def describe_other_agent(rule: str, old: Memory) -> str:
    """What is to be said of a memory that another agent keeps."""
    return f"Agent {old.agent_id!r} {'already keeps this' if rule == AGENT_SAME else 'keeps what speaks against it'}."


def describe_added(memory: Memory) -> Outcome:
    """What became of a memory that was stored as it is."""
    return Outcome(memory.memory_id, "add", "asked", "It was to be added as it is.", memory.content)


class Updated(Memory):
    """A memory as it was changed, and what its author should know about it."""

    warnings: tuple[str, ...] = ()


def make_updated(memory: Memory, warnings: tuple[str, ...]) -> Updated:
    made = Updated(*memory)
    made.warnings = warnings
    return made
