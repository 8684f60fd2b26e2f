"""What differs between two versions of a dataset, as lines. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memlake.views.dataset_versions import value_text
from memlake.views.style import Style
from memlake.views.tables import aligned, cut
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.compare import Differences, Pair


_WIDE = 100


def diff_lines(style: Style, found: Differences) -> Iterator[str]:
    yield style.paint(f"{clean(found.old.spec)} -> {clean(found.new.spec)}", "bold")
    yield f"rows     {found.old.rows:,} -> {found.new.rows:,}"
    yield from _column_lines(style, found.columns)
    matched = f" (matched by {', '.join(map(clean, found.on))})" if found.on else ""
    counts = f"{found.added.number:,} added, {found.removed.number:,} removed, {found.modified.number:,} modified"
    yield f"changed  {counts}{matched}"
    for mark, color, rows in (("+", "added", found.added), ("-", "removed", found.removed)):
        yield from (style.paint(f"  {mark} {_row_text(row)}", color) for row in rows.samples)
        yield from _more_lines(rows.number, len(rows.samples))
    for pair in found.modified.samples:
        yield f"  ~ {_modified_text(found.on, pair)}"
    yield from _more_lines(found.modified.number, len(found.modified.samples))
    for title, pairs in (("metrics", found.metrics), ("params", found.params)):
        if pairs:
            yield from _value_table(style, title, found, pairs)


def _column_lines(style: Style, pairs: Sequence[Pair]) -> Iterator[str]:
    for one in pairs:
        if one.old is None:
            yield style.paint(f"column   + {clean(one.name)}: {one.new}", "added")
        elif one.new is None:
            yield style.paint(f"column   - {clean(one.name)}: {one.old}", "removed")
        else:
            yield f"column   ~ {clean(one.name)}: {one.old} -> {one.new}"


def _more_lines(count: int, shown: int) -> Iterator[str]:
    if shown and count > shown:
        yield f"    ... and {count - shown:,} more"


def _row_text(row: Mapping[str, Any]) -> str:
    return cut("  ".join(f"{clean(name)}={_cell_text(item)}" for name, item in row.items()), _WIDE)


def _cell_text(item: Any) -> str:
    return value_text(item["path"] if isinstance(item, Mapping) and {"source", "path"} <= item.keys() else item)


def _modified_text(on: Sequence[str], pair: Mapping[str, Any]) -> str:
    old, new = pair["old"] or {}, pair["new"]
    keys = "  ".join(f"{clean(key)}={_cell_text(_read_nested(new, key))}" for key in on)
    changed = [name for name in new if name in old and old[name] != new[name]]
    return cut(f"{keys}: {', '.join(f'{clean(n)} {_change_text(old[n], new[n])}' for n in changed)}", _WIDE)


def _change_text(old: Any, new: Any) -> str:
    """Of two structs only what differs in them."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        inner = [name for name in new if old.get(name) != new[name]]
        return (
            "{"
            + ", ".join(f"{clean(name)} {value_text(old.get(name))} -> {value_text(new[name])}" for name in inner)
            + "}"
        )
    return f"{value_text(old)} -> {value_text(new)}"


def _read_nested(row: Any, key: str) -> Any:
    for name in key.split("."):
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _value_table(style: Style, title: str, found: Differences, pairs: Sequence[Pair]) -> list[str]:
    rows = [(title, found.old.version, found.new.version)]
    rows += [(f"  {clean(one.name)}", value_text(one.old), value_text(one.new)) for one in pairs]
    head, *lines = aligned(rows, right={1, 2})
    return [style.paint(head, "dim"), *lines]
