"""A merge's result that is no commit: put into the stage (`--no-commit`) or, of a stash, into the working files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memlake.errors import Conflict, Nothing
from memlake.records import Change, Commit, Entry
from memlake.reports import Merged
from memlake.versions import checkout, journal, merge, refs, stage
from memlake.versions.codec import from_hex
from memlake.versions.here import Here
from memlake.versions.local import Tracked
from memlake.versions.operations import operation, save_dirty
from memlake.versions.paths import FILES, file_path, parents

Edits = Mapping[str, Entry | None]
Doing = Mapping[str, Any]


def stage_root(here: Here, chosen: Edits) -> bytes:
    """The tree the stage shows, with what was chosen by hand for a conflict left as it was before."""
    edits = {FILES + row.path: row.entry for row in here.local.staged().values()}
    _, root, made = here.history.plan(here.base(), {**edits, **chosen})
    here.history.nodes.remember(made)
    return root


def land(here: Here, doing: Doing, edits: Edits) -> Merged:
    """Write the files that differ, set the rows that say so; journaled, so that a crash leaves no half of it."""
    rows = here.local.tracked(map(file_path, edits))
    now = {path: rows[file_path(path)].entry if file_path(path) in rows else None for path in edits}
    changes = tuple(Change(path, now[path], edits[path]) for path in sorted(edits) if now[path] != edits[path])
    is_stash = "index" in doing
    if not changes and not is_stash:
        raise Nothing(
            f"{doing['verb']} of {doing['name']} changes nothing here: it is done already.",
            hint="See: memlake diff --cached",
        )
    agreed = checkout.check_over_stage(here.local, here.root, changes, str(doing["verb"]))
    ready = checkout.check_bytes(here.history.objects, changes)
    new_rows = _index_rows(here, doing, changes) if is_stash else _staged_rows(here, edits)
    dropped = str(doing.get("drop") or "")
    with operation(here, str(doing["said"]), str(doing["name"]), files=True) as before:
        before.saved |= agreed
        if is_stash:  # the stage does not know what it puts into the files
            before.saved |= save_dirty(here, changes)
            before.left = {file_path(change.path): change.new for change in changes}
        plan = journal.staying(here.local, here.who, checkout.replacing(changes, before.saved), new_rows)
        plan = plan._replace(doing=None)  # what waited is concluded
        if dropped:
            plan = plan._replace(token=journal.new_token())
            with journal.moving(here.history, here.local, plan):
                refs.delete(here.history, dropped, kind=refs.INTERNAL, action="stash: popped", who=here.who)
        checkout.carry_out(here.history, here.local, here.root, plan, ready)
    return Merged(None, changes=changes)


def _staged_rows(here: Here, edits: Edits) -> list[Tracked]:
    rows = here.local.tracked(map(file_path, edits))
    return [stage.put_entry(rows.get(file_path(path)), file_path(path), entry) for path, entry in edits.items()]


def _index_rows(here: Here, doing: Doing, changes: Sequence[Change]) -> list[Tracked]:
    """What a stash puts into the stage: new files, else nobody would know them; with --index all that was staged."""
    commit = here.history.get(str(doing["target"]))
    untracked = set(_fact(here, commit, "untracked") or ())
    new = {c.path: c.new for c in changes if c.old is None and file_path(c.path) not in untracked}
    staged = {**new, **dict.fromkeys(_giving_way(changes, new))}
    if doing["index"]:
        staged |= _index_edits(here, commit)
    return _staged_rows(here, staged)


def _giving_way(changes: Sequence[Change], new: Edits) -> list[str]:
    """What goes where a new file needs a folder, or is one: the stage cannot hold both."""
    folders = {folder for path in new for folder in parents(path)}
    gone = (change.path for change in changes if change.new is None)
    return [path for path in gone if path in folders or not new.keys().isdisjoint(parents(path))]


def _index_edits(here: Here, commit: Commit) -> dict[str, Entry | None]:
    """What was staged then, on what the stage has now."""
    parent = here.history.get(commit.parents[0])
    then = {FILES + path: from_hex(entry) for path, entry in (_fact(here, commit, "staged") or {}).items()}
    _, root, made = here.history.plan(parent, then)
    here.history.nodes.remember(made)
    outcome = merge.merge_roots(here.history, here.history.root(parent), stage_root(here, {}), root)
    if outcome.conflicts:
        listed = "\n".join(f"  {file_path(one.path)}" for one in outcome.conflicts[:10])
        raise Conflict(
            f"what the stash had staged meets other changes in:\n{listed}\nNothing was changed.",
            hint="Take it back without --index: all of it goes to the working files.",
        )
    return dict(outcome.edits)


def _fact(here: Here, commit: Commit, name: str) -> Any:
    return json.loads(here.history.objects.read(commit.meta[name])) if name in commit.meta else None
