"""Texts in columns. Pure: knows no record, no repo and no terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Each row as a line, its cells as wide as the widest of their column; those of `right` end at one place."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths, right)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> list[str]:
    return [
        cell.rjust(width) if place in right else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def cut(text: str, width: int) -> str:
    """On one line, and no longer than this."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: max(width - 1, 0)]}…"
