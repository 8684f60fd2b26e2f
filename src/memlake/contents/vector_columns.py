"""Columns of vectors in a table file: what a row-by-row diff cannot say of them, how far they moved."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.read_tables import open_table
from memlake.contents.tables import diff
from memlake.rows.compare import Side, TableDiff
from memlake.rows.vector_columns import WIDTH, find_model_column, may_hold_vectors, take_vectors
from memlake.rows.vector_map import VectorMap, map_vectors
from memlake.rows.vectors import EmbeddingDiff, Matches, Vectors, compare_vectors, match_ids, match_places

_LINE = 1 << 20


def diff_more(old: Content, new: Content, how: How, record: TableDiff) -> tuple[EmbeddingDiff, ...]:
    """A record for each column of vectors that differs, its rows told apart as those of the table."""
    return tuple(found for *_, found in _compare_columns(old, new, how, record))


def sketch(old: Content, new: Content, how: How) -> VectorMap:
    """The first column of vectors that differs, to be drawn."""
    for was, now, matches, found in _compare_columns(old, new, how, diff(old, new, how)):
        if found.old_dimension == found.new_dimension:
            return map_vectors(was, now, matches or match_ids(was.ids, now.ids)[0], found)
    raise Unreadable(f"{new.path} cannot be drawn, because no column of vectors differs in it")


Compared = tuple[Vectors, Vectors, Matches | None, EmbeddingDiff]


def _compare_columns(old: Content, new: Content, how: How, record: TableDiff) -> Iterator[Compared]:
    if not (_may_have_lists(old) and _may_have_lists(new)):
        return
    with open_table(old) as before, open_table(new) as after:
        touched = {*record.cells, *(change.name for change in record.columns)}
        for name in after.schema.names:
            if not (may_hold_vectors(before.schema, name) and may_hold_vectors(after.schema, name)):
                continue
            if not (record.added or record.removed or name in touched):
                continue
            was, now = (_read_column(side, name, record.key.columns) for side in (before, after))
            if was is None or now is None:
                continue
            by = ", ".join(record.key.columns)
            matches = None if by else match_places(was.matrix, now.matrix)
            found = compare_vectors(
                was, now, ids_from=f"column {by}" if by else "the number of the row", limit=how.limit, matches=matches
            )
            if not found.is_empty:
                yield was, now, matches, found._replace(column=name)


def _may_have_lists(content: Content) -> bool:
    """Whether it is worth reading a second time: CSV has no lists, and lines of JSON show theirs in the first."""
    if content.suffix not in ("jsonl", "ndjson"):
        return content.suffix not in ("csv", "tsv", "tab")
    try:
        first = json.loads(content.read(_LINE).lstrip().partition(b"\n")[0])
    except ValueError:
        return False
    values = first.values() if isinstance(first, dict) else ()
    return any(isinstance(value, list) and len(value) >= WIDTH for value in values)


def _read_column(side: Side, name: str, key: tuple[str, ...]) -> Vectors | None:
    wanted = list(dict.fromkeys(filter(None, (name, *key, find_model_column(side.schema)))))
    tables = [piece.read(wanted) for piece in side.pieces]
    if not tables:
        return None
    return take_vectors(pa.concat_tables(tables).replace_schema_metadata(side.schema.metadata), name, key)
