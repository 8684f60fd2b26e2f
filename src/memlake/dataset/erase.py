"""Purging a version: which objects are its rows, and the copies of them that lie outside the object store.

Knows no Arrow: records link to manifests and manifests to parts, so no rows have to be read to be erased.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memlake.dataset.kind import label
from memlake.dataset.types.names import ROOM
from memlake.errors import Conflict
from memlake.named_tuple import NamedTuple
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import refs
from memlake.versions.verbs import show

_COPIES = ("runs", "index/columns", "cache")
Ever = dict[str, set[str]]  # path: every record it had
Links = dict[str, tuple[str, ...]]  # oid: the oids it needs


class Others(NamedTuple):
    """What is done with versions that were not named but may hold the same rows."""

    erased: bool = False  # those made from the named ones, and parts that any other shares
    derived_left: bool = False  # leave those made from the named ones


def drop_copies(folder: Path) -> None:
    """Drop what runs kept, matrices and fetched files: all derived, made again when needed."""
    for name in _COPIES:
        shutil.rmtree(folder / name, ignore_errors=True)


class Erasure(NamedTuple):
    """What is erased: objects that leave a tombstone, and lists of parts that may be made again from clean rows."""

    named: tuple[str, ...]
    loose: tuple[str, ...]


def plan_erasure(here: Checkout, named: Iterable[str], others: Others) -> Erasure:
    """What is to be erased with these objects: of a record all its edits, its manifest and the parts of its rows.

    Of versions made from it the records get tombstones. Their rows may be the same once the purged ones are cleaned (a
    count, a column of others), so that manifests, and with them parts, are let go of where no other version has them.
    """
    wanted = set(named)
    ever = show.ever_at(here, ROOM)
    paths = {path for path, oids in ever.items() if oids & wanted}
    if not paths:
        return Erasure(tuple(sorted(wanted)), ())
    links = here.history.objects.links()
    derived = set() if others.derived_left else _find_derived(here, ever, paths)
    records = _list_records(here, paths, ever, links)
    own = records | {linked for oid in records for linked in _linked_objects(oid, links)}
    if not others.erased:
        shared = {path for path, oid in _list_living(here, paths) if _linked_objects(oid, links) & own}
        # Refuse to erase some rows and leave the same ones elsewhere
        if shared or derived:
            names = ", ".join(map(label, sorted(shared | derived)))
            rows = f"rows of {', '.join(map(label, sorted(paths)))}"
            certain = derived <= shared
            leave = "" if certain else "--leave-derived (leave_derived=True) leaves those that were only made from it; "
            raise Conflict(
                f"{rows} {'are' if certain else 'may be'} rows of {names} too. Nothing was erased.",
                hint=f"--with-others (with_others=True) erases them there as well; {leave}or purge those first.",
            )
    made_of_it = _list_records(here, derived, ever, links)
    kept = {link for oid, targets in links.items() if oid not in own | made_of_it for link in targets}
    loose = {link for oid in made_of_it for link in links.get(oid, ())} - kept - own
    gone = set(here.history.objects.find_missing(own | made_of_it | loose))  # some edit may have been erased before
    return Erasure(tuple(sorted(wanted | ((own | made_of_it) - gone))), tuple(sorted(loose - gone)))


def _list_records(here: Checkout, paths: set[str], ever: Ever, links: Links) -> set[str]:
    """Every record that these paths had, and those of the same rows that were renamed to or from them."""
    records = {oid for path in paths for oid in ever[path]}
    manifests = {link for oid in records for link in links.get(oid, ())}
    kept = {oid for _, oid in _list_living(here, paths)}
    return records | {oid for oids in ever.values() for oid in oids - kept if manifests & set(links.get(oid, ()))}


def _find_derived(here: Checkout, ever: Ever, paths: set[str]) -> set[str]:
    """Paths of versions made from these, from versions made from these, and so on, in any commit.

    A small selection is a copy, so that rows live on where no part is shared. Rows are known by their content,
    as lineage knows them: what is read may have been renamed, or given another number by a merge, since.
    """
    holds: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    for path, oids in ever.items():
        holds[path], read[path] = {label(path)}, set()
        for oid in oids - set(here.history.objects.find_missing(oids)):
            record = _read_record(here, oid)
            if "content" in record:
                holds[path].add(str(record["content"]))
            for parent in (record.get("provenance") or {}).get("parents") or ():
                read[path].add(str(parent.get("content") or f"{parent.get('name')}@{parent.get('version')}"))
    derived: set[str] = set()
    while True:
        contents = {content for path in paths | derived for content in holds[path]}
        more = {path for path, names in read.items() if names & contents} - paths - derived
        if not more:
            return derived
        derived |= more


def _read_record(here: Checkout, oid: str) -> dict[str, Any]:
    """A record as it was written; empty if the object is not a record."""
    try:
        record = json.loads(here.history.objects.read(oid))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _list_living(here: Checkout, besides: set[str]) -> list[tuple[str, str]]:
    """(path, oid) of every other version at the head of a branch; one marked as deleted can be restored."""
    db = here.history.db
    heads = [refs.commit_of(here.history, refs.get(db, branch.name)["work"]) for branch in refs.branches(db, None)]
    entries = {(path, entry.oid) for head in heads if head for path, entry in here.history.scan(head, ROOM)}
    return sorted((path, oid) for path, oid in entries if path not in besides)


def _linked_objects(oid: str, links: Links) -> set[str]:
    manifests = links.get(oid, ())
    return {*manifests, *(part for manifest in manifests for part in links.get(manifest, ()))}
