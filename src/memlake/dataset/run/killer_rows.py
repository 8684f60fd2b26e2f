"""Rows of which workers died: which they are, for one function, in this run and in those after it.

A row is suspected with all that its worker was given when it died, and cleared once it was answered alone. A process
that runs a function itself leaves a mark meanwhile: whoever finds it without its process runs the function in workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from memlake.dataset.memo.results import KEY, Memo

Keys = np.ndarray[Any, Any]


class Suspects:
    def __init__(self, recall: Memo, function: str) -> None:
        self._recall, self._function = recall, function
        self._before, self._ended = recall.suspects(function), recall.ended(function)
        self._doubted: list[Keys] = []
        self._guilty: list[Keys] = []

    def __bool__(self) -> bool:
        """Has the function ended processes? Then it is not run in this one."""
        return self.has_rows or bool(self._ended)

    @property
    def has_rows(self) -> bool:
        """Is it known which rows it ended processes on?"""
        return bool(len(self._before) or self._doubted)

    @contextlib.contextmanager
    def watched(self, *, here: bool) -> Iterator[None]:
        """While the function runs; `here`, when it begins in this process and may end it."""
        marks = [*self._ended] if self or not here else [self._recall.begin(self._function)]
        try:
            yield
        finally:
            self._recall.end(marks)

    def among(self, keys: Keys) -> Keys:
        """Which of these are suspected since an earlier run."""
        return np.isin(keys, self._before)

    def add(self, keys: Keys) -> None:
        """A worker died over these; remembered at once, since the next to die may be this process."""
        self._doubted.append(keys)
        self._recall.suspect(self._function, keys)

    def answered(self, keys: Keys) -> None:
        self._doubted.append(keys)

    def blame(self, keys: Keys) -> None:
        """Workers died of these alone."""
        self._guilty.append(keys)

    def settle(self) -> None:
        """Clear what was suspected or answered here, but for those to blame: the next run tries these last."""
        none = np.empty(0, KEY)
        self._recall.clear(
            self._function, np.setdiff1d(np.concatenate([none, *self._doubted]), np.concatenate([none, *self._guilty]))
        )
