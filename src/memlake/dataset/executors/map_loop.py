"""The one loop of every executor: items are pulled as there is room, results come as they are done.

And the executor that needs no loop: in this process, one item after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

Work = Callable[[Any], Any]


class Executor(Protocol):
    """Where work is done.

    `map` yields (index of the item, result) in any order. Items are pulled as there is room, so that few are in memory
    at once. When `work` has `open()`, each worker calls it before its first item, and `close()` after its last.
    An item may be done more than once (a worker died, a node was lost); its result is yielded once. When workers die
    of it time and again that is a failure, or for work whose `bears_loss` is true a Lost in place of its result.
    """

    @property
    def workers(self) -> int:
        """How many items are done at the same time."""

    def start_seconds(self) -> float:
        """What it costs now until the first item can be done elsewhere."""

    def warm(self) -> bool:
        """Start what it needs, in the background where that takes long; True when it is there."""

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """In place of a result: what the work raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Lost:
    """In place of a result, for work that bears it: every worker that was given the item died; `how` the last did."""

    how: str


class Channel(Protocol):
    """What one `map` speaks with: items go in, outcomes come out."""

    limit: int

    def start(self, index: int, item: Any) -> None: ...

    def collect(self) -> list[tuple[int, Any]]:
        """(index, result or Failure) of at least one item; waits for it."""

    def drop(self) -> int:
        """Give up the items nobody has begun; how many those were."""

    def close(self, *, cancelled: bool) -> None:
        """Leave nothing behind; when cancelled, also of items under way."""


def flow(channel: Channel, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """After a failure no new item is begun; what is under way is waited for and yielded, then the failure is raised."""
    numbered, under_way = enumerate(items), 0
    failures: dict[int, BaseException] = {}
    whole = False
    try:
        while True:
            for index, item in islice(numbered, 0 if failures else channel.limit - under_way):
                channel.start(index, item)
                under_way += 1
            if not under_way:
                break
            for index, outcome in channel.collect():
                under_way -= 1
                if isinstance(outcome, Failure):
                    failures[index] = outcome.error
                    under_way -= channel.drop()
                else:
                    yield index, outcome
        whole = not failures
    finally:
        channel.close(cancelled=not whole)
    if failures:
        raise failures[min(failures)]


class Crew:
    """A channel of up to `size` threads, started as items come. They are daemons: none keeps Python from ending."""

    def __init__(self, size: int) -> None:
        self.limit = 2 * size  # one under way and one waiting for each
        self._size = size
        self._inbox: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._outbox: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def outcome(self, index: int, item: Any) -> Any:
        """The result of an item, or a Failure; never raises, or the caller would wait for ever."""
        raise NotImplementedError

    def leave(self) -> None:
        """What a thread does after its last item."""

    def start(self, index: int, item: Any) -> None:
        self._inbox.put((index, item))
        if len(self._threads) < self._size:
            self._threads.append(threading.Thread(target=self._serve, daemon=True, name="memlake-executor"))
            self._threads[-1].start()

    def collect(self) -> list[tuple[int, Any]]:
        return [self._outbox.get()]

    def drop(self) -> int:
        dropped = 0
        try:
            while True:
                self._inbox.get_nowait()
                dropped += 1
        except Empty:
            return dropped

    def dismiss(self) -> None:
        """No item more; threads leave after the one they are at."""
        self.drop()
        for _ in self._threads:
            self._inbox.put(None)

    def wait(self, seconds: float | None = None) -> list[threading.Thread]:
        """Wait for the threads to leave; those that have not after so many seconds."""
        until = monotonic() + seconds if seconds is not None else None
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()) if until else None)
        return [thread for thread in self._threads if thread.is_alive()]

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            index, item = task
            self._outbox.put((index, self.outcome(index, item)))
            del task, item  # not held while waiting for the next
        self.leave()


class Serial:
    """In this process, one item after the other."""

    workers = 1

    def start_seconds(self) -> float:
        return 0.0

    def warm(self) -> bool:
        return True

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        with keep_open(work):
            for index, item in enumerate(items):
                yield index, work(item)


@contextmanager
def keep_open(work: Work) -> Iterator[None]:
    """`open()` of work before its first item, when it has one, and `close()` after the last."""
    if hasattr(work, "open"):
        work.open()
    try:
        yield
    finally:
        if hasattr(work, "close"):
            work.close()
