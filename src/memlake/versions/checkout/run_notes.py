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
    """Keep what a run read and wrote until another one writes the same files.

    `run`: program, arguments, params, metrics, packages; `reads` and `saved` as a commit's `uses`; `wrote`, tree path
    -> [size, mtime, SHA-256 or ""].
    """
    with local.db.write():
        older = [_without(one, run["wrote"]) for one in read_runs(local)]
        runs = [one for one in older if one["wrote"]] + [dict(run)] * bool(run["wrote"])
        local.set_state(**{_KEY: json.dumps(runs[-_KEPT:])} if runs else {_KEY: None})


def read_runs(local: Local) -> list[dict[str, Any]]:
    runs = local.json_state(_KEY) or []
    with as_written(_KEY):
        return [{**one, "wrote": {str(path): tuple(stamp) for path, stamp in one["wrote"].items()}} for one in runs]


def _without(run: dict[str, Any], paths: Mapping[str, Any]) -> dict[str, Any]:
    return {**run, "wrote": {path: stamp for path, stamp in run["wrote"].items() if path not in paths}}


def find_makers(local: Local, staged: Mapping[str, Tracked]) -> list[dict[str, Any]]:
    """The runs that wrote what is staged, as a commit records them: each with those of its files alone."""
    found = []
    with as_written(_KEY):
        for run in read_runs(local):
            rows = [(path, staged[file_path(path)]) for path in run["wrote"] if file_path(path) in staged]
            made = [{"path": path, "oid": row.entry.oid} for path, row in rows if _is_same(row, run["wrote"][path])]  # type: ignore[union-attr]
            if made:
                found.append({**run, "wrote": made, "reads": _with_oids(local, run["reads"])})
    return found


def _is_same(row: Tracked, stamp: tuple[int, int, str]) -> bool:
    """Whether a staged file is what the run wrote; one that was too large to be hashed is told by size and time."""
    if row.entry is None:
        return False
    return row.entry.oid == stamp[2] if stamp[2] else unpack_size_and_time(row.stat) == stamp[:2]


def _with_oids(local: Local, reads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the hash of each file that was too large for the run to hash, if it is tracked and as it was then."""
    large = {file_path(one["path"]): one for one in reads if not one["oid"] and one["path"].startswith(FILES)}
    for path, row in local.find_tracked(large).items() if large else ():
        if row.entry is not None and unpack_size_and_time(row.stat) == tuple(large[path].get("stamp", ())):
            large[path]["oid"] = row.entry.oid
    return [{key: value for key, value in one.items() if key != "stamp"} for one in reads]
