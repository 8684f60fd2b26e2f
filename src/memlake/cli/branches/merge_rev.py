"""Merging one branch and saying how that ended. Loads no click, so that a plain `memlake merge BRANCH` starts fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with, suggest_revs
from memlake.errors import Conflict as Conflicting
from memlake.errors import NotFound, pasted
from memlake.records import Conflict, Merged, short
from memlake.repo import Repo
from memlake.versions.kinds import kind_at
from memlake.views import changes, patches, paths, stats, words
from memlake.views.status import MANY, Inside, list_conflicts, look_inside
from memlake.views.words import clean


def merge_rev(repo: Repo, screen: Screen, rev: str, *, only_ff: bool = False, **how: Any) -> None:
    """Merge a branch or revision into this one; `how` is what `Repo.merge` takes."""
    before = repo.head
    with suggest_revs(repo, rev), exit_with(1, NotFound), exit_with(128 if only_ff else 1, Conflicting):
        merged = repo.merge(rev, only_ff=only_ff, **how)
    if merged.up_to_date and (how.get("metrics") or how.get("params")):
        screen.note("No commit was made, so the metrics and params were not stored.")
    show_merged(repo, screen, merged, before, name=rev)


def show_merged(
    repo: Repo, screen: Screen, merged: Merged, before: str | None, *, name: str = "", quiet: bool = False
) -> None:
    """Say how a merge ended; raises Conflict for one that waits."""
    check(repo, merged, f'merge of "{name or merged.name}" into "{repo.branches.current or "HEAD"}"', "merge")
    if not quiet:
        _show(repo, screen, merged, before)


def check(repo: Repo, merged: Merged, what: str, verb: str, *, note: str = "") -> None:
    """Raises Conflict for a merge that waits, with what to do next."""
    if not merged.conflicts:
        return
    waiting = [conflict for conflict in merged.conflicts if conflict.choice is None]
    before = _say_recalled(merged)
    if not waiting:
        raise Conflicting(
            f"{what} stopped: {before}Nothing is left to choose.\n"
            f"Finish it with `memlake {verb} --continue`, or give up with `memlake {verb} --abort`.\n{note}".rstrip()
        )
    known = [(kind, kind.to_settle(kind.label(one.path))) for one in waiting if (kind := kind_at(one.path)).to_settle]
    numbers = Counter([kind.nouns for kind, _ in known] + [("path", "paths")] * (len(waiting) - len(known)))
    number = " and ".join(words.count(many, *nouns) for nouns, many in numbers.items())
    keep = "".join(f"{advice}\n" for advice in {kind.name: advice for kind, advice in reversed(known)}.values())
    why = "".join(f"{clean(reason)}.\n" for reason in (*merged.reasons, *merged.notes))
    inside = look_inside(repo, waiting)
    steps = _next_steps(repo, waiting, verb, inside=inside)
    raise Conflicting(
        f"{what} stopped: {number} changed on both sides. {before}".rstrip()
        + f"\n{list_conflicts(repo, waiting, inside)}\n{why}{steps}{note}{keep}".rstrip()
    )


def _say_recalled(merged: Merged) -> str:
    if not merged.recalled:
        return ""
    told = ", ".join(f"{paths.display(path)} {clean(place)}".rstrip() for path, place in merged.recalled[:5])
    more = ", ..." if len(merged.recalled) > 5 else ""
    return f"{words.count(len(merged.recalled), 'place was', 'places were')} resolved as before: {told}{more}. "


def _next_steps(repo: Repo, waiting: Sequence[Conflict], verb: str, *, inside: Mapping[str, Inside]) -> str:
    looked = [(_as_typed(repo, one), inside[one.path]) for one in waiting[:MANY] if one.path in inside]
    marked, placed = ([name for name, one in looked if one[field]] for field in (0, 1))
    edit = f"Edit the lines between the markers, then `memlake add {marked[0]}`. " if marked else ""
    if placed:
        edit += f"See the places with `memlake conflicts`, and settle them with `memlake resolve {placed[0]} --ours`.\n"
    name = marked[0] if marked else _as_typed(repo, waiting[0])
    return (
        f"The {verb} is waiting. What merged cleanly is already in your files.\n"
        f"{edit}To take one side as it is: `memlake merge --ours {name}` or `--theirs {name}`.\n"
        f"Then finish with `memlake {verb} --continue`, or give up with `memlake {verb} --abort`.\n"
    )


def _as_typed(repo: Repo, met: Conflict) -> str:
    """What names a conflict in a command: a path from here, the id of a memory, the key of a state value."""
    sides = repo.pending_merge.sides(met)
    if sides is not None:
        return pasted(sides.key or kind_at(met.path).label(met.path))
    return pasted(paths.bare(met.path, paths.here(repo.root)))


def _show(repo: Repo, screen: Screen, merged: Merged, before: str | None) -> None:
    if merged.up_to_date:
        screen.line("Already up to date.")
    elif merged.commit != before or not merged.remembered:
        _show_files(repo, screen, merged, before)
    screen.lines(f"{clean(reason)}." for reason in (*merged.reasons, *merged.notes))
    show_moved(screen, merged)
    show_remembered(screen, merged)


def show_moved(screen: Screen, merged: Merged) -> None:
    """Versions of datasets whose number both sides had used."""
    for there, path in merged.moved.items():
        old, new = (kind_at(one).label(one) for one in (there, path))
        screen.line(f"{old} of {clean(merged.name)} is {new} here.")
    for before, path in merged.yielded.items():
        old, new = (kind_at(one).label(one) for one in (before, path))
        screen.line(f"Your {old} is {new} now: {clean(merged.name)} has another {old}.")


def show_remembered(screen: Screen, merged: Merged) -> None:
    """What changed on the memory lane, which has no files to be shown by."""
    counts = [words.count(number, *kind_at(room).nouns) for room, number in merged.remembered.items()]
    if counts:
        screen.line(f"Memory merged: {', '.join(counts)} changed.")


def _show_files(repo: Repo, screen: Screen, merged: Merged, before: str | None) -> None:
    if merged.fast_forward:
        after = merged.commit or repo.head  # none where there are memories and no files yet
        head = (
            f"Updating {short(before)}..{short(after)}\nFast-forward" if before else f"Fast-forward to {short(after)}"
        )
        screen.line(head if after else "Fast-forward")
    else:
        screen.line(f"Merge made: {short(merged.commit)}")
    rows = changes.rows(merged.changes)
    if len(rows) > MANY:
        screen.line(f" {changes.summary(rows)}")
    else:
        screen.lines(stats.stat(patches.open_view(repo, screen), rows))
