"""Branches and tags as verbs, and standing on one: branch, tag, switch, reset. Uses checkout for working files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memlake.errors import Conflict, InvalidInput, NotFound
from memlake.objects.layout import now
from memlake.records import Branch, Change, Commit, Entry, Tag
from memlake.versions import checkout, journal, refs, rev, stage, status
from memlake.versions.bases import is_ancestor
from memlake.versions.codec import LANES
from memlake.versions.here import Here
from memlake.versions.journal import Goal, Plan
from memlake.versions.local import Tracked
from memlake.versions.operations import operation, save_dirty
from memlake.versions.paths import FILES, file_path, matches, scope

MODES = ("soft", "mixed", "hard")
Saved = dict[str, Entry | None]


def heads_at(here: Here, at: str) -> refs.Heads:
    """Both lanes a rev names: a branch or tag names two commits, any other rev one and its note of the other."""
    name = here.local.branch if at in ("HEAD", "@") else at
    for kind in (refs.BRANCH, refs.TAG):
        found = refs.find(here.history.db, name or "", kind)
        if found is not None:
            return found
    commit = rev.resolve(here, at)
    return (
        {"work": commit.oid, "memory": commit.other}
        if commit.lane == "work"
        else {"work": commit.other, "memory": commit.oid}
    )


class Chosen(NamedTuple):
    """Which branches are listed: those that contain a commit, are merged into one, or are not."""

    contains: str | None = None
    merged: str | None = None
    no_merged: str | None = None


def list_branches(here: Here, chosen: Chosen) -> list[Branch]:
    found = refs.branches(here.history.db, here.local.branch)
    if chosen.contains is not None:
        inner = rev.resolve(here, chosen.contains)
        found = [b for b in found if (tip := _tip(here, b, inner)) and is_ancestor(here.history, inner, tip)]
    for name, wanted in ((chosen.merged, True), (chosen.no_merged, False)):
        if name is not None:
            into = rev.resolve(here, name)
            tips = [(b, tip) for b in found if (tip := _tip(here, b, into))]
            found = [b for b, tip in tips if is_ancestor(here.history, tip, into) == wanted]
    return found


def _tip(here: Here, branch: Branch, beside: Commit) -> Commit | None:
    """The head of a branch on the lane of another commit."""
    return refs.commit_of(here.history, branch.work if beside.lane == "work" else branch.memory)


def create_branch(here: Here, name: str, at: str, *, force: bool, note: bytes | None = None) -> Branch:
    """Make a branch, with what is noted of it; with `force`, move one that exists."""
    heads = heads_at(here, at)
    if force and name == here.local.branch:
        raise Conflict(
            f"branch {name!r} is the one you are on; its files would no longer be its own. Nothing was changed.",
            hint=f"Move it with its files: memlake reset --hard {at}",
        )
    with operation(here, "branch", name), here.history.db.write():
        if note is None:
            _put_branch(here, name, heads, at, force=force)
        else:
            refs.create(here.history, name, heads, action=f"branch: created from {at}", who=here.who, note=note)
        if not any(heads.values()):
            raise NotFound(
                f"branch {here.local.branch!r} has no commits yet, so {name!r} would name nothing.",
                hint="Commit or remember something first, or start with: memlake switch -c " + name,
            )
    return Branch(name, heads["work"], heads["memory"])


def _put_branch(here: Here, name: str, heads: refs.Heads, at: str, *, force: bool) -> None:
    """Call inside a write."""
    old = refs.find(here.history.db, name) if force else None
    if old is None:
        refs.create(here.history, name, heads, action=f"branch: created from {at}", who=here.who)
        return
    for lane in LANES:
        if old[lane] != heads[lane]:
            was, now_ = refs.commit_of(here.history, old[lane]), refs.commit_of(here.history, heads[lane])
            refs.move(here.history, name, lane, was, now_, action=f"branch: reset to {at}", who=here.who)


def delete_branch(here: Here, name: str, force: bool) -> Branch:
    heads = refs.get(here.history.db, name)
    if name == here.local.branch:
        other = next((found.name for found in refs.branches(here.history.db, None) if found.name != name), "-c NAME")
        raise Conflict(
            f"branch {name!r} is the one you are on. Nothing was changed.",
            hint=f"Switch to another one first: memlake switch {other}",
        )
    if not force and not _is_merged(here, heads):
        raise Conflict(
            f"branch {name!r} has commits that no other branch has. Nothing was changed.",
            hint=f"Merge it first, or delete it all the same: memlake branch -D {name} (the reflog keeps its commits)",
        )
    with operation(here, "branch -d", name), here.history.db.write():
        refs.delete(here.history, name, action="branch: deleted", who=here.who)
    return Branch(name, heads["work"], heads["memory"])


def _is_merged(here: Here, heads: refs.Heads) -> bool:
    for lane in LANES:
        tip, head = refs.commit_of(here.history, heads[lane]), here.head(lane)
        if tip is not None and (head is None or not is_ancestor(here.history, tip, head)):
            return False
    return True


def rename_branch(here: Here, old: str, new: str, force: bool) -> Branch:
    heads = refs.get(here.history.db, old)
    current = here.local.branch
    if old == new:
        return Branch(old, heads["work"], heads["memory"], old == current)
    with operation(here, "branch -m", f"{old} {new}"):
        with here.history.db.write():
            if force and refs.find(here.history.db, new) is not None:
                refs.delete(here.history, new, action=f"branch: replaced by {old}", who=here.who)
            refs.delete(here.history, old, action=f"branch: renamed to {new}", who=here.who)
            refs.create(here.history, new, heads, action=f"branch: renamed from {old}", who=here.who)
        if old == current:
            here.local.set_state(head=new)
            here.local.log_head(here.local.base, here.local.base, new, f"branch: renamed {old} to {new}", here.who)
    return Branch(new, heads["work"], heads["memory"], old == current)


def create_tag(here: Here, name: str, at: str, message: str, force: bool) -> Tag:
    heads = heads_at(here, at)
    if not any(heads.values()):
        raise rev.unknown(here, at)
    time = now()
    with operation(here, "tag", name), here.history.db.write():
        if force and refs.find(here.history.db, name, refs.TAG) is not None:
            refs.delete(here.history, name, kind=refs.TAG, action="tag: replaced", who=here.who)
        note = refs.tag_note(message, here.author, time)
        refs.create(here.history, name, heads, kind=refs.TAG, action="tag: created", who=here.who, note=note)
    return Tag(name, heads["work"], heads["memory"], message, here.author, time)


def delete_tag(here: Here, name: str) -> Tag:
    tag = next((tag for tag in refs.tags(here.history.db) if tag.name == name), None)
    if tag is None:
        refs.get(here.history.db, name, refs.TAG)
        raise NotFound(f"there is no tag {name!r}.")
    with operation(here, "tag -d", name), here.history.db.write():
        refs.delete(here.history, name, kind=refs.TAG, action="tag: deleted", who=here.who)
    return tag


# -- standing somewhere -------------------------------------------------------------------------


class Going(NamedTuple):
    """How to switch: to a new branch (`create`; with `reset` one that exists is moved) at some rev, or to a commit."""

    create: bool = False
    detach: bool = False
    at: str | None = None
    force: bool = False
    reset: bool = False


def switch(here: Here, name: str, how: Going) -> tuple[Change, ...]:
    """Stand on a branch (or, detached, on a commit). Uncommitted work comes along or stops it."""
    refuse_waiting(here, "switch")
    if name == "-":
        name = rev.previous_branch(here)
        how = how._replace(create=False, detach=how.detach or refs.find(here.history.db, name) is None)
    if how.create:
        return _switch_new(here, name, how.at, reset=how.reset)
    goal, target = _goal(here, name, how.detach)
    with operation(here, "switch", name, files=True) as before:
        return go(here, target, goal, before.saved, force=how.force)


def _switch_new(here: Here, name: str, at: str | None, *, reset: bool) -> tuple[Change, ...]:
    heads = heads_at(here, at or "HEAD")
    target = refs.commit_of(here.history, heads["work"])
    with operation(here, "switch -c", name, files=True) as before:
        changes = checkout.target_changes(here.history, here.local, target)
        before.saved |= checkout.check_safe(here.local, here.root, changes, "switch")
        ready = checkout.check_bytes(here.history.objects, changes)
        goal = Goal(target.oid if target else None, name, f"switch: moving to {name}", here.who)
        with journal.moving(here.history, here.local, Plan(goal, journal.new_token())):
            _put_branch(here, name, heads, at or "HEAD", force=reset)
        checkout.move_to(here.history, here.local, here.root, goal, changes, ready=ready)
    return changes


def _goal(here: Here, name: str, detach: bool) -> tuple[Goal, Commit | None]:
    heads = refs.find(here.history.db, name)
    action = f"switch: moving to {name}"
    if heads is not None and not detach:
        target = refs.commit_of(here.history, heads["work"])
        return Goal(heads["work"], name, action, here.who), target
    commit = rev.find(here, name)
    if commit is None:
        raise rev.unknown(here, name)
    if not detach:
        raise InvalidInput(
            f"{name!r} is a commit, not a branch.",
            hint=f"Look at it with: memlake switch --detach {name}\n"
            f"Start a branch there: memlake switch -c NAME {name}",
        )
    if commit.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane and holds no files.",
            hint="Name a commit of the work lane; see memlake log.",
        )
    return Goal(commit.oid, f"@{commit.oid}", action, here.who), commit


def go(here: Here, target: Commit | None, goal: Goal, saved: Saved, *, force: bool) -> tuple[Change, ...]:
    """Move the working files to a commit. Uncommitted work stops it, or is `saved` for undo and dropped."""
    changes = checkout.target_changes(here.history, here.local, target)
    if not force:
        saved |= checkout.check_safe(here.local, here.root, changes, "switch")
        checkout.move_to(here.history, here.local, here.root, goal, changes)
        return changes
    rewrite = _forced(here, target, saved)
    checkout.move_to(here.history, here.local, here.root, goal, rewrite, saved=saved)
    return changes


def _forced(here: Here, target: Commit | None, saved: Saved) -> list[Change]:
    """Every tracked path that is not what the target has, whatever it holds now, and what stands in its way."""
    changes = checkout.target_changes(here.history, here.local, target)
    dirty, _ = status.compare(here, untracked=False, purged=True)
    lost = {c.path for c in dirty} | {FILES + path for path in here.local.staged()}
    paths = {c.path for c in changes} | lost
    entries = here.history.entries(target, paths)
    rows = here.local.tracked(path.removeprefix(FILES) for path in paths)
    rewrite = [Change(path, _now(rows.get(path.removeprefix(FILES))), entries.get(path)) for path in paths]
    blocking = [Change(FILES + path, None, None) for path in checkout.in_the_way(here.root, rewrite)]
    # A file the target brings may stand there untracked already: it is work too.
    brought = [c for c in rewrite if c.path in lost or c.old is None]
    saved.update(save_dirty(here, (*brought, *blocking)))
    return sorted(rewrite + blocking, key=lambda change: change.path)


def _now(row: Tracked | None) -> Entry | None:
    return row.entry if row else None


def reset(here: Here, name: str, mode: str) -> tuple[Change, ...]:
    """Move the branch to a commit; `mixed` also resets the stage, `hard` also the files. Nothing leaves history."""
    if mode not in MODES:
        raise InvalidInput(f"reset has no mode {mode!r}.", hint="Use soft, mixed or hard.")
    if mode == "soft":  # the others give up what waits
        refuse_waiting(here, "reset --soft")
    if here.head() is None and name in ("HEAD", "@"):
        with operation(here, f"reset --{mode}", name):
            return () if mode == "soft" else stage.unstage(here.local, list(here.local.staged().values()))
    target, head = rev.resolve(here, name), here.head()
    if target.lane != "work":
        raise InvalidInput(
            f"{name!r} is a commit of the memory lane; reset moves the work lane.",
            hint="Name a commit that memlake log shows.",
        )
    branch = here.local.branch
    goal = Goal(target.oid, branch or f"@{target.oid}", f"reset: moving to {name}", here.who)
    with operation(here, f"reset --{mode}", name, files=mode == "hard") as before:
        if mode == "hard":
            rewrite = _forced(here, target, before.saved)
            ready = checkout.check_bytes(here.history.objects, rewrite)
            plan = checkout.forced(goal, rewrite, before.saved, journal.new_token())
            _move_branch(here, plan, branch, head, target)
            checkout.move_to(here.history, here.local, here.root, goal, rewrite, saved=before.saved, ready=ready)
            return tuple(change for change in rewrite if change.old != change.new)
        rows, changes = _restage(here, target, keep=mode == "soft")
        plan = Plan(goal, journal.new_token(), rows=rows, files=False)
        _move_branch(here, plan, branch, head, target)
        checkout.finish(here.local, plan, target.oid, (), {})
        return changes


def _move_branch(here: Here, plan: Plan, branch: str | None, head: Commit | None, target: Commit) -> None:
    with journal.moving(here.history, here.local, plan):
        if branch is not None and head != target:
            refs.move(here.history, branch, "work", head, target, action=plan.goal.action, who=here.who)


def _restage(here: Here, target: Commit, *, keep: bool) -> tuple[list[Tracked], tuple[Change, ...]]:
    """Re-express the stage against another base: soft keeps its content, mixed drops it."""
    moved = {c.path.removeprefix(FILES): c for c in here.history.diff(here.base(), target, FILES)}
    rows = here.local.tracked({*moved, *here.local.staged()})
    new_rows, changes = [], []
    for path in sorted({*moved, *here.local.staged()}):
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


def reset_paths(here: Here, paths: Sequence[str], name: str) -> tuple[Change, ...]:
    """Set the stage of some paths to what a commit has; working files stay."""
    rows, changes = _restaged(here, paths, name)
    with operation(here, "reset", " ".join(paths)):
        here.local.put(rows)
    return changes


def _restaged(here: Here, paths: Sequence[str], name: str) -> tuple[list[Tracked], tuple[Change, ...]]:
    """The rows to set so that the stage of some paths is what a commit has, and what that changes."""
    target = rev.resolve(here, name) if here.head() or name != "HEAD" else None
    rows = {path: row for given in paths for path, row in here.local.under(given).items()}
    held = {p.removeprefix(FILES): e for given in paths for p, e in below(here, target, given)}
    if not rows and not held:
        raise NotFound(
            f"path {paths[0]!r} matches nothing that is tracked. Nothing was changed.",
            hint="See what is tracked with: memlake ls",
        )
    new_rows = [stage.put_entry(rows.get(path), path, held.get(path)) for path in sorted({*rows, *held})]
    changed = [row for row in new_rows if rows.get(row.path) is None or rows[row.path].entry != row.entry]
    return changed, tuple(
        Change(FILES + row.path, rows[row.path].entry if row.path in rows else None, row.entry) for row in changed
    )


def below(here: Here, commit: Commit | None, path: str) -> list[tuple[str, Entry]]:
    """Files of a commit at or below a path, or matched by a pattern."""
    found = here.history.scan(commit, FILES + scope(path))
    return [(p, e) for p, e in found if matches(p.removeprefix(FILES), (path,))]


def restore(
    here: Here, paths: Sequence[str], source: str | None, *, staged: bool, worktree: bool
) -> tuple[Change, ...]:
    """Bring back files of the stage (or of a commit), the stage from HEAD (or a commit), or both."""
    rows, changes = _restaged(here, paths, source or "HEAD") if staged else ([], ())
    coming: list[Change] = []
    ready: checkout.Contents = {}
    if worktree:  # everything that may refuse comes before anything is changed
        coming = _coming(here, _held(here, paths, source, rows))
        checkout.refuse_in_the_way(here.root, coming, "restore")
        ready = checkout.check_bytes(here.history.objects, coming)
        for oid in here.history.objects.purged(change.new.oid for change in coming if change.new is not None):
            here.history.objects.size(oid)  # raises: what was named outright is not left out silently
    with operation(here, "restore", " ".join(paths), files=worktree) as before:
        before.saved.update(save_dirty(here, tuple(coming)))
        before.left = {file_path(change.path): change.new for change in coming}  # the stage may not know it
        writes = checkout.replacing(coming, before.saved)
        plan = journal.staying(here.local, here.who, writes, [*_fresh(here, coming, rows), *rows])
        checkout.carry_out(here.history, here.local, here.root, plan, ready)
    return tuple({change.path: change for change in (*changes, *coming)}.values())


def _coming(here: Here, held: dict[str, Entry]) -> list[Change]:
    """Files that do not hold yet what they are to hold, by what the stage has of them now."""
    rows = here.local.tracked(held)
    dirty, _ = status.compare(here, untracked=False, purged=True)
    differing = {change.path.removeprefix(FILES) for change in dirty}
    wanted = [path for path in sorted(held) if path in differing or path not in rows or rows[path].entry != held[path]]
    return [Change(FILES + path, rows[path].entry if path in rows else None, held[path]) for path in wanted]


def _fresh(here: Here, coming: list[Change], restaged: list[Tracked]) -> list[Tracked]:
    """Rows that need only the stat of the new file: the stage has just this already."""
    there = here.local.tracked(change.path.removeprefix(FILES) for change in coming)
    new = {row.path for row in restaged}
    rows = {change.path.removeprefix(FILES): change.new for change in coming}
    return [row for path, row in there.items() if path not in new and row.entry == rows[path]]


def _held(here: Here, paths: Sequence[str], source: str | None, restaged: list[Tracked]) -> dict[str, Entry]:
    """What the stage (or a commit) holds at or below some paths; every one of them must match something."""
    if source is None:
        rows = {path: row for given in paths for path, row in here.local.under(given).items()}
        rows.update((row.path, row) for row in restaged)
        held = {path: row.entry for path, row in rows.items() if row.entry is not None}
    else:
        commit = rev.resolve(here, source)
        held = {p.removeprefix(FILES): e for given in paths for p, e in below(here, commit, given)}
    for given in paths:
        if not any(matches(path, (given,)) for path in held):
            raise NotFound(
                f"path {given!r} is not in {source or 'the stage'}. Nothing was changed.",
                hint="See what is there with: memlake ls",
            )
    return held


def refuse_waiting(here: Here, verb: str) -> None:
    doing = here.local.json_state("doing")
    if doing is not None:
        raise Conflict(
            f"a {doing['verb']} is waiting for choices; {verb} would lose track of it. Nothing was changed.",
            hint=f"Finish it with memlake {doing['verb']} --continue, or drop it with memlake {doing['verb']} --abort.",
        )
