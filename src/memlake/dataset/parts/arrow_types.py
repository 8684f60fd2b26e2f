"""The Arrow types we keep: one spelling of each, whatever a library, an engine or a function hands over."""

from __future__ import annotations

import pyarrow as pa

from memlake.dataset.parts import parquet
from memlake.errors import InvalidInput


def plain(table: pa.Table) -> pa.Table:
    """A table in the types we keep: no dictionaries, views or large offsets, unique names."""
    seen = [name for name in table.column_names if table.column_names.count(name) > 1]
    if seen:
        raise InvalidInput(f"there are two columns {seen[0]!r}.")
    schema = pa.schema([one.with_type(plain_type(one.type)) for one in table.schema])
    return parquet.fit_schema(table, schema)


def plain_type(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if t.is_float16(kind):
        return pa.float32()
    if t.is_decimal256(kind):
        return pa.decimal128(min(kind.precision, 38), kind.scale)
    if t.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if t.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if t.is_fixed_size_list(kind):
        return pa.list_(_item(kind), kind.list_size)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_list_view(kind) or t.is_large_list_view(kind):
        return pa.list_(_item(kind))
    if t.is_struct(kind):
        return pa.struct([one.with_type(plain_type(one.type)) for one in kind])
    if t.is_map(kind):
        item = kind.item_field
        return pa.map_(plain_type(kind.key_type), item.with_type(plain_type(item.type)))
    if t.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return kind


def _item(kind: pa.DataType) -> pa.Field:
    return pa.field("item", plain_type(kind.value_type), metadata=kind.value_field.metadata)


def is_told_as(known: pa.DataType, seen: pa.DataType) -> bool:
    """Whether values of a type may come back from the engine as of another: it has no vectors in files, for one."""
    t = pa.types
    if is_list(seen):
        return is_list(known) and is_told_as(known.value_type, seen.value_type)
    if t.is_struct(seen) and t.is_struct(known) and known.names == seen.names:
        return all(is_told_as(a.type, b.type) for a, b in zip(known, seen, strict=True))
    if t.is_map(seen) or t.is_null(seen):
        return bool(t.is_null(seen) or t.is_map(known))
    odd = pa.int64() if t.is_duration(known) else pa.float32() if t.is_float16(known) else None
    return bool(known.equals(seen)) or odd == seen


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))
