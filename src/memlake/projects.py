"""Which project a folder belongs to, and where its memories are kept. Knows no memory; reads git's files, runs no git.

A project is known by names, of which the first stands in what is written and all count in what is read:
`github.com/ada/shop`, the first remote of its git repo; without one `shop-1f2e3d4c5b6a`, which memlake notes in git's
folder; the path of its folder. docs/design/projects.md says what is one project and what is two.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from memlake import config, git_files
from memlake.git_files import GitTree
from memlake.named_tuple import NamedTuple

OWN = "."  # in a repo of a project: that project, under whatever name a memory records it
_NOTE = "memlake-project"  # the file in git's folder that names a project without a remote
_NOTED = re.compile(r"[^\s/]{1,100}-[0-9a-f]{12}")
_DEPTH = 3  # clones of clones whose address is a folder of this machine
_MANIFESTS = (
    "package.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "composer.json", "Gemfile", "mix.exs", "pubspec.yaml",
)  # fmt: skip
_PARENTS = ("packages", "apps", "services", "crates", "libs", "modules")


class Place(NamedTuple):
    """Where somebody stands: a project by all its names (none: "" alone), and what of it.

    `area` is the folder below `root`, `package` the part of it that is a thing of its own in a monorepo. `note` is the
    file that would name the project, where it does not yet. `own`: the repo is this project's, not one of many.
    """

    names: tuple[str, ...] = ("",)
    root: str = ""
    area: str = ""
    package: str = ""
    note: str = ""
    own: bool = False

    @property
    def project(self) -> str:
        return self.names[0]

    @property
    def seen(self) -> tuple[str, ...]:
        """The names of all whose memories are shown here: this project's, and what belongs to none."""
        return tuple(dict.fromkeys((*self.same, "")))

    @property
    def same(self) -> tuple[str, ...]:
        """The names of this project, as the index marks its memories."""
        return (*self.names, OWN) if self.own else self.names


NOWHERE = Place()


def find_place(start: config.AnyPath = ".") -> Place:
    """The project of a folder and what of it; NOWHERE for home, the root of the file system and the personal repo."""
    try:
        here = os.path.realpath(start)
    except FileNotFoundError:  # somebody removed the folder we stand in
        return NOWHERE
    tree = find_git_tree(here)
    if tree is not None:
        names, note = _name_tree(tree)
        return Place(names, tree.root, _find_area(here, tree.root), _find_package(here, tree.root), note)
    personal = os.path.realpath(config.personal_folder())
    nowhere = (_home(), os.path.dirname(here), personal)  # a folder that is its own parent is the root
    if here in nowhere or here.startswith(personal + os.sep):
        return NOWHERE
    root = _find_repo_above(here) or here
    return Place((root,), root, _find_area(here, root), _find_package(here, root))


def find_names(asked: str) -> tuple[str, ...]:
    """The names of the project that somebody means: of a folder those of its project, else what is said."""
    return find_place(asked).names if asked and os.path.isdir(asked) else (asked,)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a project of ours; other programs call their projects anything."""
    return not text or "/" in text or _NOTED.fullmatch(text) is not None


def refresh(place: Place) -> Place:
    """The place as it is by now: another process may have named the project."""
    noted = _read_note(place.note) if place.note else ""
    return place._replace(names=(noted, *place.names), note="") if noted else place


def claim(place: Place) -> Place:
    """The place of a project that has a name which outlives its path; where none can be noted, the path names it."""
    if place.note:
        plain = "".join(char for char in os.path.basename(place.root) if char.isprintable() and not char.isspace())
        with contextlib.suppress(OSError):
            git_files.write_once(Path(place.note), f"{plain[:80] or 'project'}-{os.urandom(6).hex()}\n")
    return refresh(place)


def _name_tree(tree: GitTree) -> tuple[tuple[str, ...], str]:
    """The names of a git tree, the best first, and the file that names it where it does not yet.

    The path is always one: by it, what was remembered before there was a git repo is found.
    """
    if not tree.common or not config.is_ours(Path(tree.common)):
        return (tree.main,), ""
    asked = [name for name in git_files.read_values(tree.common, "memlake", "project") if name.isprintable()]
    names, note = _name_common(tree.common, tree.main, _DEPTH)
    was = [name for name in git_files.read_values(tree.common, "memlake", "was") if name.isprintable()]
    found = tuple(name for name in dict.fromkeys((*asked[-1:], *names, *was, tree.main)) if name)
    return found, "" if asked else note


def _name_common(common: str, root: str, depth: int) -> tuple[tuple[str, ...], str]:
    noted = _read_note(os.path.join(common, _NOTE))
    address = git_files.read_remote(common)
    if name := git_files.name_remote(address):
        return (name, noted), ""
    if (
        folder := git_files.find_remote_folder(address, root)
    ) and depth:  # a clone of a folder is that folder's project
        inner = next(
            (at for at in (os.path.join(folder, ".git"), folder, f"{folder}.git") if git_files.is_common(at)), ""
        )
        if inner and inner != common and config.is_ours(Path(inner)):
            names, note = _name_common(inner, folder, depth - 1)
            return (*names, folder, noted), note
    return (noted,), "" if noted else os.path.join(common, _NOTE)


def _read_note(file: str) -> str:
    text = git_files.read_text(file, 256).strip()
    return text if _NOTED.fullmatch(text) else ""


def _find_repo_above(here: str) -> str:
    """The nearest folder with a `.memlake`, below home; "" when there is none."""
    home = _home()
    while here not in (home, os.path.dirname(here)):
        if os.path.isdir(os.path.join(here, config.FOLDER)):
            return here
        here = os.path.dirname(here)
    return ""


def _find_area(here: str, root: str) -> str:
    return "" if here == root else os.path.relpath(here, root).replace(os.sep, "/")


def _find_package(here: str, top: str) -> str:
    """The package of a monorepo that a folder is in, by its path below the top; "" outside of all of them.

    Two packages are two things: each has its own server, port and test command.
    """
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


def find_place_in(root: Path) -> Place:
    """The place of whoever uses the repo of a project: its own, or that of another git repo inside it.

    A repo that is named from outside (MEMLAKE_REPO, `Agent(folder)`) is used as its own project.
    """
    top, home = os.path.realpath(root), find_place(root)
    with contextlib.suppress(FileNotFoundError):
        here, tree = os.path.realpath("."), find_git_tree(top)
        mine = find_git_tree(here)
        is_same = mine is not None and tree is not None and (mine.common or mine.root) == (tree.common or tree.root)
        if is_same or (here + os.sep).startswith(top + os.sep):
            return find_place()._replace(own=is_same or mine == tree)
    return (Place((top,), top) if home == NOWHERE else home._replace(area="", package=""))._replace(own=True)


def describe_place() -> str:
    """What whoever sets an agent up should know where there is no repo; "" where there is one."""
    if find_memory_repo() is not None:
        return ""
    personal = config.personal_folder()
    return f"There is no repo here, so memories go to your personal one, {personal}. `memlake init` makes one here."


def find_git_tree(here: str) -> GitTree | None:
    """The git working tree that a folder (a real path) is in."""
    return git_files.find_tree(here, _home())


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))
