"""Remote bytes kept on disk by what they are, so that each is fetched once; the least recently used go first.

Many processes share one folder: a file appears whole under its name or not at all, and one that another process
removed is fetched again. Local files never come here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memlake import nofollow
from memlake.dataset.storages.remote_file import Known, Remote
from memlake.errors import Unavailable
from memlake.objects import disk

LIMIT = 10 << 30
_STALE = 24 * 3600.0  # seconds after which a file being written is what a crash left
_UNFINISHED = ".part"


class _Use:
    """The cache of this process, and how much it wrote since it last looked at the size of the whole."""

    folder: Path | None = None
    limit: int = LIMIT
    unseen: int | None = None


def use(cache: str | os.PathLike[str] | None, *, limit: int = LIMIT) -> None:
    """Keep remote bytes in this folder from now on, up to `limit` bytes; None keeps none."""
    _Use.folder = None if cache is None else Path(cache)
    _Use.limit, _Use.unseen = limit, None


def in_use() -> Path | None:
    return _Use.folder


def find_cached(file: Known, folder: Path) -> BinaryIO | None:
    """The kept bytes, opened, and marked as used just now."""
    try:
        stream = os.fdopen(nofollow.open_file(_place(file, folder)), "rb")
    except FileNotFoundError:
        return None
    if os.fstat(stream.fileno()).st_size != file.size:  # cut short by something outside: fetch it again
        stream.close()
        return None
    with contextlib.suppress(OSError):  # a cache that may only be read is of use too
        os.utime(stream.fileno())
    return stream


def keep(remote: Remote, folder: Path) -> BinaryIO:
    """Fetch, keep, and open what was kept, which stays readable whoever removes it."""
    place = _place(remote.file, folder)
    temporary = place.with_name(f"{place.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    with disk.named_errors(f"keeping {remote.file.uri} in {folder}"):
        nofollow.make_folder(place.parent)
        stream = os.fdopen(nofollow.open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL), "x+b")
        try:
            written = _fill(stream, remote)
            disk.rename(temporary, place)
        except BaseException:
            stream.close()
            temporary.unlink(missing_ok=True)
            raise
    # Looks at the whole folder only once this process added a twentieth of the limit since it last did
    if _Use.unseen is None or _Use.unseen + written > _Use.limit // 20:
        _Use.unseen = 0
        _remove_oldest(folder, _Use.limit)
    else:
        _Use.unseen += written
    stream.seek(0)
    return stream


def forget(file: Known, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(_place(file, folder))


def _fill(stream: BinaryIO, remote: Remote) -> int:
    for piece in remote.pieces():
        disk.step("write")
        stream.write(piece)
    stream.flush()
    # Without it a power cut may leave the name with zeros of the right length, which nobody would notice.
    disk.fsync_file(stream.fileno())
    if stream.tell() != remote.file.size:
        what = f"{remote.file.uri} gave {stream.tell()} bytes where {remote.file.size} were listed; none were kept."
        raise Unavailable(what, hint="Run it again.")
    return remote.file.size


def _place(file: Known, folder: Path) -> Path:
    words = "\0".join((file.source, file.path, file.etag, file.version))
    name = hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()
    return folder / name[:2] / name


def _remove_oldest(folder: Path, limit: int) -> None:
    files = sorted(_list_files(folder))
    total = sum(size for _, size, _ in files)
    for _, size, path in files[:-1]:  # the newest was just asked for, even when it alone is over the limit
        if total <= limit:
            return
        with contextlib.suppress(OSError):
            disk.unlink(path)
        total -= size


def _list_files(folder: Path) -> Iterator[tuple[float, int, str]]:
    """When each file was last used, its size and its path; removes what a crash left half written."""
    for group in _scan(folder):
        for entry in _scan(group.path) if group.is_dir(follow_symlinks=False) else ():
            try:
                facts = entry.stat(follow_symlinks=False)
                if not entry.name.endswith(_UNFINISHED):
                    yield facts.st_mtime, facts.st_size, entry.path
                elif time.time() - facts.st_mtime > _STALE:
                    disk.unlink(entry.path)
            except FileNotFoundError:
                continue  # another process was faster


def _scan(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        yield from entries
