"""Row comparison beside a plain model of it: every count, whatever the order, the pieces, the types and the keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlake.errors import InvalidInput
from memlake.rows.compare import ColumnChange, Key, Piece, RowChange, Side, compare
from tests.torture import examples

BY_ID = Key(("id",), "given")
NAN = float("nan")


def make_side(table: pa.Table, cuts: Sequence[int] = (), *, read: list[str] | None = None) -> Side:
    """A table in pieces, each of which knows a column by its values; what is read is noted."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < table.num_rows}), table.num_rows]

    def make_piece(start: int, stop: int) -> Piece:
        part = table.slice(start, stop - start)

        def read_columns(names: Sequence[str]) -> pa.Table:
            if read is not None:
                read.extend(names)
            return part.select(list(names))

        return Piece(stop - start, lambda name: repr(part[name].to_pylist()), read_columns)

    return Side(table.schema, tuple(make_piece(a, b) for a, b in pairwise(edges)))


def freeze(value: Any) -> Any:
    """A value that equals itself, as the engine has it."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)


def count_by_model(old: list[dict[str, Any]], new: list[dict[str, Any]], key: str | None) -> tuple[int, int, int]:
    """Added, removed and changed rows, by dictionaries."""
    whole = [Counter(tuple(freeze(row[name]) for name in SCHEMA.names) for row in rows) for rows in (old, new)]
    if key is None:
        return sum((whole[1] - whole[0]).values()), sum((whole[0] - whole[1]).values()), 0
    names = [Counter(freeze(row[key]) for row in rows) for rows in (old, new)]
    twice = {name for counted in names for name, number in counted.items() if number > 1}
    alone = [{freeze(row[key]): row for row in rows if freeze(row[key]) not in twice} for rows in (old, new)]
    rest = [[row for row in rows if freeze(row[key]) in twice] for rows in (old, new)]
    more, less, _ = count_by_model(rest[0], rest[1], None)
    both = alone[0].keys() & alone[1].keys()
    changed = sum(any(freeze(alone[0][k][c]) != freeze(alone[1][k][c]) for c in alone[0][k]) for k in both)
    return more + len(alone[1].keys() - both), less + len(alone[0].keys() - both), changed


rows_of = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.integers(0, 8)),
            "x": st.sampled_from([None, NAN, 0.0, 1.5]),
            "s": st.sampled_from([None, "", "a", "b"]),
            "n": st.sampled_from([None, [], [1], [1, None]]),
        }
    ),
    max_size=9,
)
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("n", pa.list_(pa.int64()))])


@settings(max_examples=examples(50), deadline=None)
@given(rows_of, rows_of, st.lists(st.integers(0, 9), max_size=3), st.booleans())
def test_counts_are_those_of_a_plain_model(
    old: list[dict[str, Any]], new: list[dict[str, Any]], cuts: list[int], keyed: bool
) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in (old, new)]
    found = compare(make_side(tables[0], cuts), make_side(tables[1], cuts), BY_ID if keyed else Key())
    assert (found.added, found.removed, found.changed) == count_by_model(old, new, "id" if keyed else None)
    assert sum(row.status == "M" for row in found.rows) == min(found.changed, 10)


@settings(max_examples=examples(25), deadline=None)
@given(st.permutations(range(12)), st.sets(st.integers(0, 11)), st.integers(0, 12))
def test_changed_cells_are_found_in_any_order(order: list[int], edited: set[int], cut: int) -> None:
    old = pa.table({"id": range(12), "x": [n * 1.0 for n in range(12)], "y": ["t"] * 12})
    new = pa.table({"id": order, "x": [n + 0.5 if n in edited else n * 1.0 for n in order], "y": ["t"] * 12})
    found = compare(make_side(old, [cut]), make_side(new, [5]), limit=None)
    assert found.key == Key(("id",), "found")
    assert (found.added, found.removed, found.cells) == (0, 0, {"x": len(edited)} if edited else {})
    assert {row.row["id"]: row.cells for row in found.rows} == {n: {"x": (n * 1.0, n + 0.5)} for n in edited}


def test_only_the_columns_of_pieces_that_differ_are_read() -> None:
    old = pa.table({"id": range(8), "x": range(8), "y": range(8)})
    new = old.set_column(1, "x", pa.array([0, 1, 2, 3, 4, 5, 6, 70]))
    read: list[str] = []
    found = compare(make_side(old, [4], read=read), make_side(new, [4]), BY_ID)
    assert found.cells == {"x": 1}
    assert sorted(read) == ["id", "id", "x"]  # the key, and x of the second piece


def test_a_column_that_was_renamed_is_one_also_when_some_of_its_values_changed() -> None:
    old = pa.table({"id": range(20), "price": [n * 2 for n in range(20)]})
    new = pa.table({"id": range(20), "cost": [99, *(n * 2 for n in range(1, 20))]})
    found = compare(make_side(old), make_side(new))
    assert found.columns == (ColumnChange("cost", "int64", "int64", "price"),)
    assert found.rows == (RowChange("M", {"id": 0}, {"cost": (0, 99)}),)


def test_another_column_in_place_of_one_is_not_a_rename() -> None:
    old = pa.table({"id": range(20), "price": range(20)})
    new = pa.table({"id": range(20), "stock": [n % 3 for n in range(20)]})
    found = compare(make_side(old), make_side(new))
    assert [(change.name, change.old_name) for change in found.columns] == [("stock", ""), ("price", "")]
    assert found.changed == 0


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (pa.array([1, 2]), pa.array([1.0, 2.5]), 1),
        (pa.array([1, 2]), pa.array(["1", "3"]), 1),
        (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int64()), 0),
        (pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode(), 0),
        (pa.array([None, None]), pa.array([None, 1]), 1),
    ],
)
def test_values_are_compared_in_a_type_that_holds_both(old: pa.Array, new: pa.Array, changed: int) -> None:
    found = compare(make_side(pa.table({"id": [1, 2], "v": old})), make_side(pa.table({"id": [1, 2], "v": new})))
    assert (found.changed, [change.name for change in found.columns]) == (changed, ["v"])


def test_values_that_no_type_holds_exactly_are_not_compared_and_that_is_said() -> None:
    old, new = pa.table({"id": [1], "v": [2**53 + 1]}), pa.table({"id": [1], "v": [1.0]})
    found = compare(make_side(old), make_side(new))
    assert found.changed == 0
    assert found.notes == ("the values of 'v' were not compared, because no type holds those of both sides",)


def test_a_key_that_is_not_unique_is_said() -> None:
    old, new = pa.table({"id": [1, 1], "v": [1, 2]}), pa.table({"id": [1, 1], "v": [2, 3]})
    found = compare(make_side(old), make_side(new), BY_ID)
    assert (found.added, found.removed, found.changed) == (1, 1, 0)
    assert found.notes == (
        "the key is not unique in 2 rows of the old side and 2 of the new, so these rows were compared as a multiset",
    )


def test_a_key_that_one_side_lacks_is_refused_with_the_columns_there_are() -> None:
    with pytest.raises(InvalidInput, match="'nr'") as error:
        compare(make_side(pa.table({"id": [1]})), make_side(pa.table({"id": [1]})), Key(("nr",), "given"))
    assert error.value.hint == "Columns of both are id."


def test_names_that_look_like_sql_are_only_names() -> None:
    name = 'x"; DROP TABLE old; --'
    old, new = pa.table({"id": [1], name: [1], "ID": [2]}), pa.table({"id": [1], name: [2], "ID": [2]})
    assert compare(make_side(old), make_side(new), BY_ID).cells == {name: 1}
