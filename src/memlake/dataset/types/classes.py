"""The Python classes rows are made of: what attributes they have, how they are named, found and built.

A class is looked up among what this process has imported or declared; reading data never imports a module, because
an import runs code. Without the class a row is a `Record`: the same attributes, and `row["name"]`.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import numpy as np

from memlake.dataset.types.files import FILES, NAMES, File
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

DECLARED: Final[dict[str, type]] = {}  # classes seen in annotations: those of scripts and functions cannot be imported
BUILT_IN: Final[dict[str, type]] = {
    "builtins:tuple": tuple,
    "builtins:set": set,
    "builtins:frozenset": frozenset,
    "numpy:ndarray": np.ndarray,
    "uuid:UUID": UUID,
    **{f"memlake:{one.__name__}": one for one in FILES},
}
NAME_OF: Final = {cls: name for name, cls in BUILT_IN.items()}
ANYTHING: Final = (None, Any, object)


class Shape(NamedTuple):
    """What a class of rows is made of: its attributes with their annotations, and how rows are built."""

    hints: Mapping[str, Any]
    required: frozenset[str]
    build: Callable[[Sequence[str], Sequence[Sequence[Any]]], list[Any]]
    restore: Callable[[Sequence[str], Sequence[Sequence[Any]]], list[Any]] | None = None  # rows it once was, if other


def bare(annotation: Any) -> tuple[Any, bool]:
    """An annotation without Annotated, NewType and Required, and whether None was allowed."""
    optional = False
    while True:
        origin = typing.get_origin(annotation)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.ClassVar, typing.Final):
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType) and type(None) in typing.get_args(annotation):
            rest = [one for one in typing.get_args(annotation) if one is not type(None)]
            annotation, optional = functools.reduce(lambda one, other: typing.Union[one, other], rest), True  # noqa: UP007
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, from Python 3.12
            annotation = annotation.__value__
        else:
            return annotation, optional


def name_of(cls: type) -> str:
    """How a field names a class; the class is remembered, so that this process finds it again."""
    if cls in NAME_OF:
        return NAME_OF[cls]
    name = f"{cls.__module__}:{cls.__qualname__}"
    DECLARED[name] = cls
    return name


def find(name: str) -> type | None:
    """The class a field names, when this process has it."""
    if known := BUILT_IN.get(name) or DECLARED.get(name):
        return known
    module, _, path = name.partition(":")
    imported: Any = sys.modules.get(module)
    for part in path.split("."):
        imported = getattr(imported, part, None)
    # Data may name anything: only what is a class of rows is ever called.
    is_row = isinstance(imported, type) and (issubclass(imported, Enum) or is_shape(imported))
    return imported if is_row else None


def is_shape(cls: Any) -> bool:
    """Whether instances of this class are rows with attributes."""
    if not isinstance(cls, type):
        return False
    return bool(
        issubclass(cls, File) or _is_model(cls) or dataclasses.is_dataclass(cls) or _is_named(cls) or is_typed_dict(cls)
    )


def is_typed_dict(cls: Any) -> bool:
    return typing.is_typeddict(cls)


def _is_model(cls: type) -> bool:
    # pydantic is not a dependency, so its models are recognised by what they carry.
    return hasattr(cls, "model_fields") and hasattr(cls, "__pydantic_validator__")


def _is_named(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


@functools.lru_cache(maxsize=1024)
def shape_of(cls: type) -> Shape:
    """The attributes of a class of rows, and how its rows are built from columns."""
    if issubclass(cls, File):
        return Shape(dict.fromkeys(NAMES), frozenset({"source", "path"}), functools.partial(_call, cls, NAMES))
    if _is_model(cls):
        return _model_shape(cls)
    if is_typed_dict(cls):
        return _typed_dict_shape(cls)
    return _named_shape(cls) if _is_named(cls) else _dataclass_shape(cls)


def attributes(value: object) -> Iterable[str]:
    cls: Any = type(value)
    return shape_of(cls).hints


def _model_shape(cls: Any) -> Shape:
    fields = cls.model_fields
    hints = {name: one.annotation for name, one in fields.items()}
    aliases = {name: one.validation_alias or one.alias for name, one in fields.items()}
    keys = {name: alias if alias and isinstance(alias, str) else name for name, alias in aliases.items()}
    required = frozenset(name for name, one in fields.items() if one.is_required())
    restore = functools.partial(_restore, cls) if _has_functions(cls.__pydantic_core_schema__) else None
    return Shape(hints, required, functools.partial(_validate, cls, keys), restore)


def _has_functions(schema: Any) -> bool:
    """Whether a model's own functions may change values: a schema that is not built yet is not known."""
    if not isinstance(schema, dict):
        return True
    inside = [one for value in schema.values() for one in (value if isinstance(value, list | tuple) else [value])]
    kind = str(schema.get("type"))
    return kind.startswith("function-") or any(_has_functions(one) for one in inside if isinstance(one, dict))


def _restore(cls: Any, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Rows as they were: validators have seen these values, and would change them once more."""
    return [cls.model_construct(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _validate(cls: Any, keys: Mapping[str, str], names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Validated rows: twice as fast as model_construct, which is written in Python."""
    given = [keys.get(name, name) for name in names]
    validate = cls.__pydantic_validator__.validate_python
    return [validate(dict(zip(given, row, strict=True))) for row in zip(*columns, strict=True)]


def _typed_dict_shape(cls: Any) -> Shape:
    hints = _hints(cls)
    # What the class says of its keys is wrong where annotations are strings; the annotations are right.
    origins = {name: typing.get_origin(hint) for name, hint in hints.items()}
    left_out = [
        name
        for name in hints
        if origins[name] is typing.NotRequired
        or (name in cls.__optional_keys__ and origins[name] is not typing.Required)
    ]
    return Shape(hints, frozenset(), functools.partial(_dicts, left_out))


def _dicts(droppable: Iterable[str], names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for name in droppable:
        for row in rows:
            if row.get(name) is None:
                row.pop(name, None)
    return rows


def _named_shape(cls: Any) -> Shape:
    hints = {name: _hints(cls).get(name, Any) for name in cls._fields}
    return Shape(hints, frozenset(hints) - cls._field_defaults.keys(), functools.partial(_call, cls, cls._fields))


def _dataclass_shape(cls: Any) -> Shape:
    fields = dataclasses.fields(cls)
    hints = _hints(cls)
    required = [one.name for one in fields if one.init and not _has_default(one)]
    build = functools.partial(_construct, cls, tuple(one.name for one in fields if not one.init))
    if all(one.init and not one.kw_only for one in fields):
        build = functools.partial(_call, cls, tuple(one.name for one in fields))
    # Functions of its own may change values while a row is made: then it is not made by them a second time.
    is_generated = "__dataclass_fields__" in vars(cls) and cls.__dataclass_params__.init
    restore = functools.partial(_refill, cls) if hasattr(cls, "__post_init__") or not is_generated else None
    return Shape({one.name: hints[one.name] for one in fields}, frozenset(required), build, restore)


def _refill(cls: Any, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Rows as they were: __init__ and __post_init__ have seen these values, and would change them once more."""
    later = [one for one in dataclasses.fields(cls) if one.name not in names]
    rows = [cls.__new__(cls) for _ in next(iter(columns), ())]
    for name, values in zip(names, columns, strict=True):
        for row, value in zip(rows, values, strict=True):
            object.__setattr__(row, name, value)  # also where the class is frozen
    for one in later:
        factory = one.default_factory
        for row in rows if _has_default(one) else ():
            object.__setattr__(row, one.name, one.default if factory is dataclasses.MISSING else factory())
    return rows


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _call(cls: Any, order: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Rows by position where the columns are those of the class in order, else by name."""
    if tuple(names) == tuple(order):
        return list(map(cls, *columns))
    if set(names) == set(order):
        place = dict(zip(names, columns, strict=True))
        return list(map(cls, *(place[name] for name in order)))
    return _construct(cls, (), names, columns)


def _construct(cls: Any, later: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    rows = []
    for values in zip(*columns, strict=True):
        pairs = list(zip(names, values, strict=True))
        row = cls(**{name: value for name, value in pairs if name not in later})
        for name, value in pairs:
            if name in later:
                object.__setattr__(row, name, value)
        rows.append(row)
    return rows


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"an annotation of {cls.__qualname__} names {error.name!r}, which {cls.__module__} does not have.",
            hint=f"Define or import {error.name} at the top of {cls.__module__}, outside `if TYPE_CHECKING`.",
        ) from error


# -- classes whose values are one plain value


def members(cls: type[Enum]) -> dict[Any, Enum]:
    """What is stored for each member: its value when all are text or all are whole numbers, else its name."""
    values = [one.value for one in cls]
    plain = any(all(type(value) is kind for value in values) for kind in (str, int))
    return {(one.value if plain else one.name): one for one in cls}


# -- rows whose class is not here


class Record:
    """A row whose class this process has not imported: its attributes, ==, repr, and row["name"]."""

    __slots__ = ("_class", "_values")

    def __init__(self, class_name: str, values: dict[str, Any]) -> None:
        self._class = class_name
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Record.__slots__:
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(
                f"this row has {', '.join(self._values)}, not {name}. It was saved as {self._class}, which is not "
                "imported here: import it before reading to get its methods."
            ) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def keys(self) -> Iterable[str]:
        return self._values.keys()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self._class == other._class and self._values == other._values
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._class, *self._values.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"{self._class.rpartition(':')[2].rpartition('.')[2]}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self._class, self._values)


def records(class_name: str, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    return [Record(class_name, dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


# -- JSON


def plain(value: Any) -> Any:
    """A value as JSON can hold it; TypeError when it cannot, ValueError for keys JSON would change."""
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"the key {wrong[0]!r} is {type(wrong[0]).__name__}, and keys of JSON are text")
        return {key: plain(inside) for key, inside in value.items()}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, Record):
        return plain({name: value[name] for name in value.keys()})  # noqa: SIM118 -- a Record is no mapping
    if isinstance(value, list | tuple | set | frozenset) and not _is_named(type(value)):
        return [plain(inside) for inside in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if is_shape(type(value)):
        return {name: plain(getattr(value, name)) for name in attributes(value)}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
