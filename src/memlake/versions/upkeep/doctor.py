"""doctor: is this machine and folder fit to hold a repo? Looks; changes nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import apsw

from memlake import nofollow
from memlake.errors import Error, pasted
from memlake.objects import disk
from memlake.objects import tables as object_tables
from memlake.objects.db import SAFE_SQLITE, Database
from memlake.objects.layout import FORMAT, read_number
from memlake.objects.packs import LIMIT
from memlake.objects.places import Place
from memlake.objects.store import part_name
from memlake.objects.strays import TMP_NAME
from memlake.records import count, short
from memlake.reports import Check
from memlake.versions.checkout.context import Checkout, find_problem

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
_QUICK = 64 << 20  # bytes of a database that are read whole here; of a larger one fsck does that
_DERIVED = {
    "index/*/index.db": "index/schema.sql",
    "vectors.db": "index/vectors.sql",
    "datasets.db": "dataset/memo/results.sql",
    "recalls.db": "memories/answers/recalls.sql",
}
_SOURCE = Path(__file__).parents[2]
_WAL_LARGE = 64 << 20


def examine(here: Checkout, folder: Path) -> list[Check]:
    checks: dict[str, Callable[[], Check]] = {
        "sqlite": _check_sqlite,
        "format": lambda: _check_format(here),
        "filesystem": lambda: _check_filesystem(folder),
        "space": lambda: _check_space(folder),
        "clock": lambda: _check_clock(here),
        "permissions": lambda: _check_writable(folder),
        **{db.path.name: partial(_check_database, db) for db in here.databases},
        "index": lambda: _check_derived(folder),
        "head": lambda: _check_head(here),
        "packs": lambda: _check_packs(here),
        "parts": lambda: _check_parts(here),
        "locks": lambda: _check_locks(here),
        "log": lambda: _check_logs(here),
        "checkout": lambda: _check_journal(here),
        "leftovers": lambda: _check_leftovers(folder),
        "reflinks": lambda: _check_reflinks(folder),
    }
    return [_run_check(name, check) for name, check in checks.items()]


def _run_check(name: str, check: Callable[[], Check]) -> Check:
    """What a check stumbles over is what it was to find."""
    try:
        return check()
    except Error as error:
        return Check(name, False, error.message, error.hint)


# -- what is stored -----------------------------------------------------------------------------


def _check_database(db: Database) -> Check:
    size = db.path.stat().st_size
    if size > _QUICK:
        db.row("SELECT count(*) FROM sqlite_schema")
        return Check(db.path.name, True, f"opens; {size / 1e6:.0f} MB, which only `memlake fsck` reads whole")
    problems = db.integrity(full=False)
    return Check(db.path.name, not problems, problems[0] if problems else "its pages are sound", db.cure)


def _check_derived(folder: Path) -> Check:
    """Of what can be made again: the databases open and their pages are sound."""
    bad = []
    for path, schema in sorted((found, sql) for pattern, sql in _DERIVED.items() for found in folder.glob(pattern)):
        db = Database(path, schema=[_SOURCE / schema], durable=False)
        try:
            bad += [path.relative_to(folder)] if path.stat().st_size <= _QUICK and db.integrity(full=False) else []
        finally:
            db.close()
    detail = f"damaged: {', '.join(map(str, bad))}" if bad else "what is derived is sound"
    return Check("index", not bad, detail, "It is made again from the history, and nothing is lost: memlake fsck")


def _check_head(here: Checkout) -> Check:
    problem = find_problem(here.history, here.local)
    if problem is None:
        head = here.head()
        next(here.history.scan(head), None) if head else None  # the way down its tree to the first file
    detail = problem or f"HEAD is {here.local.branch or short(here.local.detached)}"
    return Check(
        "head",
        problem is None,
        detail,
        "Stand on a branch: memlake switch BRANCH\nSee the branches with: memlake branch",
    )


def _check_packs(here: Checkout) -> Check:
    objects = here.history.objects
    rows = {name: size for _, name, size, _ in object_tables.list_packs(objects.db)}
    return _check_files("packs", rows, objects.packs)


def _check_parts(here: Checkout) -> Check:
    objects = here.history.objects
    rows = {part_name(oid): size for oid, size in object_tables.scan_parts(objects.db)}
    return _check_files("parts", rows, objects.parts)


def _check_files(name: str, rows: Mapping[str, int], place: Place) -> Check:
    """Whether every file that repo.db names is there in its size."""
    there = {found: size for found, size, _ in place.list()} if rows else {}
    lost = [file for file, size in rows.items() if there.get(file) != size]
    detail = f"{len(rows)} there" if not lost else f"{len(lost)} of {len(rows)} missing or cut short: {lost[0][:12]}..."
    cure = "See which paths need them with: memlake fsck. Then put them back from a backup or another copy of the repo."
    return Check(name, not lost, detail, cure)


# -- the machine and the folder -----------------------------------------------------------------


def _check_sqlite() -> Check:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    text = f"SQLite {apsw.sqlite_lib_version()} by apsw {apsw.apsw_version()}"
    needed = ".".join(map(str, SAFE_SQLITE))
    return Check(
        "sqlite",
        version >= SAFE_SQLITE,
        text,
        f"Before {needed} two writers can corrupt a shared log: pip install -U apsw",
    )


def _check_format(here: Checkout) -> Check:
    row = object_tables.find_fact(here.history.db, "format")
    found = row[0] if row else None
    return Check(
        "format",
        found == FORMAT,
        f"repository format {found}; this memlake writes {FORMAT}",
        "Install the memlake that wrote it.",
    )


def _check_filesystem(folder: Path) -> Check:
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


def _check_space(folder: Path) -> Check:
    free, needed = disk.free_bytes(folder), _count_room_for_gc(folder)
    cure = "Free some space: memlake gc --prune, memlake du. A full disk stops writes; it loses nothing."
    if free < needed:
        at = pasted(folder)
        cure = (
            f"Remove other files from this disk, {-(-(needed - free) // 1_000_000)} MB or more, because gc needs room "
            "to work. Then run: memlake gc --prune\n"
            f"Or move the repo to another disk: mv {at} /OTHER/DISK/NAME && ln -s /OTHER/DISK/NAME {at}\n"
            "A full disk stops writes; it loses nothing. To have a copy elsewhere: memlake backup /OTHER/DISK/repo.tar"
        )
    return Check("space", free >= _LOW, f"{free / 1e9:.1f} GB free", cure)


def _count_room_for_gc(folder: Path) -> int:
    """Bytes that gc may need while it works: the log of repo.db, a copy of it without free pages, one new pack."""
    packs = sum(file.stat().st_size for file in _list_files(folder / "packs"))
    return 3 * (folder / "repo.db").stat().st_size + min(packs, LIMIT) + (1 << 20)


def _check_clock(here: Checkout) -> Check:
    ahead = read_number(here.history.db, "clock") - time.time_ns() // 1000
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


def _check_writable(folder: Path) -> Check:
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


def _check_locks(here: Checkout) -> Check:
    held = [db.path.name for db in here.databases if _is_locked(db.path.with_name(db.path.name + ".lock"))]
    return Check(
        "locks",
        not held,
        f"held right now: {', '.join(held)}" if held else "no writer holds a lock",
        "A writer is at work. If it hangs, find it with: fuser -v .memlake/*.lock",
    )


def _is_locked(path: Path) -> bool:
    try:
        fd = nofollow.open_file(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _check_logs(here: Checkout) -> Check:
    sizes = [
        path.stat().st_size for db in here.databases if (path := db.path.with_name(db.path.name + "-wal")).exists()
    ]
    large = max(sizes, default=0)
    return Check(
        "log",
        large < _WAL_LARGE,
        f"write-ahead log {large / 1e6:.1f} MB",
        "A long reader keeps it from shrinking: close other programs that use the repo, then run `memlake gc`.",
    )


def _check_journal(here: Checkout) -> Check:
    holder, waiting = here.local.holder(), here.local.state("journal") is not None
    if holder is not None:
        return Check("checkout", True, f"{holder} is at work on the working files")
    return Check(
        "checkout",
        not waiting,
        "a checkout was interrupted" if waiting else "no checkout is half done",
        "Finish it with: memlake status",
    )


def _check_leftovers(folder: Path) -> Check:
    """Only files that gc removes: another name in tmp is not one of ours."""
    ours = (file for file in _list_files(folder / "tmp") if TMP_NAME.fullmatch(file.name))
    old = [file for file in ours if file.stat().st_mtime < time.time() - 86400]
    return Check(
        "leftovers",
        not old,
        f"{count(len(old), 'temporary file')} of writers that died" if old else "no leftovers",
        "Remove them now with: memlake gc --prune",
    )


def _list_files(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.exists() else iter(())


def _check_reflinks(folder: Path) -> Check:
    can = filesystem(folder) in ("btrfs", "xfs", "bcachefs")
    return Check(
        "reflinks",
        True,
        "checkout can share blocks with the packs" if can else "this file system has no reflinks; checkout copies",
    )
