"""L3: typed rows, versioned, explained, and cheaper to recall than to recompute. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for Arrow and DuckDB.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.datasets import opening

__all__ = ["opening"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'memlake.datasets' has no attribute {name!r}")
    return import_module(f"memlake.datasets.{name}")
