"""Two versions side by side: columns, rows, metrics, params; and the plan of Chain.diff. Shows nothing.

Rows are compared by rows/compare.py, as those of table files are. A fragment of a version is a piece whose columns are
named by the hashes of what they hold, so columns that are the same on both sides are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from memlake.dataset.context import DatasetContext
from memlake.dataset.expressions import bind
from memlake.dataset.expressions.columns import C
from memlake.dataset.parts.frames import Fragment, Frame
from memlake.dataset.parts.parquet import Parts, fit_schema
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import build, nodes
from memlake.dataset.plan.nodes import Plan, alias, alike
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import class_of
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple
from memlake.rows.compare import ColumnChange, Key, Piece, Side, TableDiff, add_inner, compare
from memlake.rows.sql import NOTHING, PLACE, compose, hole, identifier, path, several, template
from memlake.rows.vector_columns import compare_columns
from memlake.rows.vectors import EmbeddingDiff


class Pair(NamedTuple):
    """One thing both sides may say something of: a metric, a param. None: this side has none."""

    name: str
    old: Any
    new: Any


class Differences(NamedTuple):
    """What differs between two versions. The rows are told as those of a table file are."""

    old: Version
    new: Version
    table: TableDiff
    vectors: tuple[EmbeddingDiff, ...] = ()  # how far the vectors of a column moved
    metrics: tuple[Pair, ...] = ()
    params: tuple[Pair, ...] = ()


def compare_versions(
    context: DatasetContext, old: Version, new: Version, *, key: Sequence[str] = (), limit: int | None = 10
) -> Differences:
    """`key`: the columns that tell rows apart, else those that `.memlakeattributes` declares, the path of files, or a
    unique column. `limit` bounds the rows of each kind that are told.
    """
    likely = find_file_keys((old, new))
    before, after = (add_inner(open_side(context.parts, context.frame(one)), likely) for one in (old, new))
    wanted = Key(tuple(key), "given") if key else Key(context.find_declared_key(new.name), "declared")
    if old.content == new.content:  # also in an order and with names of their own
        table = TableDiff(old.rows, new.rows, (), Key())
    else:
        table = compare(before, after, wanted if wanted.columns else None, limit=limit)
    columns = [*_name_classes(table.columns, old, new), *_find_other_classes(table, old, new)]
    table = table._replace(columns=tuple(columns))
    has_vectors = bool(table.added or table.removed or table.changed) and limit != 0
    vectors = tuple(one.record for one in compare_columns(before, after, table, limit=limit)) if has_vectors else ()
    return Differences(old, new, table, vectors, _pair_up(old.metrics, new.metrics), _pair_up(old.params, new.params))


def _pair_up(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Pair, ...]:
    return tuple(Pair(name, old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new)))


def find_file_keys(versions: Sequence[Version]) -> tuple[str, ...]:
    """Rows of files are known by the path of the first column of files that all of them have."""
    fields = [[one.name for one in version.schema if _is_file(one)] for version in versions]
    shared = [name for name in fields[0] if all(name in others for others in fields)]
    return (f"{shared[0]}.path",) if shared else ()


def _is_file(field: pa.Field) -> bool:
    return pa.types.is_struct(field.type) and class_of(field).startswith("memlake:")


def _name_classes(changes: Sequence[ColumnChange], old: Version, new: Version) -> Sequence[ColumnChange]:
    """The types of columns by the names that a dataset gives them: `int`, `ImageFile`."""
    return [
        one._replace(
            old_type=one.old_type and arrow.show_type(old.schema.field(one.old_name or one.name)),
            new_type=one.new_type and arrow.show_type(new.schema.field(one.name)),
        )
        for one in changes
    ]


def _find_other_classes(table: TableDiff, old: Version, new: Version) -> Sequence[ColumnChange]:
    """Columns of which only the class is another: the same values, but read as files of another kind."""
    known = {one.name for one in table.columns}
    shared = [name for name in new.schema.names if name in old.schema.names and name not in known]
    types = [(name, *(arrow.show_type(one.schema.field(name)) for one in (old, new))) for name in shared]
    return [ColumnChange(name, was, now) for name, was, now in types if was != now]


# -- the rows of a version, as a side --------------------------------------------------------------


def open_side(parts: Parts, frame: Frame) -> Side:
    """The rows of a version."""

    def make_piece(fragment: Fragment) -> Piece:
        kept = fragment.kept.family.marks[0] if fragment.kept else ""

        def read(names: Sequence[str]) -> pa.Table:
            schema = pa.schema([frame.schema.field(name) for name in names])
            return fit_schema(parts.read_fragment(fragment, names), schema)

        return Piece(fragment.visible, lambda name: (fragment.home(name).mark_of(name), kept, fragment.rows), read)

    return Side(frame.schema, tuple(make_piece(one) for one in frame.fragments if one.visible))


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
