"""Joining two edits of one text, line by line. Pure; registered as the merge driver of files.

Only clean joins are taken: where both sides changed the same or touching lines, the path stays a conflict with both
sides kept, and the text with markers is there to be looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from difflib import SequenceMatcher

LIMIT = 1 << 20

Hunk = tuple[int, int, list[str]]
Sides = tuple[list[str], list[str]]


def merge_text(base: str, ours: str, theirs: str) -> str | None:
    """The text with both edits, or None when they touch."""
    merged: list[str] = []
    for piece in _pieces(base, ours, theirs):
        if isinstance(piece, tuple):
            return None
        merged += piece
    return "".join(merged)


def marked_text(base: str, ours: str, theirs: str, names: tuple[str, str]) -> str:
    """The text with both edits; where they touch both are there, between markers."""
    merged: list[str] = []
    for piece in _pieces(base, ours, theirs):
        if isinstance(piece, tuple):
            one, two = ([*lines[:-1], lines[-1].removesuffix("\n") + "\n"] if lines else [] for lines in piece)
            merged += [f"<<<<<<< {names[0]}\n", *one, "=======\n", *two, f">>>>>>> {names[1]}\n"]
        else:
            merged += piece
    return "".join(merged)


def _pieces(base: str, ours: str, theirs: str) -> Iterator[list[str] | Sides]:
    """The text from its beginning: lines that are sure, and (ours, theirs) where the edits touch and differ."""
    lines = base.splitlines(keepends=True)
    left, right = (deque(_hunks(lines, text.splitlines(keepends=True))) for text in (ours, theirs))
    at = 0
    while left or right:
        start = end = min(hunks[0][0] for hunks in (left, right) if hunks)
        mine: list[Hunk] = []
        other: list[Hunk] = []
        while near := [pair for pair in ((left, mine), (right, other)) if pair[0] and pair[0][0][0] <= end]:
            hunks, taken = near[0]
            taken.append(hunks.popleft())
            end = max(end, taken[-1][1])
        yield lines[at:start]
        one, two = (_applied(lines, start, end, hunks) for hunks in (mine, other))
        yield two if not mine else one if not other or one == two else (one, two)
        at = end
    yield lines[at:]


def _applied(lines: list[str], start: int, end: int, hunks: list[Hunk]) -> list[str]:
    found: list[str] = []
    for first, last, new in hunks:
        found += lines[start:first] + new
        start = last
    return found + lines[start:end]


def _hunks(base: list[str], other: list[str]) -> Iterator[Hunk]:
    """(start, end, replacement) of each changed run of base lines."""
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, base, other, autojunk=False).get_opcodes():
        if tag != "equal":
            yield a1, a2, other[b1:b2]


def as_text(data: bytes) -> str | None:
    """The text of a small file, None for anything else."""
    if len(data) > LIMIT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
