"""Everything known, as rows: one for each version of each dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from memlake.dataset.parts.version_record import Version
from memlake.dataset.types import arrow

_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("version", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("created", pa.timestamp("us", "UTC")),
        pa.field("author", pa.string()),
        pa.field("description", pa.string()),
        pa.field("attrs", pa.list_(pa.string())),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("columns", pa.map_(pa.string(), pa.string())),
        pa.field("params", pa.string()),
        pa.field("metrics", pa.string()),
        pa.field("parents", pa.list_(pa.string())),
        pa.field("storages", pa.list_(pa.string())),
        pa.field("source", pa.string()),
        pa.field("content", pa.string()),
        pa.field("deleted", pa.bool_()),
    ]
)


def table(versions: Sequence[Version]) -> pa.Table:
    return pa.Table.from_pylist([_row(one) for one in versions], schema=_SCHEMA)


def _row(one: Version) -> dict[str, Any]:
    told = one.provenance
    return {
        "name": one.name,
        "version": one.version,
        "rows": one.rows,
        "bytes": one.bytes,
        "created": one.created,
        "author": told.get("author"),
        "description": one.description,
        "attrs": list(one.attrs),
        "tags": list(one.tags),
        "columns": [(field.name, arrow.shown(field)) for field in one.schema],
        "params": json.dumps(dict(one.params)),
        "metrics": json.dumps(dict(one.metrics)),
        "parents": [parent["spec"] for parent in told.get("parents", ())],
        "storages": [storage["uri"] for storage in told.get("storages", ())],
        "source": told.get("source"),
        "content": one.content,
        "deleted": one.deleted is not None,
    }
