"""restore and reset: taking working files, the stage or the branch back to an earlier state."""

from __future__ import annotations

from collections.abc import Sequence

import click

from memlake.cli.arguments import QUIET, SplitCommand, after_dashes, complete_with, one_rev, split, verb
from memlake.cli.screen import Screen, show_progress
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import NotFound, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.views import changes


@verb(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="PATH...", shell_complete=complete_with("path"))
@click.option(
    "-s", "--source", metavar="REV", shell_complete=complete_with("rev"), help="Take the files from this commit."
)
@click.option("-S", "--staged", is_flag=True, help="Restore the stage, from HEAD unless --source is given.")
@click.option("-W", "--worktree", is_flag=True, default=None, help="Restore the working files; the default.")
@click.option("--merge", is_flag=True, help="Write the conflict markers into PATH... again.")
@click.option("-q", "--quiet", is_flag=True, help="Does nothing, because restore prints nothing anyway.")
def restore(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], source: str | None, **how: bool) -> None:
    """Bring files back from the stage or from a commit. `memlake undo` takes that back.

    With --source, tracked files that REV does not have are removed.
    """
    wanted = (*given, *(after_dashes() or ()))
    if not wanted:
        raise Usage("name the paths to restore.", hint="To restore everything in this folder: memlake restore .")
    if how["merge"]:
        if source or how["staged"]:
            raise Usage("--merge writes what the waiting merge wrote; it cannot be combined with --source or --staged.")
        with exit_with(1, NotFound):
            repo.pending_merge.mark(*wanted)
        return
    if source:
        with suggest_revs(repo, source):
            repo.show(source)
    with exit_with(1, NotFound):
        if how["worktree"] or not how["staged"]:
            _bring(repo, screen, wanted, source or ":")
        repo.restore(*wanted, source=source, staged=how["staged"], worktree=how["worktree"])


def _bring(repo: Repo, screen: Screen, wanted: Sequence[str], rev: str) -> None:
    """Have content here that is at a remote only, and show it on its way where a person looks on."""
    with show_progress("bringing", screen) as progress:
        if progress is not None and list(repo.remotes):
            repo.objects.bring([entry.oid for _, entry in repo.ls(rev, paths=wanted)], progress=progress)


@verb(cls=SplitCommand, shared=[QUIET])
@click.argument("given", nargs=-1, metavar="[REV] [--] [PATH]...", shell_complete=complete_with("rev", "path"))
@click.option("--soft", "mode", flag_value="soft", help="Move the branch; keep the stage and the files.")
@click.option("--mixed", "mode", flag_value="mixed", help="Move the branch and the stage; keep the files. The default.")
@click.option("--hard", "mode", flag_value="hard", help="Move the branch, the stage and the files.")
def reset(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], mode: str | None, quiet: bool) -> None:
    """Move the branch to a commit, or unstage PATHs.

    Commits left behind stay in the reflog: `memlake reset --hard HEAD@{1}` goes back to where you were.
    """
    revs, given_paths = split(repo, given)
    rev = one_rev(revs)
    if given_paths and mode:
        raise Usage(f"--{mode} moves the branch, so it does not take paths.")
    if given_paths:
        repo.restore(*given_paths, source=rev, staged=True)
    else:
        with suggest_revs(repo, rev):
            repo.reset(rev, mode or "mixed")
    if not quiet:
        _show_state(repo, screen, mode or "mixed")


def _show_state(repo: Repo, screen: Screen, mode: str) -> None:
    if mode == "hard":
        subject = screen.clean(repo.show("HEAD").commit.subject) if repo.head else ""
        screen.line(f"HEAD is now at {short(repo.head)} {subject}".rstrip())
    elif mode == "mixed":
        unstaged = changes.rows(repo.status().unstaged)
        screen.lines(["Unstaged changes after reset:"] if unstaged else [])
        screen.lines(changes.name_status(row) for row in unstaged)
