"""L3: typed rows, versioned, explained, and cheaper to recall than to recompute. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for Arrow and DuckDB. The room is called
`dataset` because `memlake.datasets` is a function.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.dataset import (
        copy_version,
        datasets,
        erase,
        export,
        kind,
        merge_versions,
        params,
        search_rows,
        show_rows,
    )
    from memlake.dataset.lineage import graph, provenance, rows

__all__ = [
    "copy_version", "datasets", "erase", "export", "graph", "kind", "merge_versions", "params", "provenance", "rows",
    "search_rows", "show_rows",
]  # fmt: skip
RECALL = "datasets.db"  # of a repo's folder; its name is known without Arrow
_INSIDE = {name: f"{__name__}.lineage.{name}" for name in ("graph", "provenance", "rows")}
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__} | _INSIDE)
