"""Two versions side by side: their columns, their rows, their metrics and params. Runs as plans; shows nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from memlake.dataset import outputs
from memlake.dataset.chain import Chain
from memlake.dataset.expressions.functions import func
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import build, nodes
from memlake.dataset.plan.nodes import Plan, alike
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import class_of
from memlake.rows.sql import compose, hole, identifiers, word

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets

Row = Mapping[str, Any]


class Pair(NamedTuple):
    """One thing both sides may say something of: a column's type, a metric, a param. None: this side has none."""

    name: str
    old: Any
    new: Any


class Rows(NamedTuple):
    """How many rows differ in a way, and the first of them. A modified one is {"old": row, "new": row}."""

    number: int
    samples: tuple[Row, ...] = ()


class Differences(NamedTuple):
    old: Version
    new: Version
    on: tuple[str, ...]  # the columns rows were matched by; none: by all that both sides have
    columns: tuple[Pair, ...]  # those that are not the same
    added: Rows
    removed: Rows
    modified: Rows
    metrics: tuple[Pair, ...]
    params: tuple[Pair, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "old": self.old.spec, "new": self.new.spec}


def differences(
    datasets: Datasets, old: Version, new: Version, *, on: Sequence[str] | None = None, samples: int = 5
) -> Differences:
    sides = _Sides(datasets, datasets.of(new), datasets.of(old), samples)
    keys = tuple(on) if on is not None else _file_path(old.schema, new.schema)
    if keys:
        build.keyed(sides.new.plan, sides.old.plan, keys, None, "diff")  # both have them, or it says which they have
    rows = (Rows(0), Rows(0), Rows(0)) if old.content == new.content else sides.rows(keys)
    return Differences(
        old, new, keys, _columns(old.schema, new.schema), *rows,
        _pairs(old.metrics, new.metrics), _pairs(old.params, new.params),
    )  # fmt: skip


def _columns(old: pa.Schema, new: pa.Schema) -> tuple[Pair, ...]:
    sides = [{field.name: arrow.shown(field) for field in schema} for schema in (old, new)]
    return tuple(pair for pair in _pairs(*sides) if pair.old != pair.new)


def _pairs(old: Row, new: Row) -> tuple[Pair, ...]:
    return tuple(Pair(name, old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new)))


def _file_path(old: pa.Schema, new: pa.Schema) -> tuple[str, ...]:
    """The path of the first column of files that both have: what a row of files is known by."""
    names = [
        field.name for field in new if _is_file(field) and field.name in old.names and _is_file(old.field(field.name))
    ]
    return (f"{names[0]}.path",) if names else ()


def _is_file(field: pa.Field) -> bool:
    return pa.types.is_struct(field.type) and class_of(field).startswith("memlake:")


class _Sides(NamedTuple):
    datasets: Datasets
    new: Chain
    old: Chain
    samples: int

    def rows(self, keys: Sequence[str]) -> tuple[Rows, Rows, Rows]:
        """Added, removed, modified. Equal rows are counted one by one: a row that is there twice is two rows."""
        if not self.shared():
            return Rows(self.new.count()), Rows(self.old.count()), Rows(0)
        new, old = self.new.plan, self.old.plan
        if not keys:
            return self._found(self._except(new, old)), self._found(self._except(old, new)), Rows(0)
        modified = self._joined("SEMI", self._except(new, old), old, keys)
        counted = self._found(modified)
        return (
            self._found(self._joined("ANTI", new, old, keys)),
            self._found(self._joined("ANTI", old, new, keys)),
            counted._replace(samples=self._beside(modified, keys)),
        )

    def shared(self) -> list[pa.Field]:
        """Columns of one name and type; others are told apart as columns, not row by row."""
        there = {field.name: field for field in self.old.plan.schema}
        return [one for one in self.new.plan.schema if one.name in there and there[one.name].type.equals(one.type)]

    def _except(self, a: Plan, b: Plan) -> Plan:
        fields = self.shared()
        names = identifiers(one.name for one in fields)
        form = compose("SELECT {0} FROM {1} EXCEPT ALL SELECT {0} FROM {2}", names, hole(0), hole(1))
        return nodes.Shaped(pa.schema(fields), (a, b), "rows without a like", form, (), _names(fields))

    def _joined(self, how: Literal["SEMI", "ANTI"], a: Plan, b: Plan, keys: Sequence[str]) -> Plan:
        form = compose(
            "SELECT a.* FROM (SELECT * FROM {}) AS a {} JOIN (SELECT * FROM {}) AS b ON {}",
            hole(0),
            word(how),
            hole(1),
            alike((key, key) for key in keys),
        )
        return nodes.Shaped(a.schema, (a, b), f"{how.lower()} join", form, (), _names([*a.schema, *b.schema]))

    def _found(self, node: Plan) -> Rows:
        rows = Chain(self.datasets, node)
        (count,) = self._table(rows.group_by(n=func.count()))["n"].to_pylist()
        return Rows(count, tuple(outputs.plain_rows(self._table(rows.limit(self.samples)))) if count else ())

    def _beside(self, modified: Plan, keys: Sequence[str]) -> tuple[Row, ...]:
        """Rows of the new side, each with the one it was."""
        now = self._table(Chain(self.datasets, modified).limit(self.samples))
        before = self._joined("SEMI", self.old.plan, self.datasets.read_arrow(now).plan, keys)
        was = {_key(row, keys): row for row in outputs.plain_rows(self._table(Chain(self.datasets, before)))}
        return tuple({"old": was.get(_key(row, keys)), "new": row} for row in outputs.plain_rows(now))

    def _table(self, chain: Chain) -> pa.Table:
        return self.datasets.table(chain)


def _names(fields: Iterable[pa.Field]) -> frozenset[str]:
    return frozenset(field.name for field in fields)


def _key(row: Row, keys: Sequence[str]) -> str:
    return repr([_inside(row, key.split(".")) for key in keys])


def _inside(value: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
