"""Leases: how gc knows that a writer is storing bytes its transaction does not name yet. Knows no object.

A writer that must store bytes before it takes the lock (a pack of many files) holds a lease. gc deletes nothing that
was touched, condemned or written after the oldest live lease began. On this machine a lease lives as long as its
process; on another it lives until it expires, unless it is renewed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Self

from memlake.errors import Unavailable
from memlake.objects import tables
from memlake.objects.db import Database
from memlake.objects.layout import now, read_text, tick, wrong_fact

NEVER = 1 << 62


class Lease:
    """Held by a writer from before its first byte until a transaction or the stage names what it stored."""

    def __init__(self, db: Database, what: str) -> None:
        self._db, self._length = db, db.lease_seconds * 1_000_000
        with db.write():
            self.tick = tick(db)
            owner = (host(), os.getpid(), process_start_time(os.getpid()))
            self._id = tables.add_lease(db, owner, tick=self.tick, expires=now() + self._length, what=what)
        self._renewed = time.monotonic()

    def renew(self) -> None:
        """Call now and then in long work; writes only every few minutes."""
        if (time.monotonic() - self._renewed) * 1e6 > self._length // 10:
            with self._db.write():
                self.check()
                tables.extend_lease(self._db, self._id, now() + self._length)
            self._renewed = time.monotonic()

    def check(self) -> None:
        """Call inside the transaction that relies on the lease."""
        if not tables.has_lease(self._db, self._id, self.tick):
            raise Unavailable(
                "this write took so long that its lease expired, and gc may have removed what it stored. "
                "Nothing was changed.",
                hint="Run it again.",
            )

    def close(self) -> None:
        with self._db.write():
            tables.delete_lease(self._db, self._id, self.tick)


class Keeping:
    """A lease that is taken only if something is stored or unstaged, and then held to the end of the `with`."""

    def __init__(self, db: Database, what: str) -> None:
        self._db, self._what = db, what
        self._lease: Lease | None = None

    def take(self) -> Lease:
        """Call before the first byte is stored, and before anything leaves the stage."""
        if self._lease is None:
            self._lease = Lease(self._db, self._what)
        return self._lease

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._lease is not None:
            # On a full disk the row cannot be deleted either, and the first error is the one to report.
            with contextlib.suppress(Unavailable) if kind else contextlib.nullcontext():
                self._lease.close()


def drop_dead(db: Database) -> None:
    """Remove the leases of writers that are gone. Call inside a write.

    If the clock of another machine, or ours before a restart, was ahead, its lease would last until our clock gets
    there. So it ends one whole lease after it was first seen here, unless it is renewed.
    """
    longest = now() + db.lease_seconds * 1_000_000
    tables.shorten_leases(db, longest, host())
    tables.delete_leases(db, [row[0] for row in tables.list_leases(db) if not _is_alive(*row[1:])])


def oldest(db: Database) -> int:
    """The tick at which the oldest lease began, or NEVER."""
    began = tables.find_oldest_lease(db)
    return NEVER if began is None else began


def _is_alive(its_host: str, pid: int, born: str, expires: int) -> bool:
    if its_host != host():
        return expires > now()
    return process_start_time(pid) == born


def measure_jump(db: Database) -> int:
    """Microseconds by which the clock was set forward since this was asked last. Call inside a write.

    The kernel counts the time since the machine started, so it knows how much has passed. After a restart nobody does.
    """
    count = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
    noted, clock = read_text(db, "gc_clock") or "0 0 ", now()
    match = re.fullmatch(r"(\d{1,18}) (\d{1,18}) (.*)", noted, re.DOTALL)
    if match is None:
        raise wrong_fact(db, "gc_clock", noted)
    tables.write_fact(db, "gc_clock", f"{clock} {count} {host()}")
    return clock - int(match[1]) - (count - int(match[2])) if match[3] == host() else 0


def host() -> str:
    """This machine, this boot and this pid namespace, because a pid means nothing outside of them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, namespace = "", ""
    return f"{os.uname().nodename} {boot} {namespace}"


def process_start_time(pid: int) -> str:
    """When a process started, which tells a writer from another process with its old pid; "" when it is gone."""
    try:
        # The name in field 2 may hold spaces and brackets; the start time is field 22 counted after it.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except (PermissionError, OSError):
        return "alive"
    return "alive"
