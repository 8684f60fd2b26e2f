"""Fields of another program's record become a memory: names, times, ids. Pure; knows no file and no format.

An imported memory keeps its own UUID, or gets one made from what it says, so importing it twice gives the same memory.
"""

from __future__ import annotations

import contextlib
import math
import re
import uuid
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

from memlake import projects
from memlake.errors import InvalidInput
from memlake.integrations.format import make_id
from memlake.memories import record
from memlake.memories.anchors.anchor import MOST, Anchor, decode_anchors
from memlake.memories.forgotten import Forgotten
from memlake.memories.import_records import Earlier, Item
from memlake.memories.record import Memory, State
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
    "area": ("area",),
    "package": ("package",),
    "user_id": ("user_id", "userId"),
    "client": ("client",),
    "author": ("author",),
    "uses": ("uses",),
}
# What an index knows of a memory and the memory itself does not: left behind.
DERIVED = {
    "has_embedding",
    "embedding",
    "access_count",
    "last_accessed",
    "last_accessed_at",
    "similarity_score",
    "why",
    "own",
    "standing",
    "because",
}
_BESIDE = {"state", "value", "forgotten", "agent_id", "org_id", "updated_at"}  # of a line beside the memories
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NUMBER = re.compile(r"[+-]?\d{9,}(?:\.\d+)?|[+-]?\d+\.\d+")


def build_item(fields: Mapping[str, Any], source: str) -> Item:
    """Build a checked memory from the fields of a foreign record; unknown fields go to its metadata."""
    known, unknown = _split_known(fields)
    uses = known.get("uses", [])
    if not isinstance(uses, list) or not all(
        isinstance(use, dict) for use in uses
    ):  # names of things of another program
        unknown["uses"] = known.pop("uses")
    past = known.get("history", [])
    is_ours = isinstance(past, list) and all(isinstance(p, dict) and {"content", "until"} <= p.keys() for p in past)
    if not is_ours:  # somebody else's idea of a history, which we do not understand
        unknown["history"] = known.pop("history")
    if not projects.is_name(str(known.get("project", ""))):  # what another program calls one
        unknown["project"] = known.pop("project")
    if not isinstance(known.get("author", ""), str):  # what another program calls one
        unknown["author"] = known.pop("author")
    memory = _build_memory({**known, "metadata": {**unknown, **record.check_metadata(known.get("metadata"))}}, source)
    earlier = [
        Earlier(
            _build_memory({**_split_known(value)[0], "memory_id": memory.memory_id}, ""),
            parse_moment(value["until"], "until") or 0,
        )
        for value in known.get("history", ())
    ]
    is_dated = not known.keys().isdisjoint(("created_at", "updated_at"))
    return Item(memory, tuple(earlier), is_dated=is_dated, is_placed="project" in known)


def read_beside(given: Mapping[str, Any]) -> Forgotten | State | None:
    """What a line of our export says that is no memory: one that was forgotten, or a value of an agent's state."""
    if not given.keys() <= _BESIDE:
        return None
    time = parse_moment(given.get("updated_at"), "updated_at") or 0
    agent = record.check_text(given.get("agent_id"), "agent_id")
    org = record.check_text(given.get("org_id"), "org_id") or "local"
    if isinstance(key := given.get("state"), str):
        name = record.check_text(key, "a state key")
        if not name:
            raise InvalidInput("a state key is empty.")
        if given.get("forgotten") is True:
            return Forgotten("", agent, time, name, org)
        return State(agent, name, record.check_json(given.get("value"), "a state value"), time, org)
    if isinstance(memory_id := given.get("forgotten"), str):
        return Forgotten(record.check_id(memory_id), agent, time, "", org)
    return None


def _split_known(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields we know by our names, and the rest by theirs."""
    rest = {name: value for name, value in fields.items() if name not in DERIVED}
    known = {}
    for ours, theirs in NAMES.items():
        name = next((name for name in theirs if rest.get(name) is not None), None)
        if name is not None:
            known[ours] = rest.pop(name)
    return known, {name: value for name, value in rest.items() if value is not None}


def _build_memory(known: Mapping[str, Any], source: str) -> Memory:
    if "content" not in known:
        raise InvalidInput('it has no "content" (nor "text" or "memory").')
    content = record.check_content(known["content"])
    created = parse_moment(known.get("created_at"), "created_at")
    created = layout.now() if created is None else created
    updated = parse_moment(known.get("updated_at"), "updated_at")
    return Memory(
        _choose_id(known, source, content),
        content,
        record.check_text(known.get("agent_id"), "agent_id"),
        record.check_text(known.get("session_id"), "session_id"),
        record.check_text(known.get("org_id"), "org_id"),  # empty: that of whoever imports it
        record.check_text(known.get("memory_type"), "memory_type") or "fact",
        record.check_text(known.get("category"), "category"),
        record.check_tags(known.get("tags")),
        record.check_metadata(known.get("metadata")),
        record.check_importance(known.get("importance", 0.5)),
        record.describe_source(record.check_text(known.get("source"), "source"), "import"),
        created,
        created if updated is None else updated,
        parse_moment(known.get("expires_at"), "expires_at") or 0,
        related=tuple(record.check_id(one) for one in known.get("related", ())),
        review=record.check_text(known.get("review"), "review"),
        project=record.check_text(known.get("project"), "project", longest=4096),
        area=record.check_text(known.get("area"), "area", longest=4096),
        package=record.check_text(known.get("package"), "package", longest=4096),
        user_id=record.check_text(known.get("user_id"), "user_id"),
        client=record.check_text(known.get("client"), "client"),
        uses=_read_uses(known.get("uses", ())),
        author=record.check_text(known.get("author"), "author"),
    )


def _read_uses(shapes: Any) -> tuple[Anchor, ...]:
    try:
        return decode_anchors(shapes)[:MOST]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidInput('its "uses" are not what an export of memlake writes.') from None


def _choose_id(known: Mapping[str, Any], source: str, content: str) -> str:
    """Return its own UUID, or else one made from its source, its id there and its content.

    The content counts even beside an id, because "1" of one file and "1" of another are different memories.
    """
    own = known.get("memory_id")
    try:
        return str(uuid.UUID(str(own)))
    except ValueError:
        parts = [source, own, content, *(known.get(name) for name in ("agent_id", "session_id", "created_at"))]
        user = known.get("user_id")
        parts += [user] if user else []
        return make_id(*parts)


# -- times ------------------------------------------------------------------------------------


def parse_moment(given: object, name: str) -> int | None:
    """Return the microseconds of a time in any ISO form, or in seconds, milli-, micro- or nanoseconds since 1970.

    A time without a zone is UTC, because an import must not depend on where it is done.
    """
    if given is None or given == "":
        return None
    micros = _parse_exact(given)
    if micros is None or not -record.LATEST < micros < record.LATEST:
        raise InvalidInput(f"{name} is not a time: {str(given)[:40]!r}. Write it as 2026-01-31T14:00:00Z.")
    return micros


def _parse_exact(given: object) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int | float):
        return _scale_number(given)
    if isinstance(given, date):
        return _count_micros(given if isinstance(given, datetime) else datetime(given.year, given.month, given.day))  # noqa: DTZ001
    text = str(given).strip()
    return _scale_number(float(text) if "." in text else int(text)) if _NUMBER.fullmatch(text) else _parse_iso(text)


def _scale_number(number: float) -> int | None:
    if not math.isfinite(number):
        return None
    for limit, factor in ((1e11, 1_000_000), (1e14, 1000), (1e17, 1)):
        if abs(number) < limit:
            return round(number * factor)
    return round(number) // 1000


def _parse_iso(text: str) -> int | None:
    text = re.sub(r"\s*(?:UTC|GMT)$", "Z", text)
    text = re.sub(r"\s+([+-]\d\d:?\d\d)$", r"\1", text)
    if re.fullmatch(r"\d{4}(?:-\d\d)?", text):
        text = (text + "-01-01")[:10]
    for parse in (datetime.fromisoformat, lambda day: datetime.strptime(day, "%Y-%j")):  # noqa: DTZ007  aware below
        with contextlib.suppress(ValueError):
            return _count_micros(parse(text))
    return None


def _count_micros(when: datetime) -> int:
    """Count in whole numbers throughout, because a float would lose the last digit."""
    return ((when if when.tzinfo else when.replace(tzinfo=timezone.utc)) - _EPOCH) // timedelta(microseconds=1)
