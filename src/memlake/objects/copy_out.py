"""Copying an object out to a file, sharing blocks with the packs where the file system can. Knows no path.

Every chunk is read and checked first, even if its blocks are then shared and not written.
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
    """Write an object to a file from its start. Returns how many bytes are shared with a pack and not copied."""
    pieces = objects.pieces(oid)
    if len(pieces) == 1:
        disk.write_all(fd, objects.read(oid))
        return 0
    at = shared = 0
    cloner = _Cloner(objects, fd)
    for start in range(0, len(pieces), _BATCH):
        batch = pieces[start : start + _BATCH]
        contents = dict(objects.read_chunks(batch))
        places = objects.locate([digest for digest, _ in batch]) if cloner.is_able else {}
        for digest, length in batch:
            data, place = contents[digest.hex()], places.get(digest) if cloner.is_able else None
            # In order: a crash must leave a beginning of the file, by which a resume knows that it is its own.
            first = -at % BLOCK if place else 0
            if first:
                disk.write_at(fd, data[:first], at)
            whole = cloner.share(place, at) if place else 0
            if first + whole < len(data):
                disk.write_at(fd, data[first + whole :], at + first + whole)
            at += length
            shared += whole
    return shared


class _Cloner:
    """Shares the whole blocks of a record with the file, where record and file agree on block boundaries."""

    def __init__(self, objects: Objects, fd: int) -> None:
        self._objects, self._fd = objects, fd
        self.is_able = True

    def share(self, place: tuple[str, int, int], at: int) -> int:
        """Share the whole blocks of the record at `place` with the file at `at`; returns how many bytes that is."""
        name, start, length = place
        first = -at % BLOCK
        whole = (length - first) // BLOCK * BLOCK
        if whole <= 0 or (start - at) % BLOCK:
            return 0
        path = self._objects.packs.local_path(name)
        if path is None:
            self.is_able = False
            return 0
        source = nofollow.open_file(path)
        try:
            disk.step("clone")
            fcntl.ioctl(self._fd, _FICLONERANGE, struct.pack("=qQQQ", source, start + first, whole, at + first))
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self.is_able = False
            return 0
        finally:
            with contextlib.suppress(OSError):
                os.close(source)
        return whole
