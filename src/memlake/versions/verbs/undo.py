"""What `undo` needs: the state before each verb of this checkout, and putting it back. Never rewrites history.

A verb runs inside `operation(...)`. It keeps where HEAD, the base and the stage were, which refs the verb moved,
and the content of uncommitted files the verb was asked to throw away. Undo moves the refs back by compare-and-set,
so it refuses when someone else built on them meanwhile.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgpack
import zstandard

from memlake.errors import Conflict, Corrupt, Nothing, pasted
from memlake.objects import tables as object_tables
from memlake.objects.layout import now
from memlake.objects.leases import Keeping
from memlake.objects.writer import Writer
from memlake.records import Change, Commit, Entry, Lane, Staged, when
from memlake.records import Conflict as Conflicting
from memlake.reports import Operation
from memlake.versions.checkout import journal, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.journal import Goal, Plan
from memlake.versions.checkout.local import Local, Tracked
from memlake.versions.history import refs
from memlake.versions.history.append import record
from memlake.versions.history.commits import Draft, History
from memlake.versions.kinds import kind_at
from memlake.versions.operation import Before, Found, Kept, Verb, unpack_state
from memlake.versions.paths import FILES
from memlake.versions.trees import tree
from memlake.versions.trees.codec import LANES

Written = Sequence[tuple[str, str]]  # records that a verb wrote: (branch, commit) in the order they were made
_UNDO = "undo"
_LOOKED_AT = 20  # operations among which one is looked for that a later commit belongs to


@contextlib.contextmanager
def operation(
    here: Checkout,
    name: str,
    detail: str = "",
    *,
    files: bool = False,
    staged: Iterable[Tracked] | None = None,
    found: Found | None = None,
) -> Iterator[Verb]:
    """Keep the state before a verb, once it has succeeded. `staged` when the caller has read the stage already.

    `found` where it staged something first, and `undo` is to bring back what was there before that.
    """
    # Until it is written down what undo needs, only a lease keeps gc from what leaves the stage or the files. A verb
    # that lets go of nothing needs none; a commit names what was staged in its own transaction.
    with Keeping(here.history.db, name) as lease:
        verb = Verb(name, detail, before=_read_state(here, files, staged, found), lease=lease)
        before = verb.before
        if (before.staged or before.conflicts) and not name.startswith(("commit", "branch", "tag")):
            lease.take()
        if name.startswith(("tag", "undo", "redo")):
            before.notes = refs.tag_notes(here.history.db)
        here.local.note_verb(f"{name} {detail}".strip())
        yield verb
        if verb.changed:
            journal.keep(here.local, verb)


def _read_state(here: Checkout, files: bool, staged: Iterable[Tracked] | None, found: Found | None) -> Before:
    local = here.local
    saved = _find_staged_since(local, found.staged) if found and files else {}
    if found is None:
        found = Found(list(local.list_staged().values() if staged is None else staged), local.list_waiting())
    head, doing = local.state("head") or "main", local.state("doing")
    before = Before(head, local.base, staged=found.staged, doing=doing)
    before.conflicts, before.touches_files, before.saved = found.conflicts, files, saved
    return before


def _find_staged_since(local: Local, then: list[Tracked]) -> dict[str, Entry | None]:
    """What files hold that was staged only now: uncommitted content, which undo must leave in them."""
    before, rows = {row.path: row.entry for row in then}, local.list_staged()
    rows |= local.find_tracked(before)
    entries = {path: rows[path].entry if path in rows else None for path in {*before, *rows}}
    return {path: entry for path, entry in entries.items() if path not in before or before[path] != entry}


def has_staged(here: Checkout, verb: Verb, staged: Staged) -> bool:
    """Whether an `add` has changed the stage, or resolved a conflict."""
    before = verb.before
    found = {Change(FILES + row.path, row.old, row.entry) for row in before.staged}
    # The stage is read again only where nothing new came: it may have lost a path whose file is as HEAD has it.
    return (
        not found.issuperset(staged.changes)
        or found != set(here.local.staged_changes())
        or before.conflicts != here.local.list_waiting()
    )


@contextlib.contextmanager
def staging_first(here: Checkout) -> Iterator[Found]:
    """For a verb that stages and then goes on: one operation, and where it fails the stage is what it was."""
    local, base = here.local, here.local.base
    with Keeping(here.history.db, "stage") as keeping:
        found = Found(list(local.list_staged().values()), local.list_waiting())
        if any(found):
            keeping.take()  # what staging replaces is in no stage, and what undo needs is written down later
        try:
            yield found
        except BaseException:
            if local.base == base and journal.find(local) is None:  # else it is done, or is finished later
                with local.db.write():
                    local.unstage(local.list_staged().values())
                    local.put(found.staged)
                    local.put_conflicts(found.conflicts)
            raise


def note(here: Checkout, verb: str, detail: str, written: Sequence[tuple[str, str]]) -> None:
    """Keep the records a verb wrote, as (branch, commit): an operation without HEAD, stage and files."""
    before = Before(here.local.state("head") or "main", None, staged=[], doing=None)
    before.memory = list(written)
    journal.write_operation(here.local, Kept(verb, detail or _describe_written(here.history, written), before))


def list_undone(here: Checkout, verb: str, branch: str, start: str) -> Iterator[str]:
    """Commits on a branch that operations wrote which are taken back, by their verb and how their detail begins."""
    for _, name, detail, _, undone, data in here.local.list_operations():
        if undone and name == verb and detail.startswith(start):
            yield from (oid for at, oid in _unpack_before(data).memory or () if at == branch)


def note_more(here: Checkout, path: str, written: tuple[str, str]) -> None:
    """Let the last operation that wrote this path know of a commit that belongs to it: both are taken back as one."""
    for id, verb, detail, _, _, data in here.local.list_operations(_LOOKED_AT, undone=False):
        before = _unpack_before(data)
        own = [one for one in before.memory or () if path in _list_paths(here.history, one[1])]
        if own:
            # Of those since the first only the last counts: a script may tell thousands of numbers.
            old = {own[-1]} if len(own) > 1 and len(_list_paths(here.history, own[-1][1])) == 1 else set()
            before.memory = [*(one for one in before.memory or () if one not in old), written]
            journal.write_operation(here.local, Kept(verb, detail, before), id)
            return


def _list_paths(history: History, oid: str) -> list[str]:
    return [change.path for change in history.changes(history.get(oid))]


def _describe_written(history: History, written: Sequence[tuple[str, str]]) -> str:
    """What was written, as people name it: never what it says."""
    changes = [change for _, oid in written for change in history.changes(history.get(oid))]
    known = [(one.path, kind_at(one.path).label(one.path)) for one in changes]
    labels = [label for path, label in known if label != path]
    return f"{labels[0]} and {len(labels) - 1} more" if len(labels) > 1 else "".join(labels)


def find_last_id(here: Checkout) -> int:
    """The number of the last operation; those that follow have greater ones."""
    return int((here.local.list_operations(1) or [(0,)])[0][0])


def mark_undone(here: Checkout, since: int, start: str = "") -> None:
    """Let undo pass over the operations after that one whose verb begins so: they are part of something larger."""
    rows = here.local.list_operations(undone=False)
    parts = [(row[0],) for row in rows if row[0] > since and row[1].startswith(start)]
    here.local.db.run_many("UPDATE operation SET undone = 1 WHERE id = ?", parts)


def note_branches(here: Checkout, since: int, said: tuple[str, str], names: Sequence[str]) -> None:
    """Make one operation of all since then, which left these branches and all else as it was before."""
    db = here.history.db
    with here.local.db.write():
        mark_undone(here, since)
        before = Before(here.local.state("head") or "main", here.local.base, staged=[], doing=None)
        for name in names:
            heads = refs.find(db, name) or {}
            moves = [(lane, oid) for lane, oid in heads.items() if oid is not None]
            before.refs += [(refs.BRANCH, name, LANES.index(lane), None, here.history.seq(oid)) for lane, oid in moves]
        if before.refs:
            journal.write_operation(here.local, Kept(*said, before))


def operations(here: Checkout, limit: int) -> list[Operation]:
    rows = here.local.list_operations(limit)
    return [Operation(id, verb, detail, time, bool(undone)) for id, verb, detail, time, undone, _ in rows]


def kept_objects(here: Checkout) -> Iterator[str]:
    """Oids that undo may still need, for gc."""
    states = [_unpack_before(before) for *_, before in here.local.list_operations()]
    if (plan := journal.find(here.local)) is not None and plan.operation is not None:
        states.append(plan.operation.before)
    for before in states:
        staged = (row.entry for row in before.staged)
        yield from conflict_objects(before.conflicts)
        for entry in [*before.saved.values(), *before.left.values(), *staged]:
            if entry is not None:
                yield entry.oid


def conflict_objects(conflicts: Iterable[Conflicting]) -> Iterator[str]:
    """Oids that what waits may still need."""
    for one in conflicts:
        yield from (e.oid for e in (one.base, one.ours, one.theirs, one.chosen, one.written) if e is not None)


def undo(here: Checkout, check: Callable[[Written], None] = lambda _: None) -> Operation:
    """Take back the last operation that is not taken back yet; `check` may refuse it by the records it wrote."""
    row = _find_last(here, "undone = 0 AND verb NOT IN ('undo', 'redo', 'lost')")
    if row is None:
        raise _nothing_to_undo(here)
    check(_unpack_before(row[5]).memory or ())
    return _take_back(here, row, _UNDO, {row[0]: True})


def _nothing_to_undo(here: Checkout) -> Nothing:
    row = object_tables.find_last_tombstone(here.history.db)
    if row is None or operations(here, 1):
        return Nothing("there is nothing to undo.", hint="See what was done with: memlake ops")
    return Nothing(
        f"there is nothing to undo: the purge of {when(row[0]):%Y-%m-%d %H:%M} ({row[1]}) ended the list, so that "
        "nothing of what was erased comes back. Nothing was changed.",
        hint="What was done before it stands. Find a memory to forget or restore with: memlake memory log",
    )


def undo_interrupted(here: Checkout) -> Operation | None:
    """Take back a verb that was interrupted and has not been finished; None when none waits."""
    plan = update.take_back(here.history, here.local, here.root)
    return None if plan is None else Operation(0, "what was interrupted", plan.goal.action, now(), True)


def redo(here: Checkout, check: Callable[[Written], None] = lambda _: None) -> Operation:
    """Take back the last undo that is not taken back yet, if nothing was done since but undo and redo.

    `check` may refuse it, as of `undo`.
    """
    row = _find_last(here, "verb != 'redo' AND NOT (verb = 'undo' AND undone)")
    if row is None or row[1] != _UNDO:
        raise Nothing(
            "there is nothing to redo: no undo is left to take back, or something was done since.",
            hint="See what was done with: memlake ops",
        )
    check(_unpack_before(row[5]).memory or ())
    return _take_back(here, row, "redo", {row[0]: True, int(row[2].split()[0].lstrip("#")): False})


def _find_last(here: Checkout, condition: str) -> tuple[Any, ...] | None:
    return here.local.db.row(
        f"SELECT id, verb, detail, time, undone, before FROM operation WHERE {condition} ORDER BY id DESC LIMIT 1"
    )


def _take_back(here: Checkout, row: tuple[Any, ...], verb: str, undone: Mapping[int, bool]) -> Operation:
    id, done, detail, time, _, data = row
    before = _unpack_before(data)
    if before.memory is not None:
        _take_back_memory(here, before.memory, (verb, f"#{id} {done} {detail}".strip()), undone)
        return Operation(id, done, detail, time, True)
    with operation(here, verb, f"#{id} {done} {detail}".strip(), files=before.touches_files) as mine:
        if before.bisect is not None:
            mine.before.bisect = json.dumps(here.local.json_state("bisect"))
        _restore(here, mine, before, undone)
        if before.bisect is not None:
            here.local.set_state(bisect=None if before.bisect == "null" else before.bisect)
    return Operation(id, done, detail, time, True)


def _take_back_memory(here: Checkout, written: Written, kept: tuple[str, str], undone: Mapping[int, bool]) -> None:
    made = _reverse_records(here, written, " ".join(kept))
    with here.local.db.write():
        here.local.db.run_many("UPDATE operation SET undone = ? WHERE id = ?", [(on, id) for id, on in undone.items()])
        note(here, *kept, made)


# -- taking back records ------------------------------------------------------------------------
#
# By a commit, so that what others wrote since stays. Agents write memories all the time, so a lane's head is rarely
# what a verb left. Only what the verb itself changed is compared: each path must still hold what the verb put there.


def _reverse_records(here: Checkout, written: Written, message: str) -> list[tuple[str, str]]:
    """Undo commits by new ones, one a branch and lane, all or none; returns those."""
    made = []
    lanes = {oid: here.history.get(oid).lane for _, oid in written}
    with here.history.db.write():
        for branch, lane in dict.fromkeys((name, lanes[oid]) for name, oid in written):
            oids = [oid for name, oid in written if name == branch and lanes[oid] == lane]
            edits = _find_open_edits(here.history, branch, oids, lane)
            if edits:
                draft = Draft(lane, edits, here.author, message, now(), {})
                made.append((branch, record(here.history, draft, branch=branch).oid))
    return made


def _find_open_edits(history: History, branch: str, oids: Sequence[str], lane: Lane) -> dict[str, Entry | None]:
    """What is to be written for it; what is so already is left out, after an undo that died half way."""
    then: dict[str, Entry | None] = {}
    left: dict[str, Entry | None] = {}
    for oid in oids:
        for change in history.changes(history.get(oid)):
            then.setdefault(change.path, change.old)
            left[change.path] = change.new
    head = refs.commit_of(history, refs.get(history.db, branch)[lane])
    held = history.entries(head, then)
    edits = {path: entry for path, entry in then.items() if held.get(path) != entry}
    _refuse_changed([path for path in edits if held.get(path) != left[path]], branch)
    return edits


def _refuse_changed(paths: Sequence[str], branch: str) -> None:
    if not paths:
        return
    known = [(kind_at(path).label(path), kind_at(path)) for path in paths if kind_at(path).to_restore]
    label, kind = known[0] if known else ("", kind_at(paths[0]))
    what = f"{kind.nouns[0]} {label} was" if len(known) == 1 else f"{len(paths)} of what it wrote were"
    raise Conflict(
        f"{what} changed again on {branch!r} since; undo would lose that. Nothing was changed.",
        hint=kind.to_restore(label) if known and kind.to_restore else f"See: memlake log {pasted(branch)}",
    )


# -- putting a state back -----------------------------------------------------------------------


def _restore(here: Checkout, verb: Verb, before: Before, undone: Mapping[int, bool]) -> None:
    target = here.history.get(before.base) if before.base else None
    staged = {row.path: row for row in _read_stage_then(here, before)}
    wanted = _find_wanted(here, target, staged)
    writes: list[Change] = []
    ready: update.Contents = {}
    if before.touches_files:
        writes = _find_file_changes(here, wanted, before)
        if before.doing is None and here.local.state("doing") is not None:
            # What began to wait is given up: what was edited to resolve it is no reason to refuse, and redo has it.
            update.refuse_in_the_way(here.root, writes, "undo")
            agreed = save_dirty(here, verb, tuple(writes))
            writes = update.with_held_content(writes, agreed)
        else:
            agreed = update.check_over_stage(here.local, here.root, writes, "undo", before.left)
        ready = update.check_bytes(here, writes)
        was = {change.path.removeprefix(FILES): change.old for change in writes}
        saved = {path: old for path, old in was.items() if path in before.saved or path in before.left} | agreed
        verb.before.saved = saved
        verb.before.left = {path: before.saved[path] for path in saved if path in before.saved}
    goal = Goal(before.base, before.head, "undo", here.who)
    rows = list(_build_rows(here, wanted, staged))
    plan = Plan(goal, journal.new_token(), writes, rows, before.touches_files, before.doing, before.conflicts, undone)
    with journal.move_history(here, verb, plan):
        _move_refs_back(here, verb, before)
    update.carry_out(here, verb, plan, ready)


def _read_stage_then(here: Checkout, before: Before) -> list[Tracked]:
    if before.commit is None:
        return before.staged
    changes = here.history.changes(here.history.get(before.commit))
    return [
        Tracked(c.path.removeprefix(FILES), c.new, None, True, True, c.old) for c in changes if c.path.startswith(FILES)
    ]


def _find_wanted(here: Checkout, target: Commit | None, staged: Mapping[str, Tracked]) -> dict[str, Entry | None]:
    """Path -> entry the stage must show, for every path where it may differ from now."""
    changes = here.history.diff(here.base(), target, FILES)
    wanted = {change.path.removeprefix(FILES): change.new for change in changes}
    for path, row in here.local.list_staged().items():
        wanted.setdefault(path, row.old)
    wanted.update((path, row.entry) for path, row in staged.items())
    return wanted


def _find_file_changes(here: Checkout, wanted: Mapping[str, Entry | None], before: Before) -> list[Change]:
    rows = here.local.find_tracked({*wanted, *before.saved})
    changes = []
    for path in sorted({*wanted, *before.saved}):
        entry = before.saved[path] if path in before.saved else wanted[path]
        current = before.left[path] if path in before.left else rows[path].entry if path in rows else None
        if entry != current:
            changes.append(Change(FILES + path, current, entry))
    return changes


def _build_rows(here: Checkout, wanted: Mapping[str, Entry | None], staged: Mapping[str, Tracked]) -> Iterator[Tracked]:
    now_rows = here.local.find_tracked(wanted)
    for path, entry in wanted.items():
        current = now_rows.get(path)
        same = current is not None and current.entry == entry
        stat, racy = (current.stat, current.racy) if current is not None and same else (None, True)
        then = staged.get(path)
        if then is None:
            yield Tracked(path, entry, stat, racy)
        else:
            yield Tracked(path, entry, stat, racy, True, then.old, then.about)


def _move_refs_back(here: Checkout, verb: Verb, before: Before) -> None:
    """Undo the ref moves of a verb, last first. Compare-and-set: what moved since is not trampled on."""
    history, who = here.history, here.who
    for kind, name, lane_code, old, new in reversed(before.refs):
        lane = LANES[lane_code]
        heads = refs.find(history.db, name, kind)
        old_commit, new_commit = (history.at(seq) if seq is not None else None for seq in (old, new))
        if heads is None:
            heads_then: refs.Heads = {"work": None, "memory": None}
            refs.create(history, name, heads_then, kind=kind, action="undo", who=who, moved=verb.moved)
            heads = heads_then
        current = refs.commit_of(history, heads[lane])
        # Commits since may come to nothing, as memories that were written and taken back do.
        roots = {commit.root if commit else tree.EMPTY.hex() for commit in (current, new_commit)}
        if current != new_commit and not (lane == "memory" and len(roots) == 1):
            raise Conflict(
                f"{name!r} moved since; undo would lose that. Nothing was changed.", hint=_advise_see(name, lane)
            )
        refs.move(history, name, lane, current, old_commit, kind=kind, action="undo", who=who, moved=verb.moved)
    _drop_emptied(here, verb, before)
    refs.set_tag_notes(history.db, {name: before.notes[name] for _, name, *_ in before.refs if name in before.notes})


def _advise_see(name: str, lane: str) -> str:
    if lane == "work":
        return f"See: memlake reflog {pasted(name)}"
    return f"Memories were written there since: memlake memory log --branch {pasted(name)}"


def _drop_emptied(here: Checkout, verb: Verb, before: Before) -> None:
    """A ref the verb created names nothing now: remove it."""
    created = {(kind, name) for kind, name, _, old, _ in before.refs if old is None}
    for kind, name in created:
        heads = refs.find(here.history.db, name, kind)
        if heads is not None and not any(heads.values()) and name != before.head:
            refs.delete(here.history, name, kind=kind, action="undo", who=here.who, moved=verb.moved)


# -- as it is kept ------------------------------------------------------------------------------------


def _unpack_before(data: bytes) -> Before:
    try:
        return unpack_state(data)
    except (
        zstandard.ZstdError,
        msgpack.UnpackException,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise Corrupt(
            "local.db is damaged: what undo needs of an operation cannot be read. Nothing was changed.",
            hint="See what else is damaged with: memlake fsck",
        ) from error


def save_dirty(here: Checkout, verb: Verb, changes: tuple[Change, ...]) -> dict[str, Entry | None]:
    """Store uncommitted content that a verb is about to throw away, so that undo can bring it back."""
    paths = [change.path.removeprefix(FILES) for change in changes]
    saved: dict[str, Entry | None] = {path: None for path in paths if worktree.find_stat(here.root, path) is None}
    there = [path for path in paths if path not in saved and not _is_purged(here, path)]
    if there:
        # Held until undo knows of it, not only until it is stored.
        with Writer(here.history.objects, "save", verb.lease.take()) as writer:
            saved.update((path, worktree.read(here.root, path, writer).entry) for path in there)
            writer.finish()
    return saved


def _is_purged(here: Checkout, path: str) -> bool:
    """Whether a working file still holds what was purged: it may not be stored again, so undo cannot bring it back."""
    objects = here.history.objects
    if not object_tables.has_tombstones(objects.db):
        return False
    return bool(objects.find_purged([worktree.read(here.root, path, None).entry.oid]))
