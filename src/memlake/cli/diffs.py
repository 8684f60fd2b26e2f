"""diff: what differs between working files, stage and commits."""

from __future__ import annotations

from collections.abc import Sequence

import click

from memlake.cli import changes, patches
from memlake.cli.arguments import SplitCommand, completing, json_option, pass_repo, split
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.repo import Repo


@click.command(cls=SplitCommand)
@click.argument(
    "given", nargs=-1, metavar="[REV [REV] | A..B | A...B] [--] [PATH]...", shell_complete=completing("rev", "path")
)
@click.option("--cached", "--staged", "staged", is_flag=True, help="The stage against HEAD.")
@click.option("--stat", "detail", flag_value="stat", help="How much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="The paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="The paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="The changes themselves; the default.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something differs.")
@click.option("--quiet", is_flag=True, help="Print nothing; implies --exit-code.")
@click.option("--memory", "lane", flag_value="memory", help="The memory lane of two commits or branches.")
@click.option("--all", "lane", flag_value="all", help="Both lanes.")
@json_option
@pass_repo
def diff(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], as_json: bool, **how: str | bool | None) -> int:
    """Show what differs.

    \b
    memlake diff                    working files against the stage
    memlake diff --cached           the stage against HEAD
    memlake diff REV                working files against a commit
    memlake diff A..B               two commits or branches
    memlake diff A...B              B against where it left A
    """
    lane = str(how["lane"]) if how["lane"] else None
    revs, given_paths = split(repo, given)
    a, b = _ends(revs)
    found = changes.rows(repo.diff(a, b, staged=bool(how["staged"]), paths=tuple(given_paths), lane=lane))
    worktree = not how["staged"] and b is None and (a is None or ".." not in a)
    if as_json:
        screen.json({"changes": [row.shape() for row in found]})
    elif not how["quiet"]:
        _show(screen, patches.open_view(repo, screen, worktree=worktree), found, str(how["detail"] or "patch"))
    return int(bool(found and (how["exit_code"] or how["quiet"])))


def _ends(revs: Sequence[str]) -> tuple[str | None, str | None]:
    if len(revs) > 2 or (len(revs) == 2 and any(".." in rev for rev in revs)):
        raise Usage("diff takes at most two revisions, or one range A..B.")
    a = revs[0] if revs else None
    return a, revs[1] if len(revs) == 2 else None


def _show(screen: Screen, view: patches.View, rows: Sequence[changes.Row], detail: str) -> None:
    with screen.pages():
        screen.lines(patches.detail(view, rows, detail))
