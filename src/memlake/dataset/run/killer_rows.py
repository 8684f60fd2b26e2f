"""Which rows workers died of, for one function, in this run and in those after it.

When a worker dies, all rows it was given are suspects. A row is cleared once it was answered alone. A process that runs
a function itself leaves a note meanwhile. If a later run finds the note but not its process, it runs the function in
workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from memlake.dataset.memo.results import KEY, Memo

Keys = np.ndarray[Any, Any]


class Suspects:
    def __init__(self, memo: Memo, function: str) -> None:
        self._memo, self._function = memo, function
        self._before, self._orphans = memo.suspects(function), memo.orphaned_notes(function)
        self._tried: list[Keys] = []
        self._guilty: list[Keys] = []

    def __bool__(self) -> bool:
        """Has the function ended processes? Then it is not run in this one."""
        return self.has_rows or bool(self._orphans)

    @property
    def has_rows(self) -> bool:
        """Is it known which rows it ended processes on?"""
        return bool(len(self._before) or self._tried)

    @contextlib.contextmanager
    def watch(self, *, here: bool) -> Iterator[None]:
        """While the function runs; `here`, when it begins in this process and may end it."""
        if not self and here:
            note = self._memo.leave_note(self._function)
            try:
                yield
            finally:
                self._memo.drop_notes([note])
        else:
            yield
            # Not after an error or Ctrl-C: the rows that were not run may be those that end a process.
            self._memo.drop_notes(self._orphans)

    def find(self, keys: Keys) -> Keys:
        """A mask of those that are suspected since an earlier run."""
        return np.isin(keys, self._before)

    def add(self, keys: Keys) -> None:
        """A worker died over these; remembered at once, since the next to die may be this process."""
        self._tried.append(keys)
        self._memo.add_suspects(self._function, keys)

    def add_answered(self, keys: Keys) -> None:
        self._tried.append(keys)

    def blame(self, keys: Keys) -> None:
        """Workers died of these alone."""
        self._guilty.append(keys)

    def settle(self) -> None:
        """Clear what was suspected or answered here, except the guilty rows, which the next run tries last."""
        none = np.empty(0, KEY)
        tried, guilty = np.concatenate([none, *self._tried]), np.concatenate([none, *self._guilty])
        self._memo.clear_suspects(self._function, np.setdiff1d(tried, guilty))
