"""Verbs of `dataset` that delete, bring back, rename and hand over: rm, restore, purge, mv, export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from memlake.cli.arguments import completing, json_option
from memlake.cli.dataset.arguments import name_argument, pass_datasets
from memlake.cli.screen import Screen
from memlake.cli.upkeep.purge import confirm
from memlake.errors import Usage
from memlake.views import words
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets


@click.command()
@name_argument
@click.option("-a", "--all", "all_versions", is_flag=True, help="Every version.")
@json_option
@pass_datasets
def rm(datasets: Datasets, screen: Screen, /, *, name: str, all_versions: bool, as_json: bool) -> None:
    """Delete a version, or all of them. `memlake dataset restore` brings them back."""
    bare, _, version = name.partition("@")
    if not version and not all_versions and len(there := datasets.versions(bare)) > 1:
        raise Usage(
            f"'{clean(bare)}' has {len(there)} versions. Nothing was deleted.",
            hint=f"Name one, {bare}@{there[-1].version}, or say --all.",
        )
    gone = datasets.delete_dataset(bare if all_versions else name, all_versions=all_versions)
    _say(screen, "Deleted", gone, as_json=as_json)


@click.command()
@name_argument
@json_option
@pass_datasets
def restore(datasets: Datasets, screen: Screen, /, *, name: str, as_json: bool) -> None:
    """Bring back what was deleted: one version, or all of a name."""
    _say(screen, "Restored", datasets.restore_dataset(name), as_json=as_json)


@click.command()
@click.argument("name", shell_complete=completing("dataset"))
@click.argument("to", metavar="NEW_NAME")
@json_option
@pass_datasets
def mv(datasets: Datasets, screen: Screen, /, *, name: str, to: str, as_json: bool) -> None:
    """Rename a dataset, with all its versions."""
    _say(screen, "Moved to", datasets.move_dataset(name, to), as_json=as_json)


@click.command()
@name_argument
@click.option("--reason", required=True, help="Why; kept on the tombstone.")
@click.option("--with-others", is_flag=True, help="Also versions made from it, or sharing its rows.")
@click.option("--leave-derived", is_flag=True, help="Leave versions made from it that are copies: they share no part.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_datasets
def purge(datasets: Datasets, screen: Screen, /, *, name: str, reason: str, yes: bool, **others: bool) -> None:
    """Erase a version for good: its record, its rows, what is remembered of work over them. `rm` can be taken back.

    Where other versions were made from it, or share its rows, they are named, and nothing is erased until an option
    says what is to happen with them.
    """
    found = datasets.get(name).spec
    if not yes:
        confirm(f"Erase {clean(found)} with its rows for good?")
    report = datasets.purge(found, reason, **others)
    screen.line(f"Erased {clean(found)}: {words.count(len(report.purged), 'object')}, {words.size(report.bytes)}.")
    screen.lines(f"  with {clean(spec)}" for spec in _specs(report.paths) if spec != found)
    screen.lines(clean(note) for note in report.notes)


def _specs(paths: Sequence[str]) -> list[str]:
    return ["@".join(path.split("/", 1)[1].rsplit("/", 1)) for path in paths]


def _say(screen: Screen, done: str, versions: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        screen.json({"versions": versions})
    else:
        screen.lines(f"{done} {clean(spec)}" for spec in versions)


@click.command()
@name_argument
@click.argument("target", metavar="FOLDER|FILE", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "jsonl"]), help="Unless the file's name says it."
)
@click.option("-f", "--force", is_flag=True, help="Replace what an export wrote there before.")
@json_option
@pass_datasets
def export(
    datasets: Datasets, screen: Screen, /, *, name: str, target: str, form: str | None, force: bool, as_json: bool
) -> None:
    """Write a version as plain Parquet, CSV or JSON lines: one FILE, or a FOLDER of files of 256k rows."""
    done = datasets.export(name, target, format=form, force=force)
    if as_json:
        screen.json({"export": done})
        return
    files = words.count(len(done.files), "file")
    screen.line(
        f"Wrote {clean(done.version)} to {clean(target)}: "
        f"{words.count(done.rows, 'row')}, {files}, {words.size(done.bytes)}"
    )


VERBS = (rm, restore, purge, mv, export)
