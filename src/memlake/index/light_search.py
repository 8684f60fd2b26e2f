"""A glance at the index: its best or newest rows by words and marks alone, in plain Python.

For processes that live a tenth of a second: importing numpy costs more than the search. The same files are read and
the same words weighed; there are no vectors, no misspellings and no neighbours.
"""

from __future__ import annotations

import bisect
import heapq
import json
import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from memlake.index import generations, terms
from memlake.index.generations import SEGMENT_ALIGN, SEGMENT_MAGIC
from memlake.index.rows import NEVER, Shown
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Database

_SLICE = 64  # candidates looked up at a time
_MOST = 2000  # candidates looked at in all
_READ = 20_000  # places of words that are read: the rarest words first, which tell most
_SQL = "SELECT id, key, oid, created, expires, from_seq, to_seq FROM row WHERE id IN carray(?1)"


class Seen(NamedTuple):
    """A row: its record, when it was made, and what its words gained."""

    key: bytes
    oid: bytes
    created: int
    score: float = 0.0


class Found(NamedTuple):
    """Rows, best first, in how many of all each word is, and how many all are."""

    rows: list[Seen]
    counts: Mapping[str, int] = {}
    total: int = 0


Fits = Callable[[Seen], bool]  # what the rows themselves do not tell


class Glance:
    """The index of a folder, opened for a moment."""

    def __init__(self, folder: Path) -> None:
        self._folder, _ = generations.open_current(folder)
        self.db = Database(self._folder / "index.db", schema=[generations.SCHEMA], durable=False)

    erasables = ()  # whoever lives longer erases what was purged; until then it is found and not shown

    def fold_soon(self) -> None:
        """Not here: whoever lives longer folds."""

    def fold(self) -> bool:
        return False

    def search(
        self, words: Sequence[str], shown: Shown, *, most: int, now: int, fits: Fits = bool, within: Sequence[str] = ()
    ) -> Found:
        """The rows that fit and have one of some stems, those with the rarest first, and how many have each.

        `within` are marks of which each has one: they say early what `fits` says, before too many are cut off.
        """
        stems = {terms.hash_term(word): word for word in words}
        postings, total = self._read_postings(list(stems)), self._count_rows()
        scores = dict[int, float]()
        for at in postings.values():
            worth = terms.weigh_word(len(at), total)
            for row, score in at.items():
                scores[row] = scores.get(row, 0.0) + worth * score
        rows: Collection[int] = scores
        if within and len(scores) > _MOST:
            rows = self._find_rows(within).intersection(scores)
        best = sorted(rows, key=lambda row: (-scores[row], -row))[:_MOST]
        seen = [
            seen._replace(score=scores[row]) for row, seen in islice(self._list_visible(best, shown, now, fits), most)
        ]
        return Found(seen, {stems[code]: len(at) for code, at in postings.items()}, total)

    def newest(
        self, marks: Sequence[str], shown: Shown, *, most: int, now: int, fits: Fits = bool, within: Sequence[str] = ()
    ) -> list[Seen]:
        """The newest rows that fit and have one of some marks; without marks, of all. `within` as for `search`."""
        found = self._find_rows(marks, None if within else _MOST) if marks else range(1, self._count_rows() + 1)
        if within and len(found) > _MOST:
            found = self._find_rows(within).intersection(found)
        newest = heapq.nlargest(_MOST, found)
        return [seen for _, seen in islice(self._list_visible(newest, shown, now, fits), most)]

    def list_expired(self, shown: Shown, *, now: int, fits: Fits = bool) -> list[Seen]:
        """The rows that may be seen and fit, but for their end, which is over."""
        over = [row for (row,) in self.db.rows("SELECT id FROM row WHERE expires > 0 AND expires <= ?", (now,))]
        return [seen for _, seen in self._list_visible(over, shown, 0, fits)]

    def close(self) -> None:
        self.db.close()

    def _count_rows(self) -> int:
        row = self.db.row("SELECT max(id) FROM row")
        return int((row and row[0]) or 0)

    def _list_visible(self, ordered: Sequence[int], shown: Shown, now: int, fits: Fits) -> Iterator[tuple[int, Seen]]:
        """The rows of an order that may be seen and fit, each looked up when it is asked for."""
        for start in range(0, len(ordered), _SLICE):
            part = ordered[start : start + _SLICE]
            known = {row[0]: row[1:] for row in self.db.rows_in(_SQL, part)}
            for row in part:
                key, oid, created, expires, *seqs = known.get(row, (b"", b"", 0, 1, 0, 0))
                seen = Seen(bytes(key), bytes(oid), created)
                if (not expires or expires > now) and _is_visible(row, seqs, shown) and fits(seen):
                    yield row, seen

    def _find_rows(self, marks: Sequence[str], last: int | None = None) -> set[int]:
        """The rows (the `last` ones of a segment, else all) that have one of some marks."""
        codes = [terms.hash_term(mark) for mark in marks]
        held = self._read_postings(codes, last=self._count_rows() if last is None else last)
        return {row for at in held.values() for row in at}

    def _read_postings(self, codes: Sequence[int], last: int | None = None) -> dict[int, dict[int, float]]:
        """For each term that occurs, the rows (the `last` ones of a segment) that have it and what it gives each."""
        with self.db.snapshot():
            names = self.db.rows("SELECT name FROM segment ORDER BY first")
            segments = [_Segment(generations.segment_file(self._folder, name)) for (name,) in names]
            codes = codes if last is not None else _choose_affordable(segments, codes)
            found: dict[int, dict[int, float]] = {code: {} for code in codes}
            for segment in segments:
                for code in codes:
                    found[code].update(segment.find(code, last))
            for code in codes:
                found[code].update(self._find_fresh(code))
        return {code: at for code, at in found.items() if at}

    def _find_fresh(self, code: int) -> Iterator[tuple[int, float]]:
        """What rows say that no segment holds yet."""
        sought = code.to_bytes(8, "little")
        sql = "SELECT row, terms, length FROM fresh JOIN row ON id = row WHERE instr(terms, ?) > 0"
        for row, packed, length in self.db.rows(sql, (sought,)):
            size = len(packed) // 9
            at = packed.find(sought)
            while at >= 0 and (at % 8 or at >= size * 8):
                at = packed.find(sought, at + 1)
            if at >= 0:
                yield row, terms.score_count(packed[size * 8 + at // 8], length)


def _choose_affordable(segments: Sequence[_Segment], codes: Sequence[int]) -> list[int]:
    """The rarest terms, as many as can be read in time."""
    sizes = {code: sum(end - start for start, end in (one.span(code) for one in segments)) for code in codes}
    kept, room = list[int](), _READ
    for code in sorted(sizes, key=lambda code: sizes[code]):
        room -= sizes[code]
        if room < 0:
            break
        kept.append(code)
    return kept


def _is_visible(row: int, seqs: Sequence[int], shown: Shown) -> bool:
    start, end = seqs
    overlay = shown.overlay
    if overlay is not None and (row in overlay.added or row in overlay.hidden):
        return row in overlay.added
    at = overlay.base if overlay is not None else shown.seq
    return start < NEVER and end == NEVER if at is None else start <= at < end


class _Segment:
    """A segment file, mapped; its arrays are read where they lie."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = len(SEGMENT_MAGIC)
        length, line = int(bytes(whole[start : start + 8]), 16), start + 18
        head: Mapping[str, Any] = json.loads(bytes(whole[line : line + length]))
        self._first, self._whole = head["first"], whole
        self._start, self._arrays = -(-(line + length) // SEGMENT_ALIGN) * SEGMENT_ALIGN, head["arrays"]
        self._hashes, self._starts = self._array("hashes", "q"), self._array("starts", "q")
        self._docs, self._scores = self._array("docs", "I"), self._array("scores", "B")

    def _array(self, name: str, kind: str) -> memoryview[int]:
        _, at, count = self._arrays[name]
        size = {"q": 8, "I": 4, "B": 1}[kind]
        found: memoryview[int] = self._whole[self._start + at : self._start + at + count * size].cast(kind)  # type: ignore[call-overload]
        return found

    def span(self, code: int) -> tuple[int, int]:
        """Where the rows of a term stand."""
        at = bisect.bisect_left(self._hashes, code)
        known = at < len(self._hashes) and self._hashes[at] == code
        return (self._starts[at], self._starts[at + 1]) if known else (0, 0)

    def find(self, code: int, last: int | None) -> Iterator[tuple[int, float]]:
        start, end = self.span(code)
        start = start if last is None else max(start, end - last)
        docs, scores = self._docs[start:end].tolist(), self._scores[start:end].tolist()
        yield from ((self._first + doc, score / 255) for doc, score in zip(docs, scores, strict=True))
