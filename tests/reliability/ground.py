"""What the reliability tests stand on: repos on a fast disk, and child processes that die."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import memlake as ml
from memlake.objects import disk
from memlake.repo import Repo

TORTURE = os.environ.get("MEMLAKE_TORTURE") == "1"
SHARED_MEMORY = Path("/dev/shm")
KILLED = -signal.SIGKILL


@contextlib.contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested here is the order of steps, not the disk."""
    at = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memlake-", dir=at) as folder:
        yield Path(folder).resolve()


def noise(size: int, seed: object) -> bytes:
    """Bytes that do not compress, the same for the same seed."""
    return random.Random(str(seed)).randbytes(size)


def put(root: Path, name: str, content: bytes | str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def working_files(root: Path) -> dict[str, bytes]:
    """Every working file and its content; a link as its target."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".memlake"]
        for name in names:
            path = Path(folder, name)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(root))] = content
    return found


def snapshot_of(folder: Path, to: Path) -> Path:
    """A copy of a repo with its working files, as a template for many runs."""
    shutil.copytree(folder, to, symlinks=True)
    return to


def committed_files(repo: Repo, rev: str = "HEAD") -> dict[str, bytes]:
    return {
        path.removeprefix("files/"): repo.read_object(entry.oid)
        for path, entry in repo.ls(rev)
        if path.startswith("files/")
    }


# -- children ---------------------------------------------------------------------------------------


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child; returns its exit status as subprocess does (negative: the signal)."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def kill_at(number: int) -> Callable[[str], None]:
    """A fault hook that kills this process just before its step of this number, counted from 1."""
    seen = 0

    def hook(_name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


@contextlib.contextmanager
def hooked(hook: Callable[[str], None] | None) -> Iterator[None]:
    before, disk.hook = disk.hook, hook
    try:
        yield
    finally:
        disk.hook = before


def steps_of(work: Callable[[], object]) -> list[str]:
    """The names of the disk steps some work takes."""
    names: list[str] = []
    with hooked(names.append):
        work()
    return names


def python(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """This interpreter as a new process, without any shim in between."""
    return subprocess.Popen([sys.executable, *arguments], text=True, **options)  # type: ignore[call-overload, no-any-return]


def assert_sound(repo: Repo) -> None:
    report = repo.fsck(full=True)
    assert report.ok, report.problems


def init(root: Path) -> Repo:
    root.mkdir(parents=True, exist_ok=True)
    return ml.init(root)
