"""What a field says of itself in its metadata, and how a type is shown. Knows no values and no classes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

CLASS: Final = b"memlake.class"  # "module:QualName" of the values, or "json" for JSON text
UNKNOWN: Final = b"memlake.unknown"  # the type shows when the first rows ran
OPTIONAL: Final = b"memlake.optional"  # declared `X | None`; every field may hold nulls, this one says so
LITERAL: Final = b"memlake.literal"  # the values it may have, as JSON
JSON: Final = "json"

Metadata = dict[bytes, bytes]


def class_of(field: pa.Field) -> str:
    """The class the field names, or an empty string."""
    return str((field.metadata or {}).get(CLASS, b"").decode())


def holds_json(field: pa.Field) -> bool:
    """Whether its values, or what lies inside them, are JSON text."""
    return class_of(field) == JSON or any(map(holds_json, inner(field.type)))


def inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields a type is made of."""
    return [kind.field(place) for place in range(kind.num_fields)]


def literal_metadata(values: Iterable[Any]) -> Metadata:
    return {LITERAL: json.dumps(list(values)).encode()}


def values_of(field: pa.Field) -> list[Any] | None:
    """The only values a field may have; None when any will do."""
    literals = (field.metadata or {}).get(LITERAL)
    return None if literals is None else list(json.loads(literals))


def is_unknown(field: pa.Field) -> bool:
    return UNKNOWN in (field.metadata or {})


def class_metadata(name: str) -> Metadata:
    return {CLASS: name.encode()}


def unknown_field(name: str, kind: pa.DataType | None = None) -> pa.Field:
    """A column whose type is not known before it ran."""
    return pa.field(name, kind or pa.null(), metadata={UNKNOWN: b"1"})


def show_type(field: pa.Field) -> str:
    """The type of a field as Python says it: ImageFile, list[float], float32[384], str | None."""
    if is_unknown(field):
        return "unknown"
    optional = " | None" if OPTIONAL in (field.metadata or {}) else ""
    return _show_arrow_type(field.type, class_of(field)) + optional


def _show_arrow_type(kind: pa.DataType, class_name: str) -> str:
    name = class_name.rpartition(":")[2].rpartition(".")[2]
    if class_name == JSON:
        return "dict"
    if pa.types.is_fixed_size_list(kind):
        return f"{_show_item(kind.value_field)}[{kind.list_size}]"
    if is_list(kind):
        item = show_type(kind.value_field)
        if name == "ndarray":
            return f"{_show_item(kind.value_field)}[]"
        return f"tuple[{item}, ...]" if name == "tuple" else f"{name or 'list'}[{item}]"
    if pa.types.is_map(kind):
        return f"dict[{show_type(kind.key_field)}, {show_type(kind.item_field)}]"
    if pa.types.is_struct(kind):
        if name == "tuple":
            return f"tuple[{', '.join(show_type(child) for child in kind)}]"
        return name or "{" + ", ".join(f"{child.name}: {show_type(child)}" for child in kind) + "}"
    return name or PLAIN.get(str(kind)) or _show_other_type(kind)


def _show_item(field: pa.Field) -> str:
    """Vectors say their width: float32, float64."""
    return {"float": "float32", "double": "float64", "halffloat": "float16"}.get(str(field.type), show_type(field))


def _show_other_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return "Decimal"
    if pa.types.is_timestamp(kind):
        return "datetime"
    if pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return "timedelta"
    if pa.types.is_dictionary(kind):
        return _show_arrow_type(kind.value_type, "")
    return str(kind)


PLAIN: Final = {
    "bool": "bool",
    "int64": "int",
    "double": "float",
    "float": "float32",
    "halffloat": "float16",
    "string": "str",
    "large_string": "str",
    "string_view": "str",
    "binary": "bytes",
    "large_binary": "bytes",
    "date32[day]": "date",
    "time64[us]": "time",
    "null": "None",
}


def is_list(kind: pa.DataType) -> bool:
    """Any list whose rows have their own lengths."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(test(kind) for test in tests)
