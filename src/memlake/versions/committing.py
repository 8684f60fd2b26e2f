"""The commit verb for files: from the stage to a commit, with what was noted, used, measured. Moves HEAD's branch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memlake.errors import Conflict, InvalidInput, Nothing
from memlake.objects.layout import now
from memlake.records import Author, Commit
from memlake.versions import rev
from memlake.versions.branching import refuse_waiting
from memlake.versions.here import Here
from memlake.versions.history import Draft
from memlake.versions.local import Tracked
from memlake.versions.operations import operation
from memlake.versions.paths import FILES, check, tree_path
from memlake.versions.record import amended, record, record_on


@dataclass(frozen=True, slots=True)
class Saying:
    """What a commit says beside its content."""

    message: str | None
    author: Author | None = None
    uses: Sequence[str] = ()
    metrics: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    amend: bool = False
    allow_empty: bool = False


def commit_stage(here: Here, saying: Saying) -> Commit:
    refuse_waiting(here, "commit")
    head, staged = here.head(), here.local.staged()
    if saying.amend and head is None:
        raise Nothing("there is no commit to amend yet.", hint="Make the first one without --amend.")
    message = _message(saying, head)
    if not staged and not saying.amend and not saying.allow_empty:
        raise Nothing("nothing to commit: nothing is staged.", hint="Stage files with: memlake add PATH")
    draft = _draft(here, saying, message, staged)
    with operation(here, "commit --amend" if saying.amend else "commit", message.split("\n", 1)[0]) as before:
        commit = _amend(here, head, draft) if saying.amend and head else _append(here, head, draft, staged, saying)
        _settle(here, head, commit, staged)
        if not saying.amend and staged:
            before.commit = commit.oid
    return commit


def _message(saying: Saying, head: Commit | None) -> str:
    if saying.message is None and saying.amend and head is not None:
        return head.message
    message = (saying.message or "").strip()
    if not message:
        raise InvalidInput(
            "a commit needs a message. Nothing was committed.", hint='Give one with: memlake commit -m "what and why"'
        )
    return message


def _draft(here: Here, saying: Saying, message: str, staged: Mapping[str, Tracked]) -> Draft:
    edits = {tree_path(row.path): row.entry for row in staged.values()}
    facts = {
        "about": {row.path: json.loads(row.about) for row in staged.values() if row.about},
        "uses": [_use(here, text) for text in saying.uses],
        "metrics": dict(saying.metrics or {}),
        "params": dict(saying.params or {}),
    }
    return Draft("work", edits, saying.author or here.author, message, now(), write_facts(here, facts))


def write_facts(here: Here, facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts beside the content are objects; a commit names them by oid."""
    meta = {}
    for name, value in facts.items():
        if value:
            try:
                text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"{name} cannot be written as JSON: {error}. Nothing was committed.") from error
            links = [use["oid"] for use in value if use["oid"]] if name == "uses" else []
            meta[name] = here.history.objects.write(text.encode(), links=links)
    return meta


def _use(here: Here, text: str) -> dict[str, str | None]:
    """`PATH[@REV]` a file was made from: the path, the commit and the object it was then."""
    path, at, name = text.rpartition("@")
    if not at:
        path, name = text, "HEAD"
    full = (
        path if path.split("/", 1)[0] in ("files", "datasets", "memories", "state") and "/" in path else tree_path(path)
    )
    check(full)
    staged = here.local.tracked([full.removeprefix(FILES)]).get(full.removeprefix(FILES)) if not at else None
    if staged is not None and staged.staged and staged.entry is not None:
        return {"path": full, "commit": None, "oid": staged.entry.oid}
    commit = rev.resolve(here, name)
    entry = here.history.entries(commit, [full]).get(full)
    if entry is None:
        raise InvalidInput(
            f"--uses {text}: {path!r} is not in {name}. Nothing was committed.",
            hint="Check the path; see what is there with: memlake ls " + name,
        )
    return {"path": full, "commit": commit.oid, "oid": entry.oid}


def _append(here: Here, head: Commit | None, draft: Draft, staged: Mapping[str, Tracked], saying: Saying) -> Commit:
    branch = here.local.branch
    if branch is None:
        if head is None:
            raise InvalidInput("HEAD names no commit.", hint="Switch to a branch: memlake switch main")
        return record_on(here.history, draft, (head,), branch=None, head=head, action="commit")
    expects = {tree_path(row.path): row.old for row in staged.values()}
    return record(here.history, draft, branch=branch, expects=expects, allow_empty=saying.allow_empty)


def _amend(here: Here, head: Commit, draft: Draft) -> Commit:
    parents = tuple(here.history.get(oid) for oid in head.parents)
    full = amended(here.history, head, draft)
    if here.local.branch is not None and here.head() != head:
        raise Conflict("the branch moved while this was being done. Nothing was changed.", hint="Run it again.")
    return record_on(
        here.history,
        full,
        parents,
        branch=here.local.branch,
        head=head,
        action=f"commit (amend): {draft.message.splitlines()[0]}",
    )


def _settle(here: Here, head: Commit | None, commit: Commit, staged: Mapping[str, Tracked]) -> None:
    """The stage is history now. If other people's files came in by a rebase, base stays where our files are."""
    branch = here.local.branch
    first = here.history.get(commit.parents[0]) if commit.parents else None
    base = (
        commit.oid
        if first == head or (first is None and head is None) or commit.parents == (head.parents if head else ())
        else None
    )
    with here.local.db.write():
        if base is None:
            bring_along(here, head, commit, staged)
        here.local.committed(commit.oid, staged)
        if branch is None:
            here.local.set_state(head=f"@{commit.oid}")
        here.local.log_head(head.oid if head else None, commit.oid, branch, f"commit: {commit.subject}", here.who)


def bring_along(here: Here, head: Commit | None, commit: Commit, staged: Mapping[str, Tracked]) -> None:
    """Someone else's commit came between: their files are tracked now but not in our folder; status shows them so."""
    rows = here.local.tracked(c.path.removeprefix(FILES) for c in here.history.diff(head, commit, FILES))
    for change in here.history.diff(head, commit, FILES):
        path = change.path.removeprefix(FILES)
        if path not in staged and (path not in rows or not rows[path].staged):
            here.local.put(
                [replace(rows[path], entry=change.new) if path in rows else Tracked(path, change.new, None, True)]
            )
