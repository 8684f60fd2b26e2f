"""Progress of functions: a bar with rate and time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

_EVERY = 0.1  # seconds between two drawings
_AFTER = 0.5  # what is done sooner shows no bar
_WIDTH = 24


class Progress:
    """Called with a step's name and its number of rows; gives a function to call with rows done."""

    def __init__(self, wanted: bool | None = None) -> None:
        self.is_shown = sys.stderr.isatty() if wanted is None else wanted

    def say(self, line: str) -> None:
        if self.is_shown:
            sys.stderr.write(f"{line}\n")

    @contextlib.contextmanager
    def __call__(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        if not self.is_shown:
            yield lambda _: None
            return
        bar = _Bar(name, total)
        try:
            yield bar.add
        finally:
            bar.end()


class _Bar:
    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, max(total, 1), 0
        self._begun = self._drawn = time.monotonic()
        self._shown = False

    def add(self, rows: int) -> None:
        self._done += rows
        now = time.monotonic()
        if now - self._drawn >= _EVERY and now - self._begun >= _AFTER:
            self._draw(now)

    def _draw(self, now: float) -> None:
        self._drawn, self._shown = now, True
        share = min(self._done / self._total, 1)
        rate = self._done / max(now - self._begun, 1e-9)
        left = (self._total - self._done) / rate if rate else 0
        bar = "█" * int(share * _WIDTH) + "░" * (_WIDTH - int(share * _WIDTH))
        sys.stderr.write(
            f"\r\033[K{self._name} {bar} {self._done:,}/{self._total:,}  {rate:,.0f} rows/s  {_clock(left)} left"
        )
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            self._draw(time.monotonic())
            sys.stderr.write("\n")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
