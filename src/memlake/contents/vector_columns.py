"""Columns of vectors in a table file: what a row-by-row diff cannot say of them, how far they moved.

A column of lists of floats counts as vectors if all its lists are equally long and not short: four floats are a box.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.read_tables import open_table
from memlake.contents.tables import diff
from memlake.rows.compare import Side, TableDiff
from memlake.rows.vector_map import VectorMap, map_vectors
from memlake.rows.vectors import EmbeddingDiff, Matches, Vectors, compare_vectors, match_ids, match_places

_WIDTH = 8
_LINE = 1 << 20
_LARGEST = 4 << 30
_MODELS = ("model", "model_name", "embedding_model")
_TYPES = {"halffloat": "F16", "float": "F32", "double": "F64"}


def diff_more(old: Content, new: Content, how: How, record: TableDiff) -> tuple[EmbeddingDiff, ...]:
    """A record for each column of vectors that differs, its rows told apart as those of the table."""
    return tuple(found for *_, found in _compare_columns(old, new, how, record))


def sketch(old: Content, new: Content, how: How) -> VectorMap:
    """The first column of vectors that differs, to be drawn."""
    for was, now, matches, found in _compare_columns(old, new, how, diff(old, new, how)):
        if found.old_dimension == found.new_dimension:
            return map_vectors(was, now, matches or match_ids(was.ids, now.ids)[0], found)
    raise Unreadable(f"{new.path} cannot be drawn, because no column of vectors differs in it")


Compared = tuple[Vectors, Vectors, Matches | None, EmbeddingDiff]


def _compare_columns(old: Content, new: Content, how: How, record: TableDiff) -> Iterator[Compared]:
    if not (_may_have_lists(old) and _may_have_lists(new)):
        return
    with open_table(old) as before, open_table(new) as after:
        touched = {*record.cells, *(change.name for change in record.columns)}
        for name in after.schema.names:
            if not (_may_hold_vectors(before, name) and _may_hold_vectors(after, name)):
                continue
            if not (record.added or record.removed or name in touched):
                continue
            was, now = (_read_column(side, name, record.key.columns) for side in (before, after))
            if was is None or now is None:
                continue
            by = ", ".join(record.key.columns)
            matches = None if by else match_places(was.matrix, now.matrix)
            found = compare_vectors(
                was, now, ids_from=f"column {by}" if by else "the number of the row", limit=how.limit, matches=matches
            )
            if not found.is_empty:
                yield was, now, matches, found._replace(column=name)


def _may_have_lists(content: Content) -> bool:
    """Whether it is worth reading a second time: CSV has no lists, and lines of JSON show theirs in the first."""
    if content.suffix not in ("jsonl", "ndjson"):
        return content.suffix not in ("csv", "tsv", "tab")
    try:
        first = json.loads(content.read(_LINE).lstrip().partition(b"\n")[0])
    except ValueError:
        return False
    values = first.values() if isinstance(first, dict) else ()
    return any(isinstance(value, list) and len(value) >= _WIDTH for value in values)


def _may_hold_vectors(side: Side, name: str) -> bool:
    at = side.schema.get_field_index(name)
    kind = side.schema.field(at).type if at >= 0 else None
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind is not None and any(check(kind) for check in checks) and str(kind.value_type) in _TYPES


def _read_column(side: Side, name: str, key: tuple[str, ...]) -> Vectors | None:
    """The vectors of a column with their ids; None if the lists are not vectors. A row without a vector has no id."""
    models = [other for other in _MODELS if other in side.schema.names]
    wanted = list(dict.fromkeys((name, *key, *models[:1])))
    tables = [piece.read(wanted) for piece in side.pieces]
    if not tables:
        return None
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table[name]))
    column = table[name].combine_chunks()
    lists = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if not len(lists):
        return None
    lengths = pc.min_max(pc.list_value_length(lists)).as_py()
    if lengths["min"] != lengths["max"] or lengths["min"] < _WIDTH:
        return None
    values = lists.flatten()
    if values.null_count or values.nbytes > _LARGEST:
        return None
    matrix = np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).reshape(len(lists), -1)
    ids = [str(row) for row in range(len(lists))]
    if key:
        parts = [map(str, table[part].to_pylist()) for part in key]
        ids = [", ".join(names) for names in zip(*parts, strict=True)]
    return Vectors(ids, matrix, _TYPES[str(lists.type.value_type)], _find_model(table, models, side.schema))


def _find_model(table: pa.Table, models: list[str], schema: pa.Schema) -> str:
    """The model that a column names the same in every row, or a note of the file."""
    for name in models[:1]:
        values = pc.unique(table[name]).to_pylist()
        if len(values) == 1 and isinstance(values[0], str):
            return values[0]
    notes: dict[bytes, Any] = schema.metadata or {}
    return next((notes[name.encode()].decode("utf-8", "replace") for name in _MODELS if name.encode() in notes), "")
