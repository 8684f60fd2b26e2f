"""The command line door: parse, call one Repo verb, show. Holds no rule of versioning."""

import atexit
import gc
import sys


def _skip_last_look() -> None:
    """Spare the look for cycles at the end, unless DuckDB is loaded: it reports what that look would have freed."""
    if "duckdb" not in sys.modules:
        gc.freeze()


# A command ends soon and makes few cycles, but each module it loads and each row it reads counts as a new object, and
# Python looks for cycles every 700 of them and once more at the end. That look was a twelfth of `memlake status`.
gc.set_threshold(50_000, 20, 100)
atexit.register(_skip_last_look)
