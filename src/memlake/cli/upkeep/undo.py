"""undo, redo, ops: what was done in this checkout, and taking it back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from memlake import config, projects
from memlake.cli.arguments import JSON, Number, SplitCommand, project_option, verb
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.repo import Repo, open_repo
from memlake.views import words


@contextmanager
def _open_for_undo(_given: dict[str, Any]) -> Iterator[tuple[Repo, Screen]]:
    """The repo here; outside any repo the personal one, because `remember` writes there."""
    home = config.personal_folder()
    root = projects.find_memory_repo()
    is_outside = root is None and (home / config.FOLDER).is_dir()
    if is_outside:
        sys.stderr.write(f"memlake: there is no repo here, so this is about your personal one: {home}\n")
    elif _is_linked():
        sys.stderr.write(f"memlake: this is a linked worktree, so this is about the repo of {root}\n")
    with open_repo(home if is_outside else root) as repo:
        yield repo, screen_of(repo.config.in_force)


def _is_linked() -> bool:
    """Whether we are in a linked worktree: its memories are those of the main tree's repo, its files are not."""
    root = projects.find_memory_repo()
    return root is not None and root != config.find_repo()


@verb(opens=_open_for_undo)
@project_option
def undo(repo: Repo, screen: Screen, /, *, project: str | None) -> None:
    """Take back the last operation that a command did here. Run it again to take back the one before.

    What others have written since stays. `memlake ops` lists what can be taken back. Changed settings, purge and gc
    cannot be, and neither can what agents wrote by themselves (`memlake memory restore ID` brings a memory back).
    """
    done = repo.undo(project=project, files=not _is_linked())
    what = f"{done.verb} {screen.clean(done.detail)}".rstrip()
    screen.line(f"Took back: {what} ({words.ago(done.time)})")


@verb(opens=_open_for_undo)
@project_option
def redo(repo: Repo, screen: Screen, /, *, project: str | None) -> None:
    """Do again what the last `undo` took back. Run it again for the `undo` before."""
    done = repo.redo(project=project, files=not _is_linked())
    what = done.detail.partition(" ")[2]  # an undo notes "#7 commit one": the number, then what it took back
    screen.line(f"Did again: {screen.clean(what)}".rstrip())


@verb(opens=_open_for_undo, cls=SplitCommand, shared=[JSON])
@click.option(
    "-n",
    "--max-count",
    "limit",
    type=Number(1),
    metavar="N",
    default=20,
    help="At most N operations; -5 is short for -n 5.",
)
def ops(repo: Repo, screen: Screen, /, *, limit: int) -> None:
    """List the operations done in this checkout, newest first, in the order in which `undo` takes them back."""
    operations = repo.operations(limit)

    def lines() -> Iterator[str]:
        for done in operations:
            number, mark = screen.paint(f"{done.id:>5}", "id"), screen.paint(" (taken back)", "dim") * done.undone
            yield f"{number} {words.stamp(done.time)} {done.verb} {screen.clean(done.detail)}".rstrip() + mark

    screen.show({"operations": operations}, lines())
