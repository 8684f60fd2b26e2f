"""memlake: the data memory of a team and its agents. The public names, imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlake.client import Agent
    from memlake.errors import (
        AlreadyExists,
        Corrupt,
        Denied,
        Error,
        InvalidInput,
        NotARepo,
        NotFound,
        Nothing,
        Purged,
        Unavailable,
    )
    from memlake.errors import Conflict as ConflictError
    from memlake.records import Author, Branch, Change, Commit, Conflict, Entry, Status, Tag
    from memlake.repo import Repo, init
    from memlake.repo import open_repo as open

__version__ = "0.1.0"

_HOMES = {
    "Agent": ("memlake.client", "Agent"),
    "AlreadyExists": ("memlake.errors", "AlreadyExists"),
    "Author": ("memlake.records", "Author"),
    "Branch": ("memlake.records", "Branch"),
    "Change": ("memlake.records", "Change"),
    "Commit": ("memlake.records", "Commit"),
    "Conflict": ("memlake.records", "Conflict"),
    "ConflictError": ("memlake.errors", "Conflict"),
    "Corrupt": ("memlake.errors", "Corrupt"),
    "Denied": ("memlake.errors", "Denied"),
    "Entry": ("memlake.records", "Entry"),
    "Error": ("memlake.errors", "Error"),
    "InvalidInput": ("memlake.errors", "InvalidInput"),
    "NotARepo": ("memlake.errors", "NotARepo"),
    "NotFound": ("memlake.errors", "NotFound"),
    "Nothing": ("memlake.errors", "Nothing"),
    "Purged": ("memlake.errors", "Purged"),
    "Repo": ("memlake.repo", "Repo"),
    "Status": ("memlake.records", "Status"),
    "Tag": ("memlake.records", "Tag"),
    "Unavailable": ("memlake.errors", "Unavailable"),
    "init": ("memlake.repo", "init"),
    "open": ("memlake.repo", "open_repo"),
}
__all__ = [
    "Agent", "AlreadyExists", "Author", "Branch", "Change", "Commit", "Conflict", "ConflictError", "Corrupt", "Denied",
    "Entry", "Error", "InvalidInput", "NotARepo", "NotFound", "Nothing", "Purged", "Repo", "Status", "Tag",
    "Unavailable", "init", "open",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'memlake' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
