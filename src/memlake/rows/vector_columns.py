"""Columns of vectors in Arrow tables: which column may hold them, and their values with ids. Knows no file, no dataset.

A column of lists of floats counts as vectors if all its lists are equally long and not short: four floats are a box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake.named_tuple import NamedTuple
from memlake.rows.compare import Side, TableDiff, add_inner
from memlake.rows.vectors import EmbeddingDiff, Matches, Vectors, compare_vectors, match_places

WIDTH = 8  # numbers that a vector has at least
_LARGEST = 4 << 30
_MODELS = ("model", "model_name", "embedding_model")
_TYPES = {"halffloat": "F16", "float": "F32", "double": "F64"}


def may_hold_vectors(schema: pa.Schema, name: str) -> bool:
    """Whether a column has lists of floats."""
    at = schema.get_field_index(name)
    kind = schema.field(at).type if at >= 0 else None
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind is not None and any(check(kind) for check in checks) and str(kind.value_type) in _TYPES


def find_model_column(schema: pa.Schema) -> str | None:
    """The column that names the model of the vectors."""
    return next((name for name in _MODELS if name in schema.names), None)


class ComparedColumn(NamedTuple):
    """Both sides of a column of vectors, which of them are the same, and what differs."""

    old: Vectors
    new: Vectors
    matches: Matches | None  # None: those with the same id
    record: EmbeddingDiff


def compare_columns(old: Side, new: Side, table: TableDiff, *, limit: int | None = 10) -> Iterator[ComparedColumn]:
    """Each column of vectors that differs. Which row is which, `table` says, the diff of these sides."""
    touched = {*table.cells, *(change.name for change in table.columns)}
    by = ", ".join(table.key.columns)
    for name in new.schema.names:
        if not (may_hold_vectors(old.schema, name) and may_hold_vectors(new.schema, name)):
            continue
        if not (table.added or table.removed or name in touched):
            continue
        was, now = (_read_column(side, name, table.key.columns) for side in (old, new))
        if was is None or now is None:
            continue
        matches = None if by else match_places(was.matrix, now.matrix)
        ids = f"column {by}" if by else "the number of the row"
        record = compare_vectors(was, now, ids_from=ids, limit=limit, matches=matches)
        if not record.is_empty:
            yield ComparedColumn(was, now, matches, record._replace(column=name))


def _read_column(side: Side, name: str, key: tuple[str, ...]) -> Vectors | None:
    wanted = list(dict.fromkeys(filter(None, (name, *key, find_model_column(side.schema)))))
    tables = [piece.read(wanted) for piece in add_inner(side, key).pieces]
    if not tables:
        return None
    return take_vectors(pa.concat_tables(tables).replace_schema_metadata(side.schema.metadata), name, key)


def take_vectors(table: pa.Table, name: str, keys: Sequence[str]) -> Vectors | None:
    """The vectors of a column with their ids, joined of the columns `keys`, or the numbers of the rows; None if the
    lists are not vectors. A row without a vector has no id. `table` has these columns and that of the model.
    """
    table = table.filter(pc.is_valid(table[name]))
    column = table[name].combine_chunks()
    lists = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if not len(lists):
        return None
    lengths = pc.min_max(pc.list_value_length(lists)).as_py()
    if lengths["min"] != lengths["max"] or lengths["min"] < WIDTH:
        return None
    values = lists.flatten()
    if values.null_count or values.nbytes > _LARGEST:
        return None
    matrix = np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).reshape(len(lists), -1)
    ids = [str(row) for row in range(len(lists))]
    if keys:
        ids = [", ".join(names) for names in zip(*(map(str, table[key].to_pylist()) for key in keys), strict=True)]
    return Vectors(ids, matrix, _TYPES[str(lists.type.value_type)], _find_model(table))


def _find_model(table: pa.Table) -> str:
    """The model that a column names the same in every row, or a note of the file."""
    column = find_model_column(table.schema)
    values = pc.unique(table[column]).to_pylist() if column else []
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    notes: dict[bytes, bytes] = table.schema.metadata or {}
    return next((notes[name.encode()].decode("utf-8", "replace") for name in _MODELS if name.encode() in notes), "")
