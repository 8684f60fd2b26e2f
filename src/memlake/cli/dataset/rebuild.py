"""rebuild: what made a version or a file is run again, and the result compared."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.views.rebuild import rebuilt_lines


@verb(shared=[JSON])
@click.argument("thing", metavar="DATASET[@VERSION]|PATH", shell_complete=complete_with("dataset", "path"))
@click.option("--check", is_flag=True, help="Only say whether all it needs is here. Nothing is run.")
def rebuild(repo: Repo, screen: Screen, /, *, thing: str, check: bool) -> int:
    """Run what made a version or a file again, and say whether the result is the same.

    memlake runs the recorded program with the recorded params over the recorded inputs, in a scratch folder that is
    removed afterwards. It compares row by row, byte by byte or tensor by tensor, and names the first difference and
    the packages that changed. Your repo is only read. A file needs a commit that names its program with --uses.

    The program runs only after you allowed it with `memlake trust --program`. The exit code is 1 if the result
    differs or something is missing.
    """
    done = repo.rebuild(thing, check=check)
    screen.show({"rebuilt": done}, rebuilt_lines(screen, done), pages=False)
    return int(done.same is False or bool(done.missing))
