"""Which words of replaced lines differ, as git tells it. Pure: text in, pieces out; knows no mark and no colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memlake.versions.text.lines import opcodes

_WORD = re.compile(r"[^ \t\r\n]+")
_PART = re.compile(r"\w+|\s+|.")
_ALIKE = 0.4  # share of two lines that must be equal before what differs in them is worth marking

Piece = tuple[str, str]  # " ", "-" or "+", and a text that may run over several lines


def list_pieces(old: Sequence[str], new: Sequence[str]) -> Iterator[Piece]:
    """Lines that were replaced, as what stayed, went and came between blanks. Blanks themselves are as in the new."""
    before, after = _join(old), _join(new)
    if not after:
        yield "-", before
        return
    went, came = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    at = 0
    for tag, i1, i2, j1, j2 in opcodes([word[0] for word in went], [word[0] for word in came]):
        if tag == "equal":
            continue
        start = came[j1].start() if j1 < j2 else came[j1 - 1].end() if j1 else 0
        stop = came[j2 - 1].end() if j1 < j2 else start
        if at != start:
            yield " ", after[at:start]
        if i1 < i2:
            yield "-", before[went[i1].start() : went[i2 - 1].end()]
        if j1 < j2:
            yield "+", after[start:stop]
        at = stop
    if at != len(after):
        yield " ", after[at:]


def _join(lines: Sequence[str]) -> str:
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def find_middle(old: str, new: str) -> tuple[int, int, int] | None:
    """How many characters two lines share at their start and at their end, by whole words: (start, of old, of new).

    The second and third are where the shared end begins on each side. None if the lines are not much alike.
    """
    left, right = _PART.findall(old), _PART.findall(new)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    start, end = sum(map(len, left[:head])), sum(map(len, left[len(left) - tail :]))
    if (start + end) < _ALIKE * max(len(old), len(new)) or old == new:
        return None
    return start, len(old) - end, len(new) - end
