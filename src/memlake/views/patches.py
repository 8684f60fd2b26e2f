"""What changed inside paths: patches and counts of lines. Asks a Repo for content; knows no command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from memlake.contents.explain import Explanation
from memlake.errors import InvalidInput, Purged
from memlake.records import Change, Conflict, Entry, short
from memlake.repo import Repo
from memlake.versions.kinds import kind_at
from memlake.versions.text import unified
from memlake.versions.text.lines import LARGEST, find_text, split_lines
from memlake.views import contents, paths, words
from memlake.views.changes import Row, name_status, noun
from memlake.views.status import conflict_kind, side_lines
from memlake.views.style import Style

Read = Callable[[str, Entry], bytes]
_COLORS = {"+": "added", "-": "removed", "@": "hunk"}
_DONE = {"A": "added", "D": "removed", "R": "renamed"}


def detail(view: View, listed: Sequence[Row], how: str) -> Iterator[str]:
    """Rows as --stat, --name-status, --name-only or a patch."""
    if how == "stat":
        yield from stat(view, listed)
    elif how == "name-status":
        yield from (name_status(row) for row in listed)
    elif how == "name-only":
        yield from (paths.display(row.path) for row in listed)
    else:
        for row in listed:
            yield from patch(view, row)


# -- content


def reader(repo: Repo, *, worktree: bool) -> Read:
    """Reads the new side of a row: the working file, or the stored object."""

    def read(path: str, entry: Entry) -> bytes:
        if worktree and path.startswith(paths.FILES):
            return repo.read(os.path.join(repo.root, path.removeprefix(paths.FILES)), None)
        return repo.objects.read(entry.oid)

    return read


class Texts(NamedTuple):
    """Both sides of a row as lines; None when either is not text, too large, or purged."""

    old: list[str]
    new: list[str]


def find_texts(row: Row, read_old: Read, read_new: Read) -> Texts | None:
    if max(row.old.size if row.old else 0, row.new.size if row.new else 0) > LARGEST:
        return None
    try:
        old = _readable(row.path, read_old(row.path, row.old)) if row.old else b""
        new = _readable(row.path, read_new(row.path, row.new)) if row.new else b""
    except Purged:
        return None
    old_text, new_text = find_text(old), find_text(new)
    if old_text is None or new_text is None:
        return None
    return Texts(split_lines(old_text), split_lines(new_text))


def _readable(path: str, data: bytes) -> bytes:
    text = kind_at(path).text
    return text(data) if text else data


class View(NamedTuple):
    """What rendering needs beside the rows: the style, how to read each side, and what cannot be read any more."""

    style: Style
    read_old: Read
    read_new: Read
    is_purged: Callable[[str], bool]
    explain: Callable[[Row], Explanation | None]  # what differs inside a file of a type that memlake knows


class Looking(NamedTuple):
    """How closely files are looked at: not inside, or by which key and how many rows."""

    inside: bool = True
    key: tuple[str, ...] = ()
    limit: int | None = 10
    rev: str | None = None  # the commit whose .memlakeattributes apply; None: those of the working folder


_INSIDE = Looking()


def open_view(repo: Repo, style: Style, *, worktree: bool = False, looking: Looking = _INSIDE) -> View:
    attributes = repo.attributes(looking.rev)  # reads nothing before a path is asked for

    def explain(row: Row) -> Explanation | None:
        if not looking.inside:
            return None
        change = Change(row.path, row.old, row.new)
        try:
            return repo.explain(change, worktree=worktree, key=looking.key, limit=looking.limit, attributes=attributes)
        except Purged:
            return None
        except InvalidInput as error:  # a key that this table does not have; the next one may
            return Explanation("table", None, error.message)

    return View(style, reader(repo, worktree=False), reader(repo, worktree=worktree), repo.objects.is_purged, explain)


# -- patches


def patch(view: View, row: Row) -> Iterator[str]:
    """One row as a unified diff with extended headers, coloured; another kind of thing is a new thing."""
    if row.status == "T":
        yield from patch(view, Row("D", row.path, row.old, None))
        yield from patch(view, Row("A", row.path, None, row.new))
        return
    if brief := kind_at(row.path).brief:
        yield from _record_patch(view, row, brief)
        return
    source = words.quote(_label("a", row.source or row.path))
    target = words.quote(_label("b", row.path))
    yield from (view.style.paint(line, "bold") for line in _headers(row, source, target))
    if row.status == "R" or _same_content(row):
        return
    explanation = view.explain(row)
    if explanation is not None and explanation.record is not None and not explanation.record.is_empty:
        yield from contents.explained_lines(view.style, explanation)
        return
    if explanation is not None:
        note = explanation.note or f"the {explanation.type} is the same, it is only written differently"
        yield f"note: {words.clean(note)}"
    texts = find_texts(row, view.read_old, view.read_new)
    if texts is None:
        yield _closed_line(view, row)
        return
    lines = unified.format_hunks(texts.old, texts.new)
    first = next(lines, None)
    if first is None:
        return
    yield view.style.paint(f"--- {source if row.old else '/dev/null'}", "bold")
    yield view.style.paint(f"+++ {target if row.new else '/dev/null'}", "bold")
    yield from color_lines(view.style, chain([first], lines))


def _record_patch(view: View, row: Row, brief: Callable[[bytes], str]) -> Iterator[str]:
    """A record that came or went is a line; of one that was edited, the facts that changed."""
    name = words.quote(row.path) if row.source is None else f"{words.quote(row.source)} => {words.quote(row.path)}"
    yield view.style.paint(f"{name} {_DONE.get(row.status, 'changed')}: {_describe(view, row, brief)}", "bold")
    texts = find_texts(row, view.read_old, view.read_new) if row.old and row.new else None
    if texts is not None:
        yield from color_lines(view.style, unified.format_hunks(texts.old, texts.new))


def _describe(view: View, row: Row, brief: Callable[[bytes], str]) -> str:
    read, entry = (view.read_new, row.new) if row.new else (view.read_old, row.old)
    try:
        return brief(read(row.path, entry)) if entry else "nothing"
    except Purged:
        return "purged"


def color_lines(style: Style, lines: Iterator[str]) -> Iterator[str]:
    """The lines of a unified diff, made harmless for a terminal."""
    for line in lines:
        text = style.clean(line)
        yield style.paint(text, _COLORS[text[0]]) if text[0] in _COLORS else text


def _label(side: str, path: str) -> str:
    return f"{side}/{path.removeprefix(paths.FILES)}"


def _same_content(row: Row) -> bool:
    return row.old is not None and row.new is not None and row.old.oid == row.new.oid


def _headers(row: Row, source: str, target: str) -> Iterator[str]:
    yield f"diff --git {source} {target}"
    if row.source and row.status == "R":
        yield from (
            "similarity index 100%",
            f"rename from {paths.display(row.source)}",
            f"rename to {paths.display(row.path)}",
        )
        return
    if row.old is None:
        yield f"new file mode {_mode(row.new)}"
    elif row.new is None:
        yield f"deleted file mode {_mode(row.old)}"
    elif _mode(row.old) != _mode(row.new):
        yield from (f"old mode {_mode(row.old)}", f"new mode {_mode(row.new)}")
    if not _same_content(row):
        yield f"index {_id(row.old)}..{_id(row.new)}"


def _mode(entry: Entry | None) -> str:
    if entry is None:
        return "000000"
    return "120000" if entry.kind == "link" else "100755" if entry.mode else "100644"


def _id(entry: Entry | None) -> str:
    return short(entry.oid) if entry and entry.oid else "0" * 10


def _closed_line(view: View, row: Row) -> str:
    """What is said of content that cannot be shown line by line."""
    old, new = _weight(view, row.old), _weight(view, row.new)
    return f"{'Purged' if _is_purged(view, row) else 'Binary'} file {paths.display(row.path)}: {old} -> {new}"


def _is_purged(view: View, row: Row) -> bool:
    # A working file whose size tells that it differs was not read, and has no oid.
    return any(entry and entry.oid and view.is_purged(entry.oid) for entry in (row.old, row.new))


def _weight(view: View, entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    purged = ", purged" if entry.oid and view.is_purged(entry.oid) else ""
    return f"{words.size(entry.size)} ({short(entry.oid)}{purged})"


# -- paths in conflict


def unmerged_lines(repo: Repo, style: Style, conflict: Conflict, detail: str) -> Iterator[str]:
    """Our side, and what the working file holds now: with both sides between markers, until it is edited."""
    name = paths.display(conflict.path)
    if detail != "patch":
        yield {"stat": f" {name} | Unmerged", "name-status": f"U\t{name}"}.get(detail, name)
        return
    yield style.paint(f"* Unmerged path {name} ({conflict_kind(conflict).rstrip(':')})", "bold")
    if (both := repo.pending_merge.sides(conflict)) is not None:
        yield from side_lines(both)
        return
    if conflict.ours is None or not conflict.path.startswith(paths.FILES):
        return
    file = repo.root / paths.bare(conflict.path)
    ours = find_text(repo.objects.read(conflict.ours.oid)) if conflict.ours.size <= LARGEST else None
    text = find_text(repo.read(file, None)) if file.is_file() and file.stat().st_size <= LARGEST else None
    if ours is not None and text is not None:
        yield style.paint(f"--- ours/{name}", "bold")
        yield style.paint(f"+++ {name}", "bold")
        yield from color_lines(style, unified.format_hunks(split_lines(ours), split_lines(text)))


# -- counts


class Stat(NamedTuple):
    """One row counted: lines added and removed, or None for what is not text."""

    name: str
    row: Row
    lines: tuple[int, int] | None
    said: str = ""  # in place of lines


def count_row(view: View, row: Row) -> Stat:
    name = f"{paths.display(row.source)} => {paths.display(row.path)}" if row.source else paths.display(row.path)
    if row.status == "R" or _same_content(row):
        return Stat(name, row, (0, 0))
    if brief := kind_at(row.path).brief:
        return Stat(name, row, None, f"{_describe(view, row, brief)}{' (removed)' if row.new is None else ''}")
    texts = find_texts(row, view.read_old, view.read_new)
    if texts is None and _is_purged(view, row):
        sizes = f"{row.old.size if row.old else 0} -> {row.new.size if row.new else 0}"
        return Stat(name, row, None, f"purged, {sizes} bytes")
    if texts is None and (explanation := view.explain(row)) and explanation.record is not None:
        return Stat(name, row, None, contents.brief_text(explanation))
    return Stat(name, row, unified.count_changes(texts.old, texts.new) if texts else None)


def stat(view: View, listed: Sequence[Row]) -> Iterator[str]:
    """A line a path with its weight of change, and a line of totals."""
    counted = [count_row(view, row) for row in listed]
    if not counted:
        return
    widest = min(max(len(item.name) for item in counted), max(20, view.style.width - 30))
    most = max((sum(item.lines) for item in counted if item.lines), default=0)
    room = max(10, view.style.width - widest - len(str(most)) - 6)
    for item in counted:
        name = item.name if len(item.name) <= widest else f"...{item.name[3 - widest :]}"
        yield f" {name:<{widest}} | {_bar(view.style, item, most, room)}".rstrip()
    yield totals(counted)


def _bar(style: Style, item: Stat, most: int, room: int) -> str:
    if item.said:
        return item.said
    if item.lines is None:
        old, new = item.row.old, item.row.new
        return f"Bin {old.size if old else 0} -> {new.size if new else 0} bytes"
    added, removed = item.lines
    scale = min(1.0, room / most) if most else 1.0
    plus, minus = (max(1, round(number * scale)) if number else 0 for number in (added, removed))
    bar = style.paint("+" * plus, "added") + style.paint("-" * minus, "removed")
    return f"{added + removed:>{len(str(most))}} {bar}"


def totals(counted: Sequence[Stat]) -> str:
    added = sum(item.lines[0] for item in counted if item.lines)
    removed = sum(item.lines[1] for item in counted if item.lines)
    parts = [f" {words.count(len(counted), noun(item.row for item in counted))} changed"]
    parts += [words.count(added, "insertion(+)", "insertions(+)")] if added else []
    parts += [words.count(removed, "deletion(-)", "deletions(-)")] if removed else []
    return ", ".join(part.replace(",", "") for part in parts)  # scripts read this line as git writes it
