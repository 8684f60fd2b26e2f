"""A passage of a text, known by a hash, found again when lines move or whitespace changes. Bytes in, numbers out.

A passage is some whole lines. Whitespace does not count at all, nor do blank lines: what a formatter moves about is the
same passage. Its text is not kept, so it is looked for by its length without whitespace, from the start of one line to
the end of another, and then by its hash. The lines around it tell it from its copies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from os.path import commonprefix
from zlib import crc32

from memlake.named_tuple import NamedTuple

Lines = tuple[int, int]  # first and last, counted from 1
_AROUND = 2  # lines before and after a passage that tell it from its copies
_ALIKE = 3  # of a passage that was edited so many times less stays as it was, at its ends
_SKETCH = 8  # lines of a text that stand for it
_DIGITS = 8  # of each of them


class Span(NamedTuple):
    """A passage: its hash and length without whitespace, how often its text has it, hashes of the lines around it."""

    digest: str
    length: int
    copies: int = 1
    before: int = 0
    after: int = 0


class _Passages:
    """The lines of a text that are not blank, each without whitespace. A place is a range of their indexes."""

    def __init__(self, data: bytes) -> None:
        squeezed = [_squeeze(line) for line in data.split(b"\n")]
        self.lines = [line for line in squeezed if line]
        self.numbers = [number for number, line in enumerate(squeezed, 1) if line]
        self._starts = list(accumulate(map(len, self.lines), initial=0))
        self._whole = b"".join(self.lines)

    def cut(self, first: int, end: int) -> bytes:
        return self._whole[self._starts[first] : self._starts[end]]

    def find_places(self, span: Span) -> Iterator[tuple[int, int]]:
        index = {start: at for at, start in enumerate(self._starts)}
        for first, start in enumerate(self._starts[:-1]):
            end = index.get(start + span.length)
            if end is not None and _hash(self.cut(first, end)) == span.digest:
                yield first, end

    def measure_around(self, first: int, end: int) -> tuple[int, int]:
        return self.befores[first], self.afters[end]

    @cached_property
    def befores(self) -> list[int]:
        return [_hash_around(self.lines[max(at - _AROUND, 0) : at]) for at in range(len(self.lines) + 1)]

    @cached_property
    def afters(self) -> list[int]:
        return [_hash_around(self.lines[at : at + _AROUND]) for at in range(len(self.lines) + 1)]

    def number_lines(self, first: int, end: int) -> Lines:
        return self.numbers[first], self.numbers[end - 1]


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def measure(data: bytes, lines: Lines | None = None) -> Span:
    """The passage that some lines are; without lines the whole text. Its length is 0 where there is only whitespace."""
    if lines is None:
        whole = _squeeze(data)
        return Span(_hash(whole), len(whole))
    text = _Passages(data)
    first, end = (bisect_right(text.numbers, number) for number in (lines[0] - 1, lines[1]))
    passage = text.cut(first, end)
    span = Span(_hash(passage), len(passage))
    if not passage:
        return span
    before, after = text.measure_around(first, end)
    return span._replace(copies=len(list(text.find_places(span))), before=before, after=after)


def find(data: bytes, span: Span, near: Lines) -> Lines | None:
    """The lines that a passage is now; None if it is gone, also if a copy of it is left and it was edited itself."""
    if not span.length:
        return None
    passage = _squeeze(b"\n".join(data.split(b"\n")[near[0] - 1 : near[1]]))
    if span.copies == 1 and len(passage) == span.length and _hash(passage) == span.digest:
        return near
    text = _Passages(data)
    places = list(text.find_places(span))
    if not places:
        return None

    def rank(place: tuple[int, int]) -> tuple[int, int]:
        before, after = text.measure_around(*place)
        return -((before == span.before) + (after == span.after)), abs(text.numbers[place[0]] - near[0])

    best = min(places, key=rank)
    around, distance = rank(best)
    edited = _list_edited(text, span, near, text.cut(*best))
    if any(abs(number - near[0]) < distance for number in edited):
        return None
    if not around and len(places) < span.copies:  # the one that is missing may be the one that was meant
        return None
    return text.number_lines(*best)


def _list_edited(text: _Passages, span: Span, near: Lines, passage: bytes) -> Iterator[int]:
    """The lines at which, between what was before and after a passage, something stands that it may have become."""
    most = 2 * (near[1] - near[0] + 1) + _AROUND
    ends = [at for at, after in enumerate(text.afters) if after == span.after]
    for first, before in enumerate(text.befores):
        if before == span.before:
            end = next((end for end in ends if first < end <= first + most), first)
            if end > first and _is_edited(text.cut(first, end), passage):
                yield text.numbers[first]


def _is_edited(now: bytes, then: bytes) -> bool:
    """Whether one passage may be the other, edited: begins and ends like it, without having it inside."""
    ends = ((now, then), (now[::-1], then[::-1]))
    start, end = (len(commonprefix(both)) for both in ends)  # noqa: RUF071  characters are meant, and not a path
    return then not in now and _ALIKE * (start + end) >= len(then)


def sketch(data: bytes) -> str:
    """A few lines that stand for a text, as hashes: the smallest, which are a fair sample of all."""
    return "".join(f"{one:0{_DIGITS}x}" for one in sorted(hash_lines(data))[:_SKETCH])


def hash_lines(data: bytes) -> set[int]:
    return {crc32(squeezed) for line in data.split(b"\n") if (squeezed := _squeeze(line))}


def count_kept(sketched: str, hashes: set[int]) -> float:
    """About which share of the lines of a sketched text another one has, from 0 to 1."""
    lines = [int(sketched[at : at + _DIGITS], 16) for at in range(0, len(sketched), _DIGITS)]
    return sum(line in hashes for line in lines) / len(lines) if lines else 0.0


def _hash_around(lines: list[bytes]) -> int:
    return crc32(b"\n".join(lines))


def _squeeze(data: bytes) -> bytes:
    return b"".join(data.split())


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()
