"""lineage of `dataset`: where a version came from, and what was made of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import json_option
from memlake.cli.dataset.arguments import name_argument, pass_datasets
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.views import json_shapes
from memlake.views.words import clean

if TYPE_CHECKING:
    from memlake.dataset.datasets import Datasets
    from memlake.dataset.lineage.graph import Lineage

_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".json": "json", ".txt": "text"}


@click.command()
@name_argument
@click.option("--up", "way", flag_value="up", help="Only what it was made from.")
@click.option("--down", "way", flag_value="down", help="Only what was made of it.")
@click.option("--depth", type=click.IntRange(1), metavar="N", help="No farther than N steps.")
@click.option("--column", metavar="COLUMN", help="Only what this column came from and went to, where it is known.")
@click.option("--format", "form", type=click.Choice(["text", "json", "mermaid", "svg"]), help="How it is told; text.")
@click.option(
    "--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it to FILE.svg, .mmd, .json or .txt."
)
@json_option
@pass_datasets
def lineage(
    datasets: Datasets,
    screen: Screen,
    /,
    *,
    name: str,
    form: str | None,
    plot: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Show where a version came from, to storages, files and code, and what was made of it."""
    way = how.pop("way")
    found = datasets.lineage(name, up=way != "down", down=way != "up", **how)
    if plot is not None:
        kind = form or _SUFFIXES.get(Path(plot).suffix.lower())
        if kind is None:
            raise Usage(
                f"'{plot}' does not say how to draw. Nothing was written.", hint="End it in .svg, or say --format."
            )
        Path(plot).write_text(_told(found, kind) + "\n", encoding="utf-8")
        screen.note(f"Drew {len(found.nodes)} nodes and {len(found.edges)} edges to {clean(plot)}.")
    elif as_json or form == "json":
        screen.json({"lineage": found.to_json()})
    else:
        with screen.pages():
            screen.lines(screen.clean(line) for line in _told(found, form or "text").split("\n"))


def _told(found: Lineage, kind: str) -> str:
    if kind == "json":
        return json_shapes.document({"lineage": found.to_json()})
    return {"text": found.to_text, "mermaid": found.to_mermaid, "svg": found.to_svg}[kind]()
