"""How much changed in paths: counts of lines as git writes them, names, and the form that was asked for.

Asks a view for content; knows no command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memlake.named_tuple import NamedTuple
from memlake.versions.kinds import kind_at
from memlake.views import contents, json_shapes, patches, paths, words
from memlake.views.changes import Row, name_status, noun, rename_text
from memlake.views.patches import Detail, View
from memlake.views.style import Style

if TYPE_CHECKING:
    from memlake.contents.explain import Explanation

_COUNTS = ("stat", "numstat", "shortstat")


def detail_lines(view: View, listed: Sequence[Row], detail: Detail) -> Iterator[str]:
    """Rows in the form that was asked for, a line each; with NULs, what is to be written between them."""
    if detail.form == "patch":
        patches.bring_texts(view, listed)
        for row in listed:
            yield from patches.patch(view, row)
    elif detail.form == "stat":
        yield from stat(view, listed)
    elif detail.form == "shortstat":
        yield from [totals([count_row(view, row) for row in listed])] if listed else []
    elif detail.form == "numstat":
        yield from (_numstat(count_row(view, row), nul=detail.nul) for row in listed)
    elif detail.form == "name-status":
        yield from (name_status(row, nul=detail.nul) for row in listed)
    elif detail.form == "name-only":
        yield from (paths.bare(row.path) if detail.nul else paths.display(row.path) for row in listed)


def row_shape(view: View, row: Row, detail: Detail) -> dict[str, Any]:
    """A row for programs: names alone, counts of lines, or the record of what differs inside."""
    shape = row.shape()
    if detail.form == "patch":
        return {**shape, "inside": json_shapes.plain(_explain(view, row))}
    if detail.form in _COUNTS:
        added, removed = count_row(view, row).lines or (None, None)
        return {**shape, "lines_added": added, "lines_removed": removed}
    return shape


def _explain(view: View, row: Row) -> Explanation | None:
    """What differs inside; of a file that is neither text nor of a type that memlake knows, the ranges of bytes."""
    explanation = view.explain(row)
    if explanation is not None or not (row.old and row.new) or patches.has_same_content(row):
        return explanation
    return view.explain_bytes(row) if patches.find_texts(view, row) is None else None


class Stat(NamedTuple):
    """One row counted: lines added and removed, or None for what is not text."""

    row: Row
    lines: tuple[int, int] | None
    said: str = ""  # in place of lines

    @property
    def name(self) -> str:
        return rename_text(self.row) if self.row.source else paths.display(self.row.path)


def count_row(view: View, row: Row) -> Stat:
    if row.status == "R" or patches.has_same_content(row):
        return Stat(row, (0, 0))
    if brief := kind_at(row.path).brief:
        return Stat(row, None, f"{patches.describe(view, row, brief)}{' (removed)' if row.new is None else ''}")
    if any(entry and entry.oid and view.is_away(entry.oid) for entry in (row.old, row.new)):
        return Stat(row, None, f"at a remote, {_sizes(row)}")
    texts = patches.find_texts(view, row)
    if texts is None and patches.is_purged(view, row):
        return Stat(row, None, f"purged, {_sizes(row)}")
    return Stat(row, None if texts is None else patches.count_lines(texts))


def _sizes(row: Row) -> str:
    return f"{row.old.size if row.old else 0} -> {row.new.size if row.new else 0} bytes"


def _numstat(item: Stat, *, nul: bool) -> str:
    """`3<TAB>1<TAB>path`, and dashes for what has no lines."""
    added, removed = item.lines or ("-", "-")
    row = item.row
    if not nul:
        return f"{added}\t{removed}\t{item.name}"
    names = f"\0{paths.bare(row.source)}\0{paths.bare(row.path)}" if row.source else paths.bare(row.path)
    return f"{added}\t{removed}\t{names}"


def stat(view: View, listed: Sequence[Row]) -> Iterator[str]:
    """A line a path with its weight of change, and a line of totals. Files that are not text are looked into."""
    counted = [_look_inside(view, count_row(view, row)) for row in listed]
    if not counted:
        return
    widest = min(max(len(item.name) for item in counted), max(20, view.style.width - 30))
    most = max((sum(item.lines) for item in counted if item.lines), default=0)
    room = max(10, view.style.width - widest - len(str(most)) - 6)
    for item in counted:
        name = item.name if len(item.name) <= widest else f"...{item.name[3 - widest :]}"
        yield f" {name:<{widest}} | {_bar(view.style, item, most, room)}".rstrip()
    yield totals(counted)


def _look_inside(view: View, item: Stat) -> Stat:
    if item.lines is not None or item.said:
        return item
    explanation = view.explain(item.row)
    if explanation is None or explanation.record is None:
        return item
    came = {"A": "new ", "D": "removed "}.get(item.row.status, "")
    return item._replace(said=f"{came}{contents.brief_text(explanation)}")


def _bar(style: Style, item: Stat, most: int, room: int) -> str:
    if item.said:
        return item.said
    if item.lines is None:
        return f"Bin {_sizes(item.row)}"
    added, removed = item.lines
    scale = min(1.0, room / most) if most else 1.0
    plus, minus = (max(1, round(number * scale)) if number else 0 for number in (added, removed))
    bar = style.paint("+" * plus, "added") + style.paint("-" * minus, "removed")
    return f"{added + removed:>{len(str(most))}} {bar}"


def totals(counted: Sequence[Stat]) -> str:
    """` 2 files changed, 3 insertions(+)`: scripts read this line, so it is written as git writes it.

    Of records that have no lines, such as datasets, how many changed is all there is to say.
    """
    added = sum(item.lines[0] for item in counted if item.lines)
    removed = sum(item.lines[1] for item in counted if item.lines)
    parts = [f" {words.count(len(counted), noun(item.row for item in counted))} changed"]
    if not all(kind_at(item.row.path).brief for item in counted):
        parts += [words.count(added, "insertion(+)", "insertions(+)")] if added or not removed else []
        parts += [words.count(removed, "deletion(-)", "deletions(-)")] if removed or not added else []
    return ", ".join(part.replace(",", "") for part in parts)
