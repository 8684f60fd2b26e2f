"""Ranking: what words give rows, what each arm says, and one order with the reason of each place.

Pure: takes blocks and arrays, returns arrays. Scores are divided by the best of their arm and added: on real
conversations that beats adding reciprocal ranks, which is worse than words alone. Vectors count half as much as words:
counting as much they find a little more, and put it in worse order than words alone do. A row of a conversation gets a
share of what its neighbours scored: the answer often stands beside the words of the question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from memlake.index.segments import Array, Postings
from memlake.index.terms import TOP, weigh_word
from memlake.index.view import AnyBlock
from memlake.named_tuple import NamedTuple

MEANING = 0.5  # what vectors count beside words
FLOOR = 0.5  # the share of the best cosine from which a cosine counts
NEAR = np.array((0.4, 0.2))  # the share of the score of rows one and two places away in the same session
HALF_LIFE = 30 * 86_400e6  # microseconds after which the boost of being recent has halved
BY_MEANING = 2.0  # what a cosine counts beside the share of words, in how near a row is to what was asked
# Two cosines of the local model: of texts that have nothing in common, and of a question and its answer. Those of other
# models are stretched to them before they are compared with words.
USUAL = (0.15, 0.43)
WHOLE = 2.5  # the sum of both that is taken for 1
BESIDE = 0.5  # what words count that only the rows before and after have, where a row has something itself
SPELT = 2  # the power of its likeness with which a word of similar spelling counts there
HALF = 0.5  # what a single character of Chinese counts there: it is in many words
ENOUGH = 4  # as many words that no second row has, and no more, are needed to be wholly near
LOOKED = 40  # rows that are ordered once more, by evidence
_SPREAD = 50  # rows whose neighbours are looked at
_REACH = 16  # how far apart neighbours of a session are looked for: others write between them
_WINDOW = np.arange(-_REACH, _REACH + 1)

Gains = tuple[Array, Array]  # rows, and what an arm gives each
NO_GAINS: Gains = (np.zeros(0, np.int64), np.zeros(0))


class Arms(NamedTuple):
    """The rows that were found, ascending, and for each what exact words, similar words and its vector (cosine) give.

    Rows that are `waiting` have no vector yet.
    """

    rows: Array
    words: Array
    grams: Array
    vectors: Array
    waiting: Array


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


class Evidence(NamedTuple):
    """Shares (0 to 1) of the worth of all words asked for, by which the first rows are ordered once more.

    `own` is what the row has itself, `around` what the rows before and after it in its session add, `before` what the
    row before it has, which is row `previous` (0 for none).
    """

    own: float
    around: float = 0.0
    before: float = 0.0
    previous: int = 0
    in_session: bool = False


class Scored(NamedTuple):
    """One row with its score and where it comes from.

    The score tells better from worse among the rows of one search; `likeness` (0 to 1) says how near a row is to what
    was asked, whatever else was found.
    """

    row: int
    score: float
    words: float = 0.0
    grams: float = 0.0
    vectors: float = 0.0
    neighbours: float = 0.0
    boost: float = 1.0
    likeness: float = 0.0
    evidence: Evidence | None = None
    reranker: float | None = None  # what a reranker gave it, if one was asked


# -- words ------------------------------------------------------------------------------------


class Lookup:
    """Some terms looked up in every block, once: to weigh them, to score rows by them, to see which rows have them."""

    def __init__(self, blocks: Sequence[AnyBlock], terms: Sequence[int]) -> None:
        self._blocks = blocks
        self._held = [dict[int, Postings]() for _ in blocks]
        self.add(terms)

    def add(self, terms: Sequence[int]) -> None:
        """Look up some more."""
        for block, held in zip(self._blocks, self._held, strict=True) if terms else ():
            held.update(zip(terms, block.find(terms), strict=True))

    def weigh(self, shares: Mapping[int, float]) -> dict[int, float]:
        """What each term that occurs is worth, rare ones more. `shares` says how far it is the one that was meant."""
        total = sum(block.count for block in self._blocks)
        counts = {term: sum(len(held[term][0]) for held in self._held) for term in shares}
        return {term: share * weigh_word(counts[term], total) for term, share in shares.items() if counts[term]}

    def score_rows(self, worth: Mapping[int, float], masks: Sequence[Array], most: int) -> Gains:
        """The rows with the best words, at most `most`, in no order; of equals the newest, however blocks are cut."""
        parts = []
        for block, held, mask in zip(self._blocks, self._held, masks, strict=True) if worth else ():
            gained = np.zeros(block.count, np.float32)
            for term, weight in worth.items():
                rows, scores = held[term]
                gained[rows] += scores * np.float32(weight * TOP / 255)
            rows = np.flatnonzero((gained != 0) & mask)
            gained = gained[rows]
            if len(rows) > most:
                last = np.partition(gained, -most)[-most]
                better, equal = np.flatnonzero(gained > last), np.flatnonzero(gained == last)
                best = np.concatenate([better, equal[len(better) - most :]])
                rows, gained = rows[best], gained[best]
            parts.append((rows + block.first, gained))
        if not parts:
            return NO_GAINS
        rows, gained = (np.concatenate(sides) for sides in zip(*parts, strict=True))
        if len(rows) > most:
            best = np.lexsort((-rows, -gained))[:most]
            rows, gained = rows[best], gained[best]
        return rows, gained

    def find_holders(self, terms: Collection[int], rows: Array) -> Array:
        """For each term, and each of some rows, ascending: whether the row has it."""
        holders = np.zeros((len(terms), len(rows)), bool)
        for number, block, span in split_by_block(self._blocks, rows):
            at = rows[span] - block.first
            for place, term in enumerate(terms):
                docs = self._held[number][term][0]
                if len(docs):
                    holders[place, span] = docs.take(docs.searchsorted(at), mode="clip") == at
        return holders

    def sum_worth(self, worth: Mapping[int, float], rows: Array) -> Array:
        """What those terms are worth, in all, that each of some rows, ascending, has."""
        sums: Array = np.array(list(worth.values())) @ self.find_holders(worth, rows)
        return sums


def split_by_block(blocks: Sequence[AnyBlock], rows: Array) -> Iterator[tuple[int, AnyBlock, slice]]:
    """The blocks that have some of these rows, which ascend: a block's number, and where its rows stand among them."""
    for number, block in enumerate(blocks):
        low, high = rows.searchsorted((block.first, block.first + block.count)).tolist()
        if low < high:
            yield number, block, slice(low, high)


class Words(NamedTuple):
    """The word arm: rows by exact and by similar words; what each word is worth, and all that were asked for.

    `sure` is what each is worth as a reason to be told at all, and `enough` the sum of which more says no more: nobody
    answers a long question word by word.
    """

    exact: Gains
    similar: Gains
    lookup: Lookup
    worth: Mapping[int, float]
    all: float
    sure: Mapping[int, float]
    enough: float


# -- arms -------------------------------------------------------------------------------------


def gather_arms(words: Gains, grams: Gains, vectors: Gains) -> Arms:
    """One list of rows for all arms. Where there are vectors, a row that they did not find is waiting."""
    rows, places = np.unique(np.concatenate([words[0], grams[0], vectors[0]]), return_inverse=True)
    size = len(rows)
    arms = Arms(rows, np.zeros(size), np.zeros(size), np.zeros(size), np.full(size, len(vectors[0]) > 0))
    start = 0
    for arm, (found, gained) in zip((arms.words, arms.grams, arms.vectors), (words, grams, vectors), strict=True):
        arm[places[start : start + len(found)]] = gained
        start += len(found)
    arms.waiting[places[start - len(vectors[0]) :]] = False
    return arms


def fuse(arms: Arms) -> Array:
    """One score a row, at most 1: words (exact and similar together), and vectors for half as much.

    A row that still waits for its vector is judged by its words alone: what was just stored must not come last.

    A cosine under half of the best says little more than that both are sentences, and counts as nothing.
    """
    by_text, by_meaning = _divide_by_best(arms.words + arms.grams, 0.0), _divide_by_best(arms.vectors, FLOOR)
    if not by_meaning.any():
        return by_text
    if not by_text.any():
        return by_meaning
    return np.where(arms.waiting & (by_text > 0), by_text, (by_text + MEANING * by_meaning) / (1 + MEANING))


def _divide_by_best(scores: Array, floor: float) -> Array:
    """Scores as shares of the best one, counted from a share of it upwards."""
    best = float(scores.max(initial=0.0))
    low = floor * best
    return np.where(scores > low, (scores - low) / (best - low), 0.0) if best > 0 else np.zeros(len(scores))


class Candidates(NamedTuple):
    """Rows to be ordered, ascending: what the arms give each, and what its neighbours do."""

    rows: Array
    fused: Array
    gained: Array


def add_neighbours(blocks: Sequence[AnyBlock], masks: Sequence[Array], arms: Arms) -> Candidates:
    """The rows that arms found, and those of the same session one and two places from the best of them."""
    fused = fuse(arms)
    is_found = fused > 0
    rows, fused = arms.rows[is_found], fused[is_found]
    best = np.sort(np.lexsort((rows, fused))[-_SPREAD:])
    sides, _ = find_sides(blocks, masks, rows[best])
    places = np.cumsum(sides, axis=2)
    at, side, steps = np.nonzero(sides & (places <= len(NEAR)))
    shares = NEAR[places[at, side, steps] - 1] * fused[best[at]]
    beside = rows[best[at]] + np.where(side == 0, -1, 1) * (steps + 1)
    all_rows, spots = np.unique(np.concatenate([rows, beside]), return_inverse=True)
    size = len(all_rows)
    fused = np.bincount(spots[: len(rows)], fused, size)
    return Candidates(all_rows, fused, np.bincount(spots[len(rows) :], shares, size))


def find_sides(blocks: Sequence[AnyBlock], masks: Sequence[Array], rows: Array) -> tuple[Array, Array]:
    """For each row: which of those before it and after it, from it outwards, are of its session; and the sessions."""
    near = rows[:, None] + _WINDOW
    sessions, allowed = np.zeros(near.shape, np.int64), np.zeros(near.shape, bool)
    for block, mask in zip(blocks, masks, strict=True):
        inside = (near >= block.first) & (near < block.first + block.count)
        if inside.any():
            at = near[inside] - block.first
            sessions[inside] = block.columns["session"][at]
            allowed[inside] = mask[at]
    own = sessions[:, _REACH, None]
    same = allowed & (sessions == own) & (own != 0)
    return np.stack([same[:, _REACH - 1 :: -1], same[:, _REACH + 1 :]], axis=1), own[:, 0]


def stretch(cosines: Array, span: tuple[float, float]) -> Array:
    """Cosines of the model that has this span, as the local one would have them, 0 to 1; NaN stays."""
    nearness: Array = np.clip(np.interp(cosines, [-1, *span, 1], [-1, *USUAL, 1]), 0.0, 1.0)
    return nearness


def add_evidence(
    ordered: Sequence[Scored], words: Words, nearness: Array, blocks: Sequence[AnyBlock], masks: Sequence[Array]
) -> list[Scored]:
    """The same, each with its likeness, and the first `LOOKED` with what they and the rows beside them have.

    `nearness` is that of each row in meaning, NaN without a vector. Words that only the rows beside a row have count
    less in its likeness, and nothing if it has none itself.
    """
    if not len(ordered) or not words.all:
        return [
            one._replace(likeness=near) for one, near in zip(ordered, np.nan_to_num(nearness).tolist(), strict=True)
        ]
    rows = np.array([scored.row for scored in ordered], np.int64)
    sides, sessions = find_sides(blocks, masks, rows)
    steps = np.where(sides.any(axis=2), sides.argmax(axis=2) + 1, 0)
    trios = np.stack([rows, np.where(steps[:, 0], rows - steps[:, 0], 0), np.where(steps[:, 1], rows + steps[:, 1], 0)])
    every = np.unique(trios)
    holders = words.lookup.find_holders(words.worth, every)[:, every.searchsorted(trios)]
    each = (holders[:, 0], holders[:, 1], holders.any(axis=1))

    worth = np.array(list(words.sure.values())) / words.enough
    own, _, all_three = (worth @ some for some in each)
    shares = np.minimum(np.where(own > 0, own + BESIDE * (all_three - own), 0.0), 1.0)
    likeness = np.where(np.isnan(nearness), shares, np.minimum((shares + BY_MEANING * nearness) / WHOLE, 1.0))

    worth = np.array(list(words.worth.values())) / words.all
    own, before, all_three = (np.minimum(worth @ some, 1.0) for some in each)
    columns = (own, all_three - own, before, trios[1], sessions != 0)
    known = [Evidence(*values) for values in zip(*(column[:LOOKED].tolist() for column in columns), strict=True)]
    return [
        one._replace(likeness=near, evidence=evidence)
        for one, near, evidence in zip_longest(ordered, likeness.tolist(), known)
    ]


def boost(facts: Facts, boosts: Boosts, now: int) -> Array:
    """A factor of at least 1 for each row: it may lift what is relevant, never bring up what is not."""
    fresh = np.power(0.5, np.maximum(now - facts.created, 0) / HALF_LIFE)
    often = facts.access / (facts.access + 10)
    factors: Array = 1 + boosts.importance * facts.importance + boosts.recency * fresh + boosts.access * often
    return factors


def order(arms: Arms, candidates: Candidates, factors: Array, most: int) -> list[Scored]:
    """Best first, at most `most`; of equals the newer row first."""
    scores = (candidates.fused + candidates.gained) * factors
    best = np.lexsort((candidates.rows, scores))[::-1][:most]
    rows = candidates.rows[best]
    at = arms.rows.searchsorted(rows)
    is_arm = arms.rows.take(at, mode="clip") == rows
    by_arm = (np.where(is_arm, arm.take(at, mode="clip"), 0.0) for arm in (arms.words, arms.grams, arms.vectors))
    columns = (rows, scores[best], *by_arm, candidates.gained[best], factors[best])
    return [Scored(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
