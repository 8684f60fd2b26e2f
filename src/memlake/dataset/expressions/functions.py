"""`func`: the functions of chains by name, and all of DuckDB's behind them. Knows no schema.

The rule for strings, kept here alone: a string given to a function names a column, `func.lower("name")`, unless the
place naturally holds a value (VALUE_PLACES): a pattern, a separator, a date part, a format, a JSON path, the outcome of
a case. lit("text") is a value and C("name") a column in every place. Numbers, lists and arrays are values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, LiteralString

import numpy as np

from memlake.dataset.expressions.columns import (
    Column,
    Expression,
    Form,
    Literal,
    Named,
    column_of,
    lit,
    outcome_of,
    value_of,
)
from memlake.dataset.expressions.windows import IN_ORDER, Call, Over, as_order, window
from memlake.errors import InvalidInput
from memlake.rows import duckdb_connections
from memlake.rows.sql import NOTHING, Sql, compose, hole, join, template, word

FIRST_IS_A_VALUE = (
    "date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc timezone format printf concat_ws "
    "time_bucket"
)
REST_ARE_VALUES = (
    "regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array split "
    "split_part str_split str_split_regex string_split string_split_regex string_to_array replace translate trim ltrim "
    "rtrim lpad rpad overlay contains starts_with ends_with prefix suffix instr strpos position like_escape "
    "ilike_escape strftime strptime try_strptime nullif string_agg group_concat listagg array_to_string list_aggregate "
    "list_aggr array_aggregate array_aggr aggregate list_contains list_has array_contains array_has list_position "
    "list_indexof array_position list_append array_append array_push_back struct_extract map_extract "
    "map_extract_value element_at array_extract list_sort array_sort list_grade_up list_reverse_sort map_contains "
    "map_contains_value json_extract json_extract_string json_extract_path json_extract_path_text json_value "
    "json_exists json_type json_keys json_array_length json_contains json_transform json_transform_strict from_json "
    "json_set json_insert json_replace json_remove variant_extract lag lead"
)
VALUE_PLACES: dict[str, slice] = {
    **dict.fromkeys(FIRST_IS_A_VALUE.split(), slice(0, 1)),
    **dict.fromkeys(REST_ARE_VALUES.split(), slice(1, None)),
}

_NAME: LiteralString = "regexp_extract({0}, '[^/]*$')"
# One form for lists and fixed-size arrays of any number. The guard is needed: a fixed-size vector that is absent is
# a list of absent numbers to these functions, which they refuse. So is the copy: they look at the numbers of all rows
# read, those of absent vectors and of rows that are not kept too.
_ABSENT: LiteralString = "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE "
_VECTORS: LiteralString = "(list_concat(CAST({0} AS DOUBLE[]), []), list_concat(CAST({1} AS DOUBLE[]), [])) END"
_HASH: LiteralString = (
    "CAST(md5_number(CAST({0} AS VARCHAR)) & 18446744073709551615::UHUGEINT AS UBIGINT)"  # the same in every release
)

# name: SQL, how many operands, nature where it is not scalar
FORMS: dict[str, tuple[Sql, int, str]] = {
    "cosine_distance": (template(_ABSENT + "list_cosine_distance" + _VECTORS), 2, "scalar"),
    "euclidean_distance": (template(_ABSENT + "list_distance" + _VECTORS), 2, "scalar"),
    "l2_distance": (template(_ABSENT + "list_distance" + _VECTORS), 2, "scalar"),
    "inner_product": (template(_ABSENT + "list_inner_product" + _VECTORS), 2, "scalar"),
    "bit_hamming_distance": (template("bit_count(xor(CAST({0} AS BIGINT), CAST({1} AS BIGINT)))"), 2, "scalar"),
    "byte_hamming_distance": (
        template(
            _ABSENT + "length(list_filter(list_zip(str_split({0}, ''), str_split({1}, '')),"
            " lambda pair: pair[1] IS DISTINCT FROM pair[2])) END"
        ),
        2,
        "scalar",
    ),
    "int_hash_64": (template(_HASH), 1, "scalar"),
    "sip_hash_64": (template(_HASH), 1, "scalar"),
    "name": (template(_NAME), 1, "scalar"),
    "parent": (template("regexp_replace({0}, '/?[^/]*$', '')"), 1, "scalar"),
    "file_stem": (template(f"regexp_replace({_NAME}, '(?s)([^.].*)\\.[^.]*$', '\\1')"), 1, "scalar"),
    "file_ext": (template("regexp_extract({0}, '[^/.][^/]*\\.([^/.]*)$', 1)"), 1, "scalar"),
    "isnone": (template("({0} IS NULL)"), 1, "scalar"),
    "not_": (template("(NOT {0})"), 1, "scalar"),
    "string": (template("CAST({0} AS VARCHAR)"), 1, "scalar"),
    "rand": (template("CAST(random() * 9223372036854775807 AS BIGINT)"), 0, "volatile"),
    "count_distinct": (template("count(DISTINCT {0})"), 1, "aggregate"),
}
DISTANCES = {
    "cosine_distance": "cosine",
    "euclidean_distance": "euclidean",
    "l2_distance": "euclidean",
    "inner_product": "inner",
}
OTHER_NAMES = {"collect": "list", "get_item": "list_extract"}
VARIADIC = frozenset({"coalesce", "greatest", "least"})  # coalesce is syntax, so DuckDB does not list it
FIRST_IS_CHOSEN = (  # these give a value, or a list of the values, that they were given first
    "first last any_value arbitrary min max mode arg_min arg_max argmin argmax min_by max_by nullif first_value "
    "last_value nth_value lag lead list"
)
BITS = {"bit_and": template("({0} & {1})"), "bit_or": template("({0} | {1})"), "bit_xor": template("xor({0}, {1})")}

NATURE_OF_TYPE = {"aggregate": "aggregate", "window": "window"}
# Of a macro DuckDB does not tell what is behind it.
VOLATILE_MACROS = frozenset({"ago"})
AGGREGATE_MACROS = frozenset(
    {"geomean", "geometric_mean", "json_group_array", "json_group_object", "json_group_structure", "wavg"}
    | {"weighted_avg", "variant_group_array"}
)


@cache
def natures() -> dict[str, str]:
    """The nature (see columns.NATURES) of each function that gives one value."""
    with duckdb_connections.lock:
        rows = duckdb_connections.catalogue().execute(
            "SELECT function_name, function_type, bool_or(stability <> 'CONSISTENT') FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
            " AND NOT regexp_matches(function_name, '^(pg_|has_|inet_|collate_|icu_collate_)')"
            " AND regexp_full_match(function_name, '[a-z][a-z0-9_]*') GROUP BY ALL ORDER BY ALL"
        )
        by_name = {}
        for name, kind, is_volatile in rows.fetchall():
            scalar = "volatile" if is_volatile or name in VOLATILE_MACROS else "scalar"
            by_name[name] = "aggregate" if name in AGGREGATE_MACROS else NATURE_OF_TYPE.get(kind, scalar)
        return by_name


def nature_of(name: str) -> str:
    """InvalidInput for a name that is no function, with those that are spelled like it."""
    nature = natures().get(name)
    if nature is None:
        raise unknown_function(name)
    return nature


def unknown_function(name: str, known: tuple[str, ...] = ()) -> InvalidInput:
    near = difflib.get_close_matches(name.lower(), {*natures(), *known}, n=3)
    return InvalidInput(
        f"there is no function {name!r}",
        hint=f"Did you mean {' or '.join(f'func.{one}' for one in near)}?"
        if near
        else "func has memlake's own functions and all of DuckDB's; see dir(func).",
    )


class Functions:
    """`func.name(...)`: any function of DuckDB, and those below. `func.string.length`, `func.path.name` work too."""

    window = staticmethod(window)
    literal = lit = staticmethod(lit)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in FORMS and name not in VARIADIC and name not in OTHER_NAMES and name not in natures():
            raise unknown_function(name, (*FORMS, *OTHER_NAMES, *VARIADIC, *vars(Functions)))

        def call(*given: Any, order_by: Any = ()) -> Call:
            return _call(name, given, order_by=order_by)

        call.__name__ = call.__qualname__ = name
        return call

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *FORMS, *OTHER_NAMES, *VARIADIC, *natures()})

    # -- conditions: outcomes are values, so a string is text

    def and_(self, *conditions: Any) -> Expression:
        return _join_conditions("and_", conditions)

    def or_(self, *conditions: Any) -> Expression:
        return _join_conditions("or_", conditions)

    def case(self, *branches: Any, else_: Any = None) -> Expression:
        """The outcome of the first condition that holds: `func.case((C("n") > 0, "plus"), else_="rest")`."""
        if not branches or not all(isinstance(one, tuple) and len(one) == 2 for one in branches):
            raise InvalidInput(
                f"case() takes pairs of a condition and an outcome, and {branches!r} was given",
                hint='Write func.case((C("n") > 0, "plus"), (C("n") < 0, "minus"), else_="zero").',
            )
        cases = join(" ", (compose("WHEN {} THEN {}", hole(2 * n), hole(2 * n + 1)) for n in range(len(branches))))
        pairs = [part for when, then in branches for part in (column_of(when), outcome_of(then))]
        form = compose("CASE {} ELSE {} END", cases, hole(len(pairs)))
        return Call("case", form, (*pairs, outcome_of(else_)))

    def ifelse(self, condition: Any, then: Any, otherwise: Any) -> Expression:
        return self.case((condition, then), else_=otherwise)

    def cast(self, given: Any, to: Any) -> Expression:
        return column_of(given).cast(to)

    # -- groups

    def count(self, given: Any = None) -> Call:
        """Rows; of a column, those where it is not absent."""
        return Call("count", template("count(*)"), (), "aggregate") if given is None else _call("count", (given,))

    def concat(self, *given: Any, separator: str = "", order_by: Any = ()) -> Call:
        """Of one column, the texts of a group in one; of several, their texts side by side in each row."""
        if len(given) > 1:
            return _call("concat", given)
        return _call("string_agg", (*given, lit(separator)), order_by=order_by)

    # -- bits: of two columns for each row, of one for a group

    def bit_and(self, *given: Any) -> Call:
        return _bits("bit_and", given)

    def bit_or(self, *given: Any) -> Call:
        return _bits("bit_or", given)

    def bit_xor(self, *given: Any) -> Call:
        return _bits("bit_xor", given)

    # -- text and lists

    def regexp_replace(self, text: Any, pattern: Any, replacement: Any, options: Any = "g") -> Call:
        """Every match, unless other options are given; DuckDB alone would replace the first."""
        return _call("regexp_replace", (text, pattern, replacement, options))

    def slice(self, given: Any, offset: int, length: int | None = None) -> Expression:
        """Items from this place on, counted from 0."""
        return column_of(given)[offset : None if length is None else offset + length]

    def get_element(self, given: Any, index: int) -> Expression:
        return column_of(given)[index]

    def join(self, given: Any, separator: str = "") -> Call:
        return _call("array_to_string", (given, separator))

    @property
    def array(self) -> Group:
        """A list of values or columns, `func.array("x", "y")`; and the group of functions over lists."""
        return Group("array", lambda *given: _call("list_value", given))

    @property
    def string(self) -> Group:
        return Group("string", lambda given: _call("string", (given,)))

    @property
    def random(self) -> Group:
        """A number from 0 to 1 for each row; `rand` is a whole number."""
        return Group("random", lambda: _call("random", ()))

    @property
    def path(self) -> Group:
        return Group("path", column_of)


class Group:
    """A word that is a function and, with a dot, only another way to `func`: func.string.split is func.split."""

    def __init__(self, name: str, call: Callable[..., Expression]) -> None:
        self._name, self._call = name, call

    def __call__(self, *given: Any) -> Expression:
        return self._call(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(func, name)


func = Functions()


def as_vector_search(expression: Expression) -> tuple[str, str, np.ndarray[Any, Any]] | None:
    """("cosine" | "euclidean" | "inner", dotted column, vector) of a distance between a column and a constant."""
    if isinstance(expression, Named):
        return as_vector_search(expression.of)
    kind = DISTANCES.get(expression.name) if isinstance(expression, Call) else None
    if kind is None or not isinstance(expression, Form):
        return None
    columns = [one for one in expression.args if isinstance(one, Column)]
    vectors = [one.value for one in expression.args if isinstance(one, Literal)]
    return (kind, repr(columns[0]), np.asarray(vectors[0], "float64")) if columns and vectors else None


def choices(expression: Expression) -> tuple[Expression, ...]:
    """The columns of which an expression gives a value as it is; none where it computes one."""
    if isinstance(expression, Column):
        return (expression,)
    if isinstance(expression, Named):
        return choices(expression.of)
    if isinstance(expression, Over):
        return choices(expression.call)
    if not isinstance(expression, Call):
        return ()
    args = expression.args
    given = (
        (*args[1:-1:2], args[-1]) if expression.name == "case"
        else args if expression.name in VARIADIC
        else args[:1] if expression.name in FIRST_IS_CHOSEN.split()
        else ()
    )  # fmt: skip
    each = [choices(one) for one in given if not (isinstance(one, Literal) and one.value is None)]
    return tuple(chain.from_iterable(each)) if all(each) else ()


def _call(name: str, given: tuple[Any, ...], *, order_by: Any = ()) -> Call:
    """The call of a function whose name is known, its strings read by the rule above."""
    places = range(*VALUE_PLACES.get(name, slice(0)).indices(len(given)))
    args = tuple(value_of(one) if n in places else column_of(one) for n, one in enumerate(given))
    if name in FORMS:
        form, count, nature = FORMS[name]
        if len(args) != count:
            raise InvalidInput(
                f"func.{name}() takes {count} {'argument' if count == 1 else 'arguments'}, not {len(args)}"
            )
        if name in DISTANCES:
            for one in args:
                _check_vector(name, one)
        return Call(name, form, args, nature)
    name = OTHER_NAMES.get(name, name)
    nature = "scalar" if name in VARIADIC else nature_of(name)
    by_columns = [order_by] if isinstance(order_by, str | Expression) else list(order_by)
    if by_columns and nature != "aggregate":  # only an aggregate may depend on the order of rows (collect, first)
        raise InvalidInput(
            f"{name}() does not take order_by, because it is not an aggregate", hint="Use .over(func.window(...))."
        )
    orders = tuple(map(as_order, by_columns))
    count = len(args) + len(orders)
    by = compose(" ORDER BY {}", join(", ", map(hole, range(len(args), count)))) if orders else NOTHING
    last = hole(count) if name in IN_ORDER else NOTHING
    form = compose("{}({}{}{})", word(name), join(", ", map(hole, range(len(args)))), by, last)
    return Call(name, form, (*args, *orders), nature)


def _check_vector(name: str, one: Expression) -> None:
    if not isinstance(one, Literal):
        return
    vector = one.value
    numbers = isinstance(vector, list) and vector and all(isinstance(n, int | float) for n in vector)
    if not numbers and not (isinstance(vector, np.ndarray) and vector.ndim == 1 and vector.size):
        raise InvalidInput(
            f"func.{name}() measures from a list of numbers, and {one!r} is not one",
            hint="Give a column, a list of numbers or an array of one dimension.",
        )


def _join_conditions(name: str, conditions: tuple[Any, ...]) -> Expression:
    if not conditions:
        raise InvalidInput(f"func.{name}() needs at least one condition")
    each = join(" AND " if name == "and_" else " OR ", map(hole, range(len(conditions))))
    return Call(name, compose("({})", each), tuple(map(column_of, conditions)))


def _bits(name: str, given: tuple[Any, ...]) -> Call:
    if len(given) == 2:
        return Call(name, BITS[name], tuple(column_of(one) for one in given))
    return _call(name, given)
