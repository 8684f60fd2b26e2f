"""Where sealed files are kept: the contract of a place, and a local folder. Knows names and bytes, not what they hold.

A name is derived from the content, so a file that exists under the name with the same size is the same file: storing
it again succeeds, and nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from memlake import nofollow
from memlake.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound
from memlake.objects import disk

Ranges = Sequence[tuple[int, int]]  # (start, length)
Pieces = list[bytes]  # the classes below have a method called list

NAME = re.compile(r"[a-z0-9._-]+(/[a-z0-9._-]+)*")
_COPY = re.compile(r"~[0-9a-f]{32}")


class Place(Protocol):
    """Put whole, get ranges, list, delete. Safe to use from many threads."""

    def claim(self) -> None:
        """Make sure that this repo may store and delete here, or raise Denied. Most places are its own anyway."""

    def put(self, name: str, file: Path) -> None:
        """Store a whole local file; it is durable on return. Raises Conflict if the name exists with another size.

        The caller gives the file away: a folder moves it, a bucket copies it. Remove it if it is still there.
        """

    def get(self, name: str, start: int, length: int) -> bytes:
        """Exactly these bytes. Raises NotFound if there is no such name, Corrupt if the file is too short."""

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        """Several (start, length) ranges of one file, in the order asked, in few calls."""

    def size(self, name: str) -> int:
        """The size in bytes, or NotFound."""

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        """(name, size, time stored in seconds) of every name that begins with the prefix, in any order."""

    def is_empty(self) -> bool:
        """Whether it holds nothing at all, under any name."""

    def delete(self, name: str) -> None:
        """Remove a name for good; a missing one is fine."""

    def local_path(self, name: str) -> Path | None:
        """The file, if it is on this machine."""


class Refused:
    """Stands for a place that may not be used. Every call raises the reason, so that no other place is used instead."""

    def __init__(self, reason: Denied) -> None:
        self._reason = reason

    def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        raise Denied(self._reason.message, hint=self._reason.hint)

    claim = put = get = get_ranges = size = list = is_empty = delete = local_path = _refuse


def check_name(name: str) -> str:
    if not NAME.fullmatch(name) or not {".", ".."}.isdisjoint(name.split("/")):
        cure = "Use a-z, 0-9, dot, dash and underscore, with / between parts; no '..' and no leading /."
        raise InvalidInput(f"{name!r} cannot be a stored name.", hint=cure)
    return name


def check_ranges(ranges: Ranges) -> None:
    if any(start < 0 or length < 0 for start, length in ranges):
        raise InvalidInput("a range cannot be negative.")


def check_size(name: str, ours: int, stored: int) -> None:
    if ours != stored:
        what = f"{name} is already stored with {stored} bytes; the new file has {ours}. The stored one was kept."
        raise Conflict(what, hint="One of them is damaged or has the wrong name. To see which: memlake fsck --full")


def too_short(name: str, start: int, length: int) -> Corrupt:
    what = f"{name} is shorter than it must be: bytes {start} to {start + length} are missing."
    return Corrupt(what, hint="Run memlake fsck --full.")


class _Open:
    """A file open for reading. Whoever still holds it may read; the last one to let go closes it."""

    def __init__(self, path: str) -> None:
        self.fd = nofollow.open_file(path)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def __del__(self, close: Any = os.close) -> None:
        with contextlib.suppress(AttributeError, OSError):  # AttributeError: os.open failed in __init__
            close(self.fd)


class _OpenFiles:
    """The files one process has open, the least recently used closed first."""

    def __init__(self, limit: int) -> None:
        self.pid = os.getpid()
        self.limit = limit
        self._lock = threading.Lock()
        self._files: OrderedDict[str, _Open] = OrderedDict()

    def get(self, path: str, status: os.stat_result) -> _Open:
        with self._lock:
            held = self._files.get(path)
            # While we hold it open, its inode number cannot go to another file, so an equal one means the same file.
            if held is not None and held.identity == (status.st_dev, status.st_ino):
                self._files.move_to_end(path)
                return held
        opened = _Open(path)
        with self._lock:
            self._files[path] = opened
            self._files.move_to_end(path)
            while len(self._files) > self.limit:
                self._files.popitem(last=False)
        return opened

    def drop(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)


class Folder:
    """A folder of this machine. A file is moved in under its final name, whole or not at all."""

    def __init__(self, root: Path, *, open_files: int = 64) -> None:
        self.root = Path(root)
        self._open_files = _OpenFiles(open_files)

    def put(self, name: str, file: Path) -> None:
        target = self._path(name)
        with disk.named_errors(f"storing {name} in {self.root}"):
            size = os.stat(file).st_size
            _make_folder(target.parent)
            sync_file(file)
            try:
                _move(file, target)
            except FileExistsError:
                check_size(name, size, os.lstat(target).st_size)
            # Also when the name existed: whoever made it may not have synced it yet.
            sync_folders(target.parent, self.root)
            # Last, because until the new name is durable a crash must leave the file under its old one.
            _unlink(file)

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        check_ranges(ranges)
        path = os.path.join(self.root, check_name(name))  # many times faster than a Path
        with disk.named_errors(f"reading {name} in {self.root}"):
            held = self._here().get(path, self._stat(path, name))
            return [_read(held.fd, name, start, length) for start, length in ranges]

    def size(self, name: str) -> int:
        with disk.named_errors(f"looking for {name} in {self.root}"):
            return self._stat(self._path(name), name).st_size

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        check_name(prefix + "x")  # a prefix is whatever a name may begin with
        return self._walk(prefix.rpartition("/")[0], prefix)

    def claim(self) -> None:
        return

    def is_empty(self) -> bool:
        with disk.named_errors(f"listing {self.root}"), contextlib.suppress(FileNotFoundError):
            return not any(os.scandir(self.root))
        return True

    def __str__(self) -> str:
        return str(self.root)

    def delete(self, name: str) -> None:
        path = self._path(name)
        self._here().drop(str(path))
        with disk.named_errors(f"deleting {name} in {self.root}"):
            if _unlink(path):
                disk.fsync_dir(path.parent)

    def local_path(self, name: str) -> Path | None:
        path = self._path(name)
        return path if nofollow.is_file(path) else None

    def _path(self, name: str) -> Path:
        return self.root / check_name(name)

    def _stat(self, path: str | Path, name: str) -> os.stat_result:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                return status
        raise NotFound(f"{self.root} has no {name}.")

    def _here(self) -> _OpenFiles:
        # A forked child gets its own, because a thread that does not exist in it may have held the parent's lock.
        if self._open_files.pid != os.getpid():
            self._open_files = _OpenFiles(self._open_files.limit)
        return self._open_files

    def _walk(self, folder: str, prefix: str) -> Iterator[tuple[str, int, float]]:
        with disk.named_errors(f"listing {self.root / folder}"):
            try:
                entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if not name.startswith(prefix) or not NAME.fullmatch(name):
                continue  # the latter is what a crash left of a copy
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(name, prefix)
            elif entry.is_file(follow_symlinks=False):  # a link is not ours: we make none
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield name, status.st_size, status.st_mtime


def _read(fd: int, name: str, start: int, length: int) -> bytes:
    data = os.pread(fd, length, start)
    while len(data) < length:  # one call gives at most 2 GiB
        more = os.pread(fd, length - len(data), start + len(data))
        if not more:
            raise too_short(name, start, length)
        data += more
    return data


def _move(file: Path, target: Path) -> None:
    """Give a file its final name, or raise FileExistsError. A hard link never replaces a file; a rename does."""
    nofollow.restrict_mode(file)  # a part was made by a library
    try:
        disk.link(file, target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            _copy_across(file, target)
        elif error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        elif target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        else:
            # A file system without hard links. Two writers may both get here, but with the same content.
            disk.rename(file, target)


def _copy_across(file: Path, target: Path) -> None:
    """Copy from another file system. The '~' keeps the copy out of the names until it is complete."""
    copy = target.with_name(f"~{os.urandom(16).hex()}")
    fd = nofollow.open_file(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    began = os.fstat(fd).st_mtime  # by the clock of the place, which may be another machine's
    try:
        for old in target.parent.glob("~*"):  # left by a crash: no copy takes a day
            with contextlib.suppress(FileNotFoundError):
                if _COPY.fullmatch(old.name) and old.lstat().st_mtime < began - 86400:
                    disk.unlink(old)
        with open(fd, "wb", buffering=0), open(file, "rb", buffering=0) as source:
            while block := source.read(1 << 20):
                disk.write_all(fd, block)
            disk.fsync_file(fd)
        _move(copy, target)
    finally:
        _unlink(copy)


def _unlink(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        disk.unlink(path)
        return True
    return False


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        disk.mkdir(folder)
    disk.fsync_dir(folder.parent)


def sync_file(file: Path) -> None:
    with open(file, "rb", buffering=0) as stream:
        disk.fsync_file(stream.fileno())


def sync_folders(folder: Path, root: Path) -> None:
    """Make names durable in a folder and in those above it, up to the root."""
    disk.fsync_dir(folder)
    if folder != root:
        sync_folders(folder.parent, root)
