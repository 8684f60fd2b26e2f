"""The list of file types: how each is recognised, and which module looks inside. Loads none of them.

A type is one module and one line of FILE_TYPES. The module has some of these functions, loaded when one is called:

    summarize(content) -> a record                  what a person would like to know of it
    diff(old, new, how) -> a record                 what differs; `--json` shows the record as it is
    merge(base, ours, theirs, how: MergeHow) -> Merged   the joined bytes, and what only a person can decide
    text(content) -> str                            as lines, for a plain diff and blame

A file that is not what its name says raises Unreadable, and is shown and merged as bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from memlake.contents.content import Content

_HEAD = 512  # bytes that tell a file by its magic


class FileType(NamedTuple):
    """A family of formats: the suffixes it is known by, and the module that looks inside."""

    name: str
    module: str
    suffixes: frozenset[str]
    magic: tuple[bytes, ...] = ()

    def find(self, function: str) -> Callable[..., Any] | None:
        """One of the functions above, or None if the type does not have it."""
        found: Callable[..., Any] | None = getattr(importlib.import_module(self.module), function, None)
        return found


def _type(name: str, module: str, suffixes: str, *magic: bytes) -> FileType:
    return FileType(name, f"memlake.contents.{module}", frozenset(suffixes.split()), magic)


FILE_TYPES = (
    _type("table", "tables", "csv tsv tab jsonl ndjson parquet pq", b"PAR1"),
    _type("checkpoint", "checkpoints", "safetensors pt pth ckpt bin npz npy gguf keras h5 hdf5", b"GGUF", b"\x93NUMPY"),
    _type("notebook", "notebooks", "ipynb"),
    _type("document", "documents", "json geojson yaml yml toml"),
)


def find_type(path: str, content: Content | None = None) -> FileType | None:
    """The type of a file by its suffix, else by its first bytes."""
    name = path.rsplit("/", 1)[-1].lower()
    suffix = name.rsplit(".", 1)[-1] if "." in name[1:] else ""
    for kind in FILE_TYPES:
        if suffix in kind.suffixes:
            return kind
    if content is None or suffix:
        return None
    head = content.read(_HEAD)
    return next((kind for kind in FILE_TYPES if kind.magic and head.startswith(kind.magic)), None)
