"""The working files: walking, reading and hashing them. Reads only; knows nothing of the stage or of history."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat as modes
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from memlake.errors import InvalidInput, NotFound, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.chunks import WHOLE_BELOW
from memlake.objects.writer import Writer
from memlake.records import Entry
from memlake.versions.checkout.ignore import Ignore
from memlake.versions.checkout.local import is_racy, mode_of, pack_stat
from memlake.versions.paths import parents, refuse, unwritable
from memlake.versions.text.lines import LARGEST, find_text

_TRIES = 3
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LINK_HINT = "Make the link relative and inside, copy the file in, or list it in .memlakeignore."


class Seen(NamedTuple):
    """One working file as it was read: its entry, its stat, the first bytes."""

    entry: Entry
    stat: bytes
    racy: bool
    head: bytes


def walk(root: str, folder: str, ignore: Ignore) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files and links below a folder, not ignored, as (path relative to root, entry), in order of names."""
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(f"{root}/{folder}" if folder else root) as unsorted:
            entries = sorted(unsorted, key=lambda entry: entry.name)
    except PermissionError as error:
        raise Unavailable(
            f"folder {folder or '.'!r} cannot be read: permission denied. Nothing was changed.",
            hint="Fix its permissions, or list it in .memlakeignore.",
        ) from error
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if ignore.ignores(entry.name, is_folder):
            continue
        if is_folder:
            yield from walk(root, prefix + entry.name, ignore.enter(entry.name))
        elif can_be_kept(entry):
            yield prefix + entry.name, entry


def can_be_kept(entry: os.DirEntry[str]) -> bool:
    """A file or a link; pipes, sockets and devices are passed over, as by git."""
    return entry.is_file(follow_symlinks=False) or entry.is_symlink()


def read(
    root: str,
    path: str,
    writer: Writer | None,
    *,
    known: os.stat_result | None = None,
    progress: Callable[[int], None] | None = None,
) -> Seen:
    """Read a working file once and store it, or only hash it without a writer. Refuses a file that keeps changing."""
    for _ in range(_TRIES):
        try:
            with _folder_of(root, path) as (at, name):
                before = known or os.lstat(name, dir_fd=at)
                seen = _read_once(_Place(root, path, at, name), writer, before, progress)
        except FileNotFoundError:
            raise NotFound(
                f"file {path!r} disappeared while it was being read. Nothing was changed.", hint="Run it again."
            ) from None
        except PermissionError:
            raise Unavailable(
                f"file {path!r} cannot be read: permission denied. Nothing was changed.",
                hint="Fix its permissions (chmod u+r), or list it in .memlakeignore.",
            ) from None
        except OSError as error:
            with disk.named_errors(f"reading {path!r}"):
                raise error
        if seen is not None:
            return seen
        known = None
    raise Unavailable(
        f"file {path!r} changed while it was being read, {_TRIES} times. Nothing was changed.",
        hint="Wait until whatever writes it is done, then run it again.",
    )


class _Place(NamedTuple):
    """Where a working file is: its path, and a handle on its folder with its name there."""

    root: str
    path: str
    at: int
    name: str


@contextlib.contextmanager
def _folder_of(root: str, path: str) -> Iterator[tuple[int, str]]:
    """(handle on its folder, its name) of a working file, found so that no link leads out of the root.

    Raises FileNotFoundError if a folder on the way is missing or a link, or if no file may have the path.
    """
    if unwritable(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    folder, _, name = path.rpartition("/")
    at = os.open(root, _FOLDER)
    try:
        for part in folder.split("/") if folder else ():
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        yield at, name
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    finally:
        os.close(at)


def open_file(root: str, path: str) -> int:
    """A handle on a working file that is a file, and not a link or a pipe."""
    with _folder_of(root, path) as (at, name):
        return os.open(name, _READ, dir_fd=at)


def is_file(root: str, path: str) -> bool:
    stat = find_stat(root, path)
    return stat is not None and modes.S_ISREG(stat.st_mode)


def read_bytes(root: str, path: str) -> bytes:
    """The content of a working file, or where a link leads."""
    with _folder_of(root, path) as (at, name):
        stat = os.lstat(name, dir_fd=at)
        if modes.S_ISLNK(stat.st_mode):
            return os.fsencode(os.readlink(name, dir_fd=at))
        _refuse_special(path, stat)
        with os.fdopen(os.open(name, _READ, dir_fd=at), "rb") as file:
            return file.read()


def _refuse_special(path: str, stat: os.stat_result) -> None:
    if not modes.S_ISREG(stat.st_mode):
        raise InvalidInput(
            f"{path!r} is neither a file nor a link and cannot be kept.", hint="List it in .memlakeignore."
        )


def _read_once(
    place: _Place, writer: Writer | None, before: os.stat_result, progress: Callable[[int], None] | None
) -> Seen | None:
    """None when the file is not, after reading, what `before` said."""
    root, path, at, name = place
    if modes.S_ISLNK(before.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=at))
        if writer is not None:
            check_link(root, path, os.fsdecode(target))
        oid = writer.add(target) if writer else hashlib.sha256(target).hexdigest()
        return _seen(Entry(oid, "link", len(target)), before, target)
    _refuse_special(path, before)
    fd = os.open(name, _READ, dir_fd=at)
    try:
        if before.st_size < WHOLE_BELOW:
            data = _read_all(fd, before.st_size)
            size, head = len(data), data[:4096]
            oid = writer.add(data) if writer else hashlib.sha256(data).hexdigest()
        else:
            head = os.pread(fd, 4096, 0)
            oid, size = _read_stream(fd, before.st_size, writer, progress)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    if size != before.st_size or pack_stat(before) != pack_stat(after):
        return None
    return _seen(Entry(oid, "file", size, mode_of(after)), after, head)


def _read_all(fd: int, size: int) -> bytes:
    """A whole small file, usually in one call. It asks for one byte more than expected, to see if the file grew."""
    data = os.read(fd, size + 1)
    while data and len(data) < size:
        more = os.read(fd, size + 1 - len(data))
        if not more:
            break
        data += more
    return data


def _read_stream(fd: int, size: int, writer: Writer | None, progress: Callable[[int], None] | None) -> tuple[str, int]:
    with os.fdopen(os.dup(fd), "rb", buffering=0) as stream:
        if writer is not None:
            return writer.add_stream(_Counting(stream, progress) if progress else stream, size)
        return hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell()


class _Counting:
    """A stream that reports how far it was read."""

    def __init__(self, stream: io.RawIOBase, progress: Callable[[int], None]) -> None:
        self._stream, self._progress, self._done = stream, progress, 0

    def readinto(self, buffer: memoryview) -> int | None:
        got = self._stream.readinto(buffer)
        self._done += got or 0
        self._progress(self._done)
        return got


def _seen(entry: Entry, stat: os.stat_result, head: bytes) -> Seen:
    return Seen(entry, pack_stat(stat), is_racy(stat, time.time_ns()), head)


def check_link(root: str, path: str, target: str) -> None:
    """Refuse a link that points outside of the root. Inside, it may point anywhere, even at nothing."""
    if problem := _link_problem(root, path, target):
        refuse([(path, problem)], hint=LINK_HINT)


def link_problems(root: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(path, why) for links that cannot be kept."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if problem := _link_problem(root, path, os.readlink(f"{root}/{path}")):
                yield path, problem


def tell_left_out(links: Mapping[str, str]) -> list[str]:
    """One warning for links that were left out, by (path, why)."""
    listed = "".join(f"\n  {path!r}: {why}" for path, why in list(links.items())[:10])
    more = f"\n  and {len(links) - 10} more" if len(links) > 10 else ""
    return [f"left out, because memlake keeps only links inside the repo:{listed}{more}\n{LINK_HINT}"] if links else []


def _link_problem(root: str, path: str, target: str) -> str | None:
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    real = os.path.realpath(os.path.join(root, os.path.dirname(path), target))
    real_root = os.path.realpath(root)
    within = real == real_root or real.startswith(real_root + os.sep)
    if within and os.path.isabs(target):
        return f"the link is absolute (to {target!r}), so it would lead nowhere in another copy of the repo"
    if not within or inside == ".." or inside.startswith("../"):
        return f"the link points outside of the repo (to {target!r})"
    if inside == ".memlake" or inside.startswith(".memlake/"):
        return "the link points into .memlake"
    return None


def find_stat(root: str, path: str) -> os.stat_result | None:
    """The stat of a working file; None if there is none, or if it is a folder."""
    return None if unwritable(path) else Stats(root).find(path)


class Stats:
    """Stats of many working files in one pass: a folder that thousands of them share is looked at once.

    The caller knows that a file may have the paths (`list_unwritable`), and makes another for a later pass.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders = {"": True}

    def find(self, path: str) -> os.stat_result | None:
        """The stat of a working file; None if there is none, or if it is a folder."""
        # What is behind a link, or outside of the root, is no working file, even if local.db says that it is tracked.
        if not self._is_folder(path.rpartition("/")[0]):
            return None
        try:
            stat = os.lstat(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if modes.S_ISDIR(stat.st_mode) else stat

    def _is_folder(self, path: str) -> bool:
        """Whether a path is a folder and no link, and so is all above it."""
        if (known := self._folders.get(path)) is not None:
            return known
        is_folder = True
        for folder in (*parents(path), path):
            if folder not in self._folders:
                try:
                    is_folder = is_folder and modes.S_ISDIR(os.lstat(f"{self._root}/{folder}").st_mode)
                except (FileNotFoundError, NotADirectoryError):
                    is_folder = False
                self._folders[folder] = is_folder
            is_folder = self._folders[folder]
        return is_folder


def find_small_text(root: str, path: str) -> str | None:
    """The text of a working file; None if it is not a file, has more than LARGEST bytes or is not text."""
    stat = find_stat(root, path)
    if stat is None or not modes.S_ISREG(stat.st_mode) or stat.st_size > LARGEST:
        return None
    with contextlib.suppress(OSError), os.fdopen(open_file(root, path), "rb") as stream:
        return find_text(stream.read(LARGEST))
    return None


def holds(root: str, path: str, entry: Entry, stat: bytes | None, racy: bool) -> bool:
    """Whether the working file has exactly this content; the stat decides if it can."""
    current = find_stat(root, path)
    if current is None:
        return False
    if stat is not None and not racy and pack_stat(current) == stat:
        return True
    return has_content(root, path, entry, current)


def has_content(root: str, path: str, entry: Entry, current: os.stat_result) -> bool:
    """Whether a working file, whose stat is this, has exactly this content. Reads it if its size can be right."""
    if modes.S_ISLNK(current.st_mode) != (entry.kind == "link"):
        return False
    if entry.kind == "file" and current.st_size != entry.size:
        return False
    try:
        return read(root, path, None).entry == entry
    except (InvalidInput, NotFound):
        return False


def path_as_typed(root: str | Path, path: str) -> str:
    """A path below the root as a user types it in the current folder, ready to be pasted. `relative` reads it back."""
    real_root = os.path.realpath(root)
    text = os.path.relpath(os.path.join(real_root, path), _start_folder(real_root))
    return pasted(f"./{text}" if text.startswith("-") else text)


def _start_folder(real_root: str) -> str:
    here = os.getcwd()
    return here if here == real_root or here.startswith(real_root + os.sep) else real_root


def relative(root: Path, path: str | os.PathLike[str]) -> str:
    """A path a user typed, relative to the root; "" is the root itself. Refuses what lies outside.

    It starts at the current folder, as everywhere, or at the root if the current folder is outside of the repo.
    """
    text = os.fspath(path)
    if not text:
        raise InvalidInput(
            "an empty string is not a path. Nothing was changed.", hint="Write . for the folder you are in."
        )
    if "\0" in text or any("\ud800" <= char < "\udc80" for char in text):
        raise InvalidInput(f"path {text!r} is refused: no file can have this name. Nothing was changed.")
    real_root = os.path.realpath(root)
    absolute = os.path.normpath(os.path.join(_start_folder(real_root), text))
    # Only the folder is resolved, because the last part may be a link that is itself meant.
    parent, name = os.path.split(absolute)
    for candidate in (os.path.join(os.path.realpath(parent), name), os.path.realpath(absolute)):
        if candidate == real_root:
            return ""
        if candidate.startswith(real_root + os.sep):
            return candidate[len(real_root) + 1 :].replace(os.sep, "/")
    raise InvalidInput(
        f"path {text!r} is outside of the repo at {real_root}. Nothing was changed.",
        hint="Name a path inside the repo.",
    )
