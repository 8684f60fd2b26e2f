"""Python annotations and values <-> Arrow fields and arrays: the one door of the datasets room to both.

A class becomes a struct, and its field says which class in its metadata (`field_metadata`); `encode` and `decode` turn
values into arrays and back.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from types import UnionType
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from memlake.dataset.types.classes import bare, is_shape, members, name_of, shape_of
from memlake.dataset.types.decode import decode
from memlake.dataset.types.encode import encode
from memlake.dataset.types.field_metadata import (
    JSON,
    OPTIONAL,
    Metadata,
    class_metadata,
    class_of,
    is_list,
    literal_metadata,
    show_type,
    unknown_field,
)
from memlake.dataset.types.files import FILE, File
from memlake.errors import InvalidInput
from memlake.identifiers import find_twins

__all__ = ["Vector", "decode", "encode", "field_of", "infer_field", "show_type"]

Typed = tuple[pa.DataType, Metadata]
Classes = tuple[type, ...]

PLAIN: Final[dict[Any, pa.DataType]] = {  # bool before int, datetime before date: the first that fits a subclass wins
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bytearray: pa.binary(),
    datetime: pa.timestamp("us", "UTC"),
    date: pa.date32(),
    time: pa.time64("us"),
    timedelta: pa.duration("us"),
    Decimal: pa.decimal128(38, 18),
}
NAIVE: Final = pa.timestamp("us")
AS_JSON: Final[Typed] = (pa.string(), class_metadata(JSON))
SUPPORTED: Final = (
    "Supported: bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, Enum, Literal, X | None, "
    "list[X], tuple[X, ...], set[X], dict[str, X], dict, numpy numbers, Vector(384), File types, and pydantic models, "
    "dataclasses, NamedTuples and TypedDicts of these."
)

OF_FUNCTIONS: Final = "Return one type for every row, or annotate the function."


@dataclass(frozen=True)
class Vector:
    """An annotation: `size` numbers of one width, stored side by side and read as a numpy array."""

    size: int
    width: str = "float32"

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007 -- `|` is what is being defined


class Unsupported(Exception):
    """An annotation no column can have, on its way up to the column that can be named."""


# -- annotations


def field_of(name: str, annotation: Any) -> pa.Field:
    """The field of a column with this annotation; unknown where only the rows will tell (Any, list, np.ndarray)."""
    inner, _ = bare(annotation)
    if inner in (Any, object, list, tuple, set, frozenset, np.ndarray):
        return unknown_field(name)
    try:
        return _field(name, annotation, ())
    except Unsupported as error:
        raise InvalidInput(f"column {name!r} cannot be {error}. Nothing was run.", hint=SUPPORTED) from error


def _field(name: str, annotation: Any, inside: Classes) -> pa.Field:
    inner, optional = bare(annotation)
    kind, metadata = _find_type(inner, inside)
    metadata = metadata | ({OPTIONAL: b"1"} if optional else {})
    return pa.field(name, kind, metadata=metadata or None)


def _find_type(annotation: Any, inside: Classes) -> Typed:
    for rule in RULES:
        typed = rule(annotation, inside)
        if typed is not None:
            return typed
    lists = " (its .tolist() can be)" if hasattr(annotation, "tolist") else ""
    raise Unsupported(_name_annotation(annotation) + lists)


def _name_annotation(annotation: Any) -> str:
    name = getattr(annotation, "__qualname__", None) if isinstance(annotation, type) else None
    return name or str(annotation)


def _plain(annotation: Any, _: Classes) -> Typed | None:
    if annotation in (Any, object):
        return AS_JSON
    if annotation is UUID:
        return pa.string(), class_metadata("uuid:UUID")
    kind = PLAIN.get(annotation) if isinstance(annotation, type) else None
    return None if kind is None else (kind, {})


def _numpy(annotation: Any, _: Classes) -> Typed | None:
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return _number_type(np.dtype(annotation)), {}
    if typing.get_origin(annotation) is np.ndarray or annotation is np.ndarray:
        # NDArray[np.float32] is ndarray[shape, dtype[float32]]; it is float64 where none is named
        args = typing.get_args(annotation)
        dtypes = typing.get_args(args[1]) if args else ()
        dtype = np.dtype(dtypes[0] if dtypes and isinstance(dtypes[0], type) else float)
        return pa.list_(_number_type(dtype)), class_metadata("numpy:ndarray")
    return None


def _number_type(dtype: np.dtype[Any]) -> pa.DataType:
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pa.from_numpy_dtype(dtype)
    kinds = {"U": pa.string(), "S": pa.binary(), "M": NAIVE, "m": PLAIN[timedelta]}
    if dtype.kind in kinds:
        return kinds[dtype.kind]
    raise Unsupported(f"numpy {dtype}")


def _vector(annotation: Any, _: Classes) -> Typed | None:
    if not isinstance(annotation, Vector):
        return None
    return pa.list_(_number_type(np.dtype(annotation.width)), annotation.size), class_metadata("numpy:ndarray")


def _literal(annotation: Any, inside: Classes) -> Typed | None:
    if typing.get_origin(annotation) is not typing.Literal:
        return None
    kinds = {type(value) for value in typing.get_args(annotation) if value is not None}
    if len(kinds) != 1:
        raise Unsupported(f"{annotation}: its values have several types")
    (kind,) = kinds
    arrow_type, metadata = _find_type(kind, inside)
    values = literal_metadata(typing.get_args(annotation)) if kind in (str, int, bool) else {}
    return arrow_type, metadata | values


def _enum(annotation: Any, _: Classes) -> Typed | None:
    if not (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return None
    kinds = {type(key) for key in members(annotation)}
    if len(kinds) != 1:
        raise Unsupported(f"{annotation.__name__}, an Enum without members")
    return PLAIN[kinds.pop()], class_metadata(name_of(annotation))


def _union(annotation: Any, _: Classes) -> Typed | None:
    if typing.get_origin(annotation) not in (typing.Union, UnionType):
        return None
    if set(typing.get_args(annotation)) == {int, float}:
        return pa.float64(), {}
    raise Unsupported(f"{annotation}: a column has one type")


def _many(annotation: Any, inside: Classes) -> Typed | None:
    origin, args = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin not in (list, tuple, set, frozenset, Sequence, Iterable):
        return None
    if not args:
        return AS_JSON
    if origin is tuple and args[1:] != (...,):
        children = [_field(str(place), one, inside) for place, one in enumerate(args)]
        return pa.struct(children), class_metadata("builtins:tuple")
    metadata = class_metadata(name_of(origin)) if origin in (tuple, set, frozenset) else {}
    return pa.list_(_field("item", args[0], inside)), metadata


def _dict(annotation: Any, inside: Classes) -> Typed | None:
    origin, args = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin not in (dict, Mapping):
        return None
    if not args or bare(args[1])[0] in (Any, object):
        return AS_JSON
    if args[0] not in (str, int):
        raise Unsupported(f"{annotation}: keys are str or int")
    return pa.map_(PLAIN[args[0]], _field("value", args[1], inside)), {}


def _shape(annotation: Any, inside: Classes) -> Typed | None:
    if not is_shape(annotation):
        return None
    if issubclass(annotation, File):
        return FILE, class_metadata(name_of(annotation))
    if annotation in inside:
        raise Unsupported(f"{annotation.__name__}, which contains itself: rows have a fixed depth")
    hints = shape_of(annotation).hints
    if not hints:
        raise Unsupported(f"{annotation.__name__}, which has no attributes")
    if twins := find_twins(hints):
        raise Unsupported(
            f"{annotation.__name__}, whose attributes {twins[0]!r} and {twins[1]!r} differ only in case: the engine "
            "cannot tell them apart"
        )
    children = [_field(name, hint, (*inside, annotation)) for name, hint in hints.items()]
    return pa.struct(children), class_metadata(name_of(annotation))


RULES: Final[tuple[Callable[[Any, Classes], Typed | None], ...]] = (
    _vector, _literal, _union, _enum, _shape, _numpy, _plain, _many, _dict,
)  # fmt: skip


# -- values


def infer_field(name: str, values: Sequence[Any], *, cure: str = OF_FUNCTIONS) -> pa.Field:
    """The field the first rows ask for; unknown while every one is None. `cure` is what to do about values of none."""
    try:
        return _infer(name, values)
    except Unsupported as error:
        raise InvalidInput(
            f"column {name!r} cannot be {error}. Nothing was kept.",
            hint=f"{cure} {SUPPORTED}",
        ) from error


def _infer(name: str, values: Iterable[Any]) -> pa.Field:
    present = [value for value in values if value is not None]
    kinds = sorted({_family_of(type(value)) for value in present}, key=_name_annotation)
    if not kinds:
        return unknown_field(name)
    cls = kinds[0] if len(kinds) == 1 else _common_class(kinds)
    if cls in (list, tuple, set, frozenset):
        metadata = {} if cls is list else class_metadata(name_of(cls))
        try:
            item = _infer("item", chain.from_iterable(present))
        except Unsupported:
            if cls is tuple and len({len(value) for value in present}) == 1:
                # Tuples of one length and mixed types: each place has its own
                children = [_infer(str(place), column) for place, column in enumerate(zip(*present, strict=True))]
                return pa.field(name, pa.struct(children), metadata=class_metadata("builtins:tuple"))
            raise
        if pa.types.is_null(item.type):
            return unknown_field(name, pa.list_(pa.null()))
        return pa.field(name, pa.list_(item), metadata=metadata or None)
    if cls is dict:
        # JSON, which lets rows differ; a map where the values have one type that JSON would lose (files, bytes,
        # times)
        kind, metadata = AS_JSON
        try:
            item = _infer("value", chain.from_iterable(row.values() for row in present))
        except Unsupported:
            return pa.field(name, kind, metadata=metadata)
        if _survives_json(item) or not all(isinstance(key, str) for row in present for key in row):
            return pa.field(name, kind, metadata=metadata)
        return pa.field(name, pa.map_(pa.string(), item))
    if cls is datetime:
        # Times without a zone stay so, and those with one are moments, told in UTC
        zoned = {getattr(value, "tzinfo", None) is not None for value in present}
        if len(zoned) > 1:
            raise Unsupported("datetime with and without a time zone at once")
        return pa.field(name, PLAIN[datetime] if True in zoned else NAIVE)
    kind, metadata = _array_type(present) if cls is np.ndarray else _find_type(cls, ())
    return pa.field(name, kind, metadata=metadata or None)


def _family_of(cls: type) -> type:
    """The class a column of such values is declared with."""
    if issubclass(cls, Enum) or is_shape(cls) or issubclass(cls, np.generic):
        return cls
    families = (*PLAIN, dict, list, tuple, set, frozenset, np.ndarray)
    return next((family for family in families if issubclass(cls, family)), cls)


def _common_class(kinds: Sequence[type]) -> type:
    """One class for values of several, where no value changes its meaning."""
    if all(issubclass(kind, int | float | np.number) and not issubclass(kind, bool | Enum) for kind in kinds):
        found: type = np.result_type(*(np.dtype(kind) for kind in kinds)).type
        return found
    if all(issubclass(kind, File) for kind in kinds):
        return File
    for family in (bool, str, datetime):
        if all(
            _family_of({np.bool_: bool, np.str_: str, np.datetime64: datetime}.get(kind, kind)) is family
            for kind in kinds
        ):
            return family
    raise Unsupported(f"{' and '.join(map(_name_annotation, kinds))} at once")


def _array_type(present: Sequence[np.ndarray[Any, Any]]) -> Typed:
    shapes = {value.shape for value in present}
    if any(len(shape) != 1 for shape in shapes):
        raise Unsupported(
            f"an array of shape {next(iter(sorted(shapes, key=len, reverse=True)))}: flatten it with .ravel()"
        )
    dtype = np.result_type(*(value.dtype for value in present))
    size = next(iter(shapes))[0] if len(shapes) == 1 and dtype.kind == "f" else -1
    return pa.list_(_number_type(dtype), size), class_metadata("numpy:ndarray")


def _survives_json(field: pa.Field) -> bool:
    """Whether values of this type are the same after JSON."""
    if class_of(field):
        return class_of(field) == JSON
    if is_list(field.type):
        return _survives_json(field.type.value_field)
    return field.type in (pa.null(), *map(PLAIN.__getitem__, (bool, int, float, str)))
