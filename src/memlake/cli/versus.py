"""diff of `dataset`: two versions side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import completing, json_option
from memlake.cli.naming import pass_datasets, value
from memlake.cli.screen import Screen
from memlake.cli.tables import aligned, cut
from memlake.cli.words import clean
from memlake.errors import NotFound, Usage

if TYPE_CHECKING:
    from memlake.datasets.comparing import Differences, Pair
    from memlake.datasets.datasets import Datasets

_WIDE = 100


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="A B | NAME [A] [B]", shell_complete=completing("dataset"))
@click.option("--on", multiple=True, metavar="COLUMN", help="What tells which row is which; again for more.")
@click.option(
    "-n", "--samples", type=click.IntRange(0), default=5, show_default=True, help="Show so many rows of each."
)
@json_option
@pass_datasets
def diff(
    datasets: Datasets, screen: Screen, /, *, given: tuple[str, ...], on: tuple[str, ...], samples: int, as_json: bool
) -> None:
    """Show what differs between two versions: columns, rows, metrics, params.

    \b
    memlake dataset diff pets@1.0.0 pets@1.0.1
    memlake dataset diff pets 1.0.0 1.0.1
    memlake dataset diff pets                  the newest against the one before

    Rows are matched by the path of a column of files, or else as a whole, unless --on says by what.
    """
    old, new = _specs(datasets, given)
    found = datasets.differences(old, new, on=on or None, samples=samples)
    if as_json:
        screen.json({"diff": found.to_dict()})
        return
    with screen.pages():
        screen.lines(_lines(screen, found))


def _specs(datasets: Datasets, given: Sequence[str]) -> tuple[str, str]:
    if len(given) > 3:
        raise Usage("diff takes two versions.", hint="Like: memlake dataset diff pets 1.0.0 1.0.1")
    name = given[0].partition("@")[0]
    if len(given) == 1:
        numbers = [one.version for one in datasets.versions(name)]
        if len(numbers) < 2:
            raise NotFound(f"'{clean(name)}' has one version: there is nothing to compare it with.")
        return f"{name}@{numbers[-2]}", f"{name}@{numbers[-1]}"
    if len(given) == 3:
        return f"{name}@{given[1]}", f"{name}@{given[2]}"
    is_number = given[1].replace(".", "").isdigit()
    return (f"{name}@{given[1]}", given[0]) if is_number and "@" not in given[0] else (given[0], given[1])


def _lines(screen: Screen, found: Differences) -> Iterator[str]:
    yield screen.paint(f"{clean(found.old.spec)} -> {clean(found.new.spec)}", "bold")
    yield f"rows     {found.old.rows:,} -> {found.new.rows:,}"
    yield from _columns(screen, found.columns)
    matched = f" (matched by {', '.join(map(clean, found.on))})" if found.on else ""
    counts = f"{found.added.number:,} added, {found.removed.number:,} removed, {found.modified.number:,} modified"
    yield f"changed  {counts}{matched}"
    for mark, style, rows in (("+", "added", found.added), ("-", "removed", found.removed)):
        yield from (screen.paint(f"  {mark} {_row(row)}", style) for row in rows.samples)
        yield from _more(rows.number, len(rows.samples))
    for pair in found.modified.samples:
        yield f"  ~ {_modified(found.on, pair)}"
    yield from _more(found.modified.number, len(found.modified.samples))
    for title, pairs in (("metrics", found.metrics), ("params", found.params)):
        if pairs:
            yield from _beside(screen, title, found, pairs)


def _columns(screen: Screen, pairs: Sequence[Pair]) -> Iterator[str]:
    for one in pairs:
        if one.old is None:
            yield screen.paint(f"column   + {clean(one.name)}: {one.new}", "added")
        elif one.new is None:
            yield screen.paint(f"column   - {clean(one.name)}: {one.old}", "removed")
        else:
            yield f"column   ~ {clean(one.name)}: {one.old} -> {one.new}"


def _more(count: int, shown: int) -> Iterator[str]:
    if shown and count > shown:
        yield f"    ... and {count - shown:,} more"


def _row(row: Mapping[str, Any]) -> str:
    return cut("  ".join(f"{clean(name)}={_cell(item)}" for name, item in row.items()), _WIDE)


def _cell(item: Any) -> str:
    return value(item["path"] if isinstance(item, Mapping) and {"source", "path"} <= item.keys() else item)


def _modified(on: Sequence[str], pair: Mapping[str, Any]) -> str:
    old, new = pair["old"] or {}, pair["new"]
    keys = "  ".join(f"{clean(key)}={_cell(_inside(new, key))}" for key in on)
    changed = [name for name in new if name in old and old[name] != new[name]]
    return cut(f"{keys}: {', '.join(f'{clean(n)} {_told(old[n], new[n])}' for n in changed)}", _WIDE)


def _told(old: Any, new: Any) -> str:
    """Of two structs only what differs in them."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        inner = [name for name in new if old.get(name) != new[name]]
        return "{" + ", ".join(f"{clean(name)} {value(old.get(name))} -> {value(new[name])}" for name in inner) + "}"
    return f"{value(old)} -> {value(new)}"


def _inside(row: Any, key: str) -> Any:
    for name in key.split("."):
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _beside(screen: Screen, title: str, found: Differences, pairs: Sequence[Pair]) -> list[str]:
    rows = [(title, found.old.version, found.new.version)]
    rows += [(f"  {clean(one.name)}", value(one.old), value(one.new)) for one in pairs]
    head, *lines = aligned(rows, right={1, 2})
    return [screen.paint(head, "dim"), *lines]
