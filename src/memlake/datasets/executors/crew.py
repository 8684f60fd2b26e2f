"""Threads that take items from the caller and bring outcomes back. What one does with an item, a channel says."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any


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

    def finished(self) -> list[tuple[int, Any]]:
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
