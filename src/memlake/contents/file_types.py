"""The list of file types: how each is recognised, and which module looks inside. Loads none of them.

A type is one module and one line of FILE_TYPES. The module has some of these functions, loaded when one is called:

    summarize(content) -> a record                  what a person would like to know of it
    diff(old, new, how) -> a record                 what differs; `--json` shows the record as it is
    merge(base, ours, theirs, how: MergeHow) -> Merged   the joined bytes, and what only a person can decide
    check(content)                                  raises Unreadable if it is not a file of this type
    text(content) -> str                            as lines, for a plain diff and blame
    recognize(content) -> bool                      whether a file is of this type, where its suffix serves several
    diff_more(old, new, how, record) -> records     what else differs, of a type whose `more` names a second module
    sketch(old, new, how) -> a record               both sides to be drawn

A file that is not what its name says raises Unreadable, and is shown and merged as bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from memlake.contents.content import Content
from memlake.named_tuple import NamedTuple

_HEAD = 16  # bytes that tell a file by its magic


class FileType(NamedTuple):
    """A family of formats: the suffixes it is known by, and the module that looks inside."""

    name: str
    module: str
    suffixes: frozenset[str]
    magic: tuple[bytes, ...] = ()
    is_guess: bool = False  # the suffix is not enough: `recognize` decides, and without a content it is not this type
    more: str = ""

    def find(self, function: str) -> Callable[..., Any] | None:
        """One of the functions above, or None if the type does not have it."""
        for module in filter(None, (self.module, self.more)):
            found: Callable[..., Any] | None = getattr(importlib.import_module(module), function, None)
            if found is not None:
                return found
        return None

    def fits(self, suffix: str, content: Content | None) -> bool:
        if suffix not in self.suffixes:
            return False
        recognize = self.find("recognize") if self.is_guess and content is not None else None
        return recognize(content) if recognize else not self.is_guess


def _type(name: str, module: str, suffixes: str, *magic: bytes) -> FileType:
    return FileType(name, f"memlake.contents.{module}", frozenset(suffixes.split()), magic)


FILE_TYPES = (
    _type("table", "tables", "csv tsv tab jsonl ndjson parquet pq", b"PAR1")._replace(
        more="memlake.contents.vector_columns"
    ),
    _type("embeddings", "embeddings", "safetensors npz npy")._replace(is_guess=True),
    _type("checkpoint", "checkpoints", "safetensors pt pth ckpt bin npz npy gguf keras h5 hdf5", b"GGUF", b"\x93NUMPY"),
    _type("notebook", "notebooks", "ipynb"),
    _type("image", "images", "png jpg jpeg gif webp bmp tif tiff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8"),
    _type(
        "recording",
        "recordings",
        "wav flac ogg oga opus mp3 aif aiff aifc au caf mp4 m4v m4a mov mkv webm avi mpg mpeg",
    ),
    _type("document", "documents", "json geojson yaml yml toml")._replace(more="memlake.contents.merge_documents"),
)
BYTES = _type("bytes", "byte_ranges", "")  # what is left to compare of any file; no suffix leads to it


def find_type(path: str, content: Content | None = None) -> FileType | None:
    """The type of a file by its suffix, and by what is inside where types share it; else by its first bytes."""
    name = path.rsplit("/", 1)[-1].lower()
    suffix = name.rsplit(".", 1)[-1] if "." in name[1:] else ""
    for kind in FILE_TYPES:
        if kind.fits(suffix, content):
            return kind
    if content is None or suffix:
        return None
    head = content.read_head(_HEAD)
    return next((kind for kind in FILE_TYPES if kind.magic and head.startswith(kind.magic)), None)
