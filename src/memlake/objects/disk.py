"""The one place that changes files on disk, so that a test can stop or fail it at every step.

`hook` is called with the name of each step just before it happens; the tests count steps with it,
raise from it, or kill the process in it. Nothing else in the project writes, syncs, renames or unlinks.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from memlake import nofollow
from memlake.errors import NotFound, Unavailable

hook: Callable[[str], None] | None = None
PathLike = str | os.PathLike[str]

_CURES = {
    errno.ENOSPC: "the disk is full. Free some space (`memlake du` says what takes how much), then run it again.",
    errno.EDQUOT: "your disk quota is used up. Free some space, then run it again.",
    errno.EIO: "the disk reported an I/O error. Check it (dmesg, smartctl) and run memlake fsck.",
    errno.EMFILE: "too many files are open in this process. Raise the limit (ulimit -n) and run it again.",
    errno.ENFILE: "too many files are open on this machine. Close some programs and run it again.",
    errno.EROFS: "the file system is read-only. Remount it for writing.",
    errno.EACCES: "permission denied. Check who owns it (ls -l).",
    errno.EPERM: "not permitted. Check who owns it (ls -l).",
    errno.ENOMEM: "the machine is out of memory.",
    errno.EFBIG: "the file size limit is reached (ulimit -f).",
}


def step(name: str) -> None:
    """Announce one step that changes the disk, for tests."""
    if hook is not None:
        hook(name)


@contextlib.contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Turn an operating system error into one of ours that says what was being done and the cure."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{what}: {error.filename or 'the file'} does not exist.") from error
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "")
        place = f" ({error.filename})" if error.filename else ""
        raise Unavailable(
            f"{what} failed: {error.strerror or error}{place}. Nothing was changed.", hint=cure
        ) from error


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write every byte: os.write may write fewer, and then says so only in its result."""
    step("write")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write every byte at a place in a file."""
    step("write")
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def fsync_file(fd: int) -> None:
    step("fsync")
    os.fsync(fd)


def fsync_dir(path: PathLike) -> None:
    """Make names in a folder durable; a file's own fsync does not."""
    step("fsync-dir")
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(src: PathLike, dst: PathLike, *, src_dir: int | None = None, dst_dir: int | None = None) -> None:
    step("rename")
    os.rename(src, dst, src_dir_fd=src_dir, dst_dir_fd=dst_dir)


def link(src: PathLike, dst: PathLike) -> None:
    step("link")
    os.link(src, dst)


def symlink(target: str, name: PathLike, *, dir_fd: int | None = None) -> None:
    step("symlink")
    os.symlink(target, name, dir_fd=dir_fd)


def unlink(path: PathLike, *, dir_fd: int | None = None) -> None:
    step("unlink")
    os.unlink(path, dir_fd=dir_fd)


def mkdir(path: PathLike, *, dir_fd: int | None = None) -> None:
    step("mkdir")
    os.mkdir(path, nofollow.allowed_mode(path, 0o777) if dir_fd is None else 0o777, dir_fd=dir_fd)


def rmdir(path: PathLike, *, dir_fd: int | None = None) -> None:
    step("rmdir")
    os.rmdir(path, dir_fd=dir_fd)


@contextlib.contextmanager
def spare_folder() -> Iterator[Path]:
    """A temporary folder, in memory where that is possible, for when the disk is full."""
    import tempfile  # slow to import, and hardly ever needed

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memlake-", dir=memory) as folder:
        yield Path(folder)


def remove_tree(path: Path) -> None:
    """Remove a temporary file or folder; one that is gone already is fine."""
    import shutil  # slow to import, and only needed for what a crash left

    with named_errors(f"removing {path}"):
        step("unlink")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_file(path: Path, *pieces: bytes | memoryview) -> None:
    """Replace a file whole: either the old or the new content is there, never a mixture."""
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    fd = nofollow.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for piece in pieces:
            write_all(fd, piece)
        fsync_file(fd)
    finally:
        os.close(fd)
    rename(temporary, path)
    fsync_dir(path.parent)


def sync_filesystem(path: PathLike) -> None:
    """Flush everything of this file system once, which is far cheaper than one fsync a file."""
    import ctypes  # slow to import, and only a checkout needs it

    step("syncfs")
    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
    fd = os.open(path, os.O_RDONLY)
    try:
        if syncfs is None or syncfs(fd) != 0:
            os.sync()
    finally:
        os.close(fd)


def free_bytes(path: PathLike) -> int:
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize
