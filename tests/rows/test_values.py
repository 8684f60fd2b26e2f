"""Values on their way through a chain: what a function returns, and what verbs, files and frames make of it."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import operator
import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake.dataset import show_rows
from memlake.dataset.datasets import Datasets
from memlake.errors import InvalidInput, RowFailed

C, func = ml.C, ml.func


class Pair(NamedTuple):
    a: int
    b: int


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[Datasets]:
    with ml.init(tmp_path / "repo") as repo:
        yield repo.datasets()


# -- the order of columns --------------------------------------------------------------------------


def test_order_by_takes_a_direction_for_each_column(ds: Datasets) -> None:
    rows = ds.read_values(s=["a", "b", "a"], x=[1, 2, 3])
    assert rows.order_by("s", "x", descending=[False, True]).to_list() == [("a", 3), ("a", 1), ("b", 2)]
    assert rows.order_by("s", "x", descending=(False, False)).to_list() == [("a", 1), ("a", 3), ("b", 2)]
    assert rows.order_by(C("s").asc(), "x", descending=True).to_values("x") == [3, 1, 2]


@pytest.mark.parametrize("given", [[True], [], [False, False, False], "no", 1, None, [0, 1]])
def test_order_by_refuses_directions_that_are_not_one_for_each_column(ds: Datasets, given: Any) -> None:
    with pytest.raises(InvalidInput, match="for 2 columns"):
        ds.read_values(s=["a"], x=[1]).order_by("s", "x", descending=given)


# -- what functions return -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (0, [0]),
        (7, [7]),
        (False, [False]),
        ("", [""]),
        ("ab", ["ab"]),
        (b"ab", [b"ab"]),
        ({"a": 1}, [{"a": 1}]),
        (Pair(1, 2), [Pair(1, 2)]),
        (np.float64(0), [0.0]),
        (np.array(3), [3]),
        (np.array([1, 2]), [1, 2]),
        ([], []),
        ([0, 0], [0, 0]),
    ],
)
def test_an_agg_that_returns_a_value_makes_one_row_of_it(ds: Datasets, returned: Any, expected: list[Any]) -> None:
    assert ds.read_values(x=[0, 0]).agg(y=lambda x: returned).to_values("y") == expected


def test_an_agg_that_returns_a_tuple_for_several_columns_makes_one_row_of_it(ds: Datasets) -> None:
    rows, several = ds.read_values(x=[3, 4]), {"low": int, "high": int}
    assert rows.agg(lambda x: (min(x), max(x)), output=several).to_list() == [(3, 4)]
    assert rows.agg(lambda x: ((0, 1), (2, 3)), output=several).to_list() == [(0, 1), (2, 3)]
    assert rows.agg(lambda x: None, output=several).to_list() == [(None, None)]
    assert rows.agg(y=lambda x: None, output=int).to_list() == [(None,)]


@pytest.mark.parametrize("returned", [0, 5, False, "", "ab", b"", {"a": 1}, {}, Pair(1, 2), np.float64(3)])
def test_a_gen_that_returns_no_rows_is_an_error_that_names_the_row(ds: Datasets, returned: Any) -> None:
    with pytest.raises(RowFailed, match=rf"gen y: .* with x=4:\nit returned .*{type(returned).__name__}") as told:
        ds.read_values(x=[4]).gen(y=lambda x: returned).to_list()
    assert "skip" in told.value.hint and "column" not in told.value.hint


def test_a_gen_gives_the_items_of_arrays_and_no_rows_for_none(ds: Datasets) -> None:
    rows = ds.read_values(x=[4])
    assert rows.gen(y=lambda x: np.array([1, 2])).to_values("y") == [1, 2]
    assert rows.gen(y=lambda x: np.array([], int), output=int).to_list() == []
    assert rows.gen(y=lambda x: None, output=int).to_list() == []
    assert rows.gen(y=lambda x: [{"a": 1}], output=dict).to_list() == [({"a": 1},)]


def test_texts_and_dicts_are_never_taken_apart_into_columns(ds: Datasets) -> None:
    rows, several = ds.read_values(x=[4]), {"a": str, "b": str}
    with pytest.raises(RowFailed, match="'ab', str, for a row of several columns"):
        rows.gen(lambda x: ["ab"], output=several).to_list()
    with pytest.raises(InvalidInput, match="dict, for a row of several columns"):
        rows.map(lambda x: {"a": "1", "b": "2"}, output=several).to_list()


def test_an_error_in_an_agg_calls_it_agg(ds: Datasets) -> None:
    with pytest.raises(RowFailed, match="agg y: "):
        ds.read_values(x=[4]).agg(y=lambda x: 1 / 0).to_list()


# -- dicts, which are kept as JSON -----------------------------------------------------------------

DICTS = [{"q": 1}, {"q": 2, "r": [3]}]


@pytest.fixture
def dicts(ds: Datasets) -> ml.Chain:
    return ds.read_records([{"k": 1, "t": DICTS[0]}, {"k": 1, "t": DICTS[1]}])


def test_a_union_with_rows_of_nothing_keeps_dicts_in_either_order(ds: Datasets) -> None:
    nothing, some = ds.read_records([{"x": None}]), ds.read_records([{"x": {"q": 1}}])
    assert nothing.union(some).to_values("x") == [None, {"q": 1}]
    assert some.union(nothing).to_values("x") == [{"q": 1}, None]


def test_a_union_of_dicts_and_texts_is_text_in_either_order(ds: Datasets) -> None:
    dicts, texts = ds.read_records([{"x": {"q": 1}}]), ds.read_records([{"x": "plain"}])
    assert dicts.union(texts).to_values("x") == ['{"q": 1}', "plain"]
    assert texts.union(dicts).to_values("x") == ["plain", '{"q": 1}']
    untyped = ds.read_values(n=[1]).map(x=lambda n: {"q": n}).select("x")
    assert untyped.union(texts).to_values("x") == ['{"q": 1}', "plain"]


@pytest.mark.parametrize("untyped", [False, True])
def test_what_chooses_among_dicts_gives_dicts(dicts: ml.Chain, untyped: bool) -> None:
    rows = dicts.map(t=lambda t: t) if untyped else dicts
    made = {"f": func.first("t"), "l": func.list("t"), "m": func.max("t")}
    assert rows.group_by("k", **made).to_list() == [(1, DICTS[0], DICTS, DICTS[1])]
    assert rows.mutate(u=func.coalesce("t", "t")).to_values("u") == DICTS
    assert rows.mutate(u=func.case((C("k") == 1, C("t")), else_=None)).to_values("u") == DICTS
    assert rows.mutate(u=func.lag("t").over(func.window(order_by="k"))).to_values("u") == [None, DICTS[0]]
    assert rows.select(C("t").label("u")).to_values("u") == DICTS
    assert rows.agg(n=lambda t: [one["q"] for one in t]).to_values("n") == [1, 2]


def test_what_chooses_among_dicts_and_texts_gives_text(dicts: ml.Chain) -> None:
    rows = dicts.mutate(s=ml.lit("plain"))
    assert rows.mutate(u=func.coalesce("s", "t")).to_values("u") == ["plain", "plain"]
    assert rows.mutate(u=func.coalesce("t", "s")).to_values("u") == [json.dumps(one) for one in DICTS]
    assert rows.mutate(u=func.case((C("k") == 2, C("t")), else_="x")).to_values("u") == ["x", "x"]


def test_json_files_hold_dicts_and_not_their_text(ds: Datasets, dicts: ml.Chain, tmp_path: Path) -> None:
    rows = dicts.group_by("k", f=func.first("t"), l=func.list("t"))
    rows.to_json(tmp_path / "a.json")
    rows.to_jsonl(tmp_path / "a.jsonl")
    expected = {"k": 1, "f": DICTS[0], "l": DICTS}
    assert json.loads((tmp_path / "a.json").read_text()) == [expected]
    assert json.loads((tmp_path / "a.jsonl").read_text()) == expected
    maps = ds.read_values({"m": dict[str, dict]}, m=[{"a": {"b": 1}}, None])
    maps.to_jsonl(tmp_path / "m.jsonl")
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert [json.loads(line)["m"] for line in lines] == [{"a": {"b": 1}}, None]


def test_pandas_gets_dicts(dicts: ml.Chain) -> None:
    frame = dicts.group_by("k", f=func.first("t"), l=func.list("t")).to_pandas()
    assert frame["f"].tolist() == DICTS[:1] and frame["l"].tolist() == [DICTS]


def test_parquet_gives_dicts_and_spans_of_time_back(ds: Datasets, tmp_path: Path) -> None:
    day = timedelta(days=3, seconds=1)
    rows = ds.read_records([{"t": DICTS[0], "d": day, "l": [day], "s": "{}"}, {"t": None, "d": None, "l": None}])
    rows.to_parquet(tmp_path / "a.parquet")
    back = ds.read_parquet(tmp_path / "a.parquet")
    assert back.to_records() == rows.to_records()
    saved = back.filter(C("d") > timedelta(days=1)).save("kept")
    assert saved.filter(C("d") > timedelta(days=2)).to_values("d") == saved.to_values("d") == [day]
    assert saved.union(rows.filter(C("d") == day)).mutate(e=C("d") + C("d")).to_values("e") == [2 * day] * 2
    assert back.schema == rows.schema


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_spans_of_time_that_others_wrote_to_parquet_are_read_as_such(ds: Datasets, tmp_path: Path, unit: Any) -> None:
    pq.write_table(pa.table({"d": pa.array([timedelta(hours=2)], pa.duration(unit))}), tmp_path / "a.parquet")
    rows = ds.read_parquet(tmp_path / "a.parquet")
    assert rows.to_values("d") == rows.filter(C("d") > timedelta(hours=1)).to_values("d") == [timedelta(hours=2)]


def test_what_only_some_of_the_files_say_is_not_believed(ds: Datasets, tmp_path: Path) -> None:
    ds.read_records([{"t": DICTS[0]}]).to_parquet(tmp_path / "a.parquet")
    ds.read_records([{"t": "plain"}]).to_parquet(tmp_path / "b.parquet")
    assert ds.read_parquet(tmp_path).to_values("t") == ['{"q": 1}', "plain"]


def test_a_name_that_leads_into_a_dict_says_how_to_get_there(dicts: ml.Chain) -> None:
    with pytest.raises(InvalidInput, match="a column of dicts") as told:
        dicts.filter(C("t.q") == 1)
    assert 'func.json_extract_string("t", "$.q")' in told.value.hint
    assert dicts.mutate(q=func.json_extract_string("t", "$.q").cast(int)).to_values("q") == [1, 2]


# -- NaN -------------------------------------------------------------------------------------------

NAN = float("nan")
NUMBERS = [-1.0, 0.0, 2.0, NAN, float("inf")]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_nan_compares_as_in_python(ds: Datasets, compare: Any, typed: bool) -> None:
    pairs = list(itertools.product(NUMBERS, NUMBERS))
    rows = ds.read_values(x=[x for x, _ in pairs], y=[y for _, y in pairs])
    if not typed:
        rows = rows.map(x=lambda x: x).map(y=lambda y: y)
    expected = [compare(x, y) for x, y in pairs]
    assert rows.mutate(z=compare(C("x"), C("y"))).to_values("z") == expected
    assert rows.mutate(z=~compare(C("x"), C("y"))).to_values("z") == [not one for one in expected]
    for number in (0, 0.0, NAN):
        kept = rows.filter(compare(C("x"), number)).to_values("x")
        assert str(kept) == str([x for x, _ in pairs if compare(x, number)])
    assert rows.mutate(z=C("x").between(0, C("y"))).to_values("z") == [0 <= x <= y for x, y in pairs]


def test_nan_is_looked_at_wherever_a_condition_stands(ds: Datasets) -> None:
    rows = ds.read_values(x=[1.0, NAN, None], k=[0, 0, 0])
    positive = C("x") > 0
    assert rows.select(positive.label("p")).to_values("p") == [True, False, None]
    assert rows.mutate(z=func.case((positive, 1), else_=0)).to_values("z") == [1, 0, 0]
    assert rows.group_by(n=func.sum(func.ifelse(positive, 1, 0))).to_values("n") == [1]
    groups = rows.group_by(positive.label("p"), n=func.count()).order_by("p")
    assert groups.to_list() == [(False, 1), (True, 1), (None, 1)]
    assert rows.mutate(n=func.max(positive).over(func.window("k"))).to_values("n") == [True] * 3
    assert rows.order_by(positive.desc()).to_values("x")[0] == 1.0


def test_untyped_columns_of_any_type_can_be_compared(ds: Datasets) -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    given = {"a": [1, 2], "b": ["a", "b"], "c": days, "d": [[1], [2]], "e": [False, True]}
    rows = ds.read_values(**given).map(v=lambda a: a, w=lambda b: b, x=lambda c: c, y=lambda d: d, z=lambda e: e)
    for name, (_, high) in zip("vwxyz", given.values(), strict=True):
        assert rows.filter(C(name) >= high).to_values(name) == [high]


def test_whole_numbers_and_constants_are_compared_without_a_look_at_nan(ds: Datasets) -> None:
    rows = ds.read_values(i=[1], x=[1.0])
    for condition in (C("i") > 0, C("x") < 0, C("x") == 0, C("x") != 0, C("x").between(0, 1)):
        assert "isnan" not in rows.filter(condition).plan.condition.sql().render().text
    assert "isnan" in rows.filter(C("x") > 0).plan.condition.sql().render().text
    assert rows.filter(C("x") > 0).explain().endswith("filter (x > 0)")


# -- values that stay what they are ----------------------------------------------------------------

PLAIN, AWARE = datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, tzinfo=UTC)


def test_times_without_a_zone_stay_so_and_those_with_one_are_utc(ds: Datasets) -> None:
    east = AWARE.astimezone(timezone(timedelta(hours=2)))
    for given, expected in ((PLAIN, PLAIN), (AWARE, AWARE), (east, AWARE), (np.datetime64(PLAIN), PLAIN)):
        rows = ds.read_values(x=[given, None])
        for found in (rows, rows.map(y=lambda x: x), rows.filter(C("x") == given), rows.save("kept")):
            first = found.to_values(found.columns[-1])[0]
            assert (first, first.tzinfo) == (expected, expected.tzinfo)
    assert ds.read_values(n=[1]).map(x=lambda n: [PLAIN]).to_values("x") == [[PLAIN]]


def test_times_with_and_without_a_zone_are_never_one_column(ds: Datasets) -> None:
    with pytest.raises(InvalidInput, match="with and without a time zone"):
        ds.read_values(x=[PLAIN, AWARE])
    with pytest.raises(InvalidInput, match="with and without a time zone"):
        ds.read_values(n=range(100)).map(x=lambda n: AWARE if n == 99 else PLAIN).to_list()
    with pytest.raises(InvalidInput, match="the times of this column have no zone"):
        ds.read_values({"x": np.datetime64}, x=[AWARE])
    with pytest.raises(InvalidInput, match=r"timestamp\[us\] on one side and timestamp\[us, tz=UTC\]"):
        ds.read_values(x=[PLAIN]).union(ds.read_values(x=[AWARE]))


def test_a_text_with_an_offset_is_cast_to_the_moment_it_names(ds: Datasets) -> None:
    rows = ds.read_values(s=["2024-02-29T14:00:00+02:00", "2024-02-29T12:00:00Z", "2024-02-29 12:00", None])
    for to, expected in (
        (datetime, AWARE), ("datetime", AWARE), (pa.timestamp("us", "UTC"), AWARE),
        ("TIMESTAMP", PLAIN), ("TIMESTAMP_S", PLAIN), (pa.timestamp("ms"), PLAIN),
    ):  # fmt: skip
        found = rows.mutate(t=C("s").cast(to)).to_values("t")
        assert found == [expected] * 3 + [None]
        assert [one.tzinfo for one in found[:3]] == [expected.tzinfo] * 3
    later = C("s").cast(datetime) > datetime(2024, 2, 29, 13, tzinfo=UTC)
    assert rows.filter(later).count() == 0
    assert rows.filter(func.cast("s", datetime) == AWARE).count() == 3


def test_a_moment_is_the_same_after_a_cast_to_text_and_back(ds: Datasets) -> None:
    east = AWARE.astimezone(timezone(timedelta(hours=2)))
    for given, expected in ((east, AWARE), (PLAIN, AWARE)):
        rows = ds.read_values(t=[given]).mutate(s=C("t").cast(str), u=C("t").cast(datetime))
        assert rows.to_values("u") == rows.mutate(v=C("s").cast(datetime)).to_values("v") == [expected]


def test_times_without_a_zone_are_not_compared_with_a_text_that_has_an_offset(ds: Datasets) -> None:
    rows, text = ds.read_values(t=[PLAIN]), "2024-02-29T13:00:00+02:00"
    for condition in (C("t") > text, C("t").in_([text]), C("t").between("2024-01-01", text)):
        with pytest.raises(
            InvalidInput, match=r"'t' holds times without a zone .*\+02:00', which has an offset"
        ) as told:
            rows.filter(condition)
        assert "C('t').cast(datetime)" in told.value.hint
    assert rows.filter(C("t").cast(datetime) > text).count() == 1
    assert rows.filter(C("t") > "2024-02-29T11:00").count() == 1
    assert ds.read_values(t=[AWARE]).filter(C("t") > text).count() == 1
    assert rows.filter(C("t") > datetime(2024, 2, 29, 13, tzinfo=timezone(timedelta(hours=2)))).count() == 1


@pytest.mark.parametrize("columns", [{"s": ["", None, "a"]}, {"s": ["", None, "a"], "n": [1, None, 3]}])
def test_csv_tells_an_empty_text_from_nothing(ds: Datasets, tmp_path: Path, columns: dict[str, Any]) -> None:
    rows = ds.read_values(**columns, last=["x", "y", "z"])
    rows.to_csv(tmp_path / "a.csv")
    assert ds.read_csv(tmp_path / "a.csv").to_list() == rows.to_list()


def test_numbers_in_quotes_may_be_absent(ds: Datasets, tmp_path: Path) -> None:
    lines = ['"n","s"', *(f'"{n}","a"' for n in range(30_000)), '"",""']
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    assert ds.read_csv(tmp_path / "a.csv").to_list()[-2:] == [(29_999, "a"), (None, None)]


# -- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{1: 1}], "record 0 has a column named 1, which is not text"),
        ([{"a": 1}, 2], "record 1 is 2, not a dictionary"),
        ([1, 2], "record 0 is 1, not a dictionary"),
        (["ab"], "record 0 is 'ab', not a dictionary"),
    ],
)
def test_records_that_are_none_are_refused_by_their_place(ds: Datasets, given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ds.read_records(given)


def test_frames_of_mixed_or_doubled_columns_are_refused_by_name(ds: Datasets) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInput, match=r"several types.*column x"):
        ds.read_pandas(pandas.DataFrame({"x": [1, "a"]}))
    with pytest.raises(InvalidInput, match="'x' is there twice"):
        ds.read_pandas(pandas.DataFrame([[1, 2]], columns=["x", "x"]))


def test_values_of_several_types_are_advised_on_as_values(ds: Datasets) -> None:
    with pytest.raises(InvalidInput, match="int and str at once") as told:
        ds.read_values(x=[1, "a"])
    assert "function" not in told.value.hint


@pytest.mark.parametrize("name", ["select_me", "main.select_me", " select_me "])
def test_a_database_table_is_read_by_its_name(ds: Datasets, name: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE select_me (n)")
        connection.execute("INSERT INTO select_me VALUES (7)")
        assert ds.read_database(name, connection).to_list() == [(7,)]
        assert ds.read_database("SELECT n + 1 AS n FROM select_me", connection).to_list() == [(8,)]
        with pytest.raises(InvalidInput, match="gives no rows"):
            ds.read_database("DELETE FROM select_me", connection)


# -- shown -----------------------------------------------------------------------------------------


def test_abs_is_that_of_each_row(ds: Datasets) -> None:
    assert ds.read_values(x=[-2, 3, None]).mutate(y=abs(C("x"))).to_values("y") == [2, 3, None]


def test_numbers_are_shown_to_the_right_and_large_ones_in_full(
    ds: Datasets, capsys: pytest.CaptureFixture[str]
) -> None:
    ds.read_values(s=["a", "bc"], n=[1, 100], x=[123456789.0, 0.5], y=[1e300, 1234567.125]).show()
    assert capsys.readouterr().out.splitlines() == [
        "s     n          x           y",
        "--  ---  ---------  ----------",
        "a     1  123456789      1e+300",
        "bc  100        0.5  1234567.12",
    ]


def test_a_select_of_inner_fields_is_shown_by_their_names(ds: Datasets, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ds.read_arrow(pa.table({"file": [{"path": "a", "size": 3, "deep": {"er": "x", "no": 0}, "other": 1}]}))
    rows.select("file.path", "file.size", "file.deep.er").show()
    assert capsys.readouterr().out.splitlines()[0] == "file.path  file.size  file.deep.er"


def test_columns_that_do_not_fit_the_terminal_are_only_named(ds: Datasets) -> None:
    table = ds.read_values(a=["x" * 10], b=["y" * 10], c=["z" * 10]).to_arrow()
    assert show_rows.render(table, width=22).splitlines()[-2:] == ["xxxxxxxxxx  yyyyyyyyyy", "[not shown: c]"]
    assert show_rows.render(table, width=5).splitlines()[-1] == "[not shown: b, c]"
    assert "not shown" not in show_rows.render(table, width=34) + show_rows.render(table)
    assert show_rows.render(table.slice(0, 0), width=3).splitlines()[-2:] == ["(no rows)", "[not shown: b, c]"]


# -- JSON numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("big", [2**53 + 1, -(2**53) - 1])
def test_whole_numbers_that_no_float_can_hold_keep_their_digits(ds: Datasets, tmp_path: Path, big: int) -> None:
    lines = [{"x": big, "i": big, "f": 1e300, "s": "a"}, {"x": 1.5, "i": 2, "f": 0.5, "s": "b"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "b.json").write_text(json.dumps(lines))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    for name in ("a.jsonl", "b.json", "c.jsonl.gz"):
        rows = ds.read_json(tmp_path / name)
        assert rows.to_list() == [(str(big), big, 1e300, "a"), ("1.5", 2, 0.5, "b")]
        assert rows.filter(C("x") == str(big)).save("kept").to_values("i") == [big]


@pytest.mark.parametrize("digits", [20, 30, 40])
def test_whole_numbers_longer_than_any_of_ours_are_text(ds: Datasets, tmp_path: Path, digits: int) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"x": {"7" * digits}}}\n{{"x": 0.5}}')
    assert ds.read_jsonl(tmp_path / "a.jsonl").to_values("x") == ["7" * digits, "0.5"]


def test_floats_that_hold_whole_numbers_are_floats(ds: Datasets, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 9007199254740992, "s": "99999999999999999"}\n{"x": 0.12345678901234567}')
    assert ds.read_jsonl(tmp_path / "a.jsonl").to_values("x") == [2.0**53, 0.12345678901234567]


def test_nan_is_the_greatest_to_sort_by_and_one_value_to_group_by(ds: Datasets) -> None:
    rows = ds.read_values(x=[NAN, None, 1.0, NAN])
    assert str(rows.order_by("x").to_values("x")) == "[1.0, nan, nan, None]"
    assert str(rows.order_by("x", descending=True).to_values("x")) == "[nan, nan, 1.0, None]"
    assert rows.distinct("x").count() == rows.group_by("x").count() == 3
    assert rows.merge(ds.read_values(x=[NAN], found=[True]), on="x", inner=True).count() == 2
