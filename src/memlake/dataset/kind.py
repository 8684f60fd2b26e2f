"""The kind of this room: versions of datasets, and how their records read as text.

`memlake status` and `log` load it, so it knows no Arrow; what merges versions is loaded when a merge asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memlake import dataset
from memlake.records import Conflict, count, iso
from memlake.versions.kinds import Kind, Sides, define

if TYPE_CHECKING:
    from memlake.versions.history.commits import History
    from memlake.versions.history.merge_trees import Outcome

_HIDDEN = ("format", "schema")  # for programs; `columns` says the same for people
_TIMES = ("created", "deleted.time")


def label(path: str) -> str:
    """`pets@1.0.0` of the path `datasets/pets/1.0.0`."""
    return "@".join(path.partition("/")[2].rsplit("/", 1))


def brief(data: bytes) -> str:
    """`37 rows, 3 columns`, with `(deleted)` after it for a version that is."""
    record = _read_record(data)
    if record is None:
        return "a record that cannot be read"
    counts = f"{count(record.get('rows', 0), 'row')}, {count(len(record.get('columns', ())), 'column')}"
    return f"{counts} (deleted)" if record.get("deleted") else counts


def read_rows(data: bytes) -> str:
    """The identity of the rows of a version; empty for one that was deleted, or that cannot be read."""
    record = _read_record(data)
    return "" if record is None or record.get("deleted") else str(record.get("content", ""))


def text(data: bytes) -> bytes:
    """A fact per line, so that two records can be compared line by line; the bytes as they are if unreadable."""
    record = _read_record(data)
    if record is None:
        return data
    facts = {name: value for name, value in record.items() if name not in _HIDDEN}
    return "".join(f"{line}\n" for line in _list_facts("", facts)).encode()


def _read_record(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _list_facts(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _list_facts(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, item in enumerate(value):
            yield from _list_facts(f"{name}.{number}", item)
    elif isinstance(value, list):
        yield from [f"{name}: {', '.join(map(str, value))}"] if value else []
    elif isinstance(value, str) and "\n" in value:
        yield f"{name}:"
        yield from (f"    {line}".rstrip() for line in value.rstrip("\n").split("\n"))
    elif name in _TIMES and isinstance(value, int):
        yield f"{name}: {iso(value)}"
    elif value not in (None, ""):
        yield f"{name}: {value}"


def _sides(history: History, conflict: Conflict) -> Sides | None:
    return dataset.merge_versions.show_sides(history, conflict)


def _join(history: History, outcome: Outcome, ours: bytes, theirs: bytes, yields: bool) -> Outcome:
    return dataset.merge_versions.join_versions(history, outcome, ours, theirs, yields=yields)


DATASET = define(
    Kind(
        "dataset", "datasets", "work", 2, ("dataset", "datasets"),
        label=label, text=text, brief=brief, sides=_sides, join=_join,
    )
)  # fmt: skip
