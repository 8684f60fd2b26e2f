"""What `memlake run` noted of its last runs in local.db, and which of them made what is about to be committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memlake.versions.checkout.local import Local, Tracked, as_written, unpack_size_and_time
from memlake.versions.paths import FILES, file_path

FACT = "runs"  # of a commit
_KEY, _KEPT = "runs", 100


def note_run(local: Local, run: Mapping[str, Any]) -> None:
    """Keep what a run read and wrote.

    `run`: program, arguments, params, metrics, packages; `reads` and `saved` as a commit's `uses`; `wrote`, tree path
    -> [size, mtime, SHA-256 or ""].
    """
    if run["wrote"]:
        with local.db.write():
            local.set_state(**{_KEY: json.dumps([*_read_runs(local), run][-_KEPT:])})


def _read_runs(local: Local) -> list[dict[str, Any]]:
    runs = local.json_state(_KEY) or []
    with as_written(_KEY):
        return [{**one, "wrote": {str(path): tuple(stamp) for path, stamp in one["wrote"].items()}} for one in runs]


def find_makers(local: Local, staged: Mapping[str, Tracked]) -> list[dict[str, Any]]:
    """The runs that wrote what is staged, as a commit records them: each with those of its files alone.

    And the runs that wrote what those read, if it is not tracked: no commit would ever tell where that came from.
    """
    found: list[dict[str, Any]] = []
    wanted: dict[str, set[str]] = {}  # tree path -> oids
    runs = _read_runs(local)
    with as_written(_KEY):
        claimed = set[str]()
        for run in reversed(runs):  # of runs that wrote the same, the last made it
            rows = {path: staged[file_path(path)] for path in run["wrote"] if file_path(path) in staged}
            oids = {
                path: row.entry.oid
                for path, row in rows.items()
                if row.entry is not None and path not in claimed and _is_same(row, run["wrote"][path])
            }
            claimed |= oids.keys()
            oids |= {path: oid for path, (*_, oid) in run["wrote"].items() if oid in wanted.get(path, ())}
            if not oids:
                continue
            reads = _with_oids(local, run["reads"])
            found.append({**run, "wrote": [{"path": path, "oid": oid} for path, oid in oids.items()], "reads": reads})
            for path, oid in oids.items():
                wanted.get(path, set()).discard(oid)
            for path, oid in _list_untracked(local, reads):
                wanted.setdefault(path, set()).add(oid)
    return found[::-1]


def _list_untracked(local: Local, reads: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What was read of the repo's files whose content is not tracked."""
    files = [(one["path"], one["oid"]) for one in reads if one["oid"] and one["path"].startswith(FILES)]
    rows = local.find_tracked(file_path(path) for path, _ in files)
    held = {(FILES + path, row.entry.oid) for path, row in rows.items() if row.entry is not None}
    return [one for one in files if one not in held]


def _is_same(row: Tracked, stamp: tuple[int, int, str]) -> bool:
    """Whether a staged file is what the run wrote; one that was too large to be hashed is told by size and time."""
    oid = row.entry.oid if row.entry is not None else None
    return oid == stamp[2] if stamp[2] else unpack_size_and_time(row.stat) == stamp[:2]


def _with_oids(local: Local, reads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the hash of each file that was too large for the run to hash, if it is tracked and as it was then."""
    large = {file_path(one["path"]): one for one in reads if not one["oid"] and one["path"].startswith(FILES)}
    for path, row in local.find_tracked(large).items() if large else ():
        if row.entry is not None and unpack_size_and_time(row.stat) == tuple(large[path].get("stamp", ())):
            large[path]["oid"] = row.entry.oid
    return [{key: value for key, value in one.items() if key != "stamp"} for one in reads]
