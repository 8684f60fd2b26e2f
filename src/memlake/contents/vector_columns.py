"""Columns of vectors in a table file: what a row-by-row diff cannot say of them, how far they moved."""

from __future__ import annotations

import json
from collections.abc import Iterator

from memlake.contents.content import Content, Unreadable
from memlake.contents.explain import How
from memlake.contents.read_tables import open_table
from memlake.contents.tables import diff
from memlake.rows.compare import TableDiff
from memlake.rows.vector_columns import WIDTH, ComparedColumn, compare_columns
from memlake.rows.vector_map import VectorMap, map_vectors
from memlake.rows.vectors import EmbeddingDiff, match_ids

_LINE = 1 << 20


def diff_more(old: Content, new: Content, how: How, record: TableDiff) -> tuple[EmbeddingDiff, ...]:
    """A record for each column of vectors that differs, its rows told apart as those of the table."""
    return tuple(one.record for one in _compare(old, new, how, record))


def sketch(old: Content, new: Content, how: How) -> VectorMap:
    """The first column of vectors that differs, to be drawn."""
    for was, now, matches, found in _compare(old, new, how, diff(old, new, how)):
        if found.old_dimension == found.new_dimension:
            return map_vectors(was, now, matches or match_ids(was.ids, now.ids)[0], found)
    raise Unreadable(f"{new.path} cannot be drawn, because no column of vectors differs in it")


def _compare(old: Content, new: Content, how: How, record: TableDiff) -> Iterator[ComparedColumn]:
    if _may_have_lists(old) and _may_have_lists(new):
        with open_table(old) as before, open_table(new) as after:
            yield from compare_columns(before, after, record, limit=how.limit)


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
