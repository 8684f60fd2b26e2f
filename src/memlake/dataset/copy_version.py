"""A version in another repo: its rows copied there as they are, and compared with a version there. Runs nothing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memlake.dataset import save as save_rows
from memlake.dataset.context import DatasetContext
from memlake.dataset.export import plain_rows
from memlake.dataset.parts import column_hashes
from memlake.dataset.parts.version_record import Version
from memlake.dataset.save import Wanted
from memlake.records import count

_WHERE = ("source", "etag", "version", "is_latest", "last_modified")  # of a file: where and when it lay, not what it is


def copy_version(here: DatasetContext, there: DatasetContext, version: Version) -> None:
    """The same name, number and rows in another repo, for a program that reads them there."""
    frame = here.frame(version)._replace(trace=None)
    with there.parts.hold(), tempfile.TemporaryDirectory(dir=there.folder / "tmp") as folder:
        for family in frame.families():
            part = Path(folder) / str(family.oid)
            shutil.copyfile(here.parts.path(family), part)
            there.parts.objects.write_part(part)
        facts = {"provenance": version.provenance, "params": version.params, "metrics": version.metrics}
        save_rows.save(there, Wanted(version.name, version.version), frame, facts)


def compare_rows(
    here: DatasetContext, version: Version, there: DatasetContext, made: Version
) -> tuple[str, dict[str, Any] | None]:
    """Why rows differ, nothing if they do not; and the first row that does: {row, column, old, new}."""
    if made.content == version.content:
        return "", None
    old, new = version.schema, made.schema
    if old.names != new.names or [one.type for one in old] != [one.type for one in new]:
        was, now = (", ".join(f"{one.name}: {one.type}" for one in schema) for schema in (old, new))
        return f"the columns were {was}, and are {now}", None
    first: tuple[int, str] | None = None
    for name in old.names:
        one, other = _read(here, version, name), _read(there, made, name)
        place = _find_first(one, other)
        if place is not None and (first is None or place < first[0]):
            first = place, name
    if first is None:
        return "", None
    row, name = first
    values = [_value(_read(*side, name), row) for side in ((here, version), (there, made))]
    told = {"row": row + 1, "column": name, "old": values[0], "new": values[1]}
    if version.rows != made.rows and row >= min(version.rows, made.rows):
        return f"there were {count(version.rows, 'row')}, and are {made.rows:,}", told
    return f"row {row + 1:,} differs in {name}", told


def _read(context: DatasetContext, version: Version, name: str) -> pa.ChunkedArray:
    column = context.parts.read_column(context.frame(version), name)
    if pa.types.is_struct(column.type) and {"source", "path", "etag"} <= {one.name for one in column.type}:
        kept = [one.name for one in column.type if one.name not in _WHERE]
        flat = column.combine_chunks()
        return pa.chunked_array([pa.StructArray.from_arrays([pc.struct_field(flat, one) for one in kept], kept)])
    return column


def _find_first(one: pa.ChunkedArray, other: pa.ChunkedArray) -> int | None:
    """The first place where two columns differ, in half as many rows each time; NaN is as NaN."""
    size = min(len(one), len(other))
    if _are_alike(one, other, 0, size):
        return None if len(one) == len(other) else size
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _are_alike(one, other, low, middle) else (low, middle)
    return low


def _are_alike(one: pa.ChunkedArray, other: pa.ChunkedArray, low: int, high: int) -> bool:
    mine, theirs = (each.slice(low, high - low) for each in (one, other))
    return column_hashes.mark(mine) == column_hashes.mark(theirs)


def _value(column: pa.ChunkedArray, row: int) -> Any:
    if row >= len(column):
        return None
    return plain_rows(pa.table({"x": column.slice(row, 1)}))[0]["x"]
