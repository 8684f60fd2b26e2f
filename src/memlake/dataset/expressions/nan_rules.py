"""Comparisons that say of NaN what Python says: it is not less, not greater, not equal to anything.

To the engine NaN is the greatest number, and equal to itself. Only where an operand that may be NaN would be taken for
that is it looked at: whole numbers, texts and most comparisons with a constant stay as they are. To sort by, NaN is the
greatest, and to group or join by, one NaN is as another.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

import pyarrow as pa

from memlake.dataset.expressions.bind import check
from memlake.dataset.expressions.columns import Expression, Form, Literal, Named, Ordered
from memlake.dataset.expressions.windows import Call, Over
from memlake.rows.sql import hole, template

# The operand that must be no number for the engine's answer to be wrong.
_TELLING: Final = {">": 0, ">=": 0, "<": 1, "<=": 1, "=": 0, "<>": 0, "between": 2}
_IS_NAN: Final = template("isnan({0})")
# Of a type that is not known before the rows are there. The engine knows it then, and leaves out what is false for it.
_MAY_BE_NAN: Final = template("(typeof({0}) IN ('DOUBLE', 'FLOAT') AND isnan(TRY_CAST({0} AS DOUBLE)))")


def as_python(expression: Expression, schema: pa.Schema) -> Expression:
    """The same with its comparisons guarded; the expression itself where none needs it."""
    if isinstance(expression, Named | Ordered):
        inner = as_python(expression.of, schema)
        return expression if inner is expression.of else dataclasses.replace(expression, of=inner)
    if isinstance(expression, Over):
        call = as_python(expression.call, schema)
        assert isinstance(call, Call)
        return expression if call is expression.call else dataclasses.replace(expression, call=call)
    if not isinstance(expression, Form):
        return expression
    args = tuple(as_python(one, schema) for one in expression.args)
    if any(new is not old for new, old in zip(args, expression.args, strict=True)):
        expression = dataclasses.replace(expression, args=args)
    return _guard(expression, schema) if expression.name in _TELLING else expression


def _guard(form: Form, schema: pa.Schema) -> Form:
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
