"""Where two texts differ, as a list of short segments: a large text with a few edits costs little more than reading it.

Equal stretches are compared as they lie in memory, not line by line. Behind a difference the texts are brought together
again at lines that occur once on each side nearby; where there are none, all that is left is one segment.
Pure: text in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlake.named_tuple import NamedTuple
from memlake.versions.text.lines import LARGEST, split_lines

_MARGIN = 40  # equal lines around a segment: context, and room for lines to slide
_ANCHOR = 64  # characters by which a place is known again
# How far a place is looked for, and from how many lines; a longer way is tried when a shorter one leads nowhere.
_WINDOWS = ((1 << 14, 32), (1 << 19, 64), (1 << 23, 24))

Gap = tuple[int, int, int, int]  # from, to in a; from, to in b


class Segment(NamedTuple):
    """Lines of both sides that differ somewhere, and how many lines stand before them on each side."""

    old: list[str]
    new: list[str]
    old_skipped: int = 0
    new_skipped: int = 0


def list_segments(a: str, b: str) -> list[Segment]:
    """Where two texts differ. Between segments they are equal; of small texts there is one."""
    if max(len(a), len(b)) <= LARGEST:
        return [Segment(split_lines(a), split_lines(b))]
    segments: list[Segment] = []
    at, lines = (0, 0), (0, 0)
    for start, stop, other, other_stop in _widen(a, _list_gaps(a, b)):
        skipped = lines[0] + a.count("\n", at[0], start), lines[1] + b.count("\n", at[1], other)
        at, lines = (start, other), skipped
        segments.append(Segment(split_lines(a[start:stop]), split_lines(b[other:other_stop]), *skipped))
    return segments


def _widen(a: str, gaps: Iterable[Gap]) -> list[Gap]:
    """Each gap with some of the equal lines around it; those that then touch are one."""
    wide: list[Gap] = []
    for start, stop, other, other_stop in gaps:
        head, tail = start - _step_back(a, start), _step_on(a, stop) - stop
        if wide and start - head <= wide[-1][1]:
            first, _, second, _ = wide.pop()
            wide.append((first, stop + tail, second, other_stop + tail))
        else:
            wide.append((start - head, stop + tail, other - head, other_stop + tail))
    return wide


def _step_back(text: str, at: int) -> int:
    for _ in range(_MARGIN + 1):
        if at <= 0:
            return 0
        at = text.rfind("\n", 0, at)
    return at + 1


def _step_on(text: str, at: int) -> int:
    for _ in range(_MARGIN):
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at


def _list_gaps(a: str, b: str) -> Iterator[Gap]:
    """Stretches of whole lines that differ, in order."""
    i = j = 0
    while True:
        same = _count_same(a, b, i, j)
        if i + same == len(a) and j + same == len(b):
            return
        back = a.rfind("\n", i, i + same) + 1 or i
        i, j = back, j + back - i
        together = _find_together(a, b, i, j)
        if together is None:
            end = _count_same_end(a, b, min(len(a) - i, len(b) - j))
            line = a.find("\n", len(a) - end) + 1 if end else 0  # the end begins at a line on both sides
            end = len(a) - line if line else 0
            yield i, len(a) - end, j, len(b) - end
            return
        yield i, together[0], j, together[1]
        i, j = together


def _count_same(a: str, b: str, i: int, j: int) -> int:
    """How many characters are the same from here on: in ever longer steps, then in ever shorter ones."""
    at, step, most, grows = 0, 64, min(len(a) - i, len(b) - j), True
    while step and at < most:
        if at + step <= most and a[i + at : i + at + step] == b[j + at : j + at + step]:
            at += step
            step = min(2 * step, 1 << 20) if grows else step
        else:
            step, grows = step // 2, False
    return at


def _count_same_end(a: str, b: str, most: int) -> int:
    at, step = 0, 1 << 20
    while step and at < most:
        stop = at + step
        if stop <= most and a[len(a) - stop : len(a) - at] == b[len(b) - stop : len(b) - at]:
            at = stop
        else:
            step //= 2
    return at


def _find_together(a: str, b: str, i: int, j: int) -> tuple[int, int] | None:
    """The nearest places behind a difference from which both texts go on alike."""
    for window, tries in _WINDOWS:
        x, y = i, j
        for number in range(tries):
            # The first lines one by one, then in ever longer strides, so that a long block is passed as well.
            stride = 1 if number < 16 else 1 << (number - 16) // 2
            if (found := _find_anchor(a, x, (b, j, window))) is not None and _is_once(a, x, i, window):
                return x, found
            if (found := _find_anchor(b, y, (a, i, window))) is not None and _is_once(b, y, j, window):
                return found, y
            x, y = _pass_lines(a, x, stride), _pass_lines(b, y, stride)
            if x - i > window or y - j > window:
                break
    return None


def _anchor(text: str, at: int) -> str:
    """The lines from a place on that are enough to know it again; empty if there are not enough."""
    stop = text.find("\n", at + _ANCHOR) + 1
    return text[at:stop] if 0 < stop - at <= 64 * _ANCHOR else ""


def _find_anchor(text: str, at: int, where: tuple[str, int, int]) -> int | None:
    """Where the lines of one text stand in a stretch of the other, if they stand there once, as lines."""
    other, start, window = where
    anchor = _anchor(text, at)
    found = other.find(anchor, start, start + window) if anchor else -1
    if found < 0 or other.find(anchor, found + 1, start + window) >= 0:
        return None
    return found if found == 0 or other[found - 1] == "\n" else None


def _is_once(text: str, at: int, start: int, window: int) -> bool:
    anchor = _anchor(text, at)
    first = text.find(anchor, start, start + window)
    return first == at and text.find(anchor, at + 1, start + window) < 0


def _pass_lines(text: str, at: int, count: int) -> int:
    for _ in range(min(count, 4096)):
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at
