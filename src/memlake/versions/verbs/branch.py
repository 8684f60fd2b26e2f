"""Branches and tags as verbs, and standing on one: branch, tag, switch, reset. Uses checkout for working files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memlake.errors import Conflict, InvalidInput, NotFound, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import tables as object_tables
from memlake.objects.layout import now
from memlake.records import Branch, Change, Commit, Entry, Tag
from memlake.versions.checkout import journal, rev, status, update
from memlake.versions.checkout.context import Checkout
from memlake.versions.checkout.journal import Goal, Plan
from memlake.versions.checkout.local import NOT_HERE, Tracked
from memlake.versions.history import refs
from memlake.versions.history.bases import is_ancestor
from memlake.versions.operation import Verb
from memlake.versions.paths import FILES, file_path, matches, scope
from memlake.versions.trees.codec import LANES
from memlake.versions.verbs import stage
from memlake.versions.verbs.undo import operation, save_dirty

MODES = ("soft", "mixed", "hard")


def heads_at(here: Checkout, at: str) -> refs.Heads:
    """Both lanes a rev names: a branch or tag names two commits, any other rev one and its note of the other."""
    name = here.local.branch if at in ("HEAD", "@") else at
    for kind in (refs.BRANCH, refs.TAG, refs.REMOTE):
        found = refs.find(here.history.db, name or "", kind)
        if found is not None:
            return found
    commit = rev.resolve(here, at)
    other = here.history.find_other(commit)
    return {"work": commit.oid, "memory": other} if commit.lane == "work" else {"work": other, "memory": commit.oid}


class Chosen(NamedTuple):
    """Which branches are listed: those that contain a commit, are merged into one, or are not."""

    contains: str | None = None
    merged: str | None = None
    no_merged: str | None = None


def list_branches(here: Checkout, chosen: Chosen) -> list[Branch]:
    found = refs.branches(here.history.db, here.local.branch)
    if chosen.contains is not None:
        inner = rev.resolve(here, chosen.contains)
        found = [b for b in found if (tip := _find_tip(here, b, inner)) and is_ancestor(here.history, inner, tip)]
    for name, wanted in ((chosen.merged, True), (chosen.no_merged, False)):
        if name is not None:
            into = rev.resolve(here, name)
            tips = [(b, tip) for b in found if (tip := _find_tip(here, b, into))]
            found = [b for b, tip in tips if is_ancestor(here.history, tip, into) == wanted]
    return found


def _find_tip(here: Checkout, branch: Branch, beside: Commit) -> Commit | None:
    """The head of a branch on the lane of another commit."""
    return refs.commit_of(here.history, branch.work if beside.lane == "work" else branch.memory)


def create_branch(here: Checkout, name: str, at: str, *, force: bool, note: bytes | None = None) -> Branch:
    """Make a branch, with what is noted of it; with `force`, move one that exists."""
    heads = heads_at(here, at)
    if force and name == here.local.checked_out:
        raise Conflict(
            f"branch {name!r} is the one you are on; its files would no longer be its own. Nothing was changed.",
            hint=f"Move it with its files: memlake reset --hard {pasted(at)}",
        )
    with operation(here, "branch", name) as verb, here.history.db.write():
        if note is None:
            _put_branch(here, verb, name, heads, at, force=force)
        else:
            action = f"branch: created from {at}"
            refs.create(here.history, name, heads, action=action, who=here.who, note=note, moved=verb.moved)
        if not any(heads.values()):
            raise NotFound(
                f"branch {here.local.branch!r} has no commits yet, so {name!r} would name nothing.",
                hint=f"Commit or remember something first, or start with: memlake switch -c {pasted(name)}",
            )
    return Branch(name, heads["work"], heads["memory"])


def _put_branch(here: Checkout, verb: Verb, name: str, heads: refs.Heads, at: str, *, force: bool) -> None:
    """Call inside a write."""
    old = refs.find(here.history.db, name) if force else None
    if old is None:
        action = f"branch: created from {at}"
        refs.create(here.history, name, heads, action=action, who=here.who, moved=verb.moved)
        return
    for lane in LANES:
        if old[lane] != heads[lane]:
            was, now_ = refs.commit_of(here.history, old[lane]), refs.commit_of(here.history, heads[lane])
            action = f"branch: reset to {at}"
            refs.move(here.history, name, lane, was, now_, action=action, who=here.who, moved=verb.moved)


def _refuse_followed(here: Checkout, name: str) -> None:
    """Say how the branch of a remote is deleted, because git's users ask for it as if it were one of theirs."""
    db = here.history.db
    if refs.find(db, name) is None and refs.find(db, name, refs.REMOTE):
        remote, _, there = name.partition("/")
        raise NotFound(
            f"{name!r} is a branch of a remote or a bundle, not one of yours. Nothing was changed.",
            hint=f"Forget all that came from there: memlake remote remove {pasted(remote)}\n"
            f"Or, at a remote, delete it there: memlake push {pasted(remote)} --delete {pasted(there)}",
        )


def delete_branch(here: Checkout, name: str, force: bool) -> Branch:
    _refuse_followed(here, name)
    heads = refs.get(here.history.db, name)
    if name == here.local.checked_out:
        other = next((found.name for found in refs.branches(here.history.db, None) if found.name != name), None)
        raise Conflict(
            f"branch {name!r} is the one you are on. Nothing was changed.",
            hint=f"Switch to another one first: memlake switch {pasted(other) if other else '-c NAME'}",
        )
    if not force and not _is_merged(here, heads):
        raise Conflict(
            f"branch {name!r} has commits that no other branch has. Nothing was changed.",
            hint=f"Merge it first: memlake merge {pasted(name)}\n"
            f"Or delete it all the same (the reflog keeps its commits): memlake branch -D {pasted(name)}",
        )
    with operation(here, "branch -d", name) as verb, here.history.db.write():
        refs.delete(here.history, name, action="branch: deleted", who=here.who, moved=verb.moved)
    return Branch(name, heads["work"], heads["memory"])


def _is_merged(here: Checkout, heads: refs.Heads) -> bool:
    for lane in LANES:
        tip, head = refs.commit_of(here.history, heads[lane]), here.head(lane)
        if tip is not None and (head is None or not is_ancestor(here.history, tip, head)):
            return False
    return True


def rename_branch(here: Checkout, old: str, new: str, force: bool) -> Branch:
    heads = refs.get(here.history.db, old)
    current, who = here.local.branch, here.who
    if old == new:
        return Branch(old, heads["work"], heads["memory"], old == current)
    with operation(here, "branch -m", f"{old} {new}") as verb:
        with here.history.db.write():
            if force and refs.find(here.history.db, new) is not None:
                refs.delete(here.history, new, action=f"branch: replaced by {old}", who=who, moved=verb.moved)
            refs.delete(here.history, old, action=f"branch: renamed to {new}", who=who, moved=verb.moved)
            refs.create(here.history, new, heads, action=f"branch: renamed from {old}", who=who, moved=verb.moved)
            if old == current:  # in one transaction with the rename: a crash before the next line loses nothing
                object_tables.write_fact(here.history.db, "head", new)
        if old == current:
            here.local.set_state(head=new)
            here.local.log_head(here.local.base, here.local.base, new, f"{rev.RENAMED}{old} to {new}", who)
    return Branch(new, heads["work"], heads["memory"], old == current)


def create_tag(here: Checkout, name: str, at: str, message: str, force: bool) -> Tag:
    heads = heads_at(here, at)
    if not any(heads.values()):
        raise rev.describe_unknown(here, at)
    time, who = now(), here.who
    with operation(here, "tag", name) as verb, here.history.db.write():
        if force and refs.find(here.history.db, name, refs.TAG) is not None:
            refs.delete(here.history, name, kind=refs.TAG, action="tag: replaced", who=who, moved=verb.moved)
        note, action = refs.encode_tag_note(message, here.author, time), "tag: created"
        refs.create(here.history, name, heads, kind=refs.TAG, action=action, who=who, note=note, moved=verb.moved)
    return Tag(name, heads["work"], heads["memory"], message, here.author, time)


def delete_tag(here: Checkout, name: str) -> Tag:
    tag = next((tag for tag in refs.tags(here.history.db) if tag.name == name), None)
    if tag is None:
        refs.get(here.history.db, name, refs.TAG)
        raise NotFound(f"there is no tag {name!r}.")
    with operation(here, "tag -d", name) as verb, here.history.db.write():
        refs.delete(here.history, name, kind=refs.TAG, action="tag: deleted", who=here.who, moved=verb.moved)
    return tag


# -- standing somewhere -------------------------------------------------------------------------


class Going(NamedTuple):
    """How to switch: to a new branch (`create`; with `reset` one that exists is moved) at some rev, or to a commit."""

    create: bool = False
    detach: bool = False
    at: str | None = None
    force: bool = False
    reset: bool = False


def switch(here: Checkout, name: str, how: Going) -> tuple[Change, ...]:
    """Stand on a branch (or, detached, on a commit). Uncommitted work comes along or stops it."""
    refuse_waiting(here, "switch")
    if name == "-":
        name = rev.previous_branch(here)
        how = how._replace(create=False, detach=how.detach or refs.find(here.history.db, name) is None)
    if how.create:
        return _switch_new(here, name, how.at, reset=how.reset)
    if not how.detach and refs.find(here.history.db, name) is None and rev.find(here, name) is None:
        return _switch_new(here, name, _find_followed(here, name), reset=False)
    goal, target = _choose_goal(here, name, how.detach)
    with operation(here, "switch", name, files=True) as verb:
        return go(here, verb, target, goal, force=how.force)


def _switch_new(here: Checkout, name: str, at: str | None, *, reset: bool) -> tuple[Change, ...]:
    heads = heads_at(here, at or "HEAD")
    target = refs.commit_of(here.history, heads["work"])
    with operation(here, "switch -c", name, files=True) as verb:
        changes = update.target_changes(here.history, here.local, target)
        verb.before.saved |= update.check_safe(here.local, here.root, changes, "switch")
        ready = update.check_bytes(here, changes)
        goal = Goal(target.oid if target else None, name, f"{rev.SWITCHED}{name}", here.who)
        with journal.move_history(here, verb, Plan(goal, journal.new_token())):
            _put_branch(here, verb, name, heads, at or "HEAD", force=reset)
        update.move_to(here, verb, goal, changes, ready=ready)
    return changes


def _find_followed(here: Checkout, name: str) -> str:
    """The branch of a remote from which one of this name begins, as in git."""
    found = refs.list_followed(here.history.db, name)
    if not found:
        raise rev.describe_unknown(here, name)
    if len(found) > 1:
        raise InvalidInput(
            f"there is no branch {name!r} here, and {len(found)} remotes have one: {', '.join(found)}. Nothing was "
            "changed.",
            hint=f"Say which: memlake switch -c {pasted(name)} {pasted(found[0])}",
        )
    return found[0]


def _choose_goal(here: Checkout, name: str, detach: bool) -> tuple[Goal, Commit | None]:
    heads = refs.find(here.history.db, name)
    action = f"{rev.SWITCHED}{name}"
    if heads is not None and not detach:
        target = refs.commit_of(here.history, heads["work"])
        return Goal(heads["work"], name, action, here.who), target
    commit = rev.find(here, name)
    if commit is None:
        raise rev.describe_unknown(here, name)
    if not detach:
        raise InvalidInput(
            f"{name!r} is a commit, not a branch.",
            hint=f"Look at it with: memlake switch --detach {pasted(name)}\n"
            f"Start a branch there: memlake switch -c NAME {pasted(name)}",
        )
    if commit.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane and holds no files.",
            hint="See the commits that hold files with: memlake log",
        )
    return Goal(commit.oid, f"@{commit.oid}", action, here.who), commit


def go_to_commit(here: Checkout, commit: Commit) -> Goal:
    """Where a detached HEAD is to stand."""
    return Goal(commit.oid, f"@{commit.oid}", f"{rev.SWITCHED}{commit.oid}", here.who)


def go(here: Checkout, verb: Verb, target: Commit | None, goal: Goal, *, force: bool) -> tuple[Change, ...]:
    """Move the working files to a commit. Uncommitted work stops it, or is saved for undo and dropped."""
    changes = update.target_changes(here.history, here.local, target)
    if not force:
        verb.before.saved |= update.check_safe(here.local, here.root, changes, "switch")
        update.move_to(here, verb, goal, changes)
        return changes
    rewrite = _plan_rewrite(here, verb, target)
    update.move_to(here, verb, goal, rewrite, saved=verb.before.saved)
    return changes


def _plan_rewrite(here: Checkout, verb: Verb, target: Commit | None) -> list[Change]:
    """Every tracked path that is not what the target has, whatever it holds now, and what stands in its way."""
    changes = update.target_changes(here.history, here.local, target)
    dirty, _ = status.compare(here, untracked=False, purged=True)
    lost = {c.path for c in dirty} | {FILES + path for path in here.local.list_staged()}
    paths = {c.path for c in changes} | lost
    entries = here.history.entries(target, paths)
    rows = here.local.find_tracked(path.removeprefix(FILES) for path in paths)
    tracked = {FILES + row.path: row.entry for row in rows.values()}
    rewrite = [Change(path, tracked.get(path), entries.get(path)) for path in paths]
    blocking = [Change(FILES + path, None, None) for path in update.in_the_way(here.root, rewrite)]
    # A file the target brings may stand there untracked already: it is work too.
    brought = [c for c in rewrite if c.path in lost or c.old is None]
    verb.before.saved.update(save_dirty(here, verb, (*brought, *blocking)))
    return sorted(rewrite + blocking, key=lambda change: change.path)


def reset(here: Checkout, name: str, mode: str) -> tuple[Change, ...]:
    """Move the branch to a commit; `mixed` also resets the stage, `hard` also the files. Nothing leaves history."""
    if mode not in MODES:
        raise InvalidInput(f"reset has no mode {mode!r}.", hint="Use soft, mixed or hard.")
    if mode == "soft":  # the others give up what waits
        refuse_waiting(here, "reset --soft")
    if here.head() is None and name in ("HEAD", "@"):
        with operation(here, f"reset --{mode}", name):
            return () if mode == "soft" else here.local.unstage(here.local.list_staged().values())
    target, head = rev.resolve(here, name), here.head()
    if target.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane; reset moves the work lane.",
            hint="See the commits that hold files with: memlake log",
        )
    goal = Goal(target.oid, here.local.branch or f"@{target.oid}", f"reset: moving to {name}", here.who)
    with operation(here, f"reset --{mode}", name, files=mode == "hard") as verb:
        if mode == "hard":
            rewrite, saved = _plan_rewrite(here, verb, target), verb.before.saved
            ready = update.check_bytes(here, rewrite)
            plan = update.plan_forced(goal, rewrite, saved, journal.new_token())
            _move_branch(here, verb, plan, head, target)
            update.move_to(here, verb, goal, rewrite, saved=saved, ready=ready)
            return tuple(change for change in rewrite if change.old != change.new)
        rows, changes = _rebase_stage(here, target, keep=mode == "soft")
        plan = Plan(goal, journal.new_token(), rows=rows, files=False)
        _move_branch(here, verb, plan, head, target)
        update.finish(here.local, verb, plan, (), {})
        return changes


def _move_branch(here: Checkout, verb: Verb, plan: Plan, head: Commit | None, target: Commit) -> None:
    branch, action = here.local.branch, plan.goal.action
    with journal.move_history(here, verb, plan):
        if branch is not None and head != target:
            refs.move(here.history, branch, "work", head, target, action=action, who=here.who, moved=verb.moved)


def _rebase_stage(here: Checkout, target: Commit, *, keep: bool) -> tuple[list[Tracked], tuple[Change, ...]]:
    """Re-express the stage against another base: soft keeps its content, mixed drops it."""
    moved = {c.path.removeprefix(FILES): c for c in here.history.diff(here.base(), target, FILES)}
    rows = here.local.find_tracked({*moved, *here.local.list_staged()})
    new_rows, changes = [], []
    for path in sorted({*moved, *here.local.list_staged()}):
        row = rows.get(path)
        old = moved[path].new if path in moved else (row.old if row and row.staged else row.entry if row else None)
        entry = (row.entry if row else None) if keep else old
        same_stat = row is not None and row.entry == entry
        stat, racy = (row.stat, row.racy) if row is not None and same_stat else (None, True)
        new_rows.append(
            Tracked(
                path,
                entry,
                stat,
                racy,
                entry != old,
                old if entry != old else None,
                row.about if row and keep else None,
            )
        )
        if row is None or row.entry != entry:
            changes.append(Change(FILES + path, row.entry if row else None, entry))
    return new_rows, tuple(changes)


def _plan_stage(
    here: Checkout, paths: Sequence[str], name: str, *, overlay: bool = False
) -> tuple[list[Tracked], tuple[Change, ...]]:
    """The rows to set so that the stage of some paths is what a commit has, and what that changes."""
    target = rev.resolve(here, name) if here.head() or name != "HEAD" else None
    rows = {path: row for given in paths for path, row in here.local.under(given).items()}
    held = {p.removeprefix(FILES): e for given in paths for p, e in list_files(here, target, given)}
    if not rows and not held:
        raise NotFound(
            f"path {paths[0]!r} matches nothing that is tracked. Nothing was changed.",
            hint="See what is tracked with: memlake ls",
        )
    meant = held if overlay else {*rows, *held}
    new_rows = [stage.put_entry(rows.get(path), path, held.get(path)) for path in sorted(meant)]
    changed = [row for row in new_rows if rows.get(row.path) is None or rows[row.path].entry != row.entry]
    return changed, tuple(
        Change(FILES + row.path, rows[row.path].entry if row.path in rows else None, row.entry) for row in changed
    )


def list_files(here: Checkout, commit: Commit | None, path: str) -> list[tuple[str, Entry]]:
    """Files of a commit at or below a path, or matched by a pattern."""
    found = here.history.scan(commit, FILES + scope(path))
    return [(p, e) for p, e in found if matches(p.removeprefix(FILES), (path,))]


def restore(
    here: Checkout, paths: Sequence[str], source: str | None, *, staged: bool, worktree: bool, overlay: bool = False
) -> tuple[Change, ...]:
    """Bring back files of the stage (or of a commit), the stage from HEAD (or a commit), or both.

    Tracked files that the commit does not have are removed, as by git's restore; with `overlay` they stay.
    """
    rows, changes = _plan_stage(here, paths, source or "HEAD", overlay=overlay) if staged else ([], ())
    coming: list[Change] = []
    ready: update.Contents = {}
    if worktree:  # everything that may refuse comes before anything is changed
        coming = _find_incoming(here, _find_contents(here, paths, source, rows, overlay=overlay))
        update.refuse_in_the_way(here.root, coming, "restore")
        here.history.objects.bring(change.new.oid for change in coming if change.new is not None)
        ready = update.check_bytes(here, coming)
        for oid in here.history.objects.find_purged(change.new.oid for change in coming if change.new is not None):
            here.history.objects.size(oid)  # raises: what was named outright is not left out silently
    with operation(here, "restore", " ".join(paths), files=worktree) as verb:
        before = verb.before
        # A file that was not here stays when this is undone: the stage has it, so nothing of it is to be taken back.
        rows_now = here.local.find_tracked(file_path(change.path) for change in coming)
        away = {path for path, row in rows_now.items() if row.stat == NOT_HERE}
        before.saved.update(save_dirty(here, verb, tuple(c for c in coming if file_path(c.path) not in away)))
        before.left = {file_path(change.path): change.new for change in coming}  # the stage may not know it
        writes = update.with_held_content(coming, before.saved)
        plan = journal.plan_in_place(here.local, here.who, writes, [*_find_rows_to_stat(here, coming, rows), *rows])
        update.carry_out(here, verb, plan, ready)
    return tuple({change.path: change for change in (*changes, *coming)}.values())


def _find_incoming(here: Checkout, held: Mapping[str, Entry | None]) -> list[Change]:
    """Files that do not hold yet what they are to hold, by what the stage has of them now."""
    dirty, _ = status.compare(here, untracked=False, purged=True)
    rows = here.local.find_tracked(held)
    differing = {change.path.removeprefix(FILES) for change in dirty}
    differing |= {path for path, row in rows.items() if row.stat == NOT_HERE}
    wanted = [path for path in sorted(held) if path in differing or path not in rows or rows[path].entry != held[path]]
    return [Change(FILES + path, rows[path].entry if path in rows else None, held[path]) for path in wanted]


def _find_rows_to_stat(here: Checkout, coming: list[Change], restaged: list[Tracked]) -> list[Tracked]:
    """Rows that need only the stat of the new file: the stage has just this already."""
    there = here.local.find_tracked(change.path.removeprefix(FILES) for change in coming)
    new = {row.path for row in restaged}
    rows = {change.path.removeprefix(FILES): change.new for change in coming}
    return [row for path, row in there.items() if path not in new and row.entry == rows[path]]


def _find_contents(
    here: Checkout, paths: Sequence[str], source: str | None, restaged: list[Tracked], *, overlay: bool
) -> dict[str, Entry | None]:
    """What files at or below some paths are to hold, None where one goes; every path must match something."""
    rows = {path: row for given in paths for path, row in here.local.under(given).items()}
    held: dict[str, Entry | None]
    if source is None:
        rows.update((row.path, row) for row in restaged)
        held = {path: row.entry for path, row in rows.items() if row.entry is not None}
    else:
        commit = rev.resolve(here, source)
        held = {} if overlay else {path: None for path, row in rows.items() if row.entry is not None}
        held |= {p.removeprefix(FILES): e for given in paths for p, e in list_files(here, commit, given)}
    for given in paths:
        if not any(matches(path, (given,)) for path in held):
            raise NotFound(
                f"path {given!r} is not in {source or 'the stage'}. Nothing was changed.",
                hint="See what is there with: memlake ls",
            )
    return held


def refuse_waiting(here: Checkout, verb: str) -> None:
    if pending := here.local.find_pending():
        raise Conflict(
            f"a {pending.verb} is waiting for choices; {verb} would lose track of it. Nothing was changed.",
            hint=f"Finish it with: memlake {pending.verb} --continue\n"
            f"Or give it up with: memlake {pending.verb} --abort",
        )
