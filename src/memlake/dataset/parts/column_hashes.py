"""Marks: the hash of what an Arrow column says, whatever buffers, offsets and padding it says it with."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Hasher = Any  # hashlib names no type for it


def mark(column: pa.Array | pa.ChunkedArray) -> str:
    """Equal for equal values and type, in any process and with any writer."""
    array = whole(column)
    digest = hashlib.sha256(f"{type_text(array.type)}:{len(array)}".encode())
    _hash_values(digest, array)
    return digest.hexdigest()[:32]


def of(*parts: object) -> str:
    """The hash of a few plain values, each told apart from its neighbours."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:32]


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def type_text(kind: pa.DataType) -> str:
    """A type as text, without the names of list items, which engines choose as they like."""
    if pa.types.is_fixed_size_list(kind):
        return f"{type_text(kind.value_type)}[{kind.list_size}]"
    if pa.types.is_list(kind):
        return f"list<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name!r}:{type_text(f.type)}" for f in kind) + ">"
    return str(kind)


def _hash_values(digest: Hasher, array: pa.Array) -> None:
    valid = np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes() if array.null_count else b""
    digest.update(b"n" + valid if valid else b"-")  # always a sign, so that no values can look like one
    kind = array.type
    if pa.types.is_null(kind) or not len(array):
        return
    if pa.types.is_struct(kind):
        for child in array.flatten():
            _hash_values(digest, child)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
        lengths = np.diff(offsets)
        if array.null_count:
            lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
        digest.update(bytes(lengths.astype(np.int32).data))
        if pa.types.is_map(kind):  # null ones have no items
            entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
            array = (array.drop_null() if array.null_count else array).cast(pa.list_(entry))
        _hash_values(digest, array.flatten())
    elif pa.types.is_fixed_size_list(kind):
        _hash_values(digest, array.flatten() if not array.null_count else array.drop_null().flatten())
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        _hash_texts(digest, array)
    else:
        _hash_fixed(digest, array)


def _hash_texts(digest: Hasher, array: pa.Array) -> None:
    if array.null_count:
        array = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    digest.update(np.ascontiguousarray(np.diff(offsets)).data)
    if array.buffers()[2] is not None and len(array):
        digest.update(memoryview(array.buffers()[2])[offsets[0] : offsets[-1]])


def _hash_fixed(digest: Hasher, array: pa.Array) -> None:
    if pa.types.is_boolean(array.type):
        values = pc.fill_null(array, False) if array.null_count else array
        digest.update(np.packbits(values.to_numpy(zero_copy_only=False)).tobytes())
        return
    width = array.type.bit_width // 8
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width) if len(array) else b""
    if array.null_count:  # what lies under a null is anybody's guess
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        raw = np.where(valid[:, None], np.asarray(raw).reshape(len(array), width), 0).astype(np.uint8)
    digest.update(np.ascontiguousarray(raw).data if len(array) else b"")
