"""One SQLite file: how it is opened, read, and written by one writer at a time. Knows no table.

A write takes a file lock (see locks.py) *before* BEGIN IMMEDIATE, because SQLite's own busy handler lets some of eight
writers starve for seconds. Connections belong to one thread of one process (see forks.py).
"""

from __future__ import annotations

import contextlib
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
from memlake.objects.locks import LONG, POLITE, FileLock

_NO_LINK = apsw.SQLITE_OPEN_NOFOLLOW
_CHECKSUMS = "cksmvfs"
SAFE_SQLITE = (3, 51, 3)  # before it, two writers can corrupt a shared WAL
# Seconds to wait for a database that others hold. Waiting is not an error, and memlake itself lets go within moments;
# this limit is for a foreign program that never does.
PATIENCE = 600.0
Row = tuple[Any, ...]
Result = TypeVar("Result")
ReadArchived = Callable[[bytes], bytes]
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


def _refuse_archived(_row: bytes) -> bytes:
    raise Unavailable("the data of a commit lies in an archive, which is not read here. Nothing was changed.")


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
        # Weak references: a connection ends with its thread or with this object, and closes its files then.
        self._everyone: list[weakref.ref[apsw.Connection]] = []
        self._listing = forks.Mutex()
        self.closed = False
        self.denied: Denied | Unavailable | None = None  # why nothing may be written here
        self.cure = "Run memlake fsck."  # what to do when it is damaged
        self.read_archived: ReadArchived = _refuse_archived  # what rows keep elsewhere; whoever opens a repo gives it
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
        members = tuple(values)
        return self.rows(sql, (array(members), *args)) if members else []

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
                except apsw.Error:  # the end of a scan over a damaged page: it was reported, and nothing was written
                    self._roll_back(connection)

    # -- writing ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        """One transaction. Nested uses join the outer one. Any error rolls all of it back."""
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
            # An unfinished scan of this thread keeps this connection at an older moment: let it, and open another.
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
        members = tuple(values)
        return self.run(sql, (array(members), *args)) if members else 0

    @contextlib.contextmanager
    def without_wiping(self) -> Iterator[None]:
        """Deletions inside leave old bytes in free space, as SQLite does by default: far fewer pages are written."""
        self._connection().execute("PRAGMA secure_delete=OFF")
        try:
            yield
        finally:
            self._connection().execute("PRAGMA secure_delete=ON")

    def durably(self) -> contextlib.AbstractContextManager[None]:
        """Writes inside survive a power cut, even where the database is not opened as durable."""
        return self._with_sync_mode("PRAGMA synchronous=FULL")

    def in_order(self) -> contextlib.AbstractContextManager[None]:
        """Writes inside reach the disk no later than the next durable one: the log is one file, synced as a whole."""
        return self._with_sync_mode("PRAGMA synchronous=NORMAL")

    @contextlib.contextmanager
    def _with_sync_mode(self, pragma: str) -> Iterator[None]:
        # Each write sets it again, because a fork or an open scan may have replaced the connection by then.
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
        """Make every writer wait, for a reader that cannot get a lease because the disk is full."""
        return self._lock.held()

    def is_busy(self) -> bool:
        """Whether somebody is writing at this moment, for work that can be put off."""
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
            reports = [str(row[0]) for row in self._connection().execute(sql)]
        except apsw.Error as error:
            return [self._translate_error(error).message]
        except Error as error:
            return [error.message]
        problems = []
        for line in (line for report in reports for line in report.splitlines()):
            if line.endswith(_WRONG_PAGE):
                page = line.partition(" page ")[2].partition(":")[0].split()[0]
                problems.append(f"page {page} of {self.path.name} does not match its checksum")
            elif line != "ok" and not line.startswith("*** in"):
                problems.append(line)
        return problems

    def close(self) -> None:
        """Close permanently. Any later use raises, including iterators that were started earlier.

        A write of another thread is finished first; a read of another thread is interrupted.
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
            raise InvalidInput(f"{error.object!r} is not valid UTF-8, so nothing can be stored under it.") from error
        except OverflowError as error:
            raise InvalidInput("a number does not fit into 64 bits, so nothing can be stored under it.") from error
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
                f"another program has held {name} for over {self._patience:.0f} s. Nothing was changed.",
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
        connection = getattr(local, "connection", None)
        if connection is not None and time.monotonic() < local.until and _is_open(connection):
            return connection  # type: ignore[no-any-return]
        if self.closed:
            raise self._refusal()
        with forks.guard_opening(self.path), self.named_errors():
            local.until = math.inf
            local.connection, local.writing = self._patiently(self._open), False
            self._register(local.connection)
        return local.connection  # type: ignore[no-any-return]

    def let_go(self) -> tuple[int, int]:
        """Before a fork: close the connections that nobody uses. How many are used by other threads, and by this."""
        own = getattr(self._local, "connection", None)
        if not self._mutex.acquire(timeout=0):
            return 1, 0  # a write of another thread
        try:
            with self._listing:
                everyone = (reference() for reference in self._everyone)
                used = [connection for connection in everyone if connection is not None and not _close_idle(connection)]
                self._everyone = [weakref.ref(connection) for connection in used]
        finally:
            self._mutex.release()
        return sum(connection is not own for connection in used), sum(connection is own for connection in used)

    def begin_anew(self) -> None:
        """In a forked child: forget the connections of the parent."""
        self._everyone, self._local = [], threading.local()

    def _register(self, connection: apsw.Connection) -> None:
        """Let `close` know of a connection, unless it came while this one was being opened."""
        with self._listing:
            if self.closed:
                connection.close(force=True)
                raise self._refusal()
            self._everyone = [reference for reference in self._everyone if reference() is not None]
            self._everyone.append(weakref.ref(connection))

    def _open(self) -> apsw.Connection:
        try:
            return self._open_for_writing()
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            if not self._is_settled():
                raise
            # On a full or read-only disk SQLite cannot make its log, but the file itself can be read. Only for a
            # moment, because others, and we, may write again as soon as there is room.
            uri = nofollow.check_database(self.path).as_uri() + "?immutable=1"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | _NO_LINK
            connection = apsw.Connection(uri, flags=flags, vfs=with_checksums())
            if not self._check_schema(connection):
                raise  # it could not even be made
            self._local.until = time.monotonic() + _READ_ONLY
            return connection

    def _is_settled(self) -> bool:
        """Whether everything is in the database file itself and nothing in its log."""
        log = self.path.with_name(self.path.name + "-wal")
        try:
            logged = log.stat().st_size
        except FileNotFoundError:
            logged = 0
        return self._vfs is None and self.path.exists() and not logged

    def _open_for_writing(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | _NO_LINK
        path = str(nofollow.check_database(self.path))
        connection = apsw.Connection(path, flags=flags, vfs=self._vfs or with_checksums())
        try:
            if not os.path.getsize(path):
                nofollow.restrict_mode(path)  # before its log is made, which takes its mode
                _reserve_checksums(connection)
            self._prepare(connection)
        except BaseException as error:
            connection.close()  # or the error's own traceback would keep it open, and its locks with it
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
        names = {" ".join(sql.split()) if isinstance(sql, str) else "": name for name, sql in rows}
        foreign = names.keys() - _read_statements(tuple(self._schema))
        if foreign:
            error = ForeignSchema(
                f"it has {names[min(foreign)]!r} in a form that this version of memlake does not make"
            )
            if _META in names:
                row = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
                error.format = row and row[0]
            raise error
        return bool(rows)

    def _create(self, connection: apsw.Connection) -> None:
        with self._mutex, self._file_lock():
            connection.execute("BEGIN IMMEDIATE")
            try:
                for file in self._schema:  # its statements say IF NOT EXISTS: another process may have been first
                    connection.execute(file.read_text(encoding="utf-8"))
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
        libraries = list((Path(apsw.__file__).parent / "sqlite_extra_binaries").glob("cksumvfs.*"))
        if not libraries:
            raise Unavailable(
                "this apsw was built without cksumvfs, by which memlake notices damaged pages. Nothing was changed.",
                hint="Install apsw's own wheel: pip install --force-reinstall apsw",
            )
        connection = apsw.Connection(":memory:")
        connection.enable_load_extension(True)
        connection.load_extension(str(libraries[0]))
        connection.close()
    return _CHECKSUMS


def _reserve_checksums(connection: apsw.Connection) -> None:
    """Leave eight bytes at the end of each page of a new database for its checksum."""
    import ctypes  # only a new database needs it

    count = ctypes.c_int(8)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(count))


def _close(connection: apsw.Connection) -> None:
    """Close whatever happens: the locks must go, and the next one to open repairs what an error left."""
    while True:
        try:
            return connection.close()
        except apsw.ThreadingViolationError:  # another thread is in the middle of a statement, which stops now
            connection.interrupt()
            time.sleep(POLITE)
        except apsw.ConnectionClosedError:
            return None
        except apsw.Error:
            return connection.close(force=True)


def _is_open(connection: apsw.Connection) -> bool:
    """Whether a connection is open: a fork may have closed it meanwhile."""
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
    """One wait for a database that others hold. After LONG it says so, once."""

    def __init__(self, name: str, patience: float) -> None:
        self._name, self._patience, self._began, self._is_announced = name, patience, time.monotonic(), False

    def go_on(self, count: int) -> bool:
        """Pause, longer each time; whether there is patience left."""
        waited = time.monotonic() - self._began
        if waited > LONG and not self._is_announced:
            self._is_announced = True
            sys.stderr.write(f"memlake: waiting for another program that holds {self._name}\n")
        pause(0.001 * 2 ** min(count, 6))
        return waited < self._patience


def pause(seconds: float) -> None:
    time.sleep(seconds)


def array(values: tuple[Any, ...]) -> Any:
    """Values for `IN carray(?)`: one lookup for all of them instead of one each."""
    if isinstance(values[0], int):
        return apsw.carray(numbers("q", values))
    return apsw.carray(values)
