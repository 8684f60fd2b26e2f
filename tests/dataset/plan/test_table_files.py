"""Files of rows: small ones are read whole and open no engine of their own, and say what large ones would."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import pytest

import memlake as ml
from memlake.dataset.datasets import Datasets
from memlake.dataset.plan import table_files
from memlake.rows import duckdb_connections

ODD = (
    "SELECT i AS n, i::HUGEINT AS huge, 'ab'::BLOB AS bytes, i::DECIMAL(9, 2) AS price, DATE '2024-01-02' AS day, "
    "TIME '01:02:03' AS clock, TIMESTAMPTZ '2024-01-02 03:04:05+02' AS moment, TIMESTAMP_NS '2024-01-02' AS nano, "
    "uuid() AS id, INTERVAL 3 DAY AS span, MAP {'k': i} AS pairs, [{'a': i, 'b': NULL}] AS deep, i::UTINYINT AS tiny, "
    "CASE WHEN i > 1 THEN i END AS gap FROM range(4) t(i)"
)


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


@pytest.fixture
def files(here: Path) -> dict[str, Path]:
    (here / "rows.csv").write_text('n,t,"a b",d\n1,x,,2024-01-02\n2,"",4.5,2024-01-03\n3,z,5,\n')
    (here / "rows.jsonl").write_text('{"n": 1, "t": "x", "u": {"k": [1]}}\n{"n": 2, "t": 5, "u": null}\n{"n": 3}\n')
    duckdb.execute(f"COPY ({ODD}) TO '{here / 'rows.parquet'}'")
    return {kind: here / f"rows.{kind}" for kind in ("csv", "jsonl", "parquet")}


def engines(ds: Datasets) -> list[frozenset[str]]:
    """What the engines of this repo may read beside its parts."""
    return [key[3] for key in duckdb_connections._engines if key[2] == str(ds.context.folder / "parts")]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_small_files_say_what_large_ones_would(
    ds: Datasets, files: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers() -> list[Any]:
        rows = getattr(ds, f"read_{kind}")(files[kind])
        return [rows.schema, rows.filter(ml.C("n") > 1).to_list(), rows.order_by("n", descending=True).to_list()]

    small = answers()
    monkeypatch.setattr(table_files, "SMALL", 0)
    assert small == answers()


def test_many_small_files_share_one_engine(ds: Datasets, here: Path) -> None:
    for number in range(4):
        (here / f"{number}.csv").write_text(f"a\n{number}\n")
        assert ds.read_csv(here / f"{number}.csv").filter(ml.C("a") >= 0).to_list() == [(number,)]
    assert engines(ds) == [frozenset()]


def test_a_small_file_of_many_rows_is_read_in_place(ds: Datasets, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed, it may hold more than memory does."""
    path = here / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 20_000))
    monkeypatch.setattr(table_files, "_UNPACKED", 10_000)
    assert ds.read_csv(path).sum("a") == 20_000
    assert engines(ds) == [frozenset([str(path)])]


def test_small_files_of_one_run_share_one_limit(ds: Datasets, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alone is small, and a union of many is not."""
    paths = [here / f"{number}.csv" for number in range(5)]
    for path in paths:
        path.write_text("a\n" + "1\n" * 1000)
    rows = [ds.read_csv(path) for path in paths]
    for limit, size in (("_UNPACKED", 8_200), ("SMALL", paths[0].stat().st_size)):
        with monkeypatch.context() as patched:
            patched.setattr(table_files, limit, 2 * size)
            assert rows[0].union(*rows[1:]).sum("a") == 5000
        assert engines(ds)[-1] == frozenset(map(str, paths[2:]))


def test_rows_that_do_not_fit_are_read_in_vain_only_once(
    ds: Datasets, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for number in range(4):
        (here / f"{number}.csv").write_text("a\n" + "1\n" * 1000)
        rows.append(ds.read_csv(here / f"{number}.csv"))
    asked: list[int] = []
    real = duckdb_connections.sniffer
    monkeypatch.setattr(duckdb_connections, "sniffer", lambda: asked.append(1) or real())
    monkeypatch.setattr(table_files, "_UNPACKED", 1_000)
    assert rows[0].union(*rows[1:]).sum("a") == 4000
    assert len(asked) == 1


def test_a_parquet_file_whose_footer_tells_of_many_rows_is_not_begun(
    ds: Datasets, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS a FROM range(10_000)) TO '{here / 'a.parquet'}' (FORMAT parquet)")
    rows = ds.read_parquet(here / "a.parquet")
    monkeypatch.setattr(table_files, "_UNPACKED", 10_000)
    monkeypatch.setattr(duckdb_connections, "sniffer", lambda: pytest.fail("the file was begun"))
    assert rows.sum("a") == 10_000


def test_types_that_arrow_would_change_are_read_in_place(ds: Datasets, here: Path) -> None:
    path = here / "ids.parquet"
    duckdb.execute(f"COPY (SELECT uuid() AS id) TO '{path}'")
    [(found,)] = ds.read_parquet(path).to_list()
    assert ds.read_parquet(path).filter(ml.C("id") == str(found).upper()).count() == 1
    assert engines(ds) == [frozenset([str(path)])]


@pytest.mark.parametrize(
    ("reader", "given", "hint"),
    [
        ("read_csv", {"delimitr": ";"}, "Did you mean delimiter?"),
        ("read_parquet", {"union_by_names": True}, "Did you mean union_by_name?"),
        ("read_storage", {"recursiv": True}, "Did you mean recursive?"),
        ("read_jsonl", {"xyz": 1}, "It takes path."),
    ],
)
def test_an_option_that_a_reader_does_not_have_is_told_with_the_one_that_is_meant(
    ds: Datasets, reader: str, given: dict[str, Any], hint: str
) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=f"{reader} has no parameter '{next(iter(given))}'") as error:
        getattr(ds, reader)("nowhere", **given)
    assert error.value.hint == hint


MEANT = {"data[1]": "data1", "what?": "whats", "all*": "all of it", "[!a]": "b"}


@pytest.mark.parametrize("small", [0, table_files.SMALL])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_name_with_wildcards_in_it_means_that_file_alone(
    ds: Datasets, here: Path, monkeypatch: pytest.MonkeyPatch, kind: str, small: int
) -> None:
    """Beside each lies a file that its name would mean as a pattern."""
    monkeypatch.setattr(table_files, "SMALL", small)
    written = {"csv": "(FORMAT csv, HEADER)", "jsonl": "(FORMAT json)", "parquet": "(FORMAT parquet)"}[kind]
    for number, names in enumerate(MEANT.items()):
        for name, n in zip(names, (number, 99), strict=True):
            duckdb.execute(f"COPY (SELECT {n} AS n, 3.5 AS f) TO '{here / f'{name}.{kind}'}' {written}")
    for number, name in enumerate(MEANT):
        rows = getattr(ds, f"read_{kind}")(here / f"{name}.{kind}")
        assert rows.to_values("n") == rows.filter(ml.C("n") >= 0).to_values("n") == [number]


def test_a_repo_in_a_folder_with_wildcards_reads_its_own_parts(tmp_path: Path) -> None:
    for name in ("repo1", "repo[1]"):
        with ml.init(tmp_path / name) as repo:
            numbers = repo.datasets().read_values(x=[1, 2, 3]).save("numbers")
            assert numbers.filter(ml.C("x") > 1).to_list() == [(2,), (3,)]
