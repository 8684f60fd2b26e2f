"""undo, redo, ops: what was done in this checkout, and taking it back."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import click

from memlake import config, projects
from memlake.cli.arguments import Number, SplitCommand, json_option, project_option
from memlake.cli.arguments import screen as screen_of
from memlake.cli.screen import Screen
from memlake.repo import Repo, open_repo
from memlake.views import words

P = ParamSpec("P")
R = TypeVar("R")


def _pass_repo(verb: Callable[Concatenate[Repo, Screen, P], R]) -> Callable[P, R]:
    """As `pass_repo`, but outside any repo with the personal one, where `remember` writes there."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        home = config.personal_folder()
        found = projects.find_memory_repo()
        outside = found is None and (home / config.FOLDER).is_dir()
        if outside:
            sys.stderr.write(f"memlake: no repo here, so this is about your personal one: {home}\n")
        elif _is_linked():
            sys.stderr.write(f"memlake: this is a linked worktree, so this is about the repo of {found}\n")
        with open_repo(home if outside else found) as repo:
            return verb(repo, screen_of(repo.settings), *args, **kwargs)

    return call


def _is_linked() -> bool:
    """Whether we are in a linked worktree: its memories are those of the main tree's repo, its files are not."""
    found = projects.find_memory_repo()
    return found is not None and found != config.find_repo()


@click.command()
@project_option
@_pass_repo
def undo(repo: Repo, screen: Screen, /, *, project: str | None) -> None:
    """Take back the last operation done here by a command, whatever it was. Again takes back the one before it.

    What others wrote since stays. Settings (`config`) are no operations, nor are purge and gc, nor what agents wrote
    by themselves (`memlake memory restore ID` brings a memory back): `memlake ops` lists what can be taken back.
    """
    done = repo.undo(project=project, files=not _is_linked())
    what = f"{done.verb} {screen.clean(done.detail)}".rstrip()
    screen.line(f"Took back: {what} ({words.ago(done.time)})")


@click.command()
@project_option
@_pass_repo
def redo(repo: Repo, screen: Screen, /, *, project: str | None) -> None:
    """Do again what the last `undo` took back. Again does what the `undo` before it took back."""
    done = repo.redo(project=project, files=not _is_linked())
    what = done.detail.partition(" ")[2]  # an undo notes "#7 commit one": the number, then what it took back
    screen.line(f"Did again: {screen.clean(what)}".rstrip())


@click.command(cls=SplitCommand)
@click.option(
    "-n", "--max-count", "limit", type=Number(1), default=20, help="At most N operations; -5 is short for -n 5."
)
@json_option
@_pass_repo
def ops(repo: Repo, screen: Screen, /, *, limit: int, as_json: bool) -> None:
    """List the operations done in this checkout, newest first, as `undo` takes them back."""
    found = repo.operations(limit)
    if as_json:
        screen.json({"operations": found})
        return
    with screen.pages():
        for done in found:
            mark = screen.paint(" (taken back)", "dim") if done.undone else ""
            number = screen.paint(f"{done.id:>5}", "id")
            screen.line(f"{number} {words.stamp(done.time)} {done.verb} {screen.clean(done.detail)}".rstrip() + mark)
