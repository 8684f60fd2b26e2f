"""Memories by a part of their id, as people type it. Reads only.

Ids begin with their time: those of one afternoon begin alike. Their ends are random, so a few last characters name one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlake.errors import InvalidInput, NotFound
from memlake.memories import index_sync, record
from memlake.memories.context import MemoryContext

_PART = re.compile(r"[0-9a-f]{6,32}")


def full_id(ground: MemoryContext, text: str) -> str:
    """The id that text is the end or the beginning of: of a memory the branch shows, else of one it or another had."""
    digits = text.strip().lower().replace("-", "")
    if len(digits) == 32 or not _PART.fullmatch(digits):
        return _whole_id(text)
    shown = index_sync.find_shown(ground.here.history, ground.index, ground.branch)
    keys = list(dict.fromkeys((*_ending(ground, digits), *_beginning(ground, digits))))
    present = [key for key in keys if ground.index.find(key, shown) is not None]
    found = [record.checked_id(key.hex()) for key in present or keys]
    if not found:
        raise NotFound(
            f"no memory's id ends or begins with {text!r}.",
            hint="See the ids with: memlake memory ls\nOne that was purged is named by its whole id.",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} memories have an id that ends or begins with {text!r}.",
            hint="Name one by its last characters:\n" + "\n".join(found[:5]),
        )
    return found[0]


def _whole_id(text: str) -> str:
    try:
        return record.checked_id(text)
    except InvalidInput as error:
        error.hint = "The last six characters of an id are enough.\nSee the ids with: memlake memory ls"
        raise


def _ending(ground: MemoryContext, digits: str) -> Iterator[bytes]:
    """Whole bytes are compared by the database, half a one here."""
    last = bytes.fromhex(digits[len(digits) % 2 :])
    sql = "SELECT DISTINCT key FROM row WHERE substr(key, ?) = ? LIMIT 1000"
    return (bytes(key) for (key,) in ground.index.db.rows(sql, (-len(last), last)) if key.hex().endswith(digits))


def _beginning(ground: MemoryContext, digits: str) -> Iterator[bytes]:
    low, high = bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))
    sql = "SELECT DISTINCT key FROM row WHERE key BETWEEN ? AND ? LIMIT 1000"
    return (bytes(key) for (key,) in ground.index.db.rows(sql, (low, high)))
