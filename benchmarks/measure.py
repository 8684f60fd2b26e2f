"""Measures one child process, one folder, this machine. Knows nothing of any version control tool."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import apsw


class CommandFailed(RuntimeError):
    """A measured command ended with an error or ran past its time; the message names it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one or more child processes took: CPU is user + system of them and all their descendants."""

    cpu: float
    wall: float
    rss: int = 0
    out: str = ""

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu + other.cpu, self.wall + other.wall, max(self.rss, other.rss), self.out + other.out)


NOTHING = Cost(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how children run: folder, whole environment, seconds each may take, whether stderr is shown."""

    folder: Path
    env: Mapping[str, str]
    timeout: float = 900.0
    shown: bool = False

    def at(self, folder: Path) -> Place:
        folder.mkdir(parents=True, exist_ok=True)
        return replace(self, folder=folder)


def run(argv: Sequence[str], place: Place) -> Cost:
    """Run one command to its end and take its own rusage.

    wait4 rather than a difference of RUSAGE_CHILDREN: it names this child alone, its peak memory included.
    The peak of a forked child starts at the size of its parent, so the process calling this must stay small.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(argv, cwd=place.folder, env=dict(place.env), stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=None if place.shown else err,
                                 start_new_session=True)  # fmt: skip
        clock = threading.Timer(place.timeout, _end, (child.pid,))
        clock.start()
        _, status, usage = os.wait4(child.pid, 0)
        clock.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        text, trouble = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if child.returncode:
        late = f"ended after {place.timeout:.0f} s" if wall >= place.timeout else f"exit {child.returncode}"
        raise CommandFailed(f"`{' '.join(argv)[:120]}` {late}: {(trouble or text).strip()[-300:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, text)


def _end(pid: int) -> None:
    # start_new_session made the child the leader of its own group: this ends it and what it started, no one else.
    os.killpg(pid, signal.SIGKILL)


def allocated(folder: Path, names: Sequence[str] = (".",)) -> int:
    """Bytes the filesystem gave to these folders, each inode once, as du counts."""
    seen: dict[tuple[int, int], int] = {}
    for name in names:
        for where, _, files in os.walk(folder / name):
            for path in [where, *(os.path.join(where, file) for file in files)]:
                stat = os.lstat(path)
                seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


def checkpoint(folder: Path) -> None:
    """Fold every write-ahead log below the folder into its database, so that sizes compare."""
    for wal in [path for path in folder.rglob("*-wal") if path.stat().st_size]:
        db = apsw.Connection(str(wal).removesuffix("-wal"))
        db.set_busy_timeout(10_000)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()


def peak_memory() -> int:
    """The largest resident size this process has had since it began to run its own program."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def machine(work: Path) -> dict[str, str]:
    """What a reader needs to judge the figures: cores, processor, memory, filesystem, load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": str(os.cpu_count()),
        "cpu": _processor(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "filesystem": filesystem(work),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }


def filesystem(folder: Path) -> str:
    """The type of the filesystem that holds the folder, from the longest mount point above it."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best, kind = "", "unknown"
    for line in mounts.read_text().splitlines():
        _, point, name, *_ = line.split()
        above = f"{folder.resolve()}/".startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(best):
            best, kind = point, name
    return kind


def free(folder: Path) -> int:
    return shutil.disk_usage(folder).free if folder.is_dir() else 0


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
