"""diff: what differs between working files, stage and commits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import click

from memlake.cli.arguments import SplitCommand, after_dashes, completing, json_option, pass_repo, split
from memlake.cli.files.read import file_at
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import Usage
from memlake.records import Conflict, Entry
from memlake.repo import Repo
from memlake.views import changes, json_shapes, patches, paths


@click.command(cls=SplitCommand)
@click.argument(
    "given", nargs=-1, metavar="[REV [REV] | A..B | A...B] [--] [PATH]...", shell_complete=completing("rev", "path")
)
@click.option("--cached", "--staged", "staged", is_flag=True, help="The stage against HEAD.")
@click.option("--stat", "detail", flag_value="stat", help="How much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="The paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="The paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="The changes themselves; the default.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something differs.")
@click.option("--quiet", is_flag=True, help="Print nothing; implies --exit-code.")
@click.option("--key", multiple=True, metavar="COLUMN", help="What tells the rows of a table apart; again for more.")
@click.option(
    "-n", "--rows", type=click.IntRange(0), default=10, show_default=True, help="Show so many rows of each kind."
)
@click.option("--text", "as_text", is_flag=True, help="Compare lines, also of tables.")
@click.option("--memory", "lane", flag_value="memory", help="The memory lane of two commits or branches.")
@click.option("--all", "lane", flag_value="all", help="Both lanes.")
@json_option
@pass_repo
def diff(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], as_json: bool, **how: Any) -> int:
    """Show what differs.

    \b
    memlake diff                    working files against the stage
    memlake diff --cached           the stage against HEAD
    memlake diff REV                working files against a commit
    memlake diff A..B               two commits or branches
    memlake diff A...B              B against where it left A
    memlake diff A:PATH B:PATH      two files, each as a commit has it
    """
    unmerged: list[Conflict] = []
    if _is_file(given[:1]) and len(given) == 2 and after_dashes() is None:
        found, worktree = _two_files(repo, *given), not _is_file(given[1:])
    else:
        found, unmerged, worktree = _found(repo, given, how)
    looking = patches.Looking(not how["as_text"], how["key"], how["rows"])
    view = patches.open_view(repo, screen, worktree=worktree, looking=looking)
    if as_json:
        shapes = [{**row.shape(), "inside": json_shapes.plain(view.explain(row))} for row in found]
        screen.json({"changes": shapes, "conflicts": unmerged})
    elif not how["quiet"]:
        detail = str(how["detail"] or "patch")
        with screen.pages():
            screen.lines(line for one in unmerged for line in patches.unmerged_lines(repo, screen, one, detail))
            screen.lines(patches.detail(view, found, detail))
    return int(bool((found or unmerged) and (how["exit_code"] or how["quiet"])))


def _found(repo: Repo, given: tuple[str, ...], how: dict[str, Any]) -> tuple[list[changes.Row], list[Conflict], bool]:
    """What differs, what waits for a choice, and whether the new side is the working files."""
    revs, given_paths = split(repo, given)
    a, b = _ends(revs)
    found = repo.diff(a, b, staged=how["staged"], paths=tuple(given_paths), lane=how["lane"])
    unmerged = _unmerged(repo, given_paths) if a is None else []
    if not how["staged"]:
        met = {conflict.path for conflict in unmerged}
        found = tuple(change for change in found if change.path not in met)
    return changes.rows(found), unmerged, not how["staged"] and b is None and (a is None or ".." not in a)


def _is_file(words: Sequence[str]) -> bool:
    """Whether a word is `REV:PATH`, and not a file of that name."""
    return bool(words) and ":" in words[0] and not os.path.lexists(words[0])


def _two_files(repo: Repo, old: str, new: str) -> list[changes.Row]:
    """`A:PATH B:PATH`, or `A:PATH PATH` for the working file."""
    source, was = _side(repo, old)
    path, now = _side(repo, new)
    same = was.oid == now.oid and was.kind == now.kind and was.mode == now.mode
    return (
        []
        if same
        else [changes.Row("M" if was.kind == now.kind else "T", path, was, now, source if source != path else None)]
    )


def _side(repo: Repo, word: str) -> tuple[str, Entry]:
    if not _is_file([word]):
        data = repo.read(word, None)
        mode = int(os.access(word, os.X_OK))
        return repo.path(word), Entry(hashlib.sha256(data).hexdigest(), "file", len(data), mode)
    path, rev = file_at(repo, word)
    with suggesting(repo, rev):
        return repo.path(path), repo.entry(path, rev)


def _ends(revs: Sequence[str]) -> tuple[str | None, str | None]:
    if len(revs) > 2 or (len(revs) == 2 and any(".." in rev for rev in revs)):
        raise Usage("diff takes at most two revisions, or one range A..B.")
    a = revs[0] if revs else None
    return a, revs[1] if len(revs) == 2 else None


# -- paths in conflict


def _unmerged(repo: Repo, given: Sequence[str]) -> list[Conflict]:
    roots = [repo.path(path) for path in given]
    found = [one for one in repo.pending_merge.conflicts if one.choice is None]
    return [one for one in found if not roots or any(paths.within(one.path, root) for root in roots)]
