"""Functions over the rows around a row: what window(...) and .over(...) mean. Knows no function by name."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from memlake.dataset.expressions.columns import Expression, Form, Ordered, column_of, walk
from memlake.errors import InvalidInput
from memlake.rows.sql import NOTHING, PLACE, Sql, compose, join, template

# Aggregates that depend on the order of rows, and functions that tell apart rows which a window's order does not.
IN_ORDER = frozenset({
    "first", "last", "any_value", "arbitrary", "list", "array_agg", "string_agg", "group_concat", "listagg", "mode",
    "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "arg_min_null", "arg_max_null",
})  # fmt: skip
ROW_BY_ROW = frozenset({
    "row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "first", "last",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Window:
    """The rows a function looks at for each row: those of the same partition, in this order."""

    partition_by: tuple[Expression, ...]
    order_by: tuple[Ordered, ...]

    def sql(self, *, placed: bool, by_place: bool) -> Sql:
        """`by_place`: rows that are equal in this order come as they lie."""
        parts = []
        if self.partition_by:
            parts.append(compose("PARTITION BY {}", join(", ", (one.sql(placed=placed) for one in self.partition_by))))
        orders = [one.sql(placed=placed) for one in self.order_by] + ([template(PLACE)] if by_place else [])
        if orders:
            parts.append(compose("ORDER BY {}", join(", ", orders)))
        return compose("({})", join(" ", parts))


def window(partition_by: Any = (), order_by: Any = (), *, desc: bool = False) -> Window:
    """The rows for .over(): `window(partition_by="breed", order_by="size", desc=True)`; lists and expressions too."""
    partitions, orders = (
        [given] if isinstance(given, str | Expression) else given for given in (partition_by, order_by)
    )
    return Window(tuple(map(column_of, partitions)), tuple(as_order(one, desc=desc) for one in orders))


def as_order(given: Any, *, desc: bool = False) -> Ordered:
    """An order of one column; what says itself asc() or desc() stays so."""
    one = column_of(given)
    return one if isinstance(one, Ordered) else Ordered(one, descending=desc)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Form):
    """A function by name. Where the order of rows decides, its form has one more hole, for PLACE."""

    def over(self, rows: Window) -> Expression:
        """For each row, computed over the rows of its window."""
        if self.nature not in ("aggregate", "window"):
            raise InvalidInput(
                f"{self.name}() is computed from one row and has no window",
                hint="Use .over() with an aggregate (func.sum) or a window function (func.row_number, func.lag).",
            )
        if not isinstance(rows, Window):
            raise InvalidInput(
                f"over() takes a window, and {rows!r} was given",
                hint='Write .over(func.window(partition_by="a", order_by="b")).',
            )
        return Over(self, rows)

    def fill(self, *, placed: bool, by_place: bool = True) -> Sql:
        is_sorted = any(isinstance(one, Ordered) for one in self.args)
        last = template(f", {PLACE}") if is_sorted else template(f" ORDER BY {PLACE}")
        args = (one.sql(placed=placed) for one in self.args)
        return self.form.fill(*args, last if placed and by_place else NOTHING)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(repr(one) for one in self.args)})"


@dataclass(frozen=True, eq=False, repr=False)
class Over(Expression):
    call: Call
    rows: Window

    def sql(self, *, placed: bool = False) -> Sql:
        by_place = placed and self.call.name in ROW_BY_ROW
        call = self.call.fill(placed=placed, by_place=False)
        return compose("{} OVER {}", call, self.rows.sql(placed=placed, by_place=by_place))

    def key(self) -> tuple[Hashable, ...]:
        partitions = tuple(one.key() for one in self.rows.partition_by)
        return ("over", self.call.key(), partitions, tuple(one.key() for one in self.rows.order_by))

    def inner(self) -> tuple[Expression, ...]:
        return (self.call, *self.rows.partition_by, *self.rows.order_by)

    def is_local(self) -> bool:
        return False

    def is_aggregate(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{self.call!r} over ({', '.join(repr(one) for one in self.inner()[1:])})"


def takes_in_order(expression: Expression) -> bool:
    """Whether an aggregate in it depends on the order of rows."""
    return any(isinstance(one, Call) and one.name in IN_ORDER for one in walk(expression))
