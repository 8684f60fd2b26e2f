"""Typed paths with wildcards. A module of its own because it is loaded only for those: a plain path costs nothing.

The rules are git's: a wildcard matches slashes too (`*.csv` finds `data/a.csv`), the part before the first wildcard is
a folder by its name, and a pattern that is the very name of a file means that file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from memlake.versions.checkout.ignore import translate_glob
from memlake.versions.checkout.local import Local
from memlake.versions.checkout.worktree import relative
from memlake.versions.kinds import is_typed
from memlake.versions.paths import FILES, Glob


def spec(root: Path, local: Local, text: str, *, in_tree: bool) -> str:
    """What a typed path with wildcards means: a pattern, or the file of that very name; `in_tree`, as a tree path."""
    room, slash, rest = text.partition("/")
    if in_tree and slash and (is_typed(room) or (room == "files" and not (root / "files").exists())):
        return _glob(room, rest)
    at = min(place for mark in "*?[" if (place := text.find(mark)) >= 0)
    cut = text.rfind("/", 0, at) + 1
    folder, pattern = relative(root, text[:cut] or "."), text[cut:].rstrip("/")
    name = f"{folder}/{pattern}" if folder else pattern
    before = FILES if in_tree else ""
    if os.path.lexists(f"{root}/{name}") or local.find_tracked([name]):
        return before + name
    return _glob(before + folder, pattern)


def _glob(folder: str, pattern: str) -> Glob:
    folder = folder.rstrip("/")
    prefix = f"{folder}/" if folder else ""
    glob = Glob(prefix + pattern)
    body = translate_glob(pattern, crossing=True)
    glob.folder = folder
    glob.regex = re.compile("(?!)" if body is None else re.escape(prefix) + body, re.DOTALL)
    return glob
