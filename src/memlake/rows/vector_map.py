"""Two sets of vectors as points of a plane, to be drawn: the two directions in which they spread most (PCA).

If the whole space was rotated, the old vectors are rotated first, so that only what moved beside it seems to move. Of
large sets a seeded sample is drawn, and always what moved most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memlake.named_tuple import NamedTuple
from memlake.rows.vectors import (
    EmbeddingDiff,
    MatchedRows,
    Matches,
    Matrix,
    Numbers,
    Vectors,
    find_equal,
    find_rotation,
)

Points = npt.NDArray[Any]
_POINTS = 1500  # of those that stayed where they were
_OTHERS = 300  # of each other sort
_SEEN = 0.01  # distance of vectors of length 1 that is more than rounding
_BLOCK = 8192


class VectorMap(NamedTuple):
    """Points of vectors that stayed, moved (from where, to where), came and went; `spread` is what each axis shows."""

    diff: EmbeddingDiff
    stayed: Points
    moved_from: Points
    moved_to: Points
    moved_ids: tuple[str, ...]  # those that moved most first
    added: Points
    removed: Points
    spread: tuple[float, float]
    is_turned: bool


def map_vectors(old: Vectors, new: Vectors, matches: Matches, found: EmbeddingDiff) -> VectorMap:
    """Both sides in the directions of all that is drawn; they have the same dimension."""
    before, after = MatchedRows(old, matches.old), MatchedRows(new, matches.new)
    usable = before.is_usable & after.is_usable
    equal = find_equal(before, after)
    random = np.random.default_rng(0)
    turn = find_rotation((before, after), np.flatnonzero(usable))[1] if found.rest is not None else None
    away = _find_away((before, after), np.flatnonzero(usable & ~equal), turn)
    stayed = _sample(random, np.setdiff1d(np.flatnonzero(usable), away), _POINTS)
    moved = np.append(away[: _OTHERS // 3], _sample(random, away[_OTHERS // 3 :], _OTHERS - _OTHERS // 3))
    sides = [MatchedRows(new, _sample(random, matches.added, _OTHERS)),
             MatchedRows(old, _sample(random, matches.removed, _OTHERS))]  # fmt: skip
    added, removed = (side.take_units(np.flatnonzero(side.is_usable)) for side in sides)
    parts = [
        after.take_units(stayed),
        _turn(before.take_units(moved), turn),
        after.take_units(moved),
        added,
        _turn(removed, turn),
    ]
    points, spread = _project(parts)
    ids = tuple(after.find_id(int(row)) for row in moved)
    return VectorMap(found, points[0], points[1], points[2], ids, points[3], points[4], spread, turn is not None)


def _sample(random: np.random.Generator, rows: Numbers, most: int) -> Numbers:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _find_away(sides: tuple[MatchedRows, MatchedRows], rows: Numbers, turn: Matrix | None) -> Numbers:
    """Those that moved so far that it is seen, farthest first. After a rotation, most have only rounding left."""
    far = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        old, new = (side.take_units(rows[start : start + _BLOCK]) for side in sides)
        far[start : start + _BLOCK] = np.linalg.norm(_turn(old, turn) - new, axis=1)
    order = np.argsort(-far, kind="stable")
    return rows[order[far[order] > _SEEN]] if turn is not None else rows[order]


def _turn(rows: Matrix, turn: Matrix | None) -> Matrix:
    return rows if turn is None else rows @ turn


def _project(parts: Sequence[Matrix]) -> tuple[list[Points], tuple[float, float]]:
    """Every part in the same two directions; signs are fixed, so that the same vectors are drawn alike."""
    rows = np.concatenate(parts).astype(np.float64)
    if len(rows) < 2:
        return [np.zeros((len(part), 2)) for part in parts], (0.0, 0.0)
    middle = rows.mean(axis=0)
    weights, directions = np.linalg.eigh(np.cov((rows - middle).T))
    plane = directions[:, ::-1][:, :2]
    plane = plane * np.where(plane[np.abs(plane).argmax(axis=0), [0, 1]] < 0, -1, 1)
    total = max(float(weights.sum()), 1e-12)
    shares = (float(weights[-1]) / total, float(weights[-2]) / total)
    return [(part.astype(np.float64) - middle) @ plane for part in parts], shares
