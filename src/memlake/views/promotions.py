"""What was promoted, and what runs where since when, as people read it. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlake.records import short
from memlake.reports import Running
from memlake.versions.kinds import kind_at
from memlake.views import paths, words
from memlake.views.dataset import value_text
from memlake.views.style import Style
from memlake.views.words import clean


def running_lines(style: Style, rows: Sequence[Running]) -> Iterator[str]:
    """The branches one after the other: what each runs, since when, from where, and what is newer there."""
    branch = None
    for row in rows:
        if row.branch != branch:
            branch = row.branch
            yield style.paint(clean(branch), "branch")
        came = f", from {clean(row.source)}" if row.source else ""
        yield f"  {name_path(row.path)}  since {words.format_time(row.time, 'iso')}{came}{_values(row.metrics)}"
        yield f"    {style.paint(short(row.commit), 'id')} {clean(row.subject)} ({clean(row.author.name)})"
        if (other := row.other) is not None:
            what = f"{'newer' if row.has_newer else 'other'} on {clean(other.rev)}: {short(other.commit)}"
            yield style.paint(f"    {what} {clean(other.subject)}{_values(other.metrics)}", "warning")


def name_path(path: str) -> str:
    """A file as it is typed, a dataset as `pets@1.0.0`."""
    kind = kind_at(path)
    return clean(kind.label(path)) if kind.name == "dataset" else words.quote(paths.display(path))


def _values(metrics: Mapping[str, Any]) -> str:
    told = ", ".join(f"{clean(name)}={value_text(value)}" for name, value in sorted(metrics.items()))
    return f", {told}" if told else ""
