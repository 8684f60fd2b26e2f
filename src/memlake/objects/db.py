"""One SQLite file: how it is opened, read, and written by one writer at a time. Knows no table.

A write takes a file lock *before* BEGIN IMMEDIATE: SQLite's own busy handler lets some of eight
writers starve for seconds, the lock does not. Connections belong to one thread of one process.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import threading
import time
from array import array as numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from memlake.errors import Corrupt, Error, InvalidInput, Unavailable
from memlake.objects import disk

SAFE_SQLITE = (3, 51, 3)  # before it, two writers can corrupt a shared WAL
_PATIENCE = 10_000  # milliseconds
Row = tuple[Any, ...]
_AT_ONCE = 0.05  # seconds after letting go of a lock within which one who asks again lets others go first
_POLITE = 0.001
LONG = 2.0  # seconds of waiting for a lock after which a person wants to know for whom
_READ_ONLY = 1.0  # seconds that a database which could not be opened for writing is read without trying again
_TIGHT = 1 << 16  # with fewer bytes free than these, a failed write is one of a full disk


class Database:
    """A SQLite file in WAL mode. `durable` means an acknowledged write survives a power cut."""

    def __init__(self, path: Path, *, schema: Sequence[Path], durable: bool = True, vfs: str | None = None) -> None:
        self.path, self._schema, self._durable, self._vfs = path, schema, durable, vfs
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._local = threading.local()
        self._mutex = threading.RLock()
        self.lease_seconds = 3600  # how long a lease of this repo lasts without being renewed
        self._everyone: list[tuple[int, apsw.Connection]] = []
        self.closed = False

    # -- reading ------------------------------------------------------------------------------

    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        with self.named_errors():
            return self._connection().execute(sql, tuple(args)).fetchall()

    def row(self, sql: str, args: Sequence[Any] = ()) -> Row | None:
        with self.named_errors():
            return self._connection().execute(sql, tuple(args)).fetchone()

    def each(self, sql: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows one by one, for scans too large for memory."""
        with self.named_errors():
            yield from self._connection().execute(sql, tuple(args))

    def rows_in(self, sql: str, values: Iterable[Any], args: Sequence[Any] = ()) -> list[Row]:
        """Rows of a query with one `IN carray(?1)`; `values` are all blobs, all texts or all integers."""
        given = tuple(values)
        return self.rows(sql, (array(given), *args)) if given else []

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is one moment of the database, whatever writers do meanwhile."""
        connection = self._connection()
        if connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            try:
                connection.execute("COMMIT")
            except apsw.Error:  # the end of a scan over a damaged page; it was said, and nothing was written
                self._roll_back(connection)

    # -- writing ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        """One transaction. Nested uses join the outer one. Any error takes all of it back."""
        connection = self._connection()
        if getattr(self._local, "writing", False):
            yield
            return
        with self._mutex, self._file_lock(), self.named_errors():
            connection.execute("BEGIN IMMEDIATE")
            self._local.writing = True
            try:
                yield
                disk.step("commit")
                connection.execute("COMMIT")
            finally:
                self._local.writing = False
                if connection.in_transaction:  # SQLITE_FULL may have rolled back already
                    connection.execute("ROLLBACK")
            disk.step("committed")

    def run(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Run one statement of a write; returns how many rows it changed."""
        disk.step("sql")
        connection = self._connection()
        connection.execute(sql, tuple(args))
        return connection.changes()

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        disk.step("sql")
        self._connection().executemany(sql, rows)

    def run_in(self, sql: str, values: Iterable[Any], args: Sequence[Any] = ()) -> int:
        given = tuple(values)
        return self.run(sql, (array(given), *args)) if given else 0

    @contextlib.contextmanager
    def unwiped(self) -> Iterator[None]:
        """Deletions inside leave old bytes in free space, as SQLite does by default: far fewer pages are written."""
        self._connection().execute("PRAGMA secure_delete=OFF")
        try:
            yield
        finally:
            self._connection().execute("PRAGMA secure_delete=ON")

    @contextlib.contextmanager
    def durably(self) -> Iterator[None]:
        """Writes inside survive a power cut, also where the database is relaxed about it."""
        self._connection().execute("PRAGMA synchronous=FULL")
        try:
            yield
        finally:
            self._connection().execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")

    def last_id(self) -> int:
        return self._connection().last_insert_rowid()

    # -- keeping ------------------------------------------------------------------------------

    def checkpoint(self) -> bool:
        """Move the WAL into the database and empty it; False when a reader still needs it."""
        with self._mutex, self._file_lock(), self.named_errors():
            disk.step("checkpoint")
            connection = self._connection()
            connection.set_busy_timeout(100)  # we hold the lock: every writer waits while we wait for a reader
            try:
                row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.set_busy_timeout(_PATIENCE)
            return row is not None and row[0] == 0

    def vacuum(self) -> bool:
        """Rewrite the file without its free pages; False when others are using it."""
        with self._mutex, self._file_lock(), self.named_errors():
            disk.step("vacuum")
            try:
                self._connection().execute("VACUUM")
            except (apsw.BusyError, apsw.LockedError):
                return False
            return True

    def copy_to(self, path: Path) -> None:
        """A consistent copy while others read and write."""
        target = apsw.Connection(str(path))
        try:
            with target.backup("main", self._connection(), "main") as backup:
                while not backup.done:
                    backup.step(4096)
        finally:
            target.close()

    def integrity(self, *, full: bool) -> list[str]:
        sql = "PRAGMA integrity_check(100)" if full else "PRAGMA quick_check(100)"
        try:
            found = [str(row[0]) for row in self._connection().execute(sql)]
            return [text for text in found if text != "ok"] + (list(self._orphans()) if full else [])
        except (apsw.Error, Error) as error:
            return [str(error)]

    def _orphans(self) -> Iterator[str]:
        """SQLite compares rows with a partial index, but does not look for entries there that no row has any more."""
        sql = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'"
        for name, table, text in self.rows(sql):
            where = f"WHERE {text.partition(' WHERE ')[2]}"
            indexed = self.rows(f"SELECT count(*) FROM {table} INDEXED BY {name} {where}")
            there = self.rows(f"SELECT count(*) FILTER ({where}) FROM {table} NOT INDEXED")
            if indexed != there:
                yield f"index {name} has {indexed[0][0]} entries for {there[0][0]} rows of {table}"

    def close(self) -> None:
        """For good: what is asked afterwards, also by an iterator begun before, is refused."""
        with self._mutex:
            self.closed = True
            for pid, connection in self._everyone:
                if pid == os.getpid():
                    _close(connection)
            self._everyone.clear()
            self._local = threading.local()

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._named(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{error.object!r} is no valid text, and nothing is kept under it.") from error
        except OverflowError as error:
            raise InvalidInput("a number is too large to be looked for.") from error
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self.path.name} is damaged: {error}.", hint="Run memlake fsck.") from error

    def _named(self, error: apsw.Error) -> Error:
        what, name = str(error), self.path.name
        full = isinstance(error, (apsw.IOError, apsw.ReadOnlyError)) and disk.free_bytes(self.path.parent) < _TIGHT
        if full or isinstance(error, apsw.FullError):
            return Unavailable(
                f"the disk is full: {name} could not grow. Nothing was changed.",
                hint="Free some space, then run it again.",
            )
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SchemaChangeError)):
            return Corrupt(
                f"{name} is damaged: {what}.",
                hint="Run memlake fsck to see what is affected; restore a backup if you have one.",
            )
        if isinstance(error, apsw.BusyError):
            return Unavailable(
                f"{name} is busy: another process held it for over 10 s. Nothing was changed.",
                hint="Run it again; memlake doctor says who holds it.",
            )
        if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.NoMemError)):
            return Unavailable(
                f"{name} could not be read or written: {what}. Nothing was changed.",
                hint="Check the disk and its permissions, then run memlake doctor.",
            )
        return Corrupt(f"{name}: {what}.", hint="Run memlake fsck.")

    def _roll_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    # -- connections --------------------------------------------------------------------------

    def _connection(self) -> apsw.Connection:
        local = self._local
        if getattr(local, "pid", None) == os.getpid() and time.monotonic() < local.until:
            return local.connection  # type: ignore[no-any-return]
        if self.closed:
            raise InvalidInput(f"{self.path} was closed. Nothing was changed.", hint="Open the repo again.")
        # A connection carried over fork would share the parent's file locks and corrupt them.
        local.until = math.inf
        with self.named_errors():
            local.connection = self._open()
        local.pid, local.writing = os.getpid(), False
        self._everyone.append((local.pid, local.connection))
        return local.connection  # type: ignore[no-any-return]

    def _open(self) -> apsw.Connection:
        try:
            return self._open_for_writing()
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if not self._is_settled():
                raise
            # A full or read-only disk: SQLite cannot make its log there, but what is in the file can be read. Only for
            # a moment: when there is room again others write to it, and so may we.
            uri = self.path.absolute().as_uri() + "?immutable=1"
            found = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            if found.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                raise  # it could not even be made
            self._local.until = time.monotonic() + _READ_ONLY
            return found

    def _is_settled(self) -> bool:
        """Whether everything is in the database file itself and nothing in its log."""
        log = self.path.with_name(self.path.name + "-wal")
        return self._vfs is None and self.path.exists() and (not log.exists() or log.stat().st_size == 0)

    def _open_for_writing(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), vfs=self._vfs)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()  # else the error's own traceback keeps it open, and its locks with it
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(_PATIENCE)
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={'FULL' if self._durable else 'NORMAL'}",
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "secure_delete=ON",
            "cache_size=-32000",
            "journal_size_limit=8388608",
            "temp_store=MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            self._create(connection)

    def _create(self, connection: apsw.Connection) -> None:
        with self._mutex, self._file_lock():
            connection.execute("BEGIN IMMEDIATE")
            try:
                for file in self._schema:
                    connection.execute(
                        file.read_text(encoding="utf-8")
                    )  # IF NOT EXISTS: another process may have been first
                connection.execute("COMMIT")
            finally:
                self._roll_back(connection)

    def _file_lock(self) -> contextlib.AbstractContextManager[None]:
        return self._lock.held()


def _close(connection: apsw.Connection) -> None:
    """An error on closing is nobody's to see: the next one to open repairs. The locks must go all the same."""
    try:
        connection.close()
    except apsw.Error:
        connection.close(force=True)


class FileLock:
    """A lock between processes and threads, by flock on a file. The one who holds it may take it again.

    flock does not queue: whoever lets go and asks again at once tends to win over those it woke. So those who wait
    hold a shared lock on a second file, the waiting room, and one who comes back at once lets them go first.
    """

    def __init__(self, path: Path, waiting: Callable[[], None] | None = None) -> None:
        """`waiting` is called once, from a thread of its own, when the wait for the lock is LONG."""
        self._path, self._room = path, path.with_name(path.name + ".wait")
        self._waiting = waiting
        self._mutex = threading.RLock()
        self._depth = 0
        self._released = 0.0

    @contextlib.contextmanager
    def held(self, patience: float | None = None) -> Iterator[None]:
        """Wait for the lock and hold it; with `patience`, wait that many seconds and then raise Unavailable."""
        with self._mutex:
            fd = -1 if self._depth else self._take() if patience is None else self._take_within(patience)
            self._depth += 1
            try:
                if fd >= 0 and self._waiting is not None:
                    self.note("")
                yield
            finally:
                self._depth -= 1
                if fd >= 0:
                    os.close(fd)  # also releases the lock
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
                    time.sleep(_POLITE)
                with _telling(self._waiting):
                    fcntl.flock(room, fcntl.LOCK_SH)
                    fcntl.flock(fd, fcntl.LOCK_EX)
            finally:
                os.close(room)
            return fd

    def _take_within(self, patience: float) -> int:
        fd, end = _open_lock(self._path), time.monotonic() + patience
        while not _try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() > end:
                os.close(fd)
                raise Unavailable(f"{self._path.name} is held by another process. Nothing was changed.")
            time.sleep(_POLITE * 10)
        return fd

    def note(self, text: str) -> None:
        """Write into the lock's file who holds it and for what; it stays when the lock is let go. Only for people."""
        with contextlib.suppress(OSError):
            self._path.write_text(f"{os.getpid()} {text}", encoding="utf-8", errors="replace")

    def holder(self) -> str | None:
        """What the holder noted, "" when nothing; None when nobody, or this very object, holds it."""
        if self._depth:
            return None
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
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
            os.close(room)


@contextlib.contextmanager
def _telling(waiting: Callable[[], None] | None) -> Iterator[None]:
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


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def array(values: tuple[Any, ...]) -> Any:
    """Values for `IN carray(?)`: one lookup for all of them instead of one each."""
    if isinstance(values[0], int):
        return apsw.carray(numbers("q", values))
    return apsw.carray(values)
