"""status: how stage and working files differ from HEAD, for a person, a script or a program."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, verb
from memlake.cli.files.show_status import show_status
from memlake.cli.screen import Screen
from memlake.repo import Repo


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[--] [PATH]...", shell_complete=complete_with("path"))
@click.option("-s", "--short", "brief", is_flag=True, help="One line per path.")
@click.option("-b", "--branch", "with_branch", is_flag=True, help="With --short, also show the branch.")
@click.option("--porcelain", is_flag=True, help="Like --short but stable for scripts: no colour, paths from the root.")
@click.option("--ignored", is_flag=True, help="Also list what .memlakeignore leaves out.")
def status(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], **how: bool) -> None:
    """Show what is staged, changed and untracked, everywhere or in PATHs."""
    show_status(repo, screen, *given, *(after_dashes() or ()), **how)
