"""The record of a dataset version as lines a person reads. Pure, and without Arrow: a log must not wait for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memlake.records import count, iso

_HIDDEN = ("format", "schema")  # for programs; `columns` says the same for people
_TIMES = ("created", "deleted.time")


def brief(data: bytes) -> str:
    """`37 rows, 3 columns`; `(deleted)` behind it for a version that is."""
    told = _read(data)
    if told is None:
        return "a record that cannot be read"
    counts = f"{count(told.get('rows', 0), 'row')}, {count(len(told.get('columns', ())), 'column')}"
    return f"{counts} (deleted)" if told.get("deleted") else counts


def text(data: bytes) -> bytes:
    """A fact a line, so that two records can be compared line by line; as it is when it cannot be read."""
    told = _read(data)
    if told is None:
        return data
    shown = {name: value for name, value in told.items() if name not in _HIDDEN}
    return "".join(f"{line}\n" for line in _lines("", shown)).encode()


def _read(data: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(data)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _lines(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
        for number, one in enumerate(value):
            yield from _lines(f"{name}.{number}", one)
    elif isinstance(value, list):
        yield from [f"{name}: {', '.join(map(str, value))}"] if value else []
    elif isinstance(value, str) and "\n" in value:
        yield f"{name}:"
        yield from (f"    {line}".rstrip() for line in value.rstrip("\n").split("\n"))
    elif name in _TIMES and isinstance(value, int):
        yield f"{name}: {iso(value)}"
    elif value not in (None, ""):
        yield f"{name}: {value}"
