"""L2: history. Tree, commits, refs, stage, diff, merge, checkout. Knows paths and oids, not what they hold.

A verb's module is imported when it is first used (`versions.gc.collect`): `memlake status` must not pay for gc.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.versions import (
        backup,
        branching,
        checkout,
        committing,
        doctor,
        fsck,
        gc,
        globs,
        log,
        looking,
        merging,
        operations,
        purging,
        recovery,
        refs,
        rescue,
        rev,
        stage,
        stash,
        status,
        worktree,
        writing,
    )  # fmt: skip

__all__ = [
    "backup", "branching", "checkout", "committing", "doctor", "fsck", "gc", "globs", "log", "looking", "merging",
    "operations", "purging", "recovery", "refs", "rescue", "rev", "stage", "stash", "status", "worktree", "writing",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'memlake.versions' has no attribute {name!r}")
    return import_module(f"memlake.versions.{name}")
