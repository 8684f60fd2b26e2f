"""What an expression means over a schema: its type, or a sentence that says why it has none; and what of it may be NaN.

Runs nothing over rows.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime

import duckdb
import pyarrow as pa

from memlake.dataset.expressions.columns import Column, Expression, Form, Literal, Named, Ordered, outcome_of, walk
from memlake.dataset.expressions.functions import as_vector_search
from memlake.dataset.expressions.windows import Call, Over
from memlake.dataset.types.field_metadata import JSON, class_of
from memlake.errors import InvalidInput
from memlake.rows.duckdb_connections import catalogue, lock
from memlake.rows.sql import Sql, Statement, compose, hole, identifier, template

# DuckDB adds whole numbers up in 128 bits, which Arrow hands over as decimals and Python users never expect.
TOO_WIDE = frozenset({"HUGEINT", "UHUGEINT"})

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "in", "between"})
JOINERS = {"AND": "&", "OR": "|", "not": "~"}
CONDITIONS = COMPARISONS | JOINERS.keys() | {"is_null", "is_not_null", "glob", "like", "regexp"}  # true or false

_MOST = 256  # tables kept: making one takes as long as asking about it
_MOST_ANSWERS = 4096
_kept: dict[tuple[tuple[str, pa.DataType], ...], str] = {}
_answers: dict[Hashable, tuple[str, pa.DataType]] = {}  # by columns, SQL and values: a question takes 0.7 ms


def check(expression: Expression, schema: pa.Schema) -> pa.DataType:
    """The type of the expression over these columns; pa.null() where a column's own type is not known yet."""
    if isinstance(expression, Column):
        return type_of_column(repr(expression), schema)
    return typed_sql(expression, schema)[1]


def typed_sql(expression: Expression, schema: pa.Schema) -> tuple[Sql, pa.DataType]:
    """The SQL to select and its type: sums of whole numbers are brought back to 64 bits, an overflow is an error."""
    expression = outcome_of(expression.of if isinstance(expression, Ordered | Named) else expression)
    known = [type_of_column(name, schema) for name in sorted(expression.reads())]
    sql = expression.sql()
    if any(pa.types.is_null(one) for one in known):
        return sql, pa.null()
    _check_length(expression, schema)
    _check_alike(expression, schema)
    _check_conditions(expression, schema)
    native, kind = _ask_engine(expression, schema)
    return (compose("CAST({} AS BIGINT)", sql), pa.int64()) if native in TOO_WIDE else (sql, kind)


def type_of_column(name: str, schema: pa.Schema) -> pa.DataType:
    """The type of a dotted name; InvalidInput with what is spelled like it."""
    first, *rest = name.split(".")
    if schema.get_field_index(first) < 0:
        raise _unknown_column(name, schema)
    if class_of(schema.field(first)) == JSON and rest:
        where = f'"{first}", "$.{".".join(rest)}"'
        raise InvalidInput(
            f"{name!r} goes into {first!r}, a column of dicts: each row has its own keys, and none is a column",
            hint=f"Take it as text, func.json_extract_string({where}), and .cast(int) that where it is a number.",
        )
    kind = schema.field(first).type
    for part in rest:
        if pa.types.is_null(kind):
            return kind
        if pa.types.is_map(kind):
            kind = kind.item_type
        elif pa.types.is_struct(kind) and kind.get_field_index(part) >= 0:
            kind = kind.field(part).type
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            raise InvalidInput(
                f"{name!r} goes into a list, {kind}: {part!r} is inside each of its items",
                hint='Take one item first, C("boxes")[0]["label"], or make a row of each item.',
            )
        else:
            raise _unknown_column(name, schema)
    return kind


def column_names(schema: Iterable[pa.Field], before: str = "") -> Iterator[str]:
    """Every column and all that lies inside it, as dotted names."""
    for one in schema:
        yield before + one.name
        if pa.types.is_struct(one.type):
            yield from column_names(one.type, f"{before}{one.name}.")


def _unknown_column(name: str, schema: pa.Schema) -> InvalidInput:
    names = list(column_names(schema))
    near = difflib.get_close_matches(name.lower(), {one.lower() for one in names}, n=1, cutoff=0.5)
    ends = [one for one in names if one.rpartition(".")[2] == name]
    likely = ends[:1] or [one for one in names if one.lower() in near]
    guess = f"; did you mean {likely[0]!r}?" if likely else ";"
    return InvalidInput(
        f"there is no column {name!r}{guess} columns: {', '.join(names) or 'none'}",
        hint=f"If {name!r} is meant as text, write lit({name!r}).",
    )


def _ask_engine(expression: Expression, schema: pa.Schema) -> tuple[str, pa.DataType]:
    """DuckDB's type and Arrow's, from one row of nothing: without a row, a cast that is impossible passes."""
    needed = {name.split(".")[0] for name in expression.reads()}
    fields = [pa.field(one.name, one.type) for one in schema if one.name in needed] or [pa.field("-", pa.bool_())]
    sql = expression.sql()
    asked = sql.render()
    key = tuple((one.name, one.type) for one in fields), asked.text, asked.key
    with lock:
        if key not in _answers:
            try:
                answer = _answer(compose("SELECT {} FROM {}", sql, identifier(_empty_table(fields))).render())
            except duckdb.Error as wrong:
                types = ", ".join(f"{one.name} is {one.type}" for one in fields)
                hint = f"{types}. Change a type with .cast(...); write text that is not a column as lit(...)."
                raise InvalidInput(f"{expression} cannot be computed: {reason(wrong)}", hint=hint) from wrong
            if len(_answers) >= _MOST_ANSWERS:
                _answers.clear()
            _answers[key] = answer
        return _answers[key]


def _answer(statement: Statement) -> tuple[str, pa.DataType]:
    asked = catalogue().sql(statement.text, params=statement.values)
    return str(asked.types[0]), _plain_type(asked.to_arrow_table().schema.field(0).type)


def _empty_table(fields: list[pa.Field]) -> str:
    """The name of a table of these columns with one row of nothing; kept for the next question. Hold `lock`."""
    key = tuple((one.name, one.type) for one in fields)
    if key not in _kept:
        if len(_kept) >= _MOST:
            for name in _kept.values():
                catalogue().unregister(name)
            _kept.clear()
        table = pa.table([pa.nulls(1, one.type) for one in fields], schema=pa.schema(fields))
        catalogue().register(f"one_row_{len(_kept)}", table)
        _kept[key] = f"one_row_{len(_kept)}"
    return _kept[key]


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Items of lists are called as Arrow calls them; DuckDB has its own word."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_plain_type(one.type)) for one in kind])
    return kind


def reason(wrong: duckdb.Error) -> str:
    """The first sentence of what DuckDB says, without its prefix, its candidates and its picture of the statement."""
    text = re.split(r"\n\s*(?:LINE \d|Candidate|\n)", str(wrong))[0]
    return " ".join(
        re.sub(r"^[\w ]+ Error: ", "", text).replace("You might need to add explicit type casts.", "").split()
    )


def _check_alike(expression: Expression, schema: pa.Schema) -> None:
    """A number and a text are never equal: the engine would make one of the other, row by row, as far as it goes."""
    for one in walk(expression):
        if not isinstance(one, Form) or one.name not in COMPARISONS:
            continue
        values = [side.value for side in one.args if isinstance(side, Literal)]
        for column in (side for side in one.args if isinstance(side, Column)):
            _check_side(repr(column), type_of_column(repr(column), schema), values)


def _check_conditions(expression: Expression, schema: pa.Schema) -> None:
    """& | ~ join what is true or false: of numbers the engine would take anything but 0 for true, not their bits."""
    for one in walk(expression):
        if not isinstance(one, Form) or one.name not in JOINERS:
            continue
        for side in one.args:
            if isinstance(side, Form) and side.name in CONDITIONS:
                continue
            kind = check(side, schema)
            if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
                written = f'C("{side}")' if isinstance(side, Column) else str(side)
                raise InvalidInput(
                    f"{JOINERS[one.name]} joins conditions, and {side} is {kind}. Nothing was run.",
                    hint=f"Compare it with something first, like: ({written} != 0)",
                )


def _check_side(column: str, kind: pa.DataType, values: Iterable[object]) -> None:
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    for value in values:
        if pa.types.is_timestamp(kind) and kind.tz is None:
            _check_zone(column, value)
        if (number and isinstance(value, str)) or (text and isinstance(value, int | float)):
            needed = "a number" if number else "text"
            raise InvalidInput(
                f"column {column!r} is {kind}, and is compared with {value!r}: {needed} is never equal to it",
                hint=f"Give {needed}, or say how to read the column: C({column!r}).cast({type(value).__name__})",
            )


def _check_zone(column: str, value: object) -> None:
    """The engine would drop the offset of a text that it compares with times without a zone."""
    try:
        has_zone = isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return
    if has_zone:
        raise InvalidInput(
            f"column {column!r} holds times without a zone and is compared with {value!r}, which has an offset.",
            hint=f"Take the column's times for UTC: C({column!r}).cast(datetime). Or give a time without an offset.",
        )


def _check_length(expression: Expression, schema: pa.Schema) -> None:
    search = as_vector_search(expression)
    if search is None:
        return
    _, column, vector = search
    kind = type_of_column(column, schema)
    if pa.types.is_fixed_size_list(kind) and kind.list_size != len(vector):
        raise InvalidInput(
            f"column {column!r} holds vectors of {kind.list_size} numbers, and the vector given has {len(vector)}",
            hint="Both must come from one model.",
        )


# -- NaN -------------------------------------------------------------------------------------------
# A comparison says of NaN what Python says: it is not less, not greater, not equal to anything. To the engine NaN is
# the greatest number, and equal to itself. Only where an operand that may be NaN would be taken for that is it looked
# at: whole numbers, texts and most comparisons with a constant stay as they are. To sort by, NaN is the greatest, and
# to group or join by, one NaN is as another.

# The operand that must be no number for the engine's answer to be wrong.
_TELLING = {">": 0, ">=": 0, "<": 1, "<=": 1, "=": 0, "<>": 0, "between": 2}
_IS_NAN = template("isnan({0})")
# Of a type that is not known before the rows are there. The engine knows it then, and leaves out what is false for it.
_MAY_BE_NAN = template("(typeof({0}) IN ('DOUBLE', 'FLOAT') AND isnan(TRY_CAST({0} AS DOUBLE)))")


def guard_nan(expression: Expression, schema: pa.Schema) -> Expression:
    """The same with its comparisons guarded; the expression itself where none needs it."""
    if isinstance(expression, Named | Ordered):
        inner = guard_nan(expression.of, schema)
        return expression if inner is expression.of else dataclasses.replace(expression, of=inner)
    if isinstance(expression, Over):
        call = guard_nan(expression.call, schema)
        assert isinstance(call, Call)
        return expression if call is expression.call else dataclasses.replace(expression, call=call)
    if not isinstance(expression, Form):
        return expression
    args = tuple(guard_nan(one, schema) for one in expression.args)
    if any(new is not old for new, old in zip(args, expression.args, strict=True)):
        expression = dataclasses.replace(expression, args=args)
    return _guard_comparison(expression, schema) if expression.name in _TELLING else expression


def _guard_comparison(form: Form, schema: pa.Schema) -> Form:
    place = _TELLING[form.name]
    if _is_sound(form.args[place]) or (form.name in ("=", "<>") and any(map(_is_sound, form.args))):
        return form
    kind = check(form.args[place], schema)
    test = _IS_NAN if pa.types.is_floating(kind) else _MAY_BE_NAN if pa.types.is_null(kind) else None
    if test is None:
        return form
    guard = template("({} OR {})") if form.name == "<>" else template("({} AND NOT {})")
    return dataclasses.replace(form, form=guard.fill(form.form, test.fill(hole(place))))


def _is_sound(one: Expression) -> bool:
    """A constant that is not NaN."""
    return isinstance(one, Literal) and not (isinstance(one.value, float) and math.isnan(one.value))
