"""Purging a version: which objects are its rows, and the copies of them that lie outside the object store.

Knows no Arrow: records link to manifests and manifests to parts, so nothing has to be read to be erased.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from memlake.datasets.types.names import ROOM
from memlake.errors import Conflict
from memlake.versions import looking, refs
from memlake.versions.here import Here

_COPIES = ("runs", "index/columns", "cache")


def forget(folder: Path, empty: Callable[[], None]) -> None:
    """Drop what functions answered, runs kept, matrices and fetched files: all derived, made again when needed."""
    for name in _COPIES:
        shutil.rmtree(folder / name, ignore_errors=True)
    empty()


def whole(here: Here, named: Iterable[str], *, with_others: bool = False) -> tuple[str, ...]:
    """What is to be erased with these objects: of a record all its edits, its manifest and the parts of its rows."""
    wanted = set(named)
    ever = looking.ever_at(here, ROOM)
    paths = {path for path, oids in ever.items() if oids & wanted}
    if not paths:
        return tuple(sorted(wanted))
    links = here.history.objects.links()
    records = {oid for path in paths for oid in ever[path]}
    manifests = {link for oid in records for link in links.get(oid, ())}
    rows = manifests | {part for oid in manifests for part in links.get(oid, ())}
    living = _living(here, paths)
    if not with_others:
        _refuse_shared(paths, [path for path, oid in living if _reach(oid, links) & rows])
    kept = {oid for _, oid in living}
    moved = {oid for oids in ever.values() for oid in oids - kept if manifests & set(links.get(oid, ()))}
    gone = here.history.objects.missing(records | moved | rows)  # some edit may have been erased before
    return tuple(sorted(wanted | ((records | moved | rows) - set(gone))))


def _living(here: Here, besides: set[str]) -> list[tuple[str, str]]:
    """(path, oid) of every other version at the head of a branch; one marked as deleted can be restored."""
    db = here.history.db
    heads = [refs.commit_of(here.history, refs.get(db, branch.name)["work"]) for branch in refs.branches(db, None)]
    found = {(path, entry.oid) for head in heads if head for path, entry in here.history.scan(head, ROOM)}
    return sorted((path, oid) for path, oid in found if path not in besides)


def _reach(oid: str, links: dict[str, tuple[str, ...]]) -> set[str]:
    manifests = links.get(oid, ())
    return {*manifests, *(part for manifest in manifests for part in links.get(manifest, ()))}


def _refuse_shared(paths: Iterable[str], others: list[str]) -> None:
    if others:
        names = ", ".join(dict.fromkeys(map(spec_of, others)))
        raise Conflict(
            f"rows of {', '.join(map(spec_of, sorted(paths)))} are rows of {names} too. Nothing was erased.",
            hint="--with-others (with_others=True) erases them there as well; or purge those first.",
        )


def spec_of(path: str) -> str:
    """`pets@1.0.0` of the path `datasets/pets/1.0.0`."""
    return "@".join(path.removeprefix(ROOM).rsplit("/", 1))
