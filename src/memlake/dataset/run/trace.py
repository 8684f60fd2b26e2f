"""Tracing rows: which rows of the sources each row of a plan came from. Asked while the plan's engine is still open.

The plan is run a second time as one statement, with a column more for each source that says which row of it this was.
Functions are not called again: the rows they made are there, and the engine noted which row each of them came from. A
step whose second run could give other rows is not traced, and the trace says so.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake import secrets
from memlake.dataset.expressions.columns import Column, Expression, Form
from memlake.dataset.parts import parquet
from memlake.dataset.parts.frames import Fragment, Frame, Trace
from memlake.dataset.plan.nodes import (
    Call,
    Distinct,
    Filter,
    Group,
    Join,
    Limit,
    Mutate,
    Order,
    Plan,
    Select,
    Shaped,
    Source,
    Subtract,
    Union,
)
from memlake.dataset.run import aligned
from memlake.dataset.run.engine import Engine
from memlake.errors import Corrupt, Error
from memlake.rows import duckdb_connections
from memlake.rows.sql import Sql, compose, hole, identifier, several, template
from memlake.rows.sql import kind as sql_kind

_MARK = "memlake_from_"
_MOST_FILES = 10_000  # files of a source whose rows are counted one by one
_PLAIN = pa.int64()
_GATHER = template("list({0})")  # in any order: who reads a trace sorts it


class Untraceable(Exception):
    """A step of which nobody can tell which rows it made of which."""


def trace(engine: Engine, plan: Plan, frame: Frame) -> Trace:
    """The trace of a plan that this engine has just run into a frame."""
    tracer = _Tracer(engine)
    try:
        if (source := _find_same(plan)) is not None:
            return Trace(({**tracer.describe_source(source), "same": True},))
        table = tracer.run(plan)
        if table.num_rows != frame.rows:
            raise Untraceable(f"a second run gave {table.num_rows:,} rows instead of {frame.rows:,}")
        return tracer.describe(table)
    except Untraceable as error:
        return Trace(why=str(error))
    except (Error, duckdb.Error, pa.ArrowException, OSError) as error:
        return Trace(why=f"tracing its rows failed ({type(error).__name__})")


class _Tracer:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sources: list[Source] = []
        self._known: list[Mapping[str, Any]] = []  # sources as an earlier trace described them
        self._groups: list[pa.Table] = []
        self._notes: list[str] = []
        self._plans: dict[int, Plan] = {}

    def run(self, plan: Plan) -> pa.Table:
        """A column for each source, a row for each row of the plan: a place, a list of places, or nothing."""
        traced = self._rewrite(plan)
        return self._read(traced)

    def _read(self, traced: Plan) -> pa.Table:
        names = _marks(traced)
        self._engine.need(traced, frozenset(names))
        body = self._engine.relation(traced, frozenset(names))
        flat = [_flatten(identifier(name), _depth(traced, name)) for name in names]
        columns = several(compose("{} AS {}", sql, identifier(name)) for sql, name in zip(flat, names, strict=True))
        return self._engine.sql(compose("SELECT {} FROM {}", columns, body)).read_all()

    # -- plans with a column for each source ----------------------------------------------------

    def _rewrite(self, node: Plan) -> Plan:
        if id(node) not in self._plans:
            self._plans[id(node)] = self._rewrite_once(node)
        return self._plans[id(node)]

    def _rewrite_once(self, node: Plan) -> Plan:
        if clash := [name for name in node.schema.names if name.lower().startswith(_MARK)]:
            raise Untraceable(f"column {clash[0]!r} has a name that tracing needs")
        if isinstance(node, Source):
            return self._source(node)
        if isinstance(node, Call):
            return self._call(node)
        if node.key() is None and not isinstance(node, Shaped):  # a shuffle keeps the number it drew
            raise Untraceable(f"{_name_step(node)} draws random values")
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Union):
            return self._union(node)
        if isinstance(node, Group):
            return self._group(node)
        if isinstance(node, Subtract):
            return _extend(node, (self._rewrite(node.inputs[0]), node.inputs[1]))
        if isinstance(node, Shaped) and len(node.inputs) > 1:
            raise Untraceable(f"{_name_step(node)} cannot be traced")
        if isinstance(node, Mutate | Filter) and not node.local:
            self._notes.append(f"{_name_step(node)} looks at other rows too, which are not listed")
        (below,) = (self._rewrite(one) for one in node.inputs)
        return _pass_through(node, below)

    def _source(self, node: Source) -> Plan:
        earlier = node.origin.detail.get("trace") if node.origin.kind == "persisted" else None
        if node.origin.kind == "persisted" and (earlier is None or earlier.why):
            raise Untraceable(earlier.why if earlier is not None else "what was persisted was not traced")
        if earlier is not None:
            frame = self._engine.frame(node)
            return self._with_columns(frame, self._earlier_rows(earlier, frame.rows))
        name = self._name_source(node)
        if node.frame is not None:
            frame = self._engine.frame(node)
            return self._with_columns(frame, pa.table({name: _count_up(frame.rows)}))
        return _number_rows(node, name)

    def _name_source(self, node: Source, known: Mapping[str, Any] | None = None) -> str:
        self._sources.append(node)
        self._known.append(known or {})
        return f"{_MARK}{len(self._known) - 1}"

    def _group(self, node: Group) -> Plan:
        """Groups in their order, and apart from them which rows each was made of: a row of the result only names one.

        A join with a group would list its rows as often as it matches.
        """
        below = self._rewrite(node.inputs[0])
        marks = {name: Form("gather", _GATHER, (Column((name,)),), "aggregate") for name in _marks(below)}
        fields = [pa.field(one.name, pa.list_(one.type)) for one in _fields(below)]
        schema = _add_fields(node.schema, fields)
        gathered = dataclasses.replace(node, schema=schema, inputs=(below,), made={**node.made, **marks})
        self._groups.append(self._read(gathered))
        known = {"kind": "group", "name": _name_step(node), "group": len(self._groups) - 1}
        return _number_rows(node, self._name_source(Source(pa.schema([])), known))

    def _earlier_rows(self, earlier: Trace, rows: int) -> pa.Table:
        """The columns of a trace that was made before, as columns of this one."""
        first, before = len(self._known), len(self._groups)
        parts = self._engine.parts
        for each in earlier.groups:
            self._groups.append(_shift(read_tables(parts, each), first))
        for told in earlier.sources:
            self._name_source(
                Source(pa.schema([])), {**told, "group": told["group"] + before} if "group" in told else told
            )
        return _shift(read_columns(parts, earlier, rows), first)

    def _with_columns(self, frame: Frame, columns: pa.Table) -> Source:
        """A source of the same rows with these columns beside them."""
        parts = aligned.slice_fragments(self._engine, columns, frame)
        names = [*frame.schema.names, *columns.schema.names]
        made = aligned.with_family(frame._replace(trace=None), names, columns.schema, parts)
        return Source(made.schema, (), frame=lambda: made, mark=lambda: "")

    def _call(self, node: Call) -> Plan:
        """The rows a function made, beside where the rows it was given came from."""
        frame, given = self._engine.find_frame(node), self._engine.find_frame(node.inputs[0])
        if frame is None or given is None:
            raise Untraceable(f"the rows of {node.name}() were recalled from work that was not traced")
        rows = self._read(self._rewrite(node.inputs[0]))
        if rows.num_rows != given.rows:
            raise Untraceable(f"a second run of what {node.name}() reads gave other rows")
        places = self._engine.places.get(id(node))
        made = rows if places is None else rows.take(pa.array(places))
        if made.num_rows != frame.rows:
            raise Untraceable(f"{node.name}() made {frame.rows:,} rows of which {made.num_rows:,} are known")
        return self._with_columns(frame, made)

    def _join(self, node: Join) -> Plan:
        left, right = (self._rewrite(one) for one in node.inputs)
        both = [name for name in _marks(right) if name in _marks(left)]
        renamed = {name: f"{name}_right" for name in both}
        right = _rename(right, renamed)
        made: Plan = dataclasses.replace(
            node,
            schema=_add_fields(node.schema, [*_fields(left), *_fields(right)]),
            inputs=(left, right),
            renamed={**node.renamed, **{one.name: one.name for one in _fields(right)}},
        )
        for name, other in renamed.items():
            made = _pair(made, name, other)
        return made

    def _union(self, node: Union) -> Plan:
        sides = [self._rewrite(one) for one in node.inputs]
        deep = {name: max(_depth(side, name) for side in sides) for side in sides for name in _marks(side)}
        kinds = {name: _leaf(side, name) for side in sides for name in _marks(side)}
        sides = [_even_out(side, deep, kinds) for side in sides]
        fields = [pa.field(name, _listed(kinds[name], depth)) for name, depth in deep.items()]
        return dataclasses.replace(node, schema=_add_fields(node.schema, fields), inputs=tuple(sides))

    # -- what is kept ---------------------------------------------------------------------------

    def describe(self, table: pa.Table) -> Trace:
        """The trace to keep: what each source is, and the columns that are not told by `same`."""
        columns = self._name_files(table)
        same = {index for index, each in columns.items() if _is_same(each)}
        sources = []
        for index, (node, known) in enumerate(zip(self._sources, self._known, strict=True)):
            told = {**(known or self.describe_source(node))}
            told.pop("same", None)
            sources.append({**told, "same": True} if index in same else told)
        kept = {index: each for index, each in columns.items() if index not in same}
        groups = tuple(_cut(self._name_files(each)) for each in self._groups)
        return Trace(tuple(sources), _cut(kept), groups, "", tuple(self._notes))

    def _name_files(self, table: pa.Table) -> dict[int, pa.ChunkedArray]:
        """Columns by the number of their source; of storages, the names of files instead of places in a listing."""
        columns: dict[int, pa.ChunkedArray] = {}
        for name in table.column_names:
            index = int(name.removeprefix(_MARK))
            node, found = self._sources[index], table.column(name)
            is_listing = node.origin.kind == "storage" and not self._known[index]
            columns[index] = _take(self._list_files(node), found) if is_listing else found
        return columns

    def describe_source(self, node: Source) -> dict[str, Any]:
        kind, name, detail = node.origin
        if kind == "dataset":
            keys = ("name", "version", "content")
            return {"kind": kind, "spec": name, **{key: detail[key] for key in keys if key in detail}}
        if kind == "storage":
            return {"kind": kind, "name": secrets.mask(name)}
        if node.files is not None:
            files = [{"path": path, "rows": rows} for path, rows in self._count_rows(node)]
            return {"kind": "file", "name": name, "files": files}
        return {"kind": kind, "name": name}

    def _count_rows(self, node: Source) -> list[tuple[str, int | None]]:
        """The files of a source in the order they are read, and how many rows each has."""
        assert node.files is not None
        paths = list(node.files.paths)
        if len(paths) == 1 or len(paths) > _MOST_FILES:
            return [(path, None) for path in paths]
        counting = node.files._replace(options={**node.files.options, "filename": True})
        asked = compose("SELECT filename, count(*) FROM {} GROUP BY filename", counting.sql()).render()
        found = duckdb_connections.sniffer().cursor().execute(asked.text, asked.values).fetchall()
        counts = {str(path): int(rows) for path, rows in found}
        return [(path, counts.get(path, 0)) for path in paths]

    def _list_files(self, node: Source) -> pa.ChunkedArray:
        """The name of each file of a storage, as a person names it."""
        frame = self._engine.frame(node)
        column = frame.schema.names[0]
        files = self._engine.read(frame, [column]).column(column).combine_chunks()
        source, path = pc.struct_field(files, "source"), pc.struct_field(files, "path")
        return pa.chunked_array([pc.binary_join_element_wise(source, path, "/")])


def _find_same(plan: Plan) -> Source | None:
    """The source whose row n is row n of the plan, if there is nothing between that would have to be run to know it."""
    while isinstance(plan, Select | Mutate) and plan.local and plan.key() is not None:
        (plan,) = plan.inputs
    return plan if isinstance(plan, Source) and plan.origin.kind not in ("persisted", "storage") else None


def _is_same(found: pa.ChunkedArray) -> bool:
    """Row n from row n of a source."""
    if found.type != _PLAIN or found.null_count:
        return False
    return bool(np.array_equal(found.to_numpy(), np.arange(len(found))))


def _cut(columns: Mapping[int, pa.ChunkedArray]) -> tuple[Fragment, ...]:
    if not columns:
        return ()
    table = pa.table({f"from_{index}": each for index, each in columns.items()})
    # Two versions may come from the same places of different rows: their parts are not to be taken for shared rows.
    salted = table.replace_schema_metadata({"memlake.salt": os.urandom(8).hex()})
    return tuple(parquet.fragments([salted], salted.schema))


def _shift(table: pa.Table, by: int) -> pa.Table:
    return table.rename_columns([f"{_MARK}{int(name.removeprefix('from_')) + by}" for name in table.column_names])


def read_tables(parts: parquet.Parts, fragments: Sequence[Fragment]) -> pa.Table:
    tables = [parts.table(family, family.columns) for one in fragments for family in one.families]
    return pa.concat_tables(tables) if tables else pa.table({})


def read_columns(parts: parquet.Parts, told: Trace, rows: int) -> pa.Table:
    """Which rows of each source the rows of a version came from: column `from_<number of the source>`."""
    table = read_tables(parts, told.fragments)
    if table.num_columns and table.num_rows != rows:
        raise Corrupt("what tells where rows came from is not whole.", hint="Run memlake fsck.")
    columns = {name: table.column(name) for name in table.column_names}
    same = (index for index, source in enumerate(told.sources) if source.get("same"))
    return pa.table({**columns, **{f"from_{index}": pa.chunked_array([_count_up(rows)]) for index in same}})


# -- words shared by the steps ---------------------------------------------------------------------


def _name_step(node: Plan) -> str:
    """A step without its values, some of which may be secrets."""
    made = node.new if isinstance(node, Mutate) else node.by if isinstance(node, Group) else {}
    verb = "group_by" if isinstance(node, Group) else node.name if isinstance(node, Shaped) else ""
    return f"{verb or type(node).__name__.lower()} {', '.join(made)}".strip()


def _number_rows(node: Plan, name: str) -> Plan:
    form = compose("SELECT *, row_number() OVER () - 1 AS {} FROM {}", identifier(name), hole(0))
    return Shaped(node.schema.append(pa.field(name, _PLAIN)), (node,), "rows", form)


def _marks(plan: Plan) -> list[str]:
    return [name for name in plan.schema.names if name.startswith(_MARK)]


def _fields(plan: Plan) -> list[pa.Field]:
    return [plan.schema.field(name) for name in _marks(plan)]


def _add_fields(schema: pa.Schema, fields: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema([*schema, *fields])


def _extend(node: Plan, inputs: tuple[Plan, ...]) -> Plan:
    return dataclasses.replace(node, schema=_add_fields(node.schema, _fields(inputs[0])), inputs=inputs)


def _pass_through(node: Plan, below: Plan) -> Plan:
    """A step of one input, which hands the columns on."""
    marks = _marks(below)
    columns: dict[str, Expression] = {name: Column((name,)) for name in marks}
    if isinstance(node, Select):
        node = dataclasses.replace(node, parts={**node.parts, **columns})
    elif isinstance(node, Distinct) and not node.on:  # alike in all that the user sees; the first stays
        node = dataclasses.replace(node, on=tuple(Column((name,)) for name in node.schema.names))
    elif not isinstance(node, Filter | Mutate | Order | Limit | Distinct | Shaped):
        raise Untraceable(f"{_name_step(node)} cannot be traced")
    return _extend(node, (below,))


def _depth(plan: Plan, name: str) -> int:
    """How many lists deep a column is; 0 also where it is not there."""
    if name not in plan.schema.names:
        return 0
    depth, kind = 0, plan.schema.field(name).type
    while pa.types.is_list(kind):
        depth, kind = depth + 1, kind.value_type
    return depth


def _leaf(plan: Plan, name: str) -> pa.DataType:
    kind = plan.schema.field(name).type
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _listed(kind: pa.DataType, depth: int) -> pa.DataType:
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def _deepen(column: Sql, by: int) -> Sql:
    for _ in range(by):
        column = compose("[{}]", column)
    return column


def _flatten(column: Sql, depth: int) -> Sql:
    for _ in range(depth - 1):
        column = compose("flatten({})", column)
    return column


def _rename(plan: Plan, renamed: Mapping[str, str]) -> Plan:
    if not renamed:
        return plan
    pairs = several(compose("{} AS {}", identifier(old), identifier(new)) for old, new in renamed.items())
    form = compose("SELECT * RENAME ({}) FROM {}", pairs, hole(0))
    fields = [one.with_name(renamed.get(one.name, one.name)) for one in plan.schema]
    return Shaped(pa.schema(fields), (plan,), "rename", form, reads=frozenset(renamed))


def _pair(plan: Plan, name: str, other: str) -> Plan:
    """One column of what two say of the same source."""
    depth = max(_depth(plan, name), _depth(plan, other))
    mine, theirs = (_deepen(identifier(one), depth - _depth(plan, one)) for one in (name, other))
    form = compose(
        "SELECT * EXCLUDE ({}) REPLACE ([{}, {}] AS {}) FROM {}",
        identifier(other), mine, theirs, identifier(name), hole(0),
    )  # fmt: skip
    kept = [one for one in plan.schema if one.name != other]
    fields = [pa.field(name, _listed(_leaf(plan, name), depth + 1)) if one.name == name else one for one in kept]
    return Shaped(pa.schema(fields), (plan,), "pair", form, reads=frozenset([name, other]))


def _even_out(plan: Plan, deep: Mapping[str, int], kinds: Mapping[str, pa.DataType]) -> Plan:
    """With a column for every source, each as many lists deep as on the other sides of a union."""
    there = set(_marks(plan))
    if there == set(deep) and all(_depth(plan, name) == depth for name, depth in deep.items()):
        return plan
    names = [name for name in plan.schema.names if name not in there]
    columns = [identifier(name) for name in names]
    for name, depth in deep.items():
        own = _deepen(identifier(name), depth - _depth(plan, name)) if name in there else _nothing(kinds[name], depth)
        columns.append(compose("{} AS {}", own, identifier(name)))
    form = compose("SELECT {} FROM {}", several(columns), hole(0))
    marks = [pa.field(name, _listed(kinds[name], depth)) for name, depth in deep.items()]
    fields = [*(plan.schema.field(name) for name in names), *marks]
    return Shaped(pa.schema(fields), (plan,), "even out", form, reads=frozenset(plan.schema.names))


def _nothing(kind: pa.DataType, depth: int) -> Sql:
    """No row of a source, as many lists deep as on another side."""
    return _deepen(compose("CAST(NULL AS {})", sql_kind(kind)), depth)


def _take(values: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values by place, or lists of them by lists of places."""
    if not pa.types.is_list(places.type):
        return values.take(places)
    lists = places.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0) if lists.num_chunks else pa.array([], places.type)
    taken = values.take(lists.flatten()).combine_chunks()
    lengths = lists.value_lengths().fill_null(0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, taken)])


def _count_up(rows: int) -> pa.Array:
    return pa.array(np.arange(rows, dtype=np.int64))
