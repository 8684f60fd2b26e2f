"""A progress line on a terminal: bytes, rate, time left. Knows nothing of what is being done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from memlake.views import words

_QUIET = 0.5  # seconds before a line is worth showing
_EVERY = 0.1


class Progress:
    """Call with (bytes done, bytes in all, name); shown on standard error only after half a second."""

    def __init__(self, verb: str, *, width: int = 80, clock: Callable[[], float] = time.monotonic) -> None:
        self._verb = verb
        self._width = width
        self._clock = clock
        self._start = clock()
        self._last = self._start + _QUIET - _EVERY
        self._drawn = False

    def __call__(self, done: int, total: int, name: str) -> None:
        now = self._clock()
        if now - self._last < _EVERY:
            return
        self._last = now
        self._drawn = True
        sys.stderr.write("\r" + self.text(done, total, name).ljust(self._width - 1))
        sys.stderr.flush()

    def text(self, done: int, total: int, name: str) -> str:
        """One line, cut to the terminal's width."""
        passed = max(self._clock() - self._start, 1e-6)
        rate = done / passed
        left = f"{words.duration((total - done) / rate)} left" if rate and total > done else ""
        share = f"{100 * done // total:3}%" if total else "  0%"
        parts = (f"{self._verb} {share}", f"{words.size(done)} of {words.size(total)}", f"{words.size(rate)}/s", left)
        return "  ".join((*(part for part in parts if part), words.quoted(name)))[: self._width - 1]

    def close(self) -> None:
        if self._drawn:
            sys.stderr.write("\r" + " " * (self._width - 1) + "\r")
            sys.stderr.flush()
