"""Recording a commit on a branch: compare-and-set, and rebase of a lost race when paths are disjoint.

The one road by which a branch moves forward. Knows nothing of working files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memlake.errors import Conflict, InvalidInput, Nothing
from memlake.objects.store import Objects
from memlake.records import Change, Commit, Entry, Lane
from memlake.versions.history import refs, thin
from memlake.versions.history.commits import Draft, History, Planned, keeps_tree
from memlake.versions.paths import plain

LARGE = 10_000  # edits from which the tree is planned before the lock is taken
Expected = Mapping[str, tuple[Entry | None, ...]]
Facts = Mapping[str, Any]  # what a commit says beside its content: "metrics", "params", "uses", "runs"


def encode_facts(facts: Facts) -> dict[str, bytes]:
    """Those facts that are not empty, each as JSON."""
    encoded = {}
    for name, value in facts.items():
        if value:
            try:
                text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidInput(f"{name} cannot be written as JSON: {error}. Nothing was committed.") from error
            encoded[name] = text.encode()
    return encoded


def write_facts(objects: Objects, facts: Facts) -> dict[str, str]:
    """Store facts as objects; returns their oids by name, for a commit of the same transaction."""
    links = {"uses": [use["oid"] for use in facts.get("uses") or () if use["oid"]]}
    if runs := facts.get("runs"):  # what they read may never have been added
        oids = {use["oid"] for run in runs for use in (run["program"], *run["reads"]) if use["oid"]}
        links["runs"] = sorted(oids - objects.find_missing(oids))
    return {name: objects.write(data, links=links.get(name, ())) for name, data in encode_facts(facts).items()}


def record(
    history: History,
    draft: Draft,
    *,
    branch: str,
    expects: Expected | None = None,
    allow_empty: bool = False,
    moved: refs.Moves | None = None,
    ready: Planned | None = None,
) -> Commit:
    """Commit edits on top of the head that the branch has once we hold the lock. `ready` is what `prepare` planned.

    `expects` says what the head may hold at some paths. If it holds something else at one of them, nothing is written
    and Conflict names it. Other people's changes to other paths are simply built upon.
    """
    with history.db.write():
        head = _head(history, branch, draft.lane)
        planned = history.plan(head, draft.edits, ready)
        if expects is not None:
            _check_expected(history, head, draft, planned.changes, expects)
        if not planned.changes and not allow_empty:
            raise Nothing("nothing to commit: everything is as the branch has it already.")
        other = _head(history, branch, "work" if draft.lane == "memory" else "memory")
        commit = history.append(draft, (head,) if head else (), other, planned)
        refs.move(history, branch, draft.lane, head, commit, moved=moved)
        _thin_at(history, commit, head)
    return commit


def prepare(history: History, branch: str | None, lane: Lane, edits: Mapping[str, Entry | None]) -> Planned | None:
    """Plan large edits before the lock is taken. Inside it, the plan is good unless the head has moved."""
    if branch is None or len(edits) <= LARGE:
        return None
    return history.plan(_head(history, branch, lane), edits)


def record_on(
    history: History,
    draft: Draft,
    parents: tuple[Commit, ...],
    *,
    branch: str | None,
    head: Commit | None,
    action: str,
    moved: refs.Moves,
    ready: Planned | None = None,
) -> Commit:
    """Commit on given parents (an amend, a merge, a detached HEAD) and move the branch from exactly `head`."""
    with history.db.write():
        other = _head(history, branch, "work" if draft.lane == "memory" else "memory") if branch else None
        commit = history.append(draft, parents, other, ready)
        if branch is not None:
            refs.move(history, branch, draft.lane, head, commit, action=action, who=draft.author.name, moved=moved)
            _thin_at(history, commit, parents[0] if parents else None)
    return commit


def _thin_at(history: History, commit: Commit, below: Commit | None) -> None:
    """Thin the memory lane if this is the first commit of a window."""
    if commit.lane == "memory" and keeps_tree(commit.generation, below.generation if below else 0):
        thin.thin(history)


def amend_draft(history: History, head: Commit, draft: Draft) -> Draft:
    """A draft relative to the parent of `head`, with the edits of `head` and those of the draft on top."""
    edits = {change.path: change.new for change in history.changes(head)}
    meta = {name: oid for name, oid in head.meta.items() if name != "changes"}
    return draft._replace(edits={**edits, **draft.edits}, meta={**meta, **draft.meta})


def _head(history: History, branch: str, lane: Lane) -> Commit | None:
    return refs.commit_of(history, refs.get(history.db, branch)[lane])


def _check_expected(
    history: History, head: Commit | None, draft: Draft, changes: tuple[Change, ...], expects: Expected
) -> None:
    """Raise Conflict if the head does not hold what is expected."""
    only_read = [path for path in expects if path not in draft.edits]
    # An edit that changes nothing finds what it wants there already; planning has read what the others replace.
    held = {**draft.edits, **{c.path: c.old for c in changes}}
    held.update(history.entries(head, only_read) if only_read else {})
    changed = [path for path, allowed in expects.items() if held.get(path) not in allowed]
    if changed:
        listed = "  ".join(map(plain, changed[:5])) + (f"  and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise Conflict(
            f"the branch moved meanwhile, and {len(changed)} of your paths changed there too:\n  {listed}\n"
            "Nothing was committed; your stage and files are unchanged.",
            hint="See the other side with `memlake log -1 --stat`, then stage what you want to keep and commit again.",
        )
