"""Which file another one was before it was renamed: the one with the same or similar content. Reads only."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable

from memlake.errors import NotFound, Purged
from memlake.records import Entry
from memlake.versions.text.lines import LARGEST, find_object_text, split_lines

_COMPARED = 50  # files that are read to see which one is most alike; with more, only the same content counts

Read = Callable[[str], bytes]
Bring = Callable[[Iterable[str]], None]
File = tuple[str, Entry]


class Candidates:
    """Files that another one may have become, put in order once for all that are looked for among them."""

    def __init__(self, files: Iterable[File]) -> None:
        self._first: dict[str, File] = {}  # by content
        self._named: dict[tuple[str, str], File] = {}  # by content and name
        self._sized: list[tuple[int, str, Entry]] = []
        for path, entry in sorted(files, key=lambda file: file[0]):
            if entry.kind == "file":
                self._first.setdefault(entry.oid, (path, entry))
                self._named.setdefault((entry.oid, _name(path)), (path, entry))
                self._sized.append((entry.size, path, entry))
        self._sized.sort(key=lambda file: file[0])

    def find_same(self, path: str, oid: str) -> File | None:
        """A file with this content, one of the same name first."""
        return self._named.get((oid, _name(path))) or self._first.get(oid)

    def find_near(self, size: int) -> list[File]:
        """Texts of about this size; none where they are too many to be read."""
        first = bisect_left(self._sized, size / 2, key=lambda file: file[0])
        last = bisect_right(self._sized, min(2 * size, LARGEST), key=lambda file: file[0])
        return [(path, entry) for _, path, entry in self._sized[first:last]] if last - first <= _COMPARED else []


def find_renamed(read: Read, path: str, entry: Entry, among: Candidates, *, bring: Bring) -> File | None:
    """The file with the same content, one of the same name first; else the text most like it, if half of it is.

    `bring` is told beforehand what will be read, because some of it may be at a remote only.
    """
    if entry.kind != "file" or not entry.size:
        return None
    if same := among.find_same(path, entry.oid):
        return same
    near = among.find_near(entry.size) if entry.size <= LARGEST else []
    if not near:
        return None
    bring([entry.oid, *(other.oid for _, other in near)])
    lines = _count_lines(read, entry)
    shared, name, other = max((_count_shared(lines, _count_lines(read, other)), name, other) for name, other in near)
    return (name, other) if 2 * shared >= max(entry.size, other.size) else None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _count_lines(read: Read, entry: Entry) -> Counter[str]:
    try:
        return Counter(split_lines(find_object_text(read, entry) or ""))
    except (NotFound, Purged):
        return Counter()


def _count_shared(a: Counter[str], b: Counter[str]) -> int:
    return sum(len(line.encode()) * times for line, times in (a & b).items())
