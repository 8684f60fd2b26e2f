"""stash: changes put aside and taken back."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from memlake.cli import changes, patches, words
from memlake.cli.arguments import json_option, pass_repo
from memlake.cli.screen import Screen
from memlake.errors import Usage
from memlake.records import Change, short
from memlake.repo import Repo

_NAME = re.compile(r"(?:stash@\{)?(\d+)\}?")


def _index(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    match = _NAME.fullmatch(value)
    if match is None:
        raise Usage(f"'{value}' is not a stash; write stash@{{0}} or 0.")
    return int(match[1])


_which = click.argument("index", default="0", metavar="[STASH]", callback=_index)


@click.group(invoke_without_command=True)
@click.option("-m", "--message", default="", help="What it is about.")
@click.option("-u", "--include-untracked", is_flag=True, help="Untracked files too.")
@click.pass_context
def stash(ctx: click.Context, message: str, include_untracked: bool) -> None:
    """Put changes aside, and take them back later. Without a verb: push."""
    if ctx.invoked_subcommand is None:
        _push(message=message, include_untracked=include_untracked)


@pass_repo
def _push(repo: Repo, screen: Screen, /, *, message: str, include_untracked: bool) -> None:
    kept = repo.stash_push(message=message, include_untracked=include_untracked)
    screen.line(f"Saved working files and stage: {screen.clean(kept.message)}")


@stash.command()
@click.option("-m", "--message", default="", help="What it is about.")
@click.option("-u", "--include-untracked", is_flag=True, help="Untracked files too.")
def push(message: str, include_untracked: bool) -> None:
    """Put changes aside; the files are as HEAD has them."""
    _push(message=message, include_untracked=include_untracked)


@stash.command()
@_which
@pass_repo
def pop(repo: Repo, screen: Screen, /, *, index: int) -> None:
    """Take changes back, and drop the stash."""
    _show_applied(screen, index, repo.stash_pop(index))
    screen.line(f"Dropped stash@{{{index}}}")


@stash.command()
@_which
@pass_repo
def apply(repo: Repo, screen: Screen, /, *, index: int) -> None:
    """Take changes back, and keep the stash."""
    _show_applied(screen, index, repo.stash_apply(index))


def _show_applied(screen: Screen, index: int, applied: Sequence[Change] | None) -> None:
    screen.line(f"Applied stash@{{{index}}}")
    screen.lines(changes.name_status(row) for row in changes.rows(applied or ()))


@stash.command("list")
@json_option
@pass_repo
def list_stashes(repo: Repo, screen: Screen, /, *, as_json: bool) -> None:
    """List what was put aside, newest first."""
    found = repo.stash_list()
    if as_json:
        screen.json({"stashes": found})
        return
    for kept in found:
        screen.line(f"stash@{{{kept.number}}}: {screen.clean(kept.message)} ({words.ago(kept.time)})")


@stash.command()
@_which
@pass_repo
def drop(repo: Repo, screen: Screen, /, *, index: int) -> None:
    """Forget a stash."""
    gone = repo.stash_drop(index)
    screen.line(f"Dropped stash@{{{index}}} ({short(gone.oid)})")


@stash.command()
@_which
@click.option("-p", "--patch", is_flag=True, help="The changes themselves.")
@json_option
@pass_repo
def show(repo: Repo, screen: Screen, /, *, index: int, patch: bool, as_json: bool) -> None:
    """Show what a stash would change."""
    commit = repo.commit_at(f"stash@{{{index}}}")
    rows = changes.rows(repo.changes(commit))
    if as_json:
        screen.json({"commit": commit.oid, "changes": [row.shape() for row in rows]})
        return
    with screen.pages():
        screen.lines(patches.detail(patches.open_view(repo, screen), rows, "patch" if patch else "stat"))
