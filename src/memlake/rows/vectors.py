"""Two sets of vectors by id: which came and went, how far the others moved, and whether the whole space was turned.

Knows no file, no dataset and no format. A vector is unchanged if it is equal bit by bit. Angles are compared, as search
does: the drift of a vector is its cosine distance from what it was, 0 for the same direction and 2 for the opposite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from memlake.named_tuple import NamedTuple

Matrix = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
_BLOCK = 8192  # rows that are calculated with at once
_NEAREST = 10
_QUERIES = 100  # vectors whose neighbours are looked for
_AMONG = 200_000  # vectors among which they are
_FITTED = 4096  # rows from which a rotation is found, or four times the dimension
_WIDEST = 4096  # dimension up to which one is looked for
_EXPLAINS = 0.75  # share of the change that a rotation must explain to be called the reason of it
_TIE = 1e-5  # similarities this close are rounding
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


class Vectors(NamedTuple):
    """One side: an id for each row of a matrix of floats."""

    ids: Sequence[str]
    matrix: Matrix
    type: str  # of its numbers, as the file calls it
    model: str = ""  # that made them, if the file names it


class Drift(NamedTuple):
    """How far vectors moved, as cosine distances: quantiles, and how many lie between two neighbouring edges."""

    vectors: int
    quantiles: Mapping[str, float]
    counts: tuple[int, ...]
    edges: tuple[float, ...]


class MovedVector(NamedTuple):
    """One that moved: its drift, and what is left of it without the rotation of the whole space."""

    id: str
    drift: float
    rest: float | None = None


class Neighbours(NamedTuple):
    """Of the `nearest` neighbours that each of `sample` vectors had, how many are not among its nearest any more."""

    sample: int
    among: int
    nearest: int
    changed: float  # on average
    stable: int  # vectors of the sample that kept all


class Rotation(NamedTuple):
    """One rotation of the whole space (orthogonal Procrustes), found on half of a sample, judged on the other half."""

    change: float  # median distance of a vector of length 1 from what it was
    residual: float  # the same after the rotation
    explained: float  # share of the change that the rotation explains
    is_reason: bool


class EmbeddingDiff(NamedTuple):
    """What differs between two sets of vectors. `ids_from` says what tells them apart."""

    ids_from: str
    old_count: int
    new_count: int
    old_dimension: int
    new_dimension: int
    old_type: str
    new_type: str
    old_model: str
    new_model: str
    added: int
    removed: int
    moved: int
    unchanged: int
    added_ids: tuple[str, ...] = ()
    removed_ids: tuple[str, ...] = ()
    most_moved: tuple[MovedVector, ...] = ()
    drift: Drift | None = None
    rest: Drift | None = None  # the drift that is left after the rotation, where there was one
    rotation: Rotation | None = None
    neighbours: Neighbours | None = None
    notes: tuple[str, ...] = ()
    column: str = ""  # of a table that holds them

    @property
    def is_empty(self) -> bool:
        was = (self.old_dimension, self.old_type, self.old_model)
        is_other = was != (self.new_dimension, self.new_type, self.new_model)
        return not (self.added or self.removed or self.moved or is_other)


class Matches(NamedTuple):
    """Rows of both sides with the same id, and those of one side alone."""

    old: Numbers
    new: Numbers
    removed: Numbers
    added: Numbers


def compare_vectors(
    old: Vectors, new: Vectors, *, ids_from: str, limit: int | None = 10, matches: Matches | None = None
) -> EmbeddingDiff:
    """What differs; `limit` bounds the ids that are named. `matches` says which row is which, instead of the ids."""
    notes = []
    if matches is None:
        matches, repeated = match_ids(old.ids, new.ids)
        if repeated:
            notes.append(
                f"the id {repeated!r} occurs more than once; of such an id, the first vector of one side is compared "
                "with the first of the other, and so on"
            )
    found = EmbeddingDiff(
        ids_from, len(old.matrix), len(new.matrix), old.matrix.shape[1], new.matrix.shape[1],
        old.type, new.type, old.model, new.model,
        len(matches.added), len(matches.removed), 0, 0,
        tuple(new.ids[row] for row in matches.added[:limit]), tuple(old.ids[row] for row in matches.removed[:limit]),
    )  # fmt: skip
    before, after = MatchedRows(old, matches.old), MatchedRows(new, matches.new)
    usable = before.is_usable & after.is_usable
    for name, side in (("old", before), ("new", after)):
        notes += _describe_unusable(name, side)
    if found.old_dimension == found.new_dimension:
        moved = ~find_equal(before, after)
        found = found._replace(moved=int(moved.sum()), unchanged=int((~moved).sum()))
        found = _measure(found, (before, after), moved, usable, limit=limit)
    else:
        found = found._replace(moved=len(matches.old))
        notes.append("vectors of different lengths have no distance, so only their neighbours are compared")
    if found.moved:
        found = found._replace(neighbours=_compare_neighbours(before, after, np.flatnonzero(usable)))
    return found._replace(notes=(*found.notes, *notes))


def match_ids(old: Sequence[str], new: Sequence[str]) -> tuple[Matches, str]:
    """Which rows have the same id, and an id that occurs more than once, if one does: its n-th meets the n-th."""
    was, now = {name: row for row, name in enumerate(old)}, {name: row for row, name in enumerate(new)}
    repeated = ""
    if len(was) < len(old) or len(now) < len(new):
        repeated = next(name for ids in (old, new) for name, number in _number(ids) if number)
        places = {key: row for row, key in enumerate(_number(old))}, {key: row for row, key in enumerate(_number(new))}
        pairs = [(places[0][key], row) for key, row in places[1].items() if key in places[0]]
    else:
        pairs = [(was[name], row) for name, row in now.items() if name in was]
    matched = np.array(pairs, np.int64).reshape(-1, 2)
    return find_unmatched(matched[:, 0], matched[:, 1], len(old), len(new)), repeated


def match_places(old: Matrix, new: Matrix) -> Matches:
    """Rows without ids: equal ones that stand in the same order are the same, those between them go by their place."""
    anchors = [(-1, -1)]
    if old.shape[1] == new.shape[1] and old.dtype == new.dtype:
        anchors += _find_anchors(_hash_rows(old), _hash_rows(new))
    was, now = list[Numbers](), list[Numbers]()
    for (first, start), (last, stop) in pairwise([*anchors, (len(old), len(new))]):
        gap = np.arange(min(last - first, stop - start) - 1, dtype=np.int64)
        was += [gap + first + 1, np.array([last])]
        now += [gap + start + 1, np.array([stop])]
    return find_unmatched(np.concatenate(was)[:-1], np.concatenate(now)[:-1], len(old), len(new))


def _hash_rows(matrix: Matrix) -> list[int]:
    return [hash(row.tobytes()) for row in matrix]


def _find_anchors(old: list[int], new: list[int]) -> list[tuple[int, int]]:
    """Rows that each side has once, in the longest series that ascends on both."""
    counts = Counter(old), Counter(new)
    places = {value: row for row, value in enumerate(old) if counts[0][value] == 1}
    pairs = [(places[value], row) for row, value in enumerate(new) if value in places and counts[1][value] == 1]
    ends, before = list[int](), list[int]()  # the pair that ends the best series of each length, and what stands before
    for number, (row, _) in enumerate(pairs):
        at = bisect_left(ends, row, key=lambda pair: pairs[pair][0])
        before.append(ends[at - 1] if at else -1)
        ends[at : at + 1] = [number]
    series, number = list[tuple[int, int]](), ends[-1] if ends else -1
    while number >= 0:
        series.append(pairs[number])
        number = before[number]
    return series[::-1]


def find_unmatched(was: Numbers, now: Numbers, old: int, new: int) -> Matches:
    return Matches(was, now, np.setdiff1d(np.arange(old), was), np.setdiff1d(np.arange(new), now))


def _number(ids: Sequence[str]) -> Iterator[tuple[str, int]]:
    seen: dict[str, int] = {}
    for name in ids:
        seen[name] = seen.get(name, -1) + 1
        yield name, seen[name]


def _to_bits(block: Matrix) -> Matrix:
    return np.ascontiguousarray(block).view(np.dtype(f"u{block.itemsize}"))


class MatchedRows:
    """The matched rows of one side, block by block, as floats of length 1; a row without a direction is not usable."""

    def __init__(self, vectors: Vectors, rows: Numbers) -> None:
        self.ids, self.matrix = vectors.ids, vectors.matrix
        self.rows: slice | Numbers = rows
        self.count = len(rows)
        if len(rows) and rows[0] + len(rows) - 1 == rows[-1] and (np.diff(rows) == 1).all():
            self.rows = slice(int(rows[0]), int(rows[-1]) + 1)  # a view, not a copy
        self.norms = np.concatenate([np.empty(0), *(_find_norms(block) for block in self.blocks())])
        self.is_usable = np.isfinite(self.norms) & (self.norms > 0)
        known = self.norms[self.is_usable]  # numbers near 1e30 have lengths that 32 bits do not hold
        self.is_plain = not len(known) or bool(known.max() < 1e18 and known.min() > 1e-18)

    def blocks(self) -> Iterator[Matrix]:
        for start in range(0, self.count, _BLOCK):
            yield self.take(slice(start, start + _BLOCK))

    def take(self, where: slice | Numbers) -> Matrix:
        rows: Matrix
        if not isinstance(self.rows, slice):
            rows = self.matrix[self.rows[where]]
        else:
            rows = self.matrix[self.rows][where] if isinstance(where, slice) else self.matrix[self.rows.start + where]
        return rows

    def take_units(self, where: slice | Numbers) -> Matrix:
        """Rows of length 1; those without a direction become nonsense, which the caller leaves out."""
        rows = self.take(where)
        wide = np.float64 if rows.itemsize > 4 else np.float32
        norms = self.norms[where, None]
        with np.errstate(all="ignore"):
            units: Matrix = np.divide(rows, norms.astype(wide), dtype=wide) if self.is_plain else rows / norms
        return units.astype(wide, copy=False)

    def find_id(self, row: int) -> str:
        return self.ids[int(self.rows.start + row if isinstance(self.rows, slice) else self.rows[row])]


def _find_norms(block: Matrix) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):
        rows = block if block.itemsize >= 4 else block.astype(np.float32)
        norms: npt.NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows).astype(np.float64))
        odd = np.flatnonzero(~((norms > 1e-18) & (norms < 1e18)))
        if len(odd):  # too large or too small for 32 bits
            norms[odd] = np.linalg.norm(rows[odd].astype(np.float64), axis=1)
    return norms


def _describe_unusable(name: str, side: MatchedRows) -> Iterator[str]:
    for number, what in (
        (int((~np.isfinite(side.norms)).sum()), "with values that are not finite numbers (NaN or infinity)"),
        (int((side.norms == 0).sum()), "that are all zeros"),
    ):
        if number:
            yield f"the {name} side has {number:,} vectors {what}; they have no direction, so no figure counts them"


def find_equal(before: MatchedRows, after: MatchedRows) -> npt.NDArray[np.bool_]:
    same = before.matrix.dtype == after.matrix.dtype
    pairs = zip(before.blocks(), after.blocks(), strict=True)
    parts = [(_to_bits(a) == _to_bits(b) if same else a == b).all(axis=1) for a, b in pairs]
    return np.concatenate([np.empty(0, bool), *parts])


# -- how far ------------------------------------------------------------------------------------


def _measure(
    found: EmbeddingDiff,
    sides: tuple[MatchedRows, MatchedRows],
    moved: npt.NDArray[np.bool_],
    usable: npt.NDArray[np.bool_],
    *,
    limit: int | None,
) -> EmbeddingDiff:
    """The drift of those that moved, and whether it is a rotation of all."""
    rows = np.flatnonzero(moved & usable)
    if not len(rows):
        return found
    drift = _find_drift(sides, rows)
    rotation, turn = None, None
    if len(rows) * 2 >= len(moved):
        rotation, turn = find_rotation(sides, np.flatnonzero(usable))
    rest = _find_drift(sides, rows, turn) if turn is not None else None
    order = np.argsort(-(drift if rest is None else rest), kind="stable")[:limit]
    most = tuple(
        MovedVector(sides[1].find_id(rows[at]), float(drift[at]), None if rest is None else float(rest[at]))
        for at in order
    )
    return found._replace(
        most_moved=most,
        drift=_describe_drift(drift),
        rest=None if rest is None else _describe_drift(rest),
        rotation=rotation,
    )


def _find_drift(
    sides: tuple[MatchedRows, MatchedRows], rows: Numbers, turn: Matrix | None = None
) -> npt.NDArray[np.float64]:
    """Half the squared distance of rows of length 1: the cosine distance, exact also where it is tiny."""
    drift = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        where = _find_span(rows[start : start + _BLOCK])
        old, new = (side.take_units(where) for side in sides)
        change = (old if turn is None else old @ turn) - new
        drift[start : start + _BLOCK] = 0.5 * np.einsum("ij,ij->i", change, change)
    return drift


def _find_span(rows: Numbers) -> slice | Numbers:
    """Ascending rows as a slice, which takes a view, if they follow each other."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows


def _describe_drift(drift: npt.NDArray[np.float64]) -> Drift:
    """Twenty equal steps up to the largest; what is only rounding is in the first of them."""
    values = np.quantile(drift, QUANTILES)
    counts, edges = np.histogram(drift, bins=20, range=(0.0, max(float(values[-1]), 1e-6)))
    return Drift(
        len(drift),
        MappingProxyType({f"{share:g}": float(value) for share, value in zip(QUANTILES, values, strict=True)}),
        tuple(map(int, counts)),
        tuple(map(float, edges)),
    )


def find_rotation(sides: tuple[MatchedRows, MatchedRows], rows: Numbers) -> tuple[Rotation | None, Matrix | None]:
    """The rotation that brings the old vectors nearest to the new ones, and the matrix of it if it is the reason."""
    width = sides[0].matrix.shape[1]
    if width > _WIDEST or len(rows) < 4:
        return None, None
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(rows, min(len(rows), max(_FITTED, 4 * width)), replace=False))
    old, new = (side.take_units(rows) for side in sides)
    half = random.permutation(len(rows))
    fit, judge = half[::2], half[1::2]
    turn = _fit_turn(old[fit], new[fit])
    change = float(np.median(np.linalg.norm(old[judge] - new[judge], axis=1)))
    residual = float(np.median(np.linalg.norm(old[judge] @ turn - new[judge], axis=1)))
    explained = max(0.0, 1 - (residual / change) ** 2) if change else 0.0
    is_reason = explained >= _EXPLAINS
    if not is_reason and len(fit) < width:  # so few rows do not say what a rotation does with the others
        return None, None
    rotation = Rotation(change, residual, explained, is_reason)
    if not is_reason:
        return rotation, None
    distances = np.linalg.norm(old @ turn - new, axis=1)
    like = distances <= 3 * residual + _TIE  # entities that moved beside the rotation do not bend it
    return rotation, _fit_turn(old[like], new[like])


def _fit_turn(old: Matrix, new: Matrix) -> Matrix:
    left, _, right = np.linalg.svd((old.T @ new).astype(np.float64))
    turn: Matrix = (left @ right).astype(old.dtype)
    return turn


# -- neighbours ---------------------------------------------------------------------------------


def _compare_neighbours(before: MatchedRows, after: MatchedRows, rows: Numbers) -> Neighbours | None:
    """Whether vectors of a seeded sample have the same nearest ones on both sides."""
    nearest = min(_NEAREST, len(rows) - 1)
    if nearest < 1:
        return None
    random = np.random.default_rng(0)
    if len(rows) > _AMONG:
        rows = np.sort(random.choice(rows, _AMONG, replace=False))
    queries = np.sort(random.choice(len(rows), min(_QUERIES, len(rows)), replace=False))
    was, now = _find_similarities(before, rows, queries), _find_similarities(after, rows, queries)
    closest = np.argpartition(was, -nearest, axis=1)[:, -nearest:]
    least = np.partition(now, -nearest, axis=1)[:, -nearest, None]
    lost = (np.take_along_axis(now, closest, axis=1) < least - _TIE).sum(axis=1)
    return Neighbours(len(queries), len(rows), nearest, float(lost.mean()), int((lost == 0).sum()))


def _find_similarities(side: MatchedRows, rows: Numbers, queries: Numbers) -> npt.NDArray[np.float32]:
    """Of each query to each row; of a query to itself, less than any other."""
    asked = side.take_units(rows[queries]).astype(np.float32)
    parts = list[npt.NDArray[np.float32]]()
    for start in range(0, len(rows), _BLOCK):
        where = _find_span(rows[start : start + _BLOCK])
        if side.is_plain and side.matrix.itemsize == 4:  # dividing the result is less work than dividing the rows
            parts.append(np.divide(asked @ side.take(where).T, side.norms[where].astype(np.float32)))
        else:
            parts.append(asked @ side.take_units(where).astype(np.float32, copy=False).T)
    found = np.concatenate(parts, axis=1)
    found[np.arange(len(queries)), queries] = -2
    return found
