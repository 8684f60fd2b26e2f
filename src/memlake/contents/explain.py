"""What differs inside a file, whatever its type. Knows the list of types, and none of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memlake.contents.content import Content, Unreadable, open_stored
from memlake.contents.file_types import BYTES, FileType, find_type
from memlake.contents.merged import Merged, MergeHow
from memlake.named_tuple import NamedTuple
from memlake.records import Entry

if TYPE_CHECKING:
    from memlake.versions.history.merge_trees import Making


_QUICK = 8 << 20  # bytes of a file that is read whole to tell what it is
_FOOTED = frozenset(("parquet", "pq", "safetensors", "gguf", "npy", "pt", "pth"))  # told by a header, however large


class How(NamedTuple):
    """How closely to look."""

    key: tuple[str, ...] = ()  # the columns that tell rows apart; none: they are looked for
    key_origin: str = "given"  # who named them, "given" or "declared"
    limit: int | None = 10  # how many of what differs to tell of each kind; None: all


class Explanation(NamedTuple):
    """What differs inside a file, as the record of its type; or, without one, why memlake could not look inside.

    Of a file that came or went the record is its summary.
    """

    type: str
    record: Any
    note: str = ""
    more: tuple[Any, ...] = ()  # records of what is inside of it: the vectors of a column


def explain(old: Content, new: Content, how: How) -> Explanation | None:
    """None if memlake knows nothing about the insides of such a file."""
    kind = _find_shared_type(old, new)
    diff = kind.find("diff") if kind else None
    if kind is None or diff is None:
        return None
    diff_more = kind.find("diff_more")
    try:
        record = diff(old, new, how)
        return Explanation(kind.name, record, more=diff_more(old, new, how, record) if diff_more else ())
    except Unreadable as error:
        return Explanation(kind.name, None, error.message)
    except RecursionError:
        return Explanation(kind.name, None, f"{new.path} is nested too deeply to be looked into")


def sketch(old: Content, new: Content, how: How) -> Any | None:
    """Both sides of a file to be drawn; None if it is of a type that is not drawn. Raises Unreadable."""
    kind = _find_shared_type(old, new)
    draw = kind.find("sketch") if kind else None
    return draw(old, new, how) if draw else None


def explain_bytes(old: Content, new: Content, how: How) -> Explanation:
    """Which ranges of bytes differ, whatever the file is."""
    diff = BYTES.find("diff")
    assert diff is not None  # every module of a type that is its last resort has one
    return Explanation(BYTES.name, diff(old, new, how))


def describe(content: Content) -> Explanation | None:
    """What a file is that came or went; None if its type has no summary, cannot read it, or would take long."""
    kind = find_type(content.path, content if content.size else None)
    summarize = kind.find("summarize") if kind and (content.size <= _QUICK or content.suffix in _FOOTED) else None
    if kind is None or summarize is None or not content.size:
        return None
    try:
        return Explanation(kind.name, summarize(content))
    except (Unreadable, RecursionError):
        return None


def _find_shared_type(*sides: Content) -> FileType | None:
    """The type of all sides. Where they differ by what is inside alone, the one that their suffix tells."""
    kinds = {find_type(side.path, side if side.size else None) for side in sides}
    if len(kinds) > 1:
        kinds = {find_type(side.path) for side in sides}
    return kinds.pop() if len(kinds) == 1 else None


def merge_inside(making: Making, path: str, sides: Sequence[Entry], how: MergeHow) -> Merged | None:
    """Two edits of a file (base, ours, theirs) joined by its type; None if the type has no merge.

    What the type cannot read or join has no bytes, and a note that says why.
    """
    if find_type(path) is None:
        return None
    contents = [_open_side(making, path, side, number) for number, side in enumerate(sides)]
    try:
        kind = _find_shared_type(*contents)
        merge = kind.find("merge") if kind else None
        return merge(*contents, how) if merge else None
    except Unreadable as error:
        return Merged(None, notes=(error.message,))
    finally:
        for content in contents:
            content.close()


def find_broken(making: Making, path: str, sides: Sequence[Entry]) -> str:
    """Why the last of some contents of a path cannot be read although the others can; "" if it can, or nobody knows."""
    check = kind.find("check") if (kind := find_type(path)) else None
    if check is None:
        return ""
    said = ""
    for side in sides:
        with _open_side(making, path, side) as content:
            try:
                check(content)
            except Unreadable as error:
                said = error.message
        if said and side is not sides[-1]:
            return ""
    return said


def _open_side(making: Making, path: str, side: Entry, number: int | None = None) -> Content:
    """A side of a merge, with the files beside it by its number; what the same merge has made, nobody has stored."""

    def find(name: str) -> Content | None:
        entry = making.find_beside(number, name) if number is not None else None
        return _open_side(making, name, entry) if entry is not None and entry.kind == "file" else None

    if side.oid not in making.made:
        return open_stored(making.history.objects, path, side, find)
    data = making.made[side.oid].data
    return Content(path, len(data), lambda: io.BytesIO(data), beside=find)
