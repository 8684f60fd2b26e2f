"""log and reflog: commits and moves in order, as text, as a graph, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import click

from memlake.cli import changes, patches, paths, shapes, words
from memlake.cli.arguments import SplitCommand, completing, json_option, pass_repo, split
from memlake.cli.graph import Graph, beside, rewrite_parents
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import NotFound
from memlake.records import Commit, Lane, Move, short
from memlake.repo import Repo


class Look(NamedTuple):
    """How commits are shown. `merges`: whether merges show their changes too (against their first parent)."""

    oneline: bool = False
    graph: bool = False
    detail: str = ""
    decorate: bool = False
    merges: bool = False


class Wanted(NamedTuple):
    """Which commits `log` is asked for."""

    revs: tuple[str, ...]
    paths: tuple[str, ...]
    lane: str
    limit: int | None
    skip: int
    since: str | None
    until: str | None
    author: str | None
    grep: str | None
    first_parent: bool
    all: bool

    def leaves_out(self) -> bool:
        """Whether commits between shown ones, or beyond them, are not shown."""
        ranged = any(".." in rev or rev.startswith("^") for rev in self.revs)
        return bool(ranged or self.paths or self.since or self.until or self.author or self.grep)


@click.command(cls=SplitCommand)
@click.argument("given", nargs=-1, metavar="[REV]... [--] [PATH]...", shell_complete=completing("rev", "path"))
@click.option("--oneline", is_flag=True, help="One line a commit.")
@click.option("--graph", is_flag=True, help="Draw how commits continue each other.")
@click.option("-n", "--max-count", "limit", type=click.IntRange(0), help="At most N commits; -5 is short for -n 5.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out the first N commits.")
@click.option("--stat", "detail", flag_value="stat", help="How much changed in each file.")
@click.option("--name-status", "detail", flag_value="name-status", help="The paths and how they changed.")
@click.option("--name-only", "detail", flag_value="name-only", help="The paths that changed.")
@click.option("-p", "--patch", "detail", flag_value="patch", help="The changes themselves.")
@click.option("--author", help="Commits by authors whose name or address has this.")
@click.option("--since", "--after", metavar="TIME", help="Newer than '2 days ago', 'yesterday', a date.")
@click.option("--until", "--before", metavar="TIME", help="Older than a time.")
@click.option("--grep", metavar="TEXT", help="Commits whose message has this.")
@click.option("--all", is_flag=True, help="From every branch and tag.")
@click.option("--first-parent", is_flag=True, help="Follow only the first parent of merges.")
@click.option("--memory", "lane", flag_value="memory", help="The memory lane, where agents write.")
@click.option("--lane", "lane", type=click.Choice(["work", "memory", "all"]), help="One lane or both.")
@click.option("--decorate/--no-decorate", default=None, help="Show branch and tag names; by default on a terminal.")
@json_option
@pass_repo
def log(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show commits, newest first.

    \b
    memlake log --oneline --graph --all
    memlake log main..experiment-1 -- data/
    """
    decorate = options.pop("decorate")
    decorate = screen.on_terminal if decorate is None else decorate
    look = Look(
        options.pop("oneline"), options.pop("graph"), options.pop("detail") or "", decorate, options["first_parent"]
    )
    options["lane"] = options["lane"] or "work"
    revs, given_paths = split(repo, given)
    wanted = Wanted(revs=tuple(revs) or ("HEAD",), paths=tuple(given_paths), **options)
    _check_born(repo, wanted)
    with suggesting(repo, wanted.revs[0]), screen.pages():
        if as_json:
            screen.lines(shapes.stream("commits", (_shape(repo, one, look) for one in _read(repo, wanted))))
        else:
            screen.lines(_text(repo, screen, wanted, look))


def _check_born(repo: Repo, wanted: Wanted) -> None:
    if wanted.revs == ("HEAD",) and repo.head is None and wanted.lane == "work" and not wanted.all:
        raise NotFound(f"your current branch '{repo.branch_name}' has no commits yet.")


def _read(repo: Repo, wanted: Wanted) -> Iterator[Commit]:
    return repo.log(
        wanted.revs,
        lane=wanted.lane,
        paths=wanted.paths,
        limit=wanted.limit,
        skip=wanted.skip,
        since=wanted.since,
        until=wanted.until,
        author=wanted.author,
        grep=wanted.grep,
        first_parent=wanted.first_parent,
        all=wanted.all,
    )


def _shape(repo: Repo, commit: Commit, look: Look) -> dict[str, Any]:
    return shapes.commit(commit, repo.changes(commit) if look.detail else None)


# -- text


def _text(repo: Repo, screen: Screen, wanted: Wanted, look: Look) -> Iterator[str]:
    names = decorations(repo) if look.decorate else {}
    graph = Graph() if look.graph else None
    first = True
    for commit, parents in _with_parents(repo, wanted, look):
        texts = list(commit_lines(repo, screen, commit, look, names.get(commit.oid, ())))
        if not first and not look.oneline:
            yield graph.padding() if graph else ""
        first = False
        if graph is None:
            yield from texts
        else:
            rows = graph.rows(commit.oid, parents)
            yield from beside(rows, texts, graph.padding())


def _with_parents(repo: Repo, wanted: Wanted, look: Look) -> Iterator[tuple[Commit, Sequence[str]]]:
    """Commits with the parents a graph leads to: never ones outside a range, and through those a filter hides."""
    if not look.graph:
        yield from ((commit, ()) for commit in _read(repo, wanted))
    elif not wanted.leaves_out():
        for commit in _read(repo, wanted):
            yield commit, commit.parents[:1] if wanted.first_parent else commit.parents
    else:
        everything = repo.log(wanted.revs, lane=wanted.lane, first_parent=wanted.first_parent, all=wanted.all)
        parents = {one.oid: one.parents[:1] if wanted.first_parent else one.parents for one in everything}
        shown = list(_read(repo, wanted))
        near = rewrite_parents(parents, (commit.oid for commit in shown))
        yield from ((commit, near[commit.oid]) for commit in shown)


def commit_lines(repo: Repo, screen: Screen, commit: Commit, look: Look, names: Sequence[str] = ()) -> Iterator[str]:
    """One commit's text: its head, its message, and the detail asked for."""
    shown_names = _painted_names(screen, names)
    if look.oneline:
        yield f"{screen.paint(short(commit.oid), 'id')}{shown_names} {screen.clean(commit.subject)}"
    else:
        yield f"{screen.paint(f'commit {commit.oid}', 'id')}{shown_names}"
        if len(commit.parents) > 1:
            yield f"Merge: {' '.join(short(parent) for parent in commit.parents)}"
        yield f"Author: {screen.clean(str(commit.author))}"
        yield f"Date:   {words.date(commit.time)}"
        yield from _fact_lines(repo, screen, commit)
        yield ""
        yield from (f"    {screen.clean(line)}".rstrip() for line in commit.message.split("\n"))
    yield from _detail_lines(repo, screen, commit, look)


def _fact_lines(repo: Repo, screen: Screen, commit: Commit) -> Iterator[str]:
    """What the commit says beside its content: `--metric`, `--param`, `--uses`."""
    for name in ("metrics", "params"):
        if name in commit.meta:
            facts = "  ".join(f"{key}={value}" for key, value in repo.meta(commit, name).items())
            yield screen.clean(f"{name.title()}: {facts}")
    for use in repo.meta(commit, "uses") or ():
        yield screen.clean(f"Uses:   {paths.shown(use['path'])}@{short(use['commit'] or commit.oid)}")


def _detail_lines(repo: Repo, screen: Screen, commit: Commit, look: Look) -> Iterator[str]:
    if not look.detail or (len(commit.parents) > 1 and not look.merges):
        return
    rows = changes.rows(repo.changes(commit))
    if rows and not look.oneline:
        yield ""
    yield from patches.detail(patches.open_view(repo, screen), rows, look.detail)


def decorations(repo: Repo) -> dict[str, list[str]]:
    """The names that stand at each commit: `HEAD -> main`, `dev`, `tag: v1`."""
    found: dict[str, list[str]] = {}
    if repo.head and repo.branch_name is None:
        found.setdefault(repo.head, []).append("HEAD")
    for branch in sorted(repo.branches(), key=lambda branch: (not branch.current, branch.name)):
        for oid in {branch.work, branch.memory} - {None}:
            found.setdefault(str(oid), []).append(f"HEAD -> {branch.name}" if branch.current else branch.name)
    for tag in repo.tags():
        for oid in {tag.work, tag.memory} - {None}:
            found.setdefault(str(oid), []).append(f"tag: {tag.name}")
    return found


def _painted_names(screen: Screen, names: Iterable[str]) -> str:
    painted = [_painted_name(screen, screen.clean(name)) for name in names]
    return f" {screen.paint('(', 'id')}{', '.join(painted)}{screen.paint(')', 'id')}" if painted else ""


def _painted_name(screen: Screen, name: str) -> str:
    style = "tag" if name.startswith("tag: ") else "here" if name.startswith("HEAD") else "branch"
    return screen.paint(name, style)


# -- reflog


def _moves(repo: Repo, ref: str, lane: Lane) -> Iterator[Move]:
    """The moves of a ref; a branch that is gone still has some, a name that never was has none."""
    moves = repo.reflog(ref, lane)
    first = next(moves, None)
    if first is None and ref not in ("HEAD", "@", *(branch.name for branch in repo.branches())):
        raise NotFound(f"no branch '{ref}', now or earlier.")
    return chain([first] if first else [], moves)


@click.command(cls=SplitCommand)
@click.argument("ref", default="HEAD", shell_complete=completing("branch"))
@click.option("-n", "--max-count", "limit", type=click.IntRange(0), help="At most N moves; -5 is short for -n 5.")
@click.option("--memory", "lane", flag_value="memory", help="Of the memory lane.")
@json_option
@pass_repo
def reflog(repo: Repo, screen: Screen, /, *, ref: str, limit: int | None, lane: str | None, as_json: bool) -> None:
    """Show where HEAD or a branch has been, newest first. Nothing listed here is ever lost to gc by default."""
    with suggesting(repo, ref), screen.pages():
        moves = islice(_moves(repo, ref, "memory" if lane else "work"), limit)
        if as_json:
            screen.lines(shapes.stream("moves", moves))
            return
        for move in moves:
            where = f"{screen.clean(move.ref)}@{{{move.number}}}"
            screen.line(f"{screen.paint(short(move.new), 'id')} {where}: {screen.clean(move.action)}")
