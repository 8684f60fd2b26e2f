"""The engine: runs a plan. Relational steps become one SQL text for DuckDB; functions and saves ask for frames.

`relation` never stores anything. `frame` gives a plan's rows as fragments: for steps that are local to a row over rows
that already lie in fragments, only what is new is made; anything else is run and cut anew.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from memlake.dataset.memo.results import Memo
from memlake.dataset.parts import parquet
from memlake.dataset.parts.arrow_types import is_list, is_told_as, plain_type
from memlake.dataset.parts.frames import KEEP, Family, Fragment, Frame
from memlake.dataset.parts.parquet import Parts
from memlake.dataset.parts.vector_columns import Vectors
from memlake.dataset.plan import table_files
from memlake.dataset.plan.nodes import (
    Call,
    Columns,
    Filter,
    Limit,
    Mutate,
    Order,
    Plan,
    Select,
    Source,
    Union,
    tops,
    with_places,
)
from memlake.dataset.read.duckdb_errors import named_errors
from memlake.dataset.run import aligned, notices
from memlake.dataset.types.field_metadata import class_of, is_unknown
from memlake.named_tuple import NamedTuple
from memlake.rows import duckdb_connections
from memlake.rows.sql import PLACE, Sql, compose, identifier, identifiers, join, number, span, template

_BATCH = 65_536
_FEW = 10_000  # rows that are fetched one by one
_NONE: Mapping[str, Sql] = {}
_MUCH = 256 << 20  # bytes of rows kept in memory before they become parts


class Ran(NamedTuple):
    """What a function step did: rows called on, recalled and failed on, its seconds, why nothing was recalled."""

    name: str
    called: int
    recalled: int
    failed: int
    seconds: float
    why: str = ""


class Engine:
    """One run of one plan: a connection, and the frames made on the way."""

    def __init__(self, store: Parts, recall: Memo, folder: Path, run_call: Callable[[Engine, Call], Frame]) -> None:
        self.parts, self.recall, self._run_call = store, recall, run_call
        self.vectors = Vectors(folder / "index" / "columns", store)
        self._spill, self._parts = folder / "tmp" / f"spill-{os.getpid()}", folder / "parts"
        self.sealing = False  # a save: fragments become parts as they come, so that few are in memory
        self.ran: list[Ran] = []
        self.shared: Any = None  # among the function steps of this run: plan_keys.RunServices
        self._frames: dict[int, Frame] = {}
        self._needs: dict[int, Columns] = {}
        self._names = itertools.count()
        self._plans: list[Plan] = []  # kept, so that an id stays theirs; the first is what is asked for
        self._out: int | None = None  # rows the whole plan gave, when it did
        self.places: dict[int, Any] = {}  # by the id of a call: for each row it made, which of its rows that came from
        self._filled: list[tuple[Plan, Columns]] = []  # plans with columns of nothing but None, and their others

    @functools.cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        """Opened when a step asks: what is all remembered needs none. It may read parts and large files of this run."""
        large = [path for key, node in self._sources().items() if key not in self._small for path in node.seen]
        return duckdb_connections.engine(str(self._spill), str(self._parts), large)

    @functools.cached_property
    def _small(self) -> dict[int, pa.Table]:
        """The rows of sources whose files are small, by the id of the source."""
        sources = self._sources()
        if gone := [path for node in sources.values() for path in node.seen if not os.path.exists(path)]:
            raise table_files.gone(gone[0])  # DuckDB would say that it may not look
        with named_errors():
            return table_files.read_small({key: node.files for key, node in sources.items() if node.files})

    def _sources(self) -> dict[int, Source]:
        return {id(node): node for plan in self._plans for node in plan.walk() if isinstance(node, Source)}

    def close(self) -> None:
        if self._out == 0:
            notices.warn_none_left(self, self._plans[0])
        for plan, filled in tuple(self._filled):
            notices.warn_unmatched(self, plan, filled)
        if "con" in vars(self):
            self.con.close()

    # -- answers ------------------------------------------------------------------------------

    def reader(self, plan: Plan) -> pa.RecordBatchReader:
        """The rows of a plan, batch by batch, in the plan's own columns and types."""
        if not plan.schema.names:  # SQL knows no rows without columns
            return pa.RecordBatchReader.from_batches(plan.schema, [])
        self.need(plan)
        body = self.relation(plan, frozenset(plan.schema.names))
        found = self.sql(compose("SELECT {} FROM {}", identifiers(plan.schema.names), body))
        schema = self.schema_of(plan, found.schema)
        return pa.RecordBatchReader.from_batches(schema, self._count_rows(plan, _fit(found, schema)))

    def _count_rows(self, plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out, names, filled = 0, {""}, set[str]()
        for batch in batches:
            out += batch.num_rows
            names = set(batch.schema.names)
            filled |= {name for name, one in zip(batch.schema.names, batch, strict=True) if one.null_count < len(one)}
            yield batch
        self._out = out if plan is self._plans[0] else self._out
        if filled != names:
            self._filled.append((plan, frozenset(filled)))

    def table(self, plan: Plan) -> pa.Table:
        if self._has_frame(plan) and not isinstance(plan, Limit):
            return self.read(self.frame(plan), plan.schema.names)
        return self.reader(plan).read_all()

    def count(self, plan: Plan) -> int:
        self.need(plan)
        if isinstance(plan, Source | Call) and self._has_frame(plan):
            return self.frame(plan).rows
        body = self.relation(plan, frozenset(plan.schema.names[:1]), ordered=False)
        count: int = self.sql(compose("SELECT count(*) FROM {}", body)).read_all()[0][0].as_py()
        self._out = count if plan is self._plans[0] else self._out
        return count

    def has_rows(self, plan: Plan) -> bool:
        """Whether a plan has a row, which is found without counting them all."""
        self.need(plan)
        if isinstance(plan, Source | Call) and self._has_frame(plan):
            return self.frame(plan).rows > 0
        body = self.relation(plan, frozenset(plan.schema.names[:1]), ordered=False)
        return bool(self.sql(compose("SELECT 1 FROM {} LIMIT 1", body)).read_all().num_rows)

    def schema_of(self, plan: Plan, found: pa.Schema) -> pa.Schema:
        """The plan's schema, with the types that only running could tell."""
        return pa.schema(
            [self.resolve_field(plan, one, found.field(one.name)) for one in plan.schema if one.name in found.names]
        )

    def resolve_field(self, plan: Plan, planned: pa.Field, found: pa.Field) -> pa.Field:
        """What a column of a plan is, given how the engine saw it: functions also told the class of its values."""
        if not is_unknown(planned):
            return planned
        known, seen = self._find_shown(plan, planned.name), plain_type(found.type)
        if known is not None and not is_unknown(known) and is_told_as(known.type, seen):
            return known.with_name(planned.name)
        if known is not None and is_list(seen) and is_told_as(known.type, seen.value_type):  # gathered
            return pa.field(planned.name, pa.list_(known.with_name("item")))
        return pa.field(planned.name, seen)

    def _find_shown(self, plan: Plan, path: str) -> pa.Field | None:
        """The field a function showed that a column is passed on from, through whatever steps."""
        first, *rest = path.split(".")
        if id(plan) in self._frames and first in self._frames[id(plan)].schema.names:
            found: pa.Field | None = self._frames[id(plan)].schema.field(first)
        elif not is_unknown(plan.schema.field(first)):
            found = plan.schema.field(first)
        else:
            steps = [(one, old) for one, old in plan.passed_from(first) if old.split(".")[0] in one.schema.names]
            each = [field for one, old in steps if (field := self._find_shown(one, old)) is not None]
            found = each[0] if each and len(set(map(class_of, each))) == 1 else None
        for name in rest:
            inside = found is not None and pa.types.is_struct(found.type) and found.type.get_field_index(name) >= 0
            found = found.type.field(name) if found is not None and inside else None
        return found

    def sql(self, asked: Sql) -> pa.RecordBatchReader:
        statement = asked.render()
        with named_errors():
            found = self.con.sql(statement.text, params=statement.values).to_arrow_reader(_BATCH)
            return pa.RecordBatchReader.from_batches(found.schema, _name_errors(found))

    # -- relations ----------------------------------------------------------------------------

    def need(self, plan: Plan, columns: Columns | None = None) -> None:
        """Note which columns of every node the whole of this run will ask for."""
        self._plans.append(plan)
        wanted = {id(plan): columns if columns is not None else frozenset(plan.schema.names)}
        for node in reversed(list(plan.walk())):
            mine = wanted.get(id(node), frozenset())
            self._needs[id(node)] = self._needs.get(id(node), frozenset()) | mine
            for one, asked in zip(node.inputs, node.wants(mine), strict=True):
                wanted[id(one)] = wanted.get(id(one), frozenset()) | asked

    def needs(self, plan: Plan) -> Columns:
        """The columns of a node that something in this run asks for."""
        return self._needs[id(plan)]

    def relation(self, plan: Plan, columns: Columns, *, ordered: bool = True) -> Sql:
        """SQL that gives the rows of a plan, in their order unless nothing depends on it."""
        if id(plan) in self._frames or isinstance(plan, Call):
            return self.scan(self.frame(plan), columns)
        if isinstance(plan, Source):
            return self._scan_files(plan) if plan.files else self.scan(self.frame(plan), columns)
        if isinstance(plan, Mutate) and aligned.has_search(plan) and self._has_frame(plan):
            return self.scan(self.frame(plan), columns)
        if isinstance(plan, Limit) and (found := self._first_rows(plan, columns)) is not None:
            return compose("(SELECT * FROM {})", identifier(self.register(found)))
        wants = plan.wants(columns)
        inputs = [
            self.relation(one, asked, ordered=minds)
            for one, asked, minds in zip(plan.inputs, wants, plan.minds(ordered), strict=True)
        ]
        return compose("({})", plan.sql(inputs, columns, ordered))

    def _scan_files(self, plan: Source) -> Sql:
        assert plan.files is not None
        assert plan.scan is not None
        small = self._small.get(id(plan))
        rows = plan.files.sql() if small is None else identifier(self.register(small))
        return compose("({})", plan.scan.fill(rows))

    def _first_rows(self, plan: Limit, columns: Columns) -> pa.Table | None:
        """The first rows of an order, found by what it sorts by alone; worth it where other columns are wide."""
        order = plan.inputs[0]
        if (
            not isinstance(order, Order)
            or plan.count is None
            or plan.count > _FEW
            or not self._has_frame(order.inputs[0])
        ):
            return None
        frame = self.frame(order.inputs[0])
        if not any(pa.types.is_nested(frame.schema.field(name).type) for name in columns):
            return None
        reads = frozenset[str]().union(*(tops(one) for one in order.by))
        sql = compose(
            f"SELECT {PLACE} - 1 FROM {{}} ORDER BY {{}}, {PLACE} LIMIT {{}} OFFSET {{}}",
            with_places(self.scan(frame, reads)),
            join(", ", (one.sql() for one in order.by)),
            number(plan.count),
            number(plan.start),
        )
        places = self.sql(sql).read_all().column(0).to_numpy()
        return self.take(frame, [name for name in frame.schema.names if name in columns], places)

    def take(self, frame: Frame, names: Sequence[str], places: Any) -> pa.Table:
        """Rows by their place among those that are kept."""
        schema = pa.schema([frame.schema.field(name) for name in names])
        order, tables, at = np.argsort(places, kind="stable"), [], 0
        wanted = places[order]
        for fragment in frame.fragments:
            here = wanted[(wanted >= at) & (wanted < at + fragment.visible)] - at
            if len(here):
                rows = here
                if fragment.kept is not None:
                    rows = np.flatnonzero(aligned.mask_of(self, fragment))[rows]
                columns: dict[str, Any] = {}
                for index, owned in fragment.list_homes(names).items():
                    family = fragment.families[index]
                    kept = {name: self.vectors.at(family, name, rows) for name in owned}
                    rest = [name for name in owned if kept[name] is None]
                    if rest:
                        table = self.parts.rows(family, rest, rows)
                        kept |= {name: table.column(name) for name in rest}
                    columns |= kept
                tables.append(parquet.fit_schema(pa.table({name: columns[name] for name in names}), schema))
            at += fragment.visible
        if not tables:
            return schema.empty_table()
        return pa.concat_tables(tables).take(pa.array(np.argsort(order, kind="stable")))

    def scan(self, frame: Frame, columns: Columns, *, every: bool = False) -> Sql:
        """SQL that reads a frame in place. `every` row, or (by default) those that are kept."""
        names = [name for name in frame.schema.names if name in columns]
        shapes: dict[Any, list[Fragment]] = {}
        for fragment in frame.fragments:
            if fragment.visible or every:
                shapes.setdefault(_shape(fragment, names, every=every), []).append(fragment)
        if not shapes:
            empty = self.register(frame.schema.empty_table().select(names or frame.schema.names[:1]))
            return compose("(SELECT * FROM {})", identifier(empty))
        # Fragments of one shape follow each other, else their order would be lost.
        # Neighbouring fragments that are read alike
        seen = [fragment for fragment in frame.fragments if fragment.visible or every]
        runs = [list(run) for _, run in itertools.groupby(seen, key=lambda one: _shape(one, names, every=every))]
        schema = pa.schema([frame.schema.field(name) for name in names])
        return compose("({})", join(" UNION ALL ", (self._scan_run(run, schema, every=every) for run in runs)))

    def _scan_run(self, run: Sequence[Fragment], schema: pa.Schema, *, every: bool) -> Sql:
        names = schema.names
        spans = {one.name: span(one) for one in schema if pa.types.is_duration(one.type)}
        homes = run[0].list_homes(names)
        sources = [self._source([f.families[i] for f in run], list(owned), spans) for i, owned in homes.items()]
        form = template("SELECT {} FROM {}")
        if run[0].kept and not every:
            sources.append(self._source([f.kept.family for f in run if f.kept], [KEEP]))
            # Compared, a vector of booleans is filtered without branches.
            form = template("SELECT {} FROM {} WHERE {} = true")
        return form.fill(identifiers(names), join(" POSITIONAL JOIN ", sources), identifier(KEEP))

    def _source(self, families: Sequence[Family], columns: Sequence[str], spans: Mapping[str, Sql] = _NONE) -> Sql:
        if all(family.oid for family in families):
            paths = [self.parts.check_columns(family, columns) for family in families]
            read = join(", ", (spans.get(name) or identifier(name) for name in columns))
            return compose(
                "(SELECT {} FROM read_parquet({}, hive_partitioning=false))", read, table_files.literals(paths)
            )
        table = pa.concat_tables([self.parts.table(family, columns) for family in families])
        return compose("(SELECT {} FROM {})", identifiers(columns), identifier(self.register(table)))

    def register(self, table: pa.Table) -> str:
        name = f"memlake_{next(self._names)}"
        self.con.register(name, table)
        return name

    def read(self, frame: Frame, names: Sequence[str]) -> pa.Table:
        """A frame as a table, without an engine in between."""
        tables = [self.parts.read_fragment(fragment, names) for fragment in frame.fragments if fragment.visible]
        schema = pa.schema([frame.schema.field(name) for name in names])
        return pa.concat_tables([parquet.fit_schema(t, schema) for t in tables]) if tables else schema.empty_table()

    # -- frames -------------------------------------------------------------------------------

    def frame(self, plan: Plan) -> Frame:
        """The rows of a plan as fragments; made once in a run."""
        found = self._frames.get(id(plan))
        if found is None:
            if id(plan) not in self._needs:
                self.need(plan)
            found = self._frames[id(plan)] = self._make(plan)
            self._out = found.rows if plan is self._plans[0] else self._out
        return found

    def find_frame(self, plan: Plan) -> Frame | None:
        """The rows of a plan, where this run has made them."""
        return self._frames.get(id(plan))

    def _make(self, plan: Plan) -> Frame:
        if isinstance(plan, Source) and plan.frame is not None:
            return plan.frame()
        if isinstance(plan, Call):
            return self._run_call(self, plan)
        if self._has_frame(plan):
            made = aligned.step(self, plan, [self.frame(one) for one in plan.inputs])
            if made is not None:
                return made
        names = [name for name in plan.schema.names if name in self._needs[id(plan)]] or plan.schema.names[:1]
        found = self.sql(compose("SELECT {} FROM {}", identifiers(names), self.relation(plan, frozenset(names))))
        schema = self.schema_of(plan, found.schema)
        return Frame(schema, tuple(self._seal_if_large(parquet.fragments(self._count_rows(plan, found), schema))))

    def _seal_if_large(self, made: Iterator[Fragment]) -> Iterator[Fragment]:
        """Fragments as they come; sealed at once when they will be saved or are too many for memory."""
        size = 0
        for fragment in made:
            size += sum(family.size for family in fragment.families)
            yield self.parts.seal_fragment(fragment) if self.sealing or size > _MUCH else fragment

    def _has_frame(self, plan: Plan) -> bool:
        """Whether the rows of a plan lie in fragments, or can be told apart within them."""
        if isinstance(plan, Source):
            return plan.frame is not None
        if isinstance(plan, Call):
            return True
        if isinstance(plan, Filter | Mutate | Select | Limit | Union):
            return (plan.local or isinstance(plan, Union)) and all(map(self._has_frame, plan.inputs))
        return False


def _name_errors(found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with named_errors():
        yield from found


def _fit(found: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches in a schema; one without rows where there is none, so that the schema is seen."""
    seen = False
    for batch in found:
        seen = True
        yield from parquet.fit_schema(pa.Table.from_batches([batch]), schema).to_batches()
    if not seen:
        yield pa.RecordBatch.from_pylist([], schema=schema)


def _shape(fragment: Fragment, names: Sequence[str], *, every: bool) -> Any:
    homes = tuple((index, tuple(owned)) for index, owned in fragment.list_homes(names).items())
    loose = tuple(fragment.families[index].oid is None for index, _ in homes)
    return homes, loose, fragment.kept is not None and not every
