"""`func`: each function of chains over real rows, DuckDB's own behind it, distances, windows, and what is refused."""

from __future__ import annotations

import datetime
import posixpath
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from memlake.dataset.expressions.bind import typed_sql
from memlake.dataset.expressions.columns import C, Expression, lit
from memlake.dataset.expressions.functions import (
    FIRST_IS_A_VALUE,
    REST_ARE_VALUES,
    VALUE_PLACES,
    as_vector_search,
    func,
    natures,
)
from memlake.errors import InvalidInput
from memlake.rows.sql import compose

PATHS = ["a/b.tar.gz", ".hidden", "x/.a.b", "a..b", "no", "dot.", "x.y/z", "/", "", "a/b/", "..."]
ROWS = pa.table(
    {
        "i": pa.array([6, 3, None], pa.int64()),
        "x": pa.array([1.0, 2.0, 4.0], pa.float64()),
        "t": ["abc", "b,c", None],
        "g": ["u", "u", "v"],
        "l": [[1, 2, 3], [4], None],
        "w": [["a", "b"], [], ["c"]],
        "b": [True, False, True],
        "at": pa.array([datetime.datetime(2024, 2, 29, 12)] * 3, pa.timestamp("us", "UTC")),
        "j": ['{"a": {"b": 5}}', "{}", None],
    }
)


def values(expression: Expression, rows: pa.Table = ROWS) -> list[Any]:
    """As the binder says it is to be selected; its type must be the type that comes."""
    sql, told = typed_sql(expression, rows.schema)
    asked = compose("SELECT {} AS it FROM rows", sql).render()
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("rows", rows)
        found = con.sql(asked.text, params=asked.values).to_arrow_table().column(0)
    assert found.type == told
    return found.to_pylist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (func.and_(C("i") > 3, "b"), [True, False, None]),
        (func.or_(C("i") > 3, C("x") > 3), [True, False, True]),
        (func.not_("b"), [False, True, False]),
        (func.isnone("t"), [False, False, True]),
        (func.ifelse(C("i") > 3, "big", "small"), ["big", "small", "small"]),
        (func.ifelse(func.isnone("t"), "none", C("t")), ["abc", "b,c", "none"]),
        (func.case((C("x") < 2, 1), (C("x") < 3, 2), else_=0), [1, 2, 0]),
        (func.case(("b", "yes")), ["yes", None, "yes"]),
        (func.coalesce("t", "g"), ["abc", "b,c", "v"]),
        (func.coalesce("t", lit("g")), ["abc", "b,c", "g"]),
        (func.greatest("i", "x"), [6.0, 3.0, 4.0]),
        (func.least("x", 2), [1.0, 2.0, 2.0]),
        (func.cast("i", str), ["6", "3", None]),
        (func.string("i"), ["6", "3", None]),
        (func.literal("t"), ["t", "t", "t"]),
        (func.array("i", 9), [[6, 9], [3, 9], [None, 9]]),
        (func.length("l"), [3, 1, None]),
        (func.array.length("l"), [3, 1, None]),
        (func.string.length("t"), [3, 3, None]),
        (func.contains("w", "a"), [True, False, False]),
        (func.contains("t", ","), [False, True, None]),
        (func.slice("l", 1), [[2, 3], [], None]),
        (func.array.slice("l", 0, 2), [[1, 2], [4], None]),
        (func.get_element("l", 0), [1, 4, None]),
        (func.join("w", "+"), ["a+b", "", "c"]),
        (func.split("t", ","), [["abc"], ["b", "c"], None]),
        (func.string.replace("t", "b", "-"), ["a-c", "-,c", None]),
        (func.regexp_replace("t", "[bc]", "-"), ["a--", "-,-", None]),
        (func.regexp_replace("t", "[bc]", "-", ""), ["a-c", "-,c", None]),
        (func.regexp_extract("t", "(.)c", 1), ["b", ",", None]),
        (func.concat("g", lit("/"), "t"), ["u/abc", "u/b,c", "v/"]),
        (func.bit_and("i", 3), [2, 3, None]),
        (func.bit_or("i", 1), [7, 3, None]),
        (func.bit_xor("i", 1), [7, 2, None]),
        (func.bit_hamming_distance("i", 1), [3, 1, None]),
        (func.byte_hamming_distance("t", lit("abcd")), [1, 3, None]),
        (func.byte_hamming_distance(lit("é"), lit("ea")), [2, 2, 2]),
        (func.byte_hamming_distance(lit(""), lit("")), [0, 0, 0]),
        (func.date_trunc("month", "at"), [datetime.datetime(2024, 2, 1, tzinfo=datetime.timezone.utc)] * 3),
        (func.date_part("year", "at"), [2024] * 3),
        (func.strftime("at", "%d.%m."), ["29.02."] * 3),
        (func.json_extract_string("j", "$.a.b"), ["5", None, None]),
        (func.lower(lit("ABC")), ["abc"] * 3),
        (lit(1), [1, 1, 1]),
        (func.sum("i"), [9]),
        (func.sum("x"), [7.0]),
        (func.sum(C("i") > 3), [1]),
        (func.avg("x"), [7 / 3]),
        (func.count(), [3]),
        (func.count("t"), [2]),
        (func.count_distinct("g"), [2]),
        (func.min("t"), ["abc"]),
        (func.max("x"), [4.0]),
        (func.bit_or("i"), [7]),
        (func.collect("g", order_by="x"), [["u", "u", "v"]]),
        (func.collect("x", order_by=[C("g").desc(), C("x").desc()]), [[4.0, 2.0, 1.0]]),
        (func.first("x", order_by=C("x").desc()), [4.0]),
        (func.concat("g", separator="-", order_by="x"), ["u-u-v"]),
        (func.string_agg("g", "+", order_by="x"), ["u+u+v"]),
        (func.quantile_cont("x", 0.5), [2.0]),
        (func.stddev_pop(lit(2)), [0.0]),
        (func.geomean("x"), [2.0]),
        (func.sum("i") / func.count(), [3.0]),
        (func.row_number().over(func.window(order_by="x", desc=True)), [1, 2, 3]),
        (func.rank().over(func.window(partition_by="g", order_by="x")), [1, 2, 1]),
        (func.dense_rank().over(func.window(order_by="g")), [1, 1, 2]),
        (func.sum("x").over(func.window(partition_by=["g"])) - C("x"), [2.0, 1.0, 0.0]),
        (func.lag("t", 1, "none").over(func.window(order_by="x")), ["none", "abc", "b,c"]),
        (func.first("t").over(func.window(partition_by="g", order_by=C("x").desc())), ["b,c", "b,c", None]),
    ],
    ids=str,
)
def test_a_function_gives(expression: Expression, expected: list[Any]) -> None:
    assert sorted(values(expression), key=repr) == sorted(expected, key=repr)
    if not (expression.is_local() or expression.is_aggregate()):
        return  # windows may hand rows back in their own order
    assert values(expression) == expected


def test_parts_of_a_path_are_those_of_posixpath() -> None:
    rows = pa.table({"p": PATHS})
    names = [posixpath.basename(one) for one in PATHS]
    assert values(func.name("p"), rows) == names
    assert values(func.path.name("p"), rows) == names
    assert values(func.file_stem("p"), rows) == [posixpath.splitext(one)[0] for one in names]
    assert values(func.file_ext("p"), rows) == [posixpath.splitext(one)[1].removeprefix(".") for one in names]
    assert values(func.path.parent("p"), rows)[:3] == ["a", "", "x"]


def test_hashes_are_the_same_in_every_release() -> None:
    assert values(func.int_hash_64(lit(7)))[0] == values(func.sip_hash_64(lit("7")))[0] == 8797477094207788175


def test_chance_differs_from_row_to_row() -> None:
    rows = pa.table({"n": range(50)})
    for one in (func.rand(), func.random(), func.random.rand()):
        found = values(one, rows)
        assert len(set(found)) > 40
        assert all(n >= 0 for n in found)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 3), pa.list_(pa.float32()), pa.list_(pa.int64())], ids=str)
@pytest.mark.parametrize("given", ["list", "ints", "float32", "column"])
def test_distances_are_numpys_for_lists_and_fixed_size_arrays(kind: pa.DataType, given: str) -> None:
    vectors = [[1, 2, 2], None, [0, 3, 4]]
    rows = pa.table({"v": pa.array(vectors, kind), "u": pa.array([[2.0, 0.0, 1.0]] * 3, pa.list_(pa.float64(), 3))})
    target = {"list": [2.0, 0.0, 1.0], "ints": [2, 0, 1], "float32": np.array([2, 0, 1], "float32"), "column": "u"}[
        given
    ]
    u = np.array([2.0, 0.0, 1.0])
    v = [np.array(one, float) for one in vectors if one is not None]
    inner = [float(one @ u) for one in v]
    cosine = [1 - dot / (np.linalg.norm(one) * np.linalg.norm(u)) for dot, one in zip(inner, v, strict=True)]
    euclidean = [float(np.linalg.norm(one - u)) for one in v]
    for name, expected in [("inner_product", inner), ("cosine_distance", cosine), ("l2_distance", euclidean)]:
        found = values(getattr(func, name)("v", target), rows)
        assert found[1] is None
        assert found[::2] == pytest.approx(expected)
    assert values(func.euclidean_distance("v", target), rows)[::2] == pytest.approx(euclidean)


def test_vectors_of_other_lengths_are_an_error_that_says_both() -> None:
    fixed = pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))})
    with pytest.raises(InvalidInput, match="'v' holds vectors of 2 numbers, and the vector given has 3"):
        values(func.cosine_distance("v", [1, 2, 3]), fixed)
    with pytest.raises(duckdb.Error, match=r"length '2' and right length '3'"):
        values(func.cosine_distance("v", [1, 2, 3]), pa.table({"v": [[1.0, 2.0]]}))


@pytest.mark.parametrize("wrong", [[], ["a"], [1.0, None], 3, np.ones((2, 2))], ids=repr)
def test_what_is_no_vector_is_refused_where_it_is_written(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="measures from a list of numbers"):
        func.cosine_distance("v", wrong)


def test_a_vector_search_is_recognised_and_nothing_else_is() -> None:
    kind, column, vector = as_vector_search(func.cosine_distance([1, 2], C("a.v")).label("d")) or ("", "", np.zeros(0))
    assert (kind, column, vector.tolist(), vector.dtype) == ("cosine", "a.v", [1.0, 2.0], np.float64)
    assert (as_vector_search(func.l2_distance("v", np.ones(2))) or [""])[0] == "euclidean"
    assert (as_vector_search(func.inner_product("v", [1])) or [""])[0] == "inner"
    for other in (func.cosine_distance("a", "b"), func.cosine_distance("v", [1]) + 1, C("v"), func.sum("v")):
        assert as_vector_search(other) is None


def test_aggregates_know_themselves_and_one_over_a_window_is_none() -> None:
    assert all(one.is_aggregate() for one in (func.sum("x"), func.count(), func.sum("x") + 1, func.geomean("x")))
    assert all(one.is_aggregate() for one in (func.bit_and("i"), func.concat("g"), func.count_distinct("g")))
    assert not any(one.is_aggregate() for one in (C("x"), func.lower("t"), func.bit_and("i", 1), func.concat("g", "t")))
    assert not func.sum("x").over(func.window()).is_aggregate()


def test_a_wrong_name_is_told_the_right_one() -> None:
    with pytest.raises(InvalidInput, match=r"there is no function 'date_trnc'\nDid you mean func.date_trunc"):
        func.date_trnc("day", "at")
    with pytest.raises(InvalidInput, match=r"Did you mean func[.]cosine_distance"):
        func.cosine_distanse("a", "b")
    with pytest.raises(InvalidInput, match=r"see dir\(func\)"):
        func.qqqqqqqqq  # noqa: B018
    assert {"sum", "cosine_distance", "date_trunc", "collect", "case"} <= set(dir(func))
    assert not hasattr(func, "_repr_html_")


def test_a_function_that_reads_files_or_settings_of_tables_is_none() -> None:
    for name in ("read_csv", "read_parquet", "pragma_table_info"):
        with pytest.raises(InvalidInput, match="there is no function"):
            getattr(func, name)


def test_every_name_in_the_table_of_value_places_is_a_function() -> None:
    assert set(VALUE_PLACES) <= set(natures())
    assert len(VALUE_PLACES) == len(FIRST_IS_A_VALUE.split()) + len(REST_ARE_VALUES.split())


def test_lit_and_column_settle_what_a_string_is() -> None:
    assert func.split("t", ",").reads() == {"t"}
    assert func.split(lit("t"), C("g")).reads() == {"g"}
    assert func.date_trunc("day", "at").reads() == {"at"}
    assert func.date_trunc(C("g"), "at").reads() == {"g", "at"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: func.rank().sql(), r"rank\(\) needs the rows"),
        (lambda: func.lower("t").over(func.window()), "has no window"),
        (lambda: func.sum("t").over("g"), "takes a window"),
        (lambda: func.lower("t", order_by="x"), "does not take order_by"),
        (lambda: func.case("b"), "pairs of a condition"),
        (func.and_, "at least one condition"),
        (lambda: func.file_ext("a", "b"), "takes 1 argument, not 2"),
    ],
)
def test_a_wrong_use_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        wrong()
