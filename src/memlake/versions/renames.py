"""Which file another one was before it was renamed: by the same content, else by likeness. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from memlake.errors import NotFound, Purged
from memlake.records import Entry
from memlake.versions.lines import LARGEST, find_text, split_lines

_COMPARED = 50  # files that are read to see which one is most alike; with more, only the same content counts

Read = Callable[[str], bytes]
File = tuple[str, Entry]


def find_renamed(read: Read, path: str, entry: Entry, files: Iterable[File]) -> File | None:
    """The file with the same content, one of the same name first; else the text most like it, if half of it is."""
    if entry.kind != "file" or not entry.size:
        return None
    others = [file for file in files if file[1].kind == "file"]
    same = [file for file in others if file[1].oid == entry.oid]
    if same:
        return min(same, key=lambda file: (file[0].rpartition("/")[2] != path.rpartition("/")[2], file[0]))
    near = [file for file in others if entry.size / 2 <= file[1].size <= min(2 * entry.size, LARGEST)]
    if not near or len(near) > _COMPARED or entry.size > LARGEST:
        return None
    lines = _count_lines(read, entry)
    alike = [(_shared_bytes(lines, _count_lines(read, other)), name, other) for name, other in near]
    most, name, other = max(alike)
    return (name, other) if 2 * most >= max(entry.size, other.size) else None


def _count_lines(read: Read, entry: Entry) -> Counter[str]:
    try:
        return Counter(split_lines(find_text(read(entry.oid)) or ""))
    except (NotFound, Purged):
        return Counter()


def _shared_bytes(a: Counter[str], b: Counter[str]) -> int:
    return sum(len(line.encode()) * times for line, times in (a & b).items())
