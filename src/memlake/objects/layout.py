"""The facts every write shares: a repo's format, id and salt, its clock and its sequence. Knows no object.

The id (a UUIDv7) and the salt are given once, by `init`, and are the same in every copy: the id marks what is this
repo's own wherever it lies, the salt turns names of agents into paths.

A tick is the time in microseconds, pushed forward so that it never repeats or goes back, whatever
the machine's clock does. A seq numbers commits and purges in the order they became visible.
"""

from __future__ import annotations

import os
import re
import time
import uuid

from memlake.errors import Corrupt, InvalidInput
from memlake.objects.db import Database, advise_rescue
from memlake.objects.forks import Mutex

FORMAT = 2
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def now() -> int:
    """The time in microseconds."""
    return time.time_ns() // 1000


def new_id() -> str:
    """A UUIDv7: neighbours in time are neighbours in order; ids of one process are in the order they were made."""
    global _last  # noqa: PLW0603
    with _ids:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12 | time.time_ns() % 1_000_000 * 4096 // 1_000_000)
        moment = _last
    value = moment >> 12 << 80 | 7 << 76 | (moment & 0xFFF) << 64 | 2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return str(uuid.UUID(int=value))


_ids, _last = Mutex(), 0


def stamp_format(db: Database) -> None:
    """Write what a new repo is known by; several processes may create one at once. An old repo is not touched."""
    with db.write():
        if db.row("SELECT 1 FROM meta") is None:
            facts = {"format": FORMAT, "id": new_id(), "salt": os.urandom(16), "clock": 0, "seq": 0}
            db.run_many("INSERT INTO meta VALUES(?, ?)", facts.items())


def advise_restore(db: Database) -> str:
    """What is left where repo.db cannot be opened, not even by fsck."""
    return f"Restore a backup. Without one, save what gc packed: {advise_rescue(db.path)}"


def check_format(db: Database) -> None:
    found = db.row("SELECT value FROM meta WHERE key = 'format'")
    if found is None or not isinstance(found[0], int) or found[0] < 1:
        raise Corrupt(f"{db.path} has no repository format.", hint=advise_restore(db))
    if found[0] > FORMAT:
        raise InvalidInput(
            f"this repo has format {found[0]}; this memlake reads up to format {FORMAT}. Nothing was changed.",
            hint="Install a newer memlake: pip install -U memlake",
        )
    if found[0] < FORMAT:
        raise InvalidInput(
            f"this repo has format {found[0]}, which an older memlake wrote; this one reads format {FORMAT} only. "
            "Nothing was changed.",
            hint="With the version of memlake that wrote it, export the memories: "
            "memlake memory export --project '*' FILE\n"
            "And each dataset: memlake dataset export NAME FOLDER\n"
            "Your files are in the working folder. With this version, in a new folder: "
            "memlake init && memlake memory import FILE && memlake add -A",
        )


def read_id(db: Database) -> str:
    """The repo's id. One lookup by key, so it may be asked at every start."""
    row = db.row("SELECT value FROM meta WHERE key = 'id'")
    if row is None or not isinstance(row[0], str) or not _UUID.fullmatch(row[0]):
        raise Corrupt(f"{db.path} has no repository id.", hint=advise_restore(db))
    return row[0]


def find_id(db: Database) -> str:
    """As `read_id`; empty for a repo that is being made, or damaged."""
    try:
        return read_id(db)
    except Corrupt:
        return ""


def read_salt(db: Database) -> bytes:
    """The key under which names of people and agents become paths."""
    row = db.row("SELECT value FROM meta WHERE key = 'salt'")
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 16:
        raise Corrupt(f"{db.path} has no salt.", hint=advise_restore(db))
    return row[0]


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
