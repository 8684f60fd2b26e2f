"""metrics: what commits record, as a table with differences."""

from __future__ import annotations

from typing import Any

import click

from memlake.cli.arguments import JSON, Number, complete_with, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.repo import Repo
from memlake.views import json_shapes
from memlake.views.metrics import measurement_table


@verb(shared=[JSON])
@click.argument("revs", nargs=-1, metavar="[REV | A..B | PATTERN]...", shell_complete=complete_with("rev"))
@click.option("--sort", metavar="NAME", help="Sort by a metric or params.NAME, the largest value first.")
@click.option("--where", metavar="CONDITION", help="Only rows for which it holds, such as 'accuracy > 0.9'.")
@click.option("--reverse", is_flag=True, help="The last row first.")
@click.option("-n", "--max-count", "limit", type=Number(0), metavar="N", help="At most N rows.")
def metrics(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], **how: Any) -> None:
    """Show the metrics and params that commits record, each beside its difference to the commit before.

    \b
    memlake metrics                      the commits of this branch
    memlake metrics main..experiment     those of a range
    memlake metrics main experiment      several revisions, compared with the first
    memlake metrics 'hp/*' --sort f1     the branches that match, the best one first
    """
    with suggest_revs(repo, revs[0] if revs else "HEAD"), screen.pages():
        rows = repo.metrics(*revs, **how)
        if screen.as_json:
            screen.lines(json_shapes.stream("commits", rows))
            return
        screen.lines(measurement_table(screen, rows))
        if not rows:
            screen.note("No commit here records metrics.")
            screen.note("Record one with: memlake commit --allow-empty -m MESSAGE --metric accuracy=0.9")
