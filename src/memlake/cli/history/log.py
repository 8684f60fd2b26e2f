"""log and reflog: commits and moves in order, as text, as a graph, as JSON."""

from __future__ import annotations

import heapq
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click

from memlake.cli.arguments import JSON, Number, SplitCommand, complete_with, one_rev, split, verb
from memlake.cli.history.options import commit_options, detail_options, take_detail
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggest_revs
from memlake.errors import NotFound, Usage
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Lane, Move, short
from memlake.repo import Repo
from memlake.versions.history.log import compile_pattern
from memlake.views import json_shapes
from memlake.views.commit_text import Beside, Look, change_shapes, commit_lines, decorations, detail_items, read_form
from memlake.views.log_graph import Graph, beside, rewrite_parents


class Wanted(NamedTuple):
    """Which commits `log` is asked for."""

    revs: tuple[str, ...]
    paths: tuple[str, ...]
    lane: str
    limit: int | None
    skip: int
    since: str | None
    until: str | None
    author: re.Pattern[str] | None
    grep: re.Pattern[str] | None
    first_parent: bool
    all: bool
    text: str | None
    follow: bool
    reverse: bool
    where: str | None

    def leaves_out(self) -> bool:
        """Whether commits between shown ones, or beyond them, are not shown."""
        ranged = any(".." in rev or rev.startswith("^") for rev in self.revs)
        filters = (self.paths, self.since, self.until, self.author, self.grep, self.text, self.where)
        return ranged or any(filters)


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[REV]... [--] [PATH]...", shell_complete=complete_with("rev", "path"))
@commit_options
@click.option("--graph", is_flag=True, help="Draw the graph of commits.")
@click.option(
    "-n", "--max-count", "limit", type=Number(0), metavar="N", help="At most N commits; -5 is short for -n 5."
)
@click.option("--skip", type=Number(0), metavar="N", default=0, help="Leave out the first N commits.")
@detail_options("")
@click.option("--author", metavar="PATTERN", help="Only commits whose author 'Name <email>' matches.")
@click.option("--since", "--after", metavar="TIME", help="Only commits newer than '2 days ago', 'yesterday', a date.")
@click.option("--until", "--before", metavar="TIME", help="Only commits older than a time.")
@click.option("--grep", metavar="PATTERN", help="Only commits whose message matches this regular expression.")
@click.option("-i", "--regexp-ignore-case", "any_case", is_flag=True, help="--grep and --author ignore case.")
@click.option("-F", "--fixed-strings", "plain", is_flag=True, help="--grep and --author are plain text.")
@click.option("-S", "text", metavar="TEXT", help="Only commits that add or remove this text in a file.")
@click.option("--where", metavar="CONDITION", help="Only commits that record it, such as 'metrics.accuracy < 0.9'.")
@click.option("--follow", is_flag=True, help="Follow the one PATH across exact renames.")
@click.option("--reverse", is_flag=True, help="Oldest first.")
@click.option("-g", "--walk-reflogs", "moves", is_flag=True, help="List the moves of HEAD or a branch, newest first.")
@click.option("--all", is_flag=True, help="Start from every branch and tag.")
@click.option("--first-parent", is_flag=True, help="Follow only the first parent of merges.")
@click.option("--memory", "lane", flag_value="memory", help="Show the memory lane, where agents write.")
@click.option("--lane", "lane", type=click.Choice(["work", "memory", "all"]), help="Show one lane or both.")
@click.option("--decorate/--no-decorate", default=None, help="Show branch and tag names; by default on a terminal.")
def log(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], moves: bool, **options: Any) -> None:
    """Show commits, newest first.

    \b
    memlake log --oneline --graph --all
    memlake log main..experiment-1 -- data/
    """
    look = _look(screen, options)
    options["lane"] = options["lane"] or "work"
    any_case, plain = options.pop("any_case"), options.pop("plain")
    options |= {name: _pattern(options[name], any_case=any_case, plain=plain) for name in ("author", "grep")}
    revs, given_paths = split(repo, given)
    look = look._replace(only=() if options["follow"] else tuple(given_paths))
    wanted = Wanted(revs=tuple(revs) or ("HEAD",), paths=tuple(given_paths), **options)
    _check_born(repo, wanted)
    _check_together(wanted, look, moves=moves)
    with suggest_revs(repo, wanted.revs[0]), screen.pages():
        listed = _by_moves(repo, wanted) if moves else _with_parents(repo, wanted, look)
        if screen.as_json:
            screen.lines(json_shapes.stream("commits", (_shape(repo, screen, one, look) for one in listed)))
        elif look.detail.has_nul:
            for one in listed:
                screen.items(detail_items(repo, screen, one.commit, look))
        else:
            screen.lines(_text(repo, screen, listed, look))


def _look(screen: Screen, options: dict[str, Any]) -> Look:
    """Takes the options that are only about showing out of `options`."""
    decorate, pretty = options.pop("decorate"), options.pop("pretty")
    detail = take_detail(screen, options, "patch" if options["words"] else "")
    return Look(
        options.pop("oneline") and pretty is None,
        options.pop("graph"),
        detail,
        screen.on_terminal if decorate is None else decorate,
        options["first_parent"],
        read_form(pretty),
        options.pop("date"),
    )


def _pattern(text: str | None, *, any_case: bool, plain: bool) -> re.Pattern[str] | None:
    return compile_pattern(re.escape(text) if plain and text else text, re.IGNORECASE if any_case else 0)


def _check_together(wanted: Wanted, look: Look, *, moves: bool) -> None:
    if wanted.reverse and look.graph:
        raise Usage("--reverse and --graph cannot be used together.")
    if look.detail.has_nul and look.graph:
        raise Usage("-z and --graph cannot be used together.")
    if moves and (wanted.leaves_out() or look.graph or wanted.reverse or wanted.follow or len(wanted.revs) > 1):
        raise Usage("-g lists the moves of one ref, so only -n, --skip, --all and output options can be added.")


def _check_born(repo: Repo, wanted: Wanted) -> None:
    if wanted.revs == ("HEAD",) and repo.head is None and wanted.lane == "work" and not wanted.all:
        raise NotFound(
            f"your current branch '{repo.branches.current}' has no commits yet.",
            hint='Make the first one with: memlake add . && memlake commit -m "first"',
        )


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
        text=wanted.text,
        follow=wanted.follow,
        reverse=wanted.reverse,
        where=wanted.where,
    )


class Listed(NamedTuple):
    """A commit to show, the parents a graph leads to, and the move it was found by."""

    commit: Commit
    parents: Sequence[str] = ()
    move: Move | None = None


def _shape(repo: Repo, screen: Screen, one: Listed, look: Look) -> dict[str, Any]:
    facts = {name: getattr(repo.show(one.commit), name) for name in ("metrics", "params") if name in one.commit.meta}
    shape = json_shapes.commit(one.commit, facts)
    if look.detail.form:
        shape["changes"] = change_shapes(repo, screen, one.commit, look)
    return {**shape, **({"move": one.move} if one.move else {})}


def _by_moves(repo: Repo, wanted: Wanted) -> Iterator[Listed]:
    lane: Lane = "memory" if wanted.lane == "memory" else "work"
    moves = _all_moves(repo, lane) if wanted.all else _moves(repo, wanted.revs[0], lane)
    stop = None if wanted.limit is None else wanted.skip + wanted.limit
    for move in islice((move for move in moves if move.new), wanted.skip, stop):
        yield Listed(repo.show(move.new or "").commit, (), move)


# -- text


def _text(repo: Repo, screen: Screen, listed: Iterable[Listed], look: Look) -> Iterator[str]:
    names = decorations(repo) if look.decorated else {}
    graph = Graph() if look.graph else None
    first = True
    for commit, parents, move in listed:
        texts = list(commit_lines(repo, screen, commit, look, Beside(names.get(commit.oid, ()), move)))
        if not first and not look.dense:
            yield graph.padding() if graph else ""
        first = False
        if graph is None:
            yield from texts
        else:
            rows = graph.rows(commit.oid, parents)
            yield from beside(rows, texts, graph.padding())


def _with_parents(repo: Repo, wanted: Wanted, look: Look) -> Iterator[Listed]:
    """Commits with the parents a graph leads to: never ones outside a range, and through those a filter hides."""
    if not look.graph:
        yield from map(Listed, _read(repo, wanted))
    elif not wanted.leaves_out():
        for commit in _read(repo, wanted):
            yield Listed(commit, commit.parents[:1] if wanted.first_parent else commit.parents)
    else:
        everything = repo.log(wanted.revs, lane=wanted.lane, first_parent=wanted.first_parent, all=wanted.all)
        parents = {one.oid: one.parents[:1] if wanted.first_parent else one.parents for one in everything}
        shown = list(_read(repo, wanted))
        near = rewrite_parents(parents, (commit.oid for commit in shown))
        yield from (Listed(commit, near[commit.oid]) for commit in shown)


# -- reflog


def _moves(repo: Repo, ref: str, lane: Lane) -> Iterator[Move]:
    """The moves of a ref. A deleted branch still has some; a name that never existed is NotFound."""
    moves = repo.reflog(ref, lane)
    first = next(moves, None)
    if first is None and ref not in ("HEAD", "@", *(branch.name for branch in repo.branches)):
        raise NotFound(f"there is no branch '{ref}', and there never was one.")
    return chain([first] if first else [], moves)


def _all_moves(repo: Repo, lane: Lane) -> Iterator[Move]:
    """The moves of HEAD and of every branch there is, newest first."""
    logs = [repo.reflog(ref, lane) for ref in ("HEAD", *(branch.name for branch in repo.branches))]
    return heapq.merge(*logs, key=lambda move: -move.time)


@verb(cls=SplitCommand, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[show] [REF]", shell_complete=complete_with("branch"))
@click.option("--all", "every", is_flag=True, help="Show HEAD and every branch.")
@click.option("-n", "--max-count", "limit", type=Number(0), metavar="N", help="At most N moves; -5 is short for -n 5.")
@click.option("--memory", "lane", flag_value="memory", help="Show the memory lane.")
def reflog(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], limit: int | None, lane: str | None, **how: bool
) -> None:
    """Show where HEAD or a branch has been, newest first. By default gc never removes a commit listed here."""
    ref = one_rev(given[1:] if given[:1] == ("show",) else given)
    of_lane: Lane = "memory" if lane else "work"
    with suggest_revs(repo, ref), screen.pages():
        most = limit if limit is None else min(limit, sys.maxsize)
        moves = islice(_all_moves(repo, of_lane) if how["every"] else _moves(repo, ref, of_lane), most)
        if screen.as_json:
            screen.lines(json_shapes.stream("moves", moves))
            return
        for move in moves:
            where = f"{screen.clean(move.ref)}@{{{move.number}}}"
            screen.line(f"{screen.paint(short(move.new), 'id')} {where}: {screen.clean(move.action)}")
