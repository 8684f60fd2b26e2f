"""The record of one dataset version: what the path `datasets/<name>/<version>` holds. JSON, so that anyone can read it.

The rows are named by the manifest's oid; the record carries what is known of them: schema, provenance, params, metrics.
A change of these is a new record at the same path, in a commit of its own; the rows are not touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from memlake.dataset.parts import frames
from memlake.dataset.types import arrow
from memlake.dataset.types.names import ROOM, Semver, parse_version
from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple

FORMAT = 1
_OVERVIEW = pa.schema(
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


class Version(NamedTuple):
    name: str
    version: str
    content: str  # the identity of the rows and their schema
    manifest: str  # oid of the list of fragments
    schema: pa.Schema
    rows: int
    bytes: int
    created: int
    description: str = ""
    attrs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    params: Mapping[str, Any] = {}
    metrics: Mapping[str, Any] = {}
    provenance: Mapping[str, Any] = {}
    deleted: Mapping[str, Any] | None = None

    @property
    def path(self) -> str:
        return path_of(self.name, self.version)

    @property
    def semver(self) -> Semver:
        return parse_version(self.version)

    @property
    def spec(self) -> str:
        return f"{self.name}@{self.version}"

    def to_dict(self) -> dict[str, Any]:
        """As doors show it."""
        fields = {**self._asdict(), "schema": {one.name: arrow.show_type(one) for one in self.schema}}
        return fields | {"attrs": list(self.attrs), "tags": list(self.tags)}


def path_of(name: str, version: str) -> str:
    return f"{ROOM}{name}/{version}"


def encode(version: Version) -> bytes:
    fields = {
        **version._asdict(),
        "format": FORMAT,
        "schema": frames.encode_schema(version.schema),
        "columns": {one.name: arrow.show_type(one) for one in version.schema},  # for readers without Arrow
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def decode(data: bytes) -> Version:
    try:
        fields = json.loads(data)
        fields.pop("columns")
        if fields.pop("format") != FORMAT:
            raise ValueError("its format is another")
        fields["schema"] = frames.decode_schema(fields["schema"])
        fields["attrs"], fields["tags"] = tuple(fields["attrs"]), tuple(fields["tags"])
        return Version(**fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise Corrupt(f"the record of a dataset version cannot be read: {error}.", hint="Run memlake fsck.") from error


def to_table(versions: Sequence[Version]) -> pa.Table:
    """Everything known of versions, a row for each."""
    rows = [
        {
            **version._asdict(),
            "attrs": list(version.attrs),
            "tags": list(version.tags),
            "author": version.provenance.get("author"),
            "columns": [(field.name, arrow.show_type(field)) for field in version.schema],
            "params": json.dumps(dict(version.params)),
            "metrics": json.dumps(dict(version.metrics)),
            "parents": [parent["spec"] for parent in version.provenance.get("parents", ())],
            "storages": [storage["uri"] for storage in version.provenance.get("storages", ())],
            "source": version.provenance.get("source"),
            "deleted": version.deleted is not None,
        }
        for version in versions
    ]
    return pa.Table.from_pylist(rows, schema=_OVERVIEW)
