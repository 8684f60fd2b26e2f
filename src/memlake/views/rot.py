"""What is rotten in memories, as lines: each kind with its number, each text with its place and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlake.memories.rot.passages import KINDS
from memlake.views import words
from memlake.views.style import Style
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.memories.check_rot import RotReport


def rot_lines(style: Style, report: RotReport) -> Iterator[str]:
    """Each kind with what was found, in the order of the report."""
    for kind, lines in itertools.groupby(report.lines, key=lambda line: line.kind):
        yield f"{style.paint(kind, 'removed')} {report.counts[kind]:,}  {KINDS[kind]}"
        for line in lines:
            yield f"  {_name(style, line.memory_id, line.where)}  {_flat(line.text)}"
            other = line.other
            stands = f" {_name(style, other.memory_id, other.where)}  {_flat(other.text)}" if other else ""
            yield style.paint(f"      {_flat(line.why)}{stands}", "dim")


def verdict_lines(report: RotReport) -> Iterator[str]:
    yield from (f"not read: {_flat(problem)}" for problem in report.problems)
    found = ", ".join(f"{number:,} {kind}" for kind, number in report.counts.items() if number)
    checked = words.count(report.checked, "memory", "memories")
    left_out = f" ({report.skipped:,} more could not be read)" if report.skipped else ""
    yield f"checked {checked}{left_out}: {found or 'nothing found'}"


def _name(style: Style, memory_id: str, where: str) -> str:
    return f"{style.paint(memory_id[-6:], 'id')} {_flat(where)}".rstrip()


def _flat(text: str) -> str:
    return clean(" ".join(text.split()))
