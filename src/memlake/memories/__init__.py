"""L3: what agents remember. Store, search, merge decisions, state, embedding. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for numpy.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.memories import (
        arriving,
        branches,
        checking,
        counting,
        deciding,
        embedders,
        erasing,
        forgetting,
        ground,
        importing,
        living,
        memories,
        narrow,
        opening,
        searching,
        secrets,
        sides,
        state,
        tending,
        timeline,
        transfer,
        wording,
    )

__all__ = [
    "arriving",
    "branches",
    "checking",
    "counting",
    "deciding",
    "embedders",
    "erasing",
    "forgetting",
    "ground",
    "importing",
    "living",
    "memories",
    "narrow",
    "opening",
    "searching",
    "secrets",
    "sides",
    "state",
    "tending",
    "timeline",
    "transfer",
    "wording",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'memlake.memories' has no attribute {name!r}")
    return import_module(f"memlake.memories.{name}")
