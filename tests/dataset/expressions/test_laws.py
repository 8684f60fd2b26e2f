"""Random expressions over random rows give what plain Python gives, absent values and all."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memlake.dataset.expressions.bind import check, typed_sql
from memlake.dataset.expressions.columns import C, Expression, lit
from memlake.dataset.expressions.functions import func
from memlake.rows.sql import compose
from tests.torture import examples

Row = dict[str, Any]
LETTERS = "abAB/.é'\"$1 %_*?"
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "x": pa.float64(),
        "t": pa.string(),
        "b": pa.bool_(),
        "l": pa.list_(pa.int64()),
        "s": pa.struct({"i": pa.int64(), "in": pa.struct({"t": pa.string()})}),
    }
)


class Pair(NamedTuple):
    """An expression and what it means, said in Python; None is the absent value."""

    expression: Expression
    meaning: Callable[[Row], Any]


wholes = st.integers(-20, 20)
halves = st.integers(-20, 20).map(lambda n: n / 2)
texts = st.text(LETTERS, max_size=5)
rows = st.fixed_dictionaries(
    {
        "i": st.none() | wholes,
        "x": st.none() | halves,
        "t": st.none() | texts,
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(wholes, max_size=4),
        "s": st.none()
        | st.fixed_dictionaries(
            {"i": st.none() | wholes, "in": st.none() | st.fixed_dictionaries({"t": st.none() | texts})}
        ),
    }
)


def strict(work: Callable[..., Any]) -> Callable[..., Any]:
    """Absent when any operand is absent: the rule of all but AND, OR and the questions about absence."""
    return lambda *given: None if None in given else work(*given)


def both(work: Callable[..., Any], means: Callable[..., Any] | None = None, *operands: Pair) -> Pair:
    """`work` on expressions, and `means` (or the same work) on their values."""
    meaning = strict(means or work)
    return Pair(
        work(*(one.expression for one in operands)), lambda row: meaning(*(one.meaning(row) for one in operands))
    )


def at(row: Row, *names: str) -> Any:
    found: Any = row
    for name in names:
        found = None if found is None else found[name]
    return found


def column(name: str) -> Pair:
    return Pair(C(name), lambda row: at(row, *name.split(".")))


def value(given: Any) -> Pair:
    return Pair(lit(given), lambda _: given)


def divided(a: float, b: float) -> float:
    return a / b if b else float("nan") if a == 0 or a != a else float("inf") * a


def by_zero_is_absent(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: None if b == 0 else work(a, b)


def item(given: list[int], n: int) -> int | None:
    return given[n] if -len(given) <= n < len(given) else None


def globbed(pattern: str) -> Callable[[str], bool]:
    parts = {"*": ".*", "?": "."}
    told = re.compile("".join(parts.get(one, re.escape(one)) for one in pattern), re.DOTALL)
    return lambda text: told.fullmatch(text) is not None


def three_valued(word: str, a: Any, b: Any) -> Any:
    decides = word == "or"
    return decides if decides in (a, b) else None if None in (a, b) else not decides


ARITHMETIC = [operator.add, operator.sub, operator.mul]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@st.composite
def whole_numbers(draw: st.DrawFn, depth: int = 2) -> Pair:
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from([column("i"), column("s.i"), value(draw(wholes))]))
    a, b = draw(whole_numbers(depth - 1)), draw(whole_numbers(depth - 1))
    n = draw(st.integers(-5, 5))
    work = draw(st.sampled_from(ARITHMETIC))
    return draw(
        st.sampled_from(
            [
                both(work, None, a, b),
                both(lambda x: -x, None, a),
                both(lambda x, y: x // y, by_zero_is_absent(lambda x, y: x // y), a, b),
                both(lambda x, y: x % y, by_zero_is_absent(lambda x, y: x % y), a, b),
                both(lambda x: x[n], lambda x: item(x, n), column("l")),
                both(lambda x: x.length(), len, draw(some_texts(depth - 1))),
                otherwise(draw(conditions(depth - 1)), a, b),
            ]
        )
    )


@st.composite
def floats(draw: st.DrawFn) -> Pair:
    a, b = column("x"), draw(st.sampled_from([column("x"), column("i"), value(draw(halves))]))
    return draw(
        st.sampled_from(
            [
                both(lambda x, y: x / y, divided, a, b),
                both(lambda x, y: x // y, by_zero_is_absent(lambda x, y: x // y), a, b),
                both(lambda x, y: x % y, by_zero_is_absent(lambda x, y: x % y), a, b),
                both(lambda x: x**2, None, a),
                both(lambda x, y: x - y, None, b, a),
            ]
        )
    )


@st.composite
def some_texts(draw: st.DrawFn, depth: int = 2) -> Pair:
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from([column("t"), column("s.in.t"), value(draw(texts))]))
    a, b = draw(some_texts(depth - 1)), draw(some_texts(depth - 1))
    text = draw(texts)
    start, stop = draw(st.none() | st.integers(-6, 6)), draw(st.none() | st.integers(-6, 6))
    return draw(
        st.sampled_from(
            [
                both(lambda x: x.lower(), None, a),
                both(lambda x: x.upper(), None, a),
                both(lambda x: x + text, None, a),
                both(lambda x: text + x, None, a),
                both(lambda x: x[start:stop], None, a),
                otherwise(draw(conditions(depth - 1)), a, b),
            ]
        )
    )


@st.composite
def lists(draw: st.DrawFn) -> Pair:
    start, stop = draw(st.none() | st.integers(-6, 6)), draw(st.none() | st.integers(-6, 6))
    return both(lambda x: x[start:stop], None, column("l"))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Pair:
    if not depth:
        return draw(st.sampled_from([column("b"), value(draw(st.booleans()))]))
    number, other = draw(whole_numbers(depth - 1)), draw(whole_numbers(depth - 1))
    text, fixed = draw(some_texts(depth - 1)), draw(texts)
    a, b = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    return draw(
        st.sampled_from(
            [
                both(draw(st.sampled_from(COMPARE)), None, number, other),
                both(draw(st.sampled_from(COMPARE)), None, text, draw(some_texts(depth - 1))),
                both(lambda x: x.startswith(fixed), None, text),
                both(lambda x: x.endswith(fixed), None, text),
                both(lambda x: x.contains(fixed), lambda x: fixed in x, text),
                both(lambda x: x.glob(fixed), globbed(fixed), text),
                both(lambda x: x.between(-3, 9), lambda x: -3 <= x <= 9, number),
                both(lambda x: ~x, lambda x: not x, a),
                Pair(number.expression.is_null(), lambda row: number.meaning(row) is None),
                Pair(text.expression != None, lambda row: text.meaning(row) is not None),  # noqa: E711
                Pair(a.expression & b.expression, lambda row: three_valued("and", a.meaning(row), b.meaning(row))),
                Pair(a.expression | b.expression, lambda row: three_valued("or", a.meaning(row), b.meaning(row))),
                among(number, draw(st.lists(st.none() | wholes, max_size=3))),
            ]
        )
    )


def otherwise(condition: Pair, a: Pair, b: Pair) -> Pair:
    return Pair(
        func.ifelse(condition.expression, a.expression, b.expression),
        lambda row: a.meaning(row) if condition.meaning(row) else b.meaning(row),
    )


def among(number: Pair, listed: list[int | None]) -> Pair:
    def meaning(row: Row) -> bool | None:
        found = number.meaning(row)
        return None if found is None and listed and None not in listed else found in listed

    return Pair(number.expression.in_(listed), meaning)


def nan_as_text(given: Any) -> Any:
    return given if given == given else "nan"


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as made:
        yield made


@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    pair=st.one_of(whole_numbers(), floats(), some_texts(), lists(), conditions(3)),
    given=st.lists(rows, min_size=1, max_size=6),
)
def test_an_expression_gives_what_python_gives(con: duckdb.DuckDBPyConnection, pair: Pair, given: list[Row]) -> None:
    sql, told = typed_sql(pair.expression, SCHEMA)
    asked = compose("SELECT {} AS it FROM s", sql).render()
    con.register("s", pa.Table.from_pylist(given, schema=SCHEMA))  # a table called as a column, to be confused with
    found = con.sql(asked.text, params=asked.values).to_arrow_table().column(0)
    expected = [pair.meaning(row) for row in given]
    assert [nan_as_text(one) for one in found.to_pylist()] == [nan_as_text(one) for one in expected]
    assert found.type == told == check(pair.expression, SCHEMA)
