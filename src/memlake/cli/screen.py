"""Where output goes: colour, pager, JSON, progress, harmless text on a terminal. Knows no command and no repo."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, Any

from memlake import config
from memlake.defaults import Settings
from memlake.views import json_shapes, words

_STYLES = {"id": "33", "added": "32", "removed": "31", "bold": "1", "hunk": "36", "here": "1;36", "tag": "1;33"}
_STYLES |= {"added-word": "7;32", "removed-word": "7;31", "branch": "1;32", "dim": "2", "warning": "33"}
_PLAIN_LESS = ("less",)
_PROGRESS_AFTER, _PROGRESS_EVERY = 0.5, 0.1  # seconds before a progress line is worth showing, and between two


class Screen:
    """Standard output as one command sees it: whether a person reads it, and whether `--json` was given."""

    def __init__(
        self, *, color: bool = False, on_terminal: bool = False, pager: tuple[str, ...] = (), as_json: bool = False
    ) -> None:
        self.color = color
        self.on_terminal = on_terminal
        self.as_json = as_json
        self._pager = pager
        self._out: IO[str] = sys.stdout

    def line(self, text: str = "") -> None:
        self._out.write(text + "\n")

    def write(self, text: str) -> None:
        """As it is, without an end of line: for what ends with NUL."""
        self._out.write(text)

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def items(self, texts: Iterable[str]) -> None:
        """For programs that take any name: a NUL after each text, and nothing else."""
        for text in texts:
            self._out.write(f"{text}\0")

    def note(self, text: str) -> None:
        """Something for the person, not for the pipe; after what was printed before it."""
        self._out.flush()
        sys.stderr.write(text + "\n")

    def warn(self, text: str) -> None:
        self.note(f"warning: {words.clean(text)}")

    def json(self, body: Mapping[str, Any]) -> None:
        self.line(json_shapes.document(body))

    def show(self, body: Mapping[str, Any], lines: Iterable[str], *, pages: bool = True) -> None:
        """Prints a JSON document if `--json` was given, else lines, through the pager."""
        if self.as_json:
            self.json(body)
            return
        with self.pages() if pages else nullcontext():
            self.lines(lines)

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def clean(self, text: str) -> str:
        """Stored text, made harmless where a terminal may interpret it; untouched for a program."""
        return words.clean(text) if self.on_terminal or self.color else text

    @property
    def width(self) -> int:
        if not self.on_terminal:
            return 80
        import shutil

        return shutil.get_terminal_size((80, 24)).columns

    @contextmanager
    def pages(self) -> Iterator[None]:
        """What is written inside goes through the pager, when there is one; leaving the pager early is no error."""
        if not self._pager:
            yield
            return
        import subprocess

        process = subprocess.Popen(self._pager, stdin=subprocess.PIPE, encoding="utf-8", errors="surrogateescape")
        assert process.stdin is not None
        before, self._out = self._out, process.stdin
        try:
            with suppress(BrokenPipeError):
                yield
        finally:
            self._out = before
            with suppress(BrokenPipeError):
                process.stdin.close()
            _wait(process)


def _wait(process: Any) -> None:
    """Until the pager ends: it owns the terminal, and ^C there is its own key."""
    while True:
        with suppress(KeyboardInterrupt):
            process.wait()
            return


def open_screen(color: str, *, pager: bool = True, as_json: bool = False, settings: Settings | None = None) -> Screen:
    """Standard output as the options, the environment and the settings want it."""
    on_terminal = sys.stdout.isatty()
    colored = config.color(on_terminal, settings) if color == "auto" else color == "always"
    command = config.pager(settings) if pager and on_terminal else ""
    runnable = _find_pager(command) if command else ()
    return Screen(color=colored, on_terminal=on_terminal, pager=runnable, as_json=as_json)


def _find_pager(command: str) -> tuple[str, ...]:
    """The pager's words, or nothing when the machine has no such program. Plain less stays only when needed."""
    import shlex
    import shutil

    parts = tuple(shlex.split(command))
    if not parts or not shutil.which(parts[0]):
        return ()
    return ("less", "-FRX") if parts == _PLAIN_LESS else parts


class Progress:
    """A line on standard error that shows bytes, rate and time left. Call it with (bytes done, bytes in all, name)."""

    def __init__(self, verb: str, *, width: int = 80, clock: Callable[[], float] = time.monotonic) -> None:
        self._verb = verb
        self._width = width
        self._clock = clock
        self._start = clock()
        self._last = self._start + _PROGRESS_AFTER - _PROGRESS_EVERY
        self._drawn = False

    def __call__(self, done: int, total: int, name: str) -> None:
        now = self._clock()
        if now - self._last < _PROGRESS_EVERY:
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
        return "  ".join((*(part for part in parts if part), words.quote(name)))[: self._width - 1]

    def close(self) -> None:
        if self._drawn:
            sys.stderr.write("\r" + " " * (self._width - 1) + "\r")
            sys.stderr.flush()


@contextmanager
def show_progress(verb: str, screen: Screen) -> Iterator[Progress | None]:
    """A line on standard error, where a person reads it, while content travels."""
    progress = Progress(verb, width=screen.width) if sys.stderr.isatty() else None
    try:
        yield progress
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. The same command goes on where this one stopped.") from None
    finally:
        if progress is not None:
            progress.close()
