"""Times as people type them: `yesterday`, `2 hours ago`, `2026-01-31`; `tomorrow`, `in 3 days`, `2h`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from memlake.errors import InvalidInput

Reader = Callable[[str, datetime], datetime | None]
_UNITS = {
    "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 7 * 86400,
    "fortnight": 14 * 86400, "month": 30 * 86400, "year": 365 * 86400,
}  # fmt: skip
_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10,
}  # fmt: skip
_SHORT = {"s": 1, "m": 60, "h": 3600, "hr": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_AGO = re.compile(r"(\d+|[a-z]+)\s+([a-z]+?)s?(?:\s+ago)?$")
_AHEAD = re.compile(r"(?:in\s+)?(\d+|[a-z]+(?=\s))\s*([a-z]+?)s?(?:\s+from\s+now)?$")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d", "%Y-%m", "%H:%M:%S", "%H:%M")


def parse_time(text: str, now: datetime | None = None) -> int:
    """Microseconds since 1970 of a moment in the past, in the local zone."""
    now = now or datetime.now().astimezone()
    plain = " ".join(re.sub(r"[._,]", " ", text.strip().lower()).split()) if not _looks_exact(text) else text.strip()
    moment = _parse_first(plain, now, (_parse_word, _parse_ago, _parse_short, _parse_exact))
    if moment is None:
        ahead = _parse_first(plain, now, (_parse_coming, _parse_ahead))
        raise InvalidInput(
            f"{text!r} is not a time." if ahead is None else f"{text!r} lies ahead: {ahead:%Y-%m-%d %H:%M}.",
            hint='Write it as "yesterday", "2 hours ago", "2h", "2026-01-31" or "2026-01-31 14:00".',
        )
    return int(moment.timestamp() * 1_000_000)


def parse_end(text: str, now: datetime | None = None) -> int:
    """Microseconds since 1970 of a future moment. Reads a past one as well, for the caller to refuse."""
    now = now or datetime.now().astimezone()
    plain = text.strip() if _looks_exact(text) else " ".join(text.lower().split())
    relative = _parse_ago if plain.endswith(" ago") else _parse_ahead
    moment = _parse_first(plain, now, (_parse_coming, _parse_word, relative, _parse_exact))
    if moment is None:
        raise InvalidInput(
            f"{text!r} is not a time to come. Nothing was stored.",
            hint='Write it as "tomorrow", "in 3 days", "2h", "2030-01-31" or "2030-01-31 14:00".',
        )
    return int(moment.timestamp() * 1_000_000)


def _parse_coming(text: str, now: datetime) -> datetime | None:
    tonight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    fixed = {
        "today": tonight,
        "tonight": tonight,
        "tomorrow": now + timedelta(days=1),
        "next week": now + timedelta(weeks=1),
        "next month": now + timedelta(days=30),
        "next year": now + timedelta(days=365),
    }
    day = text.removeprefix("next ")
    if day in _DAYS:
        return now + timedelta(days=(_DAYS.index(day) - now.weekday()) % 7 or 7)
    return fixed.get(text) or _end_of(text, tonight) or _at_clock(text, now)


def _end_of(text: str, tonight: datetime) -> datetime | None:
    """`end of week`: the midnight after its last day."""
    match = re.fullmatch(r"(?:the )?end of (?:the |this )?(day|week|month|year)", text)
    if not match:
        return None
    today = tonight - timedelta(days=1)
    week = timedelta(days=7 - today.weekday())
    ends = {
        "day": tonight,
        "week": today + week,
        "month": (today.replace(day=1) + timedelta(days=32)).replace(day=1),
        "year": today.replace(year=today.year + 1, month=1, day=1),
    }
    return ends[match[1]]


def _at_clock(text: str, now: datetime) -> datetime | None:
    """`tomorrow 9am`, `friday at 17:30`: a day by its word, and the time of it."""
    match = re.fullmatch(r"([a-z ]+?)(?: at)? (\d{1,2})(?::(\d\d))? ?(am|pm)?", text)
    if not match or not (match[3] or match[4]):
        return None
    day = now if match[1] in ("today", "tonight") else _parse_coming(match[1], now)
    hour = int(match[2]) % 12 + 12 * (match[4] == "pm") if match[4] else int(match[2])
    return day and day.replace(hour=hour, minute=int(match[3] or 0), second=0, microsecond=0)


def _parse_ahead(text: str, now: datetime) -> datetime | None:
    match = _AHEAD.match(text)
    if not match:
        return None
    count, unit = match.groups()
    number = int(count) if count.isdigit() else _WORDS.get(count)
    seconds = _UNITS.get(unit) or _SHORT.get(unit)
    return None if not number or seconds is None else now + timedelta(seconds=number * seconds)


def _parse_first(text: str, now: datetime, readers: Iterable[Reader]) -> datetime | None:
    """What the first reader that understands a text makes of it; None for a time that no calendar has."""
    try:
        return next((moment for read in readers if (moment := read(text, now)) is not None), None)
    except (OverflowError, ValueError, OSError):
        return None


def _looks_exact(text: str) -> bool:
    return bool(re.match(r"\s*\d+[-/:T]", text)) or text.strip().isdigit()


def _parse_word(text: str, now: datetime) -> datetime | None:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    fixed = {
        "now": now,
        "today": midnight,
        "midnight": midnight,
        "noon": midnight + timedelta(hours=12 if now.hour >= 12 else -12),
        "yesterday": now - timedelta(days=1),
        "last week": now - timedelta(weeks=1),
        "last month": now - timedelta(days=30),
        "last year": now - timedelta(days=365),
    }
    day = text.removeprefix("last ")
    if day in _DAYS:
        return now - timedelta(days=(now.weekday() - _DAYS.index(day)) % 7 or 7)
    return fixed.get(text)


def _parse_ago(text: str, now: datetime) -> datetime | None:
    match = _AGO.match(text)
    if not match:
        return None
    count, unit = match.groups()
    number = int(count) if count.isdigit() else _WORDS.get(count)
    seconds = _UNITS.get(unit)
    return None if number is None or seconds is None else now - timedelta(seconds=number * seconds)


def _parse_short(text: str, now: datetime) -> datetime | None:
    """`90d`, `2h ago`: so long ago, as `2 hours` is."""
    match = re.fullmatch(r"(\d{1,6})([a-z]+)(?: ago)?", text)
    seconds = _SHORT.get(match[2]) if match else None
    return now - timedelta(seconds=int(match[1]) * seconds) if match and seconds is not None else None


def _parse_exact(text: str, now: datetime) -> datetime | None:
    if text.isdigit() and len(text) >= 9:
        return datetime.fromtimestamp(int(text)).astimezone()
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        pass
    for form in _FORMATS:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007  made aware below
        except ValueError:
            continue
        if form.startswith("%H"):
            moment = moment.replace(year=now.year, month=now.month, day=now.day)
        return moment.astimezone()
    return None
