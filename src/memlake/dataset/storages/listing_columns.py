"""What a listing is made of: record batches with the columns of a File, from plain lists, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from memlake.dataset import feedback
from memlake.named_tuple import NamedTuple

ROWS = 1 << 16  # of one batch: the most a listing holds at once
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("version", pa.string()),
        ("etag", pa.string()),
        ("is_latest", pa.bool_()),
        ("last_modified", pa.timestamp("us", "UTC")),
    ]
)


class Listed(NamedTuple):
    """What differs from file to file; `last_modified` in microseconds, `version` None where none are kept."""

    path: Sequence[str]
    size: Sequence[int]
    etag: Sequence[str] | pa.Array
    last_modified: Sequence[int | None]
    version: Sequence[str] | None = None


def batch_of(source: str | Sequence[str], listed: Listed) -> pa.RecordBatch:
    rows = len(listed.path)
    columns = [
        pa.repeat(source, rows) if isinstance(source, str) else pa.array(source, pa.string()),
        pa.array(listed.path, pa.string()),
        pa.array(listed.size, pa.int64()),
        pa.repeat("", rows) if listed.version is None else pa.array(listed.version, pa.string()),
        listed.etag if isinstance(listed.etag, pa.Array) else pa.array(listed.etag, pa.string()),
        pa.repeat(True, rows),
        pa.array(listed.last_modified, pa.int64()).cast(SCHEMA.field("last_modified").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class LeftOut:
    """What a listing met and could not list, by reason: told at its end, once in a process, and never an error."""

    _said: ClassVar[set[str]] = set()

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._found: dict[str, list[str]] = {}
        self._count: dict[str, int] = {}

    def add(self, why: str, name: str) -> None:
        self._count[why] = self._count.get(why, 0) + 1
        if self._count[why] <= 3:
            self._found.setdefault(why, []).append(name)

    def warn(self) -> None:
        for why, names in self._found.items():
            count = self._count[why]
            more = ", ..." if count > len(names) else ""
            shown = ", ".join(ascii(name) for name in names)
            text = f"not listed in {self._uri}: {count} {why} ({shown}{more})."
            if text not in self._said:
                self._said.add(text)
                feedback.warn(text)
