"""Every verb of a chain: what it gives, and what it says at once when it cannot."""

from __future__ import annotations

import copy
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets

C, func = ml.C, ml.func


@dataclass
class Inner:
    c: int
    d: int


@dataclass
class Nested:
    a: int
    b: Inner


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[Datasets]:
    with ml.init(tmp_path) as repo:
        yield repo.datasets()


@pytest.fixture
def rows(ds: Datasets) -> Chain:
    return ds.read_values(x=[3, 1, 2, None], s=["a", "b", None, "d"], l=[[1, 2], [], None, [3]])


# -- what is read and written ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "jsonl"])
def test_files_are_written_and_read_by_path_url_choice_and_range(ds: Datasets, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for number in (1, 2, 3):
        getattr(ds.read_values(x=[number]), f"to_{kind}")(f"{folder.as_uri()}/t{number}.{kind}")
    read = getattr(ds, f"read_{kind}")
    for pattern, expected in (("{1,3}", [1, 3]), ("{1..2}", [1, 2]), ("[23]", [2, 3]), ("*", [1, 2, 3])):
        assert sorted(read(f"{folder}/t{pattern}.{kind}").to_values("x")) == expected
        assert sorted(read(f"{folder.as_uri()}/t{pattern}.{kind}").to_values("x")) == expected
    (folder / f"t1.{kind}").rename(folder / f"t[1].{kind}")
    assert read(folder / f"t[1].{kind}").to_values("x") == [1]
    with pytest.raises(ml.errors.NotFound, match="no such file"):
        read(f"{folder}/t{{7..9}}.{kind}")


def test_a_pattern_that_matches_no_file_is_said(ds: Datasets, tmp_path: Path) -> None:
    (tmp_path / "f1.txt").write_text("x")
    assert ds.read_storage(f"{tmp_path}/f{{1..3}}.txt").count() == 1
    with pytest.warns(UserWarning, match=r"the pattern .*/f\{4\.\.6\}\.txt matches no file"):
        assert ds.read_storage([f"{tmp_path}/f{{4..6}}.txt", f"{tmp_path}/f1.txt"]).count() == 1


@pytest.mark.parametrize("partitioned", [False, True])
def test_parquet_is_compressed_as_asked_and_else_by_zstd(ds: Datasets, tmp_path: Path, *, partitioned: bool) -> None:
    rows = ds.read_values(x=[1, 2], k=["a", "a"])
    for options, expected in (({"compression": "gzip"}, "GZIP"), ({}, "ZSTD")):
        target = tmp_path / expected
        rows.to_parquet(target, **({"partition_cols": ["k"]} if partitioned else {}), **options)
        (file,) = target.rglob("*.parquet") if partitioned else [target]
        assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == expected


# -- rows ------------------------------------------------------------------------------------------


def test_filter_keeps_rows_for_which_all_conditions_hold_and_drops_nulls(rows: Chain) -> None:
    assert rows.filter(C("x") > 1).to_values("x") == [3, 2]
    assert rows.filter(C("x") > 1, C("s") == "a").to_values("x") == [3]
    assert rows.filter().count() == 4


def test_limit_and_offset_count_what_is_left_before_them(rows: Chain) -> None:
    assert rows.offset(1).limit(2).to_values("x") == [1, 2]
    assert rows.limit(2).offset(1).to_values("x") == [1]
    assert rows.limit(0).to_list() == rows.offset(9).to_list() == []


def test_order_by_puts_nulls_last_and_turns_round_one_column_or_all(rows: Chain, ds: Datasets) -> None:
    assert rows.order_by("x").to_values("x") == [1, 2, 3, None]
    assert rows.order_by("x", descending=True).to_values("x") == [3, 2, 1, None]
    pairs = ds.read_values(a=[1, 1, 2], b=[1, 2, 3])
    assert pairs.order_by("a", C("b").desc()).to_list() == [(1, 2), (1, 1), (2, 3)]


def test_distinct_of_all_columns_of_some_and_of_nested_ones(ds: Datasets) -> None:
    pairs = ds.read_values(a=[1, 1, 1, None, None], b=[[1], [1], [2], [3], [3]])
    assert sorted(pairs.distinct().to_list(), key=str) == [(1, [1]), (1, [2]), (None, [3])]
    assert pairs.distinct("a").count() == 2


def test_sample_and_shuffle_are_the_same_again_with_a_seed(ds: Datasets) -> None:
    numbers = ds.read_values(x=range(100))
    assert numbers.sample(5, seed=1).to_list() == numbers.sample(5, seed=1).to_list()
    assert numbers.shuffle(seed=1).to_list() != numbers.to_list()
    assert sorted(numbers.shuffle().to_values("x")) == list(range(100))


def test_chunks_share_all_rows_among_them(ds: Datasets) -> None:
    numbers = ds.read_values(x=range(7))
    chunks = [numbers.chunk(index, 3).to_values("x") for index in range(3)]
    assert sorted(x for chunk in chunks for x in chunk) == list(range(7))
    assert [len(chunk) for chunk in chunks] == [3, 2, 2]


# -- columns ---------------------------------------------------------------------------------------


def test_mutate_makes_renames_and_replaces_columns(rows: Chain) -> None:
    made = rows.mutate(y=C("x") + 1, t="s", x=C("x") * 10).limit(1)
    assert made.to_records() == [{"x": 30, "s": "a", "l": [1, 2], "y": 4, "t": "a"}]
    assert rows.mutate((C("x") + 1).label("z")).columns == ["x", "s", "l", "z"]


def test_columns_of_nothing_are_kept_and_computed_with(ds: Datasets) -> None:
    saved = ds.read_values(x=[None, None], y=[1, 2]).save("nothing")
    assert saved.mutate(z=C("x") + 1, n=C("x").is_null()).to_list() == [(None, 1, None, True), (None, 2, None, True)]
    assert saved.filter(C("x").is_null()).order_by("y").save("again").to_values("x") == [None, None]
    assert saved.filter(C("y") > 9).map(m=lambda x: x).save("empty").to_records() == []
    assert ds.read_dataset("empty").schema == {"x": "None", "y": "int", "m": "None"}


def test_select_keeps_nested_fields_in_their_place(ds: Datasets) -> None:
    found = ds.read_records([{"p": {"a": 1, "b": {"c": 2, "d": 3}}, "q": 4}], {"p": Nested, "q": int})
    assert found.select("p.a", "p.b.d").to_records() == [{"p": {"a": 1, "b": {"d": 3}}}]
    assert found.select_except("p").to_records() == [{"q": 4}]
    assert found.select(C("p.a").label("n")).to_records() == [{"n": 1}]


def test_explode_makes_a_row_of_each_item_and_none_of_an_empty_list(rows: Chain, ds: Datasets) -> None:
    assert rows.explode("l").to_list("x", "l") == [(3, 1), (3, 2), (None, 3)]
    untyped = ds.read_values(x=[1, 2]).map(y=lambda x: [x] * x)
    assert untyped.explode("y").to_values("y") == [1, 2, 2]
    assert ds.read_values(**{"a{b}": [[1]]}).explode("a{b}").to_list() == [(1,)]


# -- several chains --------------------------------------------------------------------------------


def test_group_by_columns_and_over_everything(ds: Datasets) -> None:
    found = ds.read_values(k=["a", "b", "a", None], x=[1, 2, 3, 4])
    made = found.group_by("k", n=func.count(), s=func.sum("x")).order_by("k").to_list()
    assert made == [("a", 2, 4), ("b", 1, 2), (None, 1, 4)]
    assert found.group_by(s=func.sum("x")).to_list() == [(10,)]
    assert found.group_by(partition_by="k", n=func.count()).count() == 3
    assert [found.sum("x"), found.avg("x"), found.min("x"), found.max("x"), found.count()] == [10, 2.5, 1, 4, 4]


def test_merge_left_inner_and_full_and_what_becomes_of_names(ds: Datasets) -> None:
    left, right = ds.read_values(k=[1, 2, None], a=[1, 2, 3]), ds.read_values(k=[1, 3, None], a=[5, 6, 7])
    assert sorted(left.merge(right, on="k").to_list(), key=str) == [(1, 1, 5), (2, 2, None), (None, 3, None)]
    assert left.merge(right, on="k", inner=True).to_records() == [{"k": 1, "a": 1, "right_a": 5}]
    full = left.merge(right, on="k", full=True, rname="r_").to_list()
    assert sorted(full, key=str) == [
        (1, 1, 5),
        (2, 2, None),
        (3, None, 6),
        (None, 3, None),
        (None, None, 7),
    ]
    other = ds.read_values(j=[1], b=[9])
    assert left.merge(other, on="k", right_on="j", inner=True).to_records() == [{"k": 1, "a": 1, "j": 1, "b": 9}]


@pytest.mark.parametrize("on", ["k", C("k") + 0], ids=["a column", "a computed key"])
def test_a_column_named_like_our_keys_stays(ds: Datasets, on: Any) -> None:
    left = ds.read_values(k=[1, 2], memlake_key_0=["a", "b"])
    right = ds.read_values(k=[1], MEMLAKE_KEY_1=["c"])
    merged = left.merge(right, on=on, inner=True).to_records()
    assert [one | {"right_k": 1} for one in merged] == [
        {"k": 1, "memlake_key_0": "a", "MEMLAKE_KEY_1": "c", "right_k": 1}
    ]
    assert left.subtract(right, on=on).to_records() == [{"k": 2, "memlake_key_0": "b"}]
    assert left.diff(right, on=on, added=True).to_records()[0]["memlake_key_0"] == "b"


def test_union_widens_types_and_orders_columns_as_the_left_has_them(ds: Datasets) -> None:
    assert (ds.read_values(a=[1], b=["x"]) | ds.read_values(b=["y"], a=[1.5])).to_list() == [(1.0, "x"), (1.5, "y")]
    assert (ds.read_values(a=[1]) + ds.read_values(a=[2])).union(ds.read_values(a=[3])).to_values("a") == [1, 2, 3]


def test_subtract_takes_nulls_for_equal(ds: Datasets) -> None:
    left = ds.read_values(a=[1, None, 2], b=[1, 2, 3])
    assert left.subtract(ds.read_values(a=[None, 2]), on="a").to_list() == [(1, 1)]
    assert left.subtract(ds.read_values(a=[1], b=[2])).count() == 3
    assert left.subtract(ds.read_values(z=[1]), on="a", right_on="z").count() == 2


def test_diff_tells_added_deleted_modified_and_same_rows(ds: Datasets) -> None:
    new, old = ds.read_values(a=[1, 2, 3], b=[1, 1, 1]), ds.read_values(a=[2, 3, 4], b=[1, 2, 1])
    assert sorted(new.diff(old, on="a").to_list()) == [(1, 1, "A"), (3, 1, "M"), (4, 1, "D")]
    assert sorted(new.diff(old, on="a", same=True, status_col=None).to_list()) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert new.diff(old, on="a", added=False, deleted=False, compare="b").to_list() == [(3, 1, "M")]


def test_similarity_search_finds_the_nearest_by_each_metric(ds: Datasets) -> None:
    found = ds.read_values(n=["a", "b"], v=[[1.0, 0.0], [0.0, 9.0]])
    assert found.similarity_search("v", [1.0, 0.1], k=1).to_list() == [("a", [1.0, 0.0])]
    assert found.similarity_search("v", [1.0, 0.2], k=1, metric="ip").to_values("n") == ["b"]
    assert found.similarity_search("v", [1.0, 0.0], k=1, metric="l2", score_column="d").to_values("d") == [0.0]


# -- what is there, and handed over ----------------------------------------------------------------


def test_schema_explain_and_show_tell_what_is_there(rows: Chain, capsys: pytest.CaptureFixture[str]) -> None:
    chain = rows.filter(C("x") > 1).map(y=lambda x: x * 1.5)
    assert chain.schema == {"x": "int", "s": "str", "l": "list[int]", "y": "float"}
    assert [line.split()[0] for line in chain.explain().splitlines()] == ["reads", "duckdb", "python"]
    chain.print_schema()
    rows.show(2, transpose=True)
    told = capsys.readouterr().out
    assert "y: float" in told
    assert "x  3       1" in told
    assert "[the first 2 rows]" in told


def test_rows_leave_as_tables_values_and_files_and_come_back(ds: Datasets, rows: Chain, tmp_path: Path) -> None:
    assert rows.to_pandas().shape == rows.to_polars().shape == (4, 3)
    assert rows.to_arrow().num_rows == sum(batch.num_rows for batch in rows.to_reader())
    assert next(iter(rows)) == rows.to_list()[0] == (3, "a", [1, 2])
    readers: dict[str, Callable[[Path], Chain]] = {
        "parquet": ds.read_parquet,
        "json": ds.read_json,
        "jsonl": ds.read_jsonl,
    }
    for kind, read in readers.items():
        file = tmp_path / f"rows.{kind}"
        getattr(rows, f"to_{kind}")(file)
        assert read(file).to_list() == rows.to_list()
    rows.to_csv(tmp_path / "rows.csv")
    assert ds.read_csv(tmp_path / "rows.csv").to_values("l") == ["[1, 2]", "[]", None, "[3]"]
    assert list(tmp_path.glob(".rows*")) == []


def test_files_of_no_rows_still_say_their_columns(ds: Datasets, rows: Chain, tmp_path: Path) -> None:
    none = rows.select("x", "s").filter(C("x") > 99)
    none.to_parquet(tmp_path / "none.parquet")
    none.to_csv(tmp_path / "none.csv")
    assert ds.read_parquet(tmp_path / "none.parquet").columns == ["x", "s"]
    assert (tmp_path / "none.csv").read_text().strip() == '"x","s"'


def test_a_changed_file_comes_last_and_order_by_puts_it_back(ds: Datasets, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text(name)
    files = ds.read_storage(folder)
    assert [one.name for one in files.to_values("file")] == ["a", "b", "c"]
    (folder / "a").write_text("another")
    files = ds.read_storage(folder)
    assert [one.name for one in files.to_values("file")] == ["b", "c", "a"]
    assert [one.name for one in files.order_by("file.path").to_values("file")] == ["a", "b", "c"]


@pytest.mark.parametrize("to", ["to_csv", "to_parquet", "to_json", "to_jsonl"])
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_any_work(rows: Chain, tmp_path: Path, to: str) -> None:
    called: list[int] = []
    with pytest.raises(ml.errors.NotFound, match=r"no folder .*misspelt"):
        getattr(rows.map(y=lambda s: called.append(1)), to)(tmp_path / "misspelt" / "x.out")
    assert not (tmp_path / "misspelt").exists() and not called


def test_rows_go_to_a_database_in_one_transaction_and_come_back(ds: Datasets, rows: Chain) -> None:
    con = sqlite3.connect(":memory:")
    assert rows.to_database("t", con) == rows.to_database("t", con, if_exists="replace") == 4
    assert ds.read_database("SELECT x FROM t WHERE x > ?", con, (1,)).to_values("x") == [3, 2]


# -- wrong inputs ----------------------------------------------------------------------------------


WRONG: dict[str, tuple[Callable[[Chain, Datasets], Any], str]] = {
    "unknown column of a filter": (lambda c, _: c.filter(C("xx") > 1), "did you mean 'x'"),
    "filter by a number": (lambda c, _: c.filter(C("x")), "true or false"),
    "filter that compares unlike things": (lambda c, _: c.filter(C("l") > 3), "cannot be computed"),
    "unknown column of a mutate": (lambda c, _: c.mutate(y="nothing"), "no column 'nothing'"),
    "mutate without a name": (lambda c, _: c.mutate(C("x") + 1), "name=expression"),
    "aggregate in a mutate": (lambda c, _: c.mutate(y=func.sum("x")), "aggregate"),
    "dotted name of a new column": (lambda c, _: c.mutate(**{"a.b": C("x")}), "cannot be the name"),
    "empty select": (lambda c, _: c.select(), "names no column"),
    "unknown select": (lambda c, _: c.select("q"), "no column 'q'"),
    "select of nothing left": (lambda c, _: c.select_except("x", "s", "l"), "leaves no column"),
    "unknown select_except": (lambda c, _: c.select_except("xs"), "did you mean"),
    "empty order": (lambda c, _: c.order_by(), "names no column"),
    "unknown order": (lambda c, _: c.order_by("z"), "no column 'z'"),
    "negative limit": (lambda c, _: c.limit(-1), "0 or more"),
    "limit that is no number": (lambda c, _: c.limit("3"), "whole number"),
    "limit of true": (lambda c, _: c.limit(True), "whole number"),
    "negative offset": (lambda c, _: c.offset(-2), "0 or more"),
    "chunk past the last": (lambda c, _: c.chunk(2, 2), "from 0 to 1"),
    "explode of a number": (lambda c, _: c.explode("x"), "not a column of lists"),
    "unknown distinct": (lambda c, _: c.distinct("z"), "no column 'z'"),
    "group_by of nothing": (lambda c, _: c.group_by(), "makes nothing"),
    "group_by of a plain column": (lambda c, _: c.group_by("x", y=C("s")), "not an aggregate"),
    "merge on an unknown column": (lambda c, _: c.merge(c, on="xx"), "did you mean 'x'"),
    "merge of numbers with text": (lambda c, _: c.merge(c, on="x", right_on="s"), "never equal"),
    "merge by unlike counts": (lambda c, _: c.merge(c, on=["x", "s"], right_on="x"), "2 columns"),
    "merge into taken names": (lambda c, _: c.merge(c, on="x", rname=""), "both sides"),
    "union of other columns": (lambda c, d: c.union(d.read_values(z=[1])), "only right: z"),
    "union of other types": (lambda _, d: d.read_values(a=[1]).union(d.read_values(a=["x"])), "int on one side"),
    "subtract without a shared column": (lambda c, d: c.subtract(d.read_values(z=[1])), "0 columns"),
    "diff on an unknown column": (lambda c, _: c.diff(c, on="z"), "no column 'z'"),
    "merge on a number": (lambda c, _: c.merge(c, on=33), "merge takes columns, not 33"),
    "merge on a list of numbers": (lambda c, _: c.merge(c, on=[33]), "merge takes columns, not 33"),
    "subtract on a number": (lambda c, _: c.subtract(c, on=33), "subtract takes columns, not 33"),
    "diff on nothing": (lambda c, _: c.diff(c, on=None), "diff takes columns, not None"),
    "diff of an unknown column": (lambda c, _: c.diff(c, on="x", compare="z"), "no column 'z'"),
    "diff of what is computed": (lambda c, _: c.diff(c, on="x", compare=C("x") + 1), "compare takes columns"),
    "diff twice": (lambda c, _: c.diff(c, on="x").diff(c, on="x"), "status_col='diff_2'"),
    "group_by a number": (lambda c, _: c.group_by(partition_by=3, n=func.count()), "group_by takes columns, not 3"),
    "agg by a number": (lambda c, _: c.agg(n=lambda x: [1], partition_by=3), "agg takes columns, not 3"),
    "select_except what is computed": (lambda c, _: c.select_except(C("x") + 1), "select_except takes columns"),
    "select_except a field": (
        lambda _, d: d.read_values(m=[Inner(1, 2)], k=[1]).select_except("m.c"),
        "select_except takes whole columns",
    ),
    "a method that is none": (lambda c, _: c.filter(C("x").is_(None)), "Write .is_null(), or == None."),
    "a method misspelt": (lambda c, _: c.filter(C("s").starts_with("a")), "Did you mean .startswith()?"),
    "map of a column": (lambda c, _: c.map(y=C("x")), "not a function"),
    "a database by its address": (lambda _, d: d.read_database("select 1", "sqlite:///x.db"), "Open it first"),
    "into a database by its address": (lambda c, _: c.to_database("t", "sqlite:///x.db"), "Nothing was written"),
    "a record that says a thing twice": (
        lambda _, d: d.read_records([{"m": Inner(1, 2), "m__c": 3}], schema={"m": Inner}),
        "record 0 has both 'm' and 'm__c'",
    ),
    "unknown metric": (lambda c, _: c.similarity_search("l", [1.0], metric="cos"), "cosine"),
    "map without a function": (lambda c, _: c.map(), "needs a function"),
    "map of no function": (lambda c, _: c.map(y=3), "not a function"),
    "nameless lambda": (lambda c, _: c.map(lambda x: x), "needs a name"),
    "unknown parameter": (lambda c, _: c.map(y=lambda xs: xs), "did you mean 'x'"),
    "unknown param": (lambda c, _: c.map(y=lambda v: v, params=["z"]), "no column 'z'"),
    "too many params": (lambda c, _: c.map(y=lambda v: v, params=["x", "s"]), "2 columns for 1"),
    "two functions of a gen": (lambda c, _: c.gen(a=lambda x: [x], b=lambda x: [x]), "takes one function"),
    "agg by an unknown column": (lambda c, _: c.agg(n=lambda x: [1], partition_by="z"), "no column 'z'"),
    "unknown setting": (lambda c, _: c.settings(paralel=2), "no setting 'paralel'"),
    "negative parallel": (lambda c, _: c.settings(parallel=-3), "0 or more"),
    "unknown on_error": (lambda c, _: c.settings(on_error="ignore"), "raise, skip, column"),
    "unknown engine": (lambda c, _: c.settings(engine="spark"), "'local', 'ray'"),
    "setup of a value": (lambda c, _: c.setup(m=3), "takes a function"),
    "columns of unlike lengths": (lambda _, d: d.read_values(a=[1], b=[1, 2]), "different lengths"),
    "a value for a list": (lambda _, d: d.read_values(a=1), "not a list of values"),
    "a text for a list": (lambda _, d: d.read_values(a="abc"), "not a list of values"),
    "a new name that differs in case": (lambda c, _: c.mutate(X=C("x")), "one name to the engine"),
    "a function's name that differs in case": (lambda c, _: c.map(X=lambda x: x), "one name to the engine"),
    "a column without a name": (lambda _, d: d.read_arrow(pa.table({"": [1]})), "no name"),
    "the same name twice": (lambda _, d: d.read_arrow(pa.table([[1], [2]], names=["x", "x"])), "twice"),
    "a number too long": (
        lambda _, d: d.read_arrow(pa.table({"x": pa.array([Decimal(10) ** 45], pa.decimal256(50))})),
        "too large",
    ),
    "a file that is not there": (lambda _, d: d.read_parquet("nowhere.parquet"), "no such file"),
    "storage of an unknown type": (lambda _, d: d.read_storage(".", type="img"), "binary, text, image"),
    "dataset that is not there": (lambda _, d: d.read_dataset("nothing"), "no dataset 'nothing'"),
    "name that cannot be": (lambda c, _: c.save("my pets"), "cannot be the name"),
    "name no folder can have": (lambda c, _: c.save("nul"), "a reserved device name on Windows.\nChoose another"),
    "number of rows to show": (lambda c, _: c.show(-1), "0 or more, not -1"),
    "name with a version": (lambda c, _: c.save("pets@1.0.0"), "cannot be the name"),
    "version that is none": (lambda c, _: c.save("pets", version="one"), "not a version"),
    "bump that is none": (lambda c, _: c.save("pets", update_version="tiny"), "'patch', 'minor' or 'major'"),
    "attrs that are one text": (lambda c, _: c.save("pets", attrs="a"), "lists of texts"),
    "placement that is none": (lambda c, _: c.to_storage("out", "s", placement="flat"), "fullpath"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_said_at_once_and_nothing_is_saved(name: str, rows: Chain, ds: Datasets) -> None:
    do, told = WRONG[name]
    with pytest.raises(ml.Error) as caught:
        do(rows, ds)
    assert told in str(caught.value)
    assert ds.all() == []


# -- columns by name, by C and computed ------------------------------------------------------------

WAYS: dict[str, Callable[[Chain, Any], Any]] = {
    "select": lambda c, x: c.select(x).to_list(),
    "select_except": lambda c, x: c.select_except(x).to_list(),
    "distinct": lambda c, x: c.distinct(x).to_list(),
    "order_by": lambda c, x: c.order_by(x).to_list(),
    "explode": lambda c, x: c.mutate(x=func.array(1, 2)).explode(x).to_list(),
    "group_by": lambda c, x: c.group_by(x, n=func.count()).order_by("x").to_list(),
    "partition_by": lambda c, x: c.group_by(partition_by=x, n=func.count()).order_by("x").to_list(),
    "partition_by of several": lambda c, x: c.group_by(partition_by=[x], n=func.count()).order_by("x").to_list(),
    "agg": lambda c, x: c.agg(n=lambda x: [len(x)], partition_by=x, output=int).to_list(),
    "agg of several": lambda c, x: c.agg(n=lambda x: [len(x)], partition_by=(x,), output=int).to_list(),
    "params": lambda c, x: c.map(y=lambda v: v, params=x, output=int).to_list(),
    "params of several": lambda c, x: c.map(y=lambda v, w: v, params=[x, "s"], output=int).to_list(),
    "merge": lambda c, x: c.merge(c, on=x).to_list(),
    "merge of several": lambda c, x: c.merge(c, on=(x, "s"), right_on=[x, C("s")]).to_list(),
    "subtract": lambda c, x: c.subtract(c.limit(1), on=x).to_list(),
    "diff": lambda c, x: c.diff(c.limit(1), on="s", compare=x, same=True).to_list(),
    "diff on": lambda c, x: c.diff(c.limit(1), on=x, same=True).to_list(),
    "to_list": lambda c, x: c.to_list(x, "s"),
    "to_iter": lambda c, x: list(c.to_iter(x)),
    "to_values": lambda c, x: c.to_values(x),
    "sum": lambda c, x: c.sum(x),
}


@pytest.mark.parametrize("verb", WAYS)
def test_a_column_is_named_by_text_or_by_C_in_every_verb(ds: Datasets, verb: str) -> None:
    rows = ds.read_values(x=[2, 1, 1], s=["a", "b", "c"])
    assert WAYS[verb](rows, C("x")) == WAYS[verb](rows, C.x) == WAYS[verb](rows, "x")


def test_rows_meet_by_what_is_computed_of_their_columns(ds: Datasets) -> None:
    left = ds.read_values(p=["a/1.jpg", "a/2.jpg"], n=[1, 2])
    right = ds.read_values(stem=["1", "3"], label=["cat", "dog"])
    stem = func.path.file_stem("p")
    assert left.merge(right, on=stem, right_on="stem").to_records() == [
        {"p": "a/1.jpg", "n": 1, "stem": "1", "label": "cat"},
        {"p": "a/2.jpg", "n": 2, "stem": None, "label": None},
    ]
    assert right.merge(left, on="stem", right_on=stem, inner=True).columns == ["stem", "label", "p", "n"]
    assert left.merge(left, on=[C("n") % 2, stem], full=True).columns == ["p", "n", "right_p", "right_n"]
    assert left.subtract(right, on=stem, right_on="stem").to_records() == [{"p": "a/2.jpg", "n": 2}]
    upper = ds.read_values(p=["A/1.JPG"], n=[1])
    for compare, status in ((None, "M"), ("n", "S")):
        found = left.diff(upper, on=C("p").lower(), compare=compare, same=True)
        assert found.to_list() == [("a/1.jpg", 1, status), ("a/2.jpg", 2, "A")]
    assert sorted(left.agg(t=lambda n: [sum(n)], partition_by=C("n") > 0, output=int).to_values("t")) == [3]
    assert left.agg(t=lambda n: [sum(n)], partition_by=stem, output=int).to_values("t") == [1, 2]


def test_a_field_inside_a_column_is_listed_as_its_value_by_text_and_by_C(ds: Datasets) -> None:
    rows = ds.read_values(m=[Inner(1, 2)], k=[7])
    assert rows.to_list("m.c") == rows.to_list(C("m.c")) == rows.to_list(C.m.c) == [(1,)]
    assert rows.to_list(C("k") + 1, "k") == [(8, 7)]


def test_records_fill_a_model_by_names_with_two_underscores(ds: Datasets) -> None:
    told = [{"m__c": 1, "m__d": 2, "k__x": 3}, {"m__c": 4, "m__d": 5, "k__x": 6}]
    rows = ds.read_records(told, schema={"m": Inner})
    assert rows.to_records() == [{"m": Inner(1, 2), "k__x": 3}, {"m": Inner(4, 5), "k__x": 6}]
    dotted = ds.read_records([{"n.a": 1, "n.b.c": 2, "n.b.d": 3}], schema={"n": Nested})
    deep = ds.read_records([{"n__a": 1, "n__b__c": 2, "n__b__d": 3}], schema={"n": Nested})
    assert dotted.to_list() == deep.to_list()
    assert deep.to_values("n") == [Nested(1, Inner(2, 3))]


def test_a_column_of_the_schema_that_no_record_has_is_said(ds: Datasets) -> None:
    with pytest.warns(UserWarning, match="no record has a value for 'c', which the schema names"):
        assert ds.read_records([{"a": 1}], schema={"c": int}).to_records() == [{"c": None, "a": 1}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.read_records([], schema={"c": int})
        ds.read_records([{"a": 1}, {"c": 2}], schema={"c": int})


# -- rows that failed, and orders ------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["skip", "column"])
def test_distances_are_of_rows_that_have_a_vector(ds: Datasets, on_error: str) -> None:
    def vector(k: int) -> list[float]:
        return [float(k), 1 / k]

    ds.read_values(k=[0, 1, 2]).settings(on_error=on_error).map(v=vector).save("some")
    near = ds.read_dataset("some").mutate(d=func.cosine_distance("v", [1.0, 0.0]), far=func.l2_distance("v", [1.0, 0]))
    assert [far for d, far in near.to_list("d", "far") if d is not None] == pytest.approx([1.0, 1.25**0.5])
    assert ds.read_dataset("some").similarity_search("v", [1.0, 0.0], k=1).to_values("k") == [2]


@pytest.mark.parametrize("step", ["subtract", "merge", "distinct", "distinct_all", "window", "diff"])
def test_an_order_that_was_asked_for_is_kept_by_steps_after_it(ds: Datasets, step: str) -> None:
    every = ds.read_values(i=range(60), a=[i * 7 % 20 for i in range(60)])
    rows = every.map(s=lambda i: i).order_by("i", descending=True)
    few = ds.read_values(a=[1, 2, 5], z=[1, 2, 3])
    chain = {
        "subtract": rows.subtract(few, on="a"),
        "merge": rows.merge(few, on="a"),
        "distinct": rows.distinct("a"),
        "distinct_all": rows.distinct(),
        "window": rows.mutate(n=func.row_number().over(func.window(partition_by="a", order_by="i"))),
        "diff": rows.diff(every.filter(C("i") % 3 == 0), on="i"),
    }[step]
    found = [one["i"] for one in chain.to_records()]
    assert found == sorted(found, reverse=True)
    assert [one["i"] for one in chain.limit(5).to_records()] == found[:5]
    assert step != "distinct" or found == list(range(59, 39, -1))


# -- what cannot be -----------------------------------------------------------------------------------


def test_what_is_no_chain_name_or_number_of_rows_is_said_at_once(rows: Chain, ds: Datasets, tmp_path: Path) -> None:
    wrong: dict[str, Callable[[], Any]] = {
        "union takes another chain, not None": lambda: rows.union(None),  # type: ignore[arg-type]
        "merge takes another chain, not 'x'": lambda: rows.merge("x", on="x"),  # type: ignore[arg-type]
        "subtract takes another chain": lambda: rows.subtract(3),  # type: ignore[arg-type]
        "diff takes another chain": lambda: rows.diff(None, on="x"),  # type: ignore[arg-type]
        "named by text, not None": lambda: rows.save(None),  # type: ignore[arg-type]
        "named by text, not 3": lambda: ds.read_dataset(3),  # type: ignore[arg-type]
        "show takes a whole number": lambda: rows.show("x"),  # type: ignore[arg-type]
        "is a folder. Nothing was written": lambda: rows.select("x").to_parquet(tmp_path / "out"),
        "a value of 'value' is too large for int64": lambda: ds.read_values(a=[2**62] * 4).sum("a"),
    }
    (tmp_path / "out").mkdir()
    before = set(tmp_path.iterdir())
    for said, attempt in wrong.items():
        with pytest.raises(ml.errors.InvalidInput, match=said):
            attempt()
    assert set(tmp_path.iterdir()) == before


def test_an_index_with_a_name_is_a_column(ds: Datasets) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": ["a", "b"], "n": [1, 2]})
    assert ds.read_pandas(frame.set_index("user")).to_list("user", "n") == [("a", 1), ("b", 2)]
    assert ds.read_pandas(frame).columns == ["user", "n"]
    with pytest.raises(ml.errors.InvalidInput, match="index 'n' cannot be a column"):
        ds.read_pandas(frame.rename_axis("n"))


def test_fields_of_nested_columns_are_listed_as_values(ds: Datasets) -> None:
    found = ds.read_records([{"p": {"a": 1, "b": {"c": 2, "d": 3}}, "q": 4}], {"p": Nested, "q": int})
    assert found.to_list("p.b.d", "q", "p.a") == list(found.to_iter("p.b.d", "q", "p.a")) == [(3, 4, 1)]
    assert found.to_list("p.b") == [(Inner(2, 3),)]


def test_no_rows_of_no_columns_are_no_rows(ds: Datasets) -> None:
    nothing = ds.read_records([])
    assert nothing.to_records() == nothing.limit(3).to_list() == [] and nothing.count() == 0


# -- what a function makes ---------------------------------------------------------------------------


def test_a_type_given_as_output_leaves_a_function_the_name_it_was_given(ds: Datasets) -> None:
    one = ds.read_values(a=[1])
    assert one.map(b=lambda a: a, output=int).schema == {"a": "int", "b": "int"}
    assert one.map(b=lambda a: a, c=lambda a: a, output=float).to_records() == [{"a": 1, "b": 1.0, "c": 1.0}]
    assert one.batch_map(b=lambda a: a, output=int).columns == ["a", "b"]
    assert one.gen(b=lambda a: [a], output=int).columns == ["b"]
    assert one.map(b=lambda a: (a, a), output=["x", "y"]).columns == ["a", "x", "y"]


@pytest.mark.parametrize("verb", ["gen", "agg"])
def test_errors_as_a_column_are_refused_where_a_row_that_fails_makes_none(ds: Datasets, verb: str) -> None:
    chain = ds.read_values(a=[0, 1]).settings(on_error="column")
    with pytest.raises(ml.errors.InvalidInput, match=f"cannot keep the errors of {verb}.*Nothing was run"):
        getattr(chain, verb)(b=lambda a: [1 / a])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("fliter", "Did you mean filter?"), ("where", "Did you mean filter?"), ("qqqq", "See: help(memlake.Chain)")],
)
def test_a_method_that_a_chain_does_not_have_is_told_with_the_one_that_is_meant(
    ds: Datasets, name: str, hint: str
) -> None:
    chain = ds.read_values(x=[1])
    with pytest.raises(AttributeError) as error:
        getattr(chain, name)
    assert str(error.value) == f"a chain has no method {name!r}. {hint}"
    assert not hasattr(chain, name) and copy.copy(chain).to_values("x") == [1]


def test_a_list_of_a_column_that_holds_nothing_is_a_list(ds: Datasets) -> None:
    rows = ds.read_values(i=[None, None], s=["a", "b"]).group_by("s", x=func.list("i"))
    assert sorted((row["s"], row["x"]) for row in rows.to_records()) == [("a", [None]), ("b", [None])]
