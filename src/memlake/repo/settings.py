"""Settings that concern more than their file: core.packs names where the packs are, so they must be there already."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

from memlake import config, inside, memories
from memlake.errors import InvalidInput, NotARepo, NotFound, Unavailable, pasted
from memlake.objects import layout
from memlake.objects.bucket import open_place
from memlake.objects.db import Database
from memlake.objects.owner import OwnedPlace
from memlake.objects.places import Folder, Place


def open_packs(folder: Path, location: str, db: Database) -> Place:
    """The place of a repo's packs: its own folder, or what core.packs names."""
    if not location:
        return Folder(folder / "packs")
    place = open_place(config.resolve_place(location, folder.parent))
    return OwnedPlace(place, folder, lambda: layout.read_id(db), lambda: _read_pack_names(db))


def set_setting(folder: Path, key: str, value: str | None, *, user: bool = False) -> bool:
    """Write one setting of a repo, or of its user; None removes it. False when one to remove was not there."""
    inside.check_folder(folder)
    if not has_database(folder):
        raise NotARepo(f"{folder} has no repo.db. Nothing was changed.", hint="If it never had one: memlake init")
    if value is not None:
        memories.embedders.check_setting(key, str(value))
    if key == "core.packs" and not user:
        _take_place(folder, config.resolve_place(value, Path.cwd()) if value else "")
    return config.set_value(folder, key, value, "user" if user else "repo", functools.partial(read_repo_id, folder))


def _take_place(folder: Path, location: str) -> None:
    """Make sure that the packs of the repo lie in a place, and that it belongs to this repo from now on."""
    if location and "://" not in location and Path(os.path.realpath(location)).is_relative_to(os.path.realpath(folder)):
        raise InvalidInput(
            f"{location} lies inside {folder}, where packs are kept when core.packs is not set. Nothing was changed.",
            hint="To keep them there: memlake config --unset core.packs",
        )
    with contextlib.closing(layout.RepoDatabase(folder)) as db:
        names, place = _read_pack_names(db), open_packs(folder, location, db)
        try:
            missing = names - {name for name, _, _ in place.list()} if names else set()
            if missing:
                raise _describe_missing(folder, location, len(missing))
            if isinstance(place, OwnedPlace):
                place.claim(take=True)
        except (NotFound, Unavailable):
            if names:
                raise
            # It may be out of reach now: the first write asks again.


def _describe_missing(folder: Path, location: str, count: int) -> InvalidInput:
    new = location or str(folder / "packs")
    old = config.read_in_force(folder, functools.partial(read_repo_id, folder)).settings.core_packs
    old = config.resolve_place(old, folder.parent) if old else str(folder / "packs")
    again = f"memlake config core.packs {pasted(location)}" if location else "memlake config --unset core.packs"
    copy = f"mkdir -p {pasted(new)} && cp -r {pasted(old)}/. {pasted(new)}"
    how = f"Copy the files of {old} to {new}" if "://" in old + new else f"Copy them: {copy}"
    packs = "pack of this repo is" if count == 1 else "packs of this repo are"
    return InvalidInput(
        f"{count:,} {packs} not in {new}, so what they hold could not be read. Nothing was changed.",
        hint=f"{how}\nThen run again: {again}",
    )


def _read_pack_names(db: Database) -> set[str]:
    return {row[0] for row in db.rows("SELECT name FROM pack")}


def has_database(folder: Path) -> bool:
    """Whether a `.memlake` has a history, or the log of one that was never folded in."""
    return any(file.exists() and file.stat().st_size for file in (folder / "repo.db", folder / "repo.db-wal"))


def read_repo_id(folder: Path) -> str:
    """The id of the repo whose `.memlake` is `folder`, without opening the rest; empty when it cannot be read."""
    if not has_database(folder):
        return ""
    with contextlib.closing(layout.RepoDatabase(folder)) as db:
        return layout.find_id(db)
