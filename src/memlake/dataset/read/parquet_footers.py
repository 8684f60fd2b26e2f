"""What Parquet files say of their columns beside what the engine reads: classes of values, and spans of time.

The engine reads the types of Parquet alone, which has none for a span of time, and no word for a dict in a text. Who
wrote the file from Arrow left its schema in the footer, with both.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from memlake.dataset.parts.arrow_types import is_told_as, plain_type
from memlake.dataset.types.field_metadata import inner
from memlake.rows.sql import Sql, compose, join, span


def told(paths: Sequence[str], found: pa.Schema) -> pa.Schema:
    """The columns the engine found, as all of the files tell them where they tell more."""
    first = pq.read_schema(paths[0])
    if not any(map(_says_more, first)):  # as usual; then what the others say is not asked
        return found
    said = [first, *(pq.read_schema(path) for path in paths[1:])]
    return pa.schema([_told(one, said) for one in found])


def _told(seen: pa.Field, said: Sequence[pa.Schema]) -> pa.Field:
    fields = [one.field(seen.name) for one in said if one.get_field_index(seen.name) >= 0]
    if not fields or not _says_more(fields[0]):
        return seen
    first = fields[0]
    kind = plain_type(first.type)
    alike = all(one.equals(first, check_metadata=True) for one in fields)
    return first.with_type(kind).with_nullable(True) if alike and is_told_as(kind, seen.type) else seen


def _says_more(field: pa.Field) -> bool:
    marked = any(key.startswith(b"memlake.") for key in field.metadata or ())
    return marked or pa.types.is_duration(field.type) or any(map(_says_more, inner(field.type)))


def spans(columns: pa.Schema) -> Sql | None:
    """All columns with spans of time as the engine's own, which it can compare and add; None where there are none."""
    made = [span(one) for one in columns if pa.types.is_duration(one.type)]
    return compose("* REPLACE ({})", join(", ", made)) if made else None
