"""The facts every write shares: a repo's format, id and salt, its clock and its sequence. Knows no object.

`init` chooses the id (a UUIDv7) and the salt once, and every copy keeps them. The id tells which packs are this repo's
own, wherever they are kept; the salt turns names of agents into paths.

A tick is the time in microseconds, pushed forward so that it never repeats or goes back, whatever the machine's clock
does. A seq numbers commits and purges in the order they became visible.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import apsw

from memlake.errors import Corrupt, Error, InvalidInput
from memlake.objects import tables
from memlake.objects.db import Database, ForeignSchema, advise_rescue
from memlake.objects.forks import Mutex
from memlake.objects.packs import write_uuid

FORMAT = 2
_HUGE = 1 << 62
_SOURCE = Path(__file__).parents[1]
_SCHEMA = (_SOURCE / "objects" / "schema.sql", _SOURCE / "versions" / "schema.sql")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def now() -> int:
    """The time in microseconds."""
    return time.time_ns() // 1000


def new_id() -> str:
    """A UUIDv7: ids made close in time sort close together, and ids of one process sort in the order they were made."""
    global _last  # noqa: PLW0603
    with _ids:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12 | time.time_ns() % 1_000_000 * 4096 // 1_000_000)
        moment = _last
    value = moment >> 12 << 80 | 7 << 76 | (moment & 0xFFF) << 64 | 2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return write_uuid(value.to_bytes(16, "big"))


_ids, _last = Mutex(), 0


def new_repo_id(salt: bytes) -> str:
    """A UUIDv7 whose random part is a hash of the repo's salt, so that whoever is given both can tell they belong
    together: the id stands in every pack and batch, and the salt at a remote in the root alone."""
    begin = bytes.fromhex(new_id().replace("-", ""))[:8]
    return write_uuid(begin + _hash_salt(begin, salt))


def is_salt_of(id: str, salt: bytes) -> bool:
    """Whether a repo's id was made with this salt."""
    value = bytes.fromhex(id.replace("-", ""))
    return value[8:] == _hash_salt(value[:8], salt)


def _hash_salt(begin: bytes, salt: bytes) -> bytes:
    digest = hashlib.sha256(begin + salt).digest()
    return bytes([digest[0] & 0x3F | 0x80]) + digest[1:8]  # the two bits that every UUID has there


def stamp_format(db: Database) -> None:
    """Give a new repo its format, id and salt; several processes may create it at once. An old repo is left alone."""
    with db.write():
        if not tables.has_facts(db):
            salt = os.urandom(16)
            facts = {"format": FORMAT, "id": new_repo_id(salt), "salt": salt, "clock": 0, "seq": 0}
            tables.write_facts(db, facts)


def advise_restore(db: Database) -> str:
    """What a person can still do when not even fsck can open repo.db."""
    return f"Restore a backup. Without one, save what gc packed: {advise_rescue(db.path)}"


class RepoDatabase(Database):
    """The repo.db of a `.memlake`. If it has the tables of another format, the error says so."""

    def __init__(self, folder: Path, *, vfs: str | None = None) -> None:
        super().__init__(folder / "repo.db", schema=_SCHEMA, vfs=vfs)

    def _translate_error(self, error: apsw.Error) -> Error:
        wrong_format = _describe_format(error.format) if isinstance(error, ForeignSchema) else None
        return wrong_format or super()._translate_error(error)


def check_format(db: Database) -> None:
    """Raise when this version of memlake cannot read the repo."""
    row = tables.find_fact(db, "format")
    if row is None or not isinstance(row[0], int) or row[0] < 1:
        raise Corrupt(f"{db.path} has no repository format.", hint=advise_restore(db))
    if (error := _describe_format(row[0])) is not None:
        raise error


def _describe_format(number: object) -> InvalidInput | None:
    """Why a repo of this format cannot be read; None when it can be, or when this is not a format."""
    if not isinstance(number, int) or number < 1 or number == FORMAT:
        return None
    if number > FORMAT:
        return InvalidInput(
            f"this repo has format {number}; this memlake reads up to format {FORMAT}. Nothing was changed.",
            hint="Install a newer memlake: pip install -U memlake",
        )
    return InvalidInput(
        f"this repo has format {number}, which an older memlake wrote; this one reads format {FORMAT} only. "
        "Nothing was changed.",
        hint="With the version of memlake that wrote it, export the memories: "
        "memlake memory export --project '*' FILE\n"
        "And each dataset: memlake dataset export NAME FOLDER\n"
        "Your files are in the working folder. With this version, in a new folder: "
        "memlake init && memlake memory import FILE && memlake add -A",
    )


def read_number(db: Database, key: str) -> int:
    """A counter or cursor of the repo; 0 where there is none yet."""
    row = tables.find_fact(db, key)
    if row is None:
        return 0
    if type(row[0]) is not int or not 0 <= row[0] < _HUGE:
        raise wrong_fact(db, key, row[0])
    return row[0]


def read_text(db: Database, key: str) -> str | None:
    """A text that the repo notes, such as where HEAD is; None if there is none."""
    row = tables.find_fact(db, key)
    if row is not None and type(row[0]) is not str:
        raise wrong_fact(db, key, row[0])
    return None if row is None else row[0]


def wrong_fact(db: Database, key: str, value: object) -> Corrupt:
    """The error for a row of meta that memlake does not write; somebody else must have."""
    return Corrupt(
        f"{db.path} has {value!r:.100} as {key!r}, which memlake does not write. Nothing was changed.",
        hint=advise_restore(db),
    )


def read_id(db: Database) -> str:
    """The repo's id. One lookup by key, cheap enough for every start."""
    row = tables.find_fact(db, "id")
    if row is None or not isinstance(row[0], str) or not _UUID.fullmatch(row[0]):
        raise Corrupt(f"{db.path} has no repository id.", hint=advise_restore(db))
    return row[0]


def find_id(db: Database) -> str:
    """As `read_id`, but empty for a repo that is being made, damaged, or of another format."""
    try:
        return read_id(db)
    except (Corrupt, InvalidInput):
        return ""


def read_salt(db: Database) -> bytes:
    """The key with which names of people and agents are hashed into paths."""
    row = tables.find_fact(db, "salt")
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 16:
        raise Corrupt(f"{db.path} has no salt.", hint=advise_restore(db))
    return row[0]


def tick(db: Database) -> int:
    """The next tick. Call inside a write."""
    value = max(read_number(db, "clock") + 1, now())
    tables.write_fact(db, "clock", value)
    return value


def next_seq(db: Database, count: int = 1) -> int:
    """The next seq, the first of so many. Call inside a write."""
    value = read_number(db, "seq") + 1
    tables.write_fact(db, "seq", value + count - 1)
    return value
