"""Python values and types as DuckDB takes them: what is bound, the key of it, a type's name. Knows no expression."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Hashable
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa

from memlake.errors import InvalidInput
from memlake.rows.duckdb_connections import catalogue

PLAIN = (str, bool, int, float, bytes, datetime.date, datetime.time, datetime.timedelta, Decimal, UUID)
NATIVE: tuple[type[Any], ...] = (str, float, int, bytes)
BINDABLE = "text, numbers, bool, None, bytes, dates and times, Decimal, UUID, lists, dicts and numpy arrays"

PYTHON_TYPES = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    datetime.datetime: "TIMESTAMP WITH TIME ZONE",  # a moment, as in a column that is declared so: types.PLAIN
    datetime.date: "DATE",
    datetime.time: "TIME",
    datetime.timedelta: "INTERVAL",
    Decimal: "DECIMAL(38, 9)",
    UUID: "UUID",
}
# The names Python users know; `int` and `float` are narrower in SQL than in Python.
TYPE_NAMES = {kind.__name__: sql for kind, sql in PYTHON_TYPES.items()}


def plain(value: Any) -> Any:
    """A value of its own, safe from later changes: numpy scalars become Python's, arrays and lists are copied."""
    if value is None or isinstance(value, PLAIN):
        return _native(value)
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()  # of nanoseconds, item() makes a number
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(one) for key, one in value.items()}
    raise InvalidInput(
        f"a {type(value).__name__} cannot be a value of an expression: {str(value)[:60]!r}",
        hint=f"Values may be {BINDABLE}.",
    )


def bound(value: Any) -> Any:
    """What is handed to DuckDB, which takes no numpy scalar inside a list."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def value_key(value: Any) -> Hashable:
    """Equal for equal values of one type, in every process; vectors are hashed by their bytes."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
    if isinstance(value, list) and value and all(type(one) is float for one in value):
        return ("floats", len(value), hashlib.sha256(np.asarray(value, "<f8").tobytes()).hexdigest())
    if isinstance(value, list):
        return ("list", *(value_key(one) for one in value))
    if isinstance(value, dict):
        return ("dict", *((key, value_key(one)) for key, one in value.items()))
    return repr(value)


def sql_type(to: Any) -> str:
    """The DuckDB name of a type; DuckDB itself reads and writes it, so no other SQL gets through."""
    if isinstance(to, pa.DataType):
        return str(catalogue().cursor().from_arrow(pa.table({"x": pa.array([], to)})).types[0])
    name = PYTHON_TYPES.get(to) if isinstance(to, type) else TYPE_NAMES.get(to, to)
    try:
        if isinstance(name, str):
            return str(catalogue().cursor().sqltype(name))
    except duckdb.Error:
        pass
    raise InvalidInput(
        f"{to!r} is not a type that values can be cast to",
        hint=f"Known are {', '.join(TYPE_NAMES)}, Arrow types, and DuckDB's names such as VARCHAR or FLOAT[384].",
    )


def _native(value: Any) -> Any:
    """Subclasses (np.float64 is a float, np.str_ a str, an enum of str) would be bound or hashed by their own rules."""
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    for kind in NATIVE:
        if isinstance(value, kind) and type(value) not in (kind, bool):
            return kind(value.value) if hasattr(value, "value") else kind(value)
    return value


def _plain_array(value: np.ndarray[Any, Any]) -> Any:
    if value.ndim == 0:
        return plain(value.item())
    if value.dtype.kind not in "fiub":
        return [plain(one) for one in value.tolist()]
    copy = np.ascontiguousarray(value).copy()
    copy.flags.writeable = False
    return copy
