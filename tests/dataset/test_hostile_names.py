"""Hostile names through every reader, verb, output and diff: each comes back exactly, or is refused by an error."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets

NAMES = [
    'x"; DROP TABLE t; --', "x' OR 1=1", '"', "'", "`", "select", "FROM", "*", "a\nb", "a\r\nb", "\x1b[31mred", "é",
    "x" * 10_240, "$1", "?", "{0}", "{", "}", "{{", "{x!r}", "%s", "%", "--", "/*", "a;b", "\\", 'a\\"b', "a\tb",
    "rowid", "memlake_0", "memlake_place", "memlake_side", "keep", "place", "told", "it", "\u202eabc", "\u2066",
    "x::int", "1", "true", "NULL", "COLUMNS(*)", "[0]", "c0", "by_0",
    "\ufeffbom", "\U0001f600", "a, b", ":name", "@x", "a=1",
]  # fmt: skip
REFUSED = ["a\0b", "\0", "\ud800", "x\udfff", "", "  "]
ROWS = {name: [i, i + 100, None] for i, name in enumerate(NAMES)}
RECORDS = [{name: values[row] for name, values in ROWS.items()} for row in range(3)]


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


def rows(ds: Datasets) -> Chain:
    return ds.read_values(**ROWS)


# -- in and out


def test_every_reader_takes_hostile_names_as_they_are(ds: Datasets, tmp_path: Path) -> None:
    made = rows(ds)
    made.to_csv(tmp_path / "t.csv")
    made.to_parquet(tmp_path / "t.parquet")
    made.to_json(tmp_path / "t.json")
    made.to_jsonl(tmp_path / "t.jsonl")
    con = sqlite3.connect(":memory:")
    made.to_database("t", con)
    table = made.to_arrow()
    read: dict[str, Chain] = {
        "values": made,
        "records": ds.read_records(RECORDS),
        "arrow": ds.read_arrow(table),
        "pandas": ds.read_pandas(table.to_pandas(types_mapper={pa.int64(): __import__("pandas").Int64Dtype()}.get)),
        "polars": ds.read_polars(made.to_polars()),
        "csv": ds.read_csv(tmp_path / "t.csv"),
        "parquet": ds.read_parquet(tmp_path / "t.parquet"),
        "json": ds.read_json(tmp_path / "t.json"),
        "jsonl": ds.read_jsonl(tmp_path / "t.jsonl"),
        "database": ds.read_database("t", con),
    }
    for reader, chain in read.items():
        assert chain.to_records() == RECORDS, reader
    made.save("hostile")
    assert ds.read_dataset("hostile").to_records() == RECORDS


def test_every_output_gives_hostile_names_back(ds: Datasets, capsys: pytest.CaptureFixture[str]) -> None:
    made = rows(ds)
    assert made.to_arrow().column_names == NAMES
    assert list(made.to_pandas().columns) == NAMES
    assert made.to_polars().columns == NAMES
    assert [made.to_values(name) for name in NAMES] == list(ROWS.values())
    made.show()
    made.print_schema()
    assert "\x1b" not in capsys.readouterr().out
    made.explain()


# -- verbs

FIRST, REST = NAMES[0], NAMES[1:]
VERBS: dict[str, Callable[[Chain], Any]] = {
    "filter": lambda c: c.filter(*(ml.C(name) >= 100 for name in NAMES)).to_records() == RECORDS[1:2],
    "order_by": lambda c: c.order_by(*NAMES, descending=True).limit(1).to_records() == RECORDS[1:2],
    "select": lambda c: c.select(*reversed(NAMES)).columns == NAMES[::-1],
    "select_except": lambda c: c.select_except(*REST).to_values(FIRST) == ROWS[FIRST],
    "mutate": lambda c: c.mutate(**{n: ml.C(n) + 1 for n in NAMES}).to_list()[0] == tuple(range(1, len(ROWS) + 1)),
    "label": lambda c: c.select(*((ml.C(n) * 1).label(n) for n in NAMES)).to_records() == RECORDS,
    "window": lambda c: c.mutate(w=ml.func.row_number().over(ml.func.window(NAMES, NAMES))).to_values("w") == [1, 1, 1],
    "distinct": lambda c: c.distinct(*NAMES).to_records() == RECORDS,
    "group_by": lambda c: c.group_by(*NAMES, **{"a {}": ml.func.count()}).to_values("a {}") == [1, 1, 1],
    "aggregates": lambda c: c.group_by(**{n: ml.func.first(n) for n in NAMES}).to_records() == RECORDS[:1],
    "merge": lambda c: c.merge(c, on=NAMES[:40]).count() == 3,
    "outer merge": lambda c: c.merge(c, on=FIRST, full=True).columns == [*NAMES, *(f"right_{n}" for n in REST)],
    "union": lambda c: c.union(c).to_records() == RECORDS * 2,
    "subtract": lambda c: c.subtract(c.limit(1), on=NAMES).to_records() == RECORDS[1:],
    "diff": lambda c: c.diff(c.limit(1), on=NAMES[:3], status_col="{9}").to_values("{9}") == ["A", "A"],
    "shuffle": lambda c: len(c.shuffle(1).chunk(0, 1).to_records()) == 3,
    "explode": lambda c: c.mutate(**{"{": ml.func.array("{")}).explode("{").to_values("{") == ROWS["{"],
    "map": lambda c: c.map(lambda *x: sum(x[:2]), params=["{0}", "%s"], output={'{"': int}).columns == [*NAMES, '{"'],
    "agg": lambda c: c.agg(lambda x: [len(x)], FIRST, ["{0}"], output={"'": int}).to_values("'") == [1] * 3,
    "persist": lambda c: c.filter(ml.C("keep") > 99).persist().filter(ml.C("place") > 0).to_records() == RECORDS[1:2],
    "sum": lambda c: c.sum("{0}") == sum(ROWS["{0}"][:2]),
    "to_hf": lambda c: c.to_hf().column_names == NAMES,
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_hostile_names_as_they_are(ds: Datasets, verb: str) -> None:
    assert VERBS[verb](rows(ds))


def test_fields_of_structs_may_be_named_so_too(ds: Datasets) -> None:
    made = ds.read_arrow(pa.table({"s": [{name: i for i, name in enumerate(NAMES)}]}))
    assert made.select(*(f"s.{name}" for name in NAMES)).to_records() == made.to_records()
    assert made.mutate(s=ml.C("s")["{0}"]).to_values("s") == [NAMES.index("{0}")]
    assert made.mutate(s=ml.C("s").cast(made.arrow_schema.field("s").type)).to_records() == made.to_records()
    assert made.diff(made, on="s.{0}", same=True, status_col="how").to_values("how") == ["S"]
    made.save("structs")
    assert ds.read_dataset("structs").filter(ml.C("s.'") >= 0).to_records() == made.to_records()


def test_a_saved_selection_of_hostile_columns_reads_back(ds: Datasets) -> None:
    wide = ds.read_values(**{name: list(range(40_000)) for name in ("keep", "memlake_keep", "place", "{0}")})
    wide.save("wide")
    ds.read_dataset("wide").filter(ml.C("keep") % 2 == 0).save("half")
    half = ds.read_dataset("half")
    assert half.filter(ml.C("place") >= 39_996).to_values("keep") == [39_996, 39_998]
    found = ds.diff("wide", "half").table
    assert (found.added, found.removed, found.key.columns) == (0, 20_000, ("keep",))


# -- refused at the door

DOORS: dict[str, Callable[[Datasets, str, Path], Any]] = {
    "read_values": lambda ds, n, _: ds.read_values(**{n: [1]}),
    "read_records": lambda ds, n, _: ds.read_records([{n: 1}]),
    "read_arrow": lambda ds, n, _: ds.read_arrow(pa.table({n: [1]})),
    "field of a struct": lambda ds, n, _: ds.read_arrow(pa.table({"s": [{n: 1}]})),
    "read_pandas": lambda ds, n, _: ds.read_pandas(__import__("pandas").DataFrame({n: [1]})),
    "read_json": lambda ds, n, at: (at.write_text(json.dumps([{n: 1}])), ds.read_json(at)),
    "read_csv": lambda ds, n, at: (at.write_text(f'"{n}",b\n1,2\n', errors="surrogatepass"), ds.read_csv(at)),
    "mutate": lambda ds, n, _: ds.read_values(x=[1]).mutate(**{n: ml.C("x")}),
    "label": lambda ds, n, _: ds.read_values(x=[1]).select(ml.C("x").label(n)),
    "group_by": lambda ds, n, _: ds.read_values(x=[1]).group_by("x", **{n: ml.func.count()}),
    "map": lambda ds, n, _: ds.read_values(x=[1]).map(lambda x: x, output={n: int}),
    "status_col": lambda ds, n, _: ds.read_values(x=[1]).diff(ds.read_values(x=[1]), on="x", status_col=n),
    "C": lambda ds, n, _: ds.read_values(x=[1]).filter(ml.C(n) > 1),
    "to_database": lambda ds, n, _: ds.read_values(x=[1]).to_database(n, sqlite3.connect(":memory:")),
    "read_dataset": lambda ds, n, _: ds.read_dataset(n),
    "save": lambda ds, n, _: ds.read_values(x=[1]).save(n),
}


@pytest.mark.parametrize("door", DOORS)
def test_names_that_nothing_can_hold_are_refused_at_the_door(ds: Datasets, tmp_path: Path, door: str) -> None:
    of_arrow = door in ("read_arrow", "read_pandas", "field of a struct")  # which hold no half characters
    for name in REFUSED[:2] if of_arrow else REFUSED[:4]:
        with pytest.raises(ml.Error):
            DOORS[door](ds, name, tmp_path / "rows.txt")


signs = st.sampled_from([*"\"'`{}[]()$?%;:,\\-*/=@#\n\t a0é\u202e\U0001f600", "--", "{0}", "$1", "%s", "''", "SELECT "])


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    names=st.lists(st.lists(signs, min_size=1, max_size=6).map("".join), min_size=2, max_size=4, unique_by=str.lower)
)
def test_any_name_comes_back_or_is_refused(ds: Datasets, tmp_path: Path, names: list[str]) -> None:
    records = [{name: row + at for at, name in enumerate(names)} for row in range(3)]
    try:
        made = ds.read_records(records)
    except ml.Error:
        assert any(not name.strip() for name in names)
        return
    first = names[0]
    made.to_parquet(tmp_path / "t.parquet")
    made.to_jsonl(tmp_path / "t.jsonl")
    for chain in (made, ds.read_parquet(tmp_path / "t.parquet"), ds.read_jsonl(tmp_path / "t.jsonl")):
        assert chain.to_records() == records
    assert made.filter(ml.C(first) > 0).order_by(first, descending=True).to_records() == records[:0:-1]
    assert made.diff(made.limit(1), on=names, status_col="how").to_values("how") == ["A", "A"]
