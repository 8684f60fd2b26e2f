"""show: a commit with its changes, a tag with its commit, or a file at a commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, verb
from memlake.cli.files.browse import file_at, file_shape, print_file
from memlake.cli.history.options import commit_options, detail_options, take_detail
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import pasted
from memlake.records import Change, Commit, Entry, Lane, Tag
from memlake.repo import Repo, tree_path
from memlake.repo.diff import Diff
from memlake.views import json_shapes, words
from memlake.views.commit_text import Beside, Look, change_shapes, commit_lines, decorations, detail_items, read_form
from memlake.views.contents import summary_text
from memlake.views.patches import begins_as_text

if TYPE_CHECKING:
    from memlake.contents.explain import Explanation


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[REV | REV:PATH]... [-- PATH...]", shell_complete=complete_with("rev"))
@detail_options("patch")
@commit_options
@click.option("--memory", "of_memory", is_flag=True, help="Show the commit of the memory lane.")
def show(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], **how: Any) -> None:
    """Show a commit with its changes. REV:PATH prints a file as that commit has it."""
    wanted = given or ("HEAD",)
    lane: Lane = "memory" if how["of_memory"] else "work"
    files = [word for word in wanted if ":" in word]
    look = Look(
        detail=take_detail(screen, how, "patch"),
        oneline=how["oneline"] and how["pretty"] is None,
        decorate=screen.on_terminal,
        merges=True,
        form=read_form(how["pretty"]),
        date=how["date"],
        only=after_dashes() or (),
    )
    if screen.as_json:
        _show_json(repo, screen, wanted, look, lane=lane)
        return
    with nullcontext() if files else screen.pages():
        for word in wanted:
            _show_one(repo, screen, word, look, lane)


def _show_one(repo: Repo, screen: Screen, word: str, look: Look, lane: Lane) -> None:
    if ":" in word:
        path, rev = file_at(repo, word)
        if screen.on_terminal and (summary := _find_summary(repo, path, rev)):
            screen.lines([summary, f"Its bytes: memlake cat {pasted(word)} > FILE"])
        else:
            print_file(repo, word, sys.stdout.buffer)
        return
    commit = _commit(repo, word, lane)
    tag = _find_tag(repo, word)
    if tag is not None and tag.message:
        screen.lines(_tag_lines(screen, tag))
    if look.detail.has_nul:
        screen.items(detail_items(repo, screen, commit, look))
        return
    names = decorations(repo).get(commit.oid, ()) if look.decorated else ()
    screen.lines(commit_lines(repo, screen, commit, look, Beside(names)))


def _find_summary(repo: Repo, path: str, rev: str) -> str | None:
    """What a file is that is not text, and so of no use on a terminal as it is."""
    with suggest_revs(repo, rev):
        entry = repo.objects.at(path, rev)
    if begins_as_text(repo, entry.oid):
        return None
    explanation = _describe(repo, path, entry, rev)
    return summary_text(explanation.record) if explanation else None


def _describe(repo: Repo, path: str, entry: Entry, rev: str) -> Explanation | None:
    """What a file is that a commit has, as if it had just come."""
    change = Change(tree_path(repo, path), None, entry)
    return Diff.of(repo, (change,), ("", rev)).explain(change)


def _commit(repo: Repo, word: str, lane: Lane) -> Commit:
    with suggest_revs(repo, word):
        return repo.show(word, lane).commit


def _find_tag(repo: Repo, word: str) -> Tag | None:
    return next((tag for tag in repo.tags if tag.name == word), None)


def _tag_lines(screen: Screen, tag: Tag) -> list[str]:
    lines = [screen.paint(f"tag {screen.clean(tag.name)}", "id")]
    lines += [f"Tagger: {screen.clean(str(tag.author))}"] if tag.author else []
    return [*lines, f"Date:   {words.date(tag.time)}", "", screen.clean(tag.message), ""]


def _show_json(repo: Repo, screen: Screen, given: Sequence[str], look: Look, *, lane: Lane) -> None:
    commits = [_shape(repo, screen, _commit(repo, word, lane), look) for word in given if ":" not in word]
    files = [_file_shape(repo, *file_at(repo, word)) for word in given if ":" in word]
    screen.json({"commits": commits, "files": files})


def _shape(repo: Repo, screen: Screen, commit: Commit, look: Look) -> dict[str, object]:
    """A commit with its changes and the facts it carries."""
    shown = repo.show(commit)
    facts = {name: getattr(shown, name) for name in ("metrics", "params", "uses", "runs") if name in commit.meta}
    return {**json_shapes.commit(commit, facts), "changes": change_shapes(repo, screen, commit, look)}


def _file_shape(repo: Repo, path: str, rev: str) -> dict[str, object]:
    """A file with its content, and with what it is."""
    explanation = _describe(repo, path, repo.objects.at(path, rev), rev)
    return {**file_shape(repo, path, rev), "inside": json_shapes.plain(explanation)}
