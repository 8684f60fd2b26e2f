"""Joining two edits of one text, line by line. Pure: texts in, a text out.

Edits that do not touch are joined. If both sides changed the same or neighbouring lines, there is no joined text, only
one with markers, as git writes it, for a person to finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from memlake.named_tuple import NamedTuple
from memlake.records import InnerConflict, MergeHow
from memlake.versions.text.lines import opcodes, split_lines

OPEN = MergeHow()  # nothing is chosen
_NEAR = 3  # so few equal lines between two clashes do not separate them; git's number

Hunk = tuple[int, int, list[str]]


class Sure(NamedTuple):
    """Lines about which there is no conflict: unchanged, or changed by one side, or by both in the same way."""

    lines: list[str]
    changed: bool = False


class Clash(NamedTuple):
    """What each side has where both changed the text."""

    ours: list[str]
    base: list[str]
    theirs: list[str]


Piece = Sure | Clash


class Names(NamedTuple):
    """What the markers call the two sides. With `base` they also show what both had before."""

    ours: str
    theirs: str
    base: bool = False

    def markers(self) -> tuple[str, str]:
        return f"<<<<<<< {self.ours}", f">>>>>>> {self.theirs}"


def merge_text(base: str, ours: str, theirs: str) -> str | None:
    """The text with both edits, or None if they touch."""
    return join_text(base, ours, theirs, OPEN)[0]


def join_text(base: str, ours: str, theirs: str, how: MergeHow) -> tuple[str | None, tuple[InnerConflict, ...]]:
    """The text with both edits and with what was chosen where they touch; None, and where, if something is open."""
    pieces, conflicts = _settle(base, ours, theirs, how)
    lines = [line for piece in pieces if isinstance(piece, Sure) for line in piece.lines]
    return (None if conflicts else "".join(lines)), tuple(conflicts)


def mark_text(base: str, ours: str, theirs: str, names: Names, how: MergeHow = OPEN) -> str:
    """The text with both edits; where they touch and nothing was chosen, it has both between markers."""
    end = "\r\n" if ours.partition("\n")[0].endswith("\r") else "\n"
    pieces: Iterable[Piece] = _settle(base, ours, theirs, how)[0]
    if not names.base:  # with a base shown, a clash cannot be made smaller: the base belongs to it as a whole
        pieces = _join_near(part for whole in pieces for part in _refine(whole))
    merged: list[str] = []
    for piece in pieces:
        merged += _mark_clash(piece, names, end) if isinstance(piece, Clash) else piece.lines
    return "".join(merged)


def _settle(base: str, ours: str, theirs: str, how: MergeHow) -> tuple[list[Piece], list[InnerConflict]]:
    """The pieces of a text, with those clashes made sure that have a choice, and a conflict for each of the others."""
    pieces, conflicts, line = list[Piece](), list[InnerConflict](), 1
    for piece, own in _pieces(base, ours, theirs):
        place = f"line {line}"  # of ours: between two clashes is a line that both have, so no two have one number
        if isinstance(piece, Clash):
            lines = _choose_lines(piece, how.find_side(place))
            if lines is None:
                before, mine, other = ("".join(side) for side in (piece.base, piece.ours, piece.theirs))
                conflicts.append(InnerConflict(place, before, mine, other, {"line": line}))
            pieces.append(piece if lines is None else Sure(lines, changed=True))
        else:
            pieces.append(piece)
        line += own
    return pieces, conflicts


def _choose_lines(clash: Clash, side: str) -> list[str] | None:
    """What is chosen of a clash; None while it is open. A union has the lines of both, and those in common once."""
    if side == "union":
        return [
            line
            for part in _refine(clash)
            for line in (part.lines if isinstance(part, Sure) else [*_end_lines(part.ours, "\n"), *part.theirs])
        ]
    return {"ours": clash.ours, "theirs": clash.theirs}.get(side)


def find_marker(text: str, names: Names) -> int | None:
    """The line, from 1, of the first marker that is left in a text."""
    markers = names.markers()
    lines = split_lines(text)
    return next((number for number, line in enumerate(lines, 1) if line.rstrip("\r\n") in markers), None)


def _mark_clash(clash: Clash, names: Names, end: str) -> list[str]:
    first, last = names.markers()
    middle = ["||||||| base" + end, *_end_lines(clash.base, end)] if names.base else []
    return [
        first + end, *_end_lines(clash.ours, end), *middle, f"======={end}", *_end_lines(clash.theirs, end), last + end
    ]  # fmt: skip


def _end_lines(lines: list[str], end: str) -> list[str]:
    """Lines whose last one has an end, so that a marker can follow."""
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else lines[-1] + end] if lines else []


def _refine(piece: Piece) -> Iterator[Piece]:
    """A clash without the lines that both sides have alike."""
    if not isinstance(piece, Clash):
        yield piece
        return
    for tag, i1, i2, j1, j2 in opcodes(piece.ours, piece.theirs):
        yield Sure(piece.ours[i1:i2]) if tag == "equal" else Clash(piece.ours[i1:i2], [], piece.theirs[j1:j2])


def _join_near(pieces: Iterable[Piece]) -> list[Piece]:
    """Join clashes with few lines between them, because one is easier to read than two. Adds lines in place."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(last, Sure) and isinstance(piece, Sure) and not (last.changed or piece.changed):
            last.lines.extend(piece.lines)
        elif (
            isinstance(piece, Clash)
            and isinstance(last, Sure)
            and not last.changed
            and len(last.lines) <= _NEAR
            and len(joined) > 1
            and isinstance(before := joined[-2], Clash)
        ):
            joined.pop()
            before.ours.extend(last.lines + piece.ours)
            before.theirs.extend(last.lines + piece.theirs)
        else:
            joined.append(piece)
    return joined


def _pieces(base: str, ours: str, theirs: str) -> Iterator[tuple[Piece, int]]:
    """The text from its beginning, as lines that are sure and clashes, where the edits touch and differ.

    Each with how many lines of ours it stands for.
    """
    lines = split_lines(base)
    left, right = (deque(_hunks(lines, split_lines(text))) for text in (ours, theirs))
    at = 0
    while left or right:
        start = end = min(hunks[0][0] for hunks in (left, right) if hunks)
        mine: list[Hunk] = []
        other: list[Hunk] = []
        while near := [pair for pair in ((left, mine), (right, other)) if pair[0] and pair[0][0][0] <= end]:
            hunks, taken = near[0]
            taken.append(hunks.popleft())
            end = max(end, taken[-1][1])
        yield Sure(lines[at:start]), start - at
        our_lines, their_lines = (_apply_hunks(lines, start, end, hunks) for hunks in (mine, other))
        if mine and other and our_lines != their_lines:
            yield Clash(our_lines, lines[start:end], their_lines), len(our_lines)
        else:
            yield Sure(our_lines if mine else their_lines, changed=True), len(our_lines)
        at = end
    yield Sure(lines[at:]), len(lines) - at


def _apply_hunks(lines: list[str], start: int, end: int, hunks: list[Hunk]) -> list[str]:
    changed: list[str] = []
    for first, last, new in hunks:
        changed += lines[start:first] + new
        start = last
    return changed + lines[start:end]


def _hunks(base: Sequence[str], other: Sequence[str]) -> Iterator[Hunk]:
    """(start, end, replacement) of each changed run of base lines."""
    for tag, a1, a2, b1, b2 in opcodes(base, other):
        if tag != "equal":
            yield a1, a2, list(other[b1:b2])
