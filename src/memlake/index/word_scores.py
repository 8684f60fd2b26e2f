"""The word arm: which rows a query may see, and what its words give each. Knows blocks, not memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from memlake.index import bm25
from memlake.index.rows import NEVER, Overlay
from memlake.index.scope import Filter
from memlake.index.segments import Block

Array = np.ndarray[Any, Any]
REACH = 16  # how far apart neighbours of a session are looked for: others write between them
_SIDES = np.stack([np.arange(-1, -REACH - 1, -1), np.arange(1, REACH + 1)])


Ended = tuple[Array, Array]  # rows, and the seqs at which they ended


def visible(block: Block, at: int | None, ended: Ended) -> Array:
    """One bool a row: whether the trunk shows it at a seq; None: now."""
    ends = block.columns["to_seq"]
    here = (ended[0] >= block.first) & (ended[0] < block.first + block.count)
    if here.any():
        ends = np.array(ends)
        ends[ended[0][here] - block.first] = ended[1][here]
    if at is None:
        mask: Array = (ends == NEVER) & (block.columns["from_seq"] < NEVER)
    else:
        mask = (block.columns["from_seq"] <= at) & (ends > at)
    return mask


def overlaid(block: Block, mask: Array, overlay: Overlay, only_added: bool) -> Array:
    """What a branch shows over what the trunk shows at its base."""
    if only_added:
        mask = np.zeros(block.count, bool)
    else:
        mask = mask.copy()
        mask[_within(block, overlay.hidden)] = False
    mask[_within(block, overlay.added)] = True
    return mask


def _within(block: Block, rows: frozenset[int]) -> Array:
    ids = np.fromiter(rows, np.int64, len(rows)) - block.first
    return ids[(ids >= 0) & (ids < block.count)]


def apply_filter(block: Block, mask: Array, wanted: Filter) -> Array:
    """The rows of a mask that a filter lets through."""
    columns = block.columns
    for group in wanted.marks:
        has = np.zeros(block.count, bool)
        for mark in group:
            has[block.find(mark)[0]] = True
        mask = mask & has
    if wanted.since is not None:
        mask = mask & (columns["created"] >= wanted.since)
    if wanted.until is not None:
        mask = mask & (columns["created"] < wanted.until)
    if wanted.least is not None:
        mask = mask & (columns["importance"] >= wanted.least - 1e-6)
    if columns["expires"].any():
        mask = mask & ((columns["expires"] == 0) | (columns["expires"] > wanted.now))
    return mask


def weights(blocks: Sequence[Block], asked: Mapping[int, float]) -> dict[int, float]:
    """What each word is worth: rare ones more. `asked` says how far a word is the one that was meant."""
    total = sum(block.count for block in blocks)
    worth = {}
    for word, share in asked.items():
        found = sum(block.frequency(word) for block in blocks)
        if found:
            worth[word] = share * bm25.weigh_word(found, total)
    return worth


def rarest(blocks: Sequence[Block]) -> float:
    """What a word is worth that one row has; a word that nobody wrote is worth no more."""
    return bm25.weigh_word(1, sum(block.count for block in blocks))


def score(block: Block, worth: Mapping[int, float], may: Array, most: int) -> tuple[Array, Array]:
    """The rows with the best words, as (row ids, scores), at most `most`, in no order."""
    gained = np.zeros(block.count, np.float32)
    for word, weight in worth.items():
        rows, scores = block.find(word)
        gained[rows] += scores * np.float32(weight * bm25.TOP / 255)
    gained[~may] = 0
    rows = np.flatnonzero(gained)
    if len(rows) > most:
        last = np.partition(gained[rows], -most)[-most]
        better, equal = rows[gained[rows] > last], rows[gained[rows] == last]
        rows = np.concatenate([better, equal[len(better) - most :]])  # of equals the newest, however blocks are cut
    return rows + block.first, gained[rows]


def worth_held(block: Block, worth: Mapping[int, float], ids: Array) -> Array:
    """What those words are worth, in all, that each of some rows (ids, of this block) has."""
    held, at = np.zeros(len(ids)), ids - block.first
    for word, weight in worth.items():
        rows = block.find(word)[0]
        if len(rows):
            held += weight * (rows[np.minimum(np.searchsorted(rows, at), len(rows) - 1)] == at)
    return held


def neighbours(
    blocks: Sequence[Block], rows: Array, masks: Mapping[int, Array], most: int
) -> list[tuple[int, int, int]]:
    """Rows of the same session before and after each row, as (row id, its neighbour, distance 1 to `most`)."""
    near = rows[:, None, None] + _SIDES
    own = _gather(blocks, lambda block: block.columns["session"], rows)[:, None, None]
    same = (own != 0) & (_gather(blocks, lambda block: block.columns["session"], near) == own)
    same &= _gather(blocks, lambda block: masks[block.first], near).astype(bool)
    places = np.cumsum(same, axis=2)
    found = np.nonzero(same & (places <= most))
    triples = rows[found[0]], near[found], places[found]
    return list(zip(*(part.tolist() for part in triples), strict=True))


def _gather(blocks: Sequence[Block], column: Callable[[Block], Array], ids: Array) -> Array:
    """What rows have in a column, whichever block they are in; 0 where there is no such row."""
    values = np.zeros(ids.shape, np.int64)
    for block in blocks:
        inside = (ids >= block.first) & (ids < block.first + block.count)
        if inside.any():
            values[inside] = column(block)[ids[inside] - block.first]
    return values
