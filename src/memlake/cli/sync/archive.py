"""archive: the data of old commits, in one file at a remote."""

from __future__ import annotations

import click

from memlake.cli.arguments import JSON, QUIET, verb
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.repo import Repo
from memlake.views.sync import archived_lines


@verb(shared=[JSON, QUIET])
@click.option("--older-than", "age", metavar="AGE", help="Commits from before: 365d, 2y, 2025-01-31.")
@click.option("--to", metavar="REMOTE", help="Where the file is kept; origin, or the only remote, unless given.")
@click.option("--keep", is_flag=True, help="Keep a copy of the file here, which is smaller than the data was.")
@click.option("--drop", is_flag=True, help="Remove the copies that lie here since they were read.")
@click.option("--back", is_flag=True, help="Have the data of all commits here again.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would move, and change nothing.")
def archive(
    repo: Repo, screen: Screen, /, *, age: str | None, to: str | None, drop: bool, back: bool, quiet: bool, **how: bool
) -> None:
    """Move the data of old commits, that a remote has, into one compressed file there.

    Their ids and ancestry stay here. Whatever reads one, such as log, blame or gc, has the file brought and says so.
    """
    if (age is not None) + drop + back != 1:
        raise Usage("say which: --older-than AGE, --drop or --back.")
    if age is not None:
        done = repo.remotes.archive(age, to, **how)
    else:
        done = repo.remotes.drop_archives() if drop else repo.remotes.unarchive()
    what = "drop" if drop else "back" if back else "trial" if how["dry_run"] else "archive"
    screen.show({"archived": done}, () if quiet else archived_lines(screen, done, what), pages=False)
