"""Making the working files be what a commit says: safely, resumably, never over uncommitted work.

The journal in local.db names the target before the first file is touched. One transaction after the last file clears
it and sets the new HEAD and stat cache. After a crash in between, the same work is done again: a path that holds the
old content (or a beginning of the new, with gaps) is written, one that holds the new content is left alone, and one
that holds neither was edited by someone and is kept.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from memlake.collector import pause_gc
from memlake.errors import Conflict, Corrupt, Error, NotFound, Purged, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.store import Objects
from memlake.objects.writer import is_large
from memlake.records import Change, Commit, Entry, count
from memlake.versions.checkout import journal, worktree
from memlake.versions.checkout.context import Checkout, read_stamp
from memlake.versions.checkout.folders import Folders
from memlake.versions.checkout.journal import Goal, Plan, Rename
from memlake.versions.checkout.local import NOT_HERE, Local, Tracked, is_packed_racy, pack_stat
from memlake.versions.history.commits import History
from memlake.versions.operation import Verb
from memlake.versions.paths import FILES, file_path, list_unwritable, parents

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


class _Created(NamedTuple):
    """As Written, before it is known at what time the last of them was."""

    stats: dict[str, bytes]
    failed: dict[str, Error]

    def judge(self, clock: int) -> Written:
        stats = {path: (stat, stat != NOT_HERE and is_packed_racy(stat, clock)) for path, stat in self.stats.items()}
        return Written(stats, self.failed)


def move_to(
    here: Checkout,
    verb: Verb,
    goal: Goal,
    changes: Sequence[Change],
    *,
    saved: Saved | None = None,
    ready: Contents | None = None,
    writes: Sequence[Change] | None = None,
) -> None:
    """Apply changes of files (old -> new entries) and stand on the goal. The caller has checked that it is safe.

    `writes` are the only files to write, if the others hold what the stage has of them, or edits beyond that.
    `saved` is uncommitted content that is thrown away on purpose, so that a resume does not take it for a later edit.
    `ready` is what check_bytes returned, for a caller that had to call it before it moved history.
    """
    plan = Plan(goal, writes=writes or ()) if saved is None else plan_forced(goal, changes, saved)
    standing = journal.find(here.local)
    plan = plan._replace(token="", moved=bool(standing and standing.token))
    if ready is None:
        ready = check_bytes(here, changes)
    _carry_out(here, verb, plan, changes, writes=changes if writes is None else writes, ready=ready)


def carry_out(here: Checkout, verb: Verb, plan: Plan, ready: Contents | None = None) -> None:
    """Write the files and then the rows of a plan that names them all and stays on its commit."""
    _carry_out(here, verb, journal.settle_plan(plan, plan.goal.commit), (), writes=plan.writes, ready=ready)


def _carry_out(
    here: Checkout,
    verb: Verb,
    plan: Plan,
    changes: Sequence[Change],
    *,
    writes: Sequence[Change],
    ready: Contents | None,
) -> None:
    journal.begin(here.local, plan, verb=verb, lasting=bool(changes or writes))
    with goes_on_later(), pause_gc():
        written = write_files(here.history.objects, here.root, writes, ready)
        if written.failed:
            verb.detail = f"{verb.detail} {_UNFINISHED}".strip()
        finish(here.local, verb, plan, changes, written.stats)
    if written.failed:  # the verb has done all it could
        error = next(iter(written.failed.values()))
        name = f"{verb.name} {verb.detail.removesuffix(_UNFINISHED)}".strip()
        hint = f"{error.hint}\nTo go back to before it: memlake undo".strip()
        raise type(error)(f"{name} {_say_unwritten(written)}", hint=hint)


def plan_first(local: Local, goal: Goal) -> None:
    """Note that a checkout made just now is to stand on a commit. Until then it has no file, and none is tracked."""
    journal.begin(local, Plan(goal, moved=True), lasting=True)


def write_first(here: Checkout) -> None:
    """Write the files of a checkout that has none yet, as its plan in the journal says: that of a clone.

    It goes on a few thousand files at a time, so that a million of them do not fill the memory. Whoever finds the plan
    after a crash finishes it as any other.
    """
    local, plan = here.local, journal.find(here.local)
    if plan is None or plan.goal.commit is None:
        return
    failed, waiting = dict[str, Error](), list[tuple[Sequence[Change], _Created]]()

    def put_rows(clock: int) -> None:
        for changes, created in waiting:
            local.put(_list_rows(plan, changes, created.judge(clock).stats))
        waiting.clear()

    files = here.history.scan(here.history.get(plan.goal.commit), FILES)
    with goes_on_later(), local.db.write(), pause_gc():
        while changes := [Change(path, None, entry) for path, entry in islice(files, _BATCH_FILES)]:
            todo, _ = _find_what_is_left(here.history.objects, here.root, changes)
            created = _write_unflushed(here.history.objects, here.root, todo, None)
            failed.update(created.failed)
            put_rows(time.time_ns())  # of the files before these, which nobody can have changed in the same instant
            waiting.append((changes, created))
        clock = time.time_ns()
        _flush(here.root)
        put_rows(clock)
        finish(local, None, plan, (), {})
    if failed:
        error = next(iter(failed.values()))
        raise type(error)(f"the clone {_say_unwritten(Written({}, failed))}", hint=error.hint)


def plan_forced(goal: Goal, changes: Sequence[Change], saved: Saved, token: str = "") -> Plan:
    """The plan of a checkout that throws uncommitted content away."""
    rows = [Tracked(file_path(c.path), c.new, None, True) for c in changes]
    return Plan(goal, token, with_held_content(changes, saved), rows)


def with_held_content(changes: Iterable[Change], saved: Saved) -> list[Change]:
    """Changes whose old side is what the files really hold, by which a resume tells what was edited since."""
    return [Change(c.path, saved.get(file_path(c.path), c.old), c.new) for c in changes]


@contextlib.contextmanager
def goes_on_later() -> Iterator[None]:
    """An error half way leaves the plan in the journal: add to the message that it goes on, and how to go back."""
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


def tell_unwritten(what: str, written: Written) -> None:
    """Warn of files that could not be written, if that is not a failure of the verb under way."""
    if written.failed:
        warnings.warn(f"{what} {_say_unwritten(written)}", stacklevel=3)


def _say_unwritten(written: Written) -> str:
    causes = [f"{path}: {error.message.removesuffix(' It was not served.')}" for path, error in written.failed.items()]
    number = count(len(causes), "file")
    return (
        f"could not be finished, because {number} could not be written:{_list_lines(causes)}\nEverything else is done."
    )


def _list_lines(lines: Sequence[str]) -> str:
    """Up to ten lines of a message, indented, each after a line break."""
    more = f"\n  and {len(lines) - 10} more" if len(lines) > 10 else ""
    return "".join(f"\n  {line}" for line in lines[:10]) + more


def finish(local: Local, verb: Verb | None, plan: Plan, changes: Iterable[Change], stats: Stats) -> None:
    """One transaction: tracked rows, HEAD, base, what waits, what undo needs, no journal."""
    goal, old = plan.goal, local.base
    commit = goal.commit
    head = f"@{commit}" if goal.head.startswith("@") else goal.head
    with local.db.write():
        local.put(_list_rows(plan, changes, stats))
        if plan.doing is None or plan.doing != local.state("doing"):  # what waits now has other paths in conflict
            local.clear_doing()
        local.put_conflicts(plan.conflicts)
        local.set_state(head=head, base=commit, doing=plan.doing, journal=None)
        local.db.run_many("UPDATE operation SET undone = ?2 WHERE id = ?1", plan.undone.items())
        if goal.action:
            local.log_head(old, commit, None if head.startswith("@") else head, goal.action, goal.who)
        if verb is not None:
            journal.keep(local, verb)


def _list_rows(plan: Plan, changes: Iterable[Change], stats: Stats) -> Iterator[Tracked]:
    """The rows that a plan leaves, each path once."""
    given = {row.path: row for row in plan.rows}
    written = {file_path(change.path): change.new for change in plan.writes}
    for change in changes:
        path = file_path(change.path)
        if path in given:
            written.setdefault(path, change.new)
        else:
            # If uncommitted work was put back into a file, its stat must not stand for what the stage has.
            is_written = path in stats and written.get(path, change.new) == change.new
            yield Tracked(path, change.new, *(stats[path] if is_written else (None, True)))
    for path, row in given.items():
        is_written = path in stats and path in written and row.entry == written[path]
        yield row._replace(stat=stats[path][0], racy=stats[path][1]) if is_written else row


def resume(history: History, local: Local, root: str) -> list[str]:
    """Finish what was interrupted, or drop it if it had changed nothing. Returns paths edited since, which are kept.

    A file that cannot be written any more (its content is damaged, or something is in its way) is reported and left
    out, because it must not stop the others, and every later verb with them.
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
    written, edited = Written({}, {}), list[str]()
    with goes_on_later():
        if plan.files:
            written, edited = _write_what_is_left(history, root, _list_writes(local, plan, changes))
        if written.failed and plan.operation:
            detail = f"{plan.operation.detail} {_UNFINISHED}".strip()
            plan = plan._replace(operation=plan.operation._replace(detail=detail))
        with local.db.write():
            finish(local, None, plan._replace(goal=plan.goal._replace(commit=commit)), changes, written.stats)
            journal.keep_found(local, plan, left)
    # As people call it: `switch to main`.
    verb = " ".join(plan.operation[:2]).removesuffix(_UNFINISHED).strip() if plan.operation else "checkout"
    name = plan.goal.action.replace(": moving to ", " to ") or verb
    tell_unwritten(f"the interrupted {name}", written)
    if not written.failed:
        warnings.warn(f"finished the interrupted {name}", stacklevel=2)
    return edited


def take_back(history: History, local: Local, root: str) -> Plan | None:
    """Put the files back to what an interrupted verb found; None if it must be finished instead.

    Undo's way out if a verb cannot be finished, as on a full disk. What the verb wrote is removed first, which makes
    room for what it replaced. History that the verb moved stays moved, until undo is called once more.
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
        writes = _list_writes(local, plan, _changes_to(history, local, commit))
        back = [Change(change.path, change.new, change.old) for change in writes]
        todo, _ = _find_what_is_left(history.objects, root, back)
        write_files(history.objects, root, [change._replace(new=None) for change in todo])
        written = write_files(history.objects, root, [change for change in todo if change.new is not None])
        tell_unwritten("taking it back", written)
    with local.db.write():
        local.set_state(journal=None)
        if moved:
            journal.keep_found(local, plan, left)
    return plan


def rename_once(local: Local, root: str, rename: Rename) -> None:
    """Rename, unless the inode tells that it was done. One system call does it or not, so an error drops the plan."""
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
    """Every file that a plan writes. Not what is staged: it goes into the commit anyway, and the file is the user's."""
    staged = local.list_staged()
    wanted = {change.path: change for change in changes if file_path(change.path) not in staged}
    wanted.update((change.path, change) for change in plan.writes)
    bad = list_unwritable(map(file_path, wanted))
    return [change for path, change in wanted.items() if file_path(path) not in bad]


def _write_what_is_left(history: History, root: str, wanted: Sequence[Change]) -> tuple[Written, list[str]]:
    """Write those files that are still as before; also returns the paths that were edited since, which are kept."""
    todo, edited = _find_what_is_left(history.objects, root, wanted)
    try:
        return write_files(history.objects, root, todo), edited
    except Unavailable as error:
        size = sum(change.new.size for change in todo if change.new is not None)
        raise Unavailable(
            f"an interrupted verb cannot be finished yet, {size:,} bytes of files are to be written: {error.message}",
            hint=error.hint,
        ) from error


def _flush(root: str) -> None:
    with disk.named_errors("flushing the working files"):
        disk.sync_filesystem(root)


def _find_what_is_left(objects: Objects, root: str, wanted: Sequence[Change]) -> tuple[list[Change], list[str]]:
    """Those changes whose files are still as before, and those files that were edited since."""
    stats = worktree.Stats(root)
    places = [(change, _where(objects, root, change, stats.find(file_path(change.path)))) for change in wanted]
    todo = [change for change, place in places if place == "before"]
    return todo, [file_path(change.path) for change, place in places if place == "edited"]


def _where(objects: Objects, root: str, change: Change, stat: os.stat_result | None) -> str:
    """Whether a path is still as before, done, or was edited by someone else."""
    path = file_path(change.path)
    if stat is None:
        return "done" if change.new is None else "before"
    if change.new is not None and worktree.has_content(root, path, change.new, stat):
        return "done"
    if change.old is not None and worktree.has_content(root, path, change.old, stat):
        return "before"
    # Cut short while it was written; or, where an undo of an interrupted verb died as well, put back.
    if any(_is_unfinished(objects, root, path, entry) for entry in (change.new, change.old) if entry is not None):
        return "before"
    return "edited"


def _is_unfinished(objects: Objects, root: str, path: str, entry: Entry) -> bool:
    """Whether a file is what a power cut leaves of content that was being written: its beginning, with blocks of zeros.

    ext4 and XFS may record a file's length, and where its blocks are, before they write the blocks.
    """
    if entry.kind != "file" or not worktree.is_file(root, path) or objects.find_away([entry.oid]):
        return False
    try:
        with os.fdopen(worktree.open_file(root, path), "rb") as ours, objects.open(entry.oid) as theirs:
            while block := ours.read(1 << 20):
                wanted = theirs.read(len(block))
                if len(wanted) < len(block) or (wanted != block and not _has_gaps(block, wanted)):
                    return False
            return True
    except (Corrupt, NotFound, Purged):
        return False  # nobody can tell, so the file is kept


def _has_gaps(block: bytes, wanted: bytes) -> bool:
    """Whether a block differs from what it should be by zeros alone, in the units that file systems count in."""
    pieces = ((block[at : at + _UNIT], wanted[at : at + _UNIT]) for at in range(0, len(block), _UNIT))
    return all(piece == right or not any(piece) for piece, right in pieces)


# -- safety -------------------------------------------------------------------------------------


class Safety(NamedTuple):
    """Whether a path may be written. If it does not hold what is tracked, `differs`, and `holds` is what it has."""

    is_safe: bool
    differs: bool = False
    holds: Entry | None = None


def check_safe(local: Local, root: str, changes: Sequence[Change], verb: str) -> dict[str, Entry | None]:
    """Refuse if a change would overwrite uncommitted work.

    Returns what those paths hold that differ from the stage and are safe all the same (they are already what they are
    to become, or were deleted by hand), because undo has to bring that back.
    """
    safety = _examine(root, changes, local.find_tracked(file_path(change.path) for change in changes))
    return _require_safe(safety, verb, local)


def check_over_stage(
    local: Local, root: str, changes: Sequence[Change], verb: str, left: Saved = MappingProxyType({})
) -> dict[str, Entry | None]:
    """As check_safe, but what is staged (or in `left`) may be lost, and only what the files hold beyond it may not."""
    rows = local.find_tracked(file_path(change.path) for change in changes)
    safety = _examine(root, changes, _without_stage(rows))
    for path, entry in left.items():
        if path in safety and entry is not None and worktree.holds(root, path, entry, None, True):
            del safety[path]
    return _require_safe(safety, verb, local)


def _without_stage(rows: Mapping[str, Tracked]) -> dict[str, Tracked]:
    return {path: row._replace(staged=False, old=None) for path, row in rows.items()}


def _require_safe(safety: Mapping[str, Safety], verb: str, local: Local) -> dict[str, Entry | None]:
    if unsafe := [path for path, state in safety.items() if not state.is_safe]:
        raise Conflict(
            f"{verb} would overwrite uncommitted work in:{_list_lines(unsafe)}\nNothing was changed.",
            # `commit -a` and a plain stash leave alone what is not tracked.
            hint="Put it aside: memlake stash -u\nOr commit it: memlake add -A && memlake commit -m MESSAGE"
            if set(unsafe) - local.find_tracked(unsafe).keys()
            else "Put it aside: memlake stash\nOr commit it: memlake commit -a -m MESSAGE",
        )
    return {path: state.holds for path, state in safety.items() if state.differs}


def unsafe_paths(local: Local, root: str, changes: Sequence[Change], *, over_stage: bool = False) -> list[str]:
    """Files whose uncommitted content a change would overwrite. With `over_stage`, what is staged does not count."""
    rows = local.find_tracked(file_path(change.path) for change in changes)
    safety = _examine(root, changes, _without_stage(rows) if over_stage else rows)
    return [path for path, state in safety.items() if not state.is_safe]


def _examine(root: str, changes: Sequence[Change], rows: Mapping[str, Tracked]) -> dict[str, Safety]:
    removed = {file_path(change.path) for change in changes if change.new is None}
    paths = {file_path(change.path): change for change in changes}
    unwritable, stats, safe = list_unwritable(paths), worktree.Stats(root), Safety(True)
    return {
        # Where no file may be, nothing will be written.
        path: safe if path in unwritable else _safety(root, change, rows.get(path), removed, stats.find(path))
        for path, change in paths.items()
    }


def _safety(root: str, change: Change, row: Tracked | None, removed: set[str], stat: os.stat_result | None) -> Safety:
    path = file_path(change.path)
    if row is not None and row.staged and row.entry != change.new:
        return Safety(False)
    if row is not None and stat is not None:
        if row.entry is not None and (
            (row.stat is not None and not row.racy and pack_stat(stat) == row.stat)
            or worktree.has_content(root, path, row.entry, stat)
        ):
            return Safety(True)
        if row.staged and row.old is not None and worktree.has_content(root, path, row.old, stat):
            return Safety(True, True, row.old)
    if stat is None and (change.new is None or _has_room(root, path, removed)):
        # Deleted by hand, or a folder in its place: to remove it loses nothing.
        return Safety(True, row is not None and row.entry is not None)
    if change.new is None or not _has_room(root, path, removed):
        return Safety(False)
    same = worktree.holds(root, path, change.new, None, True)
    return Safety(same, same, change.new)


def _has_room(root: str, path: str, removed: set[str]) -> bool:
    """Whether only files that are removed are where a file needs a folder, or in a folder where the file must be."""
    for folder in parents(path):
        if worktree.find_stat(root, folder) is not None:
            return folder in removed
    full = f"{root}/{path}"
    if os.path.isdir(full) and not os.path.islink(full):
        return removed.issuperset(_files_in(root, path))
    return True


def in_the_way(root: str, changes: Sequence[Change]) -> list[str]:
    """Files that are where a new file needs a folder, or in a folder where it must be, and are not removed anyway."""
    wanted = [file_path(change.path) for change in changes if change.new is not None]
    if bad := list_unwritable(wanted):
        wanted = [path for path in wanted if path not in bad]
    removed = {file_path(change.path) for change in changes if change.new is None}
    folders = {folder for inner in {path.rpartition("/")[0] for path in wanted} for folder in (*parents(inner), inner)}
    stats = worktree.Stats(root)
    blocking = {folder for folder in folders if folder and stats.find(folder) is not None}
    for path in wanted:
        if os.path.isdir(f"{root}/{path}") and not os.path.islink(f"{root}/{path}"):
            blocking.update(_files_in(root, path))
    return sorted(blocking - removed)


def refuse_in_the_way(root: str, changes: Sequence[Change], verb: str) -> None:
    if paths := in_the_way(root, changes):
        raise Conflict(
            f"{verb} needs the place of other files:{_list_lines(paths)}\nNothing was changed.",
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

    On return they are durable. A file whose content is at a remote only is not brought for it: it gets a mark in place
    of a stat.
    """
    created = _write_unflushed(objects, root, changes, ready)
    # Read once at the end: only we could have changed a file in the instant after we wrote it.
    clock = time.time_ns()
    if changes:
        _flush(root)
    return created.judge(clock)


def _write_unflushed(objects: Objects, root: str, changes: Sequence[Change], ready: Contents | None) -> _Created:
    """The one way in which working files are written."""
    # One bad name in history must not keep the other files from their owner.
    bad = list_unwritable(file_path(change.path) for change in changes)
    if bad:
        for change in changes:
            if (why := bad.get(path := file_path(change.path))) is not None and change.new is not None:
                warnings.warn(f"{path!r} is in history and was not written: {why}.", stacklevel=2)
        changes = [change for change in changes if file_path(change.path) not in bad]
    if ready is None:
        _check_sizes(objects, changes)
    staying = _find_staying(objects, root, changes)
    with disk.named_errors("writing the working files"), Folders(root) as folders:
        erased = objects.find_purged(c.new.oid for c in changes if c.new is not None)
        wanted = sorted((c for c in changes if c.new is not None and c.new.oid not in erased), key=lambda c: c.path)
        wanted = [change for change in wanted if change.path not in staying]
        if away := [file_path(c.path) for c in changes if c.new is not None and c.new.oid in erased]:
            warnings.warn(f"not written, because their content was purged:{_list_lines(away)}", stacklevel=2)
        for change in changes:
            if change.new is None or (change.old is not None and change.new.oid in erased):
                folders.remove(file_path(change.path))
        folders.tidy()
        created = _Created(dict.fromkeys(map(file_path, staying), NOT_HERE), {})
        for batch in _batches(wanted):
            _write_batch(objects, folders, batch, ready or {}, created)
    return created


def _find_staying(objects: Objects, root: str, changes: Sequence[Change]) -> set[str]:
    """Tree paths of files whose content is at a remote only, and stays there because no file is in their place."""
    away = objects.find_away(change.new.oid for change in changes if change.new is not None)
    found = [change.path for change in changes if change.new is not None and change.new.oid in away]
    bad, stats = list_unwritable(map(file_path, found)), worktree.Stats(root)
    return {path for path in found if file_path(path) in bad or stats.find(file_path(path)) is None}


def check_bytes(here: Checkout, changes: Sequence[Change]) -> Contents:
    """Raise unless everything to be written exists and small contents are sound: better no checkout than half of one.

    Returns the small contents, which need not be read again. What takes the place of a file is brought from a remote.
    """
    objects = here.history.objects
    staying = _find_staying(objects, here.root, changes)
    wanted = {c.new.oid: c.new.size for c in changes if c.new is not None and c.path not in staying}
    objects.bring(wanted)
    for oid in objects.find_purged(wanted):
        del wanted[oid]  # erased on purpose: the file is not written, and write_files says so
    for oid in wanted.keys() - _check_sizes(objects, changes):
        objects.size(oid)  # raises
    objects.check_places(wanted)
    small = [oid for oid, size in wanted.items() if not is_large(size)]
    return dict(objects.read_many(small)) if sum(wanted[oid] for oid in small) <= _BATCH_BYTES else {}


def _check_sizes(objects: Objects, changes: Sequence[Change]) -> set[str]:
    """Which of these objects are stored. Raises if a tree has a wrong size: sizes decide how many are read at once."""
    entries = {change.path: change.new for change in changes if change.new is not None}
    sizes = objects.sizes({entry.oid for entry in entries.values()})
    for path, entry in entries.items():
        if sizes.get(entry.oid, entry.size) != entry.size:
            raise Corrupt(
                f"the history records {entry.size:,} bytes for {file_path(path)!r}, but object {entry.oid[:10]} has "
                f"{sizes[entry.oid]:,}. The file was not written.",
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


def _write_batch(objects: Objects, folders: Folders, batch: list[Change], ready: Contents, created: _Created) -> None:
    """Create files, and note the stat of each, or why it could not be created."""
    small = {c.new.oid for c in batch if c.new is not None and not is_large(c.new.size)}
    contents = dict(ready)
    try:
        contents.update(objects.read_many(small - ready.keys()))
    except Unavailable:
        raise
    except Error:
        pass  # each is read by itself below, so that the error is reported for its path
    for change in batch:
        assert change.new is not None
        path = file_path(change.path)
        try:
            # Replace files one by one, as git does: to empty a folder first and fill it after is far slower on ext4.
            stat = folders.create(objects, path, change.new, contents.get(change.new.oid), replaces=change.old)
            created.stats[path] = pack_stat(stat)
        except Unavailable:
            raise
        except Error as error:
            created.failed[path] = error
        except FileNotFoundError as error:
            created.failed[path] = NotFound(f"{error.filename or 'its folder'} was removed while it was being written.")


def target_changes(history: History, local: Local, target: Commit | None) -> tuple[Change, ...]:
    """What files change from what is checked out to a commit."""
    base = history.get(local.base) if local.base else None
    return history.diff(base, target, FILES)
