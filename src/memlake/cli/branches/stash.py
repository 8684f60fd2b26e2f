"""stash: changes put aside and taken back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from memlake.cli.arguments import completing, json_option, pass_repo
from memlake.cli.branches.merge import finish
from memlake.cli.branches.merge_rev import check
from memlake.cli.exit_codes import exiting
from memlake.cli.screen import Screen
from memlake.errors import NotFound, Nothing, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.reports import Merged
from memlake.views import changes, patches, words

_NAME = re.compile(r"(?:stash@\{)?(\d+)\}?")


def _index(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    match = _NAME.fullmatch(value)
    if match is None:
        raise Usage(f"'{value}' is not a stash; write stash@{{0}} or 0.")
    return int(match[1])


_which = click.argument("index", default="0", metavar="[STASH]", callback=_index)


_quiet = click.option("-q", "--quiet", is_flag=True, help="Print nothing.")


def _pushing(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `stash` and `stash push`."""
    untracked = click.option("-u", "--include-untracked", is_flag=True, help="Untracked files too.")
    return click.option("-m", "--message", default="", help="What it is about.")(untracked(_quiet(command)))


class _Stash(click.Group):
    """`stash -- PATH...` is `stash push -- PATH...`, as for git."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        pushes = "--" in args and not any(arg in self.commands for arg in args[: args.index("--")])
        return super().parse_args(ctx, ["push", *args] if pushes else args)


@click.group(cls=_Stash, invoke_without_command=True)
@_pushing
@click.pass_context
def stash(ctx: click.Context, /, **how: Any) -> None:
    """Put changes aside, and take them back later. Without a verb: push."""
    if ctx.invoked_subcommand is None:
        _push(given=(), **how)


@pass_repo
def _push(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], message: str, include_untracked: bool, quiet: bool
) -> None:
    try:
        kept = repo.stash.push(message=message, include_untracked=include_untracked, paths=given)
    except Nothing as error:
        if repo.head is None:
            raise
        screen.note(f"{error}")  # as for git: nothing to put aside is no failure
        return
    if not quiet:
        screen.line(f"Saved working files and stage: {screen.clean(kept.message)}")


@stash.command()
@click.argument("given", nargs=-1, metavar="[PATH]...", shell_complete=completing("path"))
@_pushing
def push(given: tuple[str, ...], **how: Any) -> None:
    """Put changes (of PATH...) aside; the files are as HEAD has them."""
    _push(given=given, **how)


def _taking(command: Callable[..., int]) -> Callable[..., int]:
    """The options of `stash pop` and `stash apply`."""
    staged = click.option("--index", "staged", is_flag=True, help="Stage again what was staged.")
    return _which(staged(_quiet(command)))


@stash.command()
@_taking
@pass_repo
def pop(repo: Repo, screen: Screen, /, *, index: int, staged: bool, quiet: bool) -> int:
    """Take changes back, and drop the stash."""
    with exiting(1, NotFound):
        merged = repo.stash.pop(index, staged=staged)
    _check(repo, merged, index)
    if not quiet:
        _show_applied(screen, index, merged)
    if not quiet and not merged.lost:
        screen.line(f"Dropped stash@{{{index}}}")
    return int(bool(merged.lost))


@stash.command()
@_taking
@click.option("--continue", "act", flag_value="continue", help="Finish one whose conflicts have choices.")
@click.option("--abort", "act", flag_value="abort", help="Give a waiting one up; the stash is kept.")
@pass_repo
def apply(repo: Repo, screen: Screen, /, *, index: int, staged: bool, quiet: bool, act: str | None) -> int:
    """Take changes back, and keep the stash."""
    if act:
        finish(repo, screen, act, ())
        return 0
    with exiting(1, NotFound):
        merged = repo.stash.apply(index, staged=staged)
    _check(repo, merged, index)
    if not quiet:
        _show_applied(screen, index, merged)
    return int(bool(merged.lost))


def _check(repo: Repo, merged: Merged, index: int) -> None:
    check(repo, merged, f"applying stash@{{{index}}}", "stash apply", note="The stash is kept. ")


def _show_applied(screen: Screen, index: int, merged: Merged) -> None:
    screen.line(f"Applied stash@{{{index}}}")
    screen.lines(changes.name_status(row) for row in changes.rows(merged.changes))


@stash.command("list")
@json_option
@pass_repo
def list_stashes(repo: Repo, screen: Screen, /, *, as_json: bool) -> None:
    """List what was put aside, newest first."""
    found = repo.stash.entries()
    if as_json:
        screen.json({"stashes": found})
        return
    for kept in found:
        screen.line(f"stash@{{{kept.number}}}: {screen.clean(kept.message)} ({words.ago(kept.time)})")


@stash.command()
@_which
@_quiet
@pass_repo
def drop(repo: Repo, screen: Screen, /, *, index: int, quiet: bool) -> None:
    """Forget a stash."""
    with exiting(1, NotFound):
        gone = repo.stash.drop(index)
    if not quiet:
        screen.line(f"Dropped stash@{{{index}}} ({short(gone.oid)})")


@stash.command()
@_quiet
@pass_repo
def clear(repo: Repo, screen: Screen, /, *, quiet: bool) -> None:
    """Forget every stash."""
    gone = repo.stash.clear()
    if not quiet:
        screen.line(f"Dropped {words.count(len(gone), 'stash', 'stashes')}.")


@stash.command()
@_which
@click.option("-p", "--patch", is_flag=True, help="The changes themselves.")
@json_option
@pass_repo
def show(repo: Repo, screen: Screen, /, *, index: int, patch: bool, as_json: bool) -> None:
    """Show what a stash would change."""
    with exiting(1, NotFound):
        commit = repo.commit_at(f"stash@{{{index}}}")
    rows = changes.rows(repo.changes(commit))
    if as_json:
        screen.json({"commit": commit.oid, "changes": [row.shape() for row in rows]})
        return
    with screen.pages():
        screen.lines(patches.detail(patches.open_view(repo, screen), rows, "patch" if patch else "stat"))
