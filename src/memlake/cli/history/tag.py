"""tag: names that do not move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.history.commit import given_message, write_message
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import NotFound, Usage
from memlake.records import short
from memlake.repo import Repo
from memlake.views import paths


@verb(shared=[JSON])
@click.argument("names", nargs=-1, metavar="[NAME [REV]]", shell_complete=complete_with("tag", then="rev"))
@click.option("-a", "--annotate", is_flag=True, help="Store a message, your name and the time.")
@click.option("-m", "--message", "messages", multiple=True, help="The message. Repeat it for more paragraphs.")
@click.option("-F", "--file", "message_file", metavar="FILE", help="Read the message from FILE (- for standard input).")
@click.option("-d", "--delete", is_flag=True, help="Delete tags.")
@click.option("-f", "--force", is_flag=True, help="Move an existing tag.")
@click.option("-l", "--list", "listing", is_flag=True, help="List tags; with NAMEs or patterns, only those.")
@click.option("-n", "with_message", is_flag=True, help="List tags with the first line of each message.")
def tag(repo: Repo, screen: Screen, /, *, names: tuple[str, ...], message_file: str | None, **how: Any) -> None:
    """List tags, make NAME at REV (HEAD unless given), or delete tags."""
    if screen.as_json:
        screen.json({"tags": [one for one in repo.tags if not names or paths.is_named(one.name, names)]})
    elif how["delete"]:
        _delete(repo, screen, names)
    elif names and not (how["listing"] or how["with_message"]):
        message = given_message(how["messages"], message_file)
        _make(repo, names, message, annotate=how["annotate"], force=how["force"])
    else:
        _list(repo, screen, names, with_message=how["with_message"])


def _list(repo: Repo, screen: Screen, patterns: Sequence[str], *, with_message: bool) -> None:
    for one in sorted(repo.tags, key=lambda tag: tag.name):
        if patterns and not paths.is_named(one.name, patterns):
            continue
        name = screen.clean(one.name)
        first = screen.clean(one.message.split("\n", 1)[0])
        screen.line(f"{name:<15} {first}".rstrip() if with_message else name)


def _make(repo: Repo, names: Sequence[str], message: str, *, annotate: bool, force: bool) -> None:
    if len(names) > 2:
        raise Usage("a new tag takes a name and at most one REV.")
    if annotate and not message:
        message = write_message(repo, about=f"the tag {names[0]}")
    rev = names[1] if len(names) == 2 else "HEAD"
    with suggest_revs(repo, rev):
        repo.tags.create(names[0], rev, message=message, force=force)


def _delete(repo: Repo, screen: Screen, names: Sequence[str]) -> None:
    if not names:
        raise Usage("name the tag to delete.")
    for name in names:
        with suggest_revs(repo, name), exit_with(1, NotFound):
            gone = repo.tags.delete(name)
        screen.line(f"Deleted tag '{screen.clean(gone.name)}' (was {short(gone.work)}).")
