"""diff of `dataset`: two versions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from memlake.cli.arguments import completing, json_option
from memlake.cli.dataset.arguments import pass_datasets
from memlake.cli.screen import Screen
from memlake.errors import NotFound, Usage
from memlake.views.dataset_diff import diff_lines
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets


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
        screen.lines(diff_lines(screen, found))


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
