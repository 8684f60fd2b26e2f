"""A lock between processes that lets those who wait take turns. Knows no database and no table."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from memlake import nofollow
from memlake.errors import Unavailable
from memlake.objects import disk, forks

LONG = 2.0  # seconds of waiting for a lock after which a person wants to know for whom
POLITE = 0.001  # seconds of sleep that let others run
_AT_ONCE = 0.05  # seconds after letting go of a lock within which one who asks again lets others go first


class FileLock:
    """A lock between processes and threads, by flock on a file. The one who holds it may take it again.

    flock does not queue: whoever lets go and asks again at once tends to win over those it woke. So those who wait
    hold a shared lock on a second file, the waiting room, and one who comes back at once lets them go first.
    """

    def __init__(self, path: Path, waiting: Callable[[], None] | None = None) -> None:
        """`waiting` is called once, from a thread of its own, when the wait for the lock is LONG."""
        self._path, self._room = path, path.with_name(path.name + ".wait")
        self._waiting = waiting
        self._mutex = forks.Mutex()
        self._depth = 0
        self._released = 0.0
        _locks.add(self)

    def begin_anew(self) -> None:
        """In a forked child: whoever held it is the parent, and its lock ends with the parent's."""
        self._depth = 0

    @contextlib.contextmanager
    def held(self, patience: float | None = None) -> Iterator[None]:
        """Wait for the lock and hold it; with `patience`, wait that many seconds and then raise Unavailable."""
        with self._mutex:
            fd = -1 if self._depth else self._take() if patience is None else self._take_within(patience)
            process = os.getpid()
            self._depth += 1
            try:
                if fd >= 0 and self._waiting is not None:
                    self.note("")
                yield
            finally:
                if process == os.getpid():
                    self._depth -= 1
                    self._let_go(fd)

    def _let_go(self, fd: int) -> None:
        if fd >= 0:
            if self._waiting is not None:
                os.ftruncate(fd, 0)  # what was noted may name what a purge erases later
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing is not enough where a child of fork has it open, too
            _close_lock(fd)
            self._released = time.monotonic()

    def _take(self) -> int:
        with disk.named_errors(f"taking {self._path.name}"):
            fd = _open_lock(self._path)
            back_at_once = time.monotonic() - self._released < _AT_ONCE
            if not (back_at_once and self._others_wait()) and _try_lock(fd, fcntl.LOCK_EX):
                return fd
            room = _open_lock(self._room)
            try:
                if back_at_once:
                    time.sleep(POLITE)
                with _announce_long_wait(self._waiting):
                    fcntl.flock(room, fcntl.LOCK_SH)
                    fcntl.flock(fd, fcntl.LOCK_EX)
            finally:
                fcntl.flock(room, fcntl.LOCK_UN)
                _close_lock(room)
            return fd

    def _take_within(self, patience: float) -> int:
        fd, end = _open_lock(self._path), time.monotonic() + patience
        while not _try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() > end:
                _close_lock(fd)
                raise Unavailable(f"{self._path.name} is held by another process. Nothing was changed.")
            time.sleep(POLITE * 10)
        return fd

    def note(self, text: str) -> None:
        """Write into the lock's file who holds it and for what, until it is let go. Only for people."""
        with contextlib.suppress(OSError):
            fd = nofollow.open_file(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                os.write(fd, f"{os.getpid()} {text}".encode(errors="replace"))
            finally:
                os.close(fd)

    def holder(self) -> str | None:
        """What the holder noted, "" when nothing; None when nobody, or this very object, holds it."""
        if self._depth:
            return None
        try:
            fd = nofollow.open_file(self._path, os.O_RDWR)
        except OSError:
            return None
        try:
            return None if _try_lock(fd, fcntl.LOCK_EX) else os.pread(fd, 1000, 0).decode(errors="replace")
        finally:
            os.close(fd)

    def _others_wait(self) -> bool:
        room = _open_lock(self._room)
        try:
            return not _try_lock(room, fcntl.LOCK_EX)
        finally:
            _close_lock(room)


@contextlib.contextmanager
def _announce_long_wait(waiting: Callable[[], None] | None) -> Iterator[None]:
    if waiting is None:
        yield
        return
    timer = threading.Timer(LONG, waiting)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()
_lock_files: set[int] = set()  # a child closes them: else it would hold what its parent holds, also after its death


def _open_lock(path: Path) -> int:
    fd = nofollow.open_file(path, os.O_RDWR | os.O_CREAT)
    _lock_files.add(fd)
    return fd


def _close_lock(fd: int) -> None:
    _lock_files.discard(fd)
    os.close(fd)


def _leave_locks() -> None:
    for fd in _lock_files:
        with contextlib.suppress(OSError):
            os.close(fd)
    _lock_files.clear()
    for lock in list(_locks):
        lock.begin_anew()


os.register_at_fork(after_in_child=_leave_locks)


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
