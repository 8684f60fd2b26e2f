"""The word arm: which rows a query may see, and what its words give each. Knows blocks, not memories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memlake.index.rows import Overlay
from memlake.index.scope import Filter, Shown
from memlake.index.segments import NEVER, TOP, Block

Array = np.ndarray[Any, Any]
REACH = 16  # how far apart neighbours of a session are looked for: others write between them


Ended = tuple[Array, Array]  # rows, and the seqs at which they ended


def visible(block: Block, shown: Shown, ended: Ended) -> Array:
    """One bool a row: whether the branch shows it."""
    ends = block.columns["to_seq"]
    here = (ended[0] >= block.first) & (ended[0] < block.first + block.count)
    if here.any():
        ends = np.array(ends)
        ends[ended[0][here] - block.first] = ended[1][here]
    at = shown.overlay.base if shown.overlay else shown.seq
    if at is None:
        mask = (ends == NEVER) & (block.columns["from_seq"] < NEVER)
    else:
        mask = (block.columns["from_seq"] <= at) & (ends > at)
    return mask if shown.overlay is None else _overlaid(block, mask, shown.overlay, shown.only_added)


def _overlaid(block: Block, mask: Array, overlay: Overlay, only_added: bool) -> Array:
    if only_added:
        mask = np.zeros(block.count, bool)
    else:
        mask[_within(block, overlay.hidden)] = False
    mask[_within(block, overlay.added)] = True
    return mask


def _within(block: Block, rows: frozenset[int]) -> Array:
    ids = np.fromiter(rows, np.int64, len(rows)) - block.first
    return ids[(ids >= 0) & (ids < block.count)]


def allowed(block: Block, mask: Array, wanted: Filter) -> Array:
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
            worth[word] = share * math.log(1 + (total - found + 0.5) / (found + 0.5))
    return worth


def score(block: Block, worth: Mapping[int, float], may: Array, most: int) -> tuple[Array, Array]:
    """The rows with the best words, as (row ids, scores), at most `most`, in no order."""
    gained = np.zeros(block.count, np.float32)
    for word, weight in worth.items():
        rows, scores = block.find(word)
        gained[rows] += scores * np.float32(weight * TOP / 255)
    gained[~may] = 0
    rows = np.flatnonzero(gained)
    if len(rows) > most:
        rows = rows[np.argpartition(gained[rows], -most)[-most:]]
    return rows + block.first, gained[rows]


def neighbours(block: Block, row: int, may: Array, most: int) -> list[tuple[int, int]]:
    """Rows of the same session before and after one, as (row id, distance 1 to `most`)."""
    at, sessions = row - block.first, block.columns["session"]
    if sessions[at] == 0:
        return []
    low = max(at - REACH, 0)
    same = np.flatnonzero((sessions[low : at + REACH + 1] == sessions[at]) & may[low : at + REACH + 1]) + low
    before, after = same[same < at][::-1][:most], same[same > at][:most]
    return [(int(found) + block.first, i) for side in (before, after) for i, found in enumerate(side, 1)]
