"""A pool of worker processes: warm, kept for the life of this process, one for each number of workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from memlake.datasets.executors.flow import Failure, Work, flow
from memlake.datasets.executors.processes import Died, Worker
from memlake.datasets.executors.sending import Blob, blob_of
from memlake.errors import InvalidInput, Unavailable

TRIES = 3
COLD_SECONDS, WARM_SECONDS = 0.6, 0.02  # until a worker runs its first item: Python and pyarrow are imported, or were
FINISH_SECONDS, STOP_SECONDS = 0.1, 1.0  # a cancelled item may end by itself, then by KeyboardInterrupt


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(n: int) -> Pool:
    """The pool of `n` worker processes, the same one every time."""
    return Pool(n)


class Pool:
    """Worker processes, started when first needed. Each `map` has its workers to itself, so maps may be nested."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise InvalidInput(f"A pool of {n} workers can do nothing. Nothing was run.", hint="ask for 1 or more")
        self.workers = n
        self._idle: list[Worker] = []
        os.register_at_fork(after_in_child=self._idle.clear)

    def start_seconds(self) -> float:
        return WARM_SECONDS if self._idle else COLD_SECONDS

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return flow(_Job(self, blob_of(work)), items)

    def hire(self) -> Worker:
        """A worker nobody uses, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return Worker(threads=max(1, cores() // self.workers))

    def let_go(self, worker: Worker) -> None:
        if len(self._idle) < self.workers:
            self._idle.append(worker)
        else:
            worker.end()


class _Job:
    """One `map`: a thread for each worker asks it item by item; the caller's thread pulls items and takes results."""

    def __init__(self, pool: Pool, blob: Blob) -> None:
        self.limit = 2 * pool.workers  # one under way and one waiting for each
        self._pool, self._blob = pool, blob
        self._inbox: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._outbox: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._hired: dict[threading.Thread, Worker | None] = {}
        self._cancelled = False
        self._closing_failure: BaseException | None = None

    # -- the caller's thread

    def start(self, index: int, item: Any) -> None:
        self._inbox.put((index, item))
        if len(self._hired) < self._pool.workers:
            thread = threading.Thread(target=self._ask_one_worker, daemon=True, name="memlake-pool")
            self._hired[thread] = None
            thread.start()

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

    def close(self, *, cancelled: bool) -> None:
        self._cancelled = cancelled
        self.drop()
        for _ in self._hired:
            self._inbox.put(None)
        if cancelled:
            self._stop()
        for thread in self._hired:
            thread.join()
        if self._closing_failure and not cancelled:
            raise self._closing_failure

    def _stop(self) -> None:
        """Items under way may end by themselves, then by KeyboardInterrupt, then they are killed."""
        self._wait(FINISH_SECONDS)
        for thread, worker in self._hired.items():
            if thread.is_alive() and worker:
                worker.interrupt()
        self._wait(STOP_SECONDS)
        for thread, worker in self._hired.items():
            if thread.is_alive() and worker:
                worker.kill()

    def _wait(self, seconds: float) -> None:
        until = monotonic() + seconds
        for thread in self._hired:
            thread.join(max(0.0, until - monotonic()))

    # -- the thread of a worker

    def _ask_one_worker(self) -> None:
        while (task := self._inbox.get()) is not None:
            index, item = task
            self._outbox.put((index, self._outcome(index, item)))
            del task, item  # not held while waiting for the next
        self._let_go()

    def _outcome(self, index: int, item: Any) -> Any:
        """The result of an item, tried again on a new worker when one dies of it."""
        try:
            died = Died("")
            for _ in range(TRIES):
                try:
                    answer, result = self._worker().ask("item", item)
                    return result if answer == "done" else Failure(result)
                except Died as error:
                    self._hired[threading.current_thread()] = None
                    died = error
                    if self._cancelled:
                        break
            return Failure(_gave_up(index, died))
        except BaseException as error:  # noqa: BLE001 - pickling runs the user's code; it is raised in the caller's thread
            return Failure(error)

    def _worker(self) -> Worker:
        """The worker of this thread, with the work in it."""
        thread = threading.current_thread()
        while (worker := self._hired[thread]) is None:
            if self._cancelled:
                raise Died("not started: cancelled")
            hired = self._hired[thread] = self._pool.hire()
            is_old = hired.is_up
            try:
                ready = hired.ready(self._blob)
            except Died:
                self._hired[thread] = None
                if not is_old:
                    raise
                continue  # it died while nobody used it: not the item's fault
            if not ready:
                hired.end()
                self._hired[thread] = None
        return worker

    def _let_go(self) -> None:
        thread = threading.current_thread()
        if worker := self._hired[thread]:
            try:
                answer, result = worker.ask("end", None)
            except Died:
                return
            if answer == "failed":
                self._closing_failure = result
            self._hired[thread] = None
            self._pool.let_go(worker)


def _gave_up(index: int, died: Died) -> Unavailable:
    memory = "SIGKILL" in died.how
    return Unavailable(
        f"The worker process was {died.how} at item {index}, {TRIES} times, each time a new process. "
        "The results of the other items were kept.",
        hint="the system kills processes when memory is short: use fewer workers or smaller batches"
        if memory
        else "run it with one worker (in process) to see where it stops",
    )
