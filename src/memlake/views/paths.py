"""Paths between a person and a tree: `files/a/b` is shown as `a/b`, other kinds in full. Knows no command.

A plain path names a file, relative to the folder one stands in. `datasets/...`, `memories/...` and the other kinds
are named in full from the root; `./memories/x` is the file of that name.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from memlake.versions.kinds import is_typed
from memlake.views.words import quote

FILES = "files/"


def is_kind(text: str) -> bool:
    """Whether a typed path names something that is not a file."""
    room = text.split("/", 1)[0]
    return is_typed(room)


def is_pattern(text: str) -> bool:
    """Whether a typed path holds a wildcard."""
    return any(mark in text for mark in "*?[")


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Whether a branch or tag is one of those named, outright or by a pattern."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for pattern in patterns)


def here(root: Path) -> str:
    """The folder one stands in, relative to the repo's root; empty at the root and outside of it."""
    relative = os.path.relpath(os.path.realpath("."), os.path.realpath(root))
    return "" if relative == "." or relative.startswith("..") else relative.replace(os.sep, "/")


def display(path: str, base: str = "") -> str:
    """A tree path as a person would type it from `base`, quoted when it would break a line."""
    return quote(bare(path, base))


def bare(path: str, base: str = "") -> str:
    if not path.startswith(FILES):
        return path
    name = path.removeprefix(FILES)
    if base:
        name = posixpath.relpath(name, base) + ("/" if name.endswith("/") else "")
    return f"./{name}" if is_kind(name) else name


def at_root(root: Path, text: str) -> str:
    """The path of a `REV:PATH`, which counts from the root unless it begins with a dot, as a path for a Repo."""
    if is_kind(text) or text.startswith(("./", "../", "/")):
        return text
    return str(root / text)


def within(path: str, folder: str) -> bool:
    """Whether a tree path is `folder` or lies under it."""
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
