"""Which memories are read, and when: counted in memory, written down now and then, never a commit."""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence

from memlake.errors import Error
from memlake.objects import layout
from memlake.objects.forks import Mutex
from memlake.versions.checkout.local import Local


class Access:
    """Counters of one process over the table `access` of local.db."""

    def __init__(self, local: Local, seconds: float = 60.0) -> None:
        self._local, self._seconds = local, seconds
        self._lock = Mutex()
        self._counts: dict[bytes, tuple[int, int]] = {}
        self._flushed = time.monotonic()
        atexit.register(self.flush)

    def note(self, keys: Iterable[bytes]) -> None:
        """These memories were read now."""
        now = layout.now()
        with self._lock:
            for key in keys:
                self._counts[key] = (self._counts.get(key, (0, 0))[0] + 1, now)
            due = time.monotonic() - self._flushed >= self._seconds
        if due:
            self.flush()

    def flush(self) -> None:
        """Write down what was counted."""
        with self._lock:
            counts, self._counts = self._counts, {}
            self._flushed = time.monotonic()
        if counts:
            with contextlib.suppress(
                Error
            ):  # a full or read-only disk: counts are hints, and nobody is to fail for one
                self._local.add_reads([(key, count, last) for key, (count, last) in counts.items()])

    def read(self, keys: Sequence[bytes]) -> Mapping[bytes, tuple[int, int]]:
        """(times read, last time) of memories that were ever read."""
        found = {bytes(key): (count, last) for key, count, last in self._local.read_counts(keys)}
        with self._lock:
            for key in keys:
                if key in self._counts:
                    count, last = self._counts[key]
                    found[key] = (found.get(key, (0, 0))[0] + count, last)
        return found

    def forget(self, keys: Iterable[bytes]) -> None:
        """Remove the counters of purged memories."""
        given = set(keys)
        with self._lock:
            for key in given:
                self._counts.pop(key, None)
        self._local.forget_reads(given)

    def close(self) -> None:
        atexit.unregister(self.flush)
        self.flush()
