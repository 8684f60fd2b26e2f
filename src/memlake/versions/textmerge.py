"""Joining two edits of one text, line by line. Pure; registered as the merge driver of files.

Only clean joins are returned: where both sides changed the same or touching lines, the answer is None
and the path stays a conflict with both sides kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

LIMIT = 1 << 20

Hunk = tuple[int, int, list[str]]


def merge_text(base: str, ours: str, theirs: str) -> str | None:
    """The text with both edits, or None when they touch."""
    lines = base.splitlines(keepends=True)
    left = list(_hunks(lines, ours.splitlines(keepends=True)))
    right = list(_hunks(lines, theirs.splitlines(keepends=True)))
    merged: list[str] = []
    at = i = j = 0
    while i < len(left) or j < len(right):
        take_left = j == len(right) or (i < len(left) and left[i][:2] <= right[j][:2])
        hunk = left[i] if take_left else right[j]
        rival = right[j] if take_left and j < len(right) else left[i] if not take_left and i < len(left) else None
        if rival is not None and rival == hunk:
            i, j = i + 1, j + 1
        elif rival is not None and rival[0] <= hunk[1]:
            return None
        else:
            i, j = (i + 1, j) if take_left else (i, j + 1)
        merged += lines[at : hunk[0]] + hunk[2]
        at = hunk[1]
    return "".join(merged + lines[at:])


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
