"""dataset: what is known of typed rows: ls, show, preview, schema, versions, source, metrics. Others have own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memlake import dataset as parts
from memlake.cli.arguments import json_option
from memlake.cli.dataset import diff, lineage, manage
from memlake.cli.dataset.arguments import name_argument, pass_datasets
from memlake.cli.screen import Screen
from memlake.errors import NotFound
from memlake.views.dataset_versions import metric_table, version_lines, version_shape, version_table
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets


@click.group(invoke_without_command=True)
@click.pass_context
def dataset(ctx: click.Context) -> None:
    """Look at datasets and their versions, compare, export, delete and restore them. Without a verb: ls.

    \b
    NAME is pets, or with a version: pets@1.2.0, pets@1, 'pets@>=1,<2', pets@BRANCH
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_datasets)


for _verb in (diff.diff, lineage.lineage, *manage.VERBS):
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
        screen.json({"datasets": [version_shape(one) for one in newest.values()]})
        return
    with screen.pages():
        screen.lines(version_table(screen, list(newest.values()), "name", lambda one: one.name))
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
        screen.json({"versions": [version_shape(one) for one in found]})
        return
    with screen.pages():
        screen.lines(version_table(screen, found, "content", lambda one: one.content[:10]))


# -- show


@dataset.command()
@name_argument
@json_option
@pass_datasets
def show(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Show what is known of a version: columns, numbers, what it was made from, by what code, by whom."""
    found = datasets.get(name)
    if as_json:
        screen.json({"dataset": {**version_shape(found), "provenance": dict(found.provenance)}})
        return
    with screen.pages():
        screen.lines(version_lines(screen, found, [one.version for one in datasets.versions(found.name)]))


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
        screen.json({"rows": parts.export.plain_rows(found)})
        return
    with screen.pages():
        screen.lines(clean(line) for line in parts.show_rows.render(found).split("\n"))


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
        screen.lines(clean(line) for line in parts.show_rows.schema_lines(found.schema))


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
        screen.lines(metric_table(screen, found))
