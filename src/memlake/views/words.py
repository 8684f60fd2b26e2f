"""Numbers, sizes, times and stored text as people read them. Pure: knows no record, no repo and no terminal."""

from __future__ import annotations

import time as clock
from datetime import datetime, timezone

from memlake import records

count, iso = records.count, records.iso

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_AGES = ((31536000, "year"), (2592000, "month"), (604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}
_ESCAPES |= {'"': '\\"', "\\": "\\\\"}


def size(number: int | float) -> str:
    """Bytes with a binary unit: `512 B`, `1.5 KiB`, `3.2 GiB`."""
    step = 0
    while abs(number) >= 1024 and step < len(_UNITS) - 1:
        number, step = number / 1024, step + 1
    return f"{number:.{1 if step else 0}f} {_UNITS[step]}"


def moment(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1e6, timezone.utc).astimezone()


def date(time: int) -> str:
    """A record's time in the local zone: `Mon Nov 16 07:24:00 2026 +0100`, in English whatever the locale."""
    at = moment(time)
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at.day} {at:%H:%M:%S %Y %z}"


def stamp(time: int) -> str:
    """A record's time in a column: `2026-11-16 07:24:00 +0100`."""
    return f"{moment(time):%Y-%m-%d %H:%M:%S %z}"


STYLES = ("default", "iso", "iso-strict", "relative", "short", "unix")


def format_time(time: int, style: str) -> str:
    """A record's time as `--date` asks; `format:` is for strftime."""
    if style.startswith("format:"):
        return moment(time).strftime(style.removeprefix("format:"))
    if style == "unix":
        return str(time // 1_000_000)
    if style == "short":
        return f"{moment(time):%Y-%m-%d}"
    if style == "iso-strict":
        return moment(time).isoformat(timespec="seconds")
    return {"relative": ago, "iso": stamp}.get(style, date)(time)


def ago(time: int, now: float | None = None) -> str:
    """`3 minutes ago`."""
    passed = int((clock.time() if now is None else now) - time / 1e6)
    for seconds, unit in _AGES:
        if passed >= seconds:
            return f"{count(passed // seconds, unit)} ago"
    return f"{count(max(passed, 0), 'second')} ago"


def duration(seconds: float) -> str:
    """`0:07`, `12:40`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _unsafe(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    import unicodedata

    return char in _BIDI or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")


def clean(text: str) -> str:
    """Stored text made harmless for a terminal: what moves the cursor or reorders letters becomes visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char) if _unsafe(char) and char not in "\t\n" else char for char in text)


def _visible(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def quote(path: str) -> str:
    """A path on one line: in C quotes when it holds a quote, a backslash or a character that is not to be printed."""
    if not any(char in '"\\' or _unsafe(char) for char in path):
        return path
    return '"' + "".join(_quoted_char(char) for char in path) + '"'


def _quoted_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if not _unsafe(char):
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def cut(text: str, width: int) -> str:
    """On one line, and no longer than this."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: max(width - 1, 0)]}…"
