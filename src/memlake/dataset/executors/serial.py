"""In this process, one item after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from memlake.dataset.executors.map_loop import Work


class Serial:
    workers = 1

    def start_seconds(self) -> float:
        return 0.0

    def warm(self) -> bool:
        return True

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        with opened(work):
            for index, item in enumerate(items):
                yield index, work(item)


@contextmanager
def opened(work: Work) -> Iterator[None]:
    """`open()` of work before its first item, when it has one, and `close()` after the last."""
    getattr(work, "open", _nothing)()
    try:
        yield
    finally:
        getattr(work, "close", _nothing)()


def _nothing() -> None:
    pass


def serial() -> Serial:
    return Serial()
