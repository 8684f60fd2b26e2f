"""A pool of worker processes: warm, kept for the life of this process, and never left behind."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from memlake.config import environment
from memlake.dataset.executors.map_loop import Crew, Failure, Lost, Work, flow
from memlake.dataset.executors.messages import EMPTY, Blob, blob_of, receive, send, widen
from memlake.errors import InvalidInput, Unavailable

TRIES = 2  # one death may be anybody's doing: the first item is to blame when it kills twice, further ones at once
COLD_SECONDS, WARM_SECONDS = 0.6, 0.02  # until a worker runs its first item: Python and pyarrow are imported, or were
_OPENING = "while the work was opened"
FINISH_SECONDS, STOP_SECONDS = 0.1, 1.0  # a cancelled item may end by itself, then by KeyboardInterrupt
_LIVE: set[Worker] = set()


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
        self._warming = threading.Lock()
        os.register_at_fork(after_in_child=self._idle.clear)

    def start_seconds(self) -> float:
        return WARM_SECONDS if self._idle else COLD_SECONDS

    def warm(self) -> bool:
        if self._idle and not self._warming.locked():
            return True
        if self._warming.acquire(blocking=False):
            threading.Thread(target=self._start_all, daemon=True, name="memlake-warm").start()
        return False

    def _start_all(self) -> None:
        """Start the workers that are missing, all at once, and wait until each has answered."""
        try:
            for worker in [self._new() for _ in range(self.workers - len(self._idle))]:
                with contextlib.suppress(Died):  # a map will see, and say it
                    worker.ready(EMPTY)
                    self.let_go(worker)
        except (Died, Unavailable, OSError):  # the last: Python is ending, and has closed the pipes
            return
        finally:
            self._warming.release()

    def map(self, work: Work, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return flow(_Job(self, blob_of(work), bears_loss=getattr(work, "bears_loss", False)), items)

    def hire(self) -> Worker:
        """A worker nobody uses, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._new()

    def _new(self) -> Worker:
        return Worker(threads=max(1, cores() // self.workers))

    def let_go(self, worker: Worker) -> None:
        if len(self._idle) < self.workers:
            self._idle.append(worker)
        else:
            worker.end()


class _Job(Crew):
    """One `map`: a thread for each worker asks it item by item."""

    def __init__(self, pool: Pool, blob: Blob, *, bears_loss: bool) -> None:
        super().__init__(pool.workers)
        self._pool, self._blob, self._bears_loss = pool, blob, bears_loss
        self._hired: dict[threading.Thread, Worker] = {}
        self._cancelled = self._has_lost = False
        self._closing_failure: BaseException | None = None

    def close(self, *, cancelled: bool) -> None:
        self._cancelled = cancelled
        self.dismiss()
        if cancelled:
            self._stop()
        self.wait()
        if self._closing_failure and not cancelled:
            raise self._closing_failure

    def _stop(self) -> None:
        """Items under way may end by themselves, then by KeyboardInterrupt, then they are killed."""
        for thread in self.wait(FINISH_SECONDS):
            if worker := self._hired.get(thread):
                worker.interrupt()
        for thread in self.wait(STOP_SECONDS):
            if worker := self._hired.get(thread):
                worker.kill()

    # -- the thread of a worker

    def outcome(self, index: int, item: Any) -> Any:
        """The result of an item, tried again on a new worker when one dies of it."""
        deaths = {_OPENING: 0, (at_item := f"at item {index}"): 0}
        try:
            while True:
                stage = _OPENING  # what dies of that is no item's fault
                try:
                    worker = self._worker()
                    stage = at_item
                    answer, result = worker.ask("item", item)
                    return result if answer == "done" else Failure(result)
                except Died as died:
                    self._hired.pop(threading.current_thread(), None)
                    deaths[stage] += 1
                    bears = self._bears_loss and stage == at_item
                    if deaths[stage] == TRIES or self._cancelled or (bears and self._has_lost):
                        self._has_lost = bears
                        return Lost(died.how) if bears else Failure(_gave_up(stage, died))
        except BaseException as error:  # noqa: BLE001 - pickling runs the user's code; raised in the caller's thread
            return Failure(error)

    def leave(self) -> None:
        worker = self._hired.get(threading.current_thread())
        if worker is None:
            return
        try:
            answer, result = worker.ask("end", None)
        except Died:  # cancelled, or by itself after its last result: nothing is lost
            return
        if answer == "failed":
            self._closing_failure = result
        self._pool.let_go(worker)

    def _worker(self) -> Worker:
        """The worker of this thread, with the work opened in it."""
        thread = threading.current_thread()
        while thread not in self._hired:
            if self._cancelled:
                raise Died("was not started")
            worker = self._hired[thread] = self._pool.hire()
            was_idle = worker.is_up
            try:
                if worker.ready(self._blob):
                    answer, result = worker.ask("open", None)
                    if answer == "failed":
                        raise result
                    break
                worker.end()
            except Died:
                if not was_idle:  # one that died while nobody used it is not the item's fault
                    raise
            del self._hired[thread]
        return self._hired[thread]


def _gave_up(stage: str, died: Died) -> Unavailable:
    return Unavailable(
        f"The worker process {died.how} {stage}, {TRIES} times, each time a new process. "
        "The results of the other items were kept.",
        hint="the system kills processes when memory is short: use fewer workers or smaller batches"
        if "SIGKILL" in died.how
        else "run it with one worker (in process) to see where it stops",
    )


# -- one worker process


class Died(Exception):
    """A worker process ended before it answered; `how` says by which signal or exit code."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Worker:
    """One process of a pool. One caller at a time asks it."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.is_up = False
        theirs_in, self._outward = os.pipe()
        self._inward, theirs_out = os.pipe()
        try:
            self._process = self._start(theirs_in, theirs_out)
        except OSError as error:
            os.close(self._outward)
            os.close(self._inward)
            raise Unavailable(
                f"A worker process could not be started: {error}", hint="ask for fewer workers"
            ) from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        widen(self._outward)
        widen(self._inward)
        _LIVE.add(self)

    def _start(self, inward: int, outward: int) -> subprocess.Popen[bytes]:
        # A group of its own: Ctrl-C on the terminal is for the parent, and a kill reaches what the work started.
        # Not multiprocessing: that would import a script without `if __name__` again, and cannot from stdin.
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                f"from memlake.dataset.executors.worker import main; main({inward}, {outward})",
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(inward, outward),
            process_group=0,
            env=self._environment() | {"PYTHONPATH": os.pathsep.join(_path())},
        )

    def _environment(self) -> dict[str, str]:
        # Numeric libraries start a thread per core in every worker; together they would be slower than one.
        return {"OMP_NUM_THREADS": str(self._threads)} | environment()

    def ready(self, blob: Any) -> bool:
        """Hand it the work of a job; False when it holds old code of the user's and must be replaced."""
        answer, _ = self.ask("job", (_path(), list(sys.argv), os.getcwd(), self._environment()), blob)
        self.is_up = True
        return bool(answer == "ready")

    def ask(self, *message: Any) -> Any:
        """Send a message and wait for the answer; Died when the process ended instead."""
        try:
            send(self._outward, message)
            return receive(self._inward)
        except (EOFError, BrokenPipeError, ConnectionError):
            raise Died(self.end()) from None

    def interrupt(self) -> None:
        """Ask it to stop by KeyboardInterrupt; one that is still starting has nothing to clean up."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT if self.is_up else signal.SIGKILL)

    def kill(self) -> None:
        """End it and what it started, now. Whoever waits for its answer sees Died and calls end()."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> str:
        """Kill it, wait until it is gone, close the pipes; how it ended."""
        try:
            _LIVE.remove(self)
        except KeyError:  # by another thread: Python is ending
            return "was ended before"
        self.kill()  # one that is ending by itself keeps its own signal or code
        code = self._process.wait()
        self.forget()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def forget(self) -> None:
        os.close(self._outward)
        os.close(self._inward)


def _path() -> list[str]:
    return [str(entry) for entry in sys.path]  # some put a Path there


@atexit.register
def _end_all() -> None:
    for worker in list(_LIVE):
        worker.kill()
    for worker in list(_LIVE):
        worker.end()


def _forget_all() -> None:
    """In a fork: the workers are the parent's. Our copies of the pipes would keep them alive after it."""
    for worker in _LIVE:
        worker.forget()
    _LIVE.clear()


os.register_at_fork(after_in_child=_forget_all)
