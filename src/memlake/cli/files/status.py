"""status: how stage and working files differ from HEAD, for a person, a script or a program."""

from __future__ import annotations

import click

from memlake.cli.arguments import SplitCommand, after_dashes, completing, json_option, pass_repo
from memlake.cli.files.show_status import show_status
from memlake.cli.screen import Screen
from memlake.repo import Repo


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[--] [PATH]...", shell_complete=completing("path"))
@click.option("-s", "--short", "brief", is_flag=True, help="One line a path.")
@click.option("-b", "--branch", "with_branch", is_flag=True, help="With --short: the branch too.")
@click.option("--porcelain", is_flag=True, help="As --short, stable for scripts: no colour, paths from the root.")
@click.option("--ignored", is_flag=True, help="What .memlakeignore leaves out, too.")
@json_option
@pass_repo
def status(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], **how: bool) -> None:
    """Show what is staged, changed and untracked, in all or at PATHs."""
    show_status(repo, screen, *given, *(after_dashes() or ()), **how)
