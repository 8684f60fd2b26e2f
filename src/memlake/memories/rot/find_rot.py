"""All that is wrong with some texts: what each says by itself, and what they say beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memlake import secrets
from memlake.memories.rot.dead_paths import find_dead
from memlake.memories.rot.injections import find_injection
from memlake.memories.rot.passages import (
    DEAD_PATH,
    EMPTY,
    INJECTION,
    KINDS,
    LOOP,
    SECRET,
    UNKNOWN,
    Finding,
    Passage,
    Project,
)
from memlake.memories.rot.repeats import find_repeats
from memlake.memories.small_talk import is_small_talk

_NAMED = 3  # paths that a reason names
# What memories look like when they are given to an agent: stored again, they are their own echo.
_RECALLED = re.compile(
    r"What memlake remembers, one JSON object a line|\"additionalContext\"\s?:|<claude-mem-context>|<(?:relevant[-_ ])?memor(?:y|ies)(?:[-_ ]context)?>"  # noqa: E501
    r"|\"hookSpecificOutput\"",
    re.IGNORECASE,
)


def find_rot(passages: Sequence[Passage], project: Project = UNKNOWN) -> list[Finding]:
    """Every finding, by kind and then in the order of the passages."""
    findings = [finding for one in passages if not one.fixed for finding in _judge_alone(one, project)]
    findings += find_repeats(passages)
    order = {kind: at for at, kind in enumerate(KINDS)}
    return sorted(findings, key=lambda finding: (order[finding.kind], finding.passage.number))


def _judge_alone(one: Passage, project: Project) -> Iterator[Finding]:
    text = f"{one.content}\n\n\n\n\n\n{one.beside}" if one.beside else one.content
    if found := secrets.find(text):
        rules = ", ".join(dict.fromkeys(secret.rule for secret in found))
        yield Finding(SECRET, one, f"It looks like it holds: {rules}.")
    if said := find_injection(text):
        yield Finding(INJECTION, one, f"It {said}.")
    if is_small_talk(one.content):
        yield Finding(EMPTY, one, "It tells nothing.")
    if _RECALLED.search(one.content):
        yield Finding(LOOP, one, "It holds what was recalled for an agent.")
    if project.has_path is not None:
        dead, is_all = find_dead(one, project.has_path)
        if dead:
            more = f" and {len(dead) - _NAMED} more" if len(dead) > _NAMED else ""
            yield Finding(DEAD_PATH, one, f"Not there: {', '.join(dead[:_NAMED])}{more}.", drops=is_all)
