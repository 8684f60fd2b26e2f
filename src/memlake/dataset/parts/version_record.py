"""The record of one dataset version: what the path `datasets/<name>/<version>` holds. JSON, so that anyone can read it.

The rows are named by the manifest's oid; the record carries what is known of them: schema, provenance, params, metrics.
A change of these is a new record at the same path, in a commit of its own; the rows are not touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from memlake.dataset.parts import frames
from memlake.dataset.types import arrow
from memlake.dataset.types.names import ROOM, Semver, exact
from memlake.errors import Corrupt

FORMAT = 1


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
        return exact(self.version)

    @property
    def spec(self) -> str:
        return f"{self.name}@{self.version}"

    def to_dict(self) -> dict[str, Any]:
        """As doors show it."""
        told = {**self._asdict(), "schema": {one.name: arrow.shown(one) for one in self.schema}}
        return told | {"attrs": list(self.attrs), "tags": list(self.tags)}


def path_of(name: str, version: str) -> str:
    return f"{ROOM}{name}/{version}"


def encode(version: Version) -> bytes:
    told = {
        **version._asdict(),
        "format": FORMAT,
        "schema": frames.encode_schema(version.schema),
        "columns": {one.name: arrow.shown(one) for one in version.schema},  # for readers without Arrow
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def decode(data: bytes) -> Version:
    try:
        told = json.loads(data)
        told.pop("columns")
        if told.pop("format") != FORMAT:
            raise ValueError("its format is another")
        told["schema"] = frames.decode_schema(told["schema"])
        told["attrs"], told["tags"] = tuple(told["attrs"]), tuple(told["tags"])
        return Version(**told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise Corrupt(f"the record of a dataset version cannot be read: {error}.", hint="Run memlake fsck.") from error
