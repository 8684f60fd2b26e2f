"""Which lines two texts have in common: the one matcher of diff, merge and blame. Pure: text in, numbers out.

The search is Myers' greedy one, so a diff is the shortest possible as long as it fits the budget. The budget counts
steps, not seconds, and grows with the length of the texts: a file of a hundred thousand lines `0` and `1`, rewritten
as a whole, gets a longer diff, not a longer wait. A gap that the search cannot finish is split at lines that occur once
on each side (patience); if there are none, the search goes on from the farthest point it reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import isqrt

from memlake.records import Entry

LARGEST = 1 << 20  # bytes of a text whose lines are merged, or looked at for renames
_STEPS, _STEPS_A_LINE = 400_000, 6
_STEP = 4  # what looking at one diagonal costs, where comparing two lines costs 1

Point = tuple[int, int]
Gap = tuple[int, int, int, int]  # from, to in a; from, to in b
Block = tuple[int, int, int]  # where it starts in a, where in b, how many lines
Opcode = tuple[str, int, int, int, int]


def find_text(data: bytes, *, is_head: bool = False) -> str | None:
    """The text of a file, or None if it is not UTF-8 text: the one rule of diff, merge, blame and media types.

    `is_head`: these are only the first bytes, so that they may end inside a character.
    """
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if is_head and error.reason == "unexpected end of data" and error.end == len(data):
            return data[: error.start].decode("utf-8")
        return None


def find_object_text(read: Callable[[str], bytes], entry: Entry, most: int = LARGEST) -> str | None:
    """The text of a stored file; None if it has more than `most` bytes (then it is not even read) or is not text."""
    return find_text(read(entry.oid)) if entry.size <= most else None


def split_lines(text: str) -> list[str]:
    """Lines with their ends. Only a newline ends one, so joining them gives the text back."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """What turns `a` into `b`: runs of equal, replaced, deleted and inserted lines, in order, without a gap."""
    codes: list[Opcode] = []
    i = j = 0
    for x, y, size in (*match_lines(a, b), (len(a), len(b), 0)):
        if i < x or j < y:
            codes.append(("insert" if i == x else "delete" if j == y else "replace", i, x, j, y))
        if size:
            codes.append(("equal", x, x + size, y, y + size))
        i, j = x + size, y + size
    return codes


def match_lines(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """Runs of lines that both have, in order; none touches the next on both sides."""
    numbers: dict[str, int] = {}
    left, right = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (a, b))
    head = _count_equal(left, right)
    tail = _count_equal(left[head:][::-1], right[head:][::-1])
    inner = _Matcher(left[head : len(left) - tail], right[head : len(right) - tail]).run()
    pairs = [(x + head, y + head) for x, y in inner]
    blocks = [(0, 0, head), *_runs(pairs), (len(a) - tail, len(b) - tail, tail)]
    return _slide(left, right, _join([block for block in blocks if block[2]]))


def _count_equal(a: Sequence[int], b: Sequence[int]) -> int:
    for number, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return number
    return min(len(a), len(b))


def _runs(pairs: list[tuple[int, int]]) -> Iterator[Block]:
    start = 0
    for at in range(1, len(pairs) + 1):
        if at == len(pairs) or pairs[at] != (pairs[at - 1][0] + 1, pairs[at - 1][1] + 1):
            yield *pairs[start], at - start
            start = at


def _join(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for x, y, size in blocks:
        if joined and (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]) == (x, y):
            joined[-1] = (*joined[-1][:2], joined[-1][2] + size)
        else:
            joined.append((x, y, size))
    return joined


def _slide(a: Sequence[int], b: Sequence[int], blocks: list[Block]) -> list[Block]:
    """Let lines that were only added or only removed slide down as far as they can, as git shows them.

    Which one of several equal lines is new does not matter, but both sides of a merge must choose the same.
    """
    moved = [*blocks, (len(a), len(b), 0)]
    for at in range(1, len(moved)):
        (x, y, size), (u, v, more) = moved[at - 1], moved[at]
        lines, start, end = (a, x + size, u) if y + size == v else (b, y + size, v)
        if start == end or (x + size < u and y + size < v):
            continue
        shift = 0
        while shift < more and lines[start + shift] == lines[end + shift]:
            shift += 1
        moved[at - 1], moved[at] = (x, y, size + shift), (u + shift, v + shift, more - shift)
    return [block for block in moved if block[2]]


class _Matcher:
    """The search between two lists of numbers, each standing for a line."""

    def __init__(self, a: list[int], b: list[int]) -> None:
        # A line that the other side does not have can match nothing. Without such lines a rewritten text costs nothing.
        in_a, in_b = set(a), set(b)
        self._places_a = [place for place, line in enumerate(a) if line in in_b]
        self._places_b = [place for place, line in enumerate(b) if line in in_a]
        self._a, self._b = [a[place] for place in self._places_a], [b[place] for place in self._places_b]
        self._size = len(self._a) + len(self._b)
        self._budget = _STEPS + _STEPS_A_LINE * self._size

    def run(self) -> list[tuple[int, int]]:
        """Pairs of matched places, in order."""
        matched: list[Point] = []
        todo = [(0, len(self._a), 0, len(self._b))]
        while todo:
            i, i_end, j, j_end = gap = todo.pop()
            if i == i_end or j == j_end or self._budget <= 0:
                continue
            share = self._budget * (i_end - i + j_end - j) // self._size
            pairs, reached = self._search(gap, share // 4)
            if reached == (i_end, j_end):
                matched += pairs
            elif anchors := self._find_anchors(gap):
                matched += anchors
                ends = [(i - 1, j - 1), *anchors, (i_end, j_end)]
                todo += [(x + 1, x2, y + 1, y2) for (x, y), (x2, y2) in pairwise(ends)]
            else:
                matched += self._creep(gap)
        return [(self._places_a[x], self._places_b[y]) for x, y in sorted(matched)]

    def _search(self, gap: Gap, limit: int) -> tuple[list[Point], Point]:
        """The shortest way through a gap, or the way to the farthest point that can be reached within the limit."""
        i, i_end, j, j_end = gap
        a, b, spent, shift = self._a, self._b, 0, i - j
        most = min(i_end - i + j_end - j, isqrt(2 * limit // _STEP) + 2)
        middle = most + 1
        reach = [i] * (2 * middle + 1)  # the farthest place in a on each diagonal
        trace: list[list[int]] = []
        for d in range(most + 1):
            trace.append(reach[middle - d - 1 : middle + d + 2])
            for k in range(-min(d, 2 * (j_end - j) - d), min(d, 2 * (i_end - i) - d) + 1, 2):
                at = middle + k
                down = k == -d or (k != d and reach[at - 1] < reach[at + 1])
                x = start = reach[at + 1] if down else reach[at - 1] + 1
                y = x - shift - k
                while x < i_end and y < j_end and a[x] == b[y]:
                    x += 1
                    y += 1
                reach[at] = x
                spent += x - start
                if x == i_end and y == j_end:
                    self._budget -= spent + _STEP * (d + 1)
                    return self._trace_back(trace, gap, (x, y)), (x, y)
            spent += _STEP * (d + 1)
            if spent > limit and d:
                break
        self._budget -= spent
        points = ((reach[middle + k], reach[middle + k] - shift - k) for k in range(-d, d + 1, 2))
        farthest = max((x + y, x) for x, y in points if x <= i_end and y <= j_end)
        end = farthest[1], farthest[0] - farthest[1]
        return self._trace_back(trace, gap, end), end

    def _trace_back(self, trace: list[list[int]], gap: Gap, end: Point) -> list[Point]:
        (x, y), shift, pairs = end, gap[0] - gap[2], []
        for d in range(len(trace) - 1, -1, -1):
            reach, k = trace[d], x - y - shift
            at = k + d + 1
            down = k == -d or (k != d and reach[at - 1] < reach[at + 1])
            before = reach[at + 1] if down else reach[at - 1]
            start = before if down else before + 1
            while x > start:
                x, y = x - 1, y - 1
                pairs.append((x, y))
            x, y = (x, y - 1) if down else (x - 1, y)
        return pairs

    def _find_anchors(self, gap: Gap) -> list[Point]:
        """Lines that occur once on each side: the longest row of them that is in order on both."""
        i, i_end, j, j_end = gap
        self._budget -= i_end - i + j_end - j
        left, right = Counter(self._a[i:i_end]), Counter(self._b[j:j_end])
        place = {line: y for y, line in enumerate(self._b[j:j_end], j) if right[line] == 1}
        ends: list[int] = []  # the smallest place in b that ends a row of each length
        rows: list[list[Point]] = []
        before: dict[Point, Point | None] = {}
        for x, line in enumerate(self._a[i:i_end], i):
            if left[line] == 1 and line in place:
                y = place[line]
                length = bisect_left(ends, y)
                ends[length : length + 1] = [y]
                rows[length : length + 1] = [[(x, y)]]
                before[x, y] = rows[length - 1][0] if length else None
        row: list[Point] = []
        point = rows[-1][0] if rows else None
        while point is not None:
            row.append(point)
            point = before[point]
        return row[::-1]

    def _creep(self, gap: Gap) -> list[Point]:
        """Through a gap in short searches, each from where the last one ended."""
        i, i_end, j, j_end = gap
        lines = i_end - i + j_end - j
        limit = max(40, 2 * (self._budget // max(lines, 1)) ** 2)
        matched: list[Point] = []
        while i < i_end and j < j_end and self._budget > 0:
            pairs, (i, j) = self._search((i, i_end, j, j_end), limit)
            matched += pairs
        return matched
