"""promote: take paths over to a branch as another has them; what runs there; taking the last promotion back."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.reports import Promoted
from memlake.views import changes, json_shapes
from memlake.views.promotions import running_lines
from memlake.views.words import clean


@verb(shared=[JSON])
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@click.option(
    "--from", "source", metavar="REV", shell_complete=complete_with("rev"), help="The branch to take them from."
)
@click.option("--to", "target", metavar="BRANCH", shell_complete=complete_with("branch"), help="The branch they go to.")
@click.option("-m", "--message", "messages", multiple=True, help="Why. Repeat it for more paragraphs.")
@click.option("--list", "act", flag_value="list", help="Show what runs, since when, and what is newer.")
@click.option("--undo", "act", flag_value="undo", help="Take back the last promotion.")
def promote(
    repo: Repo, screen: Screen, /, *, paths: tuple[str, ...], source: str | None, target: str | None,
    messages: tuple[str, ...], act: str | None,
) -> None:  # fmt: skip
    """Take files and datasets over to a branch exactly as another has them, in one commit there.

    \b
    memlake promote models/resnet50.pt --from staging --to production
    memlake promote --list
    memlake promote --undo --to production
    """
    why = "\n\n".join(messages)
    if act and paths:
        raise Usage(f"--{act} does not take paths.")
    if act == "list":
        rows = repo.promotions.list(target, source=source)
        screen.show({"running": rows}, running_lines(screen, rows))
        if not rows and not screen.as_json:
            screen.note("Nothing was promoted yet.")
        return
    if act == "undo":
        _show(screen, repo.promotions.undo(target, message=why), "Took back")
        return
    if not (paths and source and target):
        given = {"paths": paths, "--from BRANCH": source, "--to BRANCH": target}
        raise Usage(
            f"promote also needs {' and '.join(name for name, value in given.items() if not value)}.",
            hint="For example: memlake promote models/ --from staging --to production",
        )
    with suggest_revs(repo, source):
        _show(screen, repo.promotions.create(paths, source=source, to=target, message=why), "Promoted")


def _show(screen: Screen, done: Promoted, word: str) -> None:
    if screen.as_json:
        screen.json({"promotion": json_shapes.plain(done)})
        return
    screen.line(f"{word}: {screen.paint(short(done.commit), 'id')} on {clean(done.target)}")
    screen.lines(f" {changes.name_status(row)}" for row in changes.rows(done.changes))
