"""What a waiting merge has to decide, place by place: lines for people. Knows no command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from memlake.records import Entry
from memlake.reports import Place
from memlake.versions.kinds import kind_at
from memlake.views import paths, words
from memlake.views.style import Style
from memlake.views.words import clean

_LONG = 100  # characters of a value that are told
_STATUS = {
    "UU": "changed on both sides", "AA": "added on both sides", "DU": "deleted by us", "UD": "deleted by them",
    "DD": "deleted on both sides", "AU": "added by us", "UA": "added by them",
}  # fmt: skip


def place_lines(places: Sequence[Place], style: Style, base: str = "") -> Iterator[str]:
    """Each path once, and below it its places with what every side has there."""
    for path, group in groupby(places, key=lambda one: one.path):
        found = list(group)
        open_ones = sum(one.choice is None for one in found)
        counts = f", {open_ones:,} of {words.count(len(found), 'place')} open" if found[0].place else ""
        yield f"{style.paint(name_path(path, base), 'bold')} ({_STATUS[found[0].status]}{counts})"
        if found[0].why:
            yield f"  {clean(found[0].why)}"
        for one in found:
            yield from _side_lines(one, style)


def name_path(path: str, base: str = "") -> str:
    kind = kind_at(path)
    label = kind.label(path)
    return paths.display(path, base) if label == path else f"{kind.nouns[0]} {label}"


def _side_lines(place: Place, style: Style) -> Iterator[str]:
    chosen = style.paint(f"chosen {place.choice}", "added") if place.choice else ""
    if place.place:
        yield f"  {clean(place.place)}" + (f"  {chosen}" if chosen else "")
    elif chosen:
        yield f"  {chosen}"
    sides = (("base:", place.base), ("ours:", place.ours), ("theirs:", place.theirs))
    for title, value in sides:
        if place.place or value is not None or title != "base:":
            yield f"    {title:<8}{show_value(value)}"


def show_value(value: Any) -> str:
    """A value of one side in a line."""
    if value is None:
        return "(nothing)"
    if isinstance(value, Entry):
        return f"{value.kind} of {words.size(value.size)}, {value.oid[:10]}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = clean(" ".join(text.split())) if text.strip() else json.dumps(text)
    return line if len(line) <= _LONG else f"{line[: _LONG - 1]}…"
