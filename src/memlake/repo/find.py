"""Making a repo, and finding the one that is meant: named, in this folder or above, the personal one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memlake import config, nofollow, projects, versions
from memlake.calls import check_types
from memlake.errors import AlreadyExists, Corrupt, Denied, InvalidInput, pasted
from memlake.objects import disk
from memlake.objects.bucket import open_place
from memlake.objects.db import advise_rescue
from memlake.objects.places import Folder, Place
from memlake.repo.open import AnyPath, SomePaths, each
from memlake.repo.repo import Repo
from memlake.repo.settings import has_database

if TYPE_CHECKING:
    from memlake.reports import Rescued

DIR = ".memlake"


@check_types
def init(path: AnyPath = ".", branch: str | None = None, *, bare: bool = False) -> Repo:
    """Make a repo in a folder, or open the one that is there.

    A `bare` repo is history without a working folder, for servers: the folder itself holds what `.memlake` does
    elsewhere. Its HEAD is its first branch.
    """
    name = branch or config.read_settings(None).init_branch
    versions.refs.check_name(name)
    with disk.named_errors(f"making a repo in {path}"):
        root = Path(os.path.realpath(config.real_name(path)))
        config.check_owner(root)
        folder = root if bare else root / DIR
        root.mkdir(parents=True, exist_ok=True)
        _refuse_other_form(root, bare=bare)
        nofollow.check_new(folder)
        nofollow.check_folder(folder)
        _refuse_lost(folder)
        for part in (folder, folder / "packs", folder / "parts", folder / "tmp"):
            nofollow.make_folder(part)
        if not (folder / ".gitignore").exists():
            disk.write_file(folder / ".gitignore", b"*\n")
    return Repo(folder, fresh=name)


def _refuse_other_form(root: Path, *, bare: bool) -> None:
    """A repo is bare or it is not, and a bare one shares its folder with nothing: all of it is looked at as ours."""
    if not bare and config.is_bare(root):
        raise AlreadyExists(
            f"{root} is a bare repo, which has no working folder. Nothing was changed.",
            hint=f"Use it as it is: memlake -C {pasted(root)} log\nOr name another folder: memlake init FOLDER",
        )
    if not bare or config.is_bare(root):
        return
    if root.name == DIR or (root / DIR).exists():
        raise AlreadyExists(
            f"{root} belongs to a repo with a working folder. Nothing was changed.",
            hint="Name a new folder: memlake init --bare FOLDER",
        )
    # One that was interrupted has some of these, and is made whole.
    begun = ("packs", "parts", "tmp", ".gitignore")
    if others := [name for name in sorted(os.listdir(root)) if name not in begun and not name.startswith("repo.db")]:
        raise InvalidInput(
            f"{root} holds other files ({others[0]}), and a bare repo needs a folder of its own. Nothing was changed.",
            hint="Name a new folder: memlake init --bare FOLDER",
        )


def _refuse_lost(folder: Path) -> None:
    """Packs without a repo.db are a repo whose history was lost: an empty one beside them would hide that."""
    packs = folder / "packs"
    if not has_database(folder) and packs.is_dir() and any(packs.iterdir()):
        raise Denied(
            f"{folder} has packs but no repo.db: the history of this repo is lost, its content is not. Nothing was "
            "changed.",
            hint=f"Restore a backup. Without one, save what gc packed: {advise_rescue(folder / 'repo.db')}\n"
            f"To begin an empty repo instead, set the old one aside: mv {pasted(folder)} {pasted(f'{folder}.old')}",
        )


@check_types
def rescue(sources: SomePaths, into: AnyPath) -> Rescued:
    """Make a repo again in a new folder, from packs alone: `.memlake` folders, folders of packs, URLs of buckets."""
    folder = Path(os.path.realpath(config.real_name(into)))
    if (folder / DIR).exists():
        raise AlreadyExists(f"{folder} is a repo already. Nothing was written.", hint="Name a folder that is not.")
    places, parts = list[Place](), list[Place]()
    for given in each([sources]):
        source = os.fspath(config.real_name(given))
        inner = Path(source) / DIR if (Path(source) / DIR).is_dir() else Path(source)
        places.append(Folder(inner / "packs") if (inner / "packs").is_dir() else open_place(source))
        parts += [Folder(inner / "parts")] if (inner / "parts").is_dir() else []
    found = versions.rescue.read_packs(places)
    with _built_aside(folder) as aside, init(aside) as repo:
        rescued = versions.rescue.rebuild(repo._history, found, parts)
        versions.rebuild.stand_first(repo._look(), repo._settings.init_branch)
    return rescued


@contextlib.contextmanager
def _built_aside(folder: Path) -> Iterator[Path]:
    """A folder in `folder` whose `.memlake` moves there once it is whole; on failure it goes, so one can try again."""
    aside = folder / f"{DIR}-rescue-{os.urandom(4).hex()}"
    try:
        yield aside
        with disk.named_errors(f"moving the rescued repo to {folder / DIR}"):
            os.rename(aside / DIR, folder / DIR)
    finally:
        disk.remove_tree(aside)


@check_types
def open_repo(path: AnyPath | None = None) -> Repo:
    """Open the repo at a path, in MEMLAKE_REPO, or in this folder or one above."""
    return Repo(config.repo_folder(config.get_repo(explicit=path)))


def open_damaged() -> Repo:
    """As `open_repo`, and where repo.db is damaged all the same: for doctor, which says what of it can be read."""
    folder = config.repo_folder(config.get_repo())
    try:
        return Repo(folder)
    except Corrupt:
        return Repo(folder, unchecked=True)


@check_types
def open_for_memories(path: AnyPath | None = None) -> Repo:
    """The repo found as `open_repo` finds it, else the personal one, made on first use. For memories, not for files."""
    found = projects.find_memory_repo(path)
    return Repo(config.repo_folder(found)) if found is not None else open_personal()


def open_personal() -> Repo:
    """The repo in the user's data folder, made if it is not there, and that is said."""
    home = config.check_owner(config.personal_folder())
    _make_private(home, home / DIR)
    if has_database(home / DIR):
        with contextlib.suppress(Corrupt):  # another process is about to stamp it, or died before it did
            return Repo(home / DIR)
        return init(home)
    made = init(home)
    sys.stderr.write(f"memlake: no repo here, so data is kept in your personal one: {home}\n")
    return made


def _make_private(*folders: Path) -> None:
    """Folders that nobody but the user can look into, whatever the umask; what is made inside them is as private."""
    for folder in folders:
        with disk.named_errors(f"making {folder}"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            with contextlib.suppress(OSError):  # a file system that is read-only, or has no modes
                folder.chmod(0o700)
