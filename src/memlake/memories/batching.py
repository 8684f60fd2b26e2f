"""Embeds in the background: texts are collected into batches, vectors delivered in the order texts came.

A thread and a list; what must survive the process is kept by whoever calls. Knows no embedder and no place for vectors,
only the two functions it is given.
"""

from __future__ import annotations

import atexit
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

from memlake.errors import Denied, Unavailable
from memlake.memories.backoff import delay

Key = TypeVar("Key")
Embed = Callable[[Sequence[str]], Any]
AT_EXIT = 1.0  # seconds an ending interpreter gives to what is left
log = logging.getLogger(__name__)


class Batcher(Generic[Key]):
    """Calls `embed` with up to `size` texts, or with what there is after `seconds`, then `deliver` with the vectors.

    While either says Unavailable (or Denied: a key someone may mend) the batch is tried again, later and later, and
    those behind it wait. Any other error is the batch's own: it is tried text by text, and a text that fails alone is
    given up, logged and told to `failed`. The thread starts with the first text and never keeps a process alive.
    """

    def __init__(
        self,
        embed: Embed,
        deliver: Callable[[Sequence[Key], Any], None],
        *,
        size: int = 32,
        seconds: float = 1.0,
        failed: Callable[[Key, Exception], None] | None = None,
    ) -> None:
        self._embed, self._deliver, self._failed = embed, deliver, failed
        self._size, self._seconds = size, seconds
        self._waiting: deque[tuple[Key, str]] = deque()
        self._busy = 0  # texts of the batch in hand
        self._hurry = 0  # who waits in `flush`
        self._closed = False
        self._oldest = 0.0
        self._change = Condition()
        self._thread: Thread | None = None
        self.problem: Exception | None = None  # why the last try did not succeed, None once one does

    @property
    def pending(self) -> int:
        """Texts not delivered yet."""
        with self._change:
            return len(self._waiting) + self._busy

    def add(self, key: Key, text: str) -> None:
        with self._change:
            if self._closed:
                raise Unavailable("this batcher is closed; the text was not taken.")
            if not self._waiting:
                self._oldest = time.monotonic()
            self._waiting.append((key, text))
            self._start()
            self._change.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Embed what waits now, not after `seconds`; whether all of it was delivered within `timeout`."""
        with self._change:
            self._hurry += 1
            self._change.notify_all()
            done = self._change.wait_for(lambda: not self._waiting and not self._busy, timeout)
            self._hurry -= 1
            return done

    def close(self, timeout: float = AT_EXIT) -> bool:
        """Flush for up to `timeout` and stop; whether nothing was left behind. Closing twice does nothing more."""
        done = self.flush(0 if self._closed else timeout)
        with self._change:
            self._closed = True
            self._change.notify_all()
        atexit.unregister(self.close)
        return done

    # -- the thread

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # not alive: this is the child of a fork
            self._busy = 0
            self._thread = Thread(target=self._work, name="memlake-embedding", daemon=True)
            self._thread.start()
            atexit.unregister(self.close)
            atexit.register(self.close)

    def _work(self) -> None:
        while batch := self._take():
            self._handle(batch)
            with self._change:
                self._busy = 0
                self._change.notify_all()

    def _take(self) -> list[tuple[Key, str]]:
        """The next batch once it is full, old enough or wanted now; nothing when closed."""
        with self._change:
            while not self._closed:
                left = self._oldest + self._seconds - time.monotonic()
                if self._waiting and (self._hurry or left <= 0 or len(self._waiting) >= self._size):
                    break
                self._change.wait(left if self._waiting else None)
            if self._closed:
                return []
            self._busy = min(self._size, len(self._waiting))
            return [self._waiting.popleft() for _ in range(self._busy)]

    def _handle(self, batch: list[tuple[Key, str]]) -> None:
        try:
            vectors = self._until_done(lambda: self._embed([text for _, text in batch]))
            self._until_done(lambda: self._deliver([key for key, _ in batch], vectors))
        except _Closed:
            return
        except Exception as error:  # noqa: BLE001 - a text, a provider or a library may fail in any way; the thread stays
            if len(batch) == 1:
                self._give_up(batch[0][0], error)
                return
            for one in batch:
                self._handle([one])

    def _until_done(self, call: Callable[[], Any]) -> Any:
        """What the call returns, tried again while it is unavailable."""
        attempt = 0
        while True:
            try:
                result = call()
            except (Unavailable, Denied) as error:
                self.problem = error
                log.info("embedding waits: %s", error.message)
                with self._change:
                    if self._change.wait_for(lambda: self._closed, delay(attempt, random.random())):
                        raise _Closed from None
                attempt += 1
            else:
                self.problem = None
                return result

    def _give_up(self, key: Key, error: Exception) -> None:
        self.problem = error
        log.warning("a text was not embedded and is found by its words alone: %s", error)
        if self._failed is not None:
            try:
                self._failed(key, error)
            except Exception:
                log.exception("what to do with a text that was not embedded failed too")


class _Closed(Exception):
    """The batcher was closed while it waited; the batch in hand is left where it came from."""
