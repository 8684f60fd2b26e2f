"""What DuckDB says went wrong, as our own errors. Knows no plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from memlake.dataset.read import delimited
from memlake.errors import InvalidInput, Unavailable


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """What DuckDB says, as ours."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise Unavailable(f"the query ran out of memory or disk: {error}", hint="Free some space.") from error
    except (duckdb.IOException, duckdb.HTTPException) as error:
        raise Unavailable(f"a file could not be read: {_brief(error)}") from error
    except (duckdb.Error, OSError, pa.ArrowException) as error:  # the latter two from batches under way
        if str(error).startswith(("IO Error", "Out of Memory")):
            raise Unavailable(f"a file could not be read or written: {_brief(error)}") from error
        message, hint = delimited.explain(_brief(error))
        raise InvalidInput(f"the query cannot be run: {message}", hint=hint) from error


def _brief(error: Exception) -> str:
    """What the engine says, without our own SQL."""
    return str(error).partition("\n\nLINE ")[0].strip()
