"""Taking back records that a verb wrote, of memories or datasets: by a commit, so that what others wrote since stays.

Agents write memories all the time, so a lane's head is rarely what a verb left. What is compared is only what the verb
itself changed: each path must still hold what the verb put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memlake.errors import Conflict, pasted
from memlake.objects.layout import now
from memlake.records import Entry, Lane
from memlake.versions import refs
from memlake.versions.here import Here
from memlake.versions.history import Draft, History
from memlake.versions.record import record

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
    ids = [path.rsplit("/", 1)[1] for path in paths if path.startswith("memories/")]
    what = f"memory {ids[0]} was" if len(ids) == 1 else f"{len(paths)} of what it wrote were"
    raise Conflict(
        f"{what} changed again on {branch!r} since; undo would lose that. Nothing was changed.",
        hint=f"See its values with: memlake memory history {ids[0]}\n"
        f"Bring back the one before with: memlake memory restore {ids[0]}"
        if ids
        else f"See: memlake log {pasted(branch)}",
    )
