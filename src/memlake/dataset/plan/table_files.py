"""Files of rows as DuckDB reads them: the call that reads them in a plan, and a look into them before.

The look may go into any file, since nobody knows which will be asked for. So it takes no SQL: what it says is written
here, all that is given is bound, and no name out of a file is part of it. Small files are read whole in the same way,
because opening an engine that may read them takes longer: see decision 016.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, LiteralString

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyRelation

from memlake.errors import NotFound
from memlake.named_tuple import NamedTuple
from memlake.rows import duckdb_connections
from memlake.rows.sql import Sql, compose, join, number, value, word

Kind = Literal["csv", "json", "parquet"]
SMALL, _UNPACKED = 2 << 20, 32 << 20  # bytes of files that are read whole, and of their rows in memory
_BATCH = 65_536
_SAMPLE = 20_480  # objects by which DuckDB tells the columns of JSON
_FUNCTIONS: dict[Kind, LiteralString] = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}


class Files(NamedTuple):
    """Files that are read alike. `is_exact`: Arrow has all their types, so rows that pass through it do not change."""

    kind: Kind
    paths: Sequence[str]
    options: Mapping[str, Any]
    is_exact: bool = False

    def sql(self) -> Sql:
        """Their rows, as a table of SQL."""
        given = ((name, one) for name, one in self.options.items() if one is not None)
        told = join("", (compose(", {} = {}", word(name), value(one)) for name, one in given))
        return compose("{}({}{})", word(_FUNCTIONS[self.kind]), literals(self.paths), told)

    def look(self) -> DuckDBPyRelation:
        """Their columns, without a row."""
        asked = compose("FROM {} LIMIT 0", self.sql()).render()
        return duckdb_connections.sniffer().cursor().sql(asked.text, params=asked.values)

    def guess_unpacked(self) -> int:
        """About how many bytes their rows take in memory, as far as footers tell: 0 for files that have none."""
        footers = [pq.read_metadata(path) for path in self.paths] if self.kind == "parquet" else []
        return sum(8 * one.num_rows * one.num_columns for one in footers)

    def read(self, limit: int) -> pa.Table | None:
        """All their rows; None where they take more bytes than the limit."""
        asked = compose("FROM {}", self.sql()).render()
        found = duckdb_connections.sniffer().cursor().sql(asked.text, params=asked.values).to_arrow_reader(_BATCH)
        batches, size = [], 0
        for batch in found:
            batches.append(batch)
            size += batch.nbytes
            if size > limit:
                return None
        return pa.Table.from_batches(batches, found.schema)


def read_small(sources: Mapping[int, Files]) -> dict[int, pa.Table]:
    """The rows of small files that Arrow does not change, by the key of their source; the rest is read in place.

    The limits hold for all sources of a run together: a union may have hundreds.
    """
    tables: dict[int, pa.Table] = {}
    packed, unpacked = SMALL, _UNPACKED
    for key, files in sources.items():
        size = sum(map(os.path.getsize, files.paths))
        if not files.is_exact or size > packed or files.guess_unpacked() > unpacked:
            continue
        table = files.read(unpacked)
        if table is None:  # rows were read in vain, which is not tried again for each source to come
            break
        tables[key] = table
        packed, unpacked = packed - size, unpacked - table.nbytes
    return tables


def literals(paths: Sequence[str]) -> Sql:
    return value([duckdb_connections.literal(path) for path in paths])


def is_exact(looked_at: DuckDBPyRelation, rows: pa.Table) -> bool:
    """Whether the types of files are the same again after Arrow had them."""
    con = duckdb_connections.sniffer().cursor()
    con.register("rows", rows)
    return bool(con.sql("FROM rows").types == looked_at.types)


def has_long_numbers(paths: Sequence[str], written: str, name: str) -> bool:
    """Whether a column of JSON has whole numbers that a float, which holds 2**53, would cut."""
    asked = compose(  # the cast is nothing where there are more digits than that
        "SELECT 1 FROM read_json({}, format = {}, columns = {}) AS rows(x) "
        "WHERE regexp_full_match(x, '-?[0-9]{{16,}}') "
        "AND coalesce(abs(TRY_CAST(x AS DECIMAL(38, 0))) > 9007199254740992, true) LIMIT 1",
        literals(paths),
        value(written),
        value({name: "VARCHAR"}),
    ).render()
    return duckdb_connections.sniffer().cursor().execute(asked.text, asked.values).fetchone() is not None


def keys_of(paths: Sequence[str], written: str) -> list[str]:
    """The names that objects of JSON files have, in the order in which they come."""
    asked = compose(
        "SELECT json_keys(json) FROM read_json_objects({}, format = {}) LIMIT {}",
        value(list(paths)), value(written), number(_SAMPLE),
    ).render()  # fmt: skip
    rows = duckdb_connections.sniffer().cursor().execute(asked.text, asked.values).fetchall()
    return list(dict.fromkeys(name for (names,) in rows for name in names or ()))


def gone(path: str) -> NotFound:
    return NotFound(
        f"{path} was there when the chain was begun, and is not now. Nothing was read.",
        hint="Begin the chain again with the files that are there.",
    )
