"""Rows of a version by a condition that a person types, `id = 17 && breed = 'shiba'`, and what they hold."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memlake.dataset.export import plain_rows
from memlake.dataset.expressions.columns import C, Expression
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import build
from memlake.dataset.plan.nodes import Mutate, Select
from memlake.dataset.read import sources
from memlake.dataset.session import Session
from memlake.errors import InvalidInput
from memlake.versions import conditions
from memlake.versions.conditions import Comparison

_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
_COLUMN = "column"
Array = np.ndarray[Any, Any]


def parse_where(text: str) -> tuple[Comparison, ...]:
    """The comparisons of a condition on columns."""
    try:
        return conditions.parse_typed(text, bare=_COLUMN).comparisons
    except InvalidInput as error:
        error.hint = "Write it as: id = 17 && breed = 'shiba'"
        raise


def name_of(one: Comparison) -> str:
    """The column that is compared; a column may be called `metrics`, too."""
    return one.fact.name if one.fact.room == _COLUMN else f"{one.fact.room}.{one.fact.name}"


def find_rows(session: Session, version: Version, where: str | None) -> Array:
    """The places of rows for which a condition holds; of all rows without one."""
    if where is None:
        return np.arange(version.rows)
    below = sources.from_version(session.context, version)
    keep: Expression | None = None
    for one in parse_where(where):
        compared = _COMPARE[one.operator](C(name_of(one)), one.value)
        keep = compared if keep is None else keep & compared
    assert keep is not None
    condition = build.condition(keep, below.schema)
    made = build.mutate(below, {"memlake_kept": condition})
    assert isinstance(made, Mutate)
    chosen = build.select(made, ["memlake_kept"])
    assert isinstance(chosen, Select)
    found = session.table(chosen).column(0).fill_null(False)
    return np.flatnonzero(found.to_numpy())


def read_rows(session: Session, version: Version, places: Array) -> Sequence[Mapping[str, Any]]:
    """What these rows hold."""
    plan = sources.from_version(session.context, version)
    with session.run(plan) as engine:
        frame = engine.frame(plan)
        return plain_rows(engine.take(frame, frame.schema.names, np.asarray(places)))
