"""Owner marks: a place outside the repo belongs to one repo folder and says so in a file. Knows no pack.

owner = repo id, host and inode of the .memlake folder, path of it; one a line

Without the mark, two repos that share a place would take each other's files for garbage. So would a repo and a copy of
it, which has the same id, so the mark names the folder too. The folders inside .memlake need no mark: they belong to
the repo.db beside them, and a copy of the repo has copies of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from memlake.errors import Conflict, Denied, NotFound, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.places import Pieces, Place, Ranges

MARK = "owner"
_LONGEST = 8192  # a path has at most 4096 bytes


class Mark(NamedTuple):
    repo: str
    host: str
    inode: str
    path: str

    def encode(self) -> bytes:
        return "".join(f"{field}\n" for field in (self.repo, f"{self.host} {self.inode}", self.path)).encode(
            "utf-8", "surrogateescape"
        )


def decode_mark(data: bytes) -> Mark:
    lines = data.decode("utf-8", "surrogateescape").split("\n", 2)
    repo, folder, path = (*lines, "", "")[:3]
    host, _, inode = folder.partition(" ")
    return Mark(repo, host, inode, path.removesuffix("\n"))


class OwnedPlace:
    """A place outside the repo. Anybody may read there, but only the repo that owns it may store and delete."""

    def __init__(
        self, place: Place, folder: Path, repo: Callable[[], str], packs: Callable[[], AbstractSet[str]] = frozenset,
        *, advise: Callable[[str], str] = lambda location: f"memlake config core.packs {pasted(location)}",
    ) -> None:  # fmt: skip
        """`folder` is the .memlake that uses the place; `repo` returns its id, `packs` the packs that must be here.
        `advise` says the command that names another place."""
        self._place, self._folder, self._repo, self._packs, self._advise = place, folder, repo, packs, advise
        self._claimed = False

    def put(self, name: str, file: Path) -> None:
        self.claim()
        self._place.put(name, file)

    def delete(self, name: str) -> None:
        self.claim()
        self._place.delete(name)

    def get(self, name: str, start: int, length: int) -> bytes:
        return self._place.get(name, start, length)

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        return self._place.get_ranges(name, ranges)

    def size(self, name: str) -> int:
        return self._place.size(name)

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        return (file for file in self._place.list(prefix) if file[0] != MARK)

    def is_empty(self) -> bool:
        return self._place.is_empty()

    def local_path(self, name: str) -> Path | None:
        return self._place.local_path(name)

    def __str__(self) -> str:
        return str(self._place)

    def claim(self, *, take: bool = False) -> None:
        """Make sure that the place is ours, and mark it if it is empty; raises Denied if it is not ours.

        `take` takes the place over from another folder of the same repo, because the user said so.
        """
        if self._claimed and not take:
            return
        mine, mark = self._own_mark(), self._read_mark()
        if mark is None:
            packs = self._packs()
            if missing := packs and packs - {name for name, _, _ in self._place.list()}:
                raise self._describe_missing(len(missing))
            if not packs and not self._place.is_empty():
                raise self._refusal("is not empty and has no owner mark of this repo")
            mark = self._write_mark(mine)  # also after a crash before the mark was written: all our packs are there
        if mark.repo != mine.repo:
            raise self._refusal(f"belongs to another repo, {mark.repo}, last used from {mark.path}")
        if not _is_same_folder(mark, mine):
            if not take and not _is_moved(mark, mine):
                what = f"belongs to the copy of this repo in {mark.path} on {mark.host}"
                raise self._refusal(what, f"\nIf that copy is gone, take the place over: {self._advise(str(self))}")
            self._place.delete(MARK)
            self._write_mark(mine)
        self._claimed = True

    def _own_mark(self) -> Mark:
        with disk.named_errors(f"looking at {self._folder}"):
            folder = os.path.realpath(self._folder)
            return Mark(self._repo(), os.uname().nodename, str(os.stat(folder).st_ino), folder)

    def _read_mark(self) -> Mark | None:
        with contextlib.suppress(NotFound):
            return decode_mark(self._place.get(MARK, 0, min(self._place.size(MARK), _LONGEST)))
        return None

    def _write_mark(self, mine: Mark) -> Mark:
        """Mark the place and return its mark, which may be another repo's: a place keeps the first one stored."""
        file = self._folder / "tmp" / f"{os.urandom(16).hex()}.{MARK}"
        with disk.named_errors(f"marking {self}"):
            file.parent.mkdir(exist_ok=True)
            disk.write_file(file, mine.encode())
        try:
            with contextlib.suppress(Conflict):
                self._place.put(MARK, file)
        finally:
            file.unlink(missing_ok=True)
        return self._read_mark() or mine

    def _describe_missing(self, count: int) -> Unavailable:
        """The error for a place without our packs: its disk may not be mounted, and would later hide what we store."""
        packs = "pack of this repo is" if count == 1 else "packs of this repo are"
        return Unavailable(
            f"{count:,} {packs} not in {self}, which has no owner mark either. Nothing was changed.",
            hint="If it is on another disk, mount it. To see what is missing: memlake doctor",
        )

    def _refusal(self, what: str, more: str = "") -> Denied:
        return Denied(
            f"{self} {what}, so memlake neither stores nor deletes anything there. Nothing was changed.",
            hint=f"Use a folder or bucket of its own, which must be empty: {self._advise('NEW')}{more}",
        )


def _is_same_folder(mark: Mark, mine: Mark) -> bool:
    """A container changes its host name, and a restored repo its inode; only a copy elsewhere differs in both."""
    return mark.path == mine.path and (mark.inode == mine.inode or mark.host == mine.host)


def _is_moved(mark: Mark, mine: Mark) -> bool:
    """Whether the folder that the mark names was moved and is now this one.

    A copy has another inode. That its original is not there proves nothing, because its disk may be away just now.
    """
    same = (mark.host, mark.inode) == (mine.host, mine.inode)
    return same and mark.path != mine.path and not os.path.lexists(os.path.join(mark.path, "repo.db"))
