"""doctor: is this machine and folder fit to hold a repo? Looks; changes nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from memlake.objects import disk
from memlake.objects.db import SAFE_SQLITE
from memlake.objects.layout import FORMAT
from memlake.reports import Check
from memlake.versions.here import Here

_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "fuse.rclone",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "davfs",
}
_LOW = 1 << 30
_WAL_LARGE = 64 << 20


def examine(here: Here, folder: Path) -> list[Check]:
    return [
        _sqlite(), _format(here), _filesystem(folder), _space(folder), _clock(here), _writable(folder),
        _locks(here), _logs(here), _journal(here), _leftovers(folder), _reflinks(folder),
    ]  # fmt: skip


def _sqlite() -> Check:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    text = f"SQLite {apsw.sqlite_lib_version()} by apsw {apsw.apsw_version()}"
    needed = ".".join(map(str, SAFE_SQLITE))
    return Check(
        "sqlite",
        version >= SAFE_SQLITE,
        text,
        f"Before {needed} two writers can corrupt a shared log: pip install -U apsw",
    )


def _format(here: Here) -> Check:
    row = here.history.db.row("SELECT value FROM meta WHERE key = 'format'")
    found = row[0] if row else None
    return Check(
        "format",
        found == FORMAT,
        f"repository format {found}; this memlake writes {FORMAT}",
        "Install the memlake that wrote it.",
    )


def _filesystem(folder: Path) -> Check:
    kind = filesystem(folder)
    return Check(
        "filesystem",
        kind not in _NETWORK,
        kind,
        "SQLite's log needs shared memory, which network file systems lack: move the repo to a local disk.",
    )


def filesystem(folder: Path) -> str:
    """The type of the file system a folder lies on, as the system names it."""
    best, kind = "", "unknown"
    with contextlib.suppress(OSError):
        real = os.path.realpath(folder)
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, where, found = line.split()[:3]
            where = where.replace("\\040", " ")
            if (real == where or real.startswith(where.rstrip("/") + "/")) and len(where) >= len(best):
                best, kind = where, found
    return kind


def _space(folder: Path) -> Check:
    free = disk.free_bytes(folder)
    return Check(
        "space",
        free >= _LOW,
        f"{free / 1e9:.1f} GB free",
        "Free some space: memlake gc --prune, memlake du. A full disk stops writes; it loses nothing.",
    )


def _clock(here: Here) -> Check:
    row = here.history.db.row("SELECT value FROM meta WHERE key = 'clock'")
    ahead = (row[0] if row else 0) - time.time_ns() // 1000
    detail = (
        "the clock agrees with the repo"
        if ahead < 60_000_000
        else f"the repo's last write is {ahead / 1e6:.0f} s in the future"
    )
    return Check(
        "clock",
        ahead < 60_000_000,
        detail,
        "Set this machine's clock (timedatectl set-ntp true). Order of commits is not affected.",
    )


def _writable(folder: Path) -> Check:
    wrong = [
        name
        for name in ("", "repo.db", "local.db", "packs", "tmp")
        if (folder / name).exists() and not os.access(folder / name, os.W_OK)
    ]
    return Check(
        "permissions",
        not wrong,
        f"not writable: {', '.join(n or '.memlake' for n in wrong)}" if wrong else "everything is writable",
        "Fix the owner: chown -R $USER .memlake",
    )


def _locks(here: Here) -> Check:
    held = [
        db.path.name for db in (here.history.db, here.local.db) if _is_locked(db.path.with_name(db.path.name + ".lock"))
    ]
    return Check(
        "locks",
        not held,
        f"held right now: {', '.join(held)}" if held else "no writer holds a lock",
        "A writer is at work. If it hangs, find it with: fuser -v .memlake/*.lock",
    )


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _logs(here: Here) -> Check:
    sizes = [
        path.stat().st_size
        for db in (here.history.db, here.local.db)
        if (path := db.path.with_name(db.path.name + "-wal")).exists()
    ]
    large = max(sizes, default=0)
    return Check(
        "log",
        large < _WAL_LARGE,
        f"write-ahead log {large / 1e6:.1f} MB",
        "A long reader keeps it from shrinking: close other programs that use the repo, then memlake gc.",
    )


def _journal(here: Here) -> Check:
    holder, waiting = here.local.holder(), here.local.state("journal") is not None
    if holder is not None:
        return Check("checkout", True, f"{holder} is at work on the working files")
    return Check(
        "checkout",
        not waiting,
        "a checkout was interrupted" if waiting else "no checkout is half done",
        "Finish it with: memlake status",
    )


def _leftovers(folder: Path) -> Check:
    old = [file for file in _files(folder / "tmp") if file.stat().st_mtime < time.time() - 86400]
    return Check(
        "leftovers",
        not old,
        f"{len(old)} temporary file(s) of writers that died" if old else "no leftovers",
        "Remove them with: memlake gc",
    )


def _files(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.exists() else iter(())


def _reflinks(folder: Path) -> Check:
    can = filesystem(folder) in ("btrfs", "xfs", "bcachefs")
    return Check(
        "reflinks",
        True,
        "checkout can share blocks with the packs" if can else "this file system has no reflinks; checkout copies",
    )
