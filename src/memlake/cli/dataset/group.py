"""`memlake dataset ...`: what is known of typed rows, how versions differ, where they came from, and managing them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake import dataset as parts
from memlake.cli.arguments import JSON, Number, complete_with, confirm_erase, open_datasets, open_datasets_repo, verb
from memlake.cli.history.lineage import lineage_options, show_lineage
from memlake.cli.screen import Screen
from memlake.errors import NotFound, Usage, pasted
from memlake.repo import Repo
from memlake.views import words
from memlake.views.dataset import (
    diff_lines,
    diff_shape,
    join_lines,
    join_shape,
    metric_table,
    stat_line,
    version_lines,
    version_shape,
    version_table,
)
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets

_name = click.argument("name", metavar="NAME[@VERSION]", shell_complete=complete_with("dataset"))
_key = click.option(
    "--key", "--on", "key", multiple=True, metavar="COLUMN", help="Match rows by this column, or by several: a,b."
)
_all = click.option("-a", "--all", "deleted", is_flag=True, help="Include deleted ones.")


@click.group(invoke_without_command=True)
@click.pass_context
def dataset(ctx: click.Context) -> None:
    """Look at datasets and their versions, compare, export, delete and restore them. Without a verb: ls.

    \b
    NAME is pets, or with a version: pets@1.2.0, pets@1, 'pets@>=1,<2', pets@BRANCH
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_datasets)


dataset_verb = functools.partial(verb, group=dataset, opens=open_datasets)


# -- what is there


@dataset_verb("ls", shared=[JSON])
@_all
def list_datasets(datasets: Datasets, screen: Screen, /, *, deleted: bool = False) -> None:
    """List datasets, each with its newest version."""
    newest = {one.name: one for one in datasets.all(deleted=True) if deleted or not one.deleted}
    versions = list(newest.values())
    screen.show(
        {"datasets": [version_shape(one) for one in versions]},
        version_table(screen, versions, "name", lambda one: one.name),
    )
    if not versions and not screen.as_json:
        screen.note("There are no datasets. A chain makes one: memlake.read_storage('photos/').save('photos')")


@dataset_verb(shared=[JSON])
@_name
@_all
def versions(datasets: Datasets, screen: Screen, /, *, name: str, deleted: bool) -> None:
    """List the versions of a dataset, oldest first."""
    listed = datasets.versions(name.partition("@")[0], deleted=deleted)
    table = version_table(screen, listed, "content", lambda one: one.content[:10])
    screen.show({"versions": [version_shape(one) for one in listed]}, table)


@dataset_verb(shared=[JSON])
@_name
def show(datasets: Datasets, screen: Screen, /, *, name: str) -> None:
    """Show what is known of a version: its columns, its metrics, what it was made from, by which code and by whom."""
    version = datasets.get(name)
    numbers = [one.version for one in datasets.versions(version.name)]
    body = {"dataset": {**version_shape(version), "provenance": dict(version.provenance)}}
    screen.show(body, version_lines(screen, version, numbers))


@dataset_verb(shared=[JSON])
@_name
@click.option("-n", "--rows", type=Number(1), metavar="N", default=10, show_default=True, help="How many rows.")
def preview(datasets: Datasets, screen: Screen, /, *, name: str, rows: int) -> None:
    """Show the first rows."""
    first = datasets.preview(name, rows)
    if screen.as_json:
        screen.json({"rows": parts.export.plain_rows(first)})
        return
    with screen.pages():
        screen.lines(clean(line) for line in parts.show_rows.render(first).split("\n"))


@dataset_verb(shared=[JSON])
@_name
def schema(datasets: Datasets, screen: Screen, /, *, name: str) -> None:
    """Show the columns and their types."""
    version = datasets.get(name)
    lines = (clean(line) for line in parts.show_rows.schema_lines(version.schema))
    screen.show({"dataset": version.spec, "schema": version.to_dict()["schema"]}, lines, pages=False)


@dataset_verb(shared=[JSON])
@_name
def source(datasets: Datasets, screen: Screen, /, *, name: str) -> None:
    """Print the code that made a version, as it was then."""
    version = datasets.get(name)
    recorded = version.provenance
    texts = [recorded.get("source")] if recorded.get("source") else []
    texts = texts or [one.get("source") for one in recorded.get("functions") or ()]
    if not any(texts) and not screen.as_json:
        raise NotFound(
            f"no code was recorded for {version.spec}.",
            hint=f"See what was recorded: memlake dataset show {pasted(version.spec)}",
        )
    keys = ("source", "source_kind", "functions", "git", "packages")
    lines = (screen.clean(line) for text in texts if text for line in text.rstrip("\n").split("\n"))
    screen.show({"dataset": version.spec, **{key: recorded.get(key) for key in keys}}, lines)


@dataset_verb(shared=[JSON])
@_name
def metrics(datasets: Datasets, screen: Screen, /, *, name: str) -> None:
    """Show the metrics and params of every version, one line each."""
    listed = datasets.versions(name.partition("@")[0])
    keys = ("version", "rows", "created", "metrics", "params")
    body = {"versions": [{key: getattr(one, key) for key in keys} for one in listed]}
    screen.show(body, metric_table(screen, listed))


# -- how versions differ, and where they came from


@dataset_verb(shared=[JSON])
@click.argument("specs", nargs=-1, required=True, metavar="A B | NAME [A] [B]", shell_complete=complete_with("dataset"))
@_key
@click.option(
    "-n", "--rows", type=Number(0), metavar="N", default=10, show_default=True, help="Show N rows of each kind."
)
@click.option("--stat", is_flag=True, help="Only count what differs.")
def diff(datasets: Datasets, screen: Screen, /, *, specs: tuple[str, ...], **how: Any) -> None:
    """Show what differs between two versions: columns, rows, metrics, params.

    \b
    memlake dataset diff pets@1.0.0 pets@1.0.1
    memlake dataset diff pets 1.0.0 1.0.1
    memlake dataset diff pets                  the newest against the one before

    Rows are matched by --key, by the key that .memlakeattributes declares (`datasets/pets key=id`), by the path in a
    column of files, or by a column that is unique in both versions. Without any, they are compared as whole rows.
    """
    old, new = _find_two(datasets, specs)
    found = datasets.diff(old, new, key=how["key"], limit=0 if how["stat"] else how["rows"])
    screen.show({"diff": diff_shape(found)}, [stat_line(found)] if how["stat"] else diff_lines(screen, found))


def _find_two(datasets: Datasets, specs: Sequence[str]) -> tuple[str, str]:
    if len(specs) > 3:
        raise Usage("diff takes two versions.", hint="For example: memlake dataset diff pets 1.0.0 1.0.1")
    name = specs[0].partition("@")[0]
    if len(specs) == 1:
        numbers = [one.version for one in datasets.versions(name)]
        if len(numbers) < 2:
            raise NotFound(f"'{clean(name)}' has only one version, so there is nothing to compare it with.")
        return f"{name}@{numbers[-2]}", f"{name}@{numbers[-1]}"
    if len(specs) == 3:
        return f"{name}@{specs[1]}", f"{name}@{specs[2]}"
    is_number = specs[1].replace(".", "").isdigit()
    return (f"{name}@{specs[1]}", specs[0]) if is_number and "@" not in specs[0] else (specs[0], specs[1])


@dataset_verb(shared=[JSON])
@click.argument("ours", metavar="A", shell_complete=complete_with("dataset"))
@click.argument("theirs", metavar="B", shell_complete=complete_with("dataset"))
@_key
@click.option(
    "--base", metavar="NAME@VERSION", help="The version that both come from. Without it the newest before both."
)
@click.option(
    "-X",
    "--strategy",
    type=click.Choice(["ours", "theirs", "union", "latest"]),
    help="Settle what both changed: A's, B's, both where that has a meaning, or the one saved last.",
)
def merge(datasets: Datasets, screen: Screen, /, *, ours: str, theirs: str, **how: Any) -> None:
    """Join two versions into the next one, by key and cell.

    \b
    memlake dataset merge pets@1.0.1 pets@1.0.2        two versions, as a merge of branches leaves them
    memlake dataset merge pets pets@feature            the newest here and the newest of a branch

    What one side changed is taken from that side. If both changed one cell, nothing is saved unless -X says which side
    to take.
    """
    joined = datasets.merge(ours, theirs, on=how.pop("key"), **how)
    screen.show({"merged": join_shape(joined)}, join_lines(joined), pages=False)


@verb(group=dataset, opens=open_datasets_repo, shared=[JSON])
@_name
@lineage_options
def lineage(
    repo: Repo, screen: Screen, /, *, name: str, form: str | None, plot: str | None, way: str | None, **how: Any
) -> None:
    """Show where a version came from, down to storages, files and code, and what was made from it."""
    found = repo.datasets().lineage(name, up=way != "down", down=way != "up", **how)
    show_lineage(repo, screen, found, form=form, plot=plot)


# -- deleting, renaming, exporting


@dataset_verb(shared=[JSON])
@_name
@click.option("-a", "--all", "all_versions", is_flag=True, help="Every version.")
def rm(datasets: Datasets, screen: Screen, /, *, name: str, all_versions: bool) -> None:
    """Delete a version, or all of them. `memlake dataset restore` brings them back."""
    bare, _, version = name.partition("@")
    if not version and not all_versions and len(there := datasets.versions(bare)) > 1:
        raise Usage(
            f"'{clean(bare)}' has {len(there)} versions. Nothing was deleted.",
            hint=f"Delete one with: memlake dataset rm {pasted(f'{bare}@{there[-1].version}')}\n"
            f"Delete all with: memlake dataset rm {pasted(bare)} --all",
        )
    gone = datasets.delete_dataset(bare if all_versions else name, all_versions=all_versions)
    screen.show({"versions": gone}, (f"Deleted {clean(spec)}" for spec in gone), pages=False)


@dataset_verb(shared=[JSON])
@_name
def restore(datasets: Datasets, screen: Screen, /, *, name: str) -> None:
    """Bring back what was deleted: one version, or all versions of a name."""
    restored = datasets.restore_dataset(name)
    screen.show({"versions": restored}, (f"Restored {clean(spec)}" for spec in restored), pages=False)


@dataset_verb(shared=[JSON])
@click.argument("name", shell_complete=complete_with("dataset"))
@click.argument("to", metavar="NEW_NAME")
def mv(datasets: Datasets, screen: Screen, /, *, name: str, to: str) -> None:
    """Rename a dataset with all its versions."""
    moved = datasets.move_dataset(name, to)
    screen.show({"versions": moved}, (f"Moved to {clean(spec)}" for spec in moved), pages=False)


@dataset_verb()
@_name
@click.option("--reason", required=True, help="Why. It is kept on the tombstone.")
@click.option("--with-others", is_flag=True, help="Also versions that were made from it or share its rows.")
@click.option("--leave-derived", is_flag=True, help="Leave versions made from it that are copies and share no part.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def purge(datasets: Datasets, screen: Screen, /, *, name: str, reason: str, yes: bool, **others: bool) -> None:
    """Erase a version for good: its record, its rows and cached results of work on them. Only `rm` can be undone.

    If other versions were made from it or share its rows, they are named, and nothing is erased until an option
    says what happens to them. This cannot be undone.
    """
    spec = datasets.get(name).spec
    if not yes:
        confirm_erase(f"Erase {clean(spec)} with its rows for good?")
    report = datasets.purge(spec, reason, **others)
    screen.line(f"Erased {clean(spec)}: {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}.")
    erased = ("@".join(path.split("/", 1)[1].rsplit("/", 1)) for path in report.paths)
    screen.lines(f"  with {clean(other)}" for other in erased if other != spec)
    screen.lines(clean(note) for note in report.notes)


@dataset_verb(shared=[JSON])
@_name
@click.argument("target", metavar="FOLDER|FILE", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "jsonl"]), help="If the name of the file does not say it."
)
@click.option("-f", "--force", is_flag=True, help="Replace what an earlier export wrote there.")
def export(datasets: Datasets, screen: Screen, /, *, name: str, target: str, form: str | None, force: bool) -> None:
    """Write a version as plain Parquet, CSV or JSON lines: one FILE, or a FOLDER of files of 256k rows each."""
    done = datasets.export(name, target, format=form, force=force)
    sizes = f"{words.count(done.rows, 'row')}, {words.count(len(done.files), 'file')}, {words.size(done.bytes)}"
    screen.show({"export": done}, [f"Wrote {clean(done.version)} to {clean(target)}: {sizes}"], pages=False)
