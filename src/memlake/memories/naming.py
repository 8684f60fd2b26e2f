"""Memories by the beginning of their id, as people type it. Reads only."""

from __future__ import annotations

import re

from memlake.errors import InvalidInput, NotFound
from memlake.memories import following, record
from memlake.memories.ground import Ground

_BEGINNING = re.compile(r"[0-9a-f]{6,32}")


def full_id(ground: Ground, text: str) -> str:
    """The id that text is the beginning of: of a memory the branch shows, else of one that it or another ever had."""
    digits = text.strip().lower().replace("-", "")
    if len(digits) == 32 or not _BEGINNING.fullmatch(digits):
        return record.checked_id(text)
    shown = following.shown(ground.here.history, ground.index, ground.branch)
    low, high = bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))
    sql = "SELECT DISTINCT key FROM row WHERE key BETWEEN ? AND ? LIMIT 1000"
    keys = [bytes(key) for (key,) in ground.index.db.rows(sql, (low, high))]
    present = [key for key in keys if ground.index.find(key, shown) is not None]
    found = [record.checked_id(key.hex()) for key in present or keys]
    if not found:
        raise NotFound(f"no memory's id begins with {text!r}.", hint="memlake memory ls shows the ids.")
    if len(found) > 1:
        named = "\n".join(found[:5])
        raise InvalidInput(
            f"{len(found)} memories have an id that begins with {text!r}.", hint=f"Say more of one:\n{named}"
        )
    return found[0]
