"""After a purge: copies of erased rows that lie outside the object store. All of it is derived, so all of it may go."""

from __future__ import annotations

import shutil
from pathlib import Path

from memlake.datasets import RECALL

_COPIES = ("runs", "index/columns", "cache")


def forget(folder: Path) -> None:
    """Drop what functions answered, runs kept, matrices and fetched files: each is made again when needed."""
    for name in _COPIES:
        shutil.rmtree(folder / name, ignore_errors=True)
    for file in folder.glob(f"{RECALL}*"):
        if not file.name.endswith((".lock", ".wait")):
            file.unlink(missing_ok=True)
