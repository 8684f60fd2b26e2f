"""stash: changes put aside and taken back."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

from memlake.cli.arguments import JSON, QUIET, complete_with, verb
from memlake.cli.branches.merge import finish
from memlake.cli.branches.merge_rev import check
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with
from memlake.errors import NotFound, Nothing, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.views import changes, patches, stats, words

_NAME = re.compile(r"(?:stash@\{)?(\d+)\}?")


def _index(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    match = _NAME.fullmatch(value)
    if match is None:
        raise Usage(f"'{value}' is not a stash.", hint="Write stash@{0} or 0. See them with: memlake stash list")
    return int(match[1])


_which = click.argument("index", default="0", metavar="[STASH]", callback=_index)
_again = click.option("--index", "staged", is_flag=True, help="Also stage again what was staged.")


def _push_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `stash` and `stash push`."""
    untracked = click.option("-u", "--include-untracked", is_flag=True, help="Also put untracked files aside.")
    return click.option("-m", "--message", default="", help="What it is about.")(untracked(command))


class _Stash(click.Group):
    """`stash -- PATH...` is `stash push -- PATH...`, as for git."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        pushes = "--" in args and not any(arg in self.commands for arg in args[: args.index("--")])
        return super().parse_args(ctx, ["push", *args] if pushes else args)


@click.group(cls=_Stash, invoke_without_command=True)
@_push_options
@click.pass_context
def stash(ctx: click.Context, /, **how: Any) -> None:
    """Put changes aside, and take them back later. Without a verb: push."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(push, **how)


stash.params.append(QUIET)
stash_verb = functools.partial(verb, group=stash)


@stash_verb(shared=[QUIET])
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_with("path"))
@_push_options
def push(
    repo: Repo, screen: Screen, /, *, paths: tuple[str, ...], message: str, include_untracked: bool, quiet: bool
) -> None:
    """Put changes (of PATH...) aside. The files are then as HEAD has them."""
    try:
        kept = repo.stash.push(message=message, include_untracked=include_untracked, paths=paths)
    except Nothing as error:
        if repo.head is None:
            raise
        screen.note(f"{error}")  # as for git: if there is nothing to put aside, that is not a failure
        return
    if not quiet:
        screen.line(f"Saved working files and stage: {screen.clean(kept.message)}")


@stash_verb(shared=[QUIET])
@_which
@_again
def pop(repo: Repo, screen: Screen, /, *, index: int, staged: bool, quiet: bool) -> int:
    """Take changes back, and drop the stash."""
    return _take(repo, screen, index, staged=staged, quiet=quiet, drop=True)


@stash_verb(shared=[QUIET])
@_which
@_again
@click.option("--continue", "act", flag_value="continue", help="Finish after every conflict has a choice.")
@click.option("--abort", "act", flag_value="abort", help="Give up one that is waiting. The stash is kept.")
def apply(repo: Repo, screen: Screen, /, *, index: int, staged: bool, quiet: bool, act: str | None) -> int:
    """Take changes back, and keep the stash."""
    if act:
        finish(repo, screen, act, ())
        return 0
    return _take(repo, screen, index, staged=staged, quiet=quiet, drop=False)


def _take(repo: Repo, screen: Screen, index: int, *, staged: bool, quiet: bool, drop: bool) -> int:
    """Applies a stash. The exit code is 1 if a part of it cannot come back, because it was purged."""
    with exit_with(1, NotFound):
        merged = repo.stash.pop(index, staged=staged) if drop else repo.stash.apply(index, staged=staged)
    check(repo, merged, f"applying stash@{{{index}}}", "stash apply", note="The stash is kept. ")
    if not quiet:
        screen.line(f"Applied stash@{{{index}}}")
        screen.lines(changes.name_status(row) for row in changes.rows(merged.changes))
        screen.lines([f"Dropped stash@{{{index}}}"] if drop and not merged.lost else [])
    return int(bool(merged.lost))


@stash_verb("list", shared=[JSON])
def list_stashes(repo: Repo, screen: Screen, /) -> None:
    """List what was put aside, newest first."""
    stashes = repo.stash.entries()
    lines = (f"stash@{{{one.number}}}: {screen.clean(one.message)} ({words.ago(one.time)})" for one in stashes)
    screen.show({"stashes": stashes}, lines, pages=False)


@stash_verb(shared=[QUIET])
@_which
def drop(repo: Repo, screen: Screen, /, *, index: int, quiet: bool) -> None:
    """Delete a stash."""
    with exit_with(1, NotFound):
        gone = repo.stash.drop(index)
    if not quiet:
        screen.line(f"Dropped stash@{{{index}}} ({short(gone.oid)})")


@stash_verb(shared=[QUIET])
def clear(repo: Repo, screen: Screen, /, *, quiet: bool) -> None:
    """Delete every stash."""
    gone = repo.stash.clear()
    if not quiet:
        screen.line(f"Dropped {words.count(len(gone), 'stash', 'stashes')}.")


@stash_verb(shared=[JSON])
@_which
@click.option("-p", "--patch", is_flag=True, help="Show the changes themselves.")
def show(repo: Repo, screen: Screen, /, *, index: int, patch: bool) -> None:
    """Show what a stash would change."""
    with exit_with(1, NotFound):
        stashed = repo.show(f"stash@{{{index}}}")
    found = stashed.changes
    rows, detail = changes.rows(found), patches.Detail("patch" if patch else "stat", sides=found.sides)
    lines = stats.detail_lines(patches.open_view(repo, screen, detail), rows, detail)
    screen.show({"commit": stashed.commit.oid, "changes": [row.shape() for row in rows]}, lines)
