"""Whole numbers in JSON that no float can hold: a column that has them beside fractions is text, its digits kept.

The engine makes floats of such a column and drops what they cannot hold. Looked for in the first 16 MiB, and only
where there are floats at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyRelation

from memlake.dataset.plan import table_files
from memlake.dataset.read import delimited

_LONG = re.compile(rb'(?<![\d.eE"+])\d{16,}(?![\d.eE"])')


def kept(paths: Sequence[str], options: Mapping[str, Any], found: DuckDBPyRelation) -> dict[str, Any]:
    """The options, with the types of all columns where some have to be read as text."""
    types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
    floats = [name for name, kind in types.items() if kind == "DOUBLE"]
    if not floats or not any(_LONG.search(text) for _, text in delimited.heads(paths)):
        return dict(options)
    texts = dict.fromkeys(
        (name for name in floats if table_files.has_long_numbers(paths, options.get("format", "auto"), name)), "VARCHAR"
    )
    return {**options, "columns": types | texts} if texts else dict(options)
