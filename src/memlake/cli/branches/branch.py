"""branch, switch, checkout: the names of lines of work, and going from one to another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from memlake.cli.arguments import JSON, QUIET, SplitCommand, after_dashes, complete_with, is_rev, split, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import Conflict, NotFound, Usage
from memlake.objects.layout import now
from memlake.records import Branch, short
from memlake.repo import Repo
from memlake.repo.remotes import Apart
from memlake.versions.history.times import parse_end
from memlake.views import paths, words

_DETACHED = """\
Note: switching to '{rev}'.

You are in 'detached HEAD' state. You can look around, make experimental changes and commit them, but no branch
follows. To keep commits that you make here, give them a branch now or later:

  memlake switch -c <new-branch-name>

To go back: memlake switch -
"""


# -- branch


_COMMIT: Any = {"metavar": "[REV]", "is_flag": False, "flag_value": "HEAD", "shell_complete": complete_with("rev")}


@verb(shared=[JSON])
@click.argument("names", nargs=-1, metavar="[NAME [START]]", shell_complete=complete_with("branch", then="rev"))
@click.option("-d", "--delete", "act", flag_value="delete", help="Delete branches whose commits are merged.")
@click.option("-D", "act", flag_value="force-delete", help="Delete branches, merged or not.")
@click.option("-m", "--move", "act", flag_value="rename", help="Rename: [OLD] NEW.")
@click.option("-M", "act", flag_value="force-rename", help="Rename, replacing a branch of that name.")
@click.option("--show-current", "act", flag_value="current", help="Print the current branch.")
@click.option("-f", "--force", is_flag=True, help="Move an existing branch to START; -d -f is -D, and -m -f is -M.")
@click.option("--ttl", metavar="TIME", help='Discard the new branch after this time: 1h, "3 days", tomorrow.')
@click.option("--contains", **_COMMIT, help="List branches that contain a commit; HEAD unless given.")
@click.option("--merged", **_COMMIT, help="List branches merged into a commit; HEAD unless given.")
@click.option("--no-merged", **_COMMIT, help="List branches not merged into a commit.")
@click.option("-v", "--verbose", count=True, help="Also show the commit each branch is at; -vv how far its remote is.")
@click.option("-r", "--remotes", is_flag=True, help="List the branches of remotes.")
@click.option("-a", "--all", "every", is_flag=True, help="List both.")
@click.option("-l", "--list", "listing", is_flag=True, help="List branches; with names or patterns, only those.")
def branch(repo: Repo, screen: Screen, /, *, names: tuple[str, ...], act: str | None, **how: Any) -> None:
    """List branches, make NAME at START (HEAD unless given), or rename or delete branches."""
    chosen = {name: how[name] for name in ("contains", "merged", "no_merged") if how[name] is not None}
    if act == "current":
        screen.lines([repo.branches.current] if repo.branches.current else [])
    elif act in ("delete", "force-delete"):
        _delete(repo, screen, names, force=how["force"] or act == "force-delete")
    elif act in ("rename", "force-rename"):
        _rename(repo, names, force=how["force"] or act == "force-rename")
    elif names and not (how["listing"] or chosen or screen.as_json):
        _make(repo, screen, names, force=how["force"], ttl=how["ttl"])
    else:
        with suggest_revs(repo, next(iter(chosen.values()), "")):
            listed = [one for one in repo.branches.list(**chosen) if not names or paths.is_named(one.name, names)]
        detached = repo.branches.current is None and repo.head and not (names or chosen)
        first = [f"* {screen.paint(f'(HEAD detached at {short(repo.head)})', 'added')}"] if detached else []
        listed = [] if how["remotes"] else listed
        if how["remotes"] or how["every"]:
            followed = [one._replace(name=f"remotes/{one.name}") for one in repo.remotes.branches()]
            listed += [one for one in followed if not names or paths.is_named(one.name.split("/", 1)[1], names)]
        lines = (*first, *_list(repo, screen, listed, verbose=how["verbose"]))
        screen.show({"current": repo.branches.current, "branches": listed}, lines, pages=False)


def _list(repo: Repo, screen: Screen, branches: Sequence[Branch], *, verbose: int) -> Iterator[str]:
    width = max((len(branch.name) for branch in branches), default=0)
    apart = {one.branch: one for one in repo.remotes.compare()} if verbose > 1 else {}
    for branch in sorted(branches, key=lambda branch: branch.name):
        name = screen.clean(branch.name)
        text = f"{'*' if branch.current else ' '} {screen.paint(name, 'added') if branch.current else name}"
        if verbose:
            subject = screen.clean(repo.show(branch.work).commit.subject) if branch.work else ""
            text += " " * (width - len(name)) + (
                f" {short(branch.work)} {_compare(screen, apart.get(branch.name))}{subject}"
                if branch.work
                else " (no commits yet)"
            )
        yield text


def _compare(screen: Screen, found: Apart | None) -> str:
    """How far a branch and the one it is shared with are apart, as git says it."""
    if found is None:
        return ""
    parts = [f"{word} {number}" for word, number in (("ahead", found.ahead), ("behind", found.behind)) if number]
    if found.memories:
        parts.append("memories differ")
    there = screen.paint(screen.clean(f"{found.remote}/{found.branch}"), "id")
    return f"[{there}{': ' if parts else ''}{', '.join(parts)}] "


def _make(repo: Repo, screen: Screen, names: Sequence[str], *, force: bool, ttl: str | None) -> None:
    if len(names) > 2:
        raise Usage("a new branch takes a name and at most one START.")
    start = names[1] if len(names) == 2 else "HEAD"
    if force and ttl:
        raise Usage("--ttl is for a new branch, but -f moves an existing one. Nothing was changed.")
    ends = parse_end(ttl) if ttl else 0
    with suggest_revs(repo, start):
        repo.branches.create(names[0], start, force=force, ttl_seconds=(ends - now()) / 1e6 if ends else None)
    if ends:
        screen.note(f"Branch '{words.clean(names[0])}' will be discarded at {words.stamp(ends)}.")


def _delete(repo: Repo, screen: Screen, names: Sequence[str], *, force: bool) -> None:
    if not names:
        raise Usage("name the branch to delete.")
    for name in names:
        with suggest_revs(repo, name), exit_with(1, NotFound):
            gone = repo.branches.delete(name, force=force)
        screen.line(f"Deleted branch {screen.clean(gone.name)} (was {short(gone.work or gone.memory)}).")


def _rename(repo: Repo, names: Sequence[str], *, force: bool) -> None:
    if len(names) not in (1, 2):
        raise Usage("renaming takes the old name, unless it is the current branch, and the new one.")
    old = names[0] if len(names) == 2 else repo.branches.current
    if old is None:
        raise Usage("HEAD is detached, so name the branch to rename.")
    with suggest_revs(repo, old):
        repo.branches.rename(old, names[-1], force=force)


# -- switch


@verb(shared=[QUIET])
@click.argument("name", metavar="BRANCH", shell_complete=complete_with("branch"))
@click.argument("start", required=False, shell_complete=complete_with("rev"))
@click.option("-c", "--create", is_flag=True, help="Make the branch first, at START or HEAD.")
@click.option(
    "-C", "--force-create", "reset", is_flag=True, help="Like -c, but move a branch of that name if there is one."
)
@click.option("-d", "--detach", is_flag=True, help="Go to a commit without a branch.")
@click.option("-f", "--force", "--discard-changes", "force", is_flag=True, help="Throw away local changes.")
def switch(repo: Repo, screen: Screen, /, *, name: str, start: str | None, quiet: bool, **how: bool) -> None:
    """Go to another branch; - is the previous one. If changes in your files would be lost, it refuses.

    A branch that only a remote has is made here, beginning where that is.
    """
    how["create"] |= how["reset"]
    if start and not how["create"]:
        raise Usage(f"'{start}' is a start, which only -c takes.")
    _go(repo, screen, name, start=start, quiet=quiet, **how)


def _go(repo: Repo, screen: Screen, name: str, *, quiet: bool = False, **how: Any) -> None:
    """Switches, and says on standard error where HEAD is now."""
    before, is_known = repo.branches.current, name in repo.branches
    start, advice = how.pop("start", None), how.pop("advice", "")
    with suggest_revs(repo, start or name):
        repo.switch(name, at=start, **how)
    if not quiet:
        is_made = how["create"] or (not is_known and name in repo.branches)
        made = "" if not is_made else "reset" if is_known else "new"
        screen.note(advice + _arrival(repo, screen, before, made))


def _arrival(repo: Repo, screen: Screen, before: str | None, made: str) -> str:
    here = repo.branches.current
    if here is None:
        return f"HEAD is now at {short(repo.head)} {screen.clean(repo.show('HEAD').commit.subject)}"
    if made == "reset":
        return f"{'Reset' if here == before else 'Switched to and reset'} branch '{words.clean(here)}'"
    if made == "new":
        return f"Switched to a new branch '{words.clean(here)}'"
    return f"{'Already on' if here == before else 'Switched to branch'} '{words.clean(here)}'"


# -- checkout


@contextmanager
def _called_checkout() -> Iterator[None]:
    """Below, going somewhere is `switch`; a person who typed `checkout` reads `checkout` in the error."""
    try:
        yield
    except Conflict as error:
        error.message = re.sub(r"\bswitch (?=would|needs)", "checkout ", error.message, count=1)
        raise


@verb(cls=SplitCommand, shared=[QUIET])
@click.argument("given", nargs=-1, metavar="[BRANCH | REV] [--] [PATH]...", shell_complete=complete_with("rev", "path"))
@click.option("-b", "new", metavar="NAME", help="Make a branch and go to it.")
@click.option("-B", "anew", metavar="NAME", help="Like -b, but move a branch of that name if there is one.")
@click.option("-d", "--detach", is_flag=True, help="Go to a commit without a branch.")
@click.option("-f", "--force", is_flag=True, help="Throw away local changes.")
@_called_checkout()
def checkout(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], new: str | None, anew: str | None, **how: bool
) -> None:
    """Go to a branch or a commit, or bring files back.

    \b
    memlake checkout BRANCH             go to a branch (as switch does)
    memlake checkout REV                go to a commit without a branch
    memlake checkout -b NAME [START]    make a branch and go to it
    memlake checkout REV -- PATH...     files as REV has them
    memlake checkout -- PATH...         files as they are staged
    """
    name, quiet = anew or new, how.pop("quiet")
    if name:
        start = given[0] if given else None
        _go(repo, screen, name, start=start, create=True, reset=bool(anew), quiet=quiet, **how)
        return
    if given[:1] == ("-",):
        _go(repo, screen, "-", create=False, quiet=quiet, **how)
        return
    with exit_with(1, NotFound):
        revs, given_paths = _targets(repo, given)
    if given_paths:
        _restore(repo, screen, revs, given_paths, quiet=quiet)
    elif revs:
        _visit(repo, screen, revs[0], quiet=quiet, **how)
    else:
        raise Usage("name a branch, a revision or paths.")


def _targets(repo: Repo, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """A branch wins over a file of its name, as for git."""
    if after_dashes() is None and given and (given[0] in repo.branches or _is_followed(repo, given[0])):
        return [given[0]], list(given[1:])
    revs, given_paths = split(repo, given)
    if len(revs) > 1:
        raise Usage("checkout takes only one revision.")
    return revs, given_paths


def _is_followed(repo: Repo, name: str) -> bool:
    """Whether only a remote has a branch of this name: going there makes ours."""
    there = any(branch.name.partition("/")[2] == name for branch in repo.remotes.branches())
    return there and not is_rev(repo, name) and not os.path.lexists(name)


def _visit(repo: Repo, screen: Screen, rev: str, *, quiet: bool, detach: bool, force: bool) -> None:
    is_branch = rev in repo.branches or _is_followed(repo, rev)
    if not is_branch and not is_rev(repo, rev):
        with suggest_revs(repo, rev):
            raise NotFound(f"'{rev}' is neither a branch, a revision nor a file here.")
    advise = not is_branch and not detach and repo.branches.current is not None
    advice = f"{_DETACHED.format(rev=words.clean(rev))}\n" if advise else ""
    _go(repo, screen, rev, create=False, detach=detach or not is_branch, force=force, quiet=quiet, advice=advice)


def _restore(repo: Repo, screen: Screen, revs: Sequence[str], given: Sequence[str], *, quiet: bool) -> None:
    source = short(repo.show(revs[0]).commit.oid) if revs else "the stage"
    with exit_with(1, NotFound):
        restored = repo.restore(
            *given, source=revs[0] if revs else None, staged=bool(revs), worktree=True, overlay=True
        )
    if not quiet:
        screen.note(f"Updated {words.count(len(restored), 'path')} from {source}")
