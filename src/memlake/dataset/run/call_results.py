"""What a function answered, put together: batches and fragments in one type, among the rows they belong to.

A function that does not say what it returns may show whole numbers in one batch and fractions in the next. What it
returned is then read again and given one type that holds all of it: the same whichever rows came from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from memlake.dataset.parts import column_hashes
from memlake.dataset.parts.frames import Family
from memlake.dataset.run.call_work import ROWS
from memlake.dataset.types import arrow
from memlake.dataset.types.field_metadata import is_unknown
from memlake.named_tuple import NamedTuple

Array = np.ndarray[Any, Any]


class Answer(NamedTuple):
    """What a function made of a fragment: a family, its fields, and which of its rows failed."""

    family: Family
    fields: tuple[pa.Field, ...]
    failed: Mapping[int, str] = {}


def rename(table: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """A table under the names of these fields: the same answers may be remembered under others."""
    schema = pa.schema([old.with_name(new.name) for old, new in zip(table.schema, fields, strict=True)])
    return pa.Table.from_arrays(table.columns, schema=schema)


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(unify(tables))


def unify(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Tables in one schema."""
    first = tables[0].schema
    if all(table.schema.equals(first, check_metadata=True) for table in tables[1:]):
        return list(tables)
    if first.names == [ROWS]:
        lists = [column_hashes.whole(table.column(0)) for table in tables]
        out = []
        for array, flat in zip(lists, unify([flatten(one) for one in lists]), strict=True):
            rows = pa.StructArray.from_arrays([column_hashes.whole(c) for c in flat.columns], fields=list(flat.schema))
            lengths = np.asarray(array.value_lengths().fill_null(0))
            offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
            made = pa.ListArray.from_arrays(offsets, rows, mask=array.is_null() if array.null_count else None)
            out.append(pa.table([made], schema=pa.schema([pa.field(ROWS, made.type)])))
        return out
    columns = [
        _one_type([(t.schema.field(i), column_hashes.whole(t.column(i))) for t in tables]) for i in range(len(first))
    ]
    schema = pa.schema([made for made, _ in columns])
    return [pa.Table.from_arrays([arrays[i] for _, arrays in columns], schema=schema) for i in range(len(tables))]


def _one_type(parts: Sequence[tuple[pa.Field, pa.Array]]) -> tuple[pa.Field, list[pa.Array]]:
    """A column that came in several types, in one."""
    known = [made for made, _ in parts if not pa.types.is_null(made.type)]
    if not known:
        return next((made for made, _ in parts if not is_unknown(made)), parts[0][0]), [array for _, array in parts]
    if all(made.equals(known[0], check_metadata=True) for made in known[1:]):
        made = known[0]
        return made, [pa.nulls(len(a), made.type) if pa.types.is_null(f.type) else a for f, a in parts]
    values = [arrow.decode(made, array) for made, array in parts]
    made = arrow.infer_field(known[0].name, [value for column in values for value in column])
    return made, [arrow.encode(made, column) for column in values]


def flatten(lists: pa.ListArray) -> pa.Table:
    """The rows of lists, without the lists."""
    made = lists.flatten()
    return pa.Table.from_arrays(made.flatten(), schema=pa.schema(list(made.type)))


def scatter(table: pa.Table, mask: Array) -> pa.Table:
    """Answers for the kept rows, placed among all rows of their fragment."""
    places = np.cumsum(mask) - 1
    return table.take(pa.array(places, mask=~mask))
