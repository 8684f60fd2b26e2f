"""Which project a folder belongs to, and where its memories are kept. Reads git's files, never runs git.

A project is a folder: the root of the main git working tree, so that linked worktrees share it, else the folder itself.
The personal repo holds memories of many projects; there each records its own.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from memlake import config
from memlake.named_tuple import NamedTuple

_MANIFESTS = (
    "package.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "composer.json", "Gemfile", "mix.exs", "pubspec.yaml",
)  # fmt: skip
_PARENTS = ("packages", "apps", "services", "crates", "libs", "modules")


class GitTree(NamedTuple):
    """A git working tree, and the main one: the same, unless this is a linked worktree of it."""

    root: str
    main: str


def find_project(start: config.AnyPath = ".") -> str:
    """The project of a folder; "" for what belongs to none: home, the root of the file system, the personal repo."""
    try:
        here = os.path.realpath(start)
    except FileNotFoundError:  # somebody removed the folder we stand in
        return ""
    tree = find_git_tree(here)
    if tree is not None:
        return tree.main
    personal = os.path.realpath(config.personal_folder())
    nowhere = (_home(), os.path.dirname(here), personal)  # a folder that is its own parent is the root
    return "" if here in nowhere or here.startswith(personal + os.sep) else here


def find_package(root: config.AnyPath) -> str:
    """The package of a monorepo that we stand in, by its path below the root; "" outside of all of them.

    Two packages are two things: each has its own server, port and test command.
    """
    try:
        here = os.path.realpath(".")
    except FileNotFoundError:
        return ""
    tree, top = find_git_tree(here), os.path.realpath(root)
    top = tree.root if tree is not None and tree.main == top else top
    below = here
    while below.startswith(top + os.sep):
        is_named = os.path.basename(os.path.dirname(below)) in _PARENTS and os.path.dirname(below) != top
        if is_named or any(os.path.isfile(os.path.join(below, name)) for name in _MANIFESTS):
            return os.path.relpath(below, top).replace(os.sep, "/")
        below = os.path.dirname(below)
    return ""


def find_memory_repo(explicit: config.AnyPath | None = None) -> Path | None:
    """The repo whose memories are meant here: as `config.find_repo`, but a linked worktree uses its main tree's.

    Files are another matter: those of a worktree are not those of the main tree.
    """
    found = config.find_repo(explicit=explicit)
    if explicit is not None or config.variable("REPO"):
        return found
    tree = find_git_tree(os.path.realpath("."))
    if tree is None or tree.main == tree.root or not os.path.isdir(os.path.join(tree.main, config.FOLDER)):
        return found
    is_inside = found is not None and (os.path.realpath(found) + os.sep).startswith(tree.root + os.sep)
    return found if is_inside else Path(tree.main)


def describe_place() -> str:
    """What whoever sets an agent up should know where there is no repo; "" where there is one."""
    if find_memory_repo() is not None:
        return ""
    personal = config.personal_folder()
    return f"There is no repo here, so memories go to your personal one, {personal}. `memlake init` makes one here."


def find_git_tree(here: str) -> GitTree | None:
    """The git working tree that a folder (a real path) is in; looking ends below home, as it does for repos."""
    home = _home()
    while here not in (home, os.path.dirname(here)):
        mark = os.path.join(here, ".git")
        if os.path.isdir(mark):
            return GitTree(here, here)
        if os.path.isfile(mark):
            return GitTree(here, _main_tree(mark) or here)
        here = os.path.dirname(here)
    return None


def _main_tree(mark: str) -> str | None:
    """The main tree that a `.git` file leads to; None for a submodule, and where the main tree does not know it.

    Git notes a worktree on both sides, and both must agree: a `.git` file that came in an archive must not open the
    memories of another project.
    """
    folder = _read_path(mark, "gitdir: ")
    back = _read_path(os.path.join(folder, "gitdir")) if folder else ""
    common = _read_path(os.path.join(folder, "commondir")) if folder else ""
    if not common or back != os.path.realpath(mark):
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def _read_path(file: str, before: str = "") -> str:
    """The path that one of git's small files holds, made absolute from where it lies; "" when there is none."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not wait for its writer
        with open(fd, encoding="utf-8", errors="surrogateescape") as opened:
            line = opened.read(4096).rstrip("\n") if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
    if not line.startswith(before) or "\0" in line or not line.removeprefix(before):
        return ""
    return os.path.realpath(os.path.join(os.path.dirname(file), line.removeprefix(before)))


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))
