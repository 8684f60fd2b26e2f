"""Which paths are allowed, how a user's path becomes a tree path, and which paths cannot live together. Pure.

A tree path is posix, relative, starts with its room (`files/`, `memories/`, ...) and can be
materialised on any file system we know: what one machine accepts must not surprise another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from memlake.errors import InvalidInput
from memlake.versions.codec import KIND_OF_ROOM

FILES = "files/"
MAX_PATH, MAX_PART = 4096, 255
_BAD = re.compile(r"[\x00-\x1f\x7f\\]")
_DRIVE = re.compile(r"^[A-Za-z]:")
_RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(1, 10)), *(f"lpt{i}" for i in range(1, 10))}


def check_file(path: str) -> str:
    """A file path relative to the root, as stored; raises InvalidInput with the reason."""
    text = path
    if not (text.isascii() and text.isprintable() and "\\" not in text):
        if _BAD.search(text):
            raise _refused(path, "it holds a control character, NUL or a backslash")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _refused(path, "its name is not valid UTF-8") from None
    if not text or text.startswith("/"):
        raise _refused(path, "it is absolute" if text else "it is empty")
    if ":" in text and _DRIVE.match(text):
        raise _refused(path, "it starts with a drive letter")
    if len(text) > MAX_PATH:
        raise _refused(path, f"it is longer than {MAX_PATH} characters")
    for part in text.split("/"):
        _check_part(path, part)
    return text


def check_files(paths: Iterable[str]) -> None:
    """As `check_file`, for many: a folder shared by thousands of files is looked at once."""
    known: set[str] = set()
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder in known and name.isascii() and name.isprintable() and "\\" not in name and len(path) <= MAX_PATH:
            _check_part(path, name)
        else:
            check_file(path)
            known.add(folder)


def _check_part(path: str, part: str) -> None:
    if part in ("", ".", ".."):
        raise _refused(path, f"{part or 'an empty part'!r} may not be a part of a path")
    lower = part.lower()
    if lower == ".memlake" or lower.startswith(".memlake~"):
        raise _refused(path, "it lies inside .memlake, which is the repo itself")
    if len(part) > MAX_PART:
        raise _refused(path, f"a part is longer than {MAX_PART} characters")
    if lower.split(".", 1)[0] in _RESERVED and len(lower) < 12:
        raise _refused(path, f"{part!r} is a reserved device name on Windows")


def check(path: str) -> str:
    """Any tree path: a known room, then a path as for files."""
    room, _, rest = path.partition("/")
    if room not in KIND_OF_ROOM:
        raise InvalidInput(
            f"path {_shown(path)} does not start with a room.",
            hint=f"A path starts with one of: {', '.join(f'{name}/' for name in KIND_OF_ROOM)}",
        )
    return f"{room}/{check_file(rest)}"


def _refused(path: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"path {_shown(path)} is refused: {reason}. Nothing was changed.",
        hint="Rename it, or list it in .memlakeignore.",
    )


def _shown(path: str) -> str:
    return repr(path if len(path) < 120 else path[:117] + "...")


def fold(path: str) -> str:
    """Equal for names that one file system may hold apart and another may not."""
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


def parents(path: str) -> Iterable[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def check_together(added: Iterable[str], existing: Iterable[str]) -> None:
    """Refuse paths that cannot be checked out side by side: case or Unicode twins, a file and a folder of one name."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in existing:
        files[fold(path)] = path
        _note_folders(path, folders)
    known: set[str] = set()  # folders found sound already: most files share theirs with many others
    for path in added:
        name = fold(path)
        twin = files.get(name, path)
        if twin != path:
            raise _collision(path, twin)
        files[name] = path
        folder = path.rpartition("/")[0]
        if folder not in known:
            _check_folders(path, files, folders)
            known.add(folder)
        if name in folders:
            raise _collision(path, folders[name] + "/")


def _check_folders(path: str, files: dict[str, str], folders: dict[str, str]) -> None:
    for folder in parents(path):
        other = folders.setdefault(fold(folder), folder)
        if other != folder:
            raise _collision(path, other + "/")
        if fold(folder) in files:
            raise _collision(path, files[fold(folder)])


def _note_folders(path: str, folders: dict[str, str]) -> None:
    folder = path.rpartition("/")[0]
    while folder and folders.setdefault(fold(folder), folder) is folder:
        folder = folder.rpartition("/")[0]


def _collision(path: str, other: str) -> InvalidInput:
    same = fold(path) == fold(other.rstrip("/"))
    why = "differ only in case or Unicode form" if same else "cannot both exist in one folder"
    return InvalidInput(
        f"paths {_shown(path)} and {_shown(other)} {why}. Nothing was changed.", hint="Rename or remove one of them."
    )


def tree_path(path: str) -> str:
    return FILES + path


def file_path(path: str) -> str:
    """The working file a tree path names."""
    return path[len(FILES) :]


def plain(path: str) -> str:
    """A tree path as people see it: a file without its room, all of the files as a dot."""
    return str(path).removeprefix(FILES) if path != FILES[:-1] else "."


def folder_clashes(paths: Mapping[str, object]) -> list[str]:
    """Paths of a set that are also folders of others in it."""
    folders = {folder for path in paths for folder in parents(path)}
    return sorted(path for path in paths if path in folders)


class Glob(str):
    """A wanted path with wildcards, made in `globs.py`. `folder` holds all that `regex`, of `pattern`, can match."""

    __slots__ = ("folder", "pattern", "regex")
    folder: str
    pattern: str
    regex: re.Pattern[str]


def matches(path: str, wanted: Iterable[str]) -> bool:
    """Whether a path is one of the wanted ones, lies in one of them, or is what one of them describes."""
    return any(
        not want
        or path == want
        or path.startswith(want + "/")
        or (isinstance(want, Glob) and want.regex.fullmatch(path) is not None)
        for want in wanted
    )


def scope(want: str) -> str:
    """The path at or below which everything lies that a wanted path can match."""
    return want.folder if isinstance(want, Glob) else want


def name_problem(name: str) -> str | None:
    """Why a branch or tag may not have this name (git's rules), or None."""
    rules = (
        (not name, "it is empty"),
        (name in ("HEAD", "@", "-"), "it is a word with a meaning of its own"),
        (name.startswith(("-", "/", ".")), "it starts with a dash, dot or slash"),
        (name.endswith(("/", ".", ".lock")), "it ends with a slash, a dot or .lock"),
        (".." in name or "@{" in name or "//" in name or "/." in name, "it holds .., @{, // or /."),
        (
            bool(re.search(r"[\x00-\x20\x7f~^:?*\[\\]", name)),
            "it holds a space, control character or one of ~ ^ : ? * [ \\",
        ),
        (any(unicodedata.category(c) in ("Cf", "Cc", "Cs") for c in name), "it holds an invisible character"),
        (len(name) > 200 or PurePosixPath(name).name == "", "it is longer than 200 characters"),
        (len(name) in (40, 64) and all(c in "0123456789abcdef" for c in name), "it looks like a commit id"),
    )
    return next((why for bad, why in rules if bad), None)
