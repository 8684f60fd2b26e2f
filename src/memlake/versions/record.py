"""Recording a commit on a branch: compare-and-set, and rebase of a lost race when paths are disjoint.

The one road by which a branch moves forward. Knows nothing of working files.
"""

from __future__ import annotations

from collections.abc import Mapping

from memlake.errors import Conflict, Nothing
from memlake.records import Change, Commit, Entry, Lane
from memlake.versions import refs, thin
from memlake.versions.history import WINDOW, Draft, History
from memlake.versions.paths import plain

LARGE = 10_000  # edits from which the tree is planned before the lock is taken
Expected = Mapping[str, tuple[Entry | None, ...]]


def record(
    history: History, draft: Draft, *, branch: str, expects: Expected | None = None, allow_empty: bool = False
) -> Commit:
    """Commit edits on top of whatever the branch's head is when the lock is ours.

    `expects` is what a path may hold for the caller to go on: if the head holds something else at one of
    them, nothing is written and Conflict names them. Other people's changes elsewhere are simply built upon.
    """
    with history.db.write():
        head = _head(history, branch, draft.lane)
        changes = history.plan(head, draft.edits)[0]
        if expects is not None:
            _check(history, head, draft, changes, expects)
        if not changes and not allow_empty:
            raise Nothing("nothing to commit: everything is as the branch has it already.")
        other = _head(history, branch, "work" if draft.lane == "memory" else "memory")
        commit = history.append(draft, (head,) if head else (), other)
        refs.move(history, branch, draft.lane, head, commit)
        if draft.lane == "memory" and commit.generation % WINDOW == 0:
            thin.thin(history)
    return commit


def prepare(history: History, branch: str | None, lane: Lane, edits: Mapping[str, Entry | None]) -> None:
    """Plan large edits before the lock is taken; inside it the plan is at hand unless the head moved."""
    if branch is not None and len(edits) > LARGE:
        history.plan(_head(history, branch, lane), edits)


def record_on(
    history: History, draft: Draft, parents: tuple[Commit, ...], *, branch: str | None, head: Commit | None, action: str
) -> Commit:
    """Commit on given parents (an amend, a merge, a detached HEAD) and move the branch from exactly `head`."""
    with history.db.write():
        other = _head(history, branch, "work" if draft.lane == "memory" else "memory") if branch else None
        commit = history.append(draft, parents, other)
        if branch is not None:
            refs.move(history, branch, draft.lane, head, commit, action=action, who=draft.author.name)
    return commit


def amended(history: History, head: Commit, draft: Draft) -> Draft:
    """A draft that says what `head` said and what the draft says, relative to the parent of head."""
    edits = {change.path: change.new for change in history.changes(head)}
    meta = {name: oid for name, oid in head.meta.items() if name != "changes"}
    return draft._replace(edits={**edits, **draft.edits}, meta={**meta, **draft.meta})


def _head(history: History, branch: str, lane: Lane) -> Commit | None:
    return refs.commit_of(history, refs.get(history.db, branch)[lane])


def _check(history: History, head: Commit | None, draft: Draft, changes: tuple[Change, ...], expects: Expected) -> None:
    """The head must hold what is expected."""
    only_read = [path for path in expects if path not in draft.edits]
    # What is no change is there already as we want it; the rest is known from planning.
    found = {**draft.edits, **{c.path: c.old for c in changes}}
    found.update(history.entries(head, only_read) if only_read else {})
    changed = [path for path, allowed in expects.items() if found.get(path) not in allowed]
    if changed:
        listed = "  ".join(map(plain, changed[:5])) + (f"  and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise Conflict(
            f"the branch moved meanwhile, and {len(changed)} of your paths changed there too:\n  {listed}\n"
            "Nothing was committed; your stage and files are unchanged.",
            hint="See the other side with `memlake log -1 --stat`, then stage what you want to keep and commit again.",
        )
