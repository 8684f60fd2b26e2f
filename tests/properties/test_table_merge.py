"""Laws of merging tables, over random edits: against a plain dict, in every format."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memlake.contents import tables
from memlake.contents.content import Content, Unreadable
from memlake.contents.merged import Merged, MergeHow
from tests.torture import examples

Row = tuple[str, ...]
Table = dict[str, Row]  # by key, in its order
COLUMNS = ("id", "a", "b", "c")
CELLS = st.sampled_from(["", "x", "y,y", 'z"', "line\nbreak", "é", "0", "1.0"])
FORMATS = ("csv", "jsonl", "parquet")
QUICK = settings(
    max_examples=examples(5, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def edits(draw: st.DrawFn, base: Table, new: tuple[str, ...]) -> Table:
    """A table after a few edits: cells, rows that went, rows that came anywhere."""
    table = dict(base)
    for key in draw(st.lists(st.sampled_from(sorted(base)), max_size=4)) if base else ():
        if key in table:
            if draw(st.booleans()):
                place = draw(st.integers(0, 2))
                row = list(table[key])
                row[place] = draw(CELLS)
                table[key] = tuple(row)
            else:
                del table[key]
    items = list(table.items())
    for key in draw(st.lists(st.sampled_from(new), max_size=3, unique=True)):
        items.insert(draw(st.integers(0, len(items))), (key, draw(st.tuples(CELLS, CELLS, CELLS))))
    return dict(items)


@st.composite
def bases(draw: st.DrawFn) -> Table:
    count = draw(st.integers(0, 8))
    return {f"k{number}": draw(st.tuples(CELLS, CELLS, CELLS)) for number in range(count)}


@st.composite
def three(draw: st.DrawFn) -> tuple[Table, Table, Table]:
    base = draw(bases())
    return base, draw(edits(base, ("n1", "n2", "n3"))), draw(edits(base, ("n2", "n3", "n4")))


def write(rows: list[Row], form: str) -> bytes:
    if form == "csv":
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n").writerows([COLUMNS, *rows])
        return out.getvalue().encode()
    if form == "jsonl":
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows]
        return ("".join(lines) or "\n").encode()
    data = io.BytesIO()
    columns = [[row[place] for row in rows] for place in range(len(COLUMNS))]
    pq.write_table(pa.table(columns, schema=pa.schema([(name, pa.string()) for name in COLUMNS])), data)
    return data.getvalue()


def read(data: bytes, form: str) -> list[Row]:
    if form == "csv":
        return [tuple(row) for row in csv.reader(io.StringIO(data.decode(), newline=""))][1:]
    if form == "jsonl":
        objects = [json.loads(line) for line in data.decode().split("\n") if line]
        return [tuple(one[name] for name in COLUMNS) for one in objects]
    return [tuple(row.values()) for row in pq.read_table(io.BytesIO(data)).to_pylist()]


def rows_of(table: Table) -> list[Row]:
    return [(key, *row) for key, row in table.items()]


def merge(sides: tuple[list[Row], list[Row], list[Row]], form: str, how: MergeHow) -> Merged:
    contents = [
        Content(f"t.{form}", len(data), lambda data=data: io.BytesIO(data))
        for data in (write(rows, form) for rows in sides)
    ]
    found: Merged = tables.merge(*contents, how)
    return found


def merge_by_key(base: Table, ours: Table, theirs: Table, form: str) -> tuple[list[Row], set[str]]:
    sides = (rows_of(base), rows_of(ours), rows_of(theirs))
    found = merge(sides, form, MergeHow(key=("id",)))
    assert found.data is not None
    return read(found.data, form), {one.place for one in found.conflicts}


def expect(base: Table, ours: Table, theirs: Table) -> tuple[Table, set[str]]:
    """The same merge, one key and one cell at a time."""
    result, conflicts = {}, set()
    for key in {**ours, **theirs}:
        old, mine, other = (side.get(key) for side in (base, ours, theirs))
        if mine is None or other is None:
            left = mine or other
            if old is None:
                result[key] = left
            elif left != old:
                conflicts.add(f"id={key}")
                if mine is not None:
                    result[key] = mine
            continue
        row = []
        for place, name in enumerate(COLUMNS[1:]):
            was = old[place] if old is not None else None
            a, b = mine[place], other[place]
            if a not in (was, b) and b != was:
                conflicts.add(f"id={key}: {name}")
            row.append(b if a == was else a)
        result[key] = tuple(row)
    return {key: row for key, row in result.items() if row is not None}, conflicts


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(sides=three())
def test_a_merge_is_what_it_is_cell_by_cell_and_conflicts_are_the_planted_ones(
    form: str, sides: tuple[Table, Table, Table]
) -> None:
    rows, conflicts = merge_by_key(*sides, form)
    expected, planted = expect(*sides)
    assert conflicts == planted
    assert sorted(rows) == sorted(rows_of(expected))  # none is invented, lost or there twice
    kept = [row[0] for row in rows if row[0] in sides[1]]
    assert kept == [key for key in sides[1] if key in expected]  # ours stay in their order


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(sides=three())
def test_a_merge_is_symmetric_up_to_order_and_the_side_that_stays(form: str, sides: tuple[Table, Table, Table]) -> None:
    base, ours, theirs = sides
    rows, conflicts = merge_by_key(base, ours, theirs, form)
    swapped, other_conflicts = merge_by_key(base, theirs, ours, form)
    assert conflicts == other_conflicts
    if not conflicts:
        assert sorted(rows) == sorted(swapped)


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(sides=three())
def test_an_ancestor_changes_nothing_and_a_merge_with_itself_is_itself(
    form: str, sides: tuple[Table, Table, Table]
) -> None:
    base, ours = (rows_of(side) for side in sides[:2])
    for key in (("id",), ()):
        how = MergeHow(key=key)
        for three_sides in ((base, ours, base), (base, ours, ours)):
            found = merge(three_sides, form, how)
            assert found.conflicts == ()
            assert found.data is not None
            assert read(found.data, form) == ours
            if form != "parquet":
                assert found.data == write(ours, form)
        found = merge((base, base, ours), form, how)
        assert found.data is not None
        assert sorted(read(found.data, form)) == sorted(ours)


@st.composite
def disjoint(draw: st.DrawFn) -> tuple[Table, Table, Table]:
    base = draw(bases())
    mine = {key for key in base if draw(st.booleans())}
    ours = draw(edits({key: row for key, row in base.items() if key in mine}, ("n1", "n2")))
    theirs = draw(edits({key: row for key, row in base.items() if key not in mine}, ("n3", "n4")))
    fill = lambda edited, own: {  # noqa: E731
        **{key: edited.get(key, row) for key, row in base.items() if key not in own or key in edited},
        **{key: row for key, row in edited.items() if key not in base},
    }
    return base, fill(ours, mine), fill(theirs, set(base) - mine)


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(sides=disjoint())
def test_edits_of_different_rows_always_merge(form: str, sides: tuple[Table, Table, Table]) -> None:
    rows, conflicts = merge_by_key(*sides, form)
    assert not conflicts
    assert sorted(rows) == sorted(rows_of(expect(*sides)[0]))


SMALL = st.lists(st.tuples(st.just("k"), *[st.sampled_from("01")] * 3), max_size=6)


@pytest.mark.parametrize("form", FORMATS)
@QUICK
@given(base=SMALL, ours=SMALL, theirs=SMALL)
def test_rows_without_a_key_are_joined_as_multisets_or_refused(
    form: str, base: list[Row], ours: list[Row], theirs: list[Row]
) -> None:
    sides: tuple[Any, Any, Any] = (base, ours, theirs)
    b, o, t = (Counter(side) for side in sides)
    expected: Counter[Row] = Counter()
    for row in b | o | t:
        mine, other = o[row] - b[row], t[row] - b[row]
        change = max(mine, other, key=abs) if mine * other > 0 else mine + other
        expected[row] = b[row] + change
    both_removed = any(min(b[row] - o[row], b[row] - t[row]) > 0 for row in b)
    try:  # every row has the key k, so that it is never unique unless there is but one
        found = merge(sides, form, MergeHow(key=("id",)))
    except Unreadable:
        assert both_removed
        return
    if max(map(len, sides)) <= 1:
        return  # one row each: it has a key
    assert found.conflicts == ()
    assert found.data is not None
    assert Counter(read(found.data, form)) == +expected
