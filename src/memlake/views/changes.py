"""Changes as people read them: renames, names, totals, blame. Pure: knows records, not what a path holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memlake.named_tuple import NamedTuple
from memlake.records import Change, Entry, short
from memlake.reports import BlameLine
from memlake.views import json_shapes, paths, words
from memlake.views.style import Style


class Row(NamedTuple):
    """One change as shown: like a Change, but a removed and an added path of the same content are one rename."""

    status: str
    path: str
    old: Entry | None
    new: Entry | None
    source: str | None = None

    def shape(self) -> dict[str, Any]:
        base = {
            "status": self.status,
            "path": self.path,
            "old": json_shapes.plain(self.old),
            "new": json_shapes.plain(self.new),
        }
        return {**base, "from": self.source} if self.source else base


def rows(changes: Iterable[Change]) -> list[Row]:
    """Changes in order of path, with exact renames found."""
    listed = sorted(changes, key=lambda change: change.path)
    sources = _sources(listed)
    gone = set(sources.values())
    found = []
    for change in listed:
        if change.path in sources:
            found.append(Row("R", change.path, change.new, change.new, sources[change.path]))
        elif change.path not in gone:
            found.append(Row(change.status, change.path, change.old, change.new))
    return found


def _sources(changes: Sequence[Change]) -> dict[str, str]:
    """For each added path the removed one it was, by equal content; a path of the same name first."""
    removed: dict[tuple[str, str, int], list[str]] = {}
    for change in changes:
        if change.old and not change.new and change.old.size:
            removed.setdefault((change.old.oid, change.old.kind, change.old.mode), []).append(change.path)
    found: dict[str, str] = {}
    for change in changes:
        if not change.new or change.old:
            continue
        places = removed.get((change.new.oid, change.new.kind, change.new.mode), [])
        if places:
            same = [place for place in places if place.rsplit("/", 1)[-1] == change.path.rsplit("/", 1)[-1]]
            found[change.path] = (same or places)[0]
            places.remove(found[change.path])
    return found


# -- names


def name_status(row: Row, *, nul: bool = False) -> str:
    """`M<TAB>path`; with `nul` a NUL instead of the tab, and the path as it is."""
    show = paths.bare if nul else paths.display
    sides = ("R100", show(row.source), show(row.path)) if row.source and row.status == "R" else ()
    return ("\0" if nul else "\t").join(sides or (row.status, show(row.path)))


def rename_text(row: Row) -> str:
    """`data/{old => new}/a.csv`, as git shortens it; in full where a name must be quoted."""
    old, new = paths.bare(row.source or row.path), paths.bare(row.path)
    if words.quote(old) != old or words.quote(new) != new:
        return f"{words.quote(old)} => {words.quote(new)}"
    head = 0
    for place, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            break
        head = place + 1 if a == "/" else head
    tail, most = 0, min(len(old), len(new)) - max(head - 1, 0)  # the slash before may also be the one behind
    for place in range(1, most + 1):
        if old[-place] != new[-place]:
            break
        tail = place if old[-place] == "/" else tail
    middle = [name[head : max(len(name) - tail, head)] for name in (old, new)]
    if not head and not tail:
        return f"{old} => {new}"
    return f"{old[:head]}{{{' => '.join(middle)}}}{old[len(old) - tail :]}"


def summary(listed: Sequence[Row]) -> str:
    """`3 files changed: 2 added, 1 modified`."""
    names = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "changed in kind"}
    numbers = {status: sum(row.status == status for row in listed) for status in names}
    parts = ", ".join(f"{number:,} {names[status]}" for status, number in numbers.items() if number)
    return f"{words.count(len(listed), noun(listed))} changed: {parts}" if listed else "no file changed"


def noun(listed: Iterable[Row]) -> str:
    return "file" if all(row.path.startswith(paths.FILES) for row in listed) else "path"


# -- blame


def blame_shape(line: BlameLine) -> dict[str, Any]:
    commit = line.commit
    return {
        "line": line.line,
        "text": line.text,
        "commit": commit.oid,
        "author": commit.author,
        "time": commit.time,
        "date": words.iso(commit.time),
        "subject": commit.subject,
    }


def blame_lines(style: Style, lines: list[BlameLine]) -> Iterator[str]:
    """`1a2b3c4d5e (Ada 2026-11-16 07:24:00 +0100 12) text`."""
    who = max((len(line.commit.author.name) for line in lines), default=0)
    digits = len(str(max((line.line for line in lines), default=0)))
    for line in lines:
        author = style.clean(line.commit.author.name).ljust(who)
        head = f"({author} {words.stamp(line.commit.time)} {line.line:>{digits}})"
        yield f"{style.paint(short(line.commit.oid), 'id')} {head} {style.clean(line.text.rstrip(chr(10)))}".rstrip()
