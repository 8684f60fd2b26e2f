"""Generations of the index: which folder is in use, a new one, the old ones gone. Knows folders only."""

from __future__ import annotations

from pathlib import Path

from memlake.objects import disk

SCHEMA = Path(__file__).with_name("schema.sql")


def current(folder: Path) -> Path:
    """The folder of the generation in use, made when there is none."""
    named = folder / "CURRENT"
    if not named.exists():
        begin(folder)
    return folder / named.read_text(encoding="ascii").strip()


def begin(folder: Path) -> Path:
    """A new, empty generation, in use from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [int(part.name) for part in folder.iterdir() if part.name.isdecimal()]
    made = folder / str(max(known, default=0) + 1)
    made.mkdir(exist_ok=True)
    disk.write_file(folder / "CURRENT", made.name.encode())
    return made


def drop_old(folder: Path) -> None:
    """Remove generations that are not in use."""
    used = current(folder)
    for part in folder.iterdir():
        if part.name.isdecimal() and part != used:
            disk.remove_tree(part)
