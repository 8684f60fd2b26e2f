"""Rows, columns and plans as text for a terminal."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from memlake.dataset import export
from memlake.dataset.plan.nodes import Call, Plan, Source
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import class_of

_CELL = 60  # characters of a shown value


def show(table: pa.Table, limit: int, *, flatten: bool = False, transpose: bool = False) -> None:
    """Rows as a table on the terminal; one more than the limit says that there are more."""
    more = table.num_rows > limit
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.write(render(table.slice(0, limit), flatten=flatten, transpose=transpose, width=width) + "\n")
    if more:
        sys.stdout.write(f"[the first {limit} rows]\n" if limit != 1 else "[the first row]\n")


def render(table: pa.Table, *, flatten: bool = False, transpose: bool = False, width: int | None = None) -> str:
    """Rows as lines of text; columns that do not fit into `width` are only named."""
    flat = export.flatten_nested(table) if flatten else _unfold(table)
    names = list(flat.column_names)
    columns = [[_printable(name), *map(_cell, flat[name].to_pylist())] for name in names]
    lines = columns if transpose else [list(line) for line in zip(*columns, strict=True)]
    widths = [max(map(len, column)) for column in (zip(*columns, strict=True) if transpose else columns)]
    kept = len(widths)
    if width is not None and not transpose:  # as many columns as fit beside each other; one at least
        kept = max(1, sum(end - 2 <= width for end in itertools.accumulate(one + 2 for one in widths)))
    is_right = [
        not transpose
        and bool(pa.types.is_integer(one.type) or pa.types.is_floating(one.type) or pa.types.is_decimal(one.type))
        for one in flat.schema
    ] + [False] * flat.num_rows
    text = []
    for line in lines:
        cells = zip(line[:kept], widths, is_right, strict=False)
        text.append("  ".join(cell.rjust(size) if right else cell.ljust(size) for cell, size, right in cells).rstrip())
    if not transpose:
        text.insert(1, "  ".join("-" * size for size in widths[:kept]))
    text += [] if flat.num_rows else ["(no rows)"]
    text += [f"[not shown: {_printable(', '.join(names[kept:]))}]"] if kept < len(widths) else []
    return "\n".join(text)


def _unfold(table: pa.Table) -> pa.Table:
    """Nested columns of no class, which a select of inner fields makes too, as the `a.b` they were asked for by."""
    while any(_is_bare(one) for one in table.schema):
        parts = [
            pa.table([table[one.name]], schema=pa.schema([one])).flatten()
            if _is_bare(one)
            else table.select([one.name])
            for one in table.schema
        ]
        fields = [one for part in parts for one in part.schema]
        table = pa.Table.from_arrays([column for part in parts for column in part.columns], schema=pa.schema(fields))
    return table


def _is_bare(one: pa.Field) -> bool:
    return bool(pa.types.is_struct(one.type)) and not class_of(one) and one.type.num_fields > 0


def _cell(value: Any) -> str:
    if isinstance(value, Mapping) and {"source", "path"} <= value.keys():  # a file
        value = value["path"]
    if isinstance(value, float):  # six digits; of large numbers all before the point, for their size is what they say
        text = f"{value:.2f}".rstrip("0").rstrip(".") if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    else:
        text = "" if value is None else _printable(str(value))
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _printable(text: str) -> str:
    """Without what a terminal would act on."""
    return "".join(char if char.isprintable() else " " for char in text)


def print_schema(schema: pa.Schema) -> None:
    for line in schema_lines(schema):
        sys.stdout.write(line + "\n")


def schema_lines(fields: Iterable[pa.Field], depth: int = 0) -> Iterator[str]:
    for one in fields:
        yield f"{'  ' * depth}{_printable(one.name)}: {arrow.show_type(one)}"
        if pa.types.is_struct(one.type):
            yield from schema_lines(one.type, depth + 1)


def explain_plan(node: Plan) -> str:
    """The steps from the sources down, and what runs each."""
    lines = []
    for one in node.walk():
        where = "reads" if isinstance(one, Source) else "python" if isinstance(one, Call) else "duckdb"
        lines.append(f"{where:7} {one.describe()}")
    return "\n".join(lines)
