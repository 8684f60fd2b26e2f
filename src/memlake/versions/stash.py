"""Putting uncommitted work aside and taking it back. A stash is a commit that only an internal ref names."""

from __future__ import annotations

import json

from memlake.errors import Conflict, NotFound, Nothing
from memlake.objects.layout import now
from memlake.records import Change, Commit, Entry, short
from memlake.reports import Stash
from memlake.versions import checkout, journal, refs, status, worktree
from memlake.versions.branching import refuse_waiting
from memlake.versions.here import Here
from memlake.versions.history import Draft
from memlake.versions.ignore import Ignore
from memlake.versions.journal import Goal, Plan
from memlake.versions.local import Tracked
from memlake.versions.operations import Before, operation, save_dirty
from memlake.versions.paths import FILES

_PREFIX = "stash/"


def push(here: Here, message: str, include_untracked: bool) -> Stash:
    """Keep uncommitted changes in a stash and put the files back to HEAD."""
    refuse_waiting(here, "stash")
    # The work was done on top of base; the branch may have moved since.
    head = here.base()
    if head is None:
        raise Nothing("there is no commit yet to put work aside from.", hint="Make a first commit.")
    unstaged, untracked = status.compare(here.local, here.root)
    extra = tuple(_expand(here, untracked)) if include_untracked else ()
    if not unstaged and not extra and not here.local.staged():
        raise Nothing(
            "there is nothing to stash: no uncommitted changes.",
            hint="Add -u to include untracked files." if untracked else "",
        )
    text = message or f"WIP on {here.local.branch or short(head.oid)}: {short(head.oid)} {head.subject}"
    with operation(here, "stash", text, files=True) as before:
        edits = _work(here, unstaged, extra)
        held = here.history.entries(head, edits)
        back = [Change(path, entry, held.get(path)) for path, entry in sorted(edits.items())]
        checkout.refuse_in_the_way(here.root, back, "stash")
        checkout.check_bytes(here.history.objects, back)
        goal = Goal(here.local.base, here.local.state("head") or "", "", here.who)
        rows = [Tracked(change.path.removeprefix(FILES), change.new, None, True) for change in back]
        plan = Plan(goal, journal.new_token(), back, rows)
        with journal.moving(here.history, here.local, plan):
            meta = {"untracked": here.history.objects.write(json.dumps(sorted(extra)).encode())} if extra else {}
            draft = Draft("work", edits, here.author, text, now(), meta)
            commit = here.history.append(draft, (head,), here.head("memory"))
            name = f"{_PREFIX}{_next(here):06d}"
            refs.create(
                here.history,
                name,
                {"work": commit.oid, "memory": None},
                kind=refs.INTERNAL,
                action=f"stash: {text}",
                who=here.who,
            )
        before.saved = {path.removeprefix(FILES): entry for path, entry in edits.items()}
        stats = checkout.write_files(here.history.objects, here.root, back)
        checkout.finish(here.local, plan, goal.commit, (), stats)
    return Stash(0, commit.oid, text, commit.time)


def _work(here: Here, unstaged: tuple[Change, ...], untracked: tuple[str, ...]) -> dict[str, Entry | None]:
    edits: dict[str, Entry | None] = {FILES + row.path: row.entry for row in here.local.staged().values()}
    # A file the stage removed may still lie there, and putting HEAD's back would overwrite it.
    left = [path.removeprefix(FILES) for path, entry in edits.items() if entry is None]
    left = [path for path in left if worktree.find_stat(here.root, path) is not None]
    dirty = (*unstaged, *(Change(FILES + path, None, None) for path in (*untracked, *left)))
    edits.update((FILES + path, entry) for path, entry in save_dirty(here, dirty).items())
    return edits


def _expand(here: Here, untracked: tuple[str, ...]) -> list[str]:
    found = []
    for path in untracked:
        if path.endswith("/"):
            ignore = Ignore(here.root)
            for part in path[:-1].split("/"):
                ignore = ignore.enter(part)
            found += [inner for inner, _ in worktree.walk(here.root, path[:-1], ignore)]
        else:
            found.append(path)
    return found


def _next(here: Here) -> int:
    row = here.history.db.row("SELECT max(name) FROM ref WHERE kind = 2 AND name LIKE 'stash/%'")
    return int(row[0].removeprefix(_PREFIX)) + 1 if row and row[0] else 1


def _names(here: Here) -> list[tuple[str, str]]:
    rows = here.history.db.rows("SELECT name, work FROM ref WHERE kind = 2 AND name LIKE 'stash/%' ORDER BY name DESC")
    return [(name, oid.hex()) for name, oid in rows]


def stashes(here: Here) -> list[Stash]:
    commits = [here.history.get(oid) for _, oid in _names(here)]
    return [Stash(index, commit.oid, commit.message, commit.time) for index, commit in enumerate(commits)]


def _get(here: Here, index: int) -> tuple[str, Commit]:
    names = _names(here)
    if not 0 <= index < len(names):
        raise NotFound(
            f"there is no stash@{{{index}}}; there are {len(names)}.", hint="See them with: memlake stash list"
        )
    return names[index][0], here.history.get(names[index][1])


def apply(here: Here, index: int) -> tuple[Change, ...]:
    """Put a stash's changes on top of the working files; refuses, whole, where they would meet other work."""
    refuse_waiting(here, "stash apply")
    _, commit = _get(here, index)
    with operation(here, "stash apply", commit.subject, files=True) as before:
        return _apply(here, commit, before)


def _apply(here: Here, commit: Commit, before: Before) -> tuple[Change, ...]:
    changes = here.history.changes(commit)
    current = here.history.entries(here.head(), [change.path for change in changes])
    moved = [c.path for c in changes if current.get(c.path) not in (c.old, c.new)]
    if moved:
        listed = "\n  ".join(path.removeprefix(FILES) for path in moved[:10])
        raise Conflict(
            f"the stash cannot be applied: these paths changed since:\n  {listed}\nNothing was changed.",
            hint="Look at it with `memlake stash show`, or switch to where it was made.",
        )
    checkout.check_safe(here.local, here.root, changes, "stash")
    untracked = json.loads(here.history.objects.read(commit.meta["untracked"])) if "untracked" in commit.meta else []
    before.saved = save_dirty(here, changes)
    before.left = {change.path.removeprefix(FILES): change.new for change in changes}
    stats = checkout.write_files(here.history.objects, here.root, changes)
    rows = here.local.tracked(c.path.removeprefix(FILES) for c in changes)
    added = []
    for change in changes:
        path = change.path.removeprefix(FILES)
        if path not in rows and path not in untracked and change.new is not None:
            stat, racy = stats.get(path, (None, True))
            added.append(Tracked(path, change.new, stat, racy, True, None))
    here.local.put(added)
    return changes


def pop(here: Here, index: int) -> tuple[Change, ...]:
    refuse_waiting(here, "stash pop")
    name, commit = _get(here, index)
    with operation(here, "stash pop", commit.subject, files=True) as before:
        changes = _apply(here, commit, before)
        with here.history.db.write():
            refs.delete(here.history, name, kind=refs.INTERNAL, action="stash: popped", who=here.who)
    return changes


def drop(here: Here, index: int) -> Stash:
    name, commit = _get(here, index)
    with operation(here, "stash drop", commit.subject), here.history.db.write():
        refs.delete(here.history, name, kind=refs.INTERNAL, action="stash: dropped", who=here.who)
    return Stash(index, commit.oid, commit.message, commit.time)
