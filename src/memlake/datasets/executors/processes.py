"""Worker processes seen from the parent: started, asked, interrupted, and never left behind."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

from memlake.config import environment
from memlake.datasets.executors.frames import receive, send, widen
from memlake.errors import Unavailable

_LIVE: set[Worker] = set()


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
            [sys.executable, "-P", "-m", "memlake.datasets.executors.worker", str(inward), str(outward)],
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
