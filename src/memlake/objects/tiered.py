"""Tiers: sealed files that nobody has read for long lie in a colder place, and come back when they are read.

The day on which each file was read last is kept beside the repo, on this machine, and written in batches.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from memlake import nofollow
from memlake.errors import NotFound, Unavailable
from memlake.objects import disk
from memlake.objects.forks import Mutex
from memlake.objects.locks import FileLock
from memlake.objects.places import Pieces, Place, Ranges

DAY = 86_400
_BLOCK = 8 << 20


class LastReads:
    """The day each file was read last, by its name. A file of which nothing is known counts from when it was seen."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, FileLock(file.with_name(f"{file.name}.lock"))
        self._mutex = Mutex()
        self._seen: dict[str, int] = {}

    def note(self, name: str) -> None:
        if name not in self._seen:  # once a process is often enough to know the day
            self._seen[name] = int(time.time()) // DAY

    def flush(self) -> None:
        """Write down what was noted, beside what other processes wrote."""
        with self._mutex:
            seen, self._seen = self._seen, {}
            if not seen:
                return
            with contextlib.suppress(Unavailable), self._lock.held():  # on a full disk the day is lost, and no more
                days = self.days()
                if any(days.get(name, -1) < day for name, day in seen.items()):
                    self._write({**days, **{name: max(day, days.get(name, 0)) for name, day in seen.items()}})

    def days(self) -> dict[str, int]:
        try:
            with open(nofollow.open_file(self._file), "rb") as stream:
                found = json.loads(stream.read(64 << 20))
            return {str(name): int(day) for name, day in found.items()}
        except (FileNotFoundError, ValueError, AttributeError, TypeError):
            return {}

    def keep(self, names: set[str]) -> None:
        """Forget files that are gone, and begin to count for those that are new."""
        with self._lock.held():
            days, today = self.days(), int(time.time()) // DAY
            self._write({name: days.get(name, today) for name in sorted(names)})

    def _write(self, days: dict[str, int]) -> None:
        new = self._file.with_name(f"{self._file.name}.{os.urandom(4).hex()}")
        disk.write_file(new, json.dumps(days, separators=(",", ":")).encode())
        disk.rename(new, self._file)


class TieredPlace:
    """A place in front of a colder one. Everything is stored here; what was moved there is read as if it were here."""

    def __init__(self, hot: Place, cold: Place, prefix: str, reads: LastReads, tmp: Path) -> None:
        """`prefix` parts the names of this place from others in the colder one."""
        self._hot, self._cold, self._prefix = hot, cold, prefix
        self._reads, self._tmp = reads, tmp

    def claim(self) -> None:
        self._hot.claim()

    def put(self, name: str, file: Path) -> None:
        self._reads.note(self._prefix + name)
        self._hot.put(name, file)

    def get(self, name: str, start: int, length: int) -> bytes:
        return self.get_ranges(name, [(start, length)])[0]

    def get_ranges(self, name: str, ranges: Ranges) -> Pieces:
        self._reads.note(self._prefix + name)
        try:
            return self._hot.get_ranges(name, ranges)
        except NotFound:
            self._bring_back(name)
            return self._hot.get_ranges(name, ranges)

    def size(self, name: str) -> int:
        try:
            return self._hot.size(name)
        except NotFound:
            return self._cold.size(self._prefix + name)

    def list(self, prefix: str = "") -> Iterator[tuple[str, int, float]]:
        here = set()
        for name, size, stored in self._hot.list(prefix):
            here.add(name)
            yield name, size, stored
        start = len(self._prefix)
        for name, size, stored in self._cold.list(self._prefix + prefix):
            if name[start:] not in here:
                yield name[start:], size, stored

    def is_empty(self) -> bool:
        return next(iter(self.list()), None) is None

    def delete(self, name: str) -> None:
        self._hot.delete(name)
        self._cold.delete(self._prefix + name)

    def local_path(self, name: str) -> Path | None:
        self._reads.note(self._prefix + name)
        path = self._hot.local_path(name)
        if path is None:
            with contextlib.suppress(NotFound):
                self._bring_back(name)
                path = self._hot.local_path(name)
        return path

    def __str__(self) -> str:
        return str(self._hot)

    # -- moving

    def list_here(self) -> dict[str, int]:
        """The files that lie in the nearer place, with their sizes."""
        return {name: size for name, size, _ in self._hot.list()}

    def list_there(self) -> dict[str, int]:
        """The files that lie in the colder one alone."""
        here, start = self.list_here(), len(self._prefix)
        there = {name[start:]: size for name, size, _ in self._cold.list(self._prefix)}
        return {name: size for name, size in there.items() if name not in here}

    def move_out(self, name: str) -> int:
        """Store a file in the colder place, look that it is whole there, and delete it here; returns its size."""
        size = self._hot.size(name)
        self._cold.put(self._prefix + name, self._copy(self._hot, name, size))
        if self._cold.size(self._prefix + name) != size:
            raise Unavailable(f"{name} did not arrive whole in {self._cold}. It stays here.", hint="Run it again.")
        self._hot.delete(name)
        return size

    def _bring_back(self, name: str) -> None:
        size = self._cold.size(self._prefix + name)
        self._hot.put(name, self._copy(self._cold, self._prefix + name, size))
        self._cold.delete(self._prefix + name)

    def _copy(self, place: Place, name: str, size: int) -> Path:
        file = self._tmp / f"{os.urandom(16).hex()}.pack"
        with open(nofollow.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
            for at in range(0, size, _BLOCK):
                stream.write(place.get(name, at, min(_BLOCK, size - at)))
        return file
