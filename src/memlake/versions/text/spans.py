"""A passage of a text, known by a hash, found again when lines move or whitespace changes. Bytes in, numbers out.

A passage is some whole lines. Whitespace does not count at all, nor do blank lines: what a formatter moves about is the
same passage. Its text is not kept, so it is looked for by its length without whitespace, from the start of one line to
the end of another, and then by its hash. The lines around it tell it from its copies.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from os.path import commonprefix
from zlib import crc32

from memlake.named_tuple import NamedTuple

Lines = tuple[int, int]  # first and last, counted from 1
Place = tuple[int, int]  # a range of lines that are not blank, by their indexes
_SPACE = b" \t\r\v\f"
_AROUND = 2  # lines before and after a passage that tell it from its copies
_ALIKE = 3  # of a passage that was edited so many times less stays as it was, at its ends
_SKETCH = 8  # lines of a text that stand for it
_DIGITS = 8  # of each of them


class Span(NamedTuple):
    """A passage: its hash and length without whitespace, hashes of its first line and those around it, its copies."""

    digest: str
    length: int
    first: int = 0
    before: int = 0
    after: int = 0
    copies: int = 1


class Text:
    """The lines of a text that are not blank, each without whitespace."""

    def __init__(self, data: bytes) -> None:
        squeezed = data.translate(None, _SPACE).split(b"\n")
        self.lines = list(filter(None, squeezed))
        self.numbers = [number for number, line in enumerate(squeezed, 1) if line]
        self.count = len(squeezed) - (not squeezed[-1])
        self._whole = b"".join(self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.lines), initial=0))

    @cached_property
    def _hashes(self) -> list[int]:
        return list(map(crc32, self.lines))

    @cached_property
    def hashes(self) -> frozenset[int]:
        """Of its lines."""
        return frozenset(self._hashes)

    def cut(self, place: Place) -> bytes:
        return self._whole[self._starts[place[0]] : self._starts[place[1]]]

    def find_place(self, lines: Lines) -> Place:
        return bisect_left(self.numbers, lines[0]), bisect_right(self.numbers, lines[1])

    def number_lines(self, place: Place) -> Lines:
        return self.numbers[place[0]], self.numbers[place[1] - 1]

    def holds(self, place: Place, span: Span) -> bool:
        length = self._starts[place[1]] - self._starts[place[0]]
        return length == span.length and _hash(self.cut(place)) == span.digest

    def list_places(self, span: Span) -> list[Place]:
        """Where a passage is: first by its first line, then, as somebody may have wrapped that, from any line."""
        if found := list(self._try_places(span, self._find_lines(span.first))):
            return found
        return list(self._try_places(span, range(len(self.lines))))

    def _try_places(self, span: Span, firsts: Iterable[int]) -> Iterator[Place]:
        for first in firsts:
            stop = self._starts[first] + span.length
            end = bisect_left(self._starts, stop)
            if end < len(self._starts) and self._starts[end] == stop and self.holds((first, end), span):
                yield first, end

    def _find_lines(self, wanted: int) -> Iterator[int]:
        at = -1
        while wanted in self.hashes:
            try:
                at = self._hashes.index(wanted, at + 1)
            except ValueError:
                return
            yield at

    def hash_before(self, at: int) -> int:
        return _mix(self._hashes[max(at - _AROUND, 0) : at])

    def hash_after(self, at: int) -> int:
        return _mix(self._hashes[at : at + _AROUND])


def measure(data: bytes, lines: Lines | None = None) -> Span:
    """The passage that some lines are; without lines the whole text. Its length is 0 where there is only whitespace."""
    text = Text(data)
    place = (0, len(text.lines)) if lines is None else text.find_place(lines)
    passage = text.cut(place)
    span = Span(_hash(passage), len(passage))
    if not passage or lines is None:
        return span
    span = span._replace(first=crc32(text.lines[place[0]]), before=text.hash_before(place[0]))
    return span._replace(after=text.hash_after(place[1]), copies=len(text.list_places(span)))


def find(text: Text, span: Span, near: Lines) -> Lines | None:
    """The lines that a passage is now; None if it is gone, also if a copy of it is left and it was edited itself."""
    if not span.length:
        return None
    if span.copies == 1 and text.holds(text.find_place(near), span):
        return near
    places = text.list_places(span)
    if not places:
        return None

    def rank(place: Place) -> tuple[int, int]:
        around = (text.hash_before(place[0]) == span.before) + (text.hash_after(place[1]) == span.after)
        return -around, abs(text.numbers[place[0]] - near[0])

    best = min(places, key=rank)
    around, distance = rank(best)
    if _is_edited(text, span, near, (best, distance)):
        return None
    if not around and len(places) < span.copies:  # the one that is missing may be the one that was meant
        return None
    return text.number_lines(best)


def _is_edited(text: Text, span: Span, near: Lines, found: tuple[Place, int]) -> bool:
    """Whether nearer than the place that was found, between the lines that were around a passage, something stands that
    it may have become.
    """
    best, distance = found
    most = 2 * (near[1] - near[0] + 1) + _AROUND
    last = len(text.lines)
    nearer = range(*text.find_place((near[0] - distance + 1, near[0] + distance - 1)))
    for first in nearer:
        if text.hash_before(first) == span.before:
            ends = (end for end in range(first + 1, min(first + most, last) + 1) if text.hash_after(end) == span.after)
            end = next(ends, first)
            if end > first and _may_become(text.cut((first, end)), text.cut(best)):
                return True
    return False


def _may_become(now: bytes, then: bytes) -> bool:
    """Whether one passage may be the other, edited: begins and ends like it, without having it inside."""
    ends = ((now, then), (now[::-1], then[::-1]))
    start, end = (len(commonprefix(both)) for both in ends)  # noqa: RUF071  characters are meant, and not a path
    return then not in now and _ALIKE * (start + end) >= len(then)


def sketch(data: bytes) -> str:
    """A few lines that stand for a text, as hashes: the smallest, which are a fair sample of all."""
    return "".join(f"{one:0{_DIGITS}x}" for one in sorted(Text(data).hashes)[:_SKETCH])


def read_sketch(sketched: str) -> frozenset[int]:
    """The hashes of a sketch. The share of them that another text has is about the share of the lines that it has."""
    return frozenset(int(sketched[at : at + _DIGITS], 16) for at in range(0, len(sketched), _DIGITS))


def _mix(hashes: list[int]) -> int:
    mixed = 0
    for one in hashes:
        mixed = (mixed * 31 + one) & 0xFFFFFFFF
    return mixed


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()
