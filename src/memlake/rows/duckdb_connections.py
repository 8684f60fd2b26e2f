"""DuckDB, opened here and nowhere else. Knows no plan, no repo and no SQL but its own settings.

An engine reads the files and folders it was opened for, spills into a folder of its own, fetches and loads nothing, and
its settings are locked. So a statement that should never have been written reaches nothing else of the machine. What it
may read is fixed when it is opened, which takes 20 ms: engines are kept, by what they may read.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import cache

import duckdb

from memlake.errors import Unavailable
from memlake.objects import disk
from memlake.objects.forks import Mutex

_CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
}
_KEPT = 8
_FILES = 6  # open files that DuckDB takes for granted: with fewer left, its threads abort the process
_engines: dict[tuple[int, str, str, frozenset[str]], duckdb.DuckDBPyConnection] = {}
lock = Mutex()


@cache
def catalogue() -> duckdb.DuckDBPyConnection:
    """One small database in memory, for questions about names and types; hold `lock`, or ask a cursor of it."""
    return _open(threads=1)


@cache
def sniffer() -> duckdb.DuckDBPyConnection:
    """Looks into files to find their columns, in any file: only plans/readers.py asks it, in SQL without a name."""
    return _open(threads=1, everywhere=True)


def engine(spill: str, parts: str, files: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
    """A connection of one's own to the engine of this process that may read a folder of parts and these files."""
    _check_files()  # a kept engine aborts as well
    key = os.getpid(), spill, parts, frozenset(files)
    with lock:
        made = _engines.pop(key, None) or _open(spill=spill, folders=[parts], files=sorted(key[3]))
        _engines[key] = made  # last: the one asked for longest ago is let go of first
        # In a fork the parent's engines are never let go of: ending one waits for threads that are not there.
        mine = [one for one in _engines if one[0] == key[0]]
        for one in mine[: max(0, len(mine) - _KEPT)]:
            del _engines[one]
    return made.cursor()


@contextlib.contextmanager
def open_scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine that reads no file and is shown its tables by whoever opens it; it spills where others may not look."""
    with disk.spare_folder() as folder, contextlib.closing(_open(spill=str(folder))) as con:
        yield con


def _open(
    *,
    spill: str = "",
    folders: Iterable[str] = (),
    files: Iterable[str] = (),
    threads: int | None = None,
    everywhere: bool = False,
) -> duckdb.DuckDBPyConnection:
    _check_files()
    con = duckdb.connect(config={**_CLOSED, **({"threads": threads} if threads else {})})
    con.execute("SET GLOBAL TimeZone = 'UTC'")  # types of times name the zone of the session
    con.execute("SET temp_directory = $1", [spill])  # which it may write, too
    if not everywhere:
        con.execute("SET allowed_directories = $1", [_both_spellings(folders)])
        con.execute("SET allowed_paths = $1", [_both_spellings(files)])
        con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def literal(path: str) -> str:
    """A path as DuckDB has to be given it: [, * and ? in a name would mean other files."""
    return re.sub(r"([\[*?])", r"[\1]", path)


def _both_spellings(paths: Iterable[str]) -> list[str]:
    """DuckDB asks for leave twice: for the path it is given, and for the one it finds."""
    return sorted({spelling for path in paths for spelling in (path, literal(path))})


def _check_files() -> None:
    with contextlib.ExitStack() as stack:
        try:
            for _ in range(_FILES):
                stack.enter_context(open(os.devnull, "rb"))
        except OSError as error:
            raise Unavailable(
                f"this process may not open {_FILES} more files, which the engine needs ({error.strerror}). "
                "Nothing was run.",
                hint="Raise the limit, like: ulimit -n 1024",
            ) from error


@atexit.register
def _let_go() -> None:
    """What a failed program was reading: DuckDB prints dozens of lines if that outlives its own modules."""
    error: BaseException | None = getattr(sys, "last_value", None)
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
