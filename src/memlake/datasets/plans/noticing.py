"""What a person should be told of a result, though nothing went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from memlake.datasets import telling
from memlake.datasets.plans.plan import Call, Filter, Plan, Source

if TYPE_CHECKING:
    from memlake.datasets.plans.engine import Engine, Ran

_EXAMPLES = 3


def none_left(engine: Engine, plan: Plan) -> None:
    """Warn of a filter that left none of the files of a storage: mostly its pattern is wrong, not the storage."""
    for node in plan.walk():
        if isinstance(node, Filter) and not any(isinstance(one, Call) for one in node.walk()):
            source = next((s for s in node.walk() if isinstance(s, Source) and s.origin.kind == "storage"), None)
            if source is not None and engine.rows(node.inputs[0]) and not engine.rows(node):
                return _warn(engine, node, source)
    return None


def _warn(engine: Engine, node: Filter, source: Source) -> None:
    files = engine.read(engine.frame(source), source.schema.names).column(0)
    paths = pc.struct_field(pa.chunked_array(files.chunks), "path").slice(0, _EXAMPLES).to_pylist()
    telling.warn(
        f"filter {node.condition!r} leaves none of the {len(files):,} files of {source.origin.name}. "
        f"Their paths are like {', '.join(map(repr, paths))}."
    )


def failures(ran: Sequence[Ran]) -> None:
    """Warn of rows that functions failed on, where no line on a terminal says so."""
    told = [f"{one.name}() on {one.failed:,}" for one in ran if one.failed]
    if told:
        telling.warn(f"rows failed and on_error= let the work go on: {', '.join(told)}.")
