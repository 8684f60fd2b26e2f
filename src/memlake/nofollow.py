"""Files inside a `.memlake` folder are opened without following links, and made no more open than their folder.

Knows kinds of files, not what they hold.

Whoever made the folder (it may have been copied, unpacked or cloned) could have put links into it, and a link leads
reads, writes and removals to the files of whoever uses it. So a repo with a link, pipe, socket or device in it is
refused when it is opened, and each file is opened by a call that does not follow links either. Only `.memlake` itself
may be a link: people keep it on another disk. To keep only packs there, there is the setting `core.packs`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from memlake.errors import Denied, Unavailable, pasted

AnyPath = str | os.PathLike[str]
_CROWDED = ("parts", "cache")  # folders of these hold too many files to look at each: looked at when they are opened
_DEEPEST = 20  # levels of folders in a `.memlake`; ours are five at most
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the last, because opening a pipe would wait for its other end
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # the last bytes of a rollback journal that names another file


def check_folder(folder: AnyPath) -> None:
    """Refuse a `.memlake` in which a name is neither a file nor a folder."""
    try:
        _check_names(os.fspath(folder), crowded=False)
    except OSError as error:
        raise Unavailable(
            f"{error.filename or folder} could not be read: {error.strerror}. Nothing was changed.",
            hint="Check the disk and the number of open files (ulimit -n), then run it again.",
        ) from error


def _check_names(folder: str, *, crowded: bool, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise Denied(
            f"{folder} lies more than {_DEEPEST} folders deep, and memlake makes no such folder. Nothing was changed.",
            hint=f"If you did not put it there, remove it: rm -r {pasted(folder)}",
        )
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not crowded:
                    _check_names(entry.path, crowded=entry.name in _CROWDED, depth=depth + 1)
            elif not (entry.is_file(follow_symlinks=False) or _is_harmless(entry)):
                raise _refusal(entry.path)


def _is_harmless(entry: os.DirEntry[str]) -> bool:
    """The lock of an editor, which we never open; or a file that has just gone."""
    return entry.name.startswith(".#") or not os.path.lexists(entry.path)


def check_new(folder: AnyPath) -> None:
    """Refuse to make a repo through a link that leads to a folder with other things in it."""
    if os.path.islink(folder) and os.path.isdir(folder) and "repo.db" not in (names := os.listdir(folder)) and names:
        raise Denied(
            f"{folder} is a link to {os.path.realpath(folder)}, which holds other files. No repo was made.",
            hint=f"Remove the link (rm {pasted(folder)}), or let it lead to an empty folder.",
        )


def is_file(path: AnyPath) -> bool:
    """Whether a file lies here itself, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def allowed_mode(path: AnyPath, mode: int) -> int:
    """`mode` for a new file or folder, without what its folder allows nobody: a private repo is private throughout."""
    return mode & (os.stat(os.path.dirname(os.fspath(path)) or ".").st_mode | 0o700)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing, no more open than the folder each lies in."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, allowed_mode(path, 0o777))


def restrict_mode(path: AnyPath) -> None:
    """Take from a file that a library made what its folder does not allow."""
    found = stat.S_IMODE(os.stat(path).st_mode)
    if (allowed := allowed_mode(path, found)) != found:
        os.chmod(path, allowed)


def open_file(path: AnyPath, flags: int = os.O_RDONLY) -> int:
    """A handle on a file; Denied where a link or anything else that is no file has its name."""
    try:
        fd = os.open(path, flags | _NO_LINK, allowed_mode(path, 0o666) if flags & os.O_CREAT else 0)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a pipe that nobody reads
            raise _refusal(path) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refusal(path)
    return fd


def check_database(path: Path) -> Path:
    """The path by which SQLite may open a database with SQLITE_OPEN_NOFOLLOW, which refuses links in any folder.

    SQLite itself follows no link to a log. But a rollback journal may end with the name of any file, and SQLite removes
    that file when it plays the journal back. memlake writes no such journal.
    """
    real = Path(os.path.realpath(path.parent), path.name)
    for name in (path.name, f"{path.name}-journal"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(real.with_name(name)).st_mode):
                raise _refusal(path.with_name(name))
    journal = real.with_name(f"{path.name}-journal")
    if journal.exists() and _last_bytes(journal, 8) == _JOURNAL_END:
        raise Denied(
            f"{path.name}-journal would make SQLite remove another file. memlake does not write such journals. "
            "Nothing was read or changed.",
            hint=f"Remove it if you trust the rest of this repo: rm {pasted(journal)}",
        )
    return real


def _last_bytes(path: Path, count: int) -> bytes:
    """The end of a file; of one that is no longer there, nothing."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, count, max(0, os.fstat(fd).st_size - count))
    finally:
        os.close(fd)


def _refusal(path: AnyPath) -> Denied:
    path = os.fspath(path)
    what = f"a link to {os.readlink(path)}" if os.path.islink(path) else "neither a file nor a folder"
    return Denied(
        f"{path} is {what}. memlake opens only files and folders inside .memlake, because anything else could lead it "
        "to files that are not its own. Nothing was read or changed.",
        hint=f"Remove it if you did not make it: rm {pasted(path)}\n"
        "To keep packs on another disk, remove it and use: memlake config core.packs FOLDER",
    )
