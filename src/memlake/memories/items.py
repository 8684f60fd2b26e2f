"""From the fields of a foreign record to a memory: names, times, ids. Pure; knows no file and no format.

The id of what is imported is its own UUID, or one made from what it says: imported twice, it is the same memory.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from memlake.errors import InvalidInput
from memlake.memories import record
from memlake.memories.record import Memory
from memlake.memories.searching import fields
from memlake.objects import layout

NAMES = {  # ours, and what others call it; the first that is there counts
    "memory_id": ("memory_id", "memoryId", "id", "uuid"),
    "content": ("content", "text", "memory"),
    "agent_id": ("agent_id", "agentId", "agent"),
    "session_id": ("session_id", "sessionId", "session", "run_id", "runId", "thread_id"),
    "org_id": ("org_id", "orgId"),
    "memory_type": ("memory_type", "memoryType", "type"),
    "category": ("category",),
    "tags": ("tags",),
    "metadata": ("metadata",),
    "importance": ("importance",),
    "source": ("source",),
    "created_at": ("created_at", "createdAt", "created", "timestamp", "time", "date"),
    "updated_at": ("updated_at", "updatedAt", "updated", "modified"),
    "expires_at": ("expires_at", "expiresAt", "expires", "expiration_date"),
    "history": ("history",),
    "related": ("related",),
    "review": ("review",),
    "project": ("project",),
}
# What an index knows of a memory and the memory itself does not: left behind.
DERIVED = {"has_embedding", "embedding", "access_count", "last_accessed", "last_accessed_at", "similarity_score", "why"}
_SPACE = uuid.UUID("6f0c1d0a-7a4e-5b5e-9a63-6d656d6c616b")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NUMBER = re.compile(r"[+-]?\d{9,}(?:\.\d+)?|[+-]?\d+\.\d+")


class Earlier(NamedTuple):
    """What a memory said before, and until when."""

    memory: Memory
    until: int


class Item(NamedTuple):
    """One memory on its way in or out, with what it said before, oldest first."""

    memory: Memory
    past: tuple[Earlier, ...] = ()
    is_dated: bool = True  # its time is its own; one that was given none is of the moment it is read


def build(given: Mapping[str, Any], source: str) -> Item:
    """A memory from the fields of a foreign one, checked; fields nobody knows go to its metadata."""
    known, unknown = _named(given)
    if not _is_history(known.get("history", [])):  # somebody else's idea of one: not ours to understand
        unknown["history"] = known.pop("history")
    if not str(known.get("project", "/")).startswith("/"):  # a name, where ours is a folder
        unknown["project"] = known.pop("project")
    metadata = {**unknown, **record.checked_metadata(known.get("metadata"))}
    made = _memory({**known, "metadata": metadata}, source)
    past = tuple(_earlier(one, made.memory_id) for one in known.get("history", ()))
    return Item(made, past, is_dated=not known.keys().isdisjoint(("created_at", "updated_at")))


def _named(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields by our names, and the rest by theirs."""
    rest = {name: value for name, value in given.items() if name not in DERIVED}
    known = {}
    for ours, theirs in NAMES.items():
        name = next((name for name in theirs if rest.get(name) is not None), None)
        if name is not None:
            known[ours] = rest.pop(name)
    return known, {name: value for name, value in rest.items() if value is not None}


def _memory(known: Mapping[str, Any], source: str) -> Memory:
    if "content" not in known:
        raise InvalidInput('it has no "content" (nor "text" or "memory").')
    content = record.checked_content(known["content"])
    created = moment(known.get("created_at"), "created_at")
    told = layout.now() if created is None else created
    updated = moment(known.get("updated_at"), "updated_at")
    return Memory(
        _id(known, source, content),
        content,
        record.checked_text(known.get("agent_id"), "agent_id"),
        record.checked_text(known.get("session_id"), "session_id"),
        record.checked_text(known.get("org_id"), "org_id"),  # empty: that of whoever imports it
        record.checked_text(known.get("memory_type"), "memory_type") or "fact",
        record.checked_text(known.get("category"), "category"),
        record.checked_tags(known.get("tags")),
        record.checked_metadata(known.get("metadata")),
        record.checked_importance(known.get("importance", 0.5)),
        record.checked_text(known.get("source"), "source"),
        told,
        told if updated is None else updated,
        moment(known.get("expires_at"), "expires_at") or 0,
        related=tuple(record.checked_id(one) for one in known.get("related", ())),
        review=record.checked_text(known.get("review"), "review"),
        project=record.checked_text(known.get("project"), "project", longest=4096),
    )


def _id(known: Mapping[str, Any], source: str, content: str) -> str:
    """Its own UUID, else one by where it is from, its id there and what it says.

    The content counts also beside an id: "1" of one file and "1" of another must not be taken for the same.
    """
    own = known.get("memory_id")
    try:
        return str(uuid.UUID(str(own)))
    except ValueError:
        parts = [source, own, content, *(known.get(name) for name in ("agent_id", "session_id", "created_at"))]
        user = (known.get("metadata") or {}).get("user_id")
        parts += [user] if user else []
        return str(uuid.uuid5(_SPACE, "\0".join(map(str, parts)).encode("utf-8", "replace").decode()))


def _is_history(given: Any) -> bool:
    """Whether these are earlier values as our export writes them."""
    return isinstance(given, list) and all(
        isinstance(one, dict) and {"content", "until"} <= one.keys() for one in given
    )


def _earlier(given: Mapping[str, Any], memory_id: str) -> Earlier:
    known, _ = _named(given)
    return Earlier(_memory({**known, "memory_id": memory_id}, ""), moment(given["until"], "until") or 0)


def told(item: Item) -> dict[str, Any]:
    """An item as our export writes it."""
    past = [{**_plain(one.memory), "until": written(one.until)} for one in item.past]
    return {**_plain(item.memory), "history": past} if past else _plain(item.memory)


def _plain(memory: Memory) -> dict[str, Any]:
    shown = {**fields(memory), "related": list(memory.related), "review": memory.review}
    shown |= {
        name: written(getattr(memory, name)) for name in ("created_at", "updated_at", "expires_at") if shown[name]
    }
    return {name: value for name, value in shown.items() if value not in ("", None, [], {})}


# -- times ------------------------------------------------------------------------------------


def moment(given: object, name: str) -> int | None:
    """Microseconds of a time in any ISO form, or of seconds, milli-, micro- or nanoseconds since 1970.

    A time without a zone is UTC: an import must not depend on where it is done.
    """
    if given is None or given == "":
        return None
    found = _exact(given)
    if found is None or not -record.LATEST < found < record.LATEST:
        raise InvalidInput(f"{name} is not a time: {str(given)[:40]!r}. Write it as 2026-01-31T14:00:00Z.")
    return found


def _exact(given: object) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int | float):
        return _since_epoch(given)
    if isinstance(given, date):
        return _micros(given if isinstance(given, datetime) else datetime(given.year, given.month, given.day))  # noqa: DTZ001
    text = str(given).strip()
    return _since_epoch(float(text) if "." in text else int(text)) if _NUMBER.fullmatch(text) else _iso(text)


def _since_epoch(number: float) -> int | None:
    if not math.isfinite(number):
        return None
    for limit, micros in ((1e11, 1_000_000), (1e14, 1000), (1e17, 1)):
        if abs(number) < limit:
            return round(number * micros)
    return round(number) // 1000


def _iso(text: str) -> int | None:
    text = re.sub(r"\s*(?:UTC|GMT)$", "Z", text)
    text = re.sub(r"\s+([+-]\d\d:?\d\d)$", r"\1", text)
    if re.fullmatch(r"\d{4}(?:-\d\d)?", text):
        text = (text + "-01-01")[:10]
    try:
        return _micros(datetime.fromisoformat(text))
    except ValueError:
        pass
    try:
        return _micros(datetime.strptime(text, "%Y-%j"))  # noqa: DTZ007  made aware there
    except ValueError:
        return None


def written(time: int) -> str:
    return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")


def _micros(when: datetime) -> int:
    """Whole numbers throughout: a float would lose the last digit."""
    return ((when if when.tzinfo else when.replace(tzinfo=timezone.utc)) - _EPOCH) // timedelta(microseconds=1)
