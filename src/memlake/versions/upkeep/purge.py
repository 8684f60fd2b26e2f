"""The purge verb: which paths an object was known by, what was noted of it, what this checkout still holds of it."""

from __future__ import annotations

from collections.abc import Sequence

from memlake.errors import Denied, InvalidInput, NotFound
from memlake.objects import tables as object_tables
from memlake.objects.purge import PurgeRequest
from memlake.objects.purge import purge as purge_bytes
from memlake.records import Change, Commit
from memlake.reports import PurgeReport
from memlake.versions import tables
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import file_notes
from memlake.versions.paths import FILES
from memlake.versions.trees import codec


def purge(here: Checkout, named: tuple[str, ...], reason: str, *, loose: Sequence[str] | None = None) -> PurgeReport:
    """Erase objects from the repo for good. History keeps their hashes and still verifies.

    `loose`: others that may be made again, so that they get no tombstone, and all parts that nothing links to.
    """
    if not reason.strip():
        raise Denied(
            "a purge needs a reason; it stays in the repo for ever. Nothing was purged.",
            hint='Give one with --reason "..."',
        )
    if not named:
        raise InvalidInput("nothing was named to purge.", hint="Name objects by id; see them with: memlake ls -l")
    oids = set(named)
    purged = object_tables.list_tombstones_of(here.history.db, map(bytes.fromhex, oids))
    if here.history.objects.find_missing(oids) == oids and not purged:
        raise NotFound(
            f"object {named[0]} is not in this repo. Nothing was purged.",
            hint="Check the id with: memlake ls -l",
        )
    commits = list(_find_commits(here, oids))
    paths = sorted({change.path for _, changes in commits for change in changes})
    told_of = _find_notes_with_schema(here, commits)
    done = purge_bytes(here.history.objects, PurgeRequest([*named, *told_of], reason, here.who, loose))
    here.local.forget_content(oids)
    working = [path for path in paths if path.startswith(FILES) and here.local.find_tracked([path.removeprefix(FILES)])]
    told = (
        (f"working files are yours and were not touched: {', '.join(p.removeprefix(FILES) for p in working[:5])}",)
        if working
        else ()
    )
    return PurgeReport(tuple(sorted(oids)), done.bytes, done.packs, tuple(paths), done.seq, done.notes + told)


def _find_commits(here: Checkout, oids: set[str]) -> list[tuple[Commit, list[Change]]]:
    """Commits that brought or removed one of these objects, with those changes."""
    raw = [bytes.fromhex(oid) for oid in oids]
    found = []
    for seq, data in tables.scan_commits(here.history.db):
        commit = (
            codec.decode_commit(data, seq) if any(digest in data for digest in raw) or b"\xa7changes" in data else None
        )
        if commit is not None:
            named = [
                c
                for c in here.history.changes(commit)
                if (c.new and c.new.oid in oids) or (c.old and c.old.oid in oids)
            ]
            found += [(commit, named)] if named else []
    return found


def _find_notes_with_schema(here: Checkout, commits: list[tuple[Commit, list[Change]]]) -> list[str]:
    """Column names are content too: notes that hold the schema of a purged file go with it."""
    found = set()
    for commit, changes in commits:
        oid = commit.meta.get("about")
        if oid and not here.history.objects.find_missing([oid]):
            noted = file_notes.decode(here.history.objects.read(oid))
            if any(file_notes.has_schema(noted.get(change.path.removeprefix(FILES), "")) for change in changes):
                found.add(oid)
    return sorted(found)
