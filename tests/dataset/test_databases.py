"""Rows that go to a database: all of them or none, and what stood there before is lost only for what replaces it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import memlake as ml
from memlake.dataset import databases


def fail_late() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"x": [1]})
    raise RuntimeError("the second batch failed")


class Ignores(sqlite3.Connection):
    """As autocommit=True is since Python 3.12: it does nothing at a commit or a rollback."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


OPENED: dict[str, dict[str, Any]] = {
    "as it is opened": {},
    "without transactions": {"isolation_level": None},
    "with autocommit": {"isolation_level": None, "factory": Ignores},
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "x.db") as con:
        con.execute("CREATE TABLE t(x)")
        con.execute("INSERT INTO t VALUES (42)")
    con.close()
    return tmp_path / "x.db"


def rows_in(database: Path) -> list[Any]:
    con = sqlite3.connect(database)
    try:
        return con.execute("SELECT x FROM t").fetchall()
    finally:
        con.close()


@pytest.mark.parametrize("how", OPENED.values(), ids=OPENED)
def test_a_replace_that_fails_leaves_the_table_as_it_was(database: Path, how: dict[str, Any]) -> None:
    con = sqlite3.connect(database, **how)
    with pytest.raises(RuntimeError, match="the second batch failed"):
        databases.write(fail_late(), "t", con, 10, "replace")
    assert rows_in(database) == [(42,)]
    assert databases.write(iter([pa.RecordBatch.from_pydict({"x": [7]})]), "t", con, 10, "replace") == 1
    assert not con.in_transaction and rows_in(database) == [(7,)]
    con.close()


def test_a_replace_by_sqlalchemy_that_fails_leaves_the_table_as_it_was(database: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{database}")
    with pytest.raises(RuntimeError, match="the second batch failed"):
        databases.write(fail_late(), "t", engine, 10, "replace")
    assert rows_in(database) == [(42,)]
    assert databases.write(iter([pa.RecordBatch.from_pydict({"x": [7]})]), "t", engine, 10, "replace") == 1
    assert rows_in(database) == [(7,)]
    engine.dispose()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], type[sqlite3.Connection]]:
    """A driver in a module of this name, with its paramstyle, and SQLite behind it."""

    def make(module: str, style: str) -> type[sqlite3.Connection]:
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(sys.modules[module], "paramstyle", style, raising=False)
        return type("Connection", (sqlite3.Connection,), {"__module__": f"{module}.connection"})

    return make


def test_a_driver_that_cannot_be_written_to_keeps_its_table(repo: ml.Repo, database: Path, driver: Any) -> None:
    con = sqlite3.connect(database, isolation_level=None, factory=driver("oracledb", "named"))
    with pytest.raises(ml.errors.InvalidInput, match=r"'named', which memlake does not write. Nothing was written"):
        repo.datasets().read_values(x=[1]).to_database("t", con, if_exists="replace")
    assert rows_in(database) == [(42,)]
    con.close()


@pytest.mark.parametrize(
    ("module", "style", "expected"),
    [
        ("mysql.connector", "pyformat", ("`", "pyformat")),
        ("snowflake.connector", "pyformat", ('"', "pyformat")),
        ("pymysql", "pyformat", ("`", "pyformat")),
        ("oracledb", "named", ('"', "named")),
    ],
)
def test_a_driver_is_known_by_the_innermost_module_that_tells_its_style(
    driver: Any, module: str, style: str, expected: tuple[str, str]
) -> None:
    kind = driver(module, style)
    own = type("Own", (kind,), {})  # a class of this very module, built on it
    for one in (kind, own):
        assert databases.dialect_of(one(":memory:")) == expected
    assert databases.dialect_of(sqlite3.connect(":memory:")) == ('"', "qmark")
