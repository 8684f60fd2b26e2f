"""Forks: no open database and no held lock goes over to a child process. Knows no table.

SQLite keeps in memory which locks its process has on a file. A forked child inherits that memory but not the locks, so
it would read and write unlocked, and what it commits is lost when its parent closes the file and removes the log. So
idle connections are closed before a fork, and whoever needs one afterwards opens it again. A connection that is in use
cannot be closed; then the child may never open that file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import apsw

from memlake.errors import Unavailable

PATIENCE = 5.0  # seconds that a fork waits for transactions and scans of other threads to end
_POLITE = 0.001


class Holder(Protocol):
    """What has connections to one file: a Database."""

    path: Path

    def let_go(self) -> tuple[int, int]:
        """Close idle connections. Returns how many are still in use by other threads, and by this one."""

    def begin_anew(self) -> None:
        """In a child: forget the connections of the parent."""


class Mutex:
    """A lock that its thread may take again, and that is free in a forked child, where its holder does not exist."""

    _make: Callable[[], Any] = staticmethod(threading.RLock)

    def __init__(self) -> None:
        self._lock = self._make()
        _mutexes.add(self)

    def begin_anew(self) -> None:
        self._lock = self._make()

    def acquire(self, timeout: float = -1) -> bool:
        return bool(self._lock.acquire(timeout=timeout))

    def release(self) -> None:
        with contextlib.suppress(RuntimeError):  # taken before a fork and released in the child
            self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Latch(Mutex):
    """A Mutex that one thread takes and another may release; nobody takes it twice."""

    _make = staticmethod(threading.Lock)


_mutexes: weakref.WeakSet[Mutex] = weakref.WeakSet()


class _Gate:
    """Lets forks wait until connections are opened, and openings wait until forks are done."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._opening = self._forks = 0

    @contextlib.contextmanager
    def guard_opening(self) -> Iterator[None]:
        with self._changed:
            # A fork waits for threads in the middle of a write, so these may open what they need to end it.
            self._changed.wait_for(lambda: not self._forks or _this_thread.depth)
            self._opening += 1
        try:
            yield
        finally:
            with self._changed:
                self._opening -= 1
                self._changed.notify_all()

    def shut(self) -> bool:
        """Stop new openings; whether those under way ended in time."""
        with self._changed:
            self._forks += 1
            return self._changed.wait_for(lambda: not self._opening, PATIENCE)

    def open_again(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


class _Thread(threading.local):
    depth = 0  # writes that this thread is inside of


_this_thread = _Thread()


class _Process:
    """What this process has open, and which files it may not open because its parent was using them."""

    def __init__(self, refused: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.gate, self.refused = _Gate(), refused
        self.used: dict[int, set[tuple[int, int]]] = {}  # by the thread that forks


_process = _Process()
_holders: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[list[apsw.Connection]] = []  # a child must not even free them: SQLite would close the parent's


def add(holder: Holder) -> None:
    _holders.add(holder)


@contextlib.contextmanager
def guard_opening(path: Path) -> Iterator[None]:
    """Hold this while opening a connection to `path`. It waits until no fork is under way."""
    if _process.refused and _identity(path) in _process.refused:
        raise Unavailable(
            f"this process was forked while its parent was using {path}, so it cannot use that file safely. "
            "Nothing was changed.",
            hint="Start processes with the multiprocessing method spawn or forkserver, or fork outside of a write.",
        )
    with _process.gate.guard_opening():
        yield


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Hold this during a transaction, which a fork then waits for."""
    _this_thread.depth += 1
    try:
        yield
    finally:
        _this_thread.depth -= 1


def check_process(process: int) -> None:
    """Refuse to end, in a child, the transaction of its parent."""
    if process != os.getpid():
        raise Unavailable(
            "this process was forked in the middle of a write, which belongs to its parent. Nothing was changed here.",
            hint="Leave the write before you fork.",
        )


def _prepare() -> None:
    end, is_quiet = time.monotonic() + PATIENCE, _process.gate.shut()
    while True:
        counts = {holder: holder.let_go() for holder in list(_holders)}
        is_idle = not any(others for others, _ in counts.values())
        if is_idle or time.monotonic() > end:
            break
        time.sleep(_POLITE)
    # A thread that is still at work may be opening any of the other files, too.
    used = [holder.path for holder, (_, own) in counts.items() if own or not (is_idle and is_quiet)]
    _process.used[threading.get_ident()] = {identity for path in used if (identity := _identity(path)) is not None}
    _inherited.append(apsw.connections())


def _go_on() -> None:
    _inherited.pop()
    _process.used.pop(threading.get_ident(), None)
    _process.gate.open_again()


def _begin_anew() -> None:
    global _process  # noqa: PLW0603
    _process = _Process(_process.refused | _process.used.get(threading.get_ident(), set()))
    for mutex in list(_mutexes):
        mutex.begin_anew()
    for holder in list(_holders):
        holder.begin_anew()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_begin_anew)
