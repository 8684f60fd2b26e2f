"""Columns as they come in: dotted names from anywhere are nested ones, JSON of several kinds is text."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake import C
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets

Way = Callable[[Datasets, dict[str, Any]], Chain]


@pytest.fixture
def ds(repo: ml.Repo) -> Datasets:
    return repo.datasets()


def as_csv(ds: Datasets, row: dict[str, Any]) -> Chain:
    pd.DataFrame([row]).to_csv("it.csv", index=False)
    return ds.read_csv("it.csv")


def as_parquet(ds: Datasets, row: dict[str, Any]) -> Chain:
    pq.write_table(pa.Table.from_pylist([row]), "it.parquet")
    return ds.read_parquet("it.parquet")


def as_jsonl(ds: Datasets, row: dict[str, Any]) -> Chain:
    Path("it.jsonl").write_text(json.dumps(row), encoding="utf-8")
    return ds.read_jsonl("it.jsonl")


WAYS: dict[str, Way] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "jsonl": as_jsonl,
    "pandas": lambda ds, row: ds.read_pandas(pd.DataFrame([row])),
    "arrow": lambda ds, row: ds.read_arrow(pa.Table.from_pylist([row])),
    "records": lambda ds, row: ds.read_records([row]),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@ways
def test_a_dotted_name_is_a_field_of_a_nested_column_wherever_it_comes_from(ds: Datasets, way: Way) -> None:
    chain = way(ds, {"id": 1, "a.b": 2, "s": "x", "a.c.d": 3})
    assert chain.columns == ["id", "a", "s"]
    assert chain.filter(C("a.b") == 2).to_values("a.c.d") == [3]
    assert chain.save("it").to_records() == [{"id": 1, "a": {"b": 2, "c": {"d": 3}}, "s": "x"}]
    assert list(chain.to_pandas(flatten=True).columns) == ["id", "a.b", "a.c.d", "s"]


@ways
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "a.b"], "columns 'a' and 'a.b' cannot both be there"),
        (["a.b", "a"], "columns 'a.b' and 'a' cannot both be there"),
        (["a.b.c", "a.b"], "columns 'a.b.c' and 'a.b' cannot both be there"),
        (["No."], "'No.' cannot be the name of a column"),
        ([".x", "y"], "'.x' cannot be the name of a column"),
    ],
)
def test_names_that_lead_nowhere_or_to_one_place_are_refused(
    ds: Datasets, way: Way, names: list[str], said: str
) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=said) as error:
        way(ds, dict.fromkeys(names, 1))
    assert "Nothing was read" in str(error.value) and "where" in error.value.hint


@ways
def test_names_that_differ_only_in_case_get_a_number_and_a_warning(ds: Datasets, way: Way) -> None:
    row = {"a": 1, "A": 2, "a_1": 3, "b_1": 4}
    with pytest.warns(UserWarning, match="'A' is called 'A_1' here.*'a'; column 'a_1' is called 'a_1_1'") as told:
        chain = way(ds, row)
    assert len(told) == 1 and "b_1" not in str(told[0].message)
    assert chain.save("it").to_records() == [{"a": 1, "A_1": 2, "a_1_1": 3, "b_1": 4}]


@ways
def test_names_that_only_look_numbered_are_left_alone(ds: Datasets, way: Way) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert way(ds, {"a": 1, "A_1": 2, "a_2": 3}).to_records() == [{"a": 1, "A_1": 2, "a_2": 3}]


def test_a_name_that_stands_twice_in_a_csv_gets_a_number_and_a_warning(ds: Datasets) -> None:
    Path("it.csv").write_text("\ufeffa,b,a\n1,2,3\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="column 'a' is called 'a_1' here, because another has its name"):
        assert ds.read_csv("it.csv").columns == ["a", "b", "a_1"]


def test_a_numbered_column_is_never_read_as_empty_beside_long_numbers(ds: Datasets) -> None:
    Path("it.jsonl").write_text('{"a": 0.5, "A": 1}\n{"a": 12345678901234567, "A": 3}\n')
    with pytest.raises(ml.errors.InvalidInput, match=r"'A' is called 'A_1' here.*Nothing was read"):
        ds.read_jsonl("it.jsonl")


@ways
@pytest.mark.parametrize("names", [["a.b", "a"], ["a", "a.b"]])
def test_the_name_that_is_advised_for_a_dotted_one_has_no_dot(ds: Datasets, way: Way, names: list[str]) -> None:
    with pytest.raises(ml.errors.InvalidInput) as error:
        way(ds, dict.fromkeys(names, 1))
    assert error.value.hint == "Call one 'a_b' where they come from."


def test_nested_columns_go_out_flat_and_come_back_nested(ds: Datasets) -> None:
    given = ds.read_records([{"id": 1, "a.b": 2, "a.c.d": "x"}])
    given.to_csv("out.csv")
    assert Path("out.csv").read_text(encoding="utf-8").startswith('"id","a.b","a.c.d"')
    assert ds.read_csv("out.csv").to_records() == given.to_records()


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (["abc", 5, None, True, 1.5], ["abc", "5", None, "true", "1.5"]),
        (['say "hi"\n', {"k": "v"}], ['say "hi"\n', '{"k":"v"}']),
        (["a", [1, "b"]], ["a", '[1,"b"]']),
        ([["x", 1], None, ["y"]], [["x", "1"], None, ["y"]]),
        ([{"q": "s"}, {"q": 5}, None], [{"q": "s"}, {"q": "5"}, None]),
        ([[{"q": ["s", 1]}], [{"q": [{"z": "t"}]}]], [[{"q": ["s", "1"]}], [{"q": ['{"z":"t"}']}]]),
        ([5, None, 6], [5, None, 6]),
        (["5", "6"], ["5", "6"]),
    ],
)
def test_a_field_of_several_kinds_is_the_text_itself_or_the_json_of_the_rest(
    ds: Datasets, values: list[Any], texts: list[Any]
) -> None:
    rows = [{"id": at, "it": value} for at, value in enumerate(values)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    assert ds.read_jsonl("rows.jsonl").to_values("it") == ds.read_json("rows.json").to_values("it") == texts


def test_a_map_of_several_kinds_has_texts_too(ds: Datasets) -> None:
    kinds: list[Any] = ["s", 1, [2]]
    rows = [{"m": {f"k{at}": kinds[at % 3]}} for at in range(300)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = [dict(one) for one in ds.read_jsonl("rows.jsonl").to_values("m")]
    assert found[:3] == [{"k0": "s"}, {"k1": "1"}, {"k2": "[2]"}]


def test_a_text_among_numbers_is_found_by_itself(ds: Datasets) -> None:
    Path("rows.jsonl").write_text('{"it": "abc"}\n{"it": 5}\n', encoding="utf-8")
    chain = ds.read_jsonl("rows.jsonl")
    assert chain.filter(C("it") == "abc").count() == chain.filter(C("it") == "5").count() == 1


TWINS = pa.table({"s": pa.array([[{"A": 1, "a": 2}]], pa.list_(pa.struct([("A", pa.int64()), ("a", pa.int64())])))})


@dataclass
class Twins:
    A: int
    a: int


def make_twins(x: int) -> Twins:
    return Twins(x, x)


def from_parquet(ds: Datasets) -> Chain:
    pq.write_table(pa.table({"s": pa.array([[{"A": 1}]])}), "0.parquet")
    pq.write_table(TWINS, "1.parquet")
    return ds.read_parquet("*.parquet")


@pytest.mark.parametrize(
    "read",
    [
        lambda ds: ds.read_arrow(TWINS),
        lambda ds: ds.read_pandas(pd.DataFrame({"s": [{"A": 1, "a": 2}]})),
        lambda ds: as_jsonl(ds, {"s": {"A": 1, "a": 2}}),
        from_parquet,
        lambda ds: ds.read_values(s=[Twins(1, 2)]),
        lambda ds: ds.read_values(x=[1]).map(s=make_twins),
    ],
    ids=["arrow", "pandas", "json", "parquet", "values", "map"],
)
def test_fields_inside_a_struct_that_differ_only_in_case_are_refused(
    ds: Datasets, read: Callable[[Datasets], Chain]
) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="differ only in case"):
        read(ds).save("it")
    assert ds.read_values(s=[{"A": 1, "a": 2}]).to_values("s") == [{"A": 1, "a": 2}]
