"""A copy of a live repo in one tar file. Reads the repo; a lease keeps gc from removing what is being copied."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import AlreadyExists
from memlake.objects import disk
from memlake.objects.leases import Lease
from memlake.versions.here import Here

if TYPE_CHECKING:
    import tarfile


def backup(here: Here, folder: Path, file: Path) -> int:
    """Write `file`; returns its size. Unpack it with tar in an empty folder and the repo is there."""
    if os.path.lexists(file):
        raise AlreadyExists(
            f"{file} exists already. Nothing was written.", hint="Choose another name, or remove it first."
        )
    import tempfile  # here and below: slow to import, and every other verb can do without

    lease = Lease(here.history.db, "backup")
    partial = file.with_name(file.name + ".partial")
    try:
        with disk.named_errors(f"writing {file}"), tempfile.TemporaryDirectory(dir=folder / "tmp") as scratch:
            _write(here, folder, partial, Path(scratch))
            disk.rename(partial, file)
            disk.fsync_dir(file.resolve().parent)
        return file.stat().st_size
    finally:
        with contextlib.suppress(OSError):  # what went wrong was said already
            partial.unlink()
        lease.close()


def _write(here: Here, folder: Path, partial: Path, scratch: Path) -> None:
    import tarfile

    # The databases first: every pack and part they name exists by then and is kept by the lease.
    for db in (here.history.db, here.local.db):
        db.copy_to(scratch / db.path.name)
    disk.step("create")
    with partial.open("xb") as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for path in (*sorted(scratch.glob("*.db")), *_plain_files(folder)):
                inside = path.name if path.parent == scratch else path.relative_to(folder)
                disk.step("write")
                tar.add(path, arcname=f".memlake/{inside}", recursive=False)
            for name in ("tmp", "parts", "packs"):
                _add_folder(tar, name)
        stream.flush()
        os.fsync(stream.fileno())


def _plain_files(folder: Path) -> list[Path]:
    wanted = [folder / name for name in ("config.toml", ".gitignore")]
    inside = [path for room in ("packs", "parts") for path in sorted((folder / room).rglob("*")) if path.is_file()]
    return [path for path in wanted if path.exists()] + inside


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    import tarfile

    info = tarfile.TarInfo(f".memlake/{name}")
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)
