"""SQL as it is composed: what a name or a value says is never read as SQL, wherever it stands."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.errors import Corrupt
from memlake.rows.sql import compose, hole, identifier, join, path, template, value, word


def test_braces_in_a_name_are_no_places() -> None:
    form = compose("SELECT {} FROM {}", identifier("{0}{1}{}"), hole(0))
    assert form.fill(identifier("t")).render().text == 'SELECT "{0}{1}{}" FROM "t"'


def test_a_quote_in_a_name_does_not_end_it() -> None:
    assert identifier('a"; DROP TABLE t; --').render().text == '"a""; DROP TABLE t; --"'
    assert path(["a", "b'] OR true --"], "x").render().text == """x."a"['b''] OR true --']"""


def test_signs_of_a_bound_value_in_a_name_or_text_bind_nothing() -> None:
    asked = join(", ", [identifier("$1"), value("$2"), identifier("?"), value("$2")]).render()
    assert asked.text == '"$1", $1, "?", $1'
    assert asked.values == ["$2"]


def test_only_words_stand_without_quotes() -> None:
    assert word("ANTI").render().text == "ANTI"
    for hostile in ("a b", "x;", "--", "a--b", "f(", '"', "", "a\n"):
        with pytest.raises(AssertionError, match="no word of SQL"):
            word(hostile)


def test_places_count_on_and_may_be_used_twice() -> None:
    assert template("{} {} {0}").fill(identifier("a"), identifier("b")).render().text == '"a" "b" "a"'
    assert template("[{{2}}] {0}").show("x") == "[{2}] x"


@pytest.mark.parametrize("way", ["diff", "dataset diff"])
def test_a_header_that_says_sql_writes_no_file(ds: Datasets, tmp_path: Path, way: str) -> None:
    """Once, `{0}` in a header was replaced by SQL whose quotes ended the name, so that the rest of it ran."""
    target = tmp_path / "pwned"  # without a dot, which would lead into a nested column
    attack = f": 1) AS t) AS u; COPY (SELECT 'x' AS x) TO '{target}' (FORMAT csv); SELECT $1, $2 "
    rows = {f"{attack}--{{0}}": ["a", "b"], f"{attack}--(SELECT ": ["c", "d"]}
    old, new = ds.read_values(**rows, k=[1, 2]), ds.read_values(**rows, k=[1, 3])
    if way == "diff":
        changed = new.diff(old, on="k", status_col="how").order_by("k").to_values("how")
        assert changed == ["D", "A"]
    else:
        old.save("d")
        new.save("d")
        found = ds.diff("d@1.0.0", "d@1.0.1").table
        assert (found.added, found.removed, found.changed) == (0, 0, 1), "the headers with unique values are keys"
    assert not target.exists()


def test_a_table_of_a_strangers_repo_is_no_sql_to_fsck(tmp_path: Path) -> None:
    with ml.init(tmp_path / "r") as repo:
        repo.config.set("embedding.provider", "none")
    target = tmp_path / "pwned.db"
    with apsw.Connection(str(tmp_path / "r/.memlake/repo.db")) as db:
        hostile = f"meta; ATTACH '{target}' AS p; CREATE TABLE p.t(a); --"
        db.execute(f'CREATE TABLE "{hostile}"(a)')
        db.execute(f'CREATE INDEX odd ON "{hostile}"(a) WHERE a > 1')
    with pytest.raises(Corrupt, match="does not make"), ml.open(tmp_path / "r") as repo:
        repo.upkeep.fsck(full=True)
    assert not target.exists()


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


HOSTILE_TABLES = ['t"; DROP TABLE safe; --', "t`x", "select", "a b", "%s", "?", "$1", ":name", "[x]", "ü\n\t", "{0}"]


def test_hostile_names_reach_a_database_as_names(ds: Datasets) -> None:
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE safe(a)")
    columns = {f"{i} {name}": [i] for i, name in enumerate(HOSTILE_TABLES)}
    rows = ds.read_values(**columns)
    for table in HOSTILE_TABLES:
        rows.to_database(table, con)
        rows.to_database(table, con, if_exists="replace")
        quoted = '"' + table.replace('"', '""') + '"'
        back = ds.read_database(f"SELECT * FROM {quoted}", con)
        assert back.to_records() == [{name: values[0] for name, values in columns.items()}]
    there = [name for (name,) in con.execute("SELECT name FROM sqlite_schema ORDER BY rowid")]
    assert there == ["safe", *HOSTILE_TABLES]


def test_hostile_names_pass_sqlalchemy(ds: Datasets) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
    columns = {f"{i} {name}": [i] for i, name in enumerate(HOSTILE_TABLES)}
    ds.read_values(**columns).to_database("order", engine)
    assert ds.read_database("order", engine).to_records() == [{name: one[0] for name, one in columns.items()}]
