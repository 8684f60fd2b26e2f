"""Arrow arrays into Python values, column by column: structs are decoded child by child, never as row dicts.

What a value becomes is said by the annotation of the parameter that receives it (`want`), else by the field's own
metadata, else by its Arrow type. The array may come from any engine: its values are taken, the field explains them.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from memlake.dataset.types.classes import ANYTHING, bare, find, is_shape, members, records, shape_of
from memlake.dataset.types.field_metadata import JSON, class_of, is_list, show_type
from memlake.errors import InvalidInput

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE: Final = datetime(1970, 1, 1)  # noqa: DTZ001 -- a column without a zone has naive times
Column = list[Any]
CONTAINERS: Final = (list, tuple, set, frozenset, dict, np.ndarray, Sequence, Iterable, Collection)
MADE: Final[dict[Any, Callable[[Any], Any]]] = {
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    np.ndarray: np.asarray,
}


def decode(field: pa.Field, array: pa.Array | pa.ChunkedArray, want: Any = None) -> Column:
    """The values of a column as Python objects, one for each row."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in decode(field, chunk, want)]
    array = _readable(array)
    if not array.null_count:
        return _decode_present(field, array, want)
    if array.null_count == len(array):
        return [None] * len(array)
    values = iter(_decode_present(field, array.drop_null(), want))
    return [next(values) if there else None for there in array.is_valid().to_numpy(zero_copy_only=False).tolist()]


def _readable(array: pa.Array) -> pa.Array:
    """The same values in a type that can be filtered and sliced."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _readable(array.storage)
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    plain = {"string_view": pa.string(), "binary_view": pa.binary()}.get(str(kind))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.array(array.to_pylist(), pa.list_(kind.value_field))  # pyarrow 26 casts those with nulls wrongly
    return array.cast(plain) if plain else array


def _decode_present(field: pa.Field, array: pa.Array, want: Any) -> Column:
    """The values of a column without nulls."""
    kind = array.type
    wanted, _ = bare(want)
    if wanted in ANYTHING or isinstance(wanted, typing.TypeVar):
        target, args = find(class_of(field)), ()
    else:
        target, args = typing.get_origin(wanted) or wanted, typing.get_args(wanted)  # Type[args]
    if pa.types.is_struct(kind):
        target = target if target in (dict, tuple) or is_shape(target) else find(class_of(field))
        return _decode_structs(field, array, target, args)
    if pa.types.is_map(kind):
        return _decode_maps(field, array, args)
    if is_list(kind) or pa.types.is_fixed_size_list(kind):
        target = target if target in CONTAINERS else find(class_of(field))
        return _decode_lists(field, array, target, args)
    return _apply_class(field, _decode_plain(field, array), target)


# -- plain values


def _decode_plain(field: pa.Field, array: pa.Array) -> Column:
    kind = array.type
    if pa.types.is_interval(kind):  # what DuckDB makes of a duration
        return [
            timedelta(days=one.months * 30 + one.days, microseconds=one.nanoseconds // 1000)
            for one in array.to_pylist()
        ]
    if pa.types.is_integer(kind) and pa.types.is_duration(field.type):  # what Parquet readers make of one
        return _decode_plain(field, array.cast(field.type))
    if pa.types.is_timestamp(kind):
        return _decode_moments(array, (field.type if pa.types.is_timestamp(field.type) else kind).tz)
    if pa.types.is_duration(kind):
        return array.cast(pa.duration("us"), safe=False).to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    if pa.types.is_time(kind) or pa.types.is_decimal(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _decode_moments(array: pa.Array, zone: str | None) -> Column:
    """datetime plus timedelta is 30 times faster than to_pylist, which asks for the zone at each value.

    The zone is the field's: an engine may hand the same moments over in the zone of its session.
    """
    if zone not in (None, "UTC", "Etc/UTC"):
        return array.to_pylist()  # type: ignore[no-any-return]
    start = EPOCH if zone else NAIVE
    spans = array.cast(pa.timestamp("us", array.type.tz), safe=False).to_numpy(zero_copy_only=False).view("m8[us]")
    return list(map(start.__add__, spans.tolist()))


def _apply_class(field: pa.Field, values: Column, target: Any) -> Column:
    """Values that are stored as one plain value, as their class."""
    if class_of(field) == JSON:
        if target is str:
            return values
        dicts = list(map(json.loads, values))
        if not is_shape(target):
            return dicts
        build = shape_of(target).build  # each has its own keys, so they are built one by one
        return _build(field, target, lambda: [build(list(row), [[one] for one in row.values()])[0] for row in dicts])
    if target is UUID:
        return [UUID(value) if isinstance(value, str) else value for value in values]
    if isinstance(target, type) and issubclass(target, Enum):
        known = members(target)
        return [known.get(value, value) for value in values]
    return values


# -- structs


def _decode_structs(field: pa.Field, array: pa.Array, target: Any, args: tuple[Any, ...]) -> Column:
    names = [child.name for child in array.type]
    if is_shape(target):
        return _decode_shape(field, array, target)
    if target is tuple:
        wants = dict(zip(names, args, strict=False))
        return list(zip(*_decode_children(field, array, wants), strict=True))
    if target is dict or not class_of(field):
        wants = dict.fromkeys(names, target)
        return [dict(zip(names, row, strict=True)) for row in zip(*_decode_children(field, array, wants), strict=True)]
    return records(class_of(field), names, _decode_children(field, array, {}))


def _decode_children(field: pa.Field, array: pa.Array, wants: Mapping[str, Any]) -> list[Column]:
    fields = {child.name: child for child in field.type} if pa.types.is_struct(field.type) else {}
    return [
        decode(fields.get(child.name, child), array.field(place), wants.get(child.name))
        for place, child in enumerate(array.type)
    ]


def _decode_shape(field: pa.Field, array: pa.Array, cls: type) -> Column:
    shape, names = shape_of(cls), [child.name for child in array.type]
    is_recorded = find(class_of(field)) is cls
    if missing := sorted(shape.required.difference(names)):
        # The class asks for what the column lacks: an error only if it was asked for, and not just recorded
        if is_recorded:
            return records(class_of(field), names, _decode_children(field, array, {}))
        raise InvalidInput(
            f"column {field.name!r} has {', '.join(names)}, and {cls.__name__} needs {', '.join(missing)}.",
            hint=f"Take it as {show_type(field)}, or as dict.",
        )
    kept = [name for name in names if name in shape.hints]
    columns = dict(zip(names, _decode_children(field, array, shape.hints), strict=True))
    build = (is_recorded and shape.restore) or shape.build
    return _build(field, cls, lambda: build(kept, [columns[name] for name in kept]))


def _build(field: pa.Field, cls: type, build: Callable[[], Column]) -> Column:
    try:
        return build()
    except (TypeError, ValueError) as error:  # pydantic's ValidationError is a ValueError
        raise InvalidInput(
            f"column {field.name!r} has a row that {cls.__name__} refuses: {error}",
            hint="Take the column as dict, or change the class back to what it was when the rows were saved.",
        ) from error


# -- lists and maps


def _items(array: pa.Array) -> tuple[pa.Array, list[int]]:
    """The values of all rows one after the other, and where each row starts and the last one ends."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size), [size * row for row in range(len(array) + 1)]
    starts = array.offsets.to_numpy()
    return array.values.slice(starts[0], starts[-1] - starts[0]), (starts - starts[0]).tolist()


def _decode_lists(field: pa.Field, array: pa.Array, target: Any, args: tuple[Any, ...]) -> Column:
    items, starts = _items(array)
    kind = items.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if target is np.ndarray and not items.null_count and is_number:
        # Rows of one copy of the column: theirs to change, without a copy each
        numbers = np.array(items.to_numpy(zero_copy_only=False))
        return [numbers[start:end] for start, end in pairwise(starts)]
    item = (
        field.type.value_field
        if is_list(field.type) or pa.types.is_fixed_size_list(field.type)
        else array.type.value_field
    )
    inner = args[0] if args and target is not np.ndarray else (target if target is dict else None)
    flat = decode(item, items, inner)
    rows: Column = [flat[start:end] for start, end in pairwise(starts)]
    container = MADE.get(target)
    return list(map(container, rows)) if container else rows


def _decode_maps(field: pa.Field, array: pa.Array, args: tuple[Any, ...]) -> Column:
    kind = field.type if pa.types.is_map(field.type) else array.type
    starts = array.offsets.to_numpy()
    first, count = starts[0], starts[-1] - starts[0]
    wants = args if len(args) == 2 else (None, None)
    keys = decode(kind.key_field, array.keys.slice(first, count), wants[0])
    items = decode(kind.item_field, array.items.slice(first, count), wants[1])
    pairs, edges = list(zip(keys, items, strict=True)), (starts - first).tolist()
    return [dict(pairs[start:end]) for start, end in pairwise(edges)]
