"""du: how many bytes each part of a repo takes. Reads only."""

from __future__ import annotations

from pathlib import Path

from memlake.objects import tables as object_tables
from memlake.reports import Usage
from memlake.versions import tables
from memlake.versions.checkout.context import Checkout
from memlake.versions.trees.codec import LANES


def measure(here: Checkout, folder: Path) -> Usage:
    rooms = {name: _bytes_in(folder / name) for name in ("repo.db", "local.db", "packs", "parts", "tmp")}
    if (folder / "archives").exists():
        rooms["archives"] = _bytes_in(folder / "archives")
    for name in ("repo.db", "local.db"):
        rooms[name] += _bytes_in(folder / f"{name}-wal")
    db = here.history.db
    files = [(path, entry.size) for lane in LANES for path, entry in here.history.scan(here.head(lane))]
    counts = {
        "objects": object_tables.count_objects(db),
        "away": object_tables.count_away(db),
        "condemned": object_tables.count_condemned(db),
        "nodes": tables.count_nodes(db),
        "commits": tables.count_commits(db),
    }
    largest = tuple(sorted(files, key=lambda item: -item[1])[:10])
    details = {name: {"count": row[0], "bytes": row[1]} for name, row in counts.items() if row}
    return Usage(rooms, sum(rooms.values()), sum(size for _, size in files), largest, details)


def _bytes_in(path: Path) -> int:
    if path.is_dir():
        return sum(inner.stat().st_blocks * 512 for inner in path.rglob("*") if inner.is_file())
    return path.stat().st_blocks * 512 if path.exists() else 0
