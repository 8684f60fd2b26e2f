"""L3: typed rows, versioned, explained, and cheaper to recall than to recompute. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for Arrow and DuckDB.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlake.datasets import erasing, joining, opening, outputs

__all__ = ["erasing", "joining", "opening", "outputs"]
RECALL = "datasets.db"  # of a repo's folder; its name is known without Arrow


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'memlake.datasets' has no attribute {name!r}")
    return import_module(f"memlake.datasets.{name}")


class _Room(ModuleType):
    """`ml.datasets()` asks what is known, and `memlake.datasets` is this room: one name for both."""

    def __call__(self, **how: Any) -> Any:
        return import_module("memlake.reading").datasets(**how)


sys.modules[__name__].__class__ = _Room
