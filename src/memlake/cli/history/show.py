"""show: a commit with its changes, a tag with its commit, or a file at a commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.files.browse import file_at, file_shape, print_file
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.records import Commit, Lane, Tag
from memlake.repo import Repo
from memlake.views import json_shapes, words
from memlake.views.commit_text import (
    DATE_HELP,
    FORMAT_HELP,
    Beside,
    Look,
    commit_lines,
    date_style,
    decorations,
    read_form,
)


@verb(shared=[JSON])
@click.argument("given", nargs=-1, metavar="[REV | REV:PATH]...", shell_complete=complete_with("rev"))
@click.option("--stat", "detail", flag_value="stat", help="Show how much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="Show the paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="Show only the paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="Show the changes themselves; the default.")
@click.option("-s", "--no-patch", "detail", flag_value="none", help="Show only the commit.")
@click.option("--oneline", is_flag=True, help="Show the commit in one line.")
@click.option("--format", "--pretty", "form", metavar="FORMAT", help=FORMAT_HELP)
@click.option("--date", metavar="STYLE", default="default", callback=date_style, help=DATE_HELP)
@click.option("--memory", "of_memory", is_flag=True, help="Show the commit of the memory lane.")
def show(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], detail: str | None, **how: Any) -> None:
    """Show a commit with its changes. REV:PATH prints a file as that commit has it."""
    wanted = given or ("HEAD",)
    lane: Lane = "memory" if how["of_memory"] else "work"
    files = [word for word in wanted if ":" in word]
    if screen.as_json:
        _show_json(repo, screen, wanted, lane)
        return
    look = Look(
        oneline=how["oneline"] and how["form"] is None,
        detail="" if detail == "none" else detail or "patch",
        decorate=screen.on_terminal,
        merges=True,
        form=read_form(how["form"]),
        date=how["date"],
    )
    with nullcontext() if files else screen.pages():
        for word in wanted:
            _show_one(repo, screen, word, look, lane)


def _show_one(repo: Repo, screen: Screen, word: str, look: Look, lane: Lane) -> None:
    if ":" in word:
        print_file(repo, word, sys.stdout.buffer)
        return
    commit = _commit(repo, word, lane)
    tag = _find_tag(repo, word)
    if tag is not None and tag.message:
        screen.lines(_tag_lines(screen, tag))
    names = decorations(repo).get(commit.oid, ()) if look.decorated else ()
    screen.lines(commit_lines(repo, screen, commit, look, Beside(names)))


def _commit(repo: Repo, word: str, lane: Lane) -> Commit:
    with suggest_revs(repo, word):
        return repo.commit_at(word, lane)


def _find_tag(repo: Repo, word: str) -> Tag | None:
    return next((tag for tag in repo.tags() if tag.name == word), None)


def _tag_lines(screen: Screen, tag: Tag) -> list[str]:
    lines = [screen.paint(f"tag {screen.clean(tag.name)}", "id")]
    lines += [f"Tagger: {screen.clean(str(tag.author))}"] if tag.author else []
    return [*lines, f"Date:   {words.date(tag.time)}", "", screen.clean(tag.message), ""]


def _show_json(repo: Repo, screen: Screen, given: Sequence[str], lane: Lane) -> None:
    commits = [_shape(repo, _commit(repo, word, lane)) for word in given if ":" not in word]
    files = [file_shape(repo, *file_at(repo, word)) for word in given if ":" in word]
    screen.json({"commits": commits, "files": files})


def _shape(repo: Repo, commit: Commit) -> dict[str, object]:
    """A commit with its changes and the facts it carries."""
    facts = {name: repo.meta(commit, name) for name in ("metrics", "params", "uses") if name in commit.meta}
    return {**json_shapes.commit(commit, repo.changes(commit)), **facts}
