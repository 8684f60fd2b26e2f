"""merge, revert, cherry-pick: joining work, and choosing where both sides changed the same path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import completing, pass_repo
from memlake.cli.branches.merge_rev import check, merge_rev, show_moved, show_remembered
from memlake.cli.exit_codes import exiting
from memlake.cli.history.commit import fact_options, made_lines, read_facts
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import InvalidInput, Nothing, Usage, pasted
from memlake.records import Conflict, short
from memlake.repo import Repo
from memlake.reports import Merged
from memlake.versions.kinds import kind_at
from memlake.views import changes, words
from memlake.views.status import list_conflicts

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return completing("path" if ctx.params.get("act") in ("ours", "theirs") else "rev")(ctx, param, incomplete)


_conflict = click.option(
    "--conflict",
    type=click.Choice(["merge", "diff3"]),
    help="How files in conflict are marked; diff3 also shows what both had. Setting: merge.conflict.",
)
_mainline = click.option(
    "-m", "--mainline", type=int, metavar="NUMBER", help="Of a merge: the parent its changes are counted from; from 1."
)


@click.command()
@click.argument("given", nargs=-1, metavar="[REV | PATH...]", shell_complete=_complete)
@click.option("--no-ff", is_flag=True, help="Make a merge commit even where a fast-forward would do.")
@click.option("--ff-only", is_flag=True, help="Only if a fast-forward will do.")
@click.option("-m", "--message", "messages", multiple=True, help="The message of the merge commit.")
@fact_options
@_conflict
@click.option("--ours", "act", flag_value="ours", help="Take our side of PATH... whole.")
@click.option("--theirs", "act", flag_value="theirs", help="Take their side of PATH... whole.")
@click.option("--continue", "act", flag_value="continue", help="Finish a merge whose conflicts have choices.")
@click.option("--abort", "act", flag_value="abort", help="Give a waiting merge up.")
@pass_repo
def merge(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], act: str | None, messages: tuple[str, ...], **how: Any
) -> None:
    """Join another branch into this one.

    \b
    memlake merge BRANCH
    memlake add PATH...               take a file in conflict as you edited it
    memlake merge --ours PATH...      or take one side of it whole
    memlake merge --theirs PATH...
    memlake merge --continue          finish a merge that waited; --abort gives it up
    """
    if act in ("ours", "theirs"):
        _choose(repo, screen, act, given)
        return
    message, facts = "\n\n".join(messages) or None, read_facts(how)
    if act:
        finish(repo, screen, act, given, message=message, **facts)
        return
    if how["ff_only"] and (how["no_ff"] or any(facts.values())):
        raise Usage("--ff-only makes no commit; it goes with neither --no-ff nor metrics and params.")
    if len(given) != 1:
        raise Usage("name one branch or revision to merge.", hint="See the branches with: memlake branch")
    merge_rev(
        repo, screen, given[0], ff=not how["no_ff"], only_ff=how["ff_only"], message=message,
        conflict=how["conflict"], **facts,
    )  # fmt: skip


@click.command()
@click.argument("revs", nargs=-1, metavar="[REV | A..B]...", shell_complete=completing("rev"))
@click.option("-n", "--no-commit", is_flag=True, help="Only stage the inverse, make no commit.")
@_mainline
@_conflict
@click.option("--no-edit", is_flag=True, help="Take the usual message; always so.")
@click.option("--continue", "act", flag_value="continue", help="Finish a revert that waited.")
@click.option("--abort", "act", flag_value="abort", help="Give a waiting revert up.")
@pass_repo
def revert(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], act: str | None, **how: Any) -> None:
    """Undo the changes of a commit by a new commit."""
    if act:
        finish(repo, screen, act, revs)
        return
    if not revs:
        raise Usage("name the commit to revert.", hint="For example: memlake revert HEAD")
    meant = _each_rev(repo, revs, newest_first=True)
    for number, rev in enumerate(meant, 1):
        with suggesting(repo, rev):
            merged = repo.revert(rev, no_commit=how["no_commit"], mainline=how["mainline"], conflict=how["conflict"])
        check(repo, merged, f'revert of "{rev}"', "revert", note=_to_come("revert", meant[number:]))
        _show_commit(repo, screen, merged)


@click.command("cherry-pick")
@click.argument("revs", nargs=-1, metavar="[REV | A..B]...", shell_complete=completing("rev"))
@click.option("-n", "--no-commit", is_flag=True, help="Only stage the changes, make no commit.")
@click.option("-x", "cite", is_flag=True, help="Name the commit it comes from in the message.")
@_mainline
@_conflict
@click.option("--continue", "act", flag_value="continue", help="Finish a cherry-pick that waited.")
@click.option("--abort", "act", flag_value="abort", help="Give a waiting cherry-pick up.")
@pass_repo
def cherry_pick(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], act: str | None, **how: Any) -> None:
    """Repeat the changes of a commit here."""
    if act:
        finish(repo, screen, act, revs)
        return
    if not revs:
        raise Usage("name the commit to repeat here.", hint="See what another branch has: memlake log BRANCH --oneline")
    meant = _each_rev(repo, revs, newest_first=False)
    for number, rev in enumerate(meant, 1):
        with suggesting(repo, rev):
            merged = repo.cherry_pick(rev, **how)
        check(repo, merged, f'cherry-pick of "{rev}"', "cherry-pick", note=_to_come("cherry-pick", meant[number:]))
        _show_commit(repo, screen, merged)


def _each_rev(repo: Repo, revs: Sequence[str], *, newest_first: bool) -> list[str]:
    """Every commit meant, those of a range one by one: all of them are known before the first is done."""
    meant: list[str] = []
    for rev in revs:
        with suggesting(repo, rev):
            found = list(repo.log(rev, reverse=not newest_first)) if ".." in rev else [repo.commit_at(rev)]
        if not found:
            raise InvalidInput(
                f"the range {rev!r} holds no commit. Nothing was changed.",
                hint=f"A..B is what B has and A does not have; see it with: memlake log {pasted(rev)} --oneline",
            )
        meant += [short(commit.oid) for commit in found] if ".." in rev else [rev]
    return meant


def _to_come(verb: str, revs: Sequence[str]) -> str:
    return f"Not done yet, for when it is finished: `memlake {verb} {' '.join(revs)}`.\n" if revs else ""


# -- choosing and finishing


def _choose(repo: Repo, screen: Screen, side: str, given: Sequence[str]) -> None:
    if not given:
        raise Usage(f"name the paths to take {side} for.", hint="See them with: memlake status")
    left = repo.pending_merge.choose(side, *(_meant(repo, one) for one in given))
    verb = repo.status().doing or "merge"
    if left:
        screen.line(f"{words.count(len(left), 'conflict')} left:\n{list_conflicts(repo, left)}")
    else:
        screen.line(f"Every conflict has a choice; finish with `memlake {verb} --continue`.")


def _meant(repo: Repo, given: str) -> str:
    """The path of a conflict by its label, by the beginning or the end of an id, or of a state value by its key.

    Anything else is a path, and a file in conflict comes before a key of its name.
    """
    met = repo.pending_merge.conflicts
    if any(one.path == f"files/{given}" for one in met):
        return given
    found = [one.path for one in met if _is_called(repo, one, given)]
    return found[0] if len(found) == 1 else given


def _is_called(repo: Repo, met: Conflict, given: str) -> bool:
    kind = kind_at(met.path)
    label, part = kind.label(met.path), given.lower()
    if label == given or (kind.typed_in_part and len(part) >= 6 and (label.startswith(part) or label.endswith(part))):
        return True
    told = repo.pending_merge.sides(met)
    return told is not None and told.key == given


def finish(
    repo: Repo, screen: Screen, act: str, given: Sequence[str], *, message: str | None = None, **facts: Any
) -> None:
    if given:
        raise Usage(f"--{act} takes no further argument.")
    doing, before = repo.status().doing, repo.head
    verb = doing or "merge"
    if act == "abort":
        with exiting(128, Nothing):
            repo.pending_merge.abort()
        screen.line(f"The {verb} was given up.")
        return
    waiting = [conflict for conflict in repo.pending_merge.conflicts if conflict.choice is None]
    check(repo, Merged(None, conflicts=tuple(waiting)), verb, verb)
    with exiting(1 if doing else 128, Nothing):  # one that turns out to be empty is 1 for git
        merged = repo.pending_merge.conclude(message, **facts)
    check(repo, merged, verb, verb)
    if verb == "stash apply":
        screen.lines(changes.name_status(row) for row in changes.rows(merged.changes))
    elif merged.commit != before or not merged.remembered:
        _show_commit(repo, screen, merged)
    show_remembered(screen, merged)


def _show_commit(repo: Repo, screen: Screen, merged: Merged) -> None:
    if merged.commit is None:
        screen.line(f"Staged, not committed: {changes.summary(changes.rows(merged.changes))}")
    else:
        screen.lines(made_lines(repo, screen, repo.commit_at(merged.commit)))
    show_moved(screen, merged)
