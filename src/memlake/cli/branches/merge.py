"""merge, revert, cherry-pick: joining work, and resolving paths that both sides changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import complete_with, verb
from memlake.cli.branches.conflicts import find_path
from memlake.cli.branches.merge_rev import check, merge_rev, show_moved, show_remembered
from memlake.cli.history.commit import fact_options, made_lines, read_facts
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import InvalidInput, Nothing, Usage, pasted
from memlake.records import Merged, short
from memlake.repo import Repo
from memlake.views import changes, words
from memlake.views.status import list_conflicts

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return complete_with("path" if ctx.params.get("act") in ("ours", "theirs") else "rev")(ctx, param, incomplete)


_conflict = click.option(
    "--conflict",
    type=click.Choice(["merge", "diff3"]),
    help="How to mark conflicts in files; diff3 also shows the common base. Setting: merge.conflict.",
)
_strategy = click.option(
    "-X",
    "--strategy-option",
    "strategy",
    type=click.Choice(["ours", "theirs", "union", "latest", "mean"]),
    callback=lambda _ctx, _param, value: value or "",
    help="Which side to take wherever both changed the same; mean is for vectors.",
)
_mainline = click.option(
    "-m",
    "--mainline",
    type=int,
    metavar="NUMBER",
    help="For a merge commit, the parent (1 or 2) that its changes are compared with.",
)


@verb()
@click.argument("given", nargs=-1, metavar="[REV | PATH...]", shell_complete=_complete)
@click.option("--no-ff", is_flag=True, help="Make a merge commit even if a fast-forward is possible.")
@click.option("--ff-only", is_flag=True, help="Refuse unless a fast-forward is possible.")
@click.option("-m", "--message", "messages", multiple=True, help="The message of the merge commit.")
@click.option("--squash", is_flag=True, help="Make one commit with one parent of what the branch did to files.")
@fact_options
@click.option(
    "--prefer", metavar="METRIC", help="Of what both sides changed, take the side with the better metrics.NAME."
)
@click.option("--margin", type=float, default=0.0, help="With --prefer, decide only if it is better by more than this.")
@click.option("--lower-is-better", is_flag=True, help="With --prefer, the lower value is the better one.")
@_conflict
@_strategy
@click.option("--ours", "act", flag_value="ours", help="Resolve PATH... with our side.")
@click.option("--theirs", "act", flag_value="theirs", help="Resolve PATH... with their side.")
@click.option("--continue", "act", flag_value="continue", help="Finish a merge after every conflict is resolved.")
@click.option("--abort", "act", flag_value="abort", help="Give up a waiting merge.")
def merge(
    repo: Repo, screen: Screen, /, *, given: tuple[str, ...], act: str | None, messages: tuple[str, ...], **how: Any
) -> None:
    """Merge another branch into this one.

    \b
    memlake merge BRANCH
    memlake merge BRANCH --prefer metrics.accuracy
    memlake add PATH...               resolve a conflict with the file as you edited it
    memlake merge --ours PATH...      or with one side of it
    memlake merge --theirs PATH...
    memlake merge --continue          finish a waiting merge; --abort gives it up
    """
    if act in ("ours", "theirs"):
        _choose(repo, screen, act, given)
        return
    message, facts = "\n\n".join(messages) or None, read_facts(how)
    if act:
        finish(repo, screen, act, given, message=message, **facts)
        return
    if how["ff_only"] and (how["no_ff"] or any(facts.values())):
        raise Usage("--ff-only makes no commit, so it cannot be combined with --no-ff, metrics or params.")
    if len(given) != 1:
        raise Usage("name one branch or revision to merge.", hint="See the branches with: memlake branch")
    if how["squash"] and (how["ff_only"] or how["no_ff"]):
        raise Usage("--squash makes one commit with one parent, so it cannot be combined with --no-ff or --ff-only.")
    merge_rev(
        repo, screen, given[0], only_ff=how["ff_only"], ff=not how["no_ff"], message=message,
        conflict=how["conflict"], prefer=how["prefer"], margin=how["margin"], lower_is_better=how["lower_is_better"],
        strategy=how["strategy"], squash=how["squash"], **facts,
    )  # fmt: skip


@verb()
@click.argument("revs", nargs=-1, metavar="[REV | A..B]...", shell_complete=complete_with("rev"))
@click.option("-n", "--no-commit", is_flag=True, help="Stage the inverse changes, but do not commit.")
@_mainline
@_conflict
@_strategy
@click.option("--no-edit", is_flag=True, help="Does nothing, because revert never opens an editor.")
@click.option("--continue", "act", flag_value="continue", help="Finish a waiting revert.")
@click.option("--abort", "act", flag_value="abort", help="Give up a waiting revert.")
def revert(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], act: str | None, **how: Any) -> None:
    """Undo the changes of a commit with a new commit."""
    if act:
        finish(repo, screen, act, revs)
        return
    if not revs:
        raise Usage("name the commit to revert.", hint="For example: memlake revert HEAD")
    meant = _each_rev(repo, revs, newest_first=True)
    for number, rev in enumerate(meant, 1):
        with suggest_revs(repo, rev):
            merged = repo.revert(rev, **{name: value for name, value in how.items() if name != "no_edit"})
        check(repo, merged, f'revert of "{rev}"', "revert", note=_to_come("revert", meant[number:]))
        _show_commit(repo, screen, merged)


@verb("cherry-pick")
@click.argument("revs", nargs=-1, metavar="[REV | A..B]...", shell_complete=complete_with("rev"))
@click.option("-n", "--no-commit", is_flag=True, help="Stage the changes, but do not commit.")
@click.option("-x", "cite", is_flag=True, help="Name the original commit in the message.")
@_mainline
@_conflict
@_strategy
@click.option("--continue", "act", flag_value="continue", help="Finish a waiting cherry-pick.")
@click.option("--abort", "act", flag_value="abort", help="Give up a waiting cherry-pick.")
def cherry_pick(repo: Repo, screen: Screen, /, *, revs: tuple[str, ...], act: str | None, **how: Any) -> None:
    """Apply the changes of a commit to this branch."""
    if act:
        finish(repo, screen, act, revs)
        return
    if not revs:
        raise Usage("name the commit to apply here.", hint="See what another branch has: memlake log BRANCH --oneline")
    meant = _each_rev(repo, revs, newest_first=False)
    for number, rev in enumerate(meant, 1):
        with suggest_revs(repo, rev):
            merged = repo.cherry_pick(rev, **how)
        check(repo, merged, f'cherry-pick of "{rev}"', "cherry-pick", note=_to_come("cherry-pick", meant[number:]))
        _show_commit(repo, screen, merged)


def _each_rev(repo: Repo, revs: Sequence[str], *, newest_first: bool) -> list[str]:
    """Every commit that is meant, those of a range one by one. All are looked up before the first is done."""
    meant: list[str] = []
    for rev in revs:
        with suggest_revs(repo, rev):
            commits = list(repo.log(rev, reverse=not newest_first)) if ".." in rev else [repo.show(rev).commit]
        if not commits:
            raise InvalidInput(
                f"the range {rev!r} is empty. Nothing was changed.",
                hint=f"A..B is what B has and A does not have. See it with: memlake log {pasted(rev)} --oneline",
            )
        meant += [short(commit.oid) for commit in commits] if ".." in rev else [rev]
    return meant


def _to_come(verb: str, revs: Sequence[str]) -> str:
    return f"When it is finished, do the rest with `memlake {verb} {' '.join(revs)}`.\n" if revs else ""


# -- conflicts


def _choose(repo: Repo, screen: Screen, side: str, given: Sequence[str]) -> None:
    if not given:
        raise Usage(f"name the paths to take {side} for.", hint="See the conflicts with: memlake status")
    left = repo.pending_merge.choose(side, *(find_path(repo, one) for one in given))
    verb = repo.status().doing or "merge"
    if left:
        screen.line(f"{words.count(len(left), 'conflict')} left:\n{list_conflicts(repo, left)}")
    else:
        screen.line(f"Every conflict is resolved. Finish with `memlake {verb} --continue`.")


def finish(
    repo: Repo, screen: Screen, act: str, given: Sequence[str], *, message: str | None = None, **facts: Any
) -> None:
    if given:
        raise Usage(f"--{act} does not take arguments.")
    doing, before = repo.status().doing, repo.head
    verb = doing or "merge"
    if act == "abort":
        with exit_with(128, Nothing):
            repo.pending_merge.abort()
        screen.line(f"The {verb} was given up.")
        return
    waiting = [conflict for conflict in repo.pending_merge.conflicts if conflict.choice is None]
    check(repo, Merged(None, conflicts=tuple(waiting)), verb, verb)
    with exit_with(1 if doing else 128, Nothing):  # one that turns out to be empty is 1 for git
        merged = repo.pending_merge.conclude(message, **facts)
    check(repo, merged, verb, verb)
    if verb == "stash apply":
        screen.lines(changes.name_status(row) for row in changes.rows(merged.changes))
    elif merged.commit != before or not merged.remembered:
        _show_commit(repo, screen, merged)
    show_remembered(screen, merged)


# -- what was done


def _show_commit(repo: Repo, screen: Screen, merged: Merged) -> None:
    if merged.commit is None:
        screen.line(f"Staged, not committed: {changes.summary(changes.rows(merged.changes))}")
    else:
        screen.lines(made_lines(repo, screen, repo.show(merged.commit).commit))
    show_moved(screen, merged)
