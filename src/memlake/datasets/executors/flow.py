"""The one loop of every executor: items are pulled as there is room, results come as they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
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

    def finished(self) -> list[tuple[int, Any]]:
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
            for index, outcome in channel.finished():
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
