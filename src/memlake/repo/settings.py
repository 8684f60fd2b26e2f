"""Settings that concern more than their file: core.packs names where the packs are, so they must be there already."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from memlake import config, memories, nofollow
from memlake.defaults import Settings
from memlake.errors import InvalidInput, NotARepo, NotFound, Unavailable, pasted
from memlake.objects import layout, tables
from memlake.objects.bucket import open_place
from memlake.objects.db import Database
from memlake.objects.owner_mark import OwnedPlace
from memlake.objects.places import Folder, Place


class Config:
    """What `repo.config` gives: the settings in force by key. Setting one writes the repo's own `config.toml`."""

    def __init__(self, folder: Path, in_force: Settings) -> None:
        self.in_force = in_force  # since the repo was opened
        self._folder, self._id = folder, functools.partial(read_repo_id, folder)

    def __getitem__(self, key: str) -> str:
        if (value := self.get(key)) is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        self.set(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.items())

    def get(self, key: str) -> str | None:
        return config.get_value(self._folder, key, self._id)

    def set(self, key: str, value: str | None, *, user: bool = False) -> None:
        """Write a setting of this repo, or with `user` of its user for every repo; None removes it."""
        set_setting(self._folder, key, value, user=user)

    def items(self) -> dict[str, str]:
        return {value.key: value.text for value in config.list_values(self._folder, self._id)}


def open_packs(folder: Path, location: str, db: Database) -> Place:
    """The place of a repo's packs: its own folder, or what core.packs names."""
    if not location:
        return Folder(folder / "packs")
    place = open_place(config.resolve_place(location, config.repo_root(folder)))
    return OwnedPlace(place, folder, lambda: layout.read_id(db), lambda: tables.list_pack_names(db))


def set_setting(folder: Path, key: str, value: str | None, *, user: bool = False) -> bool:
    """Write one setting of a repo, or of its user; None removes it. False when one to remove was not there."""
    nofollow.check_folder(folder)
    if not has_database(folder):
        raise NotARepo(f"{folder} has no repo.db. Nothing was changed.", hint="If it never had one: memlake init")
    if value is not None:
        memories.embedders.check_setting(key, str(value))
        memories.rerankers.check_setting(key, str(value))
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
        names, place = tables.list_pack_names(db), open_packs(folder, location, db)
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
    old = config.resolve_place(old, config.repo_root(folder)) if old else str(folder / "packs")
    again = f"memlake config core.packs {pasted(location)}" if location else "memlake config --unset core.packs"
    copy = f"mkdir -p {pasted(new)} && cp -r {pasted(old)}/. {pasted(new)}"
    how = f"Copy the files of {old} to {new}" if "://" in old + new else f"Copy them: {copy}"
    packs = "pack of this repo is" if count == 1 else "packs of this repo are"
    return InvalidInput(
        f"{count:,} {packs} not in {new}, so what they hold could not be read. Nothing was changed.",
        hint=f"{how}\nThen run again: {again}",
    )


def has_database(folder: Path) -> bool:
    """Whether a `.memlake` has a history, or the log of one that was never folded in."""
    return any(file.exists() and file.stat().st_size for file in (folder / "repo.db", folder / "repo.db-wal"))


def read_repo_id(folder: Path) -> str:
    """The id of the repo whose `.memlake` is `folder`, without opening the rest; empty when it cannot be read."""
    if not has_database(folder):
        return ""
    with contextlib.closing(layout.RepoDatabase(folder)) as db:
        return layout.find_id(db)
