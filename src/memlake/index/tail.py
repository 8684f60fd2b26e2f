"""The fresh rows in memory: small, growing, searched by looking at every term. Knows numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memlake.index import segments
from memlake.index.fold import columns_of
from memlake.objects.db import Row

Array = np.ndarray[Any, Any]


class Tail:
    """What a segment offers, over rows that no segment holds yet. `grown` makes the next one from this one."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._hashes = np.zeros(0, np.int64)
        self._docs = np.zeros(0, np.uint32)
        self._scores = np.zeros(0, np.uint8)
        self.columns: Mapping[str, Array] = columns_of(())[1]

    @property
    def count(self) -> int:
        return len(self.columns["created"])

    def find(self, term: int) -> tuple[Array, Array]:
        at = np.flatnonzero(self._hashes == term)
        return self._docs[at], self._scores[at]

    def frequency(self, term: int) -> int:
        return int(np.count_nonzero(self._hashes == term))

    def grown(self, found: Sequence[Row], packed: Sequence[bytes]) -> Tail:
        """This tail and the rows that follow it."""
        if not found:
            return self
        lengths, columns = columns_of(found)
        block = segments.build(0, packed, lengths, columns)
        tail = Tail(self.first)
        hashes = np.repeat(block.hashes, np.diff(block.starts))
        tail._hashes = np.concatenate([self._hashes, hashes])
        tail._docs = np.concatenate([self._docs, block.docs + np.uint32(self.count)])
        tail._scores = np.concatenate([self._scores, block.scores])
        tail.columns = {name: np.concatenate([self.columns[name], columns[name]]) for name in columns}
        return tail
