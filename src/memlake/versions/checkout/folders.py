"""Removing and creating working files by open handles on their folders. Knows no plan and no commit."""

from __future__ import annotations

import contextlib
import os
import stat as modes

from memlake.errors import Conflict, Error
from memlake.objects import disk
from memlake.objects.copy_out import copy_out
from memlake.objects.store import Objects
from memlake.records import Entry
from memlake.versions.checkout import worktree
from memlake.versions.paths import parents

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Folders:
    """Folders of the working tree by open handles, so that no link can lead a write elsewhere."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path: str | None = None
        self._fd = -1
        self._emptied: set[str] = set()

    def __enter__(self) -> Folders:
        self._top = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._top)

    def _leave(self) -> None:
        if self._fd >= 0 and self._fd != self._top:
            os.close(self._fd)
        self._fd, self._path = -1, None

    def _enter(self, folder: str, *, make: bool) -> int:
        """A handle on a folder; consecutive paths share it."""
        if folder == self._path:
            return self._fd
        self._leave()
        fd = os.dup(self._top)
        for part in folder.split("/") if folder else ():
            try:
                inner = _open_folder(fd, part, make)
            except OSError as error:
                os.close(fd)
                if isinstance(error, (NotADirectoryError, FileExistsError)) or os.path.lexists(
                    f"{self._root}/{folder}"
                ):
                    raise Conflict(
                        f"{folder!r} must be a folder, but there is something else in its place.",
                        hint="Move it away, then run it again.",
                    ) from error
                raise
            os.close(fd)
            fd = inner
        self._fd, self._path = fd, folder
        return fd

    def remove(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        try:
            disk.unlink(name, dir_fd=self._enter(folder, make=False))
        except (FileNotFoundError, Conflict):
            return
        except (IsADirectoryError, PermissionError):
            if not os.path.isdir(f"{self._root}/{path}"):
                raise
            return
        if folder:
            self._emptied.add(folder)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder, making the folders it goes to."""
        folder, _, name = source.rpartition("/")
        at = os.dup(self._enter(folder, make=False))
        try:
            into, _, new = target.rpartition("/")
            disk.rename(name, new, src_dir=at, dst_dir=self._enter(into, make=True))
        finally:
            os.close(at)

    def tidy(self) -> None:
        """Remove folders that the removals emptied, but never the current folder."""
        self._leave()
        here = os.path.realpath(os.getcwd()) if os.path.exists(".") else ""
        every = {above for folder in self._emptied for above in (*parents(folder), folder)}
        for folder in sorted(every, key=len, reverse=True):
            full = f"{self._root}/{folder}"
            if os.path.realpath(full) != here and not os.path.islink(full):
                with contextlib.suppress(OSError):
                    if not os.listdir(full):
                        disk.rmdir(full)
        self._emptied.clear()

    def create(
        self, objects: Objects, path: str, entry: Entry, content: bytes | None, *, replaces: Entry | None
    ) -> os.stat_result:
        folder, _, name = path.rpartition("/")
        at = self._enter(folder, make=True)
        if replaces is not None:
            self._make_room(at, name, path)
        if entry.kind == "link":
            target = os.fsdecode(content if content is not None else objects.read(entry.oid))
            worktree.check_link(self._root, path, target)
            self._make_room(at, name, path)
            disk.symlink(target, name, dir_fd=at)
            return os.stat(name, dir_fd=at, follow_symlinks=False)
        mode = 0o777 if entry.mode else 0o666
        disk.step("create")
        try:
            fd = os.open(name, _NEW, mode, dir_fd=at)
        except FileExistsError:
            self._make_room(at, name, path)
            fd = os.open(name, _NEW, mode, dir_fd=at)
        try:
            if content is not None:
                disk.write_all(fd, content)
            else:
                copy_out(objects, entry.oid, fd)
            return os.fstat(fd)
        except Error:
            disk.unlink(name, dir_fd=at)  # the content is damaged, and no file is better than half of one
            raise
        finally:
            os.close(fd)

    def _make_room(self, at: int, name: str, path: str) -> None:
        """Remove what is here, which was found safe to replace: the same content, or an emptied folder."""
        try:
            disk.unlink(name, dir_fd=at)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            if not modes.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                raise
            try:
                disk.rmdir(name, dir_fd=at)
            except OSError as error:
                raise Conflict(
                    f"there is a folder where file {path!r} should be.", hint="Move it away, then run it again."
                ) from error


def _open_folder(at: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _DIR, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    disk.mkdir(name, dir_fd=at)
    return os.open(name, _DIR, dir_fd=at)
