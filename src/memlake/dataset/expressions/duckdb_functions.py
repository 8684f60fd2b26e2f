"""DuckDB's own list of its functions, read once. Knows no expression."""

from __future__ import annotations

import difflib
from functools import cache

from memlake.errors import InvalidInput
from memlake.rows import duckdb_connections

NATURE_OF_TYPE = {"aggregate": "aggregate", "window": "window"}
# Of a macro DuckDB does not tell what is behind it.
VOLATILE_MACROS = frozenset({"ago"})
AGGREGATE_MACROS = frozenset(
    {"geomean", "geometric_mean", "json_group_array", "json_group_object", "json_group_structure", "wavg"}
    | {"weighted_avg", "variant_group_array"}
)


@cache
def natures() -> dict[str, str]:
    """The nature (see expressions.NATURES) of each function that gives one value."""
    with duckdb_connections.lock:
        rows = duckdb_connections.catalogue().execute(
            "SELECT function_name, function_type, bool_or(stability <> 'CONSISTENT') FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
            " AND NOT regexp_matches(function_name, '^(pg_|has_|inet_|collate_|icu_collate_)')"
            " AND regexp_full_match(function_name, '[a-z][a-z0-9_]*') GROUP BY ALL ORDER BY ALL"
        )
        return {name: _nature(name, kind, volatile) for name, kind, volatile in rows.fetchall()}


def nature_of(name: str) -> str:
    """InvalidInput for a name that is no function, with those that are spelled like it."""
    found = natures().get(name)
    if found is None:
        raise unknown_function(name)
    return found


def unknown_function(name: str, known: tuple[str, ...] = ()) -> InvalidInput:
    near = difflib.get_close_matches(name.lower(), {*natures(), *known}, n=3)
    return InvalidInput(
        f"there is no function {name!r}",
        hint=f"Did you mean {' or '.join(f'func.{one}' for one in near)}?"
        if near
        else "func has memlake's own functions and all of DuckDB's; see dir(func).",
    )


def _nature(name: str, kind: str, volatile: bool | None) -> str:
    if name in AGGREGATE_MACROS:
        return "aggregate"
    return NATURE_OF_TYPE.get(kind) or ("volatile" if volatile or name in VOLATILE_MACROS else "scalar")
