"""Files of rows: CSV, TSV, JSON lines and Parquet. What they hold, what differs between two, and two edits joined.

The cells of CSV are compared as the text that is written, so 1 and 1.0 differ; those of JSON and Parquet as values.
"""

from __future__ import annotations

from memlake.contents.content import Content
from memlake.contents.explain import How
from memlake.contents.merge_tables import merge
from memlake.contents.read_tables import find_format, open_table
from memlake.named_tuple import NamedTuple
from memlake.rows.compare import Key, TableDiff, compare

__all__ = ["TableSummary", "diff", "merge", "summarize"]


class TableSummary(NamedTuple):
    """What a table is: its columns with their types, and how many rows it has."""

    format: str
    rows: int
    columns: tuple[tuple[str, str], ...]


def summarize(content: Content) -> TableSummary:
    with open_table(content) as side:
        columns = tuple((field.name, str(field.type)) for field in side.schema)
        return TableSummary(find_format(content), side.rows, columns)


def diff(old: Content, new: Content, how: How) -> TableDiff:
    """What differs between two tables, which may be of different formats."""
    with open_table(old) as before, open_table(new) as after:
        key = Key(how.key, how.key_origin) if how.key else None
        return compare(before, after, key, limit=how.limit)
