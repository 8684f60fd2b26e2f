"""What a run tells a person: a progress bar, warnings, params that nothing asked for. Light: `memlake run` loads it."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memlake import config

_EVERY = 0.1  # seconds between two drawings of a bar
_AFTER = 0.5  # what is done sooner shows no bar
_WIDTH = 24
_OURS = str(Path(__file__).parent.parent) + os.sep
_MOST_NAMES = 10  # names of a params file that are listed: it may be there for other programs too


def warn(text: str) -> None:
    """Warn at the line of whoever wrote the chain, not at one inside memlake."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, stacklevel=depth)


def report(told: Mapping[str, Any]) -> None:
    """For `memlake run`, which tells at the end what its script did, and learns what it read."""
    if path := config.variable("RUN_REPORT"):
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


def is_ours(file: str) -> bool:
    """Whether a file of code is memlake's, or what it goes through on its way."""
    return file.startswith((_OURS, contextlib.__file__))


# -- params that were given and that nothing asked for: mostly they are misspelled ------------------


def find_unused(names: Iterable[str], asked: Sequence[str]) -> list[str]:
    """Names that nothing asked for; whoever asks for a section asks for all that is in it."""
    return [name for name in names if not any(name == one or name.startswith(f"{one}.") for one in asked)]


def warn_unused(file: str, names: Iterable[str], asked: Sequence[str]) -> list[str]:
    """A line about the params of a file that nothing asked for, if there are any."""
    unused = find_unused(names, asked)
    if not unused:
        return []
    nears = [(name, find_nearest(name, asked)) for name in unused[:_MOST_NAMES]]
    listed = ", ".join(f"{name} (did you mean {near}?)" if near else name for name, near in nears)
    more = f" and {len(unused) - _MOST_NAMES} more" if len(unused) > _MOST_NAMES else ""
    return [f"warning: nothing asked for these params of {file}: {listed}{more}. They had no effect."]


def find_nearest(name: str, asked: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, asked, 1)), "")


# -- progress: a bar with rate and time left on a terminal, nothing elsewhere -----------------------


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
        filled = int(min(self._done / self._total, 1) * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        rate = self._done / max(now - self._begun, 1e-9)
        minutes, seconds = divmod(int((self._total - self._done) / rate if rate else 0), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        sys.stderr.write(f"\r\033[K{self._name} {bar} {self._done:,}/{self._total:,}  {rate:,.0f} rows/s  {clock} left")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            self._draw(time.monotonic())
            sys.stderr.write("\n")
