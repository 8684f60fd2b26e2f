"""DuckDB is locked: SQL that should never have been written reaches no file but those of the plan it is part of."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.dataset.plan import table_files
from memlake.dataset.run.engine import Engine
from memlake.rows import duckdb_connections

REACHES = [
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_text('{lent}/../secret.csv')",
    "SELECT * FROM read_text('{link}')",
    "COPY (SELECT 1) TO '{target}'",
    "COPY (SELECT 1) TO '{target}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPORT DATABASE '{target}'",
    "ATTACH '{target}' AS other",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
    "INSTALL httpfs",
    "LOAD '{target}'",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET temp_directory = '{folder}'",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA profile_output = '{target}'",
    "SET log_query_path = '{target}'",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
]


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    for folder in ("lent", "folder"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lent/secret.csv").symlink_to(tmp_path / "secret.csv")
    for name in ("secret.csv", "lent/rows.csv", "file.csv"):
        (tmp_path / name).write_text("a\n1\n")
    return {
        "secret": tmp_path / "secret.csv", "folder": tmp_path / "folder", "lent": tmp_path / "lent",
        "link": tmp_path / "lent/secret.csv", "target": tmp_path / "folder/target", "file": tmp_path / "file.csv",
    }  # fmt: skip


@pytest.fixture
def engine(places: dict[str, Path], tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb_connections.engine(str(tmp_path / "spill"), str(places["lent"]), [str(places["file"])])
    yield con
    con.close()


def test_an_engine_reads_what_it_was_opened_for(engine: duckdb.DuckDBPyConnection, places: dict[str, Path]) -> None:
    for path in (places["lent"] / "rows.csv", places["file"]):
        assert engine.execute("SELECT a FROM read_csv($1)", [str(path)]).fetchall() == [(1,)]


@pytest.mark.parametrize("statement", REACHES)
def test_an_engine_reaches_nothing_else(
    engine: duckdb.DuckDBPyConnection, places: dict[str, Path], statement: str
) -> None:
    with pytest.raises(duckdb.Error, match=r"disabled|locked|Cannot change|Secret|cannot be"):
        engine.execute(statement.format(**places)).fetchall()
    with pytest.raises(duckdb.Error):
        duckdb_connections.catalogue().cursor().execute(statement.format(**places)).fetchall()
    assert list(places["folder"].iterdir()) == []


@pytest.mark.parametrize("small", [0, table_files.SMALL])
def test_a_plan_reaches_its_own_files_and_parts_alone(
    ds: Datasets, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """As if some name had become SQL: the text of every statement is followed by one more that reads a file."""
    monkeypatch.setattr(table_files, "SMALL", small)
    ds.read_values(x=[1, 2]).save("numbers")
    rows = ds.read_csv(places["file"]).merge(ds.read_dataset("numbers"), on="a", right_on="x")
    assert rows.to_list() == [(1, 1)]
    real = Engine.con.func  # type: ignore[attr-defined]
    seen: list[duckdb.DuckDBPyConnection] = []

    def spied(engine: Engine) -> duckdb.DuckDBPyConnection:
        seen.append(real(engine))
        for statement in (REACHES[0], REACHES[6]):
            with pytest.raises(duckdb.PermissionException):
                seen[0].execute(statement.format(**places))
        return seen[0]

    monkeypatch.setattr(Engine.con, "func", spied)
    assert rows.to_list() == [(1, 1)]
    assert seen


def test_an_engine_is_kept_for_the_same_files(places: dict[str, Path], tmp_path: Path) -> None:
    asked = str(tmp_path / "spill"), str(places["lent"])
    for path in (places["file"], places["secret"], places["file"]):
        duckdb_connections.engine(*asked, [str(path)]).close()
    mine = [key for key in duckdb_connections._engines if key[1] == asked[0]]
    assert [set(key[3]) for key in mine] == [{str(places["secret"])}, {str(places["file"])}]


def test_the_last_engines_are_kept(tmp_path: Path) -> None:
    for number in range(duckdb_connections._KEPT + 2):
        duckdb_connections.engine(
            str(tmp_path / "spill"), str(tmp_path / "parts"), [str(tmp_path / f"{number}.csv")]
        ).close()
    mine = [
        Path(path).stem for key in duckdb_connections._engines if key[1] == str(tmp_path / "spill") for path in key[3]
    ]
    assert mine == [str(number) for number in range(2, duckdb_connections._KEPT + 2)]


def test_a_process_that_may_open_few_files_is_told_so(repo: ml.Repo, here: Path) -> None:
    """Without the check DuckDB aborts the process: signal 6."""
    (here / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    script = (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (13, 4096))\nimport memlake as ml\n"
        "try:\n    ml.read_csv('rows.csv').map(c=lambda a: a + 1).save('few')\n"
        "except ml.Error as error:\n    print(type(error).__name__, error.hint)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout) == (0, "Unavailable Raise the limit, like: ulimit -n 1024\n")


def test_only_one_module_opens_duckdb() -> None:
    source = Path(duckdb_connections.__file__).parents[2]
    opening = {path.name for path in source.rglob("*.py") if "duckdb.connect(" in path.read_text(encoding="utf-8")}
    assert opening == {"duckdb_connections.py", "formats.py"}
