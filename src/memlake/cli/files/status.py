"""status: how stage and working files differ from HEAD, for a person, a script or a program."""

from __future__ import annotations

import click

from memlake.cli.arguments import SplitCommand, after_dashes, completing, json_option, pass_repo
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.views import paths
from memlake.views.status import long_lines, short_lines, status_shape


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[--] [PATH]...", shell_complete=completing("path"))
@click.option("-s", "--short", "brief", is_flag=True, help="One line a path.")
@click.option("-b", "--branch", "with_branch", is_flag=True, help="With --short: the branch too.")
@click.option("--porcelain", is_flag=True, help="As --short, stable for scripts: no colour, paths from the root.")
@click.option("--ignored", is_flag=True, help="What .memlakeignore leaves out, too.")
@json_option
@pass_repo
def status(
    repo: Repo,
    screen: Screen,
    /,
    *,
    given: tuple[str, ...],
    brief: bool,
    with_branch: bool,
    porcelain: bool,
    **how: bool,
) -> None:
    """Show what is staged, changed and untracked, in all or at PATHs."""
    found = repo.status(*given, *(after_dashes() or ()), ignored=how["ignored"])
    if how["as_json"]:
        screen.json(status_shape(found))
        return
    if porcelain:
        screen = Screen()
    base = "" if porcelain else paths.here(repo.root)
    if brief or porcelain:
        if with_branch:
            screen.line(f"## {found.branch or 'HEAD (no branch)'}")
        screen.lines(short_lines(found, screen, base))
    else:
        screen.lines(long_lines(found, screen, base))
