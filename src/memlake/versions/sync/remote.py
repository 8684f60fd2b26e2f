"""A remote: sealed files under names of their content, and one root that is swapped. Knows no commit.

<prefix>/root               what there is (root.py); replaced only if it is still the one that was read
        roots/<generation>  a copy of each root, the last thousand: the way back
        log/<sha256>        batches
        packs/<sha256>      packs
        parts/<2>/<oid>.<n> parts; without .<n> before anything was deleted there
        purges/<sha256>     records of purges
        results/<sha256>    answers of functions; the name is the hash of their head (repo/results.py)
        archives/<sha256>   the data of old commits (versions/history/archive.py)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol, TypeVar

from memlake.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.bucket import Bucket
from memlake.objects.places import Place
from memlake.objects.swap import LARGEST, Moved, Swap, open_swap
from memlake.versions.sync import root as roots
from memlake.versions.sync.root import Root, decode_root, encode_root

AT_ONCE = 8  # files that are on their way at the same time
KEPT_ROOTS = 1000
_BLOCK = 4 << 20
_GROUP = 64  # files that are deleted before the root is read again
_OURS = (
    "root", "root.lock", "root.lock.wait", "roots/", "log/", "packs/", "parts/", "purges/", "results/", "archives/",
)  # fmt: skip
Item = TypeVar("Item")
Result = TypeVar("Result")


TRIES = 32  # swaps that may be lost to others before somebody is told
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0  # seconds


class Progress(Protocol):
    """Told of every file that arrived: how many bytes of it, of how many in all."""

    def __call__(self, done: int, total: int, what: str, /) -> None: ...


class Meter:
    """Adds up the bytes that several threads bring, and tells of each step."""

    def __init__(self, progress: Progress | None, total: int, what: str) -> None:
        self._progress, self._total, self._what = progress, total, what
        self._done, self._lock = 0, threading.Lock()

    def __call__(self, size: int) -> None:
        with self._lock:
            self._done += size
            if self._progress:
                self._progress(self._done, self._total, self._what)


class State(NamedTuple):
    """A root as it was read: its bytes, and how the remote knows it again."""

    root: Root
    data: bytes
    tag: str


class Remote:
    """One remote, by its name here and where it is."""

    def __init__(self, name: str, url: str, place: Place, swap: Swap | None = None) -> None:
        self.name, self.url, self.place = name, url, place
        self._swap = swap or open_swap(place, roots.NAME)

    def __str__(self) -> str:
        return f"{self.name} ({self.url})"

    # -- root

    def load(self, known: str | None = None) -> State | None:
        """The root as it is now; None where there is none yet. Raises Same if it has the tag of a known one."""
        loaded = self._swap.load(known)
        return None if loaded is None else State(decode_root(loaded.data, self.url), loaded.data, loaded.tag)

    def get_root(self, before: Root | None = None) -> State:
        """The root, or NotFound where nobody has pushed yet, or where the one that was read before is gone."""
        state = self.load()
        if state is None:
            self.check_never_used(before)
            raise NotFound(
                f"{self.url} has no memlake history: nobody has pushed to it yet.",
                hint=f"Check the address, or be the first: memlake push {pasted(self.name)}",
            )
        return state

    def check_never_used(self, before: Root | None) -> None:
        """Refuse to begin again where there was a root: what is known to lie there does not any more."""
        if before is not None:
            raise NotFound(
                f"{self.url} has no memlake history any more, and it had (state {before.generation}): its disk may not "
                "be mounted, or somebody emptied or moved it. Nothing was changed.",
                hint=f"If it moved: memlake remote set-url {pasted(self.name)} URL\n"
                f"If it is gone, send all of it again: memlake remote refresh {pasted(self.name)} "
                f"&& memlake push {pasted(self.name)}",
            )

    def attempts(self) -> Iterator[int]:
        """Numbers of attempts at a swap. Between them it waits for a random time that grows, as others do who lost, so
        that of many pushers nobody loses again and again to whoever is a little quicker.
        """
        for attempt in range(TRIES):
            if attempt:
                time.sleep(random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt)))
            yield attempt

    def swap(self, root: Root, before: State | None) -> State:
        """Replace the root that was read by this one, or raise Moved. Any other error leaves open whether it was."""
        data = encode_root(root)
        if len(data) > LARGEST:
            raise InvalidInput(
                f"the root of {self.url} would have {len(data):,} bytes, and at most {LARGEST:,} are read. It was not "
                "changed.",
                hint=f"Let go of what no branch there needs: memlake remote gc --prune {pasted(self.name)}",
            )
        tag = self._swap.swap(data, before.tag if before else None)
        return State(root, data, tag)

    def delete_doomed(self, state: State) -> State:
        """Delete what a root, just read or swapped in, says is being deleted, then swap one that is done with it.

        A doomed file is listed by no root, and whoever would list it must finish this first. So whoever dies here is
        followed by the next push or gc.
        """
        while state.root.doomed:
            group = set(state.root.doomed[:_GROUP])
            for _ in in_parallel(self.place.delete, sorted(group)):
                pass
            state = self.get_root()
            left = tuple(path for path in state.root.doomed if path not in group)
            root = state.root._replace(generation=state.root.generation + 1, token=os.urandom(16).hex(), doomed=left)
            try:
                if len(left) < len(state.root.doomed):
                    state = self.swap(root, state)
            except Moved:
                state = self.get_root()
        return state

    def keep_copy(self, state: State, tmp: Path) -> None:
        """Keep a copy of a root that was swapped in, and drop the one that is too old. A failure loses nothing."""
        with contextlib.suppress(Exception):
            self.put_bytes(f"roots/{state.root.generation:012d}", state.data, tmp)
            if state.root.generation > KEPT_ROOTS:
                self.place.delete(f"roots/{state.root.generation - KEPT_ROOTS:012d}")

    def check_unused(self) -> None:
        """Refuse a place that holds other things. What a push left that never came to its end is ours."""
        for name, _, _ in self.place.list():
            if not name.startswith(_OURS):
                raise Denied(
                    f"{self.url} holds other files ({name}) and no memlake history, so memlake stores nothing there. "
                    "Nothing was changed.",
                    hint="Use a folder or prefix of its own: memlake remote set-url "
                    f"{pasted(self.name)} {pasted(self.url.rstrip('/') + '/memlake')}",
                )

    # -- files

    def put_bytes(self, name: str, data: bytes, tmp: Path) -> None:
        file = tmp / f"{os.urandom(16).hex()}.pack"
        disk.write_file(file, data)
        try:
            self.place.put(name, file)
        finally:
            file.unlink(missing_ok=True)

    @property
    def is_bucket(self) -> bool:
        """Whether requests to it are worth counting."""
        return isinstance(self.place, Bucket)

    def get_bytes(self, name: str, size: int) -> bytes:
        """A small file whole, checked against its name if that is a hash."""
        data = self.place.get(name, 0, size)
        if hashlib.sha256(data).hexdigest() != name.rpartition("/")[2].partition(".")[0]:
            raise Corrupt(f"{name} in {self.url} does not match its name. Nothing was changed.")
        return data

    @staticmethod
    def count_gets(size: int) -> int:
        """Requests that a download takes."""
        return -(-size // _BLOCK)

    def download(self, name: str, size: int, target: Path, meter: Meter | None = None) -> None:
        """Bring a file here. One that is here already, whole, is not asked for again."""
        if target.exists() and target.stat().st_size == size:
            return meter(size) if meter else None
        part = target.with_name(f"{target.name}.{os.urandom(4).hex()}~")
        try:
            with disk.named_errors(f"bringing {name} here"), open(part, "xb") as stream:
                for at in range(0, size, _BLOCK):
                    length = stream.write(self.place.get(name, at, min(_BLOCK, size - at)))
                    if meter:
                        meter(length)
                stream.flush()
                disk.fsync_file(stream.fileno())
            disk.rename(part, target)
        finally:
            part.unlink(missing_ok=True)


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], *, at_once: int = AT_ONCE
) -> Iterator[tuple[Item, Result]]:
    """Do work on items in a bounded number of threads, and yield what is done as it is done. An error ends it."""
    source, stop = iter(items), threading.Event()
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="memlake-sync")
    waiting: dict[Future[Result], Item] = {}

    def run(item: Item) -> Result:
        if stop.is_set():
            raise Conflict("stopped")
        return work(item)

    def add() -> None:
        for item in source:
            waiting[pool.submit(run, item)] = item
            if len(waiting) >= at_once:
                return

    try:
        add()
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()
            add()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
