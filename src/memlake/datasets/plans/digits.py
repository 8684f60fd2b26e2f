"""Whole numbers in JSON that no float can hold: a column that has them beside fractions is text, its digits kept.

The engine makes floats of such a column and drops what they cannot hold. Looked for in the first 16 MiB, and only
where there are floats at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyRelation

from memlake.datasets.expressions.catalogue import connection
from memlake.datasets.expressions.sql import quoted
from memlake.datasets.plans import delimited

_LONG = re.compile(rb'(?<![\d.eE"+])\d{16,}(?![\d.eE"])')
_WHOLE = "TRY_CAST({0} AS DECIMAL(38, 0))"  # nothing where there are more digits than that
_TOO_LONG = f"regexp_full_match({{0}}, '-?[0-9]{{{{16,}}}}') AND coalesce(abs({_WHOLE}) > {2**53}, true)"


def kept(paths: Sequence[str], options: Mapping[str, Any], found: DuckDBPyRelation) -> dict[str, Any]:
    """The options, with the types of all columns where some have to be read as text."""
    types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
    floats = [name for name, kind in types.items() if kind == "DOUBLE"]
    if not floats or not _has_long(paths):
        return dict(options)
    texts = dict.fromkeys((name for name in floats if _loses(paths, options, name)), "VARCHAR")
    return {**options, "columns": types | texts} if texts else dict(options)


def _has_long(paths: Sequence[str]) -> bool:
    return any(_LONG.search(text) for _, text in delimited.heads(paths))


def _loses(paths: Sequence[str], options: Mapping[str, Any], name: str) -> bool:
    """Whether a float would drop digits of a column."""
    test = _TOO_LONG.format(quoted(name))
    sql = f"SELECT 1 FROM read_json($1, format=$2, columns=$3) WHERE {test} LIMIT 1"
    params = [list(paths), options.get("format", "auto"), {name: "VARCHAR"}]
    return connection().cursor().execute(sql, params).fetchone() is not None
