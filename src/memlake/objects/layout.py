"""The facts every write shares: the format of a repo, its clock and its sequence. Knows no object.

A tick is the time in microseconds, pushed forward so that it never repeats or goes back, whatever
the machine's clock does. A seq numbers commits and purges in the order they became visible.
"""

from __future__ import annotations

import time

from memlake.errors import Corrupt, InvalidInput
from memlake.objects.db import Database

FORMAT = 1


def now() -> int:
    """The time in microseconds."""
    return time.time_ns() // 1000


def stamp_format(db: Database) -> None:
    """Write the format of a new repo; several processes may create one at once."""
    with db.write():
        db.run("INSERT OR IGNORE INTO meta VALUES('format', ?), ('clock', 0), ('seq', 0)", (FORMAT,))


def check_format(db: Database) -> None:
    found = db.row("SELECT value FROM meta WHERE key = 'format'")
    if found is None or not isinstance(found[0], int) or found[0] < 1:
        raise Corrupt(
            f"{db.path} has no repository format.", hint="Run memlake fsck; restore a backup if you have one."
        )
    if found[0] > FORMAT:
        raise InvalidInput(
            f"this repo has format {found[0]}; this memlake reads up to format {FORMAT}. Nothing was changed.",
            hint="Install a newer memlake: pip install -U memlake",
        )


def tick(db: Database) -> int:
    """The next tick. Call inside a write."""
    row = db.row("SELECT value FROM meta WHERE key = 'clock'")
    value = max((row[0] if row else 0) + 1, now())
    db.run("INSERT OR REPLACE INTO meta VALUES('clock', ?)", (value,))
    return value


def next_seq(db: Database) -> int:
    """The next seq. Call inside a write."""
    row = db.row("SELECT value FROM meta WHERE key = 'seq'")
    value = (row[0] if row else 0) + 1
    db.run("INSERT OR REPLACE INTO meta VALUES('seq', ?)", (value,))
    return value
