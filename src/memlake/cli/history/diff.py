"""diff: what differs between working files, stage and commits."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Sequence
from typing import Any

import click

from memlake import config
from memlake.cli.arguments import JSON, SplitCommand, after_dashes, complete_with, split, verb
from memlake.cli.files.browse import file_at
from memlake.cli.history.options import detail_options, take_detail
from memlake.cli.history.plot import check_plot_target
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import InvalidInput, Nothing, Usage
from memlake.records import Change, Conflict, Entry
from memlake.repo import Repo, tree_path
from memlake.repo.diff import Diff
from memlake.views import changes, patches, paths, plots, stats


@verb(cls=SplitCommand, shared=[JSON])
@click.argument(
    "given", nargs=-1, metavar="[REV [REV] | A..B | A...B] [--] [PATH]...", shell_complete=complete_with("rev", "path")
)
@click.option("--cached", "--staged", "staged", is_flag=True, help="Compare the stage with HEAD.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if something differs.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; implies --exit-code.")
@detail_options("patch")
@click.option(
    "--plot", metavar="FILE", help="Draw embeddings or images that differ into FILE, an .svg or .png; name one path."
)
@click.option("--summarize", is_flag=True, help="Say in sentences what changed and what it touches.")
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
    config.one_thread_of_algebra()
    unmerged: list[Conflict] = []
    if _is_file(given[:1]) and len(given) == 2 and after_dashes() is None:
        rows = _compare_files(repo, *given)
        sides = file_at(repo, given[0])[1], file_at(repo, given[1])[1] if _is_file(given[1:]) else ""
    else:
        revs, given_paths = split(repo, given)
        rows, unmerged, sides = _compare(repo, revs, given_paths, how)
    detail = take_detail(screen, how, "patch")._replace(sides=sides)
    view = patches.open_view(repo, screen, detail, rows=rows)
    if how["plot"] is not None:
        _write_plot(repo, rows, how["plot"], detail)
    if how["summarize"] and not how["quiet"]:
        # By name: only this option pays for it.
        show = importlib.import_module("memlake.cli.history.summarize").show_summary
        show(repo, screen, rows, view, detail=detail)
    elif screen.as_json:
        screen.json({"changes": [stats.row_shape(view, row, detail) for row in rows], "conflicts": unmerged})
    elif not how["quiet"]:
        with screen.pages():
            write = screen.items if detail.has_nul else screen.lines
            write(line for one in unmerged for line in patches.unmerged_lines(repo, screen, one, detail))
            write(stats.detail_lines(view, rows, detail))
    return int(bool((rows or unmerged) and (how["exit_code"] or how["quiet"])))


def _write_plot(repo: Repo, rows: Sequence[changes.Row], file: str, detail: patches.Detail) -> None:
    """Draw the one file that differs."""
    plots.check_plot_file(file)
    check_plot_target(repo, file, compared=[path for row in rows for path in (row.path, row.source) if path])
    if not rows:
        raise Nothing("nothing differs here, so there is nothing to draw.")
    if len(rows) > 1:
        names = ", ".join(paths.display(row.path) for row in rows[:3])
        raise InvalidInput(
            f"a plot shows one file, but {len(rows):,} differ: {names} ... Name one. Nothing was written."
        )
    (row,) = rows
    change = Change(row.path, row.old, row.new)
    sketch = Diff.of(repo, (change,), detail.sides).sketch(change, key=detail.key)
    if sketch is None:
        name = paths.display(row.path)
        raise InvalidInput(f"{name} cannot be drawn: memlake draws embeddings and images. Nothing was written.")
    plots.write_plot(sketch, paths.bare(row.path), file)


def _compare(
    repo: Repo, revs: Sequence[str], given_paths: Sequence[str], how: dict[str, Any]
) -> tuple[list[changes.Row], list[Conflict], tuple[str, str]]:
    """What differs, which conflicts are not resolved, and which sides were compared."""
    if len(revs) > 2 or (len(revs) == 2 and any(".." in rev for rev in revs)):
        raise Usage("diff takes at most two revisions, or one range A..B.")
    a, b = (*revs, None, None)[:2]
    found = repo.diff(a, b, staged=how["staged"], paths=tuple(given_paths), lane=how["lane"])
    roots = [tree_path(repo, path) for path in given_paths]
    unmerged = [
        one
        for one in (repo.pending_merge.conflicts if a is None else ())
        if one.choice is None and (not roots or any(paths.within(one.path, root) for root in roots))
    ]
    shown_apart = set() if how["staged"] else {conflict.path for conflict in unmerged}
    return changes.rows([change for change in found if change.path not in shown_apart]), unmerged, found.sides


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
        return tree_path(repo, word), Entry(hashlib.sha256(data).hexdigest(), "file", len(data), mode)
    path, rev = file_at(repo, word)
    with suggest_revs(repo, rev):
        return tree_path(repo, path), repo.objects.at(path, rev)
