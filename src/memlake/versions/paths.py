"""Which paths are allowed, how a user's path becomes a tree path, and which paths cannot exist side by side. Pure.

A tree path is posix, relative, starts with its room (`files/`, `memories/`, ...) and can be written on any file system
we know, so that what one machine accepts does not surprise another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from memlake.errors import InvalidInput
from memlake.versions.kinds import ROOMS, list_rooms

FILES = "files/"
MAX_PATH, MAX_PART = 4096, 255
_LISTED = 10
REFUSED = "Rename it, or list it in .memlakeignore."
_BAD = re.compile(r"[\x00-\x1f\x7f\\]")
# Names that mean .memlake or .git on some file system: Windows drops final dots and spaces and the name of a stream,
# and gives short names; HFS+ of macOS ignores some code points. git refuses the same (protectNTFS, protectHFS).
_OURS = re.compile(r"(?:\.memlake(?:~.*)?|memlak~\d|(?P<git>\.git|git~1))[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)
_INVISIBLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# If a path in a list, each written between `/` and a line break, may be unwritable, one of these is in the text. Plain
# searches take a third of the time of one pattern, which tries every `/`.
_SUSPECT = ("//", "/\n", "/memlak~", "/git~1", "\0")
_SUSPECT_DOTS = (
    "/./", "/.\n", "/../", "/..\n", "/.memlake", "/.git/", "/.git\n", "/.git ", "/.git.", "/.git:",
)  # fmt: skip
_DRIVE = re.compile(r"^[A-Za-z]:")
_RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(1, 10)), *(f"lpt{i}" for i in range(1, 10))}


def check_file(path: str) -> str:
    """A file path relative to the root, as stored; raises InvalidInput with the reason."""
    if problem := file_problem(path):
        refuse([(path, problem)])
    return path


def file_problem(path: str) -> str | None:
    """Why a file may not have this path, or None."""
    if not (path.isascii() and path.isprintable() and "\\" not in path):
        if _BAD.search(path):
            return "it holds a control character, NUL or a backslash"
        if not _is_text(path):
            return "its name is not valid UTF-8"
    if not path or path.startswith("/"):
        return "it is absolute" if path else "it is empty"
    if ":" in path and _DRIVE.match(path):
        return "it starts with a drive letter"
    if len(path) > MAX_PATH:
        return f"it is longer than {MAX_PATH} characters"
    return next((problem for part in path.split("/") if (problem := _part_problem(part))), None)


def check_text(path: str) -> str:
    """The path, if it is valid text; raises for any other, which cannot be stored anywhere."""
    if not _is_text(path):
        refuse([(path, "its name is not valid UTF-8")])
    return path


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def file_problems(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(path, why) for those that are refused. A folder that thousands of files share is checked once."""
    checked: set[str] = set()
    for path in paths:
        folder, _, name = path.rpartition("/")
        # Without a folder the name is the whole path, which has rules of its own (a drive letter, a leading slash).
        is_plain = name.isascii() and name.isprintable() and "\\" not in name and len(path) <= MAX_PATH
        if folder and folder in checked and is_plain:
            problem = _part_problem(name)
        else:
            problem = file_problem(path)
            if problem is None:
                checked.add(folder)
        if problem:
            yield path, problem


def unwritable(path: str) -> str | None:
    """Why no file may be made at this path here, even if history has it. A name bad only elsewhere may be written."""
    if "\0" in path or len(path) > MAX_PATH:
        return "no file can have this name"
    return next((problem for part in path.split("/") if (problem := _unwritable_part(part))), None)


def find_unwritable(paths: Iterable[str]) -> str | None:
    """The first of these paths at which no file may be made here."""
    return next(iter(list_unwritable(paths)), None)


def list_unwritable(paths: Iterable[str]) -> dict[str, str]:
    """Those of these paths at which no file may be made here, with the reason. Searches long lists as one text."""
    paths = list(paths)
    text = "/" + "\n/".join(paths).lower() + "\n"
    is_suspect = any(part in text for part in _SUSPECT) or ("/." in text and any(dot in text for dot in _SUSPECT_DOTS))
    if not is_suspect and (text.isascii() or not _INVISIBLE.search(text)):
        paths = [path for path in paths if len(path) > MAX_PART]
    return {path: why for path in paths if (why := unwritable(path))}


def _unwritable_part(part: str) -> str | None:
    if part in ("", ".", ".."):
        return f"{part or 'an empty part'!r} may not be a part of a path"
    if match := _OURS.fullmatch(part if part.isascii() else _INVISIBLE.sub("", part)):
        name, why = (
            (".git", "whose files can run programs") if match["git"] else (".memlake", "which is the repo itself")
        )
        is_plain = part.lower() in (name, "git~1")
        return f"it lies inside {name}, {why}" if is_plain else f"on macOS or Windows {part!r} is {name}, {why}"
    if len(part) > MAX_PART:
        return f"a part is longer than {MAX_PART} characters"
    return None


def _part_problem(part: str) -> str | None:
    if problem := _unwritable_part(part):
        return problem
    if part.lower().split(".", 1)[0] in _RESERVED and len(part) < 12:
        return f"{part!r} is a reserved device name on Windows"
    return None


def check(path: str) -> str:
    """Any tree path: a known room, then a path as for files."""
    room, _, rest = path.partition("/")
    if room not in ROOMS:
        raise InvalidInput(
            f"path {_quote(path)} does not start with a room.",
            hint=f"A path starts with one of: {', '.join(f'{name}/' for name in list_rooms())}",
        )
    return f"{room}/{check_file(rest)}"


def check_all(paths: Iterable[str]) -> None:
    """As `check` of each, but a folder that thousands of them share is checked once."""
    files = []
    for path in paths:
        room, _, file = path.partition("/")
        files.append(file if room in ROOMS else check(path))  # raises
    if problem := next(file_problems(files), None):
        refuse([problem])


def refuse(problems: Sequence[tuple[str, str]], *, hint: str = "") -> None:
    """Raise with every (path, why), up to ten; without one, do nothing."""
    if len(problems) == 1:
        path, why = problems[0]
        raise InvalidInput(f"path {_quote(path)} is refused: {why}. Nothing was changed.", hint=hint or REFUSED)
    if problems:
        listed = "".join(f"\n  {_quote(path)}: {why}" for path, why in problems[:_LISTED])
        more = f"\n  and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        raise InvalidInput(
            f"{len(problems)} paths are refused:{listed}{more}\nNothing was changed.",
            hint=hint or REFUSED.replace("it,", "them,").replace("it in", "them in"),
        )


def _quote(path: str) -> str:
    cut = path if len(path) < 120 else path[:117] + "..."
    if _is_text(cut):
        return repr(cut)
    # Bytes that are not text in octal, as git and `status` show them.
    return '"' + "".join(f"\\{ord(c) - 0xDC00:03o}" if "\udc80" <= c <= "\udcff" else c for c in cut) + '"'


def fold(path: str) -> str:
    """The path as a key that is equal for names which some file systems tell apart and others do not."""
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


def parents(path: str) -> Iterable[str]:
    """The folders above a path, the outermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def check_together(added: Iterable[str], existing: Iterable[str]) -> None:
    """Refuse paths that cannot be checked out side by side."""
    pairs = list(collisions(added, existing))
    if len(pairs) == 1:
        ((path, other),) = pairs
        raise InvalidInput(
            f"paths {_quote(path)} and {_quote(other)} {_why_apart(path, other)}. Nothing was changed.",
            hint="Rename or remove one of them.",
        )
    refuse([(path, f"beside {_quote(other)}: they {_why_apart(path, other)}") for path, other in pairs])


def collisions(added: Iterable[str], existing: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(path, other) that cannot exist side by side: case or Unicode twins, a file and a folder of one name."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in existing:
        files[fold(path)] = path
        folder = path.rpartition("/")[0]
        while folder and folders.setdefault(fold(folder), folder) is folder:
            folder = folder.rpartition("/")[0]
    checked: set[str] = set()  # folders without a collision; most files share theirs with many others
    for path in added:
        name = fold(path)
        twin = files.get(name, path)
        if twin != path:
            yield path, twin
            continue
        files[name] = path
        folder = path.rpartition("/")[0]
        if folder not in checked:
            other = _folder_collision(path, files, folders)
            if other is not None:
                yield path, other
                continue
            checked.add(folder)
        if name in folders:
            yield path, folders[name] + "/"


def _folder_collision(path: str, files: dict[str, str], folders: dict[str, str]) -> str | None:
    for folder in parents(path):
        other = folders.setdefault(fold(folder), folder)
        if other != folder:
            return other + "/"
        if fold(folder) in files:
            return files[fold(folder)]
    return None


def _why_apart(path: str, other: str) -> str:
    same = fold(path) == fold(other.rstrip("/"))
    return "differ only in case or Unicode form" if same else "cannot both exist in one folder"


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
    """A wanted path with wildcards, made in `globs.py`. All that `regex` can match is in `folder`."""

    __slots__ = ("folder", "regex")
    folder: str
    regex: re.Pattern[str]


def matches(path: str, wanted: Iterable[str]) -> bool:
    """Whether a path is one of the wanted ones, is inside one of them, or matches a wanted pattern."""
    return any(
        not want
        or path == want
        or path.startswith(want + "/")
        or (isinstance(want, Glob) and want.regex.fullmatch(path) is not None)
        for want in wanted
    )


def scope(want: str) -> str:
    """The folder or file that holds everything a wanted path can match."""
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
