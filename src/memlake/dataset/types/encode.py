"""Python values into Arrow arrays, column by column. A value that does not fit says its row and both types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from memlake.dataset.types.classes import Record, find, is_shape, is_typed_dict, members, plain
from memlake.dataset.types.field_metadata import JSON, class_of, is_list, show_type, values_of
from memlake.dataset.types.files import File
from memlake.errors import InvalidInput

Values = Sequence[Any]
MANY: Final = (list, tuple, set, frozenset, np.ndarray)
REFUSED: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)


class Misfit(Exception):
    """A value that does not fit, on its way up to the column that can say its row."""

    def __init__(self, row: int, value: Any, expected: str, *, inside: str = "", why: str = "") -> None:
        super().__init__(row, value, expected)
        self.row, self.value, self.expected, self.inside, self.why = row, value, expected, inside, why

    def within(self, step: str, row: int) -> Misfit:
        return Misfit(row, self.value, self.expected, inside=step + self.inside, why=self.why)


def encode(field: pa.Field, values: Values | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as an array of the field's type; InvalidInput for a value that does not fit."""
    try:
        return _encode(field, values)
    except Misfit as misfit:
        raise _error(field, misfit) from misfit


def _error(field: pa.Field, misfit: Misfit) -> InvalidInput:
    kind = type(misfit.value).__name__
    why = f" ({misfit.why})" if misfit.why else ""
    text = repr(misfit.value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return InvalidInput(
        f"row {misfit.row} of column {field.name + misfit.inside!r} is {kind} {text}, "
        f"and the column holds {misfit.expected}{why}. None of these rows were kept.",
        hint=f"Return {misfit.expected} there, or declare the type that fits every row.",
    )


def _encode(field: pa.Field, values: Any) -> pa.Array:
    kind = field.type
    if isinstance(values, pa.Array | pa.ChunkedArray):
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        try:
            return array if array.type == kind else array.cast(kind)
        except pa.ArrowException as error:
            raise Misfit(0, array, show_type(field), why=str(error)) from error
    if isinstance(values, np.ndarray):
        return _encode_array(field, values)
    if pa.types.is_dictionary(kind):
        return _encode(field.with_type(kind.value_type), values).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        return _encode_structs(field, values)
    if pa.types.is_fixed_size_list(kind):
        return _encode_vectors(field, values)
    if pa.types.is_map(kind):
        return _encode_maps(field, values)
    return _encode_lists(field, values) if is_list(kind) else _encode_leaves(field, values)


# -- plain values


def _encode_array(field: pa.Field, values: np.ndarray[Any, Any]) -> pa.Array:
    """A whole numpy column: numbers without a Python object in between, cast where no number changes."""
    kind = field.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if values.dtype.kind not in "biuf" or not is_number or values.ndim != 1:
        is_matrix = pa.types.is_fixed_size_list(kind) and values.ndim == 2 and values.dtype.kind != "O"
        return _encode_vectors(field, values) if is_matrix else _encode(field, list(values))
    if len(values) and not _allowed_classes(field.type)(values.dtype.type):
        raise Misfit(0, values[0], show_type(field))
    try:
        return pa.array(values).cast(field.type)
    except pa.ArrowException:
        return _encode_leaves(field, list(values))


def _encode_leaves(field: pa.Field, values: Values) -> pa.Array:
    ready = _as_stored(field, values)
    # The set of types is taken first: 3 ms for 100k values, where a loop takes 20
    fits = _allowed_classes(field.type)
    wrong = {kind for kind in set(map(type, ready)) if kind is not type(None) and not fits(kind)}
    if wrong:
        row = next(row for row, value in enumerate(ready) if type(value) in wrong)
        raise Misfit(row, ready[row], show_type(field))
    known = values_of(field)
    if known is not None and not set(ready) <= {*known, None}:
        row = next(row for row, value in enumerate(ready) if value is not None and value not in known)
        raise Misfit(row, ready[row], show_type(field), why=f"it may be {', '.join(map(repr, known))}")
    try:
        return pa.array(ready, field.type)
    except REFUSED:
        for row, value in enumerate(ready):  # which one is it?
            try:
                pa.array([value], field.type)
            except REFUSED as error:
                raise Misfit(row, value, show_type(field), why=str(error).splitlines()[0]) from None
        raise Misfit(0, ready, show_type(field), why="the rows do not fit together") from None


def _is(*kinds: type, but: tuple[type, ...] = ()) -> Callable[[type], bool]:
    return lambda kind: issubclass(kind, kinds) and not issubclass(kind, but)


ALLOWED: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[type], bool]], ...]] = (
    (pa.types.is_boolean, _is(bool, np.bool_)),
    (pa.types.is_integer, _is(int, np.integer, but=(bool,))),
    (pa.types.is_floating, _is(int, float, np.integer, np.floating, but=(bool,))),
    (lambda kind: "string" in str(kind), _is(str)),
    (lambda kind: "binary" in str(kind), _is(bytes, bytearray, memoryview)),
    (pa.types.is_timestamp, _is(datetime, np.datetime64)),
    (pa.types.is_date, _is(date, np.datetime64, but=(datetime,))),
    (pa.types.is_time, _is(time)),
    (pa.types.is_duration, _is(timedelta, np.timedelta64)),
    (pa.types.is_decimal, _is(Decimal, int, but=(bool,))),
    (pa.types.is_null, _is()),
)


def _allowed_classes(kind: pa.DataType) -> Callable[[type], bool]:
    return next((fits for is_kind, fits in ALLOWED if is_kind(kind)), lambda _: True)


# -- values of classes that are stored as one plain value


def _as_stored(field: pa.Field, values: Values) -> Values:
    name = class_of(field)
    if name == JSON:
        return _convert_each(values, "JSON", lambda value: json.dumps(plain(value), ensure_ascii=False), explain=True)
    if name == "uuid:UUID":
        return _convert_each(values, "UUID", lambda value: str(value if isinstance(value, UUID) else UUID(value)))
    cls = find(name) if name else None
    if cls is not None and issubclass(cls, Enum):
        stored: dict[Any, Any] = {member: key for key, member in members(cls).items()}
        stored |= {key: key for key in members(cls)}
        return _convert_each(values, cls.__name__, stored.__getitem__)
    if pa.types.is_time(field.type) or field.type == pa.timestamp("us"):
        for row, value in enumerate(values):
            if getattr(value, "tzinfo", None) is not None:
                is_time = isinstance(value, time)
                why = "a time of day keeps no zone" if is_time else "the times of this column have no zone"
                raise Misfit(row, value, show_type(field), why=why)
    if not pa.types.is_temporal(field.type):
        return values
    # numpy's times as Python's: pyarrow takes them only in the unit of the column
    kinds = {np.datetime64: "M8[D]" if pa.types.is_date(field.type) else "M8[us]", np.timedelta64: "m8[us]"}
    if kinds.keys().isdisjoint(set(map(type, values))):
        return values
    return [value.astype(kinds[type(value)]).item() if type(value) in kinds else value for value in values]


def _convert_each(values: Values, expected: str, convert: Callable[[Any], Any], *, explain: bool = False) -> Values:
    converted: list[Any] = []
    try:
        for value in values:
            converted.append(None if value is None else convert(value))  # noqa: PERF401  its length tells the row
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        row = len(converted)
        raise Misfit(row, values[row], expected, why=str(error) if explain else "") from error
    return converted


def _encode_structs(field: pa.Field, values: Values) -> pa.Array:
    children = list(field.type)
    names = tuple(child.name for child in children)
    getters = {kind: _getter(field, kind, names) for kind in set(map(type, values))}
    rows = []
    for row, value in enumerate(values):
        get = getters[type(value)]
        attributes = get(value) if get else None  # in the order of the field
        if attributes is None:
            raise Misfit(row, value, show_type(field))
        rows.append(attributes)
    arrays = []
    for child, column in zip(children, zip(*rows, strict=True) if rows else [()] * len(children), strict=True):
        try:
            arrays.append(_encode(child, column))
        except Misfit as misfit:
            raise misfit.within(f".{child.name}", misfit.row) from None
    missing = [value is None for value in values]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.StructArray.from_arrays(arrays, fields=children, mask=mask)


def _getter(field: pa.Field, kind: type, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...] | None] | None:
    """How the attributes of one class of values are read; None when the class does not fit the field."""
    name = class_of(field)
    if kind is type(None):
        return lambda _: (None,) * len(names)
    if issubclass(kind, Mapping):
        allowed = frozenset(names)
        return lambda value: tuple(map(value.get, names)) if value.keys() <= allowed else None
    if name == "builtins:tuple":
        return (lambda value: tuple(value) if len(value) == len(names) else None) if issubclass(kind, tuple) else None
    cls = find(name)
    fits = (
        issubclass(kind, File)
        if name.startswith("memlake:")
        else cls is None or (kind is Record or (not is_typed_dict(cls) and issubclass(kind, cls)))
    )
    if not (fits and (kind is Record or is_shape(kind))):
        return None
    # attrgetter of one name gives the value itself, not a tuple of one
    return attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)


# -- lists and maps


def _offsets(lengths: Sequence[int], values: Values) -> pa.Array:
    """Where each row starts; a null offset marks a null row."""
    starts = np.fromiter(accumulate(lengths, initial=0), np.int64, len(lengths) + 1)
    missing = np.fromiter((value is None for value in values), bool, len(values))
    return pa.array(starts.astype(np.int32), mask=np.append(missing, False))


def _encode_maps(field: pa.Field, values: Values) -> pa.Array:
    for row, value in enumerate(values):
        if not isinstance(value, Mapping | None):
            raise Misfit(row, value, show_type(field))
    lengths = [len(value or ()) for value in values]
    kind = field.type
    keys = [key for value in values for key in value or ()]
    try:
        if None in keys:
            raise Misfit(keys.index(None), None, show_type(kind.key_field), why="a key is never None")
        encoded = _encode(kind.key_field, keys)
        items = _encode(kind.item_field, [item for value in values for item in (value or {}).values()])
    except Misfit as misfit:
        raise misfit.within("{}", _row_of(misfit.row, lengths)) from None
    return pa.MapArray.from_arrays(_offsets(lengths, values), encoded, items, type=kind)


def _encode_lists(field: pa.Field, values: Values) -> pa.Array:
    _check_many(field, values)
    lengths = [0 if value is None else len(value) for value in values]
    present = [value for value in values if value is not None]
    item = field.type.value_field
    all_arrays = bool(present) and all(isinstance(value, np.ndarray) for value in present)
    try:
        flat = _encode(item, np.concatenate(present) if all_arrays else list(chain.from_iterable(present)))
    except Misfit as misfit:
        raise misfit.within("[]", _row_of(misfit.row, lengths)) from None
    lists = pa.ListArray.from_arrays(_offsets(lengths, values), flat, type=pa.list_(item))
    if pa.types.is_list_view(field.type) or pa.types.is_large_list_view(field.type):
        return pa.array(lists.to_pylist(), field.type)
    return lists if lists.type == field.type else lists.cast(field.type)


def _check_many(field: pa.Field, values: Values) -> None:
    for kind in set(map(type, values)):
        if kind is not type(None) and not issubclass(kind, MANY):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise Misfit(row, values[row], show_type(field))
    for row, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.ndim != 1:
            raise Misfit(row, value, show_type(field), why=f"its shape is {value.shape}; flatten it with .ravel()")


def _row_of(position: int, lengths: Sequence[int]) -> int:
    return int(np.searchsorted(np.cumsum(lengths), position, side="right"))


# -- vectors


def _encode_vectors(field: pa.Field, values: Any) -> pa.Array:
    """Rows of one length, stacked by numpy: no Python number is made of what came as an array."""
    kind = field.type
    if not pa.types.is_floating(kind.value_type):
        return _encode_lists(field, values)
    missing = np.fromiter((value is None for value in values), bool, len(values))
    size, fits = kind.list_size, _allowed_classes(kind.value_type)
    _check_many(field, values)
    for row, value in enumerate(values):
        if value is not None and len(value) != size:
            raise Misfit(row, value, show_type(field), why=f"it has {len(value)} numbers, not {size}")
        # numpy would turn text, True and None into numbers silently
        classes = {value.dtype.type} if isinstance(value, np.ndarray) else set(map(type, value or ()))
        for cls in classes:
            if not fits(cls):
                wrong = next(one for one in value if isinstance(one, cls))
                raise Misfit(row, wrong, show_type(kind.value_field), inside="[]")
    empty = np.zeros(size)
    rows = [empty if value is None else value for value in values] if missing.any() else values
    dtype = kind.value_type.to_pandas_dtype()
    flat = np.asarray(rows, dtype).reshape(-1) if len(rows) else np.zeros(0, dtype)
    mask = pa.array(missing) if missing.any() else None
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=kind, mask=mask)
