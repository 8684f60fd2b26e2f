"""A commit named by the tag before it, as `describe` says it. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from memlake.errors import NotFound, pasted
from memlake.records import Commit, short
from memlake.reports import Described
from memlake.versions.checkout import rev
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import log, refs
from memlake.versions.history.bases import reachable

_CANDIDATES = 10  # tags that are compared, as in git


def find_nearest(here: Checkout, name: str, patterns: Sequence[str] = ()) -> Described:
    """The tag that fewest commits lie behind; of one commit's tags the newest, then the last by name."""
    commit = rev.resolve(here, name)
    tags = _tags_by_commit(here, patterns)
    found: list[tuple[int, Commit]] = []
    for one in log.walk(here.history, [commit]) if tags else ():
        if one.oid in tags:
            found.append((len(reachable(here.history, [commit.seq], [one.seq])), one))
            if len(found) == _CANDIDATES or found[0][0] == 0:
                break
    if not found:
        which = "matches" if patterns and refs.tags(here.history.db) else "is at or before"
        raise NotFound(
            f"commit {short(commit.oid)} cannot be described, because no tag {which} it.",
            hint=f"Name one with: memlake tag v1.0 {pasted(short(commit.oid))}\n"
            "Or show the id alone: memlake describe --always",
        )
    ahead, nearest = min(found, key=lambda one: one[0])
    return Described(tags[nearest.oid], ahead, commit.oid)


def _tags_by_commit(here: Checkout, patterns: Sequence[str]) -> dict[str, str]:
    wanted = [
        tag
        for tag in refs.tags(here.history.db)
        if tag.work and (not patterns or any(fnmatchcase(tag.name, pattern) for pattern in patterns))
    ]
    return {str(tag.work): tag.name for tag in sorted(wanted, key=lambda tag: (tag.time, tag.name))}
