"""merge, revert and cherry-pick: one shape, `edits on top of ours`, with conflicts that wait until chosen.

While something waits, the stage and the working files hold as much of it as is sure (`merge_to_stage`), and no ref
moves. When nothing is left to choose, one transaction moves both lanes of the branch, and a journaled checkout follows.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from memlake.errors import Conflict as ConflictError
from memlake.errors import InvalidInput, NotFound, Nothing, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects.layout import now
from memlake.objects.leases import Keeping
from memlake.records import Author, Change, Commit, Conflict, Entry, Lane, Merged, count, short
from memlake.versions.checkout import journal, rev, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.journal import Goal, Plan
from memlake.versions.checkout.local import MERGED
from memlake.versions.checkout.pending import CHERRY_PICK, MERGE, REVERT, Pending
from memlake.versions.history import log, merge_trees, refs
from memlake.versions.history.append import Facts, encode_facts, write_facts
from memlake.versions.history.bases import is_ancestor, merge_bases
from memlake.versions.history.commits import Draft, Planned
from memlake.versions.history.merge_trees import Outcome, Settle
from memlake.versions.kinds import kind_at
from memlake.versions.operation import Found, Verb
from memlake.versions.paths import FILES, file_path, matches, plain
from memlake.versions.text.merge3 import Names
from memlake.versions.trees.codec import LANES
from memlake.versions.verbs import merge_to_stage, resolve, strategy
from memlake.versions.verbs.branch import heads_at, refuse_waiting
from memlake.versions.verbs.resolve import get_pending
from memlake.versions.verbs.undo import operation

_TRAILER = re.compile(r"[A-Za-z0-9-]+: |\(cherry picked from commit ")
_TO = {"revert": "take back", "cherry-pick": "repeat"}
_TRIES = 5
_MOST_TOLD = 100  # commits that the message of a squash names
Edits = dict[Lane, dict[str, Entry | None]]
Heads = dict[Lane, Commit | None]


class _Moved(ConflictError):
    """Another wrote to the branch since it was compared."""


class Case(NamedTuple):
    """A merge into a branch, for whoever judges it: what comes to the work lane, and what both sides changed."""

    branch: str | None
    name: str  # of what comes, as it was typed
    ours: Commit | None
    theirs: Commit
    edits: Mapping[str, Entry | None]  # what is clean
    conflicts: tuple[Conflict, ...]
    facts: Facts
    places: Mapping[str, int] = MappingProxyType({})  # of conflicts that are joined but for some places: how many


class Verdict(NamedTuple):
    """The conflicts, some of them with a choice now, and by path why it was made or could not be."""

    conflicts: tuple[Conflict, ...]
    reasons: Mapping[str, str]
    inside: Set[str] = frozenset()  # paths whose choice is for their open places alone


class Given(NamedTuple):
    """What the verb brings along that local.db does not keep: whom kinds ask to note on what comes, what was staged."""

    owner: Any = None
    found: Found | None = None
    judge: Callable[[Case], Verdict] | None = None  # may refuse a merge, and choose for conflicts
    recall: bool = False  # settle what was settled before as it was then


class How(NamedTuple):
    """How a branch is joined."""

    ff: bool = True
    only_ff: bool = False
    message: str | None = None
    with_base: bool = False  # markers show what both sides had before, too
    given: Given = Given()
    facts: Facts = MappingProxyType({})
    strategy: str = ""
    squash: bool = False


class Conclusion(NamedTuple):
    """What is said when something that waited is concluded."""

    message: str | None = None
    author: Author | None = None
    facts: Facts = MappingProxyType({})
    given: Given = Given()


def merge_rev(here: Checkout, name: str, how: How) -> Merged:
    """Join another branch (both its lanes, or squashed its files alone) into the one we are on."""
    refuse_waiting(here, "merge")
    strategy.check_strategy(how.strategy, MERGE)
    encode_facts(how.facts)  # refused before anything is done
    theirs = _find_theirs(here, name)
    if how.squash:
        theirs = {**theirs, "memory": None}
    # A detached HEAD has no memory lane to move.
    lanes = {lane: _compare_lane(here, lane, theirs[lane]) for lane in (LANES if here.local.branch else LANES[:1])}
    if all(state == "same" for state in lanes.values()):
        return Merged(here.local.base, up_to_date=True)
    refuse_staged(here, "merge")
    _refuse_unrelated(here, name, theirs["work"])
    if (how.facts or how.squash or not how.ff) and theirs["work"] and here.head() is None:
        raise InvalidInput(
            f"branch {here.local.branch!r} has no commits yet: a merge commit needs two sides. Nothing was changed.",
            hint=f"Begin it where {name!r} is: memlake merge {pasted(name)}",
        )
    if how.only_ff and "diverged" in lanes.values():
        raise ConflictError(
            f"{name!r} cannot be fast-forwarded: both sides have commits of their own. Nothing was changed.",
            hint=f"Merge it with: memlake merge {pasted(name)}",
        )
    into = "" if here.local.branch in (None, "main") else f" into {here.local.branch}"
    title = f"{'Squash' if how.squash else 'Merge'} {_kind_and_name(here, name)}{into}"
    pending = Pending(
        MERGE,
        name,
        Names(_our_name(here), name, how.with_base),
        said="merge --squash" if how.squash else "",
        message=how.message or (_list_squashed(here, title, theirs["work"]) if how.squash else title),
        theirs=theirs["work"],
        theirs_memory=theirs["memory"],
        ff=how.ff and not how.facts and not how.squash,  # only a commit of its own can have facts
        facts=how.facts,
        strategy=how.strategy,
        squash=how.squash,
    )
    return try_merge(here, pending, how.given)


def _list_squashed(here: Checkout, title: str, oid: str | None) -> str:
    """The title and what is squashed, oldest first: later nothing else says so."""
    theirs, ours = refs.commit_of(here.history, oid), here.head()
    commits = list(log.walk(here.history, [theirs] if theirs else [], [ours] if ours else []))
    told = [f"- {commit.subject}" for commit in reversed(commits[:_MOST_TOLD])]
    more = [f"- and {len(commits) - _MOST_TOLD:,} before them"] if len(commits) > _MOST_TOLD else []
    return "\n".join((title, "", *more, *told))


def _refuse_unrelated(here: Checkout, name: str, oid: str | None) -> None:
    """Two beginnings of files have nothing to compare. Memories may begin anew on each branch."""
    ours, theirs = here.head(), refs.commit_of(here.history, oid)
    if ours is not None and theirs is not None and not merge_bases(here.history, ours, theirs):
        raise InvalidInput(
            f"{name!r} and HEAD have no commit in common: they are unrelated histories. Nothing was changed.",
            hint=f"Take single commits over with: memlake cherry-pick {pasted(name)}",
        )


def _find_theirs(here: Checkout, name: str) -> refs.Heads:
    if refs.find(here.history.db, name) is None:
        rev.resolve(here, name)  # raises if there is no such rev
    heads = heads_at(here, name)
    if not any(heads.values()):
        raise NotFound(
            f"branch {name!r} has no commits yet, so there is nothing to merge. Nothing was changed.",
            hint="See what the branches have: memlake branch -v",
        )
    return heads


def _compare_lane(here: Checkout, lane: Lane, oid: str | None) -> str:
    """same (nothing to take), ahead (fast-forward) or diverged."""
    theirs, ours = refs.commit_of(here.history, oid), here.head(lane)
    if theirs is None or (ours is not None and is_ancestor(here.history, theirs, ours)):
        return "same"
    if ours is None or is_ancestor(here.history, ours, theirs):
        return "ahead"
    return "diverged"


def _kind_and_name(here: Checkout, name: str) -> str:
    kinds = (("branch", refs.BRANCH), ("tag", refs.TAG), ("remote-tracking branch", refs.REMOTE))
    kind = next((word for word, kind in kinds if refs.find(here.history.db, name, kind)), "commit")
    return f"{kind} '{name}'"


def _our_name(here: Checkout) -> str:
    return here.local.branch or "HEAD"


def short_name(commit: Commit) -> str:
    """A commit as a marker names it, in one line."""
    return f"{short(commit.oid)} ({' '.join(commit.subject.split())[:60]})"


class Picking(NamedTuple):
    """How a commit is repeated or taken back: committed or only staged, against which parent, naming its source."""

    commit: bool = True
    mainline: int | None = None
    cite: bool = False
    with_base: bool = False
    strategy: str = ""
    recall: bool = False


def revert(here: Checkout, name: str, how: Picking) -> Merged:
    """A new commit that undoes what a commit changed against its parent."""
    target, parent = _find_single(here, name, REVERT, how)
    against = f", reversing\nchanges made to {parent}" if len(target.parents) > 1 else ""
    message = f'Revert "{target.subject}"\n\nThis reverts commit {target.oid}{against}.'
    names = Names(_our_name(here), f"parent of {short_name(target)}", how.with_base)
    said = REVERT if how.commit else f"{REVERT} --no-commit"
    pending = Pending(REVERT, name, names, said, message, target=target.oid, parent=parent, commit=how.commit)
    return try_merge(here, pending._replace(strategy=how.strategy), Given(recall=how.recall))


def cherry_pick(here: Checkout, name: str, how: Picking) -> Merged:
    """A new commit that does here what a commit did there."""
    target, parent = _find_single(here, name, CHERRY_PICK, how)
    message = _cite_source(target) if how.cite else target.message
    names = Names(_our_name(here), short_name(target), how.with_base)
    said = CHERRY_PICK if how.commit else f"{CHERRY_PICK} --no-commit"
    pending = Pending(CHERRY_PICK, name, names, said, message, target=target.oid, parent=parent, commit=how.commit)
    return try_merge(here, pending._replace(strategy=how.strategy), Given(recall=how.recall))


def _cite_source(target: Commit) -> str:
    """The message with where it came from, in the paragraph of its trailers if it has one."""
    above, _, last = target.message.rstrip().rpartition("\n\n")
    trailers = above and all(_TRAILER.match(line) for line in last.splitlines())
    return f"{target.message.rstrip()}\n{'' if trailers else chr(10)}(cherry picked from commit {target.oid})"


def _find_single(here: Checkout, name: str, verb: str, how: Picking) -> tuple[Commit, str | None]:
    """The commit meant, and the parent its changes are counted from."""
    refuse_waiting(here, verb)
    strategy.check_strategy(how.strategy, verb)
    if how.commit:
        refuse_staged(here, verb)
    target = rev.resolve(here, name)
    if target.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane; {verb} works on files.",
            hint="See the commits that hold files with: memlake log",
        )
    parent = _choose_parent(target, verb, how.mainline)
    if not how.commit:
        _refuse_records(verb, name, here.history.diff(refs.commit_of(here.history, parent), target))
    return target, parent


def _refuse_records(verb: str, name: str, changes: tuple[Change, ...]) -> None:
    others = [change.path for change in changes if not change.path.startswith(FILES)]
    if others:
        raise InvalidInput(
            f"{verb} --no-commit of {name} would stage {others[0]!r}, and the stage holds files alone. "
            "Nothing was changed.",
            hint=f"Make a commit of it: memlake {verb} {pasted(name)}",
        )


def _choose_parent(target: Commit, verb: str, mainline: int | None) -> str | None:
    parents = target.parents
    if len(parents) > 1 and mainline is None:
        listed = "\n".join(f"  -m {number}  against {short(oid)}" for number, oid in enumerate(parents, 1))
        raise InvalidInput(
            f"commit {short(target.oid)} is a merge: say against which parent, with -m. Nothing was changed.\n{listed}",
            hint=f"To {_TO[verb]} what the merge brought: memlake {verb} -m 1 {short(target.oid)}",
        )
    if mainline is not None and not 1 <= mainline <= len(parents):
        raise InvalidInput(
            f"commit {short(target.oid)} has no parent {mainline}; it has {len(parents)}. Nothing was changed.",
            hint="See them with: memlake log --graph --oneline",
        )
    return parents[(mainline or 1) - 1] if parents else None


def refuse_staged(here: Checkout, verb: str) -> None:
    staged = here.local.list_staged()
    if staged:
        raise ConflictError(
            f"{verb} needs an empty stage; {count(len(staged), 'path is', 'paths are')} staged. Nothing was changed.",
            hint="Put them aside: memlake stash\nOr commit them: memlake commit -m MESSAGE",
        )


# -- one attempt, from the beginning or after choices ---------------------------------------------


def try_merge(here: Checkout, pending: Pending, given: Given, chosen: tuple[Conflict, ...] = ()) -> Merged:
    """Bring what is pending, again where the branch moved meanwhile; with conflicts that have no choice, it waits."""
    with Keeping(here.history.db, pending.verb) as keeping:
        keeping.take()  # joined texts are stored before they are named
        for left in reversed(range(_TRIES)):
            with contextlib.suppress(_Moved) if left else contextlib.nullcontext():
                merged = _attempt(here, pending, given, chosen)
                break
    return resolve.settle_known(here, merged) if given.recall and not chosen else merged


def _attempt(here: Checkout, pending: Pending, given: Given, chosen: tuple[Conflict, ...]) -> Merged:
    ours: Heads = {lane: here.head(lane) for lane in LANES}
    settle = strategy.make_settle(here, pending)
    merged = _merge_lanes(here, pending, settle)
    outcome = {lane: strategy.settle_paths(here.history, merged[lane], settle) for lane in LANES}
    choices = {(conflict.path, conflict.ours, conflict.theirs): conflict for conflict in chosen}

    def apply_chosen(found: Iterable[Conflict]) -> tuple[Conflict, ...]:
        return tuple(choices.get((one.path, one.ours, one.theirs), one) for one in found)

    conflicts = apply_chosen(conflict for lane in LANES for conflict in outcome[lane].conflicts)
    verdict = _judge(here, pending, given, outcome["work"], conflicts)
    making = merge_to_stage.open_making(here, pending, outcome["work"].made)
    outcome["work"], judged = strategy.settle_inside(making, outcome["work"], settle, verdict.conflicts, verdict.inside)
    still_open = {one.path for one in judged if one.path in verdict.inside and one.choice is None}
    reasons = {path: reason for path, reason in verdict.reasons.items() if path not in still_open}
    pending = pending._replace(reasons={**pending.reasons, **reasons})
    conflicts = apply_chosen(judged)
    if any(conflict.choice is None for conflict in conflicts):
        return _wait(here, pending, given, outcome, conflicts)
    if not pending.commit:
        return _stage_only(here, pending, outcome["work"])
    edits = collect_edits(here, pending, given, outcome, merge_trees.apply_choices(here.history, conflicts))
    kept = [reason for one in conflicts if _is_why(reason := pending.reasons.get(one.path, ""), one)]
    if kept:
        pending = pending._replace(message="\n".join((pending.message.rstrip(), "", *kept)))
    done = _conclude(here, pending, _Ready(ours, outcome, edits), given)._replace(reasons=tuple(kept))
    name = _kind_and_name(here, pending.name).replace("'", "")
    moved, yielded = outcome["work"].moved, outcome["work"].yielded
    return done._replace(moved=moved, yielded=yielded, name=name, notes=_list_notes(outcome["work"]))


def _list_notes(outcome: Outcome) -> tuple[str, ...]:
    return tuple(f"{plain(path)}: {note}" for path, notes in sorted(outcome.notes.items()) for note in notes)


def _wait(
    here: Checkout, pending: Pending, given: Given, outcome: dict[Lane, Outcome], conflicts: tuple[Conflict, ...]
) -> Merged:
    """Let the merge wait for choices. What was chosen already is put into the files after the markers."""
    paths = {conflict.path for conflict in conflicts}
    clean = [path for lane in LANES for path in outcome[lane].edits if path not in paths]
    pending = pending._replace(merged=sum(not path.startswith(FILES) for path in clean))
    sides = {one.path: one for one in conflicts if _is_why(pending.reasons.get(one.path, ""), one)}
    waiting = tuple(
        one._replace(choice=None, chosen=None, places={}) if one.path in sides else one for one in conflicts
    )
    _, waiting = merge_to_stage.write_merge(here, pending, outcome["work"], waiting, found=given.found)
    if decided := [sides[one.path]._replace(written=one.written) for one in waiting if one.path in sides]:
        outcome["work"].store(here.history, [one.chosen for one in decided])
        merge_to_stage.take_sides(here, decided, (f"{pending.verb} --prefer", pending.name))
    notes = _list_notes(outcome["work"])
    return Merged(None, conflicts=here.local.conflicts(), reasons=tuple(pending.reasons.values()), notes=notes)


def _judge(
    here: Checkout, pending: Pending, given: Given, outcome: Outcome, conflicts: tuple[Conflict, ...]
) -> Verdict:
    """Let a merge be refused, and conflicts be decided, by whoever knows why."""
    theirs = refs.commit_of(here.history, pending.theirs)
    if given.judge is None or pending.verb != MERGE or theirs is None:
        return Verdict(conflicts, {})
    if _compare_lane(here, "work", theirs.oid) == "same":
        return Verdict(conflicts, {})
    case = Case(
        here.local.branch, pending.name, here.head(), theirs, outcome.edits, conflicts, pending.facts,
        strategy.count_places(outcome),
    )  # fmt: skip
    return given.judge(case)


def _is_why(reason: str, conflict: Conflict) -> bool:
    """Whether the choice is still the one that a reason was given for: a person may have chosen otherwise since."""
    name, sides = plain(conflict.path), set(conflict.places.values())
    if conflict.choice == "file":
        return len(sides) == 1 and reason.startswith(f"{name}: {sides.pop()} at ")
    return reason.startswith(f"{name}: {conflict.choice},")


def _stage_only(here: Checkout, pending: Pending, outcome: Outcome) -> Merged:
    refuse_clash(here, pending.verb, here.base(), {**_read_stage(here), **outcome.edits})
    changes = merge_to_stage.find_changes(here, outcome.edits)
    if not changes and not pending.is_stash:
        raise Nothing(
            f"{pending.verb} of {pending.name} changes nothing here: it is done already.",
            hint="See: memlake diff --cached",
        )
    changes, _ = merge_to_stage.write_merge(here, pending, outcome)
    return Merged(None, changes=changes)


def _read_stage(here: Checkout) -> dict[str, Entry | None]:
    return {FILES + row.path: row.entry for row in here.local.list_staged().values()}


def _merge_lanes(here: Checkout, pending: Pending, settle: Settle) -> dict[Lane, Outcome]:
    history, nothing = here.history, Outcome({}, ())
    if pending.verb == MERGE:
        theirs, yields = _heads_of(here, pending), _yields(here, pending)
        ours = {lane: here.head(lane) for lane in LANES}
        return {
            lane: merge_trees.merge_commits(history, ours[lane], theirs[lane], settle, yields=yields)
            if theirs[lane]
            else nothing
            for lane in LANES
        }
    base, our_root, their_root = merge_to_stage.find_roots(here, pending)
    outcome = merge_trees.merge_roots(history, base, our_root, their_root, settle=settle)
    return {"work": merge_trees.join_kinds(history, outcome, our_root, their_root), "memory": nothing}


def _yields(here: Checkout, pending: Pending) -> bool:
    """Whether what comes is our branch as it was pushed: the names in it are known to others, and ours are not yet."""
    remote, _, branch = pending.name.partition("/")
    db = here.history.db
    is_tracked = refs.find(db, pending.name) is None and refs.find(db, pending.name, refs.REMOTE) is not None
    return bool(remote) and is_tracked and branch == here.local.branch


def _heads_of(here: Checkout, pending: Pending) -> Heads:
    """What a merge brings, one commit a lane."""
    commits = (refs.commit_of(here.history, oid) for oid in (pending.theirs, pending.theirs_memory))
    return dict(zip(LANES, commits, strict=True))


class _Ready(NamedTuple):
    """A merge without an open choice: the heads it was computed on, what came out, what is to be written."""

    ours: Heads
    outcome: dict[Lane, Outcome]
    edits: Edits


def _conclude(here: Checkout, pending: Pending, ready: _Ready, given: Given) -> Merged:
    verb, head, edits = pending.verb, here.head(), ready.edits
    refuse_clash(here, verb, head, edits["work"])
    planned = here.history.plan(head, edits["work"])
    if (verb != MERGE or pending.squash) and not planned.changes:
        raise _end_empty(here, pending)
    writes = _files_to_write(here, head, planned.changes)
    refuse_edited(here, verb, writes)
    agreed = update.check_over_stage(here.local, here.root, writes, verb)
    for lane in LANES:
        ready.outcome[lane].store(here.history, edits[lane].values())
    contents = update.check_bytes(here, writes)
    with operation(here, pending.title, pending.name, files=True, found=given.found) as under_way:
        under_way.before.saved |= agreed
        goal = Goal(None, here.local.branch or "@", f"{verb} {pending.name}", here.who)
        with journal.move_history(here, under_way, Plan(goal, journal.new_token(), writes)) as moved:
            commit, fast = _move_lanes(here, under_way, pending, planned, ready)
            moved.commit = commit.oid if commit else None
        how = "fast-forward" if fast else "made by merge" if verb == MERGE and not pending.squash else "applied"
        goal = goal._replace(commit=moved.commit, action=f"{goal.action}: {how}")
        if head is not None and head == here.base() and commit is not None and commit.root == planned.root.hex():
            arriving = tuple(change for change in planned.changes if change.path.startswith(FILES))
        else:
            arriving = here.history.diff(here.base(), commit, FILES)
        update.move_to(here, under_way, goal, arriving, ready=contents, writes=writes)
    remembered = Counter(path.split("/", 1)[0] for path in edits["memory"])
    return Merged(commit.oid if commit else None, fast_forward=fast, changes=planned.changes, remembered=remembered)


def commit_edits(here: Checkout, pending: Pending, edits: Mapping[str, Entry | None], head: Commit | None) -> Merged:
    """One commit of edits of the work lane on top of a head, if the branch is still there; the files follow."""
    with Keeping(here.history.db, pending.verb) as keeping:
        keeping.take()
        outcome: dict[Lane, Outcome] = {lane: Outcome({}, ()) for lane in LANES}
        ours: Heads = {"work": head, "memory": here.head("memory")}
        return _conclude(here, pending, _Ready(ours, outcome, {"work": dict(edits), "memory": {}}), Given())


def collect_edits(
    here: Checkout, pending: Pending, given: Given, outcome: dict[Lane, Outcome], decided: dict[str, Entry | None]
) -> Edits:
    """What to write on each lane: what was merged, what was chosen, and of files what is staged."""
    edits: Edits = {
        lane: {**outcome[lane].edits, **{path: entry for path, entry in decided.items() if kind_at(path).lane == lane}}
        for lane in LANES
    }
    for kind in here.history.kinds.values() if pending.verb == MERGE and here.local.branch else ():
        theirs = pending.theirs if kind.lane == "work" else pending.theirs_memory
        if kind.arriving and edits[kind.lane] and _compare_lane(here, kind.lane, theirs) == "diverged":
            edits[kind.lane] = kind.arriving(given.owner, edits[kind.lane])
    merged = {one.path: one.chosen for one in here.local.list_waiting() if one.choice == MERGED}
    rows = here.local.find_tracked(map(file_path, merged))
    held = {path: rows[file_path(path)].entry if file_path(path) in rows else None for path in merged}
    # As it was left by the merge, the branch may have moved under it since; otherwise a person changed it.
    edits["work"].update({path: entry for path, entry in held.items() if entry != merged[path]})
    own = {path: entry for path, entry in _read_stage(here).items() if path not in decided and path not in merged}
    edits["work"].update(own)
    return edits


def _end_empty(here: Checkout, pending: Pending) -> Nothing:
    """The error for a pick that would be an empty commit; one that waited is ended by it."""
    verb, name = pending.verb, pending.name
    if here.local.state("doing") is None:
        return Nothing(f"{verb} of {name} changes nothing here: it is done already.", hint="See: memlake log --oneline")
    with operation(here, f"{verb} (empty)", name):
        here.local.clear_doing()
    return Nothing(
        f"{verb} of {name} is empty: with what was chosen, nothing of it is left to commit. No commit was made, and "
        f"the {verb} is over.",
        hint="To choose again: memlake undo",
    )


def _files_to_write(here: Checkout, head: Commit | None, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Files that do not hold yet what the new commit has; also what came to the branch since they were checked out."""
    new = {c.path: c.new for c in (*here.history.diff(here.base(), head, FILES), *changes) if c.path.startswith(FILES)}
    return merge_to_stage.find_changes(here, new)


def refuse_edited(here: Checkout, verb: str, writes: tuple[Change, ...]) -> None:
    """Work done while it waited: it cannot be stashed or committed apart now, but taken or dropped."""
    if here.local.state("doing") and (edited := update.unsafe_paths(here.local, here.root, writes, over_stage=True)):
        listed, name = "\n".join(f"  {path}" for path in edited[:10]), worktree.path_as_typed(here.root, edited[0])
        raise ConflictError(
            f"{verb} would overwrite files edited while it waited:\n{listed}\nNothing was changed.",
            hint=f"Take the file as it is: memlake add {name}\nOr drop the edit: memlake restore {name}",
        )


def refuse_clash(here: Checkout, verb: str, on: Commit | None, edits: Mapping[str, Entry | None]) -> None:
    if clash := here.history.find_clash(on, edits):
        one, other = map(plain, clash)
        raise ConflictError(
            f"{verb} cannot keep both {one!r} and {other!r}: one is the other's folder. Nothing was changed.",
            hint=f"Choose the other side for one of them, or drop it: memlake {verb} --abort",
        )


def _move_lanes(
    here: Checkout, under_way: Verb, pending: Pending, work: Planned, ready: _Ready
) -> tuple[Commit | None, bool]:
    """Both lanes in one transaction; a lane whose other side is simply ahead is fast-forwarded.

    Returns the commit of the files, and whether they were fast-forwarded (memories, where only those moved).
    """
    branch, is_merge, is_fast = here.local.branch, pending.verb == MERGE, list[bool]()
    theirs = _heads_of(here, pending)
    with here.history.db.write():
        result = here.head()
        # What was merged is the branch as it was then: a save since may hold a number that was free.
        if ready.ours["work"] != result or _meets_memory(here, ready):
            raise _Moved(
                f"the branch moved while {pending.verb} was at work. Nothing was changed.", hint="Run it again."
            )
        for lane in LANES:
            head, other = here.head(lane), theirs[lane]
            if is_merge and (other is None or _compare_lane(here, lane, other.oid) == "same"):
                continue
            if lane == "memory" and (not is_merge or branch is None):
                continue
            fast = (
                is_merge
                and pending.ff
                and _compare_lane(here, lane, other.oid if other else None) == "ahead"
                and (lane == "memory" or not _adds_to(here, other, work))
            )
            parents = tuple(commit for commit in (head, None if pending.squash else other) if commit is not None)
            planned = work if lane == "work" or fast else here.history.plan(parents[0], ready.edits["memory"])
            new = other if fast else _commit(here, pending, lane, parents, planned)
            is_fast.append(fast)
            if branch is not None:
                action = f"{pending.verb} {pending.name}"
                refs.move(here.history, branch, lane, head, new, action=action, who=here.who, moved=under_way.moved)
            result = new if lane == "work" else result
    return result, is_fast[:1] != [False]


def _adds_to(here: Checkout, theirs: Commit | None, planned: Planned) -> bool:
    """Whether somebody staged more than what they have while it waited: that is in no commit of theirs."""
    return bool(here.local.list_waiting()) and planned.root != here.history.root(theirs)


def _meets_memory(here: Checkout, ready: _Ready) -> bool:
    """Whether a memory written since is one that the merge writes too, or stands in its way.

    Others do not count: agents write all the time, and a merge that they stopped would never end.
    """
    history, then, head, memory = here.history, ready.ours["memory"], here.head("memory"), ready.edits["memory"]
    if then == head or not memory:
        return False
    return any(change.path in memory for change in history.diff(then, head)) or bool(history.find_clash(head, memory))


def _commit(here: Checkout, pending: Pending, lane: Lane, parents: tuple[Commit, ...], planned: Planned) -> Commit:
    meta = write_facts(here.history.objects, pending.facts) if lane == "work" else {}
    draft = Draft(lane, planned.edits, pending.author or here.author, pending.message, now(), meta)
    return here.history.append(draft, parents, here.head("memory" if lane == "work" else "work"), planned)


# -- choosing -------------------------------------------------------------------------------------


def choose(here: Checkout, side: str, paths: tuple[str, ...]) -> tuple[Conflict, ...]:
    """Settle conflicts with one side; returns what is still open."""
    get_pending(here)
    conflicts = here.local.conflicts()
    _check_side(here, side, [conflict for conflict in conflicts if not paths or matches(conflict.path, paths)])
    known = {conflict.path for conflict in conflicts}
    for path in paths:
        if not any(matches(other, (path,)) for other in known):
            listed = "  ".join(plain(other) for other in sorted(known)[:5])
            raise NotFound(f"{plain(path)!r} is not in conflict. Nothing was changed.", hint=f"In conflict: {listed}")
    # A folder or pattern means what is still open there; a choice already made is changed by its own name.
    meant = [c for c in conflicts if not paths or c.path in paths or (c.choice is None and matches(c.path, paths))]
    chosen = [conflict._replace(choice=side, chosen=None, places={}) for conflict in meant]
    named = " ".join(path.removeprefix(FILES) for path in paths)
    merge_to_stage.take_sides(here, chosen, (f"merge --{side}", named))
    return tuple(conflict for conflict in here.local.conflicts() if conflict.choice is None)


def mark_again(here: Checkout, paths: tuple[str, ...]) -> tuple[Change, ...]:
    """Put what the merge wrote into files of conflicts back into them; their choices are open again."""
    get_pending(here)
    meant = [one for one in here.local.conflicts() if one.written is not None and matches(one.path, paths)]
    for path in paths:
        if not any(matches(one.path, (path,)) for one in meant):
            raise NotFound(
                f"{plain(path)!r} has no conflict that was written to its file. Nothing was changed.",
                hint="See what is in conflict with: memlake status",
            )
    return resolve.open_again(here, meant)


def _check_side(here: Checkout, side: str, meant: list[Conflict]) -> None:
    """Both can be kept only of a kind that somebody knows how to keep twice."""
    kinds = {entry.kind for one in meant for entry in (one.ours, one.theirs) if entry is not None}
    if side not in ("ours", "theirs") and not (side == "both" and all(here.history.kinds[k].settle for k in kinds)):
        raise InvalidInput(f"a conflict has no side {side!r}.", hint="Choose ours or theirs.")


def conclude_pending(here: Checkout, said: Conclusion) -> Merged:
    """Conclude what waits, once every conflict has a choice. Only then are choices remembered: it may be given up."""
    pending = get_pending(here)
    conflicts = list_chosen(here, pending)
    judged = {one.path for one in conflicts if _is_why(pending.reasons.get(one.path, ""), one)}
    answers = resolve.list_answers(here, apart=judged) if said.given.recall else []
    merged = _conclude_pending(here, said, pending, conflicts)
    resolve.remember(here, answers)
    return merged


def _conclude_pending(here: Checkout, said: Conclusion, pending: Pending, conflicts: tuple[Conflict, ...]) -> Merged:
    if not pending.commit:
        return Merged(None, changes=merge_to_stage.end_in_stage(here, pending))
    encode_facts(said.facts)
    # What was said when it began and what is said now; of one name, the later value.
    facts: dict[str, Any] = {
        name: {**pending.facts.get(name, {}), **said.facts.get(name, {})} for name in ("metrics", "params")
    }
    pending = pending._replace(
        message=said.message or pending.message,
        author=said.author or here.author,
        facts={**facts, "uses": said.facts.get("uses", [])},
    )
    return try_merge(here, pending, said.given, conflicts)


def list_chosen(here: Checkout, pending: Pending) -> tuple[Conflict, ...]:
    """The conflicts of what waits; refused while one has no choice."""
    conflicts = here.local.conflicts()
    still_open = [conflict.path for conflict in conflicts if conflict.choice is None]
    if still_open:
        raise ConflictError(
            f"{pending.verb} is still waiting: {count(len(still_open), 'path')} without a choice:\n  "
            + "\n  ".join(map(plain, still_open[:10])),
            hint=_how_to_choose(here, still_open[0]),
        )
    return conflicts


def _how_to_choose(here: Checkout, path: str) -> str:
    is_file = path.startswith(FILES)
    name = worktree.path_as_typed(here.root, plain(path)) if is_file else pasted(path)
    by_hand = f"Edit it, then: memlake add {name}\nOr take one side whole" if is_file else "Take one side"
    return f"{by_hand}: memlake merge --ours {name}, or --theirs {name}"


def abort(here: Checkout) -> None:
    """Give up what waits: the stage and the files are as they were before it."""
    merge_to_stage.give_up(here, get_pending(here))
