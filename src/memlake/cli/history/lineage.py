"""lineage: what a thing was made from and what was made from it, told, drawn or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import JSON, Number, complete_with, verb
from memlake.cli.history.plot import check_plot_target
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.repo import Repo
from memlake.views import json_shapes
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.versions.lineage.graph import Lineage

_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".json": "json", ".txt": "text"}


def lineage_options(command: Any) -> Any:
    """The options of all commands that show a lineage."""
    for option in reversed(
        (
            click.option("--up", "way", flag_value="up", help="Only what it was made from."),
            click.option("--down", "way", flag_value="down", help="Only what was made from it."),
            click.option("--depth", type=Number(1), metavar="N", help="At most N steps away."),
            click.option(
                "--column", metavar="COLUMN", help="Only where this column came from and went to, if that is known."
            ),
            click.option(
                "--format", "form", type=click.Choice(["text", "json", "mermaid", "svg"]), help="Text unless given."
            ),
            click.option(
                "--plot", type=click.Path(dir_okay=False), metavar="FILE",
                help="Draw it to FILE.svg, .mmd, .json or .txt.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@verb(shared=[JSON])
@click.argument(
    "thing", metavar="PATH|DATASET[@VERSION]|MEMORY|COMMIT", shell_complete=complete_with("path", "dataset", "rev")
)
@lineage_options
@click.option(
    "--where", metavar="CONDITION", help="Only rows for which it holds, such as 'id = 17'; of a file 'row = 3'."
)
@click.option("--rows", is_flag=True, help="Row by row, and every row of an aggregate by its number.")
def lineage(
    repo: Repo, screen: Screen, /, *, thing: str, form: str | None, plot: str | None, way: str | None, **how: Any
) -> None:
    """Show what a thing was made from and what was made from it, back to data, code, params and metrics.

    The graph has what commits used (`commit --uses`), their params and metrics, datasets with their parents, files,
    storages and code, and memories whose source or metadata name one of these.

    \b
    memlake lineage model.pt             a file as HEAD has it; REV:PATH as another commit has it
    memlake lineage pets@1.0.0           a version of a dataset
    memlake lineage 3d4ba3               a memory, by the end of its id
    memlake lineage HEAD~2               a commit
    memlake lineage pets --where 'id = 17'   the rows and files that single rows came from, and what rests on them
    """
    where, rows = how.pop("where"), how.pop("rows")
    if where is not None or rows:
        if form or plot or how["depth"] or how["column"]:
            raise Usage("rows are told as text or --json; leave out --format, --plot, --depth and --column.")
        found = repo.lineage(thing, where=where, up=way != "down", down=way != "up", rows=rows)
        screen.show({"lineage": found.to_json()}, (screen.clean(line) for line in found.to_text().split("\n")))
        return
    show_lineage(repo, screen, repo.lineage(thing, up=way != "down", down=way != "up", **how), form=form, plot=plot)


def show_lineage(repo: Repo, screen: Screen, /, graph: Lineage, *, form: str | None, plot: str | None) -> None:
    """Print a lineage, or write it to the file `plot` in the format that its name tells."""
    kind = form or ("text" if plot is None else _SUFFIXES.get(Path(plot).suffix.lower()))
    if kind is None:
        raise Usage(
            f"the name '{plot}' does not say which format to draw. Nothing was written.",
            hint="Let it end in .svg, or add --format svg.",
        )
    if plot is not None:
        check_plot_target(repo, plot)
    if kind == "json" or (screen.as_json and plot is None):
        text = json_shapes.document({"lineage": graph.to_json()})
    else:
        text = {"text": graph.to_text, "mermaid": graph.to_mermaid, "svg": graph.to_svg}[kind]()
    if plot is not None:
        Path(plot).write_text(text + "\n", encoding="utf-8")
        screen.note(f"Drew {len(graph.nodes)} nodes and {len(graph.edges)} edges to {clean(plot)}.")
    elif kind == "json" or screen.as_json:
        screen.line(text)
    else:
        with screen.pages():
            screen.lines(screen.clean(line) for line in text.split("\n"))
