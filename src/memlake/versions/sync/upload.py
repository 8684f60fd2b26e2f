"""Upload: packs, parts and batches stored at a remote. What is there already is not sent again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from memlake import nofollow
from memlake.errors import NotFound, Unavailable
from memlake.objects.places import Place
from memlake.objects.store import Objects, part_name
from memlake.versions.sync.collect import KeptBatch, PackToSend, Sending, write_pack
from memlake.versions.sync.remote import Progress, Remote, in_parallel

_BLOCK = 8 << 20
_AT_ONCE = 4  # packs on their way, of up to 64 MiB each


class Upload:
    """The files of one push. It remembers what it stored, for the attempts after a lost race."""

    def __init__(self, objects: Objects, remote: Remote, progress: Progress | None) -> None:
        self._objects, self._remote, self._progress = objects, remote, progress
        self.stored: set[str] = set()

    def send(self, sendings: Sequence[Sending], batches: Sequence[KeptBatch]) -> None:
        """Store packs and parts, then batches: nothing is named before it is there."""
        jobs = [job for job in list_files(self._objects, sendings) if job[0] not in self.stored]
        files = [batch for batch in batches if f"log/{batch.file.name}" not in self.stored]
        total, done = sum(size for _, size, _ in jobs) + sum(batch.file.size for batch in files), 0
        # One request is cheaper than the bytes of a pack. A single one is new, as a rule, and sent without asking.
        look = len(jobs) > 1

        def store(job: tuple[str, int, Callable[[], Path]]) -> None:
            name, size, make = job
            if not (look and self._is_stored(name, size)):
                file = make()
                try:
                    self._remote.place.put(name, file)
                finally:
                    file.unlink(missing_ok=True)

        for (name, size, _), _ in in_parallel(store, jobs, at_once=_AT_ONCE):
            done = self._note(name, done + size, total)

        def store_batch(batch: KeptBatch) -> None:
            self._remote.put_bytes(f"log/{batch.file.name}", batch.read(), self._objects.tmp)

        for batch, _ in in_parallel(store_batch, files):
            done = self._note(f"log/{batch.file.name}", done + batch.file.size, total)

    def put(self, name: str, data: bytes) -> None:
        """Store a file that was made at once."""
        if name not in self.stored:
            self._remote.put_bytes(name, data, self._objects.tmp)
            self.stored.add(name)

    def _note(self, name: str, done: int, total: int) -> int:
        self.stored.add(name)
        if self._progress:
            self._progress(done, total, "sent")
        return done

    def _is_stored(self, name: str, size: int) -> bool:
        with contextlib.suppress(NotFound):
            return self._remote.place.size(name) == size
        return False


def list_files(objects: Objects, sendings: Iterable[Sending]) -> list[tuple[str, int, Callable[[], Path]]]:
    """The packs and parts of what is sent: the name of each there, its size, and what makes a copy to be given away."""
    files: list[tuple[str, int, Callable[[], Path]]] = []
    for sending in sendings:
        files += [(f"packs/{pack.name}", pack.size, partial(_make_pack, objects, pack)) for pack in sending.packs]
        for part in sending.parts:
            make = partial(_copy, objects, objects.parts, part_name(part.oid), part.size)
            files.append((part.path, part.size, make))
    return files


def _make_pack(objects: Objects, planned: PackToSend) -> Path:
    if not planned.copied:
        return _copy(objects, objects.packs, planned.name, planned.size)
    sealed = write_pack(objects, planned).seal(planned.nonce)
    if sealed.name != planned.name:
        raise Unavailable("a pack changed while it was being sent. Nothing was changed.", hint="Run it again.")
    return sealed.path


def _copy(objects: Objects, place: Place, name: str, size: int) -> Path:
    file = objects.tmp / f"{os.urandom(16).hex()}.pack"
    with open(nofollow.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
        for at in range(0, size, _BLOCK):
            stream.write(place.get(name, at, min(_BLOCK, size - at)))
    return file
