"""diff: what differs between working files, stage and commits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import click

from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, split, verb
from memlake.cli.files.browse import file_at
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import Usage
from memlake.records import Conflict, Entry
from memlake.repo import Repo
from memlake.views import changes, json_shapes, patches, paths


@verb(cls=SplitCommand, shared=[JSON])
@click.argument(
    "given", nargs=-1, metavar="[REV [REV] | A..B | A...B] [--] [PATH]...", shell_complete=complete_with("rev", "path")
)
@click.option("--cached", "--staged", "staged", is_flag=True, help="Compare the stage with HEAD.")
@click.option("--stat", "detail", flag_value="stat", help="Show how much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="Show the paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="Show only the paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="Show the changes themselves; the default.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if something differs.")
@click.option("--quiet", is_flag=True, help="Print nothing; implies --exit-code.")
@click.option(
    "--key", multiple=True, metavar="COLUMN", help="Match rows of a table by this column. Repeat it for more."
)
@click.option(
    "-n", "--rows", type=click.IntRange(0), metavar="N", default=10, show_default=True, help="Show N rows of each kind."
)
@click.option("--text", "as_text", is_flag=True, help="Compare tables line by line, too.")
@click.option("--memory", "lane", flag_value="memory", help="Compare the memory lane of two commits or branches.")
@click.option("--all", "lane", flag_value="all", help="Compare both lanes.")
def diff(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], **how: Any) -> int:
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
        rows, worktree = _compare_files(repo, *given), not _is_file(given[1:])
        newer = None if worktree or given[1].startswith(":") else file_at(repo, given[1])[1]
    else:
        revs, given_paths = split(repo, given)
        rows, unmerged, worktree = _compare(repo, revs, given_paths, how)
        newer = revs[-1].rpartition("..")[2] or "HEAD" if len(revs) == 2 or ".." in "".join(revs) else None
    looking = patches.Looking(not how["as_text"], how["key"], how["rows"], newer)
    view = patches.open_view(repo, screen, worktree=worktree, looking=looking)
    if screen.as_json:
        shapes = [{**row.shape(), "inside": json_shapes.plain(view.explain(row))} for row in rows]
        screen.json({"changes": shapes, "conflicts": unmerged})
    elif not how["quiet"]:
        detail = str(how["detail"] or "patch")
        with screen.pages():
            screen.lines(line for one in unmerged for line in patches.unmerged_lines(repo, screen, one, detail))
            screen.lines(patches.detail(view, rows, detail))
    return int(bool((rows or unmerged) and (how["exit_code"] or how["quiet"])))


def _compare(
    repo: Repo, revs: Sequence[str], given_paths: Sequence[str], how: dict[str, Any]
) -> tuple[list[changes.Row], list[Conflict], bool]:
    """What differs, which conflicts are not resolved, and whether the new side is the working files."""
    if len(revs) > 2 or (len(revs) == 2 and any(".." in rev for rev in revs)):
        raise Usage("diff takes at most two revisions, or one range A..B.")
    a, b = (*revs, None, None)[:2]
    differing = repo.diff(a, b, staged=how["staged"], paths=tuple(given_paths), lane=how["lane"])
    roots = [repo.path(path) for path in given_paths]
    unmerged = [
        one
        for one in (repo.pending_merge.conflicts if a is None else ())
        if one.choice is None and (not roots or any(paths.within(one.path, root) for root in roots))
    ]
    if not how["staged"]:
        shown_apart = {conflict.path for conflict in unmerged}
        differing = tuple(change for change in differing if change.path not in shown_apart)
    return changes.rows(differing), unmerged, not how["staged"] and b is None and (a is None or ".." not in a)


def _is_file(words: Sequence[str]) -> bool:
    """Whether a word is `REV:PATH`, and not a file of that name."""
    return bool(words) and ":" in words[0] and not os.path.lexists(words[0])


def _compare_files(repo: Repo, old: str, new: str) -> list[changes.Row]:
    """`A:PATH B:PATH`, or `A:PATH PATH` for the working file."""
    source, was = _side(repo, old)
    path, now = _side(repo, new)
    if was.oid == now.oid and was.kind == now.kind and was.mode == now.mode:
        return []
    return [changes.Row("M" if was.kind == now.kind else "T", path, was, now, source if source != path else None)]


def _side(repo: Repo, word: str) -> tuple[str, Entry]:
    if not _is_file([word]):
        data = repo.read(word, None)
        mode = int(os.access(word, os.X_OK))
        return repo.path(word), Entry(hashlib.sha256(data).hexdigest(), "file", len(data), mode)
    path, rev = file_at(repo, word)
    with suggest_revs(repo, rev):
        return repo.path(path), repo.entry(path, rev)
