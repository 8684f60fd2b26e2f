"""Values on their way through a chain: what a function returns, and what verbs, files and frames make of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import memlake as ml
from memlake.datasets.datasets import Datasets
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
    with pytest.raises(RowFailed, match=rf"gen y: .* with x=4:\nit returned .*{type(returned).__name__}"):
        ds.read_values(x=[4]).gen(y=lambda x: returned).to_list()


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
