"""A place in one file: sealed files side by side in a tar archive, to be read. Nothing of it is ever unpacked.

The archive may be a stranger's. Only plain files under names of ours count, and each is read where it lies.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from memlake import nofollow
from memlake.errors import Corrupt, Denied, NotFound
from memlake.objects import disk
from memlake.objects.places import NAME, Pieces, Ranges, check_name, check_ranges, too_short
from memlake.objects.swap import Loaded, Moved, Same

_MOST = 1_000_000  # files in an archive
_ROOT = "root"


class OneFile:
    """The files of an archive as a place, and the one named `root` as what a remote swaps. Stores nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():  # before a stranger's folder or device is called a bundle
            what = "is not a file, so it is no bundle" if path.exists() else "does not exist"
            raise NotFound(f"{path} {what}. Nothing was read.")
        with disk.named_errors(f"reading {path}"):
            self._stream = open(nofollow.open_file(path), "rb")  # noqa: SIM115  open as long as the place is
            self._found = dict(self._list_members())

    def _list_members(self) -> Iterator[tuple[str, tuple[int, int]]]:
        try:
            with tarfile.open(fileobj=self._stream, mode="r:") as archive:
                for count, member in enumerate(archive):
                    if count >= _MOST:
                        raise Corrupt(
                            f"{self.path} has more than {_MOST:,} files, and no bundle has. Nothing was read."
                        )
                    if member.isreg() and not member.sparse and NAME.fullmatch(member.name):
                        yield member.name, (member.offset_data, member.size)
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise Corrupt(f"{self.path} is not a bundle, or is cut short: {error}. Nothing was read.") from error

    # -- as a place

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        check_ranges(ranges)
        begin, size = self._member(name)
        pieces = []
        with disk.named_errors(f"reading {self.path}"):
            for start, length in ranges:
                data = os.pread(self._stream.fileno(), length, begin + start) if start + length <= size else b""
                if len(data) != length:
                    raise too_short(name, start, length)
                pieces.append(data)
        return pieces

    def size(self, name: str) -> int:
        return self._member(name)[1]

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        return ((name, size, 0.0) for name, (_, size) in self._found.items() if name.startswith(prefix))

    def is_empty(self) -> bool:
        return not self._found

    def local_path(self, name: str) -> Path | None:
        check_name(name)
        return None

    def _member(self, name: str) -> tuple[int, int]:
        try:
            return self._found[check_name(name)]
        except KeyError:
            raise NotFound(f"{self.path} has no {name}.") from None

    def _refuse(self, *_: object) -> NoReturn:
        raise Denied(
            f"{self.path} is a bundle, which is read and never written. Nothing was changed.",
            hint="Make a new one: memlake bundle create FILE",
        )

    put = delete = _refuse

    def claim(self) -> None:
        return

    def __str__(self) -> str:
        return str(self.path)

    # -- as what a remote swaps

    def load(self, known: str | None = None) -> Loaded | None:
        if _ROOT not in self._found:
            raise Corrupt(f"{self.path} is not a bundle: it has no root. Nothing was read.")
        data = self.get(_ROOT, 0, self.size(_ROOT))
        tag = hashlib.sha256(data).hexdigest()
        if tag == known:
            raise Same
        return Loaded(data, tag)

    def swap(self, _data: bytes, _tag: str | None) -> str:
        raise Moved(f"{self.path} is a bundle, which is read and never written.")
