"""Ranking: from what each arm says to one order, with the reason of each place. Pure: takes data, returns data.

Scores are divided by the best of their arm and added: on real conversations that beats adding reciprocal ranks, which
is worse than words alone. Vectors count half as much as words: counting as much they find a little more, and put it
in worse order than words alone do. A row of a conversation gets a share of what its neighbours scored: the answer
often stands beside the words of the question.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
MEANING = 0.5  # what vectors count beside words
FLOOR = 0.5  # the share of the best cosine from which a cosine counts
NEAR = (0.4, 0.2)  # the share of the score of rows one and two places away in the same session
HALF_LIFE = 30 * 86_400e6  # microseconds after which the boost of being recent has halved


class Arms(NamedTuple):
    """Scores by row, an arm each: exact words, words of similar spelling, vectors (cosine). `waiting` have none yet."""

    words: Mapping[int, float]
    grams: Mapping[int, float]
    vectors: Mapping[int, float]
    waiting: frozenset[int] = frozenset()


class Boosts(NamedTuple):
    """How much importance, being recent and being read often may add: shares of the score."""

    importance: float = 0.0
    recency: float = 0.0
    access: float = 0.0


class Facts(NamedTuple):
    """What the boosts look at, an array over the rows each."""

    importance: Array
    created: Array
    access: Array


class Scored(NamedTuple):
    """One row with its score and where it comes from.

    The score tells better from worse among the rows of one search; `likeness` (0 to 1) says how near a row is to what
    was asked, whatever else was found: the cosine, or without a vector the share of the words asked for that it has.
    """

    row: int
    score: float
    words: float = 0.0
    grams: float = 0.0
    vectors: float = 0.0
    neighbours: float = 0.0
    boost: float = 1.0
    likeness: float = 0.0


def fuse(arms: Arms) -> dict[int, float]:
    """One score a row, at most 1: words (exact and similar together), and vectors for half as much.

    A row that still waits for its vector is judged by its words alone: what was just stored must not come last.

    A cosine under half of the best says little more than that both are sentences, and counts as nothing.
    """
    text = {row: arms.words.get(row, 0.0) + arms.grams.get(row, 0.0) for row in {*arms.words, *arms.grams}}
    by_text, by_meaning = _shares(text, 0.0), _shares(arms.vectors, FLOOR)
    if not by_text or not by_meaning:
        return by_text or by_meaning
    both = {
        row: (by_text.get(row, 0.0) + MEANING * by_meaning.get(row, 0.0)) / (1 + MEANING)
        for row in {*by_text, *by_meaning}
    }
    return both | {row: by_text[row] for row in arms.waiting if row in by_text}


def _shares(scores: Mapping[int, float], floor: float) -> dict[int, float]:
    """Scores as shares of the best one, counted from a share of it upwards."""
    best = max(scores.values(), default=0.0)
    low = floor * best
    return {row: (score - low) / (best - low) for row, score in scores.items() if score > low} if best > 0 else {}


def share(scores: Mapping[int, float], near: Iterable[tuple[int, int, int]]) -> dict[int, float]:
    """What each row gets from its neighbours; `near` holds (row, neighbour, distance 1 or 2)."""
    gained: dict[int, float] = {}
    for row, neighbour, distance in near:
        gained[neighbour] = gained.get(neighbour, 0.0) + NEAR[distance - 1] * scores.get(row, 0.0)
    return gained


def boost(facts: Facts, boosts: Boosts, now: int) -> Array:
    """A factor of at least 1 for each row: it may lift what is relevant, never bring up what is not."""
    fresh = np.power(0.5, np.maximum(now - facts.created, 0) / HALF_LIFE)
    often = facts.access / (facts.access + 10)
    factors: Array = 1 + boosts.importance * facts.importance + boosts.recency * fresh + boosts.access * often
    return factors


def order(
    arms: Arms, fused: Mapping[int, float], gained: Mapping[int, float], factors: Mapping[int, float], most: int
) -> list[Scored]:
    """Best first, at most `most`; of equals the newer row first."""
    scores = {row: (fused.get(row, 0.0) + gained.get(row, 0.0)) * factors.get(row, 1.0) for row in {*fused, *gained}}
    return [
        Scored(
            row,
            score,
            arms.words.get(row, 0.0),
            arms.grams.get(row, 0.0),
            arms.vectors.get(row, 0.0),
            gained.get(row, 0.0),
            factors.get(row, 1.0),
        )
        for score, row in heapq.nlargest(most, zip(scores.values(), scores, strict=True))
    ]
