"""Expressions: the SQL they mean over real rows, what they read, and what they refuse."""

from __future__ import annotations

import datetime
import pickle
import subprocess
import sys
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memlake as ml
from memlake.dataset.expressions.columns import C, Expression, lit
from memlake.dataset.expressions.functions import func
from memlake.errors import InvalidInput
from memlake.rows.sql import compose, join, value

DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc)
ROWS = pa.table(
    {
        "i": pa.array([-7, 7, None], pa.int64()),
        "x": pa.array([-7.5, 7.5, None], pa.float64()),
        "t": ["a/b/c.jpg", "B_c.txt", None],
        "l": [[1, 2, 3], [], None],
        "file": [{"path": "p1", "size": 1, "in": {"side": "left"}}, {"path": "p2", "size": 2, "in": None}, None],
        "m": pa.array([[("k", 1)], [("z", 2)], None], pa.map_(pa.string(), pa.int64())),
        "d": pa.array([DAY, None, DAY], pa.date32()),
        "odd \"name'": [1, 2, 3],
    }
)


def values(expression: Expression, rows: pa.Table = ROWS) -> list[Any]:
    """One value for each row, as DuckDB computes them; `file` is also the name of the table, to be confused with."""
    asked = compose("SELECT {} AS it FROM file", expression.sql()).render()
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("file", rows)
        return con.sql(asked.text, params=asked.values).to_arrow_table().column(0).to_pylist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (C("i") == 7, [False, True, None]),
        (C("i") != 7, [True, False, None]),
        (C("i") == None, [False, False, True]),  # noqa: E711
        (C("i") != None, [True, True, False]),  # noqa: E711
        ((C("i") > 0) & (C("x") > 0), [False, True, None]),
        ((C("i") > 0) | (C("t") == None), [False, True, True]),  # noqa: E711
        (~(C("i") > 0), [True, False, None]),
        (C("i") + 1, [-6, 8, None]),
        (1 - C("i"), [8, -6, None]),
        (-C("i"), [7, -7, None]),
        (C("i") / 2, [-3.5, 3.5, None]),
        (C("i") // 2, [-4, 3, None]),
        (C("x") // 2, [-4.0, 3.0, None]),
        (C("i") % 3, [2, 1, None]),
        (C("i") % -3, [-1, -2, None]),
        (7 // C("i"), [-1, 1, None]),
        (C("i") // 0, [None, None, None]),
        (C("i") % 0, [None, None, None]),
        (C("i") ** 2, [49.0, 49.0, None]),
        (2 * C("x"), [-15.0, 15.0, None]),
        (np.float32(2) * C("x"), [-15.0, 15.0, None]),
        (C("t") + "!", ["a/b/c.jpg!", "B_c.txt!", None]),
        ("<" + C("t") + C("t"), ["<a/b/c.jpga/b/c.jpg", "<B_c.txtB_c.txt", None]),
        (C("t").glob("*.jpg"), [True, False, None]),
        (C("t").glob("a/*.jpg"), [True, False, None]),
        (C("t").like("B\\_%"), [False, False, None]),
        (C("t").ilike("b_c%"), [False, True, None]),
        (C("t").regexp("[A-Z]"), [False, True, None]),
        (C("t").startswith("a/"), [True, False, None]),
        (C("t").endswith(".txt"), [False, True, None]),
        (C("t").contains("/b/"), [True, False, None]),
        (C("t").lower().length(), [9, 7, None]),
        (C("t").upper(), ["A/B/C.JPG", "B_C.TXT", None]),
        (C("i").in_([7, 8]), [False, True, None]),
        (C("i").isin([7, None]), [False, True, True]),
        (C("i").in_([]), [False, False, False]),
        (C("i").in_([None]), [False, False, True]),
        (C("i").not_in([7]), [True, False, None]),
        (C("i").not_in([]), [True, True, True]),
        (C("i").not_in([7, None]), [True, False, False]),
        (C("i").between(0, 7), [False, True, None]),
        (C("i").is_null(), [False, False, True]),
        (C("i").isnone(), [False, False, True]),
        (C("i").is_not_null(), [True, True, False]),
        (C("i").cast(str), ["-7", "7", None]),
        (C("x").cast("int"), [-8, 8, None]),
        (C("i").cast(pa.float32()), [-7.0, 7.0, None]),
        (C("l")[0], [1, None, None]),
        (C("l")[-1], [3, None, None]),
        (C("l")[1:], [[2, 3], [], None]),
        (C("l")[:-1], [[1, 2], [], None]),
        (C("l")[0:0], [[], [], None]),
        ((C("t") + "!")[0], ["a", "B", None]),
        (func.case((C("i") > 0, C("l")), else_=[9])[0], [9, None, 9]),
        (C("file.path"), ["p1", "p2", None]),
        (C.file.path, ["p1", "p2", None]),
        (C("file.in.side"), ["left", None, None]),
        (C("file")["in"]["side"], ["left", None, None]),
        (C("m")["k"], [1, None, None]),
        (C("m.z"), [None, 2, None]),
        (C("m")["no.such"], [None, None, None]),
        (C("odd \"name'") + 1, [2, 3, 4]),
        (C("d") > "2024-01-01", [True, None, True]),
        (C("d") + 1, [datetime.date(2024, 3, 1), None, datetime.date(2024, 3, 1)]),
        (lit("x"), ["x", "x", "x"]),
        (lit(None), [None, None, None]),
    ],
    ids=str,
)
def test_an_expression_means_what_python_means(expression: Expression, expected: list[Any]) -> None:
    assert values(expression) == expected


@pytest.mark.parametrize(
    ("given", "back"),
    [
        ('it\'s "so"; DROP TABLE file --', None),
        (3, None),
        (2**70, Decimal(2**70)),
        (1.5, None),
        (True, None),
        (b"\x00\xff", None),
        (DAY, None),
        (datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None),
        (MOMENT, None),
        (datetime.timedelta(days=2, seconds=3), pa.MonthDayNano([0, 2, 3_000_000_000])),
        (Decimal("1.50"), None),
        (UUID(int=7), str(UUID(int=7))),
        ([1, None], None),
        (["a", "it's"], None),
        ([[1.5], [2.5]], None),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": ["x"]}, None),
        ([{"a": 1}], None),
        (np.float32(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("s"), "s"),
        (np.datetime64("2024-02-29T01:00:00.000000001"), datetime.datetime(2024, 2, 29, 1)),
        (np.array([1.5, 2.5], "float32"), [1.5, 2.5]),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["a", "b"]), ["a", "b"]),
        ([np.float32(0.5), np.int8(1)], [0.5, 1.0]),
        ([0.25] * 384, None),
        (bytearray(b"ab"), b"ab"),
    ],
    ids=lambda one: repr(one)[:40],
)
def test_every_kind_of_value_is_bound_and_comes_back(given: Any, back: Any) -> None:
    back = given if back is None else back
    assert values(lit(given), ROWS.slice(0, 1))[0] == back


def test_a_name_inside_a_column_may_hold_quotes() -> None:
    rows = pa.table({"s": [{"it's": 1, 'a "b"': 2}]})
    assert values(C("s")["it's"] + C("s")['a "b"'], rows) == [3]


def test_an_array_on_the_left_is_compared_as_one_value() -> None:
    assert values(np.array([1, 2, 3]) == C("l")) == [True, False, None]


def test_values_are_never_text_of_the_statement() -> None:
    asked = ((C("t") == "secret") & C("t").in_(["secret", "other"])).sql().render()
    assert "secret" not in asked.text
    assert asked.values == ["secret", "other"]


def test_a_value_used_twice_is_bound_once_but_one_and_true_are_two() -> None:
    asked = join(" ", map(value, (1, True, 1.0, 1, None))).render()
    assert asked.text == "$1 $2 $3 $1 NULL"
    assert asked.values == [1, True, 1.0]


def test_a_value_changed_later_does_not_change_the_expression() -> None:
    vector, names = np.ones(2), ["a"]
    expression = func.array(vector, names)
    before = expression.key()
    vector[0] = 9
    names.append("b")
    assert expression.key() == before


@pytest.mark.parametrize("wrong", [{1, 2}, object(), lambda: 1, {1: 2}], ids=["set", "object", "function", "dict"])
def test_what_cannot_be_bound_is_refused_by_its_type(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=f"a {type(wrong).__name__} cannot be a value"):
        lit(wrong)


@pytest.mark.parametrize("ask", [bool, lambda e: e and e, lambda e: 0 < e < 5, lambda e: not e])
def test_python_words_for_logic_are_refused_with_the_operators_to_use(ask: Any) -> None:
    with pytest.raises(InvalidInput, match=r"& \| ~"):
        ask(C("i"))


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", 3, None])
def test_what_names_no_column_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="does not name a column"):
        C(name)


def test_in_takes_a_list_and_not_one_text() -> None:
    with pytest.raises(InvalidInput, match="takes a list"):
        C("t").in_("abc")


def test_a_slice_with_a_step_and_an_item_of_no_kind_are_refused() -> None:
    with pytest.raises(InvalidInput, match="step"):
        C("l")[::2]
    with pytest.raises(InvalidInput, match="cannot be taken"):
        C("l")[1.5]  # type: ignore[index]
    with pytest.raises(TypeError, match="not a list"):
        list(C("l"))


OFFSET, UTC_TIME = "2024-01-01T03:04:00.25+02:00", datetime.datetime(2024, 1, 1, 1, 4, 0, 250_000)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_text_that_becomes_a_time_keeps_its_offset(repo: ml.Repo, unit: str) -> None:
    """A time without a zone is the time in UTC, in whatever unit, and in lists."""
    rows = repo.datasets().read_values(t=[OFFSET], each=[[OFFSET, None]], deep=[[[OFFSET]]])
    kind = pa.timestamp(unit)
    made = rows.mutate(
        t=C("t").cast(kind), each=C("each").cast(pa.list_(kind)), deep=C("deep").cast(pa.list_(pa.list_(kind)))
    ).to_arrow()
    expected = UTC_TIME.replace(microsecond=0) if unit == "s" else UTC_TIME
    for name, found in (("t", expected), ("each", [expected, None]), ("deep", [[expected]])):
        assert pc.cast(made[name], kind_in(made[name].type)).to_pylist() == [found]


def kind_in(kind: pa.DataType) -> pa.DataType:
    """The same in microseconds, which Python has."""
    return pa.list_(kind_in(kind.value_type)) if pa.types.is_list(kind) else pa.timestamp("us")


def test_nanoseconds_stay_and_so_does_what_has_no_offset(repo: ml.Repo) -> None:
    texts = ["2024-01-01T03:04:00.123456789+02:00", "2024-01-01 03:04:00.000000001", "infinity", None]
    rows = repo.datasets().read_values(t=texts).mutate(t=C("t").cast(pa.timestamp("ns")))
    assert rows.mutate(t=C("t").cast(str)).to_values("t") == [
        "2024-01-01 01:04:00.123456789", "2024-01-01 03:04:00.000000001", "infinity", None
    ]  # fmt: skip
    assert rows.mutate(t=C("t").cast(pa.timestamp("ns")).cast(str)).to_values("t")[0].endswith("01:04:00.123456789")


@pytest.mark.parametrize("to", ["INT) FROM x; --", "nonsense", 3, set])
def test_only_a_type_can_be_cast_to(to: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a type"):
        C("i").cast(to)


def test_reads_names_columns_with_what_lies_inside() -> None:
    expression = ((C("file.path") == "x") & C("m")["k"].is_null()) | func.sum("i").over(
        func.window(partition_by="t", order_by="d")
    )
    assert expression.reads() == {"file.path", "m.k", "i", "t", "d"}


def test_local_means_that_a_row_is_enough() -> None:
    assert (C("i") + func.lower("t").length()).is_local()
    for other in (func.random(), func.rand() % 3, func.now(), func.sum("i"), func.uuid()):
        assert not other.is_local(), other
    assert not func.row_number().over(func.window()).is_local()


def test_a_label_names_the_result_and_changes_nothing_else() -> None:
    named = (C("i") + 1).label("more")
    assert named.given_name() == "more"
    assert named.key() == (C("i") + 1).key()
    assert (C("i") + 1).given_name() is None


def test_order_says_where_the_absent_go() -> None:
    assert C("i").desc().sql().render().text == '"i" DESC NULLS LAST'
    assert C("i").asc().sql().render().text == '"i" ASC NULLS LAST'


def test_keys_differ_when_anything_differs() -> None:
    vector = [0.5] * 384
    all_of_them = [
        C("i") == 1, C("i") == 1.0, C("i") == "1", C("i") == True, C("x") == 1, C("i") != 1, C("a.b"),  # noqa: E712
        C("i").asc(), C("i").desc(), C("i").cast(int), C("i").cast(float), func.min("i"), func.max("i"),
        func.cosine_distance("v", vector), func.cosine_distance("v", [*vector[1:], 0.25]),
        func.cosine_distance("v", np.array(vector)), func.min("i").over(func.window("t")),
        func.min("i").over(func.window(order_by="t")), func.min("i").over(func.window(order_by="t", desc=True)),
    ]  # fmt: skip
    assert len({one.key() for one in all_of_them}) == len(all_of_them)


def test_a_key_is_the_same_in_another_process() -> None:
    program = (
        "from memlake.dataset.expressions.columns import C;"
        "from memlake.dataset.expressions.functions import func; import numpy as np;"
        "e = (C('a.b') == 'x') & (func.cosine_distance('v', np.arange(3.0)) < 0.5) & C('c').in_([1, None]);"
        "print(e.key())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1] != ""


def test_an_expression_travels_to_another_process() -> None:
    expression = func.cosine_distance("v", np.arange(3.0)).label("near")
    again = pickle.loads(pickle.dumps(expression))
    assert again.key() == expression.key()
    assert repr(again) == repr(expression)


def test_the_text_of_an_expression_is_short_and_readable() -> None:
    assert repr((C("a.b") // 2 == 3) & C("t").glob("*.jpg")) == "(((a.b // 2) = 3) AND (t GLOB '*.jpg'))"
    assert len(repr(func.cosine_distance("v", [0.5] * 384))) < 120
