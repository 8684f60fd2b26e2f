"""Steps over rows that already lie in fragments: a filter stores which rows stay, a new column only itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memlake.dataset.expressions.columns import Expression
from memlake.dataset.expressions.functions import as_vector_search
from memlake.dataset.parts import parquet, vector_columns
from memlake.dataset.parts.frames import KEEP, Fragment, Frame, Kept
from memlake.dataset.plan.nodes import Filter, Limit, Mutate, Plan, Select, Union, alias, tops
from memlake.dataset.run import call_results
from memlake.rows.sql import compose, several

if TYPE_CHECKING:
    from memlake.dataset.run.engine import Engine

SPARSE = 16  # with fewer than one row in so many left, the rows are copied
SMALL = 256 << 10  # bytes: as little is copied in any case
STACK = 8  # families of a fragment: with more, reading all columns costs more than one file of them would
Array = np.ndarray[Any, Any]


def step(engine: Engine, plan: Plan, inputs: Sequence[Frame]) -> Frame | None:
    """The frame after a local step, or None when its rows had better be copied."""
    if isinstance(plan, Filter):
        return _filter(engine, inputs[0], _masks_of_condition(engine, plan, inputs[0]))
    if isinstance(plan, Limit):
        return _filter(engine, inputs[0], _masks_of_range(engine, inputs[0], plan))
    if isinstance(plan, Mutate):
        return _add_columns(engine, plan, inputs[0])
    if isinstance(plan, Select):
        names = [name for name in plan.schema.names if name in inputs[0].schema.names]
        return inputs[0].select(pa.schema(map(inputs[0].schema.field, names))) if plan.is_plain() else None
    assert isinstance(plan, Union)
    same = all(inputs[0].schema.equals(other.schema) for other in inputs[1:])
    return Frame(inputs[0].schema, tuple(f for one in inputs for f in one.fragments)) if same else None


# -- fewer rows ------------------------------------------------------------------------------------


def _masks_of_condition(engine: Engine, plan: Filter, frame: Frame) -> Iterator[Array]:
    """For each fragment which of its rows the condition holds for."""
    body = engine.scan(frame, tops(plan.condition))
    sql = compose("SELECT coalesce({}, false) AS keep FROM {}", plan.condition.sql(), body)
    keep = engine.sql(sql).read_all().column("keep").to_numpy()
    at = 0
    for fragment in frame.fragments:
        yield _spread(engine, fragment, keep[at : at + fragment.visible])
        at += fragment.visible


def _masks_of_range(engine: Engine, frame: Frame, plan: Limit) -> Iterator[Array]:
    """For each fragment which of its rows lie in the range, counting only rows that are kept."""
    start, end = plan.start, frame.rows if plan.count is None else plan.start + plan.count
    at = 0
    for fragment in frame.fragments:
        rows = np.arange(at, at + fragment.visible)
        yield _spread(engine, fragment, (rows >= start) & (rows < end))
        at += fragment.visible


def _spread(engine: Engine, fragment: Fragment, held: Array) -> Array:
    """A mask of the kept rows of a fragment as one of all its rows."""
    if fragment.kept is None:
        return held
    mask = mask_of(engine, fragment).copy()
    mask[mask] = held
    return mask


def _filter(engine: Engine, frame: Frame, masks: Iterator[Array]) -> Frame | None:
    fragments = [narrow(engine, fragment, mask) for fragment, mask in zip(frame.fragments, masks, strict=True)]
    made = Frame(frame.schema, tuple(one for one in fragments if one is not None))
    total = sum(fragment.rows for fragment in made.fragments)
    copied = made.size * made.rows / max(total, 1)
    if made.rows < total and (made.rows * SPARSE < total or copied < SMALL):
        return None
    return made


def narrow(engine: Engine, fragment: Fragment, mask: Array) -> Fragment | None:
    """A fragment with only those of its rows kept that are kept already and in the mask; None without any."""
    if fragment.kept is not None:
        mask = mask & mask_of(engine, fragment)
    rows = int(np.count_nonzero(mask))
    if rows == fragment.visible:
        return fragment
    kept = parquet.make_family(pa.table({KEEP: pa.array(mask)}))
    return fragment._replace(kept=Kept(rows, kept)) if rows else None


def compact(engine: Engine, frame: Frame) -> Frame:
    """The same rows, with fragments of many families or of few kept rows written anew."""
    return Frame(frame.schema, tuple(_compact(engine, fragment, frame.schema) for fragment in frame.fragments))


def _compact(engine: Engine, fragment: Fragment, schema: pa.Schema) -> Fragment:
    if len(fragment.families) <= STACK and fragment.visible * SPARSE >= fragment.rows:
        return fragment
    table = parquet.fit_schema(engine.parts.read_fragment(fragment, schema.names), schema).combine_chunks()
    return Fragment(table.num_rows, (parquet.make_family(table),))


def mask_of(engine: Engine, fragment: Fragment) -> Array:
    assert fragment.kept is not None
    return np.asarray(engine.parts.table(fragment.kept.family, [KEEP]).column(KEEP).to_numpy())


# -- more columns ----------------------------------------------------------------------------------


def _add_columns(engine: Engine, plan: Mutate, frame: Frame) -> Frame:
    """Columns are made of the rows that are kept: of others, a filter may have said that it cannot be done."""
    asked = engine.needs(plan)
    new = {name: expression for name, expression in plan.new.items() if name in asked}
    if not new:
        return frame
    arrays = {name: _distances(engine, one, frame) for name, one in new.items()}
    rest = {name: one for name, one in new.items() if arrays[name] is None}
    if rest:
        reads = frozenset[str]().union(*(tops(expression) for expression in rest.values()))
        made = [alias(expression.sql(), name) for name, expression in rest.items()]
        found = engine.sql(compose("SELECT {} FROM {}", several(made), engine.scan(frame, reads))).read_all()
        arrays |= {name: found.column(name) for name in rest}
    table = pa.table(arrays)
    fields = pa.schema([engine.resolve_field(plan, plan.schema.field(one.name), one) for one in table.schema])
    names = [name for name in plan.schema.names if name in new or name in frame.schema.names]
    return with_family(frame, names, fields, slice_fragments(engine, parquet.fit_schema(table, fields), frame))


def has_search(plan: Mutate) -> bool:
    """Whether a step measures distances of a column to a vector."""
    return any(as_vector_search(expression) is not None for expression in plan.new.values())


def _distances(engine: Engine, expression: Expression, frame: Frame) -> pa.Array | None:
    """Distances of a column of vectors to a constant one, without SQL; None where the column is no matrix."""
    search = as_vector_search(expression)
    if search is None or "." in search[1] or not vector_columns.is_vector(frame.schema.field(search[1]).type):
        return None
    kind, column, query = search
    found = []
    for fragment in frame.fragments:
        matrix = engine.vectors.matrix(fragment.home(column), column)
        if matrix is None or matrix.shape[1] != len(query):
            return None
        near = vector_columns.distances(kind, matrix, query)
        found.append(near if fragment.kept is None else near[mask_of(engine, fragment)])
    return pa.array(np.concatenate(found)) if found else None


def slice_fragments(engine: Engine, table: pa.Table, frame: Frame) -> Iterator[pa.Table]:
    at = 0
    for fragment in frame.fragments:
        rows = table.slice(at, fragment.visible).combine_chunks()
        at += fragment.visible
        yield (
            rows if fragment.kept is None else call_results.scatter(rows, mask_of(engine, fragment)).combine_chunks()
        )


def with_family(frame: Frame, names: Sequence[str], fields: pa.Schema, tables: Iterator[pa.Table]) -> Frame:
    """A frame with one more family in each fragment, its columns in the order of `names`."""
    known = {one.name: one for one in (*frame.schema, *fields)}
    schema = pa.schema([known[name] for name in names if name in known])
    fragments = [
        fragment._replace(families=(*fragment.families, parquet.make_family(table)))
        for fragment, table in zip(frame.fragments, tables, strict=True)
    ]
    return Frame(schema, tuple(fragments)).select(schema)
