"""A merge that is no commit, or none yet: what is sure of it in the stage and the files, and markers where it is not.

`--no-commit` and `stash apply` end here. A merge with conflicts waits here: everything that is clean is in the stage
and the files already, and a row of local.db says of each path what it was and what it became, so that no later verb
has to compute the merge again, and giving it up finds everything it changed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from memlake.errors import Conflict as ConflictError
from memlake.records import Change, Commit, Conflict, Entry, MergeHow
from memlake.versions.checkout import journal, update, worktree
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.local import MERGED, Tracked
from memlake.versions.checkout.pending import MERGE, REVERT, Pending, encode
from memlake.versions.history import merge_trees, refs
from memlake.versions.history.merge_trees import Made, Making, Outcome, Roots
from memlake.versions.kinds import Joined
from memlake.versions.operation import Found
from memlake.versions.paths import FILES, file_path, parents
from memlake.versions.text.lines import LARGEST, find_text
from memlake.versions.text.merge3 import OPEN, Names, mark_text
from memlake.versions.trees.codec import from_hex
from memlake.versions.verbs import stage
from memlake.versions.verbs.undo import operation, save_dirty

Edits = Mapping[str, Entry | None]
Conflicts = tuple[Conflict, ...]


def stage_root(here: Checkout) -> bytes:
    """The tree the stage shows."""
    edits = {FILES + row.path: row.entry for row in here.local.list_staged().values()}
    planned = here.history.plan(here.base(), edits)
    here.history.nodes.remember(planned.nodes)
    return planned.root


def find_roots(here: Checkout, pending: Pending) -> Roots:
    """The trees of files that what is pending joins."""
    history = here.history
    if pending.verb == MERGE:
        theirs = refs.commit_of(history, pending.theirs)
        return merge_trees.find_base(history, here.head(), theirs), history.root(here.head()), history.root(theirs)
    target = history.get(pending.target or "")
    then = root_without(here, target, pending.lost) if pending.lost else history.root(target)
    parent = history.root(refs.commit_of(history, pending.parent))
    ours = history.root(here.head()) if pending.commit else stage_root(here)
    return (then, ours, parent) if pending.verb == REVERT else (parent, ours, then)


def open_making(here: Checkout, pending: Pending, made: Mapping[str, Made] = MappingProxyType({})) -> Making:
    """For joining again what is pending. The trees are found only if somebody looks beside a path."""
    return Making(here.history, made, find_roots=functools.cache(lambda: find_roots(here, pending)))


def write_merge(
    here: Checkout, pending: Pending, outcome: Outcome, conflicts: Conflicts = (), *, found: Found | None = None
) -> tuple[tuple[Change, ...], Conflicts]:
    """Write the files that differ and set the rows that say so; journaled, so that a crash leaves no half of it.

    With conflicts it waits from now on. Returns what changed and the conflicts, with what their files hold.
    """
    making, is_stash = Making(here.history, outcome.made), pending.is_stash
    rows = here.local.find_tracked(file_path(path) for path in (*outcome.edits, *(one.path for one in conflicts)))
    conflicts = tuple(
        one
        if one.choice or _is_blocked(here, one)
        else one._replace(written=mark_conflict(making, one, rows, pending.names, half=outcome.half))
        for one in conflicts
    )
    met = {one.path for one in conflicts}
    edits = {path: entry for path, entry in outcome.edits.items() if path.startswith(FILES) and path not in met}
    changes = _find_file_changes(rows, edits)
    marked = _find_file_changes(
        rows, {one.path: one.written for one in conflicts if one.written and one.choice is None}
    )
    agreed = _check_safe(here, pending.verb, (*changes, *marked), conflicts)
    detail = f"{pending.name} (waiting)" if conflicts else pending.name
    with operation(here, pending.title, detail, files=True, found=found) as verb:
        before = verb.before
        named = [
            *edits.values(),
            *(entry for one in conflicts for entry in (one.base, one.ours, one.theirs, one.written)),
        ]
        outcome._replace(made=making.made).store(here.history, named)
        ready = update.check_bytes(here, (*changes, *marked))
        # The stage knows neither the markers nor what a stash puts into the files.
        unstaged = (*changes, *marked) if is_stash else marked
        before.saved |= agreed | save_dirty(here, verb, unstaged)
        before.left = {file_path(change.path): change.new for change in unstaged}
        new_rows = _index_rows(here, pending, changes) if is_stash else _staged_rows(here, edits)
        writes = update.with_held_content((*changes, *marked), before.saved)
        plan = journal.plan_in_place(here.local, here.who, writes, new_rows)._replace(doing=None)
        if conflicts:
            clean = [Conflict(c.path, None, c.old, None, MERGED, c.new, c.new) for c in changes]
            # Such a file was deleted by hand, or held already what it becomes: giving up leaves it so.
            held = {FILES + path: entry is not None for path, entry in agreed.items()}
            plan = plan._replace(
                doing=encode(pending._replace(held={**held, **pending.held})), conflicts=(*conflicts, *clean)
            )
        elif pending.drop:
            plan = plan._replace(token=journal.new_token())
            with journal.move_history(here, verb, plan):
                action = "stash: popped"
                refs.delete(
                    here.history, pending.drop, kind=refs.INTERNAL, action=action, who=here.who, moved=verb.moved
                )
        update.carry_out(here, verb, plan, ready)
    return changes, conflicts


def find_changes(here: Checkout, edits: Edits) -> tuple[Change, ...]:
    """Which files are not tracked yet as they are to become."""
    files = {path: entry for path, entry in edits.items() if path.startswith(FILES)}
    return _find_file_changes(here.local.find_tracked(map(file_path, files)), files)


def _find_file_changes(rows: Mapping[str, Tracked], edits: Edits) -> tuple[Change, ...]:
    """What is to become of files, from what is tracked of them now."""
    now = {path: rows[file_path(path)].entry if file_path(path) in rows else None for path in edits}
    return tuple(Change(path, now[path], edits[path]) for path in sorted(edits) if now[path] != edits[path])


def _check_safe(here: Checkout, verb: str, changes: Sequence[Change], conflicts: Conflicts) -> dict[str, Entry | None]:
    """Nothing waits over uncommitted work in what it touches: it would be taken for somebody's choice later.

    Returns what files held that differs from the stage, as checkout.check_safe does.
    """
    known = {change.path for change in changes}
    others = [one.path for one in conflicts if one.choice is None and one.path.startswith(FILES)]
    # A file that is already what would be written for a conflict is work, too: choosing the other side removes it.
    others = [p for p in others if p not in known or worktree.find_stat(here.root, file_path(p)) is not None]
    checked = [*changes, *(Change(path, None, None) for path in others)]
    left = {file_path(one.path): one.written for one in here.local.conflicts()}
    return update.check_over_stage(here.local, here.root, checked, verb, left)


def _is_blocked(here: Checkout, met: Conflict) -> bool:
    """Whether what only they have cannot stand beside ours, which has a file where it needs a folder, or a folder."""
    if met.ours is not None or not met.path.startswith(FILES):
        return False
    path, folders = file_path(met.path), list(parents(file_path(met.path)))
    ours = {**here.local.find_tracked(folders), **here.local.under(path)}
    in_the_way = (row for name, row in ours.items() if name in folders or name.startswith(f"{path}/"))
    return met.base is None or any(row.entry is not None for row in in_the_way)


def mark_conflict(
    making: Making, met: Conflict, rows: Mapping[str, Tracked], names: Names, *, half: Mapping[str, Joined]
) -> Entry | None:
    """What goes into the file of a path in conflict; None where it stays as it is.

    Of two edits both as far as they join. Of one side alone, that one: it is what there is to look at.
    """
    one = met.ours or met.theirs
    if one is None or not met.path.startswith(FILES):
        return None
    is_new = file_path(met.path) not in rows
    if met.ours is None or met.theirs is None:
        return one if is_new else None
    return join_open(making, met, half.get(met.path), names) or (one if is_new else None)


def join_open(making: Making, met: Conflict, joined: Joined | None, names: Names, how: MergeHow = OPEN) -> Entry | None:
    """A file with both edits while places in it are open: ours stands there, or of a text both sides with markers."""
    if joined is not None and joined.entry is not None:
        return joined.entry
    entries = [entry for entry in (met.base, met.ours, met.theirs) if entry is not None]
    if met.ours is None or any(entry.kind != "file" or entry.size > LARGEST for entry in entries):
        return None
    if making.find_purged(entry.oid for entry in entries):
        return None  # a side can be chosen, but nobody can see what it was
    texts = [find_text(making.read(entry.oid)) for entry in entries]
    base, ours, theirs = texts if met.base else ("", *texts)
    if base is None or ours is None or theirs is None:
        return None
    if joined is not None and joined.why and not joined.conflicts:
        return None  # no place in it is in conflict, so markers would not show any
    data = mark_text(base, ours, theirs, names, how).encode()
    return Entry(making.add(data), "file", len(data), met.ours.mode)


def _staged_rows(here: Checkout, edits: Edits) -> list[Tracked]:
    rows = here.local.find_tracked(map(file_path, edits))
    return [stage.put_entry(rows.get(file_path(path)), file_path(path), entry) for path, entry in edits.items()]


# -- while it waits -------------------------------------------------------------------------------


def take_sides(
    here: Checkout, chosen: Sequence[Conflict], verb: tuple[str, str], *, still_open: Sequence[Conflict] = ()
) -> None:
    """Put the chosen side of each conflict into its file and the stage; what the file held is kept for undo.

    Those still open have some places settled: their files get what is written of them, and the stage nothing.
    """
    sides = _find_sides(here, chosen)
    rows = here.local.find_tracked(map(file_path, sides))
    placed = {path for path, entry in sides.items() if entry is not None}
    is_stash = (pending := here.local.find_pending()) is not None and pending.is_stash
    # A stash stages new files alone, and what has to go so that the stage can hold them.
    giving_way = _find_crossing(sides, placed)
    staged = {p: e for p, e in sides.items() if not is_stash or file_path(p) not in rows or p in giving_way}
    files = sides | {one.path: one.written for one in still_open}
    reopened = {one.path for one in here.local.conflicts() if one.choice} & {one.path for one in still_open}
    staged |= _find_unstaged(here, reopened)
    _rewrite(here, verb, (files, staged), conflicts=(*chosen, *still_open))


def _find_unstaged(here: Checkout, paths: Iterable[str]) -> dict[str, Entry | None]:
    """What the stage had of paths before something was chosen for them."""
    held = here.local.find_tracked(map(file_path, paths))
    return {FILES + path: row.old if row.staged else row.entry for path, row in held.items()}


def _find_sides(here: Checkout, chosen: Sequence[Conflict]) -> dict[str, Entry | None]:
    """What becomes of the files: the chosen sides, and of a file against a folder what has its place free by that.

    Both can be chosen, one after the other. Ours is on the disk then, until it gives way; nothing is concluded before.
    """
    known = {one.path: one for one in (*here.local.conflicts(), *chosen) if one.path.startswith(FILES)}
    held = {path for path, one in known.items() if one.ours is not None and _choose_side(one) is not None}
    wanted = {one.path for one in chosen if one.path in known}
    # Those chosen of theirs in the place of a file or folder of ours.
    crossed = (p for p, one in known.items() if one.base is None and one.ours is None and one.choice == "theirs")
    wanted |= _find_crossing(crossed, wanted)
    away = _find_crossing(wanted, held)
    return {path: None if path in away else _choose_side(known[path]) for path in sorted(wanted)}


def _choose_side(met: Conflict) -> Entry | None:
    """What a path holds while it waits: what was chosen, else our side."""
    return {"theirs": met.theirs, "file": met.chosen}.get(met.choice or "", met.ours)


def _find_crossing(paths: Iterable[str], others: Set[str]) -> set[str]:
    """Those of the paths that are the folder of another, or have another as their folder."""
    folders = {folder for other in others for folder in parents(other)}
    return {path for path in paths if path in folders or not others.isdisjoint(parents(path))}


def write_again(here: Checkout, conflicts: Sequence[Conflict]) -> tuple[Change, ...]:
    """Put the markers back into files, and the stage of them to what it was when they were written."""
    chosen = [one.path for one in conflicts if one.choice is not None]
    staged = dict.fromkeys(chosen) | _find_unstaged(here, chosen)
    opened = tuple(one._replace(choice=None, chosen=None, places={}) for one in conflicts)
    verb = "restore --merge", " ".join(file_path(one.path) for one in conflicts[:5])
    return _rewrite(here, verb, ({one.path: one.written for one in conflicts}, staged), conflicts=opened)


def _rewrite(
    here: Checkout, said: tuple[str, str], to: tuple[Edits, Edits], *, conflicts: Conflicts = (), ends: bool = False
) -> tuple[Change, ...]:
    """Make files and stage what they are to be while something waits; what the files held is kept for undo."""
    files, staged = to
    rows = here.local.find_tracked(map(file_path, files))
    changes = tuple(
        Change(path, rows[file_path(path)].entry if file_path(path) in rows else None, entry)
        for path, entry in sorted(files.items())
        if not holds_entry(here, file_path(path), entry)
    )
    update.refuse_in_the_way(here.root, changes, said[0])
    ready = update.check_bytes(here, changes)
    with operation(here, *said, files=True) as verb:
        before = verb.before
        before.saved |= save_dirty(here, verb, changes)
        before.left = {file_path(change.path): change.new for change in changes}
        writes = update.with_held_content(changes, before.saved)
        plan = journal.plan_in_place(here.local, here.who, writes, _staged_rows(here, staged))
        plan = plan._replace(doing=None) if ends else plan._replace(conflicts=conflicts)
        update.carry_out(here, verb, plan, ready)
    return changes


def holds_entry(here: Checkout, path: str, entry: Entry | None) -> bool:
    if entry is None:
        return worktree.find_stat(here.root, path) is None
    return worktree.holds(here.root, path, entry, None, True)


def give_up(here: Checkout, pending: Pending) -> None:
    """Put the stage and the files back to what they were before; edits made since are kept for undo."""
    now = here.local.find_tracked(file_path(one.path) for one in here.local.list_waiting())
    then: dict[str, Entry | None] = {}
    for one in here.local.list_waiting():
        row = now.get(file_path(one.path))
        if one.path.startswith(FILES) and (one.choice == MERGED or not pending.commit):
            then[one.path] = one.ours
        elif one.path.startswith(FILES):  # the stage was empty, so it was what the files' commit has
            then[one.path] = None if row is None else row.old if row.staged else row.entry
    held = pending.held
    by_hand = {
        one.path: one.written if held[one.path] else None for one in here.local.list_waiting() if one.path in held
    }
    _rewrite(here, (f"{pending.verb} --abort", pending.name), (then | by_hand, then), ends=True)


def end_in_stage(here: Checkout, pending: Pending) -> tuple[Change, ...]:
    """Conclude what ends in the stage or the files: all of it is there already. Returns what it changed in all."""
    with operation(here, pending.title, pending.name):
        waiting = [one for one in here.local.list_waiting() if one.path.startswith(FILES)]
        here.local.clear_doing()
    found = {one.path: {"ours": one.ours, "theirs": one.theirs}.get(one.choice or "", one.chosen) for one in waiting}
    return tuple(Change(one.path, one.ours, found[one.path]) for one in waiting if one.ours != found[one.path])


# -- what a stash stages --------------------------------------------------------------------------


def _index_rows(here: Checkout, pending: Pending, changes: Sequence[Change]) -> list[Tracked]:
    """What a stash puts into the stage: new files, else nobody would know them; with --index all that was staged."""
    commit = here.history.get(pending.target or "")
    untracked = set(_read_fact(here, commit, "untracked") or ())
    new = {c.path: c.new for c in changes if c.old is None and file_path(c.path) not in untracked}
    staged = {**new, **dict.fromkeys(_find_giving_way(changes, new))}
    if pending.with_stage:
        staged |= _index_edits(here, commit, pending.lost)
    return _staged_rows(here, staged)


def _find_giving_way(changes: Sequence[Change], new: Edits) -> list[str]:
    """What goes where a new file needs a folder, or is one: the stage cannot hold both."""
    folders = {folder for path in new for folder in parents(path)}
    gone = (change.path for change in changes if change.new is None)
    return [path for path in gone if path in folders or not new.keys().isdisjoint(parents(path))]


def read_staged(here: Checkout, commit: Commit) -> dict[str, Entry | None]:
    """What was staged when a stash was made, by tree path."""
    return {FILES + path: from_hex(entry) for path, entry in (_read_fact(here, commit, "staged") or {}).items()}


def root_without(here: Checkout, commit: Commit, paths: Sequence[str]) -> bytes:
    """The tree of a stash with some paths as they were before it: those it cannot give back."""
    before = here.history.entries(here.history.get(commit.parents[0]), paths)
    planned = here.history.plan(commit, {path: before.get(path) for path in paths})
    here.history.nodes.remember(planned.nodes)
    return planned.root


def _index_edits(here: Checkout, commit: Commit, lost: Sequence[str]) -> dict[str, Entry | None]:
    """What was staged then, on what the stage has now."""
    parent = here.history.get(commit.parents[0])
    then = {path: entry for path, entry in read_staged(here, commit).items() if path not in lost}
    planned = here.history.plan(parent, then)
    here.history.nodes.remember(planned.nodes)
    outcome = merge_trees.merge_roots(here.history, here.history.root(parent), stage_root(here), planned.root)
    if outcome.conflicts:
        listed = "\n".join(f"  {file_path(one.path)}" for one in outcome.conflicts[:10])
        raise ConflictError(
            f"what the stash had staged meets other changes in:\n{listed}\nNothing was changed.",
            hint="Take it back without --index: all of it goes to the working files.",
        )
    return dict(outcome.edits)


def _read_fact(here: Checkout, commit: Commit, name: str) -> Any:
    return json.loads(here.history.objects.read(commit.meta[name])) if name in commit.meta else None
