"""rebase: the commits of a branch repeated on another one, with authors, times and facts; the memory lane stays.

New commits are written first, beside the old ones, and nothing names them. Then one journaled checkout moves the branch
and the files, so a rebase is done or not begun, and is one operation for undo. At a conflict, or where somebody wants
to edit, HEAD is detached at the last new commit, the step waits as a merge does, and `doing` in local.db holds what is
left to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memlake.errors import Conflict as ConflictError
from memlake.errors import InvalidInput, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects.leases import Keeping
from memlake.records import Change, Commit, Conflict, Entry, Lane, Merged, short
from memlake.versions.checkout import journal, rev, update
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.journal import Goal, Plan
from memlake.versions.checkout.local import MERGED, Tracked
from memlake.versions.checkout.pending import REBASE, STEPS, Pending, Rebasing, Step, encode
from memlake.versions.history import file_notes, log, merge_trees, refs
from memlake.versions.history.commits import Draft, History
from memlake.versions.history.merge_trees import Making, Outcome
from memlake.versions.operation import Before, Verb
from memlake.versions.paths import FILES, file_path, parents
from memlake.versions.text.merge3 import Names
from memlake.versions.verbs import merge, merge_to_stage, resolve, strategy
from memlake.versions.verbs.branch import refuse_waiting
from memlake.versions.verbs.resolve import get_pending
from memlake.versions.verbs.undo import operation, save_dirty

_SHORT = {command[0]: command for command in STEPS}
_ONTO_LAST = ("squash", "fixup")
_PARTS = ("rebase", "add", "rm", "mv", "restore", "merge --", "resolve")  # operations that are part of a waiting rebase


class Asked(NamedTuple):
    """Which commits go where; `todo` is a list of steps as a person edited it."""

    upstream: str
    branch: str | None = None
    onto: str | None = None
    todo: str | None = None
    with_base: bool = False


class _Stop(NamedTuple):
    """A step that has to wait: its commit, what is sure of it, and on which commit it stands."""

    step: Step
    outcome: Outcome
    pending: Pending


class _Played(NamedTuple):
    """How far the steps went: the last new commit, what is left, and what stopped them."""

    tip: Commit
    state: Rebasing
    stop: _Stop | None = None


# -- what to do -----------------------------------------------------------------------------------


def plan_steps(here: Checkout, asked: Asked) -> Rebasing:
    """What a rebase would do. Reads only."""
    upstream = _resolve(here, asked.upstream)
    onto = _resolve(here, asked.onto) if asked.onto else upstream
    branch = here.local.branch if asked.branch in (None, "HEAD", "@") else asked.branch
    if branch is not None and refs.find(here.history.db, branch) is None:
        if rev.find(here, branch) is None:
            raise rev.describe_unknown(here, branch)
        raise InvalidInput(f"{branch!r} is not a branch, so rebase cannot move it. Nothing was changed.")
    tip = _resolve(here, branch or "HEAD")
    commits = [one for one in log.walk(here.history, [tip], [upstream]) if len(one.parents) < 2][::-1]
    steps = tuple(Step("pick", one.oid, one.subject) for one in commits)
    if asked.todo is not None:
        steps = _parse_todo(here, asked.todo, commits)
    rows = here.local.list_operations(1)
    head = here.local.state("head") or ""
    return Rebasing(
        asked.onto or asked.upstream, head, here.local.base, branch, tip.oid, onto.oid, steps, rows[0][0] if rows else 0
    )


def _resolve(here: Checkout, name: str) -> Commit:
    commit = rev.resolve(here, name)
    if commit.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane; rebase works on files.",
            hint="See the commits that hold files with: memlake log",
        )
    return commit


def _parse_todo(here: Checkout, text: str, commits: Sequence[Commit]) -> tuple[Step, ...]:
    known, steps = {commit.oid: commit for commit in commits}, list[Step]()
    for number, line in enumerate(text.splitlines(), 1):
        command, _, rest = line.strip().partition(" ")
        if not command or command.startswith("#"):
            continue
        name, _, said = rest.strip().partition(" ")
        command = _SHORT.get(command, command)
        if command not in STEPS:
            raise InvalidInput(
                f"line {number} of the list begins with {command!r:.40}. Nothing was changed.",
                hint=f"Begin it with one of: {', '.join(STEPS)}.",
            )
        commit = rev.find(here, name) if name else None
        if commit is None or commit.oid not in known:
            raise NotFound(
                f"line {number} of the list names {name!r:.40}, which is not one of the commits to rebase. "
                "Nothing was changed.",
                hint="Each line is: pick ID SUBJECT",
            )
        if any(commit.oid == step.commit for step in steps):
            raise InvalidInput(
                f"line {number} of the list names commit {short(commit.oid)} again. Nothing was changed."
            )
        if command in _ONTO_LAST and all(step.command == "drop" for step in steps):
            raise InvalidInput(f"line {number} of the list: there is no commit before it to {command} into.")
        steps.append(Step(command, commit.oid, said.strip() or commit.subject))
    return tuple(steps)


def rebase(here: Checkout, asked: Asked) -> Merged:
    """Repeat what a branch has beyond `upstream`, on top of it or of `onto`."""
    refuse_waiting(here, REBASE)
    merge.refuse_staged(here, REBASE)
    state = plan_steps(here, asked)
    with Keeping(here.history.db, REBASE) as keeping:
        keeping.take()  # until the branch, or HEAD, names the new commits
        return _arrive(here, _play(here, here.history.get(state.onto), state, asked.with_base))


def go_on(here: Checkout, message: str | None = None, *, remember: bool = False) -> Merged:
    """Conclude the step that waits, and do the rest."""
    pending, state = _get_rebase(here)
    answers = resolve.list_answers(here) if remember else []
    chosen = {(one.path, one.ours, one.theirs): one for one in merge.list_chosen(here, pending)}
    tip = _get_tip(here)
    outcome = _merge_step(here, tip, state.todo[0])
    conflicts = tuple(chosen.get((one.path, one.ours, one.theirs), one) for one in outcome.conflicts)
    decided = merge_trees.apply_choices(here.history, conflicts)
    both: dict[Lane, Outcome] = {"work": outcome, "memory": Outcome({}, ())}
    edits = merge.collect_edits(here, pending, merge.Given(), both, decided)["work"]
    merge.refuse_clash(here, REBASE, tip, edits)
    with Keeping(here.history.db, REBASE) as keeping:
        keeping.take()
        tip, state = _apply(here, (tip, state), outcome._replace(edits=edits), message)
        merged = _arrive(here, _play(here, tip, state, pending.names.base))
    resolve.remember(here, answers)
    return merged


def skip(here: Checkout) -> Merged:
    """Leave out the step that waits, and do the rest; what was edited to resolve it is kept for undo."""
    pending, state = _get_rebase(here)
    state = state._replace(todo=state.todo[1:], dropped=(*state.dropped, state.todo[0].commit))
    with Keeping(here.history.db, REBASE) as keeping:
        keeping.take()
        return _arrive(here, _play(here, _get_tip(here), state, pending.names.base), force=True)


def abort(here: Checkout) -> None:
    """Give it up: HEAD, the stage and the files are as they were before it."""
    _, state = _get_rebase(here)
    base = refs.commit_of(here.history, state.base)
    is_there = state.head.startswith("@") or refs.find(here.history.db, state.head) is not None
    place = _Place(base, state.head if is_there else f"@{state.base}", "rebase (abort)")
    _go_to(here, ("rebase --abort", state.name), place, force=True)


def _get_rebase(here: Checkout) -> tuple[Pending, Rebasing]:
    pending = get_pending(here)
    if pending.rebase is None:
        refuse_waiting(here, REBASE)
    assert pending.rebase is not None
    return pending, pending.rebase


def _get_tip(here: Checkout) -> Commit:
    tip = here.head()
    assert tip is not None, "a rebase waits on a detached HEAD"
    return tip


# -- new commits ----------------------------------------------------------------------------------


def _play(here: Checkout, tip: Commit, state: Rebasing, with_base: bool) -> _Played:
    """Do steps until one has to wait. Writes commits that nothing names yet."""
    while state.todo:
        step = state.todo[0]
        target = here.history.get(step.commit)
        if step.command == "pick" and target.parents == (tip.oid,):
            tip, state = target, state._replace(todo=state.todo[1:])  # it stands there already
            continue
        outcome = Outcome({}, ()) if step.command == "drop" else _merge_step(here, tip, step)
        if outcome.conflicts or step.command == "edit":
            names = Names("HEAD", merge.short_name(target), with_base)
            parent = target.parents[0] if target.parents else None
            pending = Pending(
                REBASE, short(target.oid), names, message=target.message, target=target.oid, parent=parent,
                rebase=state, merged=sum(not path.startswith(FILES) for path in outcome.edits),
            )  # fmt: skip
            return _Played(tip, state, _Stop(step, outcome, pending))
        tip, state = _apply(here, (tip, state), outcome)
    return _Played(tip, state)


def _merge_step(here: Checkout, tip: Commit, step: Step) -> Outcome:
    history, target = here.history, here.history.get(step.commit)
    parent = refs.commit_of(history, target.parents[0] if target.parents else None)
    ours, theirs = history.root(tip), history.root(target)
    settle = strategy.make_settle(here, Pending(REBASE, step.text, Names("", ""), target=target.oid), tip)
    merged = merge_trees.merge_roots(history, history.root(parent), ours, theirs, settle=settle)
    return strategy.settle_paths(history, merge_trees.join_kinds(history, merged, ours, theirs), settle)


def _apply(
    here: Checkout, so_far: tuple[Commit, Rebasing], outcome: Outcome, message: str | None = None
) -> tuple[Commit, Rebasing]:
    """The commit that the first step makes of the tip, and what is left then."""
    (tip, state), history = so_far, here.history
    step, rest = state.todo[0], state._replace(todo=state.todo[1:])
    target = history.get(step.commit)
    joins = step.command in _ONTO_LAST and tip.oid != state.onto
    is_empty = not history.plan(tip, outcome.edits).changes
    if step.command == "drop" or (is_empty and step.command != "squash" and history.changes(target)):
        return tip, rest._replace(dropped=(*state.dropped, target.oid))
    if is_empty and joins and step.command == "fixup":
        return tip, rest._replace(dropped=(*state.dropped, target.oid))
    outcome.store(history, outcome.edits.values())
    below = refs.commit_of(history, tip.parents[0] if tip.parents else None) if joins else tip
    edits = {**({change.path: change.new for change in history.changes(tip)} if joins else {}), **outcome.edits}
    with history.db.write():
        meta = _join_facts(here, tip, target) if joins else _keep_facts(target)
        said = message or _write_message(step, tip, target, joins=joins)
        draft = Draft("work", edits, (tip if joins else target).author, said, (tip if joins else target).time, meta)
        other = refs.commit_of(history, history.find_other(tip if joins else target))
        made = history.append(draft, (below,) if below else (), other)
    rewritten = {old: made.oid if joins and new == tip.oid else new for old, new in state.rewritten.items()}
    return made, rest._replace(rewritten={**rewritten, target.oid: made.oid})


def _write_message(step: Step, tip: Commit, target: Commit, *, joins: bool) -> str:
    if step.command == "reword":
        return "\n".join((step.text, *target.message.split("\n")[1:]))
    if not joins:
        return target.message
    return tip.message if step.command == "fixup" else f"{tip.message.rstrip()}\n\n{target.message}"


def _keep_facts(commit: Commit) -> dict[str, str]:
    return {name: oid for name, oid in commit.meta.items() if name != "changes"}


def _join_facts(here: Checkout, first: Commit, second: Commit) -> dict[str, str]:
    """The facts of two commits that become one; of one name, the later value. Call inside a write."""
    ours, theirs, objects = _keep_facts(first), _keep_facts(second), here.history.objects
    for name in ours.keys() & theirs.keys():
        old, new = objects.read(ours[name]), objects.read(theirs[name])
        if name == "about":
            theirs[name] = objects.write(
                file_notes.encode({**file_notes.decode(old), **file_notes.decode(new)}.items())
            )
            continue
        joined = _join_values(json.loads(old), json.loads(new))
        links = [use["oid"] for use in joined if use.get("oid")] if isinstance(joined, list) else []
        theirs[name] = objects.write(json.dumps(joined, sort_keys=True, separators=(",", ":")).encode(), links=links)
    return ours | theirs


def _join_values(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(one for one in new if one not in old)]
    return new


# -- where it ends, or waits ------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a checkout goes: the commit, HEAD, and of a step that waits what is staged and in conflict."""

    commit: Commit | None
    head: str
    action: str
    doing: Pending | None = None
    edits: Mapping[str, Entry | None] = MappingProxyType({})
    conflicts: tuple[Conflict, ...] = ()


def _arrive(here: Checkout, played: _Played, *, force: bool = False) -> Merged:
    tip, state, stop = played
    ended = Merged(None, name=state.name, rewritten=state.rewritten, dropped=state.dropped)
    if stop is not None:
        place = _make_waiting(here, tip, stop)
        changes = _go_to(here, (REBASE, f"{state.name} (waiting)"), place, force=force)
        return ended._replace(changes=changes, conflicts=place.conflicts)
    waited = here.local.find_pending() is not None
    if tip.oid == state.tip and not waited and state.head == (state.branch or state.head):
        return ended._replace(commit=tip.oid, up_to_date=True)
    place = _Place(tip, state.branch or f"@{tip.oid}", f"rebase {state.name}: finished")

    def move_branch(verb: Verb) -> None:
        if state.branch is not None and tip.oid != state.tip:
            old = here.history.get(state.tip)
            refs.move(here.history, state.branch, "work", old, tip, action=place.action, who=here.who, moved=verb.moved)

    _refuse_moved(here, state)
    changes = _go_to(here, (REBASE, state.name), place, force=force, moves=move_branch, whole=state if waited else None)
    forward = not state.rewritten and not state.dropped
    return ended._replace(commit=tip.oid, fast_forward=forward, changes=changes)


def _refuse_moved(here: Checkout, state: Rebasing) -> None:
    heads = refs.find(here.history.db, state.branch) if state.branch else None
    if state.branch and (heads is None or heads["work"] != state.tip):
        raise ConflictError(
            f"branch {state.branch!r} was moved or removed since the rebase began. Nothing was changed.",
            hint="Give the rebase up with: memlake rebase --abort" if here.local.find_pending() else "Run it again.",
        )


def _is_blocked(history: History, tip: Commit, met: Conflict) -> bool:
    """As in `merge_to_stage`, where the stage is the tip: what only they have cannot stand beside what is there."""
    if met.ours is not None:
        return False
    return bool(history.entries(tip, parents(met.path))) or any(history.scan(tip, f"{met.path}/"))


def _make_waiting(here: Checkout, tip: Commit, stop: _Stop) -> _Place:
    """The place where a step waits; what its files are to hold is stored."""
    history, outcome = here.history, stop.outcome
    making, met = Making(history, outcome.made), {one.path for one in outcome.conflicts}
    held = history.entries(tip, met)
    rows = {file_path(path): Tracked(file_path(path), entry) for path, entry in held.items() if path.startswith(FILES)}
    conflicts = tuple(
        one
        if _is_blocked(history, tip, one)
        else one._replace(
            written=merge_to_stage.mark_conflict(making, one, rows, stop.pending.names, half=outcome.half)
        )
        for one in outcome.conflicts
    )
    edits = {path: entry for path, entry in outcome.edits.items() if path.startswith(FILES) and path not in met}
    named = [*edits.values(), *(e for one in conflicts for e in (one.base, one.ours, one.theirs, one.written))]
    outcome._replace(made=making.made).store(history, named)
    return _Place(tip, f"@{tip.oid}", f"rebase {stop.pending.name}: waiting", stop.pending, edits, conflicts)


def _go_to(
    here: Checkout,
    said: tuple[str, str],
    place: _Place,
    *,
    force: bool,
    moves: Callable[[Verb], None] | None = None,
    whole: Rebasing | None = None,
) -> tuple[Change, ...]:
    """Bring HEAD, the stage and the files to a place, journaled. Uncommitted work stops it, or is saved for undo.

    `whole`: it ends a rebase that waited, so that undo is to go back to before all of it.
    """
    found = _Files.at(here, place)
    changes = found.list_changes(here, force=force)
    if not force:
        merge.refuse_edited(here, REBASE, changes)
        agreed = update.check_over_stage(here.local, here.root, changes, REBASE, found.left)
    else:
        update.refuse_in_the_way(here.root, changes, REBASE)
    ready = update.check_bytes(here, changes)
    with operation(here, *said, files=True) as verb:
        saved = save_dirty(here, verb, changes) if force else agreed
        was_edited = force and any(entry != found.now[path] for path, entry in saved.items())
        # Edits that are thrown away come back only where they were made: in the step that waits.
        undone = _take_whole(here, verb, whole) if whole and not was_edited else {}
        verb.before.saved |= {} if undone and force else saved
        verb.before.left = {path: entry for path, entry in found.marked.items() if entry is not None}
        writes = update.with_held_content(changes, verb.before.saved)
        goal = Goal(place.commit.oid if place.commit else None, place.head, place.action, here.who)
        waiting = [
            Conflict(path, None, found.at_commit.get(path), None, MERGED, e, e) for path, e in place.edits.items()
        ]
        doing = encode(place.doing) if place.doing else None
        plan = Plan(goal, "", writes, found.list_rows(), True, doing, (*place.conflicts, *waiting), undone)
        if moves is not None:
            plan = plan._replace(token=journal.new_token())
            with journal.move_history(here, verb, plan):
                moves(verb)
        update.carry_out(here, verb, plan, ready)
    return tuple(Change(c.path, c.old, c.new) for c in changes)


def _take_whole(here: Checkout, verb: Verb, state: Rebasing) -> dict[int, bool]:
    """Let undo of this operation go back to before the rebase; returns what is part of it and is not undone apart."""
    verb.before = Before(state.head, state.base, staged=[], doing=None)
    verb.before.touches_files = True
    rows = here.local.list_operations(undone=False)
    return {id: True for id, name, *_ in rows if id > state.since and name.startswith(_PARTS)}


class _Files(NamedTuple):
    """The files that differ between a checkout and a place: what is tracked now, and what is to be."""

    now: dict[str, Entry | None]  # by path: what the files hold, as far as it is known
    at_commit: dict[str, Entry]  # by tree path
    staged: dict[str, Entry | None]
    marked: Mapping[str, Entry | None]
    left: Mapping[str, Entry | None]

    @classmethod
    def at(cls, here: Checkout, place: _Place) -> _Files:
        left = {file_path(one.path): one.written for one in here.local.conflicts() if one.written and not one.choice}
        staged = {file_path(path): entry for path, entry in place.edits.items()}
        marked = {
            file_path(one.path): one.written for one in place.conflicts if one.written and one.path.startswith(FILES)
        }
        paths = {file_path(change.path) for change in here.history.diff(here.base(), place.commit, FILES)}
        paths |= {*here.local.list_staged(), *staged, *marked}
        paths |= {file_path(one.path) for one in here.local.list_waiting() if one.path.startswith(FILES)}
        rows = here.local.find_tracked(paths)
        now = {
            path: left[path] if path in left else rows[path].entry if path in rows else None for path in sorted(paths)
        }
        return cls(now, here.history.entries(place.commit, [FILES + path for path in now]), staged, marked, left)

    def get_wanted(self, path: str) -> Entry | None:
        """What the stage is to have."""
        return self.staged[path] if path in self.staged else self.at_commit.get(FILES + path)

    def list_changes(self, here: Checkout, *, force: bool) -> tuple[Change, ...]:
        """The files to write; with `force` also those that were edited."""
        wanted = {path: self.marked[path] if path in self.marked else self.get_wanted(path) for path in self.now}
        return tuple(
            Change(FILES + path, self.now[path], entry)
            for path, entry in wanted.items()
            if (not merge_to_stage.holds_entry(here, path, entry) if force else self.now[path] != entry)
        )

    def list_rows(self) -> list[Tracked]:
        rows = []
        for path in self.now:
            entry, old = self.get_wanted(path), self.at_commit.get(FILES + path)
            rows.append(
                Tracked(path, entry, None, True, True, old) if entry != old else Tracked(path, entry, None, True)
            )
        return rows
