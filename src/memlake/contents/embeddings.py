"""Embeddings: what differs between two sets of vectors, and two edits of one joined, by the ids of the vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.merged import InnerConflict, Merged, MergeHow
from memlake.contents.tensors import Array
from memlake.contents.vector_files import (
    ROW_NUMBERS,
    Layout,
    find_layout,
    get_layout,
    read_ids,
    read_vectors,
    write_ids,
    write_vectors,
)
from memlake.named_tuple import NamedTuple
from memlake.rows.vector_map import VectorMap, map_vectors
from memlake.rows.vectors import EmbeddingDiff, compare_vectors, match_ids, match_places


class EmbeddingSummary(NamedTuple):
    vectors: int
    dimension: int
    type: str
    ids_from: str
    model: str


def recognize(content: Content) -> bool:
    """Whether it is one matrix of vectors rather than the weights of a model. Reads headers only."""
    try:
        return find_layout(content) is not None
    except Unreadable:  # told by whoever takes it for a checkpoint
        return False


def summarize(content: Content) -> EmbeddingSummary:
    layout = get_layout(content)
    rows, width = layout.matrix.shape
    return EmbeddingSummary(rows, width, layout.matrix.dtype, layout.ids_from, layout.model)


def diff(old: Content, new: Content, how: How) -> EmbeddingDiff:
    before, after = get_layout(old), get_layout(new)
    is_by_place = ROW_NUMBERS in (before.ids_from, after.ids_from)
    was, now = (read_vectors(side, layout) for side, layout in ((old, before), (new, after)))
    found = compare_vectors(
        was, now, ids_from=ROW_NUMBERS if is_by_place else after.ids_from, limit=how.limit,
        matches=match_places(was.matrix, now.matrix) if is_by_place else None,
    )  # fmt: skip
    if is_by_place and before.ids_from != after.ids_from:
        found = found._replace(notes=(*found.notes, "only one side has ids, so rows are matched by their place"))
    return found


def sketch(old: Content, new: Content, how: How) -> VectorMap:
    """Both sides to be drawn."""
    found = diff(old, new, how)
    if found.old_dimension != found.new_dimension:
        raise Unreadable(f"{new.path} cannot be drawn, because its vectors have another dimension than before")
    was, now = (read_vectors(side, get_layout(side)) for side in (old, new))
    is_by_place = found.ids_from == ROW_NUMBERS
    matches = match_places(was.matrix, now.matrix) if is_by_place else match_ids(was.ids, now.ids)[0]
    return map_vectors(was, now, matches, found)


# -- merge --------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """One of the three: the row of each id, and the rows as bits."""

    rows: dict[str, int]
    matrix: Array
    bits: Array

    def find(self, name: str) -> int | None:
        return self.rows.get(name)

    def has_same(self, name: str, other: _Side) -> bool:
        """Whether both have the same vector of an id, or both have none."""
        mine, theirs = self.rows.get(name), other.rows.get(name)
        if mine is None or theirs is None:
            return mine is theirs
        return bool((self.bits[mine] == other.bits[theirs]).all())


def merge(base: Content, ours: Content, theirs: Content, how: MergeHow) -> Merged:
    """All ids of both sides. What one side moved or removed is taken; what both moved differently is a conflict."""
    contents = (base, ours, theirs)
    layouts = [get_layout(content) for content in contents]
    _refuse_others(ours, layouts)
    old, mine, other = (_open_side(content, layout) for content, layout in zip(contents, layouts, strict=True))
    ids, rows, conflicts = list[str](), list[Array](), list[InnerConflict]()
    is_apart = any(layout.ids_file is not None for layout in layouts)
    for name in dict.fromkeys((*mine.rows, *other.rows)):
        vector, is_open = _join(name, (old, mine, other), how)
        if vector is not None:
            ids.append(name)
            rows.append(vector)
        if is_open and is_apart and None in (mine.find(name), other.find(name)):
            raise Unreadable(
                f"the vectors of {ours.path} cannot be joined, because one side removed {name!r:.60}, the other moved "
                "it, and their ids are in another file"
            )
        if is_open:
            conflicts.append(_describe_conflict(name, old, mine, other))
    data = write_vectors(ours, layouts[1], ids, np.stack(rows) if rows else mine.matrix[:0])
    file = layouts[1].ids_file
    if file is None or [*old.rows] == [*mine.rows] == [*other.rows]:
        return Merged(data, tuple(conflicts))
    listed = file.read_whole() if ids == [*mine.rows] else write_ids(file, ids)
    return Merged(data, tuple(conflicts), beside={file.path: listed})


def _refuse_others(ours: Content, layouts: Sequence[Layout]) -> None:
    """Vectors of another space cannot be joined, nor ones that nothing tells apart."""
    for word, values in (
        ("dimension", [str(layout.matrix.shape[1]) for layout in layouts]),
        ("type", [layout.matrix.dtype for layout in layouts]),
        ("model", [layout.model for layout in layouts]),
    ):
        if len(set(values)) > 1:
            was, mine, other = (value or "not named" for value in values)
            raise Unreadable(
                f"the vectors of {ours.path} cannot be joined, because their {word} differs: it was {was}, is {mine} "
                f"in ours and {other} in theirs"
            )
    if any(layout.ids_from == ROW_NUMBERS for layout in layouts):
        raise Unreadable(f"the vectors of {ours.path} cannot be joined, because the file does not hold their ids")
    if len({layout.ids_file and layout.ids_file.path for layout in layouts}) > 1:
        raise Unreadable(f"the vectors of {ours.path} cannot be joined, because their ids are not in the same file")


def _open_side(content: Content, layout: Layout) -> _Side:
    ids, matrix = read_ids(content, layout), np.ascontiguousarray(layout.matrix.read_array())
    rows = {name: row for row, name in enumerate(ids)}
    if len(rows) < len(ids):
        again = next(name for row, name in enumerate(ids) if rows[name] != row)
        raise Unreadable(f"the vectors of {content.path} cannot be joined, because the id {again!r:.60} occurs twice")
    return _Side(rows, matrix, matrix.view(np.dtype(f"u{matrix.itemsize}")))


def _join(name: str, sides: tuple[_Side, _Side, _Side], how: MergeHow) -> tuple[Array | None, bool]:
    """What becomes of the vector of an id, None if it goes; and whether only a person can say, so that ours stays."""
    old, mine, other = sides
    if mine.has_same(name, other) or other.has_same(name, old):
        side, chosen = mine, ""
    elif mine.has_same(name, old):
        side, chosen = other, ""
    else:
        chosen = how.find_side(make_place(name))
        side = other if chosen == "theirs" else mine
        rows = mine.find(name), other.find(name)
        if chosen == "mean" and rows[0] is not None and rows[1] is not None:
            both = np.stack([mine.matrix[rows[0]], other.matrix[rows[1]]]).astype(np.float64)
            return both.mean(axis=0).astype(mine.matrix.dtype), False
        if chosen not in ("ours", "theirs"):
            chosen = "open"
    row = side.find(name)
    return None if row is None else side.matrix[row], chosen == "open"


def make_place(name: str) -> str:
    return f"id={name}"


def _describe_conflict(name: str, old: _Side, mine: _Side, other: _Side) -> InnerConflict:
    base, ours, theirs = (_describe_vector(name, side) for side in (old, mine, other))
    rows = ((side.matrix, side.find(name)) for side in (old, mine, other))
    held = [b"" if row is None else matrix[row].tobytes() for matrix, row in rows]
    exact = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in held)).hexdigest()
    return InnerConflict(make_place(name), base, ours, theirs, {"id": name}, exact)


def _describe_vector(name: str, side: _Side) -> str | None:
    row = side.find(name)
    if row is None:
        return None
    first = ", ".join(f"{number:.4g}" for number in side.matrix[row][:4])
    return f"[{first}, ... {side.matrix.shape[1]:,} numbers]"
