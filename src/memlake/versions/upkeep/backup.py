"""A copy of a live repo in one tar file. Reads the repo; a lease keeps gc from removing what is being copied."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memlake import config, nofollow
from memlake.errors import AlreadyExists, NotFound, Unavailable, pasted
from memlake.objects import disk
from memlake.objects import tables as object_tables
from memlake.objects.db import Database
from memlake.objects.leases import Lease
from memlake.records import count
from memlake.versions.checkout.context import Checkout

if TYPE_CHECKING:
    import tarfile

_SPARE = 4 << 20  # bytes for logs of the databases, which may not be folded in yet


def backup(here: Checkout, folder: Path, file: Path) -> int:
    """Write `file`; returns its size. Unpack it with tar in an empty folder and the repo is there."""
    if os.path.lexists(file):
        raise AlreadyExists(
            f"{file} exists already. Nothing was written.", hint="Choose another name, or remove it first."
        )
    if not file.parent.is_dir():
        raise NotFound(
            f"there is no folder {file.parent}, so {file.name} was not written.",
            hint=f"Make it with: mkdir -p {file.parent}",
        )
    import tempfile  # here and below: slow to import, and every other verb can do without

    partial = file.with_name(f"{file.name}.{os.urandom(4).hex()}.partial")  # another backup may be at the same name
    try:
        with (
            _without_gc(here.history.db),
            disk.named_errors(f"writing {file}"),
            tempfile.TemporaryDirectory(prefix="backup-", dir=_choose_scratch(here, folder, file)) as scratch,
        ):
            _write(here, folder, partial, Path(scratch))
            disk.rename(partial, file)
            disk.fsync_dir(file.resolve().parent)
        away = object_tables.count_away(here.history.db)
        if away and away[0]:
            warnings.warn(
                f"the backup does not hold the content of {count(away[0], 'object')} ({away[1]:,} bytes), because "
                "it is at a remote only.",
                stacklevel=2,
            )
        return file.stat().st_size
    finally:
        with contextlib.suppress(OSError):  # what went wrong was said already
            partial.unlink()


@contextlib.contextmanager
def _without_gc(db: Database) -> Iterator[None]:
    """A lease keeps gc away. A full disk takes none, so there every writer waits until the copy is made."""
    try:
        lease = Lease(db, "backup")
    except Unavailable:
        with contextlib.ExitStack() as waiting:
            with contextlib.suppress(Unavailable):  # a read-only disk: nobody writes there
                waiting.enter_context(db.held())
            yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(Unavailable):  # the disk is full by now: the lease ends with this process
            lease.close()


def _choose_scratch(here: Checkout, folder: Path, file: Path) -> Path:
    """Where the databases are copied to first: beside the backup if the disk of the repo has no room for them."""
    size = sum(db.path.stat().st_size for db in here.databases)
    return folder / "tmp" if disk.free_bytes(folder) > 2 * size + _SPARE else file.parent


def _write(here: Checkout, folder: Path, partial: Path, scratch: Path) -> None:
    import tarfile

    # The databases first: every pack and part they name exists by then and is kept by the lease.
    for db in here.databases:
        db.copy_to(scratch / db.path.name)
    _copy_settings(folder, scratch)
    top = Path(config.FOLDER if folder.name == config.FOLDER else "")  # a bare repo is unpacked as one
    disk.step("create")
    mode = nofollow.allowed_mode(folder / "x", 0o666)  # a copy of a private repo is private
    with open(partial, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for path in (*sorted(scratch.iterdir()), *_plain_files(folder)):
                name = path.name if path.parent == scratch else path.relative_to(folder)
                disk.step("write")
                tar.add(path, arcname=top / name, recursive=False)
            for name in ("tmp", "parts", "packs"):
                _add_folder(tar, str(top / name))
        stream.flush()
        os.fsync(stream.fileno())


def _copy_settings(folder: Path, scratch: Path) -> None:
    """The settings file without what acts: whoever unpacks the backup has not trusted it, and may be somebody else."""
    text, acting = config.without_acting(folder)
    if text:
        (scratch / config.FILE).write_text(text, encoding="utf-8")
    if acting:
        again = " && ".join(f"memlake config {key} {pasted(value)}" for key, value in acting.items())
        packs = " The packs are not in the backup, because they are kept elsewhere." if "core.packs" in acting else ""
        warnings.warn(
            f"the backup leaves out settings that act ({', '.join(acting)}).{packs} Where you unpack it, run: {again}",
            stacklevel=2,
        )


def _plain_files(folder: Path) -> list[Path]:
    wanted = [folder / ".gitignore"]
    rooms = ("packs", "parts", "archives")
    inside = [path for room in rooms for path in sorted((folder / room).rglob("*")) if path.is_file()]
    return [path for path in wanted if path.exists()] + inside


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    import tarfile

    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)
