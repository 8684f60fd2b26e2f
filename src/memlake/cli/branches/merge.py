"""merge, revert, cherry-pick: joining work, and choosing where both sides changed the same path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memlake.cli.arguments import completing, pass_repo
from memlake.cli.exit_codes import exiting
from memlake.cli.history.commit import fact_options, made_lines, read_facts
from memlake.cli.screen import Screen
from memlake.cli.suggest import suggesting
from memlake.errors import Conflict as Conflicting
from memlake.errors import InvalidInput, NotFound, Nothing, Usage, pasted
from memlake.records import Conflict, short
from memlake.repo import Repo
from memlake.reports import Merged
from memlake.versions.kinds import kind_at
from memlake.views import changes, patches, paths, words
from memlake.views.status import MANY, is_marked, list_conflicts
from memlake.views.words import clean

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
    before = repo.head
    with suggesting(repo, given[0]), exiting(1, NotFound), exiting(128 if how["ff_only"] else 1, Conflicting):
        ff, only_ff = not how["no_ff"], how["ff_only"]
        merged = repo.merge(given[0], ff=ff, only_ff=only_ff, message=message, conflict=how["conflict"], **facts)
    if merged.up_to_date and any(facts.values()):
        screen.note("No commit was made, so the metrics and params are not kept.")
    check(repo, merged, f'merge of "{given[0]}" into "{repo.branch_name or "HEAD"}"', "merge")
    _show(repo, screen, merged, before)


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


# -- conflicts


def check(repo: Repo, merged: Merged, what: str, verb: str, *, note: str = "") -> None:
    """A merge that waits is an error that says how to go on."""
    if not merged.conflicts:
        return
    waiting = [conflict for conflict in merged.conflicts if conflict.choice is None]
    known = [(kind, kind.to_settle(kind.label(one.path))) for one in waiting if (kind := kind_at(one.path)).to_settle]
    numbers = Counter([kind.nouns for kind, _ in known] + [("path", "paths")] * (len(waiting) - len(known)))
    number = " and ".join(words.count(many, *nouns) for nouns, many in numbers.items())
    keep = "".join(f"{advice}\n" for advice in {kind.name: advice for kind, advice in reversed(known)}.values())
    raise Conflicting(
        f"{what} stopped: {number} changed on both sides.\n{list_conflicts(repo, waiting)}\n"
        f"{_next_steps(repo, waiting, verb)}{note}{keep}".rstrip()
    )


def _next_steps(repo: Repo, waiting: Sequence[Conflict], verb: str) -> str:
    marked = [_as_typed(repo, one) for one in waiting if is_marked(one)]
    edit = f"Edit the lines between the markers, then `memlake add {marked[0]}`. " if marked else ""
    name = marked[0] if marked else _as_typed(repo, waiting[0])
    return (
        f"The {verb} is waiting; what merged cleanly is in your files already.\n"
        f"{edit}To take one side whole: `memlake merge --ours {name}` or `--theirs {name}`.\n"
        f"Then `memlake {verb} --continue`; or `memlake {verb} --abort`.\n"
    )


def _as_typed(repo: Repo, met: Conflict) -> str:
    """What names a conflict in a command: a path from here, the id of a memory, the key of a state value."""
    told = repo.pending_merge.sides(met)
    if told is not None:
        return pasted(told.key or kind_at(met.path).label(met.path))
    return pasted(paths.bare(met.path, paths.here(repo.root)))


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
    met = repo.conflicts()
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
    waiting = [conflict for conflict in repo.conflicts() if conflict.choice is None]
    check(repo, Merged(None, conflicts=tuple(waiting)), verb, verb)
    with exiting(1 if doing else 128, Nothing):  # one that turns out to be empty is 1 for git
        merged = repo.pending_merge.conclude(message, **facts)
    check(repo, merged, verb, verb)
    if verb == "stash apply":
        screen.lines(changes.name_status(row) for row in changes.rows(merged.changes))
    elif merged.commit != before or not merged.remembered:
        _show_commit(repo, screen, merged)
    _show_remembered(screen, merged)


# -- what was done


def _show(repo: Repo, screen: Screen, merged: Merged, before: str | None) -> None:
    if merged.up_to_date:
        screen.line("Already up to date.")
    elif merged.commit != before or not merged.remembered:
        _show_files(repo, screen, merged, before)
    _show_moved(screen, merged)
    _show_remembered(screen, merged)


def _show_moved(screen: Screen, merged: Merged) -> None:
    """Versions of datasets whose number both sides had given."""
    for there, path in merged.moved.items():
        old, new = (kind_at(one).label(one) for one in (there, path))
        screen.line(f"{old} of {clean(merged.name)} is {new} here.")


def _show_remembered(screen: Screen, merged: Merged) -> None:
    """What came to the memory lane: it has no files to be shown by."""
    said = [words.count(number, *kind_at(room).nouns) for room, number in merged.remembered.items()]
    if said:
        screen.line(f"Memory merged: {', '.join(said)} changed.")


def _show_files(repo: Repo, screen: Screen, merged: Merged, before: str | None) -> None:
    if merged.fast_forward:
        after = merged.commit or repo.head  # none where there are memories and no files yet
        began = (
            f"Updating {short(before)}..{short(after)}\nFast-forward" if before else f"Fast-forward to {short(after)}"
        )
        screen.line(began if after else "Fast-forward")
    else:
        screen.line(f"Merge made: {short(merged.commit)}")
    rows = changes.rows(merged.changes)
    if len(rows) > MANY:
        screen.line(f" {changes.summary(rows)}")
    else:
        screen.lines(patches.stat(patches.open_view(repo, screen), rows))


def _show_commit(repo: Repo, screen: Screen, merged: Merged) -> None:
    if merged.commit is None:
        screen.line(f"Staged, not committed: {changes.summary(changes.rows(merged.changes))}")
    else:
        screen.lines(made_lines(repo, screen, repo.commit_at(merged.commit)))
    _show_moved(screen, merged)
