"""Taking back records that a verb wrote, of memories or datasets: by a commit, so that what others wrote since stays.

Agents write memories all the time, so a lane's head is rarely what a verb left. What is compared is only what the verb
itself changed: each path must still hold what the verb put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memlake.errors import Conflict, pasted
from memlake.objects.layout import now
from memlake.records import Entry, Lane
from memlake.versions.checkout.context import Here
from memlake.versions.history import refs
from memlake.versions.history.append import record
from memlake.versions.history.commits import Draft, History
from memlake.versions.kinds import kind_at

Written = Sequence[tuple[str, str]]  # (branch, commit) in the order they were made
Edits = Mapping[str, Entry | None]


def reverse(here: Here, written: Written, message: str) -> list[tuple[str, str]]:
    """Undo commits by new ones, one a branch and lane, all or none; returns those."""
    made = []
    lanes = {oid: here.history.get(oid).lane for _, oid in written}
    with here.history.db.write():
        for branch, lane in dict.fromkeys((name, lanes[oid]) for name, oid in written):
            oids = [oid for name, oid in written if name == branch and lanes[oid] == lane]
            edits = _open_edits(here.history, branch, oids, lane)
            if edits:
                draft = Draft(lane, edits, here.author, message, now(), {})
                made.append((branch, record(here.history, draft, branch=branch).oid))
    return made


def _open_edits(history: History, branch: str, oids: Sequence[str], lane: Lane) -> Edits:
    """What is to be written for it; what is so already is left out, after an undo that died half way."""
    then: dict[str, Entry | None] = {}
    left: dict[str, Entry | None] = {}
    for oid in oids:
        for change in history.changes(history.get(oid)):
            then.setdefault(change.path, change.old)
            left[change.path] = change.new
    head = refs.commit_of(history, refs.get(history.db, branch)[lane])
    held = history.entries(head, then)
    edits = {path: entry for path, entry in then.items() if held.get(path) != entry}
    _refuse_changed([path for path in edits if held.get(path) != left[path]], branch)
    return edits


def _refuse_changed(paths: Sequence[str], branch: str) -> None:
    if not paths:
        return
    known = [(kind_at(path).label(path), kind_at(path)) for path in paths if kind_at(path).to_restore]
    label, kind = known[0] if known else ("", kind_at(paths[0]))
    what = f"{kind.nouns[0]} {label} was" if len(known) == 1 else f"{len(paths)} of what it wrote were"
    raise Conflict(
        f"{what} changed again on {branch!r} since; undo would lose that. Nothing was changed.",
        hint=kind.to_restore(label) if known and kind.to_restore else f"See: memlake log {pasted(branch)}",
    )
