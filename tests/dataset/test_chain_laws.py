"""Laws of chains: any steps give what the same steps give in plain Python, over rows however they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.dataset.parts import column_hashes, parquet
from memlake.dataset.parts.frames import Frame
from memlake.dataset.run import aligned
from tests.torture import examples

C, func = ml.C, ml.func
Rows = list[dict[str, Any]]


@dataclass
class Box:
    a: int | None
    b: list[str] = field(default_factory=list)


class State(NamedTuple):
    """A chain, and the rows it should give, in this order."""

    chain: Chain
    rows: Rows

    @property
    def names(self) -> list[str]:
        return self.chain.columns


class Step(NamedTuple):
    needs: tuple[str, ...]
    do: Callable[[State, int], State]


# -- the steps, each beside what it means ----------------------------------------------------------


def kept(state: State, condition: Any, test: Callable[[dict[str, Any]], Any]) -> State:
    return state._replace(chain=state.chain.filter(condition), rows=[row for row in state.rows if test(row)])


def made(state: State, chain: Chain, **columns: Callable[[dict[str, Any]], Any]) -> State:
    rows = [{**row, **{name: make(row) for name, make in columns.items()}} for row in state.rows]
    return state._replace(chain=chain, rows=rows)


def total(i: int | None, s: str | None) -> int:
    return (i or 0) + len(s or "")


def mixed(i: int | None) -> Any:
    return None if i is None else i if i % 2 else i / 4


def boxed(i: int | None) -> Box | None:
    return None if i is None else Box(i, ["x"] * (i % 3))


def listed(s: str | None) -> list[str]:
    return list(s or "")


def repeated(i: int | None, id: int) -> Iterator[tuple[int, int | None]]:
    for _ in range((i or 0) % 3):
        yield id, i


def without(state: State, n: int) -> State:
    names = [name for name in state.names if name != "id"]
    if len(names) < 2:
        return state
    gone = names[n % len(names)]
    rows = [{name: value for name, value in row.items() if name != gone} for row in state.rows]
    return state._replace(chain=state.chain.select_except(gone), rows=rows)


def sorted_(state: State, descending: bool) -> State:
    def place(row: dict[str, Any]) -> Any:
        return (row["i"] is None, 0 if row["i"] is None else -row["i"] if descending else row["i"])

    chain = state.chain.order_by(C("i").desc() if descending else "i")
    return State(chain, sorted(state.rows, key=place))


def several(state: State, _: int) -> State:
    seen = {repr((row["i"], row["s"])): {"i": row["i"], "s": row["s"]} for row in state.rows}
    return State(state.chain.select("i", "s").distinct(), list(seen.values()))


def firsts(state: State, _: int) -> State:
    seen: dict[Any, dict[str, Any]] = {}
    for row in state.rows:
        seen.setdefault(row["s"], row)
    return State(state.chain.distinct("s"), list(seen.values()))


def grouped(state: State, _: int) -> State:
    groups: dict[Any, list[Any]] = {}
    for row in state.rows:
        groups.setdefault(row["s"], []).append(row["i"])
    keys = sorted(groups, key=lambda s: (s is None, s or ""))
    rows = [{"s": s, "n": len(groups[s]), "i": _sum(groups[s]), "f": groups[s][0], "all": groups[s]} for s in keys]
    made = {"n": func.count(), "i": func.sum("i"), "f": func.first("i"), "all": func.collect("i")}
    return State(state.chain.group_by("s", **made), rows)


def counted(state: State, _: int) -> State:
    """Rows with one `s`, numbered as they come in the order of `i`."""
    if "r" in state.names:
        return state
    places: dict[int, int] = {}
    for s in {row["s"] for row in state.rows}:
        of = [(row["i"] is None, row["i"] or 0, at) for at, row in enumerate(state.rows) if row["s"] == s]
        places |= {at: number for number, (_, _, at) in enumerate(sorted(of), 1)}
    rows = [{**row, "r": places[at]} for at, row in enumerate(state.rows)]
    window = func.window(partition_by="s", order_by="i")
    return State(state.chain.mutate(r=func.row_number().over(window)), rows)


def _sum(values: list[Any]) -> Any:
    there = [value for value in values if value is not None]
    return sum(there) if there else None


def merged(state: State, n: int) -> State:
    if "extra" in state.names:
        return state
    extra = {n % 5: "p", (n + 1) % 5: None, (n + 2) % 5: "q"}
    right = Datasets(state.chain._session.context).read_values(i=[*extra, None], extra=[*extra.values(), "never"])
    rows = [{**row, "extra": extra.get(row["i"])} for row in state.rows]
    return State(state.chain.merge(right, on="i"), rows)


def both(state: State, _: int) -> State:
    half = kept(state, C("i") > 0, lambda row: row["i"] is not None and row["i"] > 0)
    return State(state.chain.union(half.chain), state.rows + half.rows)


def less(state: State, n: int) -> State:
    gone = [n % 4, None]
    right = Datasets(state.chain._session.context).read_values(i=gone)
    return State(state.chain.subtract(right, on="i"), [row for row in state.rows if row["i"] not in gone])


def generated(state: State, _: int) -> State:
    rows = [{"id": id, "i": i} for row in state.rows for id, i in repeated(row["i"], row["id"])]
    output = {"id": int, "i": int | None}
    return State(state.chain.gen(repeated, output=output), rows)


def exploded(state: State, _: int) -> State:
    rows = [{**row, "e": item} for row in state.rows for item in row["l"] or ()]
    return State(state.chain.mutate(e="l").explode("e"), rows)


STEPS = {
    "filter": Step(
        ("i",), lambda at, n: kept(at, C("i") > n % 7 - 3, lambda row: row["i"] is not None and row["i"] > n % 7 - 3)
    ),
    "filter text": Step(("s",), lambda at, _: kept(at, C("s") != "a", lambda row: row["s"] not in (None, "a"))),
    "filter nested": Step(
        ("d",),
        lambda at, _: kept(at, C("d.a") >= 0, lambda row: row["d"] and row["d"].a is not None and row["d"].a >= 0),
    ),
    "filter nothing": Step(("i",), lambda at, _: kept(at, C("i") > 1000, lambda _: False)),
    "mutate": Step(
        ("i",),
        lambda at, _: made(
            at, at.chain.mutate(m=C("i") * 2 + 1), m=lambda row: None if row["i"] is None else row["i"] * 2 + 1
        ),
    ),
    "mutate over": Step(
        ("i",),
        lambda at, _: made(at, at.chain.mutate(i=C("i") + 1), i=lambda row: None if row["i"] is None else row["i"] + 1),
    ),
    "mutate nested": Step(
        ("d",), lambda at, _: made(at, at.chain.mutate(da="d.a"), da=lambda row: row["d"].a if row["d"] else None)
    ),
    "map": Step(("i", "s"), lambda at, _: made(at, at.chain.map(t=total), t=lambda row: total(row["i"], row["s"]))),
    "map untyped": Step(("i",), lambda at, _: made(at, at.chain.map(u=mixed), u=lambda row: mixed(row["i"]))),
    "map over": Step(
        ("s",),
        lambda at, _: made(at, at.chain.map(s=lambda s: s and s.upper()), s=lambda row: row["s"] and row["s"].upper()),
    ),
    "map class": Step(("i",), lambda at, _: made(at, at.chain.map(d=boxed), d=lambda row: boxed(row["i"]))),
    "map list": Step(("s",), lambda at, _: made(at, at.chain.map(c=listed), c=lambda row: listed(row["s"]))),
    "select": Step((), without),
    "limit": Step((), lambda at, n: at._replace(chain=at.chain.limit(n % 9), rows=at.rows[: n % 9])),
    "offset": Step((), lambda at, n: at._replace(chain=at.chain.offset(n % 5), rows=at.rows[n % 5 :])),
    "order": Step(("i",), lambda at, n: sorted_(at, bool(n % 2))),
    "distinct": Step(("i", "s"), several),
    "distinct of one": Step(("s",), firsts),
    "group": Step(("i", "s"), grouped),
    "window": Step(("i", "s"), counted),
    "merge": Step(("i",), merged),
    "union": Step(("i",), both),
    "subtract": Step(("i",), less),
    "gen": Step(("i", "id"), generated),
    "explode": Step(("l",), exploded),
    "persist": Step((), lambda at, _: at._replace(chain=at.chain.persist())),
}


# -- rows, and where they lie ----------------------------------------------------------------------

boxes = st.builds(Box, st.none() | st.integers(-2, 2), st.lists(st.sampled_from("xyz"), max_size=2))
some_rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-5, 5),
            "s": st.none() | st.sampled_from(["", "a", "bc", "ü"]),
            "l": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3),
            "d": st.none() | boxes,
        }
    ),
    max_size=14,
)
TYPES = {"id": int, "i": int | None, "s": str | None, "l": list[int | None] | None, "d": Box | None}


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Datasets]:
    with pytest.MonkeyPatch.context() as patch, ml.init(tmp_path_factory.mktemp("laws")) as repo:
        patch.setattr(parquet, "ROWS", 4)
        patch.setattr(aligned, "SMALL", 0)
        patch.setattr(aligned, "SPARSE", 1 << 30)
        yield repo.datasets()


def from_values(ds: Datasets, rows: Rows) -> State:
    return State(ds.read_records(rows, TYPES), rows)


def from_fragments(ds: Datasets, rows: Rows) -> State:
    return State(ds.read_records(rows, TYPES).save("law.fragments"), rows)


def from_selection(ds: Datasets, rows: Rows) -> State:
    """Rows of which some are left out, and one column in a family of its own."""
    whole = ds.read_records(rows, TYPES).save("law.whole").filter(C("id") % 3 != 1).map(i=lambda i: i)
    return State(whole.save("law.selection"), [row for row in rows if row["id"] % 3 != 1])


def plain(rows: Rows) -> list[Any]:
    return [dict(sorted(row.items())) for row in rows]


steps = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 40)), max_size=6)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(
    begin=st.sampled_from([from_values, from_fragments, from_selection]),
    found=some_rows,
    wanted=steps,
    saved=st.booleans(),
)
def test_steps_give_what_they_give_in_plain_python(
    ds: Datasets, begin: Callable[..., State], found: Rows, wanted: list[tuple[str, int]], saved: bool
) -> None:
    state = begin(ds, [{"id": number, **row} for number, row in enumerate(found)])
    for name, n in wanted:
        step = STEPS[name]
        if set(step.needs) <= set(state.names):
            state = step.do(state, n)
    chain = state.chain.save("law.made") if saved else state.chain
    assert plain(chain.to_records()) == plain(state.rows)
    assert chain.count() == len(state.rows)


# -- hashes ----------------------------------------------------------------------------------------

KINDS = [
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.list_(pa.int8()),
    pa.list_(pa.list_(pa.string())),
    pa.list_(pa.float32(), 2),
    pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))]),
    pa.map_(pa.string(), pa.int64()),
    pa.timestamp("us", "UTC"),
    pa.null(),
]


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        inner = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        inner = st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_struct(kind):
        inner = st.fixed_dictionaries({one.name: values_of(one.type) for one in kind})
    elif pa.types.is_map(kind):
        inner = st.dictionaries(st.text(max_size=2), values_of(kind.item_type), max_size=2).map(
            lambda one: list(one.items())
        )
    elif pa.types.is_floating(kind):
        inner = st.sampled_from([0.0, 1.5, -2.0])
    elif pa.types.is_boolean(kind):
        inner = st.booleans()
    elif pa.types.is_string(kind):
        inner = st.text(max_size=3)
    elif pa.types.is_binary(kind):
        inner = st.binary(max_size=3)
    else:
        inner = st.none() if pa.types.is_null(kind) else st.integers(-3, 110)
    return st.none() | inner


columns = st.sampled_from(KINDS).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind), max_size=9), st.lists(values_of(kind), max_size=9))
)


def pieces(kind: pa.DataType, values: list[Any], cuts: list[int]) -> pa.ChunkedArray:
    """Values in chunks cut out of longer arrays, so that offsets and padding are anything."""
    at = sorted({0, len(values), *(cut % (len(values) + 1) for cut in cuts)})
    chunks = []
    for start, end in pairwise(at):
        longer = [*values[:1], *values[start:end], *values[-1:]]
        chunks.append(pa.array(longer, kind).slice(1, end - start))
    return pa.chunked_array(chunks, kind)


@given(columns, st.lists(st.integers(0, 9), max_size=4))
def test_a_mark_tells_values_whatever_buffers_they_lie_in(
    told: tuple[pa.DataType, list[Any], list[Any]], cuts: list[int]
) -> None:
    kind, values, others = told
    mark = column_hashes.mark(pa.array(values, kind))
    assert column_hashes.mark(pieces(kind, values, cuts)) == mark
    assert (column_hashes.mark(pa.array(others, kind)) == mark) == (
        pa.array(values, kind).equals(pa.array(others, kind))
    )


def test_what_lies_under_a_null_does_not_count() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([1, 99]).tobytes())])
    assert column_hashes.mark(hidden) == column_hashes.mark(pa.array([1, None], pa.int64()))


def test_the_type_is_part_of_a_mark_and_the_names_of_list_items_are_not() -> None:
    assert column_hashes.mark(pa.array([1], pa.int32())) != column_hashes.mark(pa.array([1], pa.int64()))
    element = pa.list_(pa.field("element", pa.int64()))
    assert column_hashes.mark(pa.array([[1]], element)) == column_hashes.mark(pa.array([[1]], pa.list_(pa.int64())))


@given(some_rows, st.lists(st.integers(0, 20), max_size=3))
def test_content_is_the_same_however_a_table_is_chunked(found: Rows, cuts: list[int]) -> None:
    table = pa.table(
        {"i": pa.array([r["i"] for r in found], pa.int64()), "s": pa.array([r["s"] for r in found], pa.string())}
    )
    at = sorted({0, len(table), *(cut % (len(table) + 1) for cut in cuts)})
    tables = [table.slice(a, b - a) for a, b in pairwise(at)]
    assert content(tables, table.schema) == content([table], table.schema)
    if len(table):
        changed = table.set_column(0, "i", pa.array([*table["i"].to_pylist()[:-1], 77], pa.int64()))
        assert content([changed], table.schema) != content([table], table.schema)


def content(tables: list[pa.Table], schema: pa.Schema) -> str:
    return Frame(schema, tuple(parquet.fragments(tables, schema))).content()
