"""One SQLite file: how it is opened, read, and written by one writer at a time. Knows no table.

A write takes a file lock *before* BEGIN IMMEDIATE: SQLite's own busy handler lets some of eight
writers starve for seconds, the lock does not. Connections belong to one thread of one process (see forks.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import math
import os
import re
import sys
import threading
import time
import weakref
from array import array as numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from memlake import nofollow
from memlake.errors import Corrupt, Denied, Error, InvalidInput, Unavailable, pasted
from memlake.objects import disk, forks

_NO_LINK = apsw.SQLITE_OPEN_NOFOLLOW
_CHECKSUMS = "cksmvfs"
SAFE_SQLITE = (3, 51, 3)  # before it, two writers can corrupt a shared WAL
# Seconds that a database held by others is waited for. To wait is no error, and ours let go within moments; this is for
# a foreign program that never does.
PATIENCE = 600.0
Row = tuple[Any, ...]
Result = TypeVar("Result")
_AT_ONCE = 0.05  # seconds after letting go of a lock within which one who asks again lets others go first
_POLITE = 0.001
LONG = 2.0  # seconds of waiting for a lock after which a person wants to know for whom
# How a check of the whole file ends its line on a page that fails its checksum: "Tree 4 page 4: ... error code=8202".
_WRONG_PAGE = f"error code={apsw.SQLITE_IOERR_DATA}"
# What SQLite makes by itself: for AUTOINCREMENT, and for each table of FTS5.
_SEQUENCE = "CREATE TABLE sqlite_sequence(name,seq)"
_FTS5 = (
    "CREATE TABLE '{}_data'(id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE TABLE '{}_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID",
    "CREATE TABLE '{}_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER)",
    "CREATE TABLE '{}_config'(k PRIMARY KEY, v) WITHOUT ROWID",
)
# The one table that every format of repo.db has, and that says which it is.
_META = "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID"
_READ_ONLY = 1.0  # seconds that a database which could not be opened for writing is read without trying again
_TIGHT = 1 << 16  # with fewer bytes free than these, a failed write is one of a full disk


def advise_rescue(path: Path) -> str:
    """The command that saves what it can where repo.db cannot be opened, not even by fsck."""
    return f"memlake rescue {pasted(path.parent)} --into rescued"


class ForeignSchema(apsw.CorruptError):
    """A database has something that its schema files do not make; `format` is what its own table meta says."""

    format: object = None


class Database:
    """A SQLite file in WAL mode. `durable` means an acknowledged write survives a power cut."""

    def __init__(
        self, path: Path, *, schema: Sequence[Path], durable: bool = True, vfs: str | None = None,
        patience: float | None = None,
    ) -> None:  # fmt: skip
        self.path, self._schema, self._durable, self._vfs = path, schema, durable, vfs
        self._patience = PATIENCE if patience is None else patience
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._local = threading.local()
        self._mutex = forks.Mutex()
        self.lease_seconds = 3600  # how long a lease of this repo lasts without being renewed
        # Not kept alive: with its thread, or with this object, a connection goes, and its files with it.
        self._everyone: list[weakref.ref[apsw.Connection]] = []
        self._listing = forks.Mutex()
        self.closed = False
        self.denied: Denied | Unavailable | None = None  # why nothing may be written here
        self.cure = "Run memlake fsck."  # what to do when it is damaged
        forks.add(self)

    # -- reading ------------------------------------------------------------------------------

    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        with self.named_errors():
            return self._patiently(lambda: self._connection().execute(sql, tuple(args)).fetchall())

    def row(self, sql: str, args: Sequence[Any] = ()) -> Row | None:
        with self.named_errors():
            return self._patiently(lambda: self._connection().execute(sql, tuple(args)).fetchone())

    def each(self, sql: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows one by one, for scans too large for memory."""
        with self.named_errors():
            yield from self._patiently(lambda: self._connection().execute(sql, tuple(args)))

    def rows_in(self, sql: str, values: Iterable[Any], args: Sequence[Any] = ()) -> list[Row]:
        """Rows of a query with one `IN carray(?1)`; `values` are all blobs, all texts or all integers."""
        given = tuple(values)
        return self.rows(sql, (array(given), *args)) if given else []

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is one moment of the database, whatever writers do meanwhile."""
        if self._connection().in_transaction:
            yield
            return
        with self.named_errors():
            connection = self._patiently(lambda: self._connection().execute("BEGIN")).connection
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
        if self.denied is not None:
            raise type(self.denied)(self.denied.message, hint=self.denied.hint)
        self._connection()
        if self.is_writing:
            yield
            return
        with self._mutex, self._file_lock(), self.named_errors(), forks.at_work():
            connection, process = self._begin(), os.getpid()
            self._local.writing = True
            try:
                yield
                forks.check_process(process)
                disk.step("commit")
                connection.execute("COMMIT")
            finally:
                self._local.writing = False
                # SQLITE_FULL may have rolled back already.
                if process == os.getpid() and connection.in_transaction:
                    connection.execute("ROLLBACK")
            disk.step("committed")

    @property
    def is_writing(self) -> bool:
        """Whether this thread is inside a transaction of its own."""
        return bool(getattr(self._local, "writing", False))

    def _begin(self) -> apsw.Connection:
        def begin() -> apsw.Connection:
            connection = self._connection()
            if (pragma := getattr(self._local, "syncing", None)) is not None:
                connection.execute(pragma)
            return connection.execute("BEGIN IMMEDIATE").connection

        try:
            return self._patiently(begin)
        except apsw.BusyError as error:
            if getattr(error, "extendedresult", 0) != apsw.SQLITE_BUSY_SNAPSHOT:
                raise
            # A scan of this thread is not at its end and keeps this connection at an older moment. It may go on there.
            self._local.connection = None
            return self._patiently(begin)

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
    def without_wiping(self) -> Iterator[None]:
        """Deletions inside leave old bytes in free space, as SQLite does by default: far fewer pages are written."""
        self._connection().execute("PRAGMA secure_delete=OFF")
        try:
            yield
        finally:
            self._connection().execute("PRAGMA secure_delete=ON")

    def durably(self) -> contextlib.AbstractContextManager[None]:
        """Writes inside survive a power cut, also where the database is relaxed about it."""
        return self._with_sync_mode("PRAGMA synchronous=FULL")

    def in_order(self) -> contextlib.AbstractContextManager[None]:
        """Writes inside reach the disk no later than the next durable one: the log is one file, synced as a whole."""
        return self._with_sync_mode("PRAGMA synchronous=NORMAL")

    @contextlib.contextmanager
    def _with_sync_mode(self, pragma: str) -> Iterator[None]:
        # Each write sets it anew: the connection may be another by then, after a fork or beside an open scan.
        self._local.syncing = pragma
        try:
            yield
        finally:
            self._local.syncing = None
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
                connection.set_busy_handler(self._wait)
            return row is not None and row[0] == 0

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Let every writer wait, for a reader that a full disk has no room to give a lease."""
        return self._lock.held()

    def is_busy(self) -> bool:
        """Whether somebody is writing at this moment, for work that can as well be done another time."""
        if not self._mutex.acquire(timeout=0):
            return True
        try:
            with self._lock.held(patience=0):
                return False
        except Unavailable:
            return True
        finally:
            self._mutex.release()

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
        target = apsw.Connection(str(path), vfs=with_checksums())
        try:
            with target.backup("main", self._connection(), "main") as backup:
                while not backup.done:
                    self._patiently(lambda: backup.step(4096))
        except apsw.FullError as error:
            raise Unavailable(
                f"the disk is full: {path.parent} has no room for a copy of {self.path.name}. Nothing was changed.",
                hint="Free some space, then run it again.",
            ) from error
        except apsw.Error as error:
            raise self._translate_error(error) from error
        finally:
            target.close()

    def integrity(self, *, full: bool) -> list[str]:
        sql = "PRAGMA integrity_check(100)" if full else "PRAGMA quick_check(100)"
        try:
            found = [str(row[0]) for row in self._connection().execute(sql)]
        except apsw.Error as error:
            return [self._translate_error(error).message]
        except Error as error:
            return [error.message]
        lines = [line for text in found for line in text.splitlines() if line != "ok" and not line.startswith("*** in")]
        return [self._name_page(line) if line.endswith(_WRONG_PAGE) else line for line in lines]

    def _name_page(self, line: str) -> str:
        _, _, after = line.partition(" page ")
        return f"page {after.partition(':')[0].split()[0]} of {self.path.name} does not match its checksum"

    def close(self) -> None:
        """For good: what is asked afterwards, also by an iterator begun before, is refused.

        A write of another thread comes to its end first; a read of another thread is stopped.
        """
        with self._mutex:
            with self._listing:
                self.closed = True
                everyone = [connection() for connection in self._everyone]
                self._everyone, self._local = [], threading.local()
            for connection in everyone:
                if connection is not None:
                    _close(connection)

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._translate_error(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{error.object!r} is no valid text, and nothing is kept under it.") from error
        except OverflowError as error:
            raise InvalidInput("a number is too large to be looked for.") from error
        except UnicodeDecodeError as error:
            raise Corrupt(f"{self.path.name} is damaged: {error}.", hint=self.cure) from error

    def _refusal(self) -> InvalidInput:
        return InvalidInput(f"{self.path} was closed. Nothing was changed.", hint="Open the repo again.")

    def _translate_error(self, error: apsw.Error) -> Error:
        what, name = str(error), self.path.name
        if self.closed:
            return self._refusal()
        full = isinstance(error, (apsw.IOError, apsw.ReadOnlyError)) and disk.free_bytes(self.path.parent) < _TIGHT
        if full or isinstance(error, apsw.FullError):
            return Unavailable(
                f"the disk is full: {name} could not grow. Nothing was changed.",
                hint="Free some space, then run it again.",
            )
        is_wrong_page = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA  # its checksum says so
        if is_wrong_page or isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SchemaChangeError)):
            why = "a page of it does not match its checksum" if is_wrong_page else what
            return Corrupt(f"{name} is damaged: {why}.", hint=self.cure)
        if isinstance(error, (apsw.BusyError, apsw.ProtocolError)):
            return Unavailable(
                f"{name} is held by another program, for over {self._patience:.0f} s by now. Nothing was changed.",
                hint=f"Find it with: fuser -v {pasted(self.path)}",
            )
        if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.NoMemError)):
            return Unavailable(
                f"{name} could not be read or written: {what}. Nothing was changed.",
                hint="Check the disk and its permissions, then run memlake doctor.",
            )
        return Corrupt(f"{name}: {what}.", hint=self.cure)

    def _roll_back(self, connection: apsw.Connection) -> None:
        if not self.closed and connection.in_transaction:
            connection.execute("ROLLBACK")

    # -- connections --------------------------------------------------------------------------

    def _connection(self) -> apsw.Connection:
        local = self._local
        known = getattr(local, "connection", None)
        if known is not None and time.monotonic() < local.until and _is_open(known):
            return known  # type: ignore[no-any-return]
        if self.closed:
            raise self._refusal()
        with forks.guard_opening(self.path), self.named_errors():
            local.until = math.inf
            local.connection, local.writing = self._patiently(self._open), False
            self._list(local.connection)
        return local.connection  # type: ignore[no-any-return]

    def let_go(self) -> tuple[int, int]:
        """Before a fork: close the connections that nobody uses. How many are used by other threads, and by this."""
        own = getattr(self._local, "connection", None)
        if not self._mutex.acquire(timeout=0):
            return 1, 0  # a write of another thread
        try:
            with self._listing:
                everyone = [found for known in self._everyone if (found := known()) is not None]
                used = [connection for connection in everyone if not _close_idle(connection)]
                self._everyone = [weakref.ref(connection) for connection in used]
        finally:
            self._mutex.release()
        return sum(one is not own for one in used), sum(one is own for one in used)

    def begin_anew(self) -> None:
        """In a forked child: it has none of its parent's connections."""
        self._everyone, self._local = [], threading.local()

    def _list(self, connection: apsw.Connection) -> None:
        """Let `close` know of a connection, unless it came while this one was being opened."""
        with self._listing:
            if self.closed:
                connection.close(force=True)
                raise self._refusal()
            self._everyone = [one for one in self._everyone if one() is not None]
            self._everyone.append(weakref.ref(connection))

    def _open(self) -> apsw.Connection:
        try:
            return self._open_for_writing()
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if not self._is_settled():
                raise
            # A full or read-only disk: SQLite cannot make its log there, but what is in the file can be read. Only for
            # a moment: when there is room again others write to it, and so may we.
            uri = nofollow.check_database(self.path).as_uri() + "?immutable=1"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | _NO_LINK
            found = apsw.Connection(uri, flags=flags, vfs=with_checksums())
            if not self._check_schema(found):
                raise  # it could not even be made
            self._local.until = time.monotonic() + _READ_ONLY
            return found

    def _is_settled(self) -> bool:
        """Whether everything is in the database file itself and nothing in its log."""
        log = self.path.with_name(self.path.name + "-wal")
        try:
            logged = log.stat().st_size
        except FileNotFoundError:
            logged = 0
        return self._vfs is None and self.path.exists() and not logged

    def _open_for_writing(self) -> apsw.Connection:
        made = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        path = str(nofollow.check_database(self.path))
        connection = apsw.Connection(path, flags=made | _NO_LINK, vfs=self._vfs or with_checksums())
        try:
            if not os.path.getsize(path):
                nofollow.restrict_mode(path)  # before its log is made, which takes its mode
                _reserve_checksums(connection)
            self._prepare(connection)
        except BaseException as error:
            connection.close()  # else the error's own traceback keeps it open, and its locks with it
            if isinstance(error, OSError):  # such as a generation of the index that another process has just removed
                raise apsw.CantOpenError(f"unable to open database file ({error.strerror})") from error
            raise
        return connection

    def _wait(self, count: int) -> bool:
        """SQLite's busy handler: whether to try again, after a moment."""
        if count == 0:
            self._local.wait = Wait(self.path.name, self._patience)
        return self._local.wait.go_on(count)  # type: ignore[no-any-return]

    def _patiently(self, do: Callable[[], Result]) -> Result:
        """Try again while others hold the database. SQLite asks its busy handler in most places, but not where a
        database is turned into one with a log, nor where another process is just repairing that."""
        wait, count = None, 0
        while True:
            try:
                return do()
            except (apsw.BusyError, apsw.ProtocolError) as error:
                wait = wait or Wait(self.path.name, self._patience)
                if getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT or not wait.go_on(count):
                    raise
            except apsw.ConnectionClosedError:  # for a fork, between being asked for and being used
                if self.closed:
                    raise
            count += 1

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(self._wait)
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
        if not self._check_schema(connection):
            self._create(connection)

    def _check_schema(self, connection: apsw.Connection) -> bool:
        """Whether the database has tables, all of which are ours.

        A view, a trigger, a constraint, a default or an expression in an index is a program of whoever made the file:
        it may never end, take all memory, or make writes vanish.
        """
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        found = {" ".join(sql.split()) if isinstance(sql, str) else "": name for name, sql in rows}
        foreign = found.keys() - _read_statements(tuple(self._schema))
        if foreign:
            error = ForeignSchema(
                f"it has {found[min(foreign)]!r} in a form that this version of memlake does not make"
            )
            if _META in found:
                row = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
                error.format = row and row[0]
            raise error
        return bool(rows)

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


@functools.cache
def _read_statements(schema: tuple[Path, ...]) -> frozenset[str]:
    """The statements of schema files as SQLite keeps them, and what it makes of them by itself, with single spaces."""
    text = re.sub("--.*", "", "".join(file.read_text(encoding="utf-8") for file in schema))
    parts = (" ".join(part.split()).replace(" IF NOT EXISTS", "", 1) for part in text.split(";"))
    own = {part for part in parts if part}
    names = [match[1] for part in own if (match := re.match(r"CREATE VIRTUAL TABLE (\w+) USING fts5", part))]
    return frozenset({*own, _SEQUENCE, *(form.format(name) for name in names for form in _FTS5)})


def with_checksums() -> str:
    """The name of SQLite's own layer that keeps a checksum in every page and looks at it whenever a page is read."""
    if _CHECKSUMS not in apsw.vfs_names():
        # apsw.sqlite_extra would find the file, too, and costs 10 ms of every start.
        found = list((Path(apsw.__file__).parent / "sqlite_extra_binaries").glob("cksumvfs.*"))
        if not found:
            raise Unavailable(
                "this apsw was built without cksumvfs, by which memlake notices damaged pages. Nothing was changed.",
                hint="Install apsw's own wheel: pip install --force-reinstall apsw",
            )
        connection = apsw.Connection(":memory:")
        connection.enable_load_extension(True)
        connection.load_extension(str(found[0]))
        connection.close()
    return _CHECKSUMS


def _reserve_checksums(connection: apsw.Connection) -> None:
    """Leave eight bytes at the end of each page of a new database for its checksum."""
    import ctypes  # only a new database needs it

    count = ctypes.c_int(8)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(count))


def _close(connection: apsw.Connection) -> None:
    """An error on closing is nobody's to see: the next one to open repairs. The locks must go all the same."""
    while True:
        try:
            return connection.close()
        except apsw.ThreadingViolationError:  # another thread is in the middle of a statement, which stops now
            connection.interrupt()
            time.sleep(_POLITE)
        except apsw.ConnectionClosedError:
            return None
        except apsw.Error:
            return connection.close(force=True)


def _is_open(connection: apsw.Connection) -> bool:
    """Whether it was not closed for a fork meanwhile."""
    try:
        return connection.in_transaction or True
    except apsw.ConnectionClosedError:
        return False


def _close_idle(connection: apsw.Connection) -> bool:
    """Close a connection that is in no transaction and at no row of a scan; whether it is closed now."""
    try:
        if connection.in_transaction or connection.txn_state() != apsw.SQLITE_TXN_NONE:
            return False
        connection.close()
    except apsw.ConnectionClosedError:
        return True
    except (apsw.ThreadingViolationError, apsw.BusyError):  # in the middle of a statement
        return False
    return True


class Wait:
    """One wait for a database that others hold; after LONG it is said, once."""

    def __init__(self, name: str, patience: float) -> None:
        self._name, self._patience, self._began, self._is_told = name, patience, time.monotonic(), False

    def go_on(self, count: int) -> bool:
        """Pause, longer each time; whether there is patience left."""
        waited = time.monotonic() - self._began
        if waited > LONG and not self._is_told:
            self._is_told = True
            sys.stderr.write(f"memlake: waiting for another program that holds {self._name}\n")
        pause(0.001 * 2 ** min(count, 6))
        return waited < self._patience


def pause(seconds: float) -> None:
    time.sleep(seconds)


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
                    time.sleep(_POLITE)
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
            time.sleep(_POLITE * 10)
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


def array(values: tuple[Any, ...]) -> Any:
    """Values for `IN carray(?)`: one lookup for all of them instead of one each."""
    if isinstance(values[0], int):
        return apsw.carray(numbers("q", values))
    return apsw.carray(values)
