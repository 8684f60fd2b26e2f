"""For functions that wait, not compute: threads of this process, or coroutines of one event loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from memlake.dataset.executors.map_loop import Crew, Failure, Work, flow, keep_open
from memlake.errors import InvalidInput

if TYPE_CHECKING:
    import asyncio

STOP_SECONDS = 1.0  # how long a cancelled coroutine may take to clean up


def threads(n: int) -> Threads:
    """`n` threads of this process."""
    return Threads(_check_count(n))


def run_threads(function: Callable[..., Any], rows: Iterable[tuple[Any, ...]], n: int) -> Iterator[tuple[int, Any]]:
    """function(*row) of up to `n` rows at the same time; (index, value) as they are done."""
    return flow(_Rows(lambda row: function(*row), _check_count(n)), rows)


def run_async(
    function: Callable[..., Awaitable[Any]], rows: Iterable[tuple[Any, ...]], concurrency: int
) -> Iterator[tuple[int, Any]]:
    """await function(*row) of up to `concurrency` rows at the same time; (index, value) as they are done.

    One event loop serves all rows in a thread of its own, so it works where a loop runs already, as in a notebook.
    A row begins when another ends: rows that were read together do not wait for the slowest of them.
    """
    return flow(_Tasks(function, _check_count(concurrency)), rows)


def _check_count(n: int) -> int:
    if n < 1:
        raise InvalidInput(f"{n} at the same time can do nothing. Nothing was run.", hint="ask for 1 or more")
    return n


class Threads:
    def __init__(self, n: int) -> None:
        self.workers = n

    def start_seconds(self) -> float:
        return 0.0

    def warm(self) -> bool:
        return True

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        with keep_open(work):
            yield from flow(_Rows(work, self.workers), items)


class _Rows(Crew):
    def __init__(self, work: Work, n: int) -> None:
        super().__init__(n)
        self._work = work

    def outcome(self, index: int, item: Any) -> Any:  # noqa: ARG002 - of the pool, which names the item
        try:
            return self._work(item)
        except BaseException as error:  # noqa: BLE001 - the user's code; raised in the caller's thread
            return Failure(error)

    def close(self, *, cancelled: bool) -> None:
        self.dismiss()
        if not cancelled:  # a thread cannot be interrupted: what it is at ends unheard
            self.wait()


class _Tasks:
    """A thread with an event loop, and a task for each row under way."""

    def __init__(self, function: Callable[..., Awaitable[Any]], limit: int) -> None:
        self.limit = limit
        self._function = function
        self._waiting: deque[tuple[int, tuple[Any, ...]]] = deque()
        self._outbox: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False
        self._running: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- the caller's thread

    def start(self, index: int, item: tuple[Any, ...]) -> None:
        if self._loop is None:
            import asyncio  # 15 ms, which only coroutines need

            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._serve()), daemon=True, name="memlake-async"
            )
            self._thread.start()
            self._loop, self._over = self._running.get()
        self._waiting.append((index, item))
        if not self._woken:  # waking the loop is dear: once for all rows that wait
            self._woken = True
            self._loop.call_soon_threadsafe(self._begin_waiting)

    def collect(self) -> list[tuple[int, Any]]:
        done = [self._outbox.get()]
        try:
            while True:
                done.append(self._outbox.get_nowait())
        except Empty:
            return done

    def drop(self) -> int:
        dropped = 0
        try:
            while True:
                self._waiting.pop()
                dropped += 1
        except IndexError:
            return dropped

    def close(self, *, cancelled: bool) -> None:
        self.drop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(STOP_SECONDS if cancelled else None)

    # -- the thread of the loop

    async def _serve(self) -> None:
        """Ends when told to; asyncio.run then cancels the tasks that are left, and waits for them."""
        import asyncio

        over = asyncio.Event()
        self._running.put((asyncio.get_running_loop(), over))
        await over.wait()

    def _begin_waiting(self) -> None:
        assert self._loop is not None
        self._woken = False  # before looking: a row that comes now wakes us again
        while self._waiting:
            try:
                index, row = self._waiting.popleft()
            except IndexError:  # dropped just now
                return
            task = self._loop.create_task(self._run(index, row))
            self._tasks.add(task)  # the loop itself holds tasks only weakly
            task.add_done_callback(self._tasks.discard)

    async def _run(self, index: int, row: tuple[Any, ...]) -> None:
        try:
            self._outbox.put((index, await self._function(*row)))
        except BaseException as error:  # noqa: BLE001 - the user's code; raised in the caller's thread
            self._outbox.put((index, Failure(error)))
