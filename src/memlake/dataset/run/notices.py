"""What a person should be told of a result, though nothing went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from memlake.dataset import feedback
from memlake.dataset.plan.nodes import KEY, Call, Columns, Filter, Join, Plan, Source
from memlake.records import count
from memlake.rows.sql import compose, number, path

if TYPE_CHECKING:
    from memlake.dataset.run.engine import Engine, Ran

_EXAMPLES = 3


def warn_none_left(engine: Engine, plan: Plan) -> None:
    """Warn of a filter that left none of the files of a storage: mostly its pattern is wrong, not the storage."""
    for node in plan.walk():
        if isinstance(node, Filter) and not any(isinstance(one, Call) for one in node.walk()):
            source = next((s for s in node.walk() if isinstance(s, Source) and s.origin.kind == "storage"), None)
            if source is not None and engine.count(node.inputs[0]) and not engine.count(node):
                files = engine.read(engine.frame(source), source.schema.names).column(0)
                paths = pc.struct_field(pa.chunked_array(files.chunks), "path").slice(0, _EXAMPLES).to_pylist()
                feedback.warn(
                    f"filter {node.condition!r} leaves none of the {len(files):,} files of {source.origin.name}. "
                    f"Their paths are like {', '.join(map(repr, paths))}."
                )
                return


def warn_unmatched(engine: Engine, plan: Plan, filled: Columns) -> None:
    """Warn of a left join in which no row found its like: mostly keys that are written in two ways.

    `filled` are the columns of the plan that have a value in some row: one from the right side means a match.
    """
    for node in plan.walk():
        if not isinstance(node, Join) or node.how != "LEFT" or engine.needs(node).isdisjoint(node.renamed.values()):
            continue  # where nothing of the right is asked for, no None of it is seen
        if any(_is_from(plan, name, node) for name in filled):
            continue
        if all(map(engine.has_rows, node.inputs)) and not engine.has_rows(replace(node, how="INNER")):
            rows = [engine.count(one) for one in node.inputs]
            keys = [_describe_key(engine, side, [pair[i] for pair in node.on]) for i, side in enumerate(node.inputs)]
            feedback.warn(
                f"merge found no match: none of {count(rows[0], 'row')} on the left agrees with one of "
                f"{count(rows[1], 'row')} on the right, so the columns of the right are None. "
                f"Left: {keys[0]}. Right: {keys[1]}."
            )


def _is_from(plan: Plan, name: str, join: Join) -> bool:
    """Whether a column is passed on from the right side of a join."""
    if plan is join:
        return name.partition(".")[0] in join.renamed.values()
    below = ((one, old) for one, old in plan.passed_from(name) if old.split(".")[0] in one.schema.names)
    return any(_is_from(one, old, join) for one, old in below)


def _describe_key(engine: Engine, side: Plan, names: Sequence[str]) -> str:
    """What rows are joined by, with two examples of each column."""
    told = []
    for name in names:
        rows = engine.relation(side, frozenset([name.split(".")[0]]))
        asked = compose("SELECT {} FROM {} LIMIT {}", path(name.split(".")), rows, number(2))
        values = ", ".join(map(repr, engine.sql(asked).read_all().column(0).to_pylist()))
        told.append(f"{'its key' if name.startswith(KEY) else name} is like {values}")
    return "; ".join(told)


def warn_failures(ran: Sequence[Ran]) -> None:
    """Warn of rows that functions failed on, where no line on a terminal says so."""
    failures = [f"{one.name}() failed on {count(one.failed, 'row')}" for one in ran if one.failed]
    if failures:
        feedback.warn(f"{', '.join(failures)}. The run went on because on_error= says so.")
