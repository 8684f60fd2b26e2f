"""Making the working files be what a commit says: safely, resumably, never over uncommitted work.

The journal in local.db names the target before the first file is touched and is cleared, with the new HEAD
and stat cache, in one transaction after the last. A crash in between is resumed by running it again: a path
that holds the old content (or a beginning of the new, with gaps) is written, one that holds the new is left, and one
that holds neither was edited by someone and is kept.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memlake.errors import Conflict, Corrupt, Error, NotFound, Purged, Unavailable
from memlake.objects import disk
from memlake.objects.store import Objects
from memlake.objects.writer import is_large
from memlake.records import Change, Commit, Entry, count
from memlake.versions.checkout import journal, worktree
from memlake.versions.checkout.context import Here, read_stamp
from memlake.versions.checkout.folders import Folders
from memlake.versions.checkout.journal import Goal, Plan, Rename
from memlake.versions.checkout.local import Local, Tracked, is_racy, pack_stat
from memlake.versions.history.commits import History
from memlake.versions.operation import Verb
from memlake.versions.paths import FILES, file_path, parents, unwritable

Saved = Mapping[str, Entry | None]
_LATER = "The next command goes on where this one stopped; to go back instead: memlake undo"
_UNFINISHED = "(not finished)"  # stands in the list of operations
_BATCH_FILES, _BATCH_BYTES = 2000, 16 << 20
_UNIT = 512  # bytes: no file system counts in smaller blocks


Stats = Mapping[str, tuple[bytes, bool]]
Contents = Mapping[str, bytes]  # small objects by oid


class Written(NamedTuple):
    """What came of writing files: the stat of each that was created, and why one could not be."""

    stats: dict[str, tuple[bytes, bool]]
    failed: dict[str, Error]


def move_to(
    here: Here,
    verb: Verb,
    goal: Goal,
    changes: Sequence[Change],
    *,
    saved: Saved | None = None,
    ready: Contents | None = None,
    writes: Sequence[Change] | None = None,
) -> None:
    """Apply changes of files (old -> new entries) and stand on the goal. The caller has checked that it is safe.

    `writes` are the only files to be written, where the others hold what the stage has of them, or edits beyond that.
    `saved` is uncommitted content that is thrown away on purpose: what such a path holds is then no later edit.
    `ready` is what check_bytes found, for a caller that had to ask before it moved history.
    """
    plan = Plan(goal, writes=writes or ()) if saved is None else plan_forced(goal, changes, saved)
    begun = journal.find(here.local)
    plan = plan._replace(token="", moved=bool(begun and begun.token))
    if ready is None:
        ready = check_bytes(here.history.objects, changes)
    journal.begin(here.local, plan, verb=verb, lasting=bool(changes))
    with goes_on_later():
        written = write_files(here.history.objects, here.root, changes if writes is None else writes, ready)
        _mark_unfinished(verb, written)
        finish(here.local, verb, plan, changes, written.stats)
    _refuse_unwritten(verb, written)


def carry_out(here: Here, verb: Verb, plan: Plan, ready: Contents | None = None) -> None:
    """Write the files and then the rows of a plan that names them all and stays on its commit."""
    plan = journal.settle_plan(plan, plan.goal.commit)
    journal.begin(here.local, plan, verb=verb, lasting=bool(plan.writes))
    with goes_on_later():
        written = write_files(here.history.objects, here.root, plan.writes, ready)
        _mark_unfinished(verb, written)
        finish(here.local, verb, plan, (), written.stats)
    _refuse_unwritten(verb, written)


def plan_forced(goal: Goal, changes: Sequence[Change], saved: Saved, token: str = "") -> Plan:
    """The plan of a checkout that throws uncommitted content away."""
    rows = [Tracked(file_path(c.path), c.new, None, True) for c in changes]
    return Plan(goal, token, with_held_content(changes, saved), rows)


def with_held_content(changes: Iterable[Change], saved: Saved) -> list[Change]:
    """Changes that say what the files really hold: a resume tells by it what was edited since."""
    return [Change(c.path, saved.get(file_path(c.path), c.old), c.new) for c in changes]


@contextlib.contextmanager
def goes_on_later() -> Iterator[None]:
    """An error half way leaves the plan standing: say so, and the way back."""
    try:
        yield
    except Unavailable as error:
        cause = error.message.removesuffix(" Nothing was changed.")
        raise Unavailable(
            f"{cause} Some working files may be written already, others not; nothing is lost.",
            hint=f"{error.hint}\n{_LATER}",
        ) from error
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped while the working files were being written. {_LATER}") from stop


def _mark_unfinished(verb: Verb, written: Written) -> None:
    if written.failed:
        verb.detail = f"{verb.detail} {_UNFINISHED}".strip()


def _refuse_unwritten(verb: Verb, written: Written) -> None:
    """Once a verb has done all it could: name the files that it could not write."""
    if written.failed:
        first = next(iter(written.failed.values()))
        name = f"{verb.name} {verb.detail.removesuffix(_UNFINISHED)}".strip()
        hint = f"{first.hint}\nTo go back to before it: memlake undo".strip()
        raise type(first)(f"{name} {_say_unwritten(written)}", hint=hint)


def tell_unwritten(what: str, written: Written) -> None:
    """As _refuse_unwritten, where it is no failure of the verb under way."""
    if written.failed:
        warnings.warn(f"{what} {_say_unwritten(written)}", stacklevel=3)


def _say_unwritten(written: Written) -> str:
    causes = [
        f"  {path}: {error.message.removesuffix(' It was not served.')}" for path, error in written.failed.items()
    ]
    listed = "\n".join(causes[:10])
    more = f"\n  and {len(causes) - 10} more" if len(causes) > 10 else ""
    number = count(len(causes), "file")
    return f"could not be finished, because {number} could not be written:\n{listed}{more}\nEverything else is done."


def finish(local: Local, verb: Verb | None, plan: Plan, changes: Iterable[Change], stats: Stats) -> None:
    """One transaction: tracked rows, HEAD, base, what waits, what undo needs, no journal."""
    goal, old, changes = plan.goal, local.base, list(changes)
    commit = goal.commit
    rows = {file_path(change.path): Tracked(file_path(change.path), change.new, None, True) for change in changes}
    rows.update((row.path, row) for row in plan.rows)
    written = {file_path(change.path): change.new for change in (*changes, *plan.writes)}
    for path, (stat, racy) in stats.items():
        # A file may hold uncommitted work that was put back: its stat must not stand for what the stage has.
        if path in rows and rows[path].entry == written.get(path):
            rows[path] = rows[path]._replace(stat=stat, racy=racy)
    head = f"@{commit}" if goal.head.startswith("@") else goal.head
    with local.db.write():
        local.put(rows.values())
        if plan.doing is None:
            local.clear_doing()
        local.put_conflicts(plan.conflicts)
        local.set_state(head=head, base=commit, doing=plan.doing, journal=None)
        local.db.run_many("UPDATE operation SET undone = ?2 WHERE id = ?1", plan.undone.items())
        if goal.action:
            local.log_head(old, commit, None if head.startswith("@") else head, goal.action, goal.who)
        if verb is not None:
            journal.keep(local, verb)


def resume(history: History, local: Local, root: str) -> list[str]:
    """Finish what was interrupted, or drop it where it had changed nothing; returns paths edited since, and kept.

    A file that cannot be written any more (its content is damaged, or something is in its way) is told and left out: it
    must not stop the others, and every later verb with them.
    """
    plan = journal.find(local)
    if plan is None:
        return []
    commit, left = plan.goal.commit, read_stamp(history.db)
    if plan.token:
        commit = left.commit
        if left.token != plan.token:
            local.set_state(journal=None)
            return []
    if plan.rename is not None:
        rename_once(local, root, plan.rename)
    changes = _changes_to(history, local, commit)
    kept: list[str] = []
    written = Written({}, {})
    with goes_on_later():
        if plan.files:
            written = _write_what_is_left(history, root, _list_writes(local, plan, changes), kept)
        if written.failed and plan.operation:
            verb, detail, state = plan.operation
            plan = plan._replace(operation=(verb, f"{detail} {_UNFINISHED}".strip(), state))
        with local.db.write():
            finish(local, None, plan._replace(goal=plan.goal._replace(commit=commit)), changes, written.stats)
            journal.keep_found(local, plan, left)
    tell_unwritten(f"the interrupted {_name(plan)}", written)
    if not written.failed:
        warnings.warn(f"finished the interrupted {_name(plan)}", stacklevel=2)
    return kept


def _name(plan: Plan) -> str:
    """What a plan was of, as people call it: `switch to main`."""
    verb = " ".join(plan.operation[:2]).removesuffix(_UNFINISHED).strip() if plan.operation else "checkout"
    return plan.goal.action.replace(": moving to ", " to ") or verb


def take_back(history: History, local: Local, root: str) -> Plan | None:
    """Put the files back to what an interrupted verb found; None where it must be finished instead.

    Undo's way out when a verb cannot be finished, as on a full disk: what it wrote goes first, so that what it
    replaced has its space again. History that the verb moved stays moved, until undo is asked once more.
    """
    plan = journal.find(local)
    if plan is None or plan.rename is not None:
        return None
    left, moved = read_stamp(history.db), plan.moved or bool(plan.token)
    if moved:
        try:
            resume(history, local, root)
            return None
        except Unavailable:
            pass
    if plan.files:
        commit = left.commit if plan.token else plan.goal.commit
        _put_back(history, root, _list_writes(local, plan, _changes_to(history, local, commit)))
    with local.db.write():
        local.set_state(journal=None)
        if moved:
            journal.keep_found(local, plan, left)
    return plan


def _put_back(history: History, root: str, changes: Sequence[Change]) -> None:
    back = [Change(change.path, change.new, change.old) for change in changes]
    todo = [change for change in back if _where(history.objects, root, change) == "before"]
    write_files(history.objects, root, [Change(change.path, change.old, None) for change in todo])
    written = write_files(history.objects, root, [change for change in todo if change.new is not None])
    tell_unwritten("taking it back", written)


def rename_once(local: Local, root: str, rename: Rename) -> None:
    """Rename, unless it was done: the inode tells. One call does it or does not, so a refusal drops the plan."""
    source, target, inode = rename
    try:
        with disk.named_errors(f"moving {source!r}"):
            if os.path.lexists(f"{root}/{source}") and os.lstat(f"{root}/{source}").st_ino == inode:
                with Folders(root) as folders:
                    folders.rename(source, target)
    except Error:
        local.set_state(journal=None)
        raise
    _flush(root)


def _changes_to(history: History, local: Local, commit: str | None) -> tuple[Change, ...]:
    return target_changes(history, local, history.get(commit) if commit else None)


def _list_writes(local: Local, plan: Plan, changes: Sequence[Change]) -> list[Change]:
    """Every file a plan writes. What is staged is on its way into the commit already: the file is its owner's."""
    staged = local.list_staged()
    wanted = {change.path: change for change in changes if file_path(change.path) not in staged}
    wanted.update((change.path, change) for change in plan.writes)
    return [change for change in wanted.values() if not unwritable(file_path(change.path))]


def _write_what_is_left(history: History, root: str, wanted: Sequence[Change], kept: list[str]) -> Written:
    todo = []
    for change in wanted:
        place = _where(history.objects, root, change)
        if place == "edited":
            kept.append(file_path(change.path))
        elif place == "before":
            todo.append(change)
    try:
        return write_files(history.objects, root, todo)
    except Unavailable as error:
        size = sum(change.new.size for change in todo if change.new is not None)
        raise Unavailable(
            f"an interrupted verb cannot be finished yet, {size:,} bytes of files are to be written: {error.message}",
            hint=error.hint,
        ) from error


def _flush(root: str) -> None:
    with disk.named_errors("flushing the working files"):
        disk.sync_filesystem(root)


def _where(objects: Objects, root: str, change: Change) -> str:
    """Whether a path is still as before, done, or was edited by someone else."""
    path = file_path(change.path)
    found = worktree.find_stat(root, path)
    if found is None:
        return "done" if change.new is None else "before"
    if change.new is not None and worktree.holds(root, path, change.new, None, True):
        return "done"
    if change.old is not None and worktree.holds(root, path, change.old, None, True):
        return "before"
    # Cut short while it was written; or, where an undo of an interrupted verb died as well, put back.
    if any(_is_unfinished(objects, root, path, entry) for entry in (change.new, change.old) if entry is not None):
        return "before"
    return "edited"


def _is_unfinished(objects: Objects, root: str, path: str, entry: Entry) -> bool:
    """Whether a file is what a cut leaves of content that was being written: a beginning of it, with blocks of zeros.

    ext4 and XFS may have noted a file's length, and the place of its blocks, before they wrote the blocks.
    """
    if entry.kind != "file" or not worktree.is_file(root, path):
        return False
    try:
        with os.fdopen(worktree.open_file(root, path), "rb") as ours, objects.open(entry.oid) as theirs:
            while block := ours.read(1 << 20):
                wanted = theirs.read(len(block))
                if len(wanted) < len(block) or (wanted != block and not _has_gaps(block, wanted)):
                    return False
            return True
    except (Corrupt, NotFound, Purged):
        return False  # it cannot be told, so the file is kept


def _has_gaps(block: bytes, wanted: bytes) -> bool:
    """Whether a block differs from what it should be by zeros alone, in the units that file systems count in."""
    pieces = ((block[at : at + _UNIT], wanted[at : at + _UNIT]) for at in range(0, len(block), _UNIT))
    return all(piece == right or not any(piece) for piece, right in pieces)


# -- safety -------------------------------------------------------------------------------------


class Safety(NamedTuple):
    """Whether a path may be written; `differs` where it does not hold what is tracked, and `holds` is what it does."""

    safe: bool
    differs: bool = False
    holds: Entry | None = None


def check_safe(local: Local, root: str, changes: Sequence[Change], verb: str) -> dict[str, Entry | None]:
    """Refuse if a change would overwrite uncommitted work.

    Returns what paths hold that differ from the stage and are lost in no commit (they are already what they are to
    become, or were deleted by hand): undo has to bring that back.
    """
    found = _examine(root, changes, local.find_tracked(file_path(change.path) for change in changes))
    return _require_safe(found, verb, local)


def check_over_stage(
    local: Local, root: str, changes: Sequence[Change], verb: str, left: Saved = MappingProxyType({})
) -> dict[str, Entry | None]:
    """As check_safe, where what is staged (or in `left`) is no work, only what the files hold beyond it."""
    rows = local.find_tracked(file_path(change.path) for change in changes)
    found = _examine(root, changes, _without_stage(rows))
    return _require_safe({path: one for path, one in found.items() if not _still_holds(root, path, left)}, verb, local)


def _without_stage(rows: Mapping[str, Tracked]) -> dict[str, Tracked]:
    return {path: row._replace(staged=False, old=None) for path, row in rows.items()}


def _require_safe(found: Mapping[str, Safety], verb: str, local: Local) -> dict[str, Entry | None]:
    unsafe = [path for path, one in found.items() if not one.safe]
    _refuse(unsafe, verb, sorted(set(unsafe) - local.find_tracked(unsafe).keys()))
    return {path: one.holds for path, one in found.items() if one.differs}


def _refuse(unsafe: list[str], verb: str, untracked: Sequence[str]) -> None:
    if unsafe:
        listed = "\n".join(f"  {path}" for path in unsafe[:10])
        more = f"\n  and {len(unsafe) - 10} more" if len(unsafe) > 10 else ""
        raise Conflict(
            f"{verb} would overwrite uncommitted work in:\n{listed}{more}\nNothing was changed.",
            # What is not tracked is left alone by `commit -a` and by a plain stash.
            hint="Put it aside: memlake stash -u\nOr commit it: memlake add -A && memlake commit -m MESSAGE"
            if untracked
            else "Put it aside: memlake stash\nOr commit it: memlake commit -a -m MESSAGE",
        )


def _still_holds(root: str, path: str, left: Saved) -> bool:
    entry = left.get(path)
    return entry is not None and worktree.holds(root, path, entry, None, True)


def unsafe_paths(local: Local, root: str, changes: Sequence[Change], *, over_stage: bool = False) -> list[str]:
    """Files whose uncommitted content a change would overwrite; `over_stage`: what is staged is no work."""
    rows = local.find_tracked(file_path(change.path) for change in changes)
    found = _examine(root, changes, _without_stage(rows) if over_stage else rows)
    return [path for path, one in found.items() if not one.safe]


def _examine(root: str, changes: Sequence[Change], rows: Mapping[str, Tracked]) -> dict[str, Safety]:
    removed = {file_path(change.path) for change in changes if change.new is None}
    paths = {file_path(change.path): change for change in changes}
    return {path: _safety(root, change, rows.get(path), removed) for path, change in paths.items()}


def _safety(root: str, change: Change, row: Tracked | None, removed: set[str]) -> Safety:
    path = file_path(change.path)
    if unwritable(path):
        return Safety(True)  # nothing will be written there
    if row is not None and row.staged and row.entry != change.new:
        return Safety(False)
    found = worktree.find_stat(root, path)
    if row is not None and found is not None:
        if row.entry is not None and worktree.holds(root, path, row.entry, row.stat, row.racy):
            return Safety(True)
        if row.staged and row.old is not None and worktree.holds(root, path, row.old, None, True):
            return Safety(True, True, row.old)
    if found is None and (change.new is None or _has_room(root, path, removed)):
        # Deleted by hand, or a folder in its place: agreeing to its removal loses nothing.
        return Safety(True, row is not None and row.entry is not None)
    if change.new is None or not _has_room(root, path, removed):
        return Safety(False)
    same = worktree.holds(root, path, change.new, None, True)
    return Safety(same, same, change.new)


def _has_room(root: str, path: str, removed: set[str]) -> bool:
    """Whether nothing but what is removed stands where a file needs a folder, or in a folder where it must be."""
    for folder in parents(path):
        if worktree.find_stat(root, folder) is not None:
            return folder in removed
    full = f"{root}/{path}"
    if os.path.isdir(full) and not os.path.islink(full):
        return removed.issuperset(_files_in(root, path))
    return True


def in_the_way(root: str, changes: Sequence[Change]) -> list[str]:
    """Files that stand where a new file needs a folder, or in a folder where it must be, and are not removed anyway."""
    wanted = [path for c in changes if c.new is not None and not unwritable(path := file_path(c.path))]
    removed = {file_path(change.path) for change in changes if change.new is None}
    found = {folder for path in wanted for folder in parents(path)}
    found = {folder for folder in found if worktree.find_stat(root, folder) is not None}
    for path in wanted:
        if os.path.isdir(f"{root}/{path}") and not os.path.islink(f"{root}/{path}"):
            found.update(_files_in(root, path))
    return sorted(found - removed)


def refuse_in_the_way(root: str, changes: Sequence[Change], verb: str) -> None:
    found = in_the_way(root, changes)
    if found:
        listed = "\n".join(f"  {path}" for path in found[:10])
        raise Conflict(
            f"{verb} needs the place of files that are not tracked:\n{listed}\nNothing was changed.",
            hint="Move them away, then run it again.",
        )


def _files_in(root: str, path: str) -> Iterator[str]:
    """Everything in a folder that is not a folder, as paths relative to the root."""
    for folder, folders, names in os.walk(f"{root}/{path}"):
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        yield from (f"{folder}/{name}"[len(root) + 1 :] for name in (*names, *links))


# -- writing ------------------------------------------------------------------------------------


def write_files(objects: Objects, root: str, changes: Sequence[Change], ready: Contents | None = None) -> Written:
    """Remove, then create, then flush. One file that cannot be created does not stop the others. Follows no link.

    The one way working files are written: whoever says afterwards that it is done has them on the disk.
    """
    changes = _writable(changes)
    if ready is None:
        _check_sizes(objects, changes)
    with disk.named_errors("writing the working files"), Folders(root) as folders:
        erased = objects.find_purged(c.new.oid for c in changes if c.new is not None)
        wanted = sorted((c for c in changes if c.new is not None and c.new.oid not in erased), key=lambda c: c.path)
        _tell_erased([file_path(c.path) for c in changes if c.new is not None and c.new.oid in erased])
        for change in changes:
            if change.new is None or (change.old is not None and change.new.oid in erased):
                folders.remove(file_path(change.path))
        folders.tidy()
        found: dict[str, os.stat_result | Error] = {}
        for batch in _batches(wanted):
            found.update(_write_batch(objects, folders, batch, ready or {}))
    # Asked once at the end: nobody but us could have changed a file in the instant after we wrote it.
    clock = time.time_ns()
    if changes:
        _flush(root)
    failed = {path: error for path, error in found.items() if isinstance(error, Error)}
    stats = {path: stat for path, stat in found.items() if not isinstance(stat, Error)}
    return Written({path: (pack_stat(stat), is_racy(stat, clock)) for path, stat in stats.items()}, failed)


def _writable(changes: Sequence[Change]) -> list[Change]:
    """Without paths that are never touched: one bad name in history must not keep the other files from their owner."""
    found = [(change, unwritable(file_path(change.path))) for change in changes]
    for change, why in found:
        if why is not None and change.new is not None:
            path = file_path(change.path)
            warnings.warn(f"{path!r} is in history and was not written: {why}.", stacklevel=2)
    return [change for change, why in found if why is None]


def _tell_erased(paths: list[str]) -> None:
    if paths:
        listed = "\n".join(f"  {path}" for path in paths[:10])
        more = f"\n  and {len(paths) - 10} more" if len(paths) > 10 else ""
        warnings.warn(f"not written, because their content was purged:\n{listed}{more}", stacklevel=2)


def check_bytes(objects: Objects, changes: Sequence[Change]) -> Contents:
    """Better no checkout than half of one: everything to be written is there, and small things are sound.

    Returns the small contents it read, which need not be read again.
    """
    wanted = {change.new.oid: change.new.size for change in changes if change.new is not None}
    for oid in objects.find_purged(wanted):
        del wanted[oid]  # erased on purpose: the file stays away, and write_files says so
    for oid in wanted.keys() - _check_sizes(objects, changes):
        objects.size(oid)  # raises
    objects.check_places(wanted)
    small = [oid for oid, size in wanted.items() if not is_large(size)]
    return dict(objects.read_many(small)) if sum(wanted[oid] for oid in small) <= _BATCH_BYTES else {}


def _check_sizes(objects: Objects, changes: Sequence[Change]) -> set[str]:
    """Which objects of these are there. What a tree says of their sizes decides how many are read at once."""
    entries = {change.path: change.new for change in changes if change.new is not None}
    sizes = objects.sizes({entry.oid for entry in entries.values()})
    for path, entry in entries.items():
        if sizes.get(entry.oid, entry.size) != entry.size:
            raise Corrupt(
                f"the history records {entry.size:,} bytes for {file_path(path)!r}, but object {entry.oid[:10]} has "
                f"{sizes[entry.oid]:,}. No file was changed.",
                hint="Run memlake fsck --full.",
            )
    return set(sizes)


def _batches(changes: list[Change]) -> Iterator[list[Change]]:
    batch: list[Change] = []
    size = 0
    for change in changes:
        assert change.new is not None
        batch.append(change)
        size += change.new.size if not is_large(change.new.size) else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_batch(
    objects: Objects, folders: Folders, batch: list[Change], ready: Contents
) -> dict[str, os.stat_result | Error]:
    """The stat of each file, or why it could not be created."""
    small = {c.new.oid for c in batch if c.new is not None and not is_large(c.new.size)}
    contents = {**ready, **_read_together(objects, small - ready.keys())}
    found: dict[str, os.stat_result | Error] = {}
    for change in batch:
        assert change.new is not None
        path = file_path(change.path)
        try:
            # Old and new one by one, as git does: a folder emptied first and filled after is far slower on ext4.
            found[path] = folders.create(objects, path, change.new, contents.get(change.new.oid), replaces=change.old)
        except Unavailable:
            raise
        except Error as error:
            found[path] = error
        except FileNotFoundError as error:
            found[path] = NotFound(f"{error.filename or 'its folder'} was removed while it was being written.")
    return found


def _read_together(objects: Objects, oids: set[str]) -> Contents:
    """Small contents in one go; none where one cannot be read, so that each is read by itself and told by its path."""
    try:
        return dict(objects.read_many(oids))
    except Unavailable:
        raise
    except Error:
        return {}


def target_changes(history: History, local: Local, target: Commit | None) -> tuple[Change, ...]:
    """What files change from what is checked out to a commit."""
    base = history.get(local.base) if local.base else None
    return history.diff(base, target, FILES)
