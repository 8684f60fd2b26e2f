"""Putting uncommitted work aside and taking it back. A stash is a commit that only an internal ref names."""

from __future__ import annotations

import json

from memlake.errors import Conflict, NotFound, Nothing
from memlake.objects.layout import now
from memlake.records import Change, Commit, Entry, short
from memlake.reports import Stash
from memlake.versions import checkout, refs, status, worktree
from memlake.versions.branching import refuse_waiting
from memlake.versions.here import Here
from memlake.versions.history import Draft
from memlake.versions.ignore import Ignore
from memlake.versions.local import Tracked
from memlake.versions.operations import operation, save_dirty
from memlake.versions.paths import FILES

_PREFIX = "stash/"


def push(here: Here, message: str, include_untracked: bool) -> Stash:
    """Keep uncommitted changes in a stash and put the files back to HEAD."""
    refuse_waiting(here, "stash")
    head = here.head()
    if head is None:
        raise Nothing("there is no commit yet to put work aside from.", hint="Make a first commit.")
    unstaged, untracked = status.compare(here.local, here.root)
    extra = tuple(_expand(here, untracked)) if include_untracked else ()
    edits = _work(here, unstaged, extra)
    if not edits:
        raise Nothing(
            "there is nothing to stash: no uncommitted changes.",
            hint="Add -u to include untracked files." if untracked else "",
        )
    text = message or f"WIP on {here.local.branch or short(head.oid)}: {short(head.oid)} {head.subject}"
    meta = {"untracked": here.history.objects.write(json.dumps(sorted(extra)).encode())} if extra else {}
    with operation(here, "stash", text, files=True) as before:
        with here.history.db.write():
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
        _back_to_head(here, head, edits)
    return Stash(0, commit.oid, text, commit.time)


def _work(here: Here, unstaged: tuple[Change, ...], untracked: tuple[str, ...]) -> dict[str, Entry | None]:
    edits: dict[str, Entry | None] = {FILES + row.path: row.entry for row in here.local.staged().values()}
    dirty = (*unstaged, *(Change(FILES + path, None, None) for path in untracked))
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


def _back_to_head(here: Here, head: Commit, edits: dict[str, Entry | None]) -> None:
    held = here.history.entries(head, edits)
    changes = [Change(path, entry, held.get(path)) for path, entry in sorted(edits.items())]
    stats = checkout.write_files(here.history.objects, here.root, changes)
    rows = []
    for path in edits:
        plain = path.removeprefix(FILES)
        stat, racy = stats.get(plain, (None, True))
        rows.append(Tracked(plain, held.get(path), stat, racy))
    here.local.put(rows)


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
    with operation(here, "stash apply", commit.subject, files=True):
        return _apply(here, commit)


def _apply(here: Here, commit: Commit) -> tuple[Change, ...]:
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
    with operation(here, "stash pop", commit.subject, files=True):
        changes = _apply(here, commit)
        with here.history.db.write():
            refs.delete(here.history, name, kind=refs.INTERNAL, action="stash: popped", who=here.who)
    return changes


def drop(here: Here, index: int) -> Stash:
    name, commit = _get(here, index)
    with operation(here, "stash drop", commit.subject), here.history.db.write():
        refs.delete(here.history, name, kind=refs.INTERNAL, action="stash: dropped", who=here.who)
    return Stash(index, commit.oid, commit.message, commit.time)
