"""Copying an object out to a file, sharing blocks with the packs where the file system can. Knows no path.

Every chunk is read and checked before it counts, also when its blocks are shared and not written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct

from memlake import nofollow
from memlake.objects import disk
from memlake.objects.packs import BLOCK
from memlake.objects.store import Objects

_FICLONERANGE = 0x4020940D
_BATCH = 64  # chunks read together
_CANNOT = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF}


def copy_out(objects: Objects, oid: str, fd: int) -> int:
    """Write an object to a file from its start; returns how many bytes are shared with a pack, not copied."""
    pieces = objects.pieces(oid)
    if len(pieces) == 1:
        disk.write_all(fd, objects.read(oid))
        return 0
    at = shared = 0
    cloner = _Cloner(objects, fd)
    for start in range(0, len(pieces), _BATCH):
        batch = pieces[start : start + _BATCH]
        contents = dict(objects.read_chunks(batch))
        places = objects.locate([digest for digest, _ in batch]) if cloner.able else {}
        for digest, length in batch:
            place = places.get(digest) if cloner.able else None
            shared += _write_piece(fd, contents[digest.hex()], at, cloner if place else None, place)
            at += length
    return shared


def _write_piece(fd: int, data: bytes, at: int, cloner: _Cloner | None, place: tuple[str, int, int] | None) -> int:
    """Write a chunk at `at`, sharing the whole blocks inside it where that works; returns how much is shared.

    In order: what a crash leaves must be a beginning of the file, by which resuming knows it for its own.
    """
    first = -at % BLOCK if cloner else 0
    if first:
        disk.write_at(fd, data[:first], at)
    shared = cloner.share(place, at) if cloner else 0
    if first + shared < len(data):
        disk.write_at(fd, data[first + shared :], at + first + shared)
    return shared


class _Cloner:
    """Shares the whole blocks of a record with the file, where record and file agree on block boundaries."""

    def __init__(self, objects: Objects, fd: int) -> None:
        self._objects, self._fd = objects, fd
        self.able = True

    def share(self, place: tuple[str, int, int] | None, at: int) -> int:
        if place is None:
            return 0
        name, start, length = place
        first = -at % BLOCK
        whole = (length - first) // BLOCK * BLOCK
        if whole <= 0 or (start - at) % BLOCK:
            return 0
        path = self._objects.packs.local_path(name)
        if path is None:
            self.able = False
            return 0
        source = nofollow.open_file(path)
        try:
            disk.step("clone")
            fcntl.ioctl(self._fd, _FICLONERANGE, struct.pack("=qQQQ", source, start + first, whole, at + first))
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self.able = False
            return 0
        finally:
            with contextlib.suppress(OSError):
                os.close(source)
        return whole
