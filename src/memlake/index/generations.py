"""The files of the index as something that can be made again: generations, whose turn it is, damage told apart.

Knows folders and databases, not what is in them. Loads no numpy, because a hook reads the index too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import apsw

from memlake import nofollow
from memlake.errors import Corrupt, Damaged
from memlake.objects import disk
from memlake.objects.db import Database

SCHEMA = Path(__file__).with_name("schema.sql")
SEGMENT_MAGIC = b"memlake segment 1\n"
SEGMENT_ALIGN = 64  # bytes at whose multiples the arrays of a segment begin
_SEGMENT = re.compile(r"[0-9]+-[0-9]+-[0-9a-f]{8}\.seg")


class Derived(Database):
    """A database whose damage is told apart from damage to the history, because it can be made again."""

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            named = self._translate_error(error)
            raise (Damaged(named.message) if isinstance(named, Corrupt) else named) from error
        except UnicodeDecodeError as error:
            raise Damaged(f"{self.path.name} is damaged: {error}.") from error


@contextlib.contextmanager
def sound(what: str) -> Iterator[None]:
    """Arrays that do not fit together were not written so: they are damaged."""
    try:
        yield
    except (IndexError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise Damaged(f"{what} does not fit together: {error}.") from error


@contextlib.contextmanager
def take_turn(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process is the one that changes segments; `wait` until it is."""
    fd = nofollow.open_file(folder / "fold.lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def _find_current(folder: Path) -> Path | None:
    """The folder of the generation in use, if there is one."""
    try:
        name = (folder / "CURRENT").read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    return folder / name if name.isdecimal() and _is_whole(folder / name) else None


def _is_whole(generation: Path) -> bool:
    """Whether segments and vectors have the database that numbers their rows: in another they mean other rows."""
    database = generation / "index.db"
    if database.exists() and database.stat().st_size:
        return True
    return generation.is_dir() and not any(generation.glob("*.seg")) and not (generation / "vectors").exists()


def open_current(folder: Path) -> tuple[Path, bool]:
    """The folder of the generation in use, and whether it had to be made."""
    found = _find_current(folder)
    if found is not None:
        return found, False
    with disk.named_errors(f"making {folder}"):
        nofollow.make_folder(folder)
        with take_turn(folder, wait=True):
            found = _find_current(folder)
            return found or begin_generation(folder), found is None


def segment_file(generation: Path, name: object) -> Path:
    """The file of a segment by the name its row has; a stranger may have given it one that leads elsewhere."""
    if not isinstance(name, str) or not _SEGMENT.fullmatch(name):
        raise Damaged(f"the index names {str(name)[:100]!r}, which is not a segment.", hint="It is made again.")
    return generation / name


def read_edition(folder: Path, generation: Path) -> object:
    """What differs when a generation is replaced, also by one of the same name."""
    try:
        current, file = os.stat(folder / "CURRENT"), os.stat(generation / "index.db")
    except OSError:
        return None
    return current.st_ino, current.st_mtime_ns, file.st_ino


def begin_generation(folder: Path) -> Path:
    """A new, empty generation, in use from now on."""
    nofollow.make_folder(folder)
    known = [int(part.name) for part in folder.iterdir() if part.name.isdecimal()]
    made = folder / str(max(known, default=0) + 1)
    nofollow.make_folder(made)
    disk.write_file(folder / "CURRENT", made.name.encode())
    return made


def drop_old(folder: Path) -> None:
    """Remove generations that are not in use."""
    current = _find_current(folder)
    for part in folder.iterdir():
        if current is not None and part.name.isdecimal() and part != current:
            disk.remove_tree(part)
