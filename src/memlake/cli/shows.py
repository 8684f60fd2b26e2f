"""show: a commit with its changes, a tag with its commit, or a file at a commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext

import click

from memlake.cli import shapes, words
from memlake.cli.arguments import completing, json_option, pass_repo
from memlake.cli.logs import Look, commit_lines, decorations
from memlake.cli.reading import print_file
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import Usage
from memlake.records import Commit, Tag
from memlake.repo import Repo


@click.command()
@click.argument("given", nargs=-1, metavar="[REV | REV:PATH]...", shell_complete=completing("rev"))
@click.option("--stat", "detail", flag_value="stat", help="How much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="The paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="The paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="The changes themselves; the default.")
@click.option("-s", "--no-patch", "detail", flag_value="none", help="The commit alone.")
@click.option("--oneline", is_flag=True, help="One line for the commit.")
@json_option
@pass_repo
def show(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], detail: str | None, oneline: bool, as_json: bool
) -> None:
    """Show a commit with its changes; REV:PATH prints the file as that commit has it."""
    wanted = given or ("HEAD",)
    files = [word for word in wanted if ":" in word]
    if as_json:
        _show_json(repo, screen, wanted)
        return
    look = Look(
        oneline=oneline,
        detail="" if detail == "none" else detail or "patch",
        decorate=screen.on_terminal,
        merges=True,
    )
    with nullcontext() if files else screen.pages():
        for word in wanted:
            _show_one(repo, screen, word, look)


def _show_one(repo: Repo, screen: Screen, word: str, look: Look) -> None:
    if ":" in word:
        print_file(repo, word, sys.stdout.buffer)
        return
    with suggesting(repo, word):
        commit = repo.commit_at(word)
    tag = _find_tag(repo, word)
    if tag is not None and tag.message:
        screen.lines(_tag_lines(screen, tag))
    names = decorations(repo).get(commit.oid, ()) if look.decorate else ()
    screen.lines(commit_lines(repo, screen, commit, look, names))


def _find_tag(repo: Repo, word: str) -> Tag | None:
    return next((tag for tag in repo.tags() if tag.name == word), None)


def _tag_lines(screen: Screen, tag: Tag) -> list[str]:
    lines = [screen.paint(f"tag {screen.clean(tag.name)}", "id")]
    lines += [f"Tagger: {screen.clean(str(tag.author))}"] if tag.author else []
    return [*lines, f"Date:   {words.date(tag.time)}", "", screen.clean(tag.message), ""]


def _show_json(repo: Repo, screen: Screen, revs: Sequence[str]) -> None:
    found = []
    for rev in revs:
        if ":" in rev:
            raise Usage(f"--json shows commits; '{rev}' is a file.", hint=f"Print it with: memlake cat {rev}")
        with suggesting(repo, rev):
            found.append(repo.commit_at(rev))
    screen.json({"commits": [_shape(repo, commit) for commit in found]})


def _shape(repo: Repo, commit: Commit) -> dict[str, object]:
    """A commit with its changes and the facts it carries."""
    facts = {name: repo.meta(commit, name) for name in ("metrics", "params", "uses") if name in commit.meta}
    return {**shapes.commit(commit, repo.changes(commit)), **facts}
