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
        return _cast(field, values)
    if isinstance(values, np.ndarray):
        return _whole(field, values)
    if pa.types.is_dictionary(kind):
        return _encode(field.with_type(kind.value_type), values).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        children = list(field.type)
        # Each value as a tuple of its attributes, in the order of the field
        names = tuple(child.name for child in children)
        getters = {kind: _getter(field, kind, names) for kind in set(map(type, values))}
        rows = []
        for row, value in enumerate(values):
            get = getters[type(value)]
            found = get(value) if get else None
            if found is None:
                raise Misfit(row, value, show_type(field))
            rows.append(found)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(children)
        arrays = [_child(child, column) for child, column in zip(children, columns, strict=True)]
        missing = [value is None for value in values]
        return pa.StructArray.from_arrays(
            arrays, fields=children, mask=pa.array(missing, pa.bool_()) if any(missing) else None
        )
    if pa.types.is_fixed_size_list(kind):
        return _vectors(field, values)
    if pa.types.is_map(kind):
        wrong = next((row for row, value in enumerate(values) if not isinstance(value, Mapping | None)), None)
        if wrong is not None:
            raise Misfit(wrong, values[wrong], show_type(field))
        lengths = [len(value or ()) for value in values]
        kind = field.type
        try:
            keys = _keys(kind.key_field, [key for value in values for key in value or ()])
            items = _encode(kind.item_field, [item for value in values for item in (value or {}).values()])
        except Misfit as misfit:
            raise misfit.within("{}", _row_of(misfit.row, lengths)) from None
        return pa.MapArray.from_arrays(_offsets(lengths, values), keys, items, type=kind)
    return _lists(field, values) if is_list(kind) else _leaves(field, values)


def _cast(field: pa.Field, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    try:
        return array if array.type == field.type else array.cast(field.type)
    except pa.ArrowException as error:
        raise Misfit(0, array, show_type(field), why=str(error)) from error


# -- plain values


def _whole(field: pa.Field, values: np.ndarray[Any, Any]) -> pa.Array:
    """A whole numpy column: numbers without a Python object in between, cast where no number changes."""
    if values.dtype.kind not in "biuf" or not _is_primitive(field.type) or values.ndim != 1:
        return (
            _vectors(field, values)
            if (bool(pa.types.is_fixed_size_list(field.type)) and values.ndim == 2 and values.dtype.kind != "O")
            else _encode(field, list(values))
        )
    if len(values) and not _allowed_classes(field.type)(values.dtype.type):
        raise Misfit(0, values[0], show_type(field))
    try:
        return pa.array(values).cast(field.type)
    except pa.ArrowException:
        return _leaves(field, list(values))


def _is_primitive(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _leaves(field: pa.Field, values: Values) -> pa.Array:
    ready = _stored(field, values)
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
        raise _first_refused(field, ready) from None


def _first_refused(field: pa.Field, values: Values) -> Misfit:
    for row, value in enumerate(values):
        try:
            pa.array([value], field.type)
        except REFUSED as error:
            return Misfit(row, value, show_type(field), why=str(error).splitlines()[0])
    return Misfit(0, values, show_type(field), why="the rows do not fit together")


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


def _stored(field: pa.Field, values: Values) -> Values:
    name = class_of(field)
    if name == JSON:
        return [None if value is None else _json(row, value) for row, value in enumerate(values)]
    if name == "uuid:UUID":
        return [_uuid(row, value) for row, value in enumerate(values)]
    cls = find(name) if name else None
    if cls is not None and issubclass(cls, Enum):
        return _enums(cls, values)
    if pa.types.is_time(field.type) or field.type == pa.timestamp("us"):
        for row, value in enumerate(values):
            if getattr(value, "tzinfo", None) is not None:
                why = (
                    "a time of day keeps no zone"
                    if isinstance(value, time)
                    else "the times of this column have no zone"
                )
                raise Misfit(row, value, show_type(field), why=why)
    return _without_numpy_times(field, values) if pa.types.is_temporal(field.type) else values


def _json(row: int, value: Any) -> str:
    try:
        return json.dumps(plain(value), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise Misfit(row, value, "JSON", why=str(error)) from error


def _uuid(row: int, value: Any) -> str | None:
    if value is None:
        return None
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise Misfit(row, value, "UUID") from None


def _enums(cls: type[Enum], values: Values) -> Values:
    stored: dict[Any, Any] = {member: key for key, member in members(cls).items()}
    stored |= {key: key for key in members(cls)} | {None: None}
    try:
        return [stored[value] for value in values]
    except (KeyError, TypeError):
        row = next(row for row, value in enumerate(values) if value not in list(stored))
        raise Misfit(row, values[row], cls.__name__) from None


def _without_numpy_times(field: pa.Field, values: Values) -> Values:
    """numpy's times as Python's: pyarrow takes them only in the unit of the column."""
    unit = "D" if pa.types.is_date(field.type) else "us"
    kinds = {np.datetime64: f"M8[{unit}]", np.timedelta64: "m8[us]"}
    if kinds.keys().isdisjoint(set(map(type, values))):
        return values
    return [value.astype(kinds[type(value)]).item() if type(value) in kinds else value for value in values]


def _child(field: pa.Field, column: Values) -> pa.Array:
    try:
        return _encode(field, column)
    except Misfit as misfit:
        raise misfit.within(f".{field.name}", misfit.row) from None


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


def _lists(field: pa.Field, values: Values) -> pa.Array:
    _check_many(field, values)
    lengths = [0 if value is None else len(value) for value in values]
    present = [value for value in values if value is not None]
    item = field.type.value_field
    try:
        flat = _encode(item, _flat(present))
    except Misfit as misfit:
        raise misfit.within("[]", _row_of(misfit.row, lengths)) from None
    made = pa.ListArray.from_arrays(_offsets(lengths, values), flat, type=pa.list_(item))
    if pa.types.is_list_view(field.type) or pa.types.is_large_list_view(field.type):
        return pa.array(made.to_pylist(), field.type)
    return made if made.type == field.type else made.cast(field.type)


def _check_many(field: pa.Field, values: Values) -> None:
    for kind in set(map(type, values)):
        if kind is not type(None) and not issubclass(kind, MANY):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise Misfit(row, values[row], show_type(field))
    for row, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.ndim != 1:
            raise Misfit(row, value, show_type(field), why=f"its shape is {value.shape}; flatten it with .ravel()")


def _flat(present: Values) -> Any:
    if present and all(isinstance(value, np.ndarray) for value in present):
        return np.concatenate(present)
    return list(chain.from_iterable(present))


def _row_of(position: int, lengths: Sequence[int]) -> int:
    return int(np.searchsorted(np.cumsum(lengths), position, side="right"))


def _keys(field: pa.Field, keys: Values) -> pa.Array:
    if None in keys:
        raise Misfit(keys.index(None), None, show_type(field), why="a key is never None")
    return _encode(field, keys)


# -- vectors


def _vectors(field: pa.Field, values: Any) -> pa.Array:
    """Rows of one length, stacked by numpy: no Python number is made of what came as an array."""
    kind = field.type
    if not pa.types.is_floating(kind.value_type):
        return _lists(field, values)
    missing = np.fromiter((value is None for value in values), bool, len(values))
    size = field.type.list_size
    _check_many(field, values)
    for row, value in enumerate(values):
        if value is not None and len(value) != size:
            raise Misfit(row, value, show_type(field), why=f"it has {len(value)} numbers, not {size}")
        _check_numbers(field, row, value)
    empty = np.zeros(kind.list_size)
    rows = [empty if value is None else value for value in values] if missing.any() else values
    dtype = kind.value_type.to_pandas_dtype()
    flat = np.asarray(rows, dtype).reshape(-1) if len(rows) else np.zeros(0, dtype)
    mask = pa.array(missing) if missing.any() else None
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=kind, mask=mask)


def _check_numbers(field: pa.Field, row: int, value: Any) -> None:
    """What numpy would turn into a number silently: text, True, None."""
    fits = _allowed_classes(field.type.value_type)
    kinds = {value.dtype.type} if isinstance(value, np.ndarray) else set(map(type, value or ()))
    for kind in kinds:
        if not fits(kind):
            wrong = next(one for one in value if isinstance(one, kind))
            raise Misfit(row, wrong, show_type(field.type.value_field), inside="[]")
