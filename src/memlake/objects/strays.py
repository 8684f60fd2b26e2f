"""Files that no row names: what writers that died left in packs, parts and tmp. Knows no object.

Only a file that is provably ours is a stray: a pack whose footer names this repo, a part under a name of our form, a
temporary file under a name that we give. Any other file there is somebody else's and is left alone. A stray is noted
with our own tick when it is first seen, and its age is counted from then, because the clock of its place may be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from memlake.errors import Corrupt, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects import disk, leases, packs, tables
from memlake.objects.layout import tick
from memlake.objects.packs import read_footer
from memlake.objects.places import Folder, Place
from memlake.objects.store import Objects, part_name

PART_NAME = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}")
# Packs and marks that are being stored, families of datasets, the folder of a backup, what DuckDB spills.
TMP_NAME = re.compile(
    r"[0-9a-f]{32}\.(pack|owner|part)(\.\d+\.tmp)?|family-\d+-\d+\.parquet|backup-\w+|duckdb_temp_[\w.-]+"
)
_HOUR = 3_600_000_000


class Stray(NamedTuple):
    name: str  # packs/..., parts/... or tmp/...
    size: int
    remove: Callable[[], None]


def find_strays(objects: Objects) -> Iterator[Stray]:
    """All files of ours that no row names. Call inside a write, so that no writer is half way."""
    packs_in_use = tables.list_pack_names(objects.db)
    for name, size, _ in _list_files(objects.packs):
        if name not in packs_in_use and packs.NAME.fullmatch(name) and _is_ours(objects, name):
            yield Stray(f"packs/{name}", size, partial(objects.packs.delete, name))
    parts_in_use = {part_name(oid) for oid, _ in tables.scan_parts(objects.db)}
    for name, size, _ in _list_files(objects.parts):
        if name not in parts_in_use and PART_NAME.fullmatch(name):
            yield Stray(f"parts/{name}", size, partial(objects.parts.delete, name))
    if objects.tmp.is_symlink() or not objects.tmp.is_dir():
        return
    for file in sorted(objects.tmp.iterdir()):
        if TMP_NAME.fullmatch(file.name) and not file.is_symlink():
            try:
                size = file.lstat().st_size
            except FileNotFoundError:  # its writer has just removed it
                continue
            yield Stray(f"tmp/{file.name}", size, partial(disk.remove_tree, file))


def _list_files(place: Place) -> list[tuple[str, int, float]]:
    """All files of a place; none if somebody replaced the folder inside the repo by a link to elsewhere."""
    return [] if isinstance(place, Folder) and place.root.is_symlink() else list(place.list())


def _is_ours(objects: Objects, name: str) -> bool:
    try:
        return read_footer(objects.packs, name).repo == objects.repo
    except (Corrupt, NotFound):
        return False


def find_old_strays(objects: Objects, grace_hours: float) -> list[Stray]:
    """Strays that no writer can be using: first seen a grace period ago, and before every lease. Inside a write."""
    db = objects.db
    strays = {stray.name: stray for stray in find_strays(objects)}
    now, oldest = tick(db), leases.oldest(db)
    if grace_hours <= 0 and oldest == leases.NEVER:
        tables.clear_strays(db)
        return list(strays.values())
    seen: dict[str, int] = dict(tables.list_strays(db))
    tables.delete_strays(db, seen.keys() - strays.keys())
    tables.add_strays(db, strays.keys() - seen.keys(), now)
    limit = min(now - int(grace_hours * _HOUR), oldest)
    return [stray for name, stray in strays.items() if seen.get(name, now) < limit]
