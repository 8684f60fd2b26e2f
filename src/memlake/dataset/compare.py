"""Two versions side by side: columns, rows, metrics, params; and the plan of Chain.diff. Shows nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from memlake.dataset import export
from memlake.dataset.expressions import bind
from memlake.dataset.expressions.columns import C
from memlake.dataset.expressions.functions import func
from memlake.dataset.join_rows import is_file
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import build, nodes
from memlake.dataset.plan.nodes import Plan, alias, alike
from memlake.dataset.read import sources
from memlake.dataset.session import Session
from memlake.dataset.types import arrow
from memlake.errors import InvalidInput
from memlake.rows.sql import (
    NOTHING,
    PLACE,
    compose,
    hole,
    identifier,
    identifiers,
    path,
    several,
    template,
    word,
)
from memlake.rows.vector_columns import find_model_column, may_hold_vectors, take_vectors
from memlake.rows.vectors import EmbeddingDiff, Vectors, compare_vectors

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
    vectors: tuple[EmbeddingDiff, ...] = ()  # how far the vectors of a column moved

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "old": self.old.spec, "new": self.new.spec}


def differences(
    session: Session, old: Version, new: Version, *, on: Sequence[str] | None = None, samples: int = 5
) -> Differences:
    sides = _Sides(
        session, sources.from_version(session.context, new), sources.from_version(session.context, old), samples
    )
    keys = tuple(on or ())
    if on is None:  # rows of files are known by the path of the first column of files that both have
        shared = [field for field in new.schema if field.name in old.schema.names]
        files = [field.name for field in shared if is_file(field) and is_file(old.schema.field(field.name))]
        keys = (f"{files[0]}.path",) if files else ()
    if keys:
        build.add_keys(sides.new, sides.old, keys, None, "diff")  # both have them, or it says which they have
    rows = (Rows(0), Rows(0), Rows(0)) if old.content == new.content else sides.compare_rows(keys)
    types = [{field.name: arrow.show_type(field) for field in version.schema} for version in (old, new)]
    columns = tuple(pair for pair in _pair_up(*types) if pair.old != pair.new)
    metrics, params = _pair_up(old.metrics, new.metrics), _pair_up(old.params, new.params)
    vectors = sides.compare_vectors(keys) if any(one.number for one in rows) else ()
    return Differences(old, new, keys, columns, *rows, metrics, params, vectors)


def _pair_up(old: Row, new: Row) -> tuple[Pair, ...]:
    return tuple(Pair(name, old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new)))


class _Sides(NamedTuple):
    """The rows of both versions as plans."""

    session: Session
    new: Plan
    old: Plan
    samples: int

    def compare_rows(self, keys: Sequence[str]) -> tuple[Rows, Rows, Rows]:
        """Added, removed, modified. Equal rows are counted one by one: a row that is there twice is two rows."""
        new, old = self.new, self.old
        if not self._shared_fields():
            return Rows(self.session.count(new)), Rows(self.session.count(old)), Rows(0)
        if not keys:
            return self._sample(self._subtract(new, old)), self._sample(self._subtract(old, new)), Rows(0)
        modified = self._join("SEMI", self._subtract(new, old), old, keys)
        counted = self._sample(modified)
        return (
            self._sample(self._join("ANTI", new, old, keys)),
            self._sample(self._join("ANTI", old, new, keys)),
            counted._replace(samples=self._sample_pairs(modified, keys)),
        )

    def compare_vectors(self, keys: Sequence[str]) -> tuple[EmbeddingDiff, ...]:
        """How far the vectors of each column that holds some moved; only keys say which vector is which."""
        found = []
        shared = [name for name in self.new.schema.names if may_hold_vectors(self.new.schema, name)]
        for name in shared if keys else ():
            if not may_hold_vectors(self.old.schema, name):
                continue
            old, new = (self._read_vectors(side, name, keys) for side in (self.old, self.new))
            if old is not None and new is not None:
                found.append(compare_vectors(old, new, ids_from=", ".join(keys))._replace(column=name))
        return tuple(one for one in found if not one.is_empty)

    def _read_vectors(self, side: Plan, name: str, keys: Sequence[str]) -> Vectors | None:
        wanted = dict.fromkeys(filter(None, (name, *keys, find_model_column(side.schema))))
        return take_vectors(self.session.table(build.select(side, list(wanted))), name, keys)

    def _shared_fields(self) -> list[pa.Field]:
        """Columns of one name and type; others are told apart as columns, not row by row."""
        there = {field.name: field for field in self.old.schema}
        return [one for one in self.new.schema if one.name in there and there[one.name].type.equals(one.type)]

    def _subtract(self, a: Plan, b: Plan) -> Plan:
        fields = self._shared_fields()
        names = identifiers(one.name for one in fields)
        form = compose("SELECT {0} FROM {1} EXCEPT ALL SELECT {0} FROM {2}", names, hole(0), hole(1))
        return nodes.Shaped(pa.schema(fields), (a, b), "rows without a like", form, (), _names(fields))

    def _join(self, how: Literal["SEMI", "ANTI"], a: Plan, b: Plan, keys: Sequence[str]) -> Plan:
        form = compose(
            "SELECT a.* FROM (SELECT * FROM {}) AS a {} JOIN (SELECT * FROM {}) AS b ON {}",
            hole(0),
            word(how),
            hole(1),
            alike((key, key) for key in keys),
        )
        return nodes.Shaped(a.schema, (a, b), f"{how.lower()} join", form, (), _names([*a.schema, *b.schema]))

    def _sample(self, rows: Plan) -> Rows:
        (count,) = self.session.table(build.group(rows, [], {"n": func.count()}))["n"].to_pylist()
        first = self.session.table(build.limit(rows, self.samples)) if count else None
        return Rows(count, tuple(export.plain_rows(first)) if first is not None else ())

    def _sample_pairs(self, modified: Plan, keys: Sequence[str]) -> tuple[Row, ...]:
        """Rows of the new side, each with the one it was."""
        now = self.session.table(build.limit(modified, self.samples))
        before = self._join(
            "SEMI", self.old, sources.from_table(sources.from_arrow(now), nodes.Origin("arrow", "")), keys
        )
        was = {_key(row, keys): row for row in export.plain_rows(self.session.table(before))}
        return tuple({"old": was.get(_key(row, keys)), "new": row} for row in export.plain_rows(now))


def _names(fields: Iterable[pa.Field]) -> frozenset[str]:
    return frozenset(field.name for field in fields)


def _key(row: Row, keys: Sequence[str]) -> str:
    values = []
    for key in keys:
        value: Any = row
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        values.append(value)
    return repr(values)


# -- two chains compared: the plan of Chain.diff ---------------------------------------------------


def plan_diff(
    left: Plan, right: Plan, on: Any, right_on: Any, *, compare: Any, wanted: str, status_col: str | None
) -> Plan:
    """Rows of the left that the right lacks, lacks in this form, or has besides."""
    left, right, pairs, made = build.add_keys(left, right, on, right_on, "diff")
    status_col = build.check_column(status_col) if status_col else None
    if status_col and status_col in left.schema.names:
        raise InvalidInput(
            f"the rows have a column {status_col!r} already, so diff has no name for its status. Nothing was run.",
            hint=f"Name another, diff(..., status_col={status_col + '_2'!r}), or leave it out: status_col=None",
        )
    keys = {a for a, _ in pairs}
    shared = [n for n in left.schema.names if n in right.schema.names and n not in keys]
    compared = (
        shared if compare is None else [build.path_of(one, "compare") for one in build.as_list(compare, "compare")]
    )
    for name in compared:
        bind.check(C(name), left.schema)
        bind.check(C(name), right.schema)
    names = left.schema.names
    either = template(f"CASE WHEN a.{PLACE} IS NULL THEN {{}} ELSE {{}} END")
    columns = [
        alias(either.fill(path([name], "b"), path([name], "a")), name)
        if name in right.schema.names
        else path([name], "a")
        for name in names
    ]
    status = compose(
        f"CASE WHEN b.{PLACE} IS NULL THEN 'A' WHEN a.{PLACE} IS NULL THEN 'D' WHEN {{}} THEN 'S' ELSE 'M' END",
        alike((name, name) for name in compared) if compared else template("true"),
    )
    mark = identifier(status_col or "memlake.status")
    form = compose(  # rows come in the order of the left, what it lacks last
        "SELECT * {0} FROM (SELECT {1}, {2} AS {3} FROM {4} AS a FULL JOIN {5} AS b ON {6} "
        f"ORDER BY a.{PLACE} NULLS LAST, b.{PLACE}) WHERE contains({{7}}, {{3}})",
        NOTHING if status_col else compose("EXCLUDE ({})", mark),
        several(columns),
        status,
        mark,
        nodes.with_places(hole(0)),
        nodes.with_places(hole(1)),
        alike(pairs),
        hole(2),
    )
    fields = [*left.schema, *([pa.field(status_col, pa.string())] if status_col else [])]
    read = frozenset((*names, *right.schema.names))
    return build.drop_keys(nodes.Shaped(pa.schema(fields), (left, right), "diff", form, (wanted,), read), made)
