"""A database that others hold is waited for: nobody is told that it is locked. The holder lets go when we pause."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import memlake as ml
from memlake.errors import Unavailable
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.objects import db as databases
from memlake.objects.db import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS t(a);"
Hold = Callable[[Path, str], None]


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """Hold a database by some SQL until the first pause of whoever waits; afterwards that pause must have come."""
    holders: list[apsw.Connection] = []
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        while holders:
            holders.pop().close(force=True)

    def held(path: Path, sql: str) -> None:
        connection = apsw.Connection(str(path))
        connection.execute(sql).fetchall()
        holders.append(connection)

    monkeypatch.setattr(databases, "pause", pause)
    yield held
    assert pauses and not holders, "nobody had to wait: the test proves nothing"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    (tmp_path / "schema.sql").write_text(SCHEMA)
    return tmp_path / "schema.sql"


@pytest.fixture
def database(tmp_path: Path, schema: Path) -> Iterator[Database]:
    made = Database(tmp_path / "x.db", schema=[schema])
    with made.write():
        made.run("INSERT INTO t VALUES(1)")
    yield made
    made.close()


def test_opening_waits_for_one_who_writes_a_database_that_has_no_log_yet(
    tmp_path: Path, schema: Path, hold: Hold
) -> None:
    """SQLite does not ask its busy handler here: two processes that make a database at once meet so."""
    plain = apsw.Connection(str(tmp_path / "x.db"))
    plain.execute(SCHEMA)
    plain.close()
    hold(tmp_path / "x.db", "BEGIN IMMEDIATE; SELECT * FROM t")
    opened = Database(tmp_path / "x.db", schema=[schema])
    assert opened.rows("SELECT a FROM t") == []
    opened.close()


@pytest.mark.parametrize("do", ["row", "rows", "each", "write"])
def test_a_statement_waits_for_one_who_has_the_database_for_himself(database: Database, hold: Hold, do: str) -> None:
    path = database.path
    database.close()
    opened = Database(path, schema=database._schema)
    if do == "write":
        opened.row("SELECT a FROM t")
        hold(path, "BEGIN IMMEDIATE; SELECT 1")
        with opened.write():
            opened.run("INSERT INTO t VALUES(2)")
    else:
        hold(path, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; SELECT 1")
        assert next(iter(getattr(opened, do)("SELECT a FROM t"))) in (1, (1,))
    opened.close()


def test_a_thread_writes_while_it_reads_what_another_has_changed_since(database: Database) -> None:
    with database.write():
        database.run_many("INSERT INTO t VALUES(?)", [(n,) for n in range(5000)])
    reading = database.each("SELECT a FROM t")
    next(reading)
    other = Database(database.path, schema=database._schema)
    with other.write():
        other.run("INSERT INTO t VALUES(-1)")
    other.close()
    with database.write():
        database.run("INSERT INTO t VALUES(-2)")
    assert len(list(reading)) == 5000  # the rest of that older moment
    assert database.row("SELECT count(*) FROM t") == (5003,)


@pytest.fixture
def relaxed(tmp_path: Path, schema: Path) -> Iterator[Database]:
    """A database whose writes survive a power cut only where that is asked for."""
    made = Database(tmp_path / "relaxed.db", schema=[schema], durable=False)
    with made.write():
        made.run_many("INSERT INTO t VALUES(?)", [(n,) for n in range(5000)])
    yield made
    made.close()


def scan(database: Database) -> Iterator[object]:
    """Leave a scan of this thread open and have another write: this thread's next write needs a new connection."""
    reading = database.each("SELECT a FROM t")
    next(reading)
    other = Database(database.path, schema=database._schema)
    with other.write():
        other.run("INSERT INTO t VALUES(-1)")
    other.close()
    return reading


@pytest.mark.parametrize("replace", [Database.let_go, scan], ids=["closed for a fork", "beside an open scan"])
def test_a_durable_write_is_durable_on_whatever_connection_it_is_made(
    relaxed: Database, replace: Callable[[Database], object]
) -> None:
    full, normal = (2,), (1,)
    with relaxed.durably():
        first = relaxed._connection()
        reading = replace(relaxed)
        with relaxed.write():
            assert relaxed._connection() is not first
            assert relaxed.row("PRAGMA synchronous") == full
    with relaxed.write():
        assert relaxed.row("PRAGMA synchronous") == normal
    del reading


def test_whoever_never_lets_go_is_named_in_the_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_patience", 0.0)
    holder = apsw.Connection(str(database.path))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match=r"another program has held x\.db") as told, database.write():
        pass
    assert "fuser -v" in told.value.hint
    holder.close(force=True)


def test_a_long_wait_is_said_once(
    database: Database, hold: Hold, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(databases, "LONG", -1.0)
    hold(database.path, "BEGIN IMMEDIATE; SELECT 1")
    with database.write():
        pass
    assert capsys.readouterr().err == "memlake: waiting for another program that holds x.db\n"


@pytest.mark.parametrize("name", ["repo.db", "local.db", "index.db", "vectors.db"])
def test_every_database_of_a_repo_is_waited_for(tmp_path: Path, hold: Hold, name: str) -> None:
    with ml.init(tmp_path) as repo:
        repo.config.set("embedding.provider", "test")
    with ml.open(tmp_path) as repo:
        repo.memories().store(Draft("tea is served at four"))
        assert repo.memories().wait(20)
    path = next((tmp_path / ".memlake").rglob(name))
    hold(path, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; SELECT 1")
    with ml.open(tmp_path) as repo:
        repo.memories().store(Draft("coffee is served at five"))
        assert repo.memories().wait(20)
        assert len(repo.memories().search(Query("tea coffee served"))) == 2
        (tmp_path / "f").write_text("x")
        repo.add("f")
        repo.commit("f")


def test_what_a_verb_noted_of_itself_is_gone_when_it_is_done(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        (tmp_path / "secret-name.txt").write_text("x")
        repo.add("secret-name.txt")
        assert (tmp_path / ".memlake" / "checkout.lock").read_bytes() == b""


def test_whoever_closes_last_leaves_everything_in_the_file_and_no_log(database: Database) -> None:
    with database.write():
        database.run("INSERT INTO t VALUES(1)")
    log = database.path.with_name(database.path.name + "-wal")
    assert log.exists()
    database.close()
    assert not log.exists()


def test_a_folder_that_is_removed_while_its_database_is_opened_is_said_to_be_unavailable(
    tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes old generations of the index; who opens one just then tries again on the new one."""
    (tmp_path / "old").mkdir()
    real = apsw.Connection

    def open_late(*given: Any, **named: Any) -> apsw.Connection:
        connection = real(*given, **named)
        shutil.rmtree(tmp_path / "old")
        return connection

    made = Database(tmp_path / "old" / "x.db", schema=[schema])
    databases.with_checksums()  # opens a connection of its own
    monkeypatch.setattr(apsw, "Connection", open_late)
    with pytest.raises(Unavailable, match="could not be read or written"):
        made.row("SELECT 1")
