"""What a row found, against its target, as Markdown and as JSON. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# As du and the file tools count: the data of 10k files of 4 KB is 39 MB.
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
TOOLS = ("git", "DVC", "Oxen", "memlake")


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of ours against the most it may be, or the least."""

    what: str
    value: float
    limit: float
    least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.least else self.value <= self.limit

    def __str__(self) -> str:
        return "yes" if self.reached else f"no: {self.what} {_ratio(self.value, self.limit)} of the target"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: what was done, a cell for each tool, the target in words, and the checks of it."""

    work: str
    cells: Mapping[str, str]
    target: str = ""
    checks: Sequence[Check] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)


def markdown(lines: Sequence[Line], *, judged: bool, columns: Sequence[str] = TOOLS) -> str:
    """The whole table; `judged` is False for a quick run, whose sizes are not those of the targets."""
    head = ["work", *columns, "target", "reached?"]
    rows = [[line.work, *(line.cells.get(tool, "-") for tool in columns), line.target, _verdict(line, judged)]
            for line in lines]  # fmt: skip
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def record(line: Line) -> dict[str, Any]:
    """A line as plain data for JSON, with every raw sample."""
    checks = [{"what": c.what, "value": c.value, "limit": c.limit, "reached": c.reached} for c in line.checks]
    return {"work": line.work, "cells": dict(line.cells), "target": line.target, "checks": checks, "raw": line.raw}


def seconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 0.1 else f"{value:.2f} s"


def size(value: float) -> str:
    for unit, name in ((GB, "GB"), (MB, "MB"), (KB, "KB")):
        if abs(value) >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value:.0f} B"


def _ratio(value: float, limit: float) -> str:
    return f"{value / limit:.2f} times" if limit else "over zero"


def _verdict(line: Line, judged: bool) -> str:
    if not line.checks:
        return "-"
    if not judged:
        return "quick run"
    missed = [str(check) for check in line.checks if not check.reached]
    return "; ".join(missed) or "yes"
