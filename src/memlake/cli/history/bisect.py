"""bisect: the commit that first went wrong, by what commits record, by a command, or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from memlake.cli.arguments import JSON, complete_with, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import Nothing, Usage
from memlake.records import Lane, short
from memlake.repo import Repo
from memlake.reports import Bisected
from memlake.views import json_shapes, patches, words
from memlake.views.commit_text import Beside, Look, change_shapes, commit_lines

_PROGRAM = "memlake"
_LISTED = 20  # suspects that are named


@click.group(no_args_is_help=True)
def bisect() -> None:
    """Find the commit that first went wrong, by halving what may be it.

    \b
    memlake bisect start --metric accuracy --below 0.9     by what commits record
    memlake bisect start --run 'python check.py'           by a command: 0 is good, 125 skips, 1 to 124 is bad
    memlake bisect start BAD GOOD                          by hand: then `bisect good`, `bad` or `skip`

    With a metric or a command, your files are not touched: the command runs in a folder of its own with the files of
    the commit, whose id is in MEMLAKE_BISECT_COMMIT. By hand, the commit to try is checked out.
    """


@verb(group=bisect, shared=[JSON])
@click.argument("given", nargs=-1, metavar="[BAD [GOOD]...]", shell_complete=complete_with("rev"))
@click.option("--metric", metavar="NAME", help="A commit is bad by this metric; needs --below or --above.")
@click.option("--below", type=float, metavar="NUMBER", help="Bad if the metric is lower.")
@click.option("--above", type=float, metavar="NUMBER", help="Bad if the metric is higher.")
@click.option("--run", metavar="COMMAND", help="Try commits with this; with --metric, those that do not record it.")
@click.option(
    "--good", multiple=True, metavar="REV", help="A commit that was good.", shell_complete=complete_with("rev")
)
@click.option("--bad", metavar="REV", help="A commit that is bad; HEAD if you name none.")
@click.option("--memory", "lane", flag_value="memory", default="work", help="Search the commits of the memory lane.")
def start(repo: Repo, screen: Screen, /, *, given: tuple[str, ...], lane: Lane, **how: Any) -> int:
    """Begin a search; with --metric or --run, finish it and show the commit with what it changed.

    Without a good commit, the search goes back to the first one. The exit code is 1 if several commits may be it.
    """
    bad, good = how["bad"] or (given[0] if given else None), (*how["good"], *given[0 if how["bad"] else 1 :])
    if how["metric"] is None and how["run"] is None:
        if lane == "memory":
            raise Usage("by hand only commits with files can be tried; give --metric or --run with --memory.")
        _tell(repo, screen, repo.bisect.start(bad, good))
        return 0
    if (how["metric"] is None) != (how["below"] is None and how["above"] is None):
        raise Usage("--metric needs --below or --above, and they need --metric.")
    with suggest_revs(repo, bad or "HEAD"):
        found = repo.bisect.search(
            good=good, bad=bad or "HEAD", metric=how["metric"], below=how["below"], above=how["above"],
            run=how["run"], lane=lane,
        )  # fmt: skip
    _show(repo, screen, found, lane)
    return int(found.commit is None)


def _mark(repo: Repo, screen: Screen, verdict: str, revs: tuple[str, ...]) -> None:
    with exit_with(128, Nothing):
        for rev in revs or ("HEAD",):
            with suggest_revs(repo, rev):
                found = repo.bisect.mark(verdict, rev)
        _tell(repo, screen, found)


_revs = click.argument("revs", nargs=-1, metavar="[REV]...", shell_complete=complete_with("rev"))


@verb(group=bisect)
@_revs
def good(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...]) -> None:
    """Say that HEAD, or REV, is good, and try the next."""
    _mark(repo, screen, "good", revs)


@verb(group=bisect)
@_revs
def bad(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...]) -> None:
    """Say that HEAD, or REV, is bad, and try the next."""
    _mark(repo, screen, "bad", revs)


@verb(group=bisect)
@_revs
def skip(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...]) -> None:
    """Say that HEAD, or REV, cannot be tested, and try another."""
    _mark(repo, screen, "skip", revs)


@verb(group=bisect)
def reset(repo: Repo, screen: Screen, /) -> None:
    """End the search, and go back to where you were before it."""
    with exit_with(128, Nothing):
        repo.bisect.reset()
    screen.line(f"The bisect is over. You are on {repo.branches.current or short(repo.head)} again.")


@verb(group=bisect)
def log(repo: Repo, screen: Screen, /) -> None:
    """List what was said of which commits, as commands."""
    with exit_with(128, Nothing):
        marks = repo.bisect.marks
    screen.line(f"{_PROGRAM} bisect start")
    for verdict, oid in marks.said:
        screen.line(f"# {screen.clean(repo.show(oid).commit.subject)}\n{_PROGRAM} bisect {verdict} {oid}")


# -- what came out


def _tell(repo: Repo, screen: Screen, found: Bisected | None) -> None:
    if found is not None:
        _show(repo, screen, found, "work")
        screen.note("To go back to where you were: memlake bisect reset")
    elif left := repo.bisect.left:
        steps = words.count(max((left - 1).bit_length(), 1), "step")
        screen.line(f"{words.count(left, 'commit')} may be the first bad one: about {steps} more.")
        screen.line(f"Try {short(repo.head)} {screen.clean(repo.show('HEAD').commit.subject)}")
    else:
        screen.line("Name a good and a bad commit: `memlake bisect good REV`, `memlake bisect bad REV`.")


def _show(repo: Repo, screen: Screen, found: Bisected, lane: Lane) -> None:
    look = Look(detail=patches.Detail(form="patch"), merges=True)
    commits = [repo.show(oid, lane).commit for oid in found.suspects[: _LISTED if found.commit is None else 1]]
    if screen.as_json:
        shapes = [{**json_shapes.commit(one), "changes": change_shapes(repo, screen, one, look)} for one in commits]
        screen.json({"bisected": found, "commits": shapes})
        return
    with screen.pages():
        screen.lines(_summary_lines(found))
        for commit in commits:
            screen.line()
            screen.lines(commit_lines(repo, screen, commit, look, Beside(())))


def _summary_lines(found: Bisected) -> Iterator[str]:
    recorded = sum(one.how == "recorded" for one in found.tested)
    said = [f"{words.count(recorded, 'recorded metric')} read"] * bool(recorded)
    said += [f"{words.count(found.runs, 'run')}"] * bool(found.runs)
    counts = f" ({', '.join(said)})" if said else ""
    if found.commit is not None:
        yield f"{found.commit} is the first bad commit{counts}."
    else:
        yield f"The first bad commit is one of these {len(found.suspects):,}; the others could not be tested{counts}."
        if len(found.suspects) > _LISTED:
            yield f"The first {_LISTED} of them:"
