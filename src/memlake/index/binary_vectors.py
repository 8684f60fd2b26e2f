"""The arithmetic of the vector index: unit vectors, sign bits and their distances, exact scores. Knows arrays only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from memlake.errors import InvalidInput

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]
Words = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.uint16]
Number = TypeVar("Number", bound=np.generic)

RESCORE = 1000  # candidates by sign bits that are scored exactly, unless measured to be too few
RECALL = 0.97  # wanted of a measurement: the rows may double before the next one, and .95 should hold until then
QUERIES, NEIGHBOURS = 100, 10  # of a measurement
NOISE = 0.1  # length of what is added to a row to make a query of it

_WORD = 64
_PIECE = 1024  # rows scored at a time: their float32 fit the processor's cache
_GROUP = 4  # blocks compared at a time, for the same reason
_SCALE = np.float32(2.0**112)
_NO_SIGN_COPIES = np.int32(-0x70000001)  # 0x8fffffff


# -- vectors in


def units(vectors: npt.ArrayLike, dimension: int, *, what: str = "vector") -> Floats:
    """Rows of length 1, checked; raises before anything was changed."""
    given: npt.NDArray[Any] = np.asarray(vectors)
    if given.ndim != 2 or given.shape[1] != dimension:
        raise InvalidInput(
            f"expected {what}s of {dimension} dimensions, got an array of shape {given.shape}. Nothing was changed.",
            hint="Use the model this index was made with, or make an index for the other one.",
        )
    found = np.empty(given.shape, np.float32)
    for start, piece in pieces(given):
        exact = piece.astype(np.float64)  # float32 overflows when large values are squared
        lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
        _check_lengths(lengths, start, what=what, total=len(given))
        found[start : start + len(piece)] = exact / lengths[:, None]
    return found


def _check_lengths(lengths: npt.NDArray[np.float64], start: int, *, what: str, total: int) -> None:
    for position in np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))[:1]:
        problem = "is all zeros" if lengths[position] == 0 else "holds a value that is not a finite number"
        raise InvalidInput(
            f"{what} {start + position + 1} of {total} {problem}. Nothing was changed.",
            hint="Cosine similarity has no answer for it. Embed that text again, or leave it out.",
        )


# -- exact scores


def widen(halves: Halves) -> Floats:
    """float16 as float32 divided by 2**112: the bits moved into place, seven times faster than numpy's own cast."""
    whole = halves.view(np.int16).astype(np.int32)
    whole <<= 13
    whole &= _NO_SIGN_COPIES
    return whole.view(np.float32)


def dots(vectors: Halves, slots: Rows, query: Floats) -> Floats:
    """The cosine of a unit query with the vectors in these slots, which ascend."""
    scaled = query * _SCALE  # makes up for what widen leaves out
    cosine = np.empty(len(slots), np.float32)
    for start in range(0, len(slots), _PIECE):
        piece = slots[start : start + _PIECE]
        first, last = int(piece[0]), int(piece[-1])
        is_run = last - first + 1 == len(piece)
        halves = vectors[first : last + 1] if is_run else vectors.take(piece, axis=0)
        np.matmul(widen(halves), scaled, out=cosine[start : start + _PIECE])
    return cosine


def dots_widened(vectors: Floats, query: Floats) -> Floats:
    """The cosine of a unit query with vectors that `widen` has made."""
    cosine: Floats = vectors @ (query * _SCALE)
    return cosine


def best(scores: Floats, rows: Rows, k: int) -> Rows:
    """Positions of the k highest scores, best first; of equal ones the lower row."""
    k = min(k, len(scores))
    top = np.argpartition(scores, len(scores) - k)[len(scores) - k :] if k < len(scores) else np.arange(k)
    return top[np.lexsort((rows[top], -scores[top]))]


# -- sign bits


def words(dimension: int) -> int:
    """uint64 that the sign bits of one vector take."""
    return -(-dimension // _WORD)


def pack(vectors: Halves, mean: Floats | None) -> Words:
    """The signs of vectors, after subtracting a mean where one is used, as columns: (words, vectors)."""
    positive = vectors.view(np.int16) > 0 if mean is None else widen(vectors) * _SCALE > mean
    return _columns(positive)


def _columns(positive: Mask) -> Words:
    packed = np.zeros((len(positive), words(positive.shape[1]) * 8), np.uint8)
    filled = np.packbits(positive, axis=1)
    packed[:, : filled.shape[1]] = filled
    return np.ascontiguousarray(packed.view(np.uint64).T)


def query_bits(query: Floats, mean: Floats | None) -> Words:
    return _columns((query > (0 if mean is None else mean))[None])[:, 0]


def distances(bits: Words, query: Words) -> Distances:
    """Differing bits of every slot: `bits` is (blocks, words, slots of a block)."""
    blocks, width, block = bits.shape
    found = np.empty((blocks, block), np.uint16)
    differing = np.empty((_GROUP, width, block), np.uint64)
    counted = np.empty((_GROUP, width, block), np.uint8)
    for start in range(0, blocks, _GROUP):
        group = bits[start : start + _GROUP]
        np.bitwise_xor(group, query[:, None], out=differing[: len(group)])
        np.bitwise_count(differing[: len(group)], out=counted[: len(group)])
        np.sum(counted[: len(group)], axis=1, dtype=np.uint16, out=found[start : start + len(group)])
    return found.ravel()


def distances_of(bits: Words, slots: Rows, query: Words) -> Distances:
    """Differing bits of these slots only."""
    _, width, block = bits.shape
    flat = bits.reshape(-1)
    place = slots // block * (width * block) + slots % block
    found = np.zeros(len(slots), np.uint16)
    for word in query:
        found += np.bitwise_count(flat.take(place) ^ word)
        place += block
    return found


def hide_others(found: Distances, allowed: Mask) -> None:
    """Put slots that are not allowed beyond any distance `nearest` takes.

    Setting bits takes a twentieth of the time of an assignment by mask.
    """
    found |= (allowed.astype(np.int16) - np.int16(1)).view(np.uint16)


def nearest(found: Distances, limit: int, furthest: int) -> Rows:
    """Ascending positions of the `limit` smallest distances that are at most `furthest`.

    Distances are small integers, so halving finds the one to cut at four times faster than argpartition.
    """
    low, high = 0, furthest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if np.count_nonzero(found <= middle) >= limit else (middle + 1, high)
    within = np.flatnonzero(found <= low)
    at_cut = np.flatnonzero(found[within] == low)
    return np.delete(within, at_cut[len(at_cut) - max(0, len(within) - limit) :])


# -- how many candidates are enough


def candidates_needed(vectors: Halves, bits: Words, mean: Floats | None) -> int:
    """How many must be rescored so that `RECALL` of the true neighbours are among them, measured on a sample."""
    queries = _sample(vectors)
    ranks = []
    for query, true in zip(queries, _neighbours(vectors, queries), strict=True):
        found = distances(bits, query_bits(query, mean))
        not_further = np.cumsum(np.bincount(found))
        ranks.append(not_further[found[true]])
    if not ranks:
        return RESCORE
    enough = float(np.quantile(np.concatenate(ranks), RECALL, method="higher"))
    return RESCORE << max(0, math.ceil(math.log2(enough / RESCORE)))


def _sample(vectors: Halves) -> Floats:
    chance = np.random.default_rng(len(vectors))
    some = np.sort(chance.choice(len(vectors), min(QUERIES, len(vectors)), replace=False))
    taken = widen(vectors.take(some, axis=0)) * _SCALE
    taken = taken[taken.any(axis=1)]  # an erased one is all zeros
    noise = chance.standard_normal(taken.shape, np.float32)
    noisy = taken + noise * (NOISE / np.linalg.norm(noise, axis=1, keepdims=True))
    return units(noisy, vectors.shape[1]) if len(noisy) else noisy


def _neighbours(vectors: Halves, queries: Floats) -> Rows:
    """The slots of the true nearest neighbours of each query, one row of them per query."""
    slots = np.empty((len(queries), 0), np.int64)
    scores = np.empty((len(queries), 0), np.float32)
    for start, piece in pieces(vectors):
        new = queries @ (widen(piece) * _SCALE).T
        scores = np.concatenate([scores, new], axis=1)
        slots = np.concatenate([slots, np.broadcast_to(np.arange(start, start + len(piece)), new.shape)], axis=1)
        keep = np.argpartition(scores, -min(NEIGHBOURS, scores.shape[1]), axis=1)[:, -NEIGHBOURS:]
        scores, slots = np.take_along_axis(scores, keep, 1), np.take_along_axis(slots, keep, 1)
    return slots


def mean_of(vectors: Halves) -> Floats:
    total = np.zeros(vectors.shape[1], np.float64)
    for _, piece in pieces(vectors):
        total += (widen(piece) * _SCALE).sum(axis=0)
    return (total / max(1, len(vectors))).astype(np.float32)


def pieces(vectors: npt.NDArray[Number]) -> Iterator[tuple[int, npt.NDArray[Number]]]:
    for start in range(0, len(vectors), 4 * _PIECE):
        yield start, vectors[start : start + 4 * _PIECE]
