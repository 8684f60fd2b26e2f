"""dataset: what is known of typed rows: ls, show, preview, schema, versions, source, metrics. Others have own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake import datasets as parts
from memlake.cli import handing, lineages, versus, words
from memlake.cli.arguments import json_option
from memlake.cli.naming import name_argument, pass_datasets, value
from memlake.cli.screen import Screen
from memlake.cli.tables import aligned, cut
from memlake.cli.words import clean
from memlake.errors import NotFound

if TYPE_CHECKING:
    from memlake.datasets.datasets import Datasets
    from memlake.datasets.parts.record import Version

_STEPS = 12  # of a plan, so that `show` stays on a screen
_ID = 10


@click.group(invoke_without_command=True)
@click.pass_context
def dataset(ctx: click.Context) -> None:
    """Look at datasets and their versions, compare, export, delete and restore them. Without a verb: ls.

    \b
    NAME is pets, or with a version: pets@1.2.0, pets@1, 'pets@>=1,<2', pets@BRANCH
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_datasets)


for _verb in (versus.diff, lineages.lineage, *handing.VERBS):
    dataset.add_command(_verb)


# -- ls and versions


@dataset.command("ls")
@click.option("-a", "--all", "deleted", is_flag=True, help="Deleted ones too.")
@json_option
@pass_datasets
def list_datasets(datasets: Datasets, screen: Screen, /, *, deleted: bool = False, as_json: bool = False) -> None:
    """List datasets, each with its newest version."""
    newest = {one.name: one for one in datasets.all(deleted=True) if deleted or not one.deleted}
    if as_json:
        screen.json({"datasets": [shape(one) for one in newest.values()]})
        return
    with screen.pages():
        screen.lines(_listing(screen, list(newest.values()), "name", lambda one: one.name))
    if not newest:
        screen.note("No datasets. A chain makes one: memlake.read_storage('photos/').save('photos')")


@dataset.command()
@name_argument
@click.option("-a", "--all", "deleted", is_flag=True, help="Deleted ones too.")
@json_option
@pass_datasets
def versions(datasets: Datasets, screen: Screen, /, *, name: str, deleted: bool, as_json: bool) -> None:
    """List the versions of a dataset, oldest first."""
    found = datasets.versions(name.partition("@")[0], deleted=deleted)
    if as_json:
        screen.json({"versions": [shape(one) for one in found]})
        return
    with screen.pages():
        screen.lines(_listing(screen, found, "content", lambda one: one.content[:_ID]))


def _listing(screen: Screen, found: Sequence[Version], first: str, key: Any) -> list[str]:
    if not found:
        return []
    rows = [(first, "version", "rows", "size", "when", "description")]
    for one in found:
        said = "(deleted) " if one.deleted else ""
        about = clean(said + (" ".join(one.description.split()) or ", ".join(one.tags)))
        size = words.size(one.bytes)
        rows.append((clean(key(one)), one.version, f"{one.rows:,}", size, words.ago(one.created), about))
    head, *lines = aligned(rows, right={2, 3})
    return [
        screen.paint(head, "dim"),
        *(line if len(line) <= screen.width else _fitted(screen, line) for line in lines),
    ]


def _fitted(screen: Screen, line: str) -> str:
    return f"{line[: screen.width - 1]}…" if screen.on_terminal else line


def shape(one: Version) -> dict[str, Any]:
    """A version as JSON, without what only `show` and `source` tell."""
    told = one.to_dict()
    del told["provenance"]
    return {**told, "date": words.iso(one.created)}


# -- show


@dataset.command()
@name_argument
@json_option
@pass_datasets
def show(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Show what is known of a version: columns, numbers, what it was made from, by what code, by whom."""
    found = datasets.get(name)
    if as_json:
        screen.json({"dataset": {**shape(found), "provenance": dict(found.provenance)}})
        return
    with screen.pages():
        screen.line(screen.paint(f"dataset {found.spec}", "id"))
        screen.lines(f"{title + ':':<13}{text}" for title, text in _facts(datasets, found))
        screen.lines(_block("Columns", (f"{column}: {kind}" for column, kind in found.to_dict()["schema"].items())))
        screen.lines(_block("Plan", _shortened(found.provenance.get("plan") or ())))


def _facts(datasets: Datasets, one: Version) -> Iterator[tuple[str, str]]:
    told = one.provenance
    yield "Created", f"{words.stamp(one.created)} ({words.ago(one.created)})"
    yield "Author", _told(told.get("author"))
    if told.get("agent") or told.get("session"):
        yield "Agent", f"{_told(told.get('agent'))}, session {_told(told.get('session'))}"
    yield "Rows", f"{one.rows:,} in {words.size(one.bytes)}"
    yield "Content", one.content
    yield "Description", _told(one.description)
    yield "Attrs, tags", ", ".join(map(clean, (*one.attrs, *one.tags))) or "-"
    yield "Params", _numbers(one.params)
    yield "Metrics", _numbers(one.metrics)
    yield "Made from", ", ".join(made_from(told)) or "-"
    yield "Code", _code(told)
    yield "Work", "; ".join(map(_work, told.get("ran") or ())) or "-"
    yield "Packages", _numbers(told.get("packages") or {}, " ")
    yield "Took", f"{told['seconds']:.1f} s" if "seconds" in told else "-"
    others = [other.version for other in datasets.versions(one.name) if other.version != one.version]
    yield "Versions", f"{', '.join(others[-8:])} beside this one" if others else "this one alone"


def made_from(told: Mapping[str, Any]) -> Iterator[str]:
    """Parents, storages and other origins of a version."""
    for parent in told.get("parents") or ():
        yield clean(str(parent.get("spec") if isinstance(parent, Mapping) else parent))
    for storage in told.get("storages") or ():
        files = storage.get("files") if isinstance(storage, Mapping) else None
        count = len(files) if isinstance(files, list) else files
        uri = storage.get("uri") if isinstance(storage, Mapping) else storage
        yield clean(f"{uri} ({words.count(count, 'file')})" if isinstance(count, int) else str(uri))
    for origin in told.get("origins") or ():
        name = (
            " ".join(str(origin[key]) for key in ("kind", "path", "name") if origin.get(key))
            if isinstance(origin, Mapping)
            else str(origin)
        )
        yield clean(name)


def _code(told: Mapping[str, Any]) -> str:
    git = told.get("git") if isinstance(told.get("git"), Mapping) else {}
    names = [str(one.get("name")) for one in told.get("functions") or () if isinstance(one, Mapping)]
    said = [
        _told(told.get("source_name") or told.get("source_kind")),
        f"functions {', '.join(names)}" if names else "",
        f"git {str(git['commit'])[:_ID]}{' and changes since' if git.get('dirty') else ''}"
        if git and git.get("commit")
        else "",
    ]
    return clean("; ".join(text for text in said if text))


def _work(ran: Mapping[str, Any]) -> str:
    """What a function step did: `embed(): 3 computed, 7 recalled, 1 failed (some rows are new or changed)`."""
    failed = f", {ran['failed']:,} failed" if ran["failed"] else ""
    why = f" ({ran['why']})" if ran["why"] else ""
    return clean(f"{ran['name']}(): {ran['called']:,} computed, {ran['recalled']:,} recalled{failed}{why}")


def _told(found: Any) -> str:
    return clean(" ".join(str(found).split())) if found else "-"


def _numbers(found: Mapping[str, Any], equals: str = "=") -> str:
    return "  ".join(f"{clean(name)}{equals}{value(one)}" for name, one in found.items()) or "-"


def _shortened(steps: Sequence[Any]) -> list[str]:
    shown = [clean(cut(str(step), 96)) for step in steps[:_STEPS]]
    return [*shown, f"... and {len(steps) - _STEPS} more"] if len(steps) > _STEPS else shown


def _block(title: str, lines: Any) -> list[str]:
    found = [f"    {clean(line)}" for line in lines]
    return [f"{title}:", *found] if found else []


# -- rows and columns


@dataset.command()
@name_argument
@click.option("-n", "--rows", type=click.IntRange(1), default=10, show_default=True, help="So many rows.")
@json_option
@pass_datasets
def preview(datasets: Datasets, screen: Screen, /, *, name: str, rows: int, as_json: bool) -> None:
    """Show the first rows."""
    found = datasets.preview(name, rows)
    if as_json:
        screen.json({"rows": parts.outputs.plain_rows(found)})
        return
    with screen.pages():
        screen.lines(clean(line) for line in parts.outputs.shown(found).split("\n"))


@dataset.command()
@name_argument
@json_option
@pass_datasets
def schema(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Show the columns and their types."""
    found = datasets.get(name)
    if as_json:
        screen.json({"dataset": found.spec, "schema": found.to_dict()["schema"]})
    else:
        screen.lines(clean(line) for line in parts.outputs.schema_lines(found.schema))


# -- code and numbers


@dataset.command()
@name_argument
@json_option
@pass_datasets
def source(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Print the code a version was made by, as it was then."""
    found = datasets.get(name)
    told = found.provenance
    if as_json:
        keys = ("source", "source_kind", "functions", "git", "packages")
        screen.json({"dataset": found.spec, **{key: told.get(key) for key in keys}})
        return
    texts = [told["source"]] if told.get("source") else [one.get("source") for one in told.get("functions") or ()]
    if not any(texts):
        raise NotFound(
            f"no code was recorded for {found.spec}.", hint=f"See what was recorded: memlake dataset show {found.spec}"
        )
    with screen.pages():
        screen.lines(screen.clean(line) for text in texts if text for line in text.rstrip("\n").split("\n"))


@dataset.command()
@name_argument
@json_option
@pass_datasets
def metrics(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Show the metrics and params of every version, a line each."""
    found = datasets.versions(name.partition("@")[0])
    if as_json:
        keys = ("version", "rows", "created", "metrics", "params")
        screen.json({"versions": [{key: getattr(one, key) for key in keys} for one in found]})
        return
    with screen.pages():
        screen.lines(_metric_lines(screen, found))


def _metric_lines(screen: Screen, found: Sequence[Version]) -> list[str]:
    columns = [
        (field, key)
        for field in ("metrics", "params")
        for key in dict.fromkeys(k for v in found for k in getattr(v, field))
    ]
    head = (
        "version",
        "when",
        *(clean(key) if field == "metrics" else f"{clean(key)} (param)" for field, key in columns),
    )
    rows = [
        (one.version, words.ago(one.created), *(value(getattr(one, field).get(key)) for field, key in columns))
        for one in found
    ]
    first, *lines = aligned([head, *rows], right=set(range(2, len(head))))
    return [screen.paint(first, "dim"), *lines]
