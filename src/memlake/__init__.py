"""memlake: the data memory of a team and its agents. The public names, imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlake import datasets
    from memlake.client import Agent
    from memlake.datasets import metrics
    from memlake.datasets.chain import Chain
    from memlake.datasets.expressions.expressions import C, lit
    from memlake.datasets.expressions.functions import func
    from memlake.datasets.params import param
    from memlake.datasets.types.files import AudioFile, File, ImageFile, TextFile, VideoFile
    from memlake.datasets.types.types import Vector
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
    from memlake.reading import (
        delete_dataset,
        move_dataset,
        read_arrow,
        read_csv,
        read_database,
        read_dataset,
        read_hf,
        read_json,
        read_jsonl,
        read_pandas,
        read_parquet,
        read_polars,
        read_records,
        read_storage,
        read_values,
        restore_dataset,
    )
    from memlake.records import Author, Branch, Change, Commit, Conflict, Entry, Status, Tag
    from memlake.repo import Repo, init
    from memlake.repo import open_repo as open

__version__ = "0.1.0"

_HOMES = {
    "Agent": ("memlake.client", "Agent"),
    "AlreadyExists": ("memlake.errors", "AlreadyExists"),
    "AudioFile": ("memlake.datasets.types.files", "AudioFile"),
    "Author": ("memlake.records", "Author"),
    "Branch": ("memlake.records", "Branch"),
    "C": ("memlake.datasets.expressions.expressions", "C"),
    "Chain": ("memlake.datasets.chain", "Chain"),
    "Change": ("memlake.records", "Change"),
    "Commit": ("memlake.records", "Commit"),
    "Conflict": ("memlake.records", "Conflict"),
    "ConflictError": ("memlake.errors", "Conflict"),
    "Corrupt": ("memlake.errors", "Corrupt"),
    "Denied": ("memlake.errors", "Denied"),
    "Entry": ("memlake.records", "Entry"),
    "Error": ("memlake.errors", "Error"),
    "File": ("memlake.datasets.types.files", "File"),
    "ImageFile": ("memlake.datasets.types.files", "ImageFile"),
    "InvalidInput": ("memlake.errors", "InvalidInput"),
    "NotARepo": ("memlake.errors", "NotARepo"),
    "NotFound": ("memlake.errors", "NotFound"),
    "Nothing": ("memlake.errors", "Nothing"),
    "Purged": ("memlake.errors", "Purged"),
    "Repo": ("memlake.repo", "Repo"),
    "Status": ("memlake.records", "Status"),
    "Tag": ("memlake.records", "Tag"),
    "TextFile": ("memlake.datasets.types.files", "TextFile"),
    "Unavailable": ("memlake.errors", "Unavailable"),
    "Vector": ("memlake.datasets.types.types", "Vector"),
    "VideoFile": ("memlake.datasets.types.files", "VideoFile"),
    "datasets": ("memlake.datasets", ""),
    "delete_dataset": ("memlake.reading", "delete_dataset"),
    "func": ("memlake.datasets.expressions.functions", "func"),
    "init": ("memlake.repo", "init"),
    "lit": ("memlake.datasets.expressions.expressions", "lit"),
    "metrics": ("memlake.datasets.metrics", ""),
    "move_dataset": ("memlake.reading", "move_dataset"),
    "open": ("memlake.repo", "open_repo"),
    "param": ("memlake.datasets.params", "param"),
    "read_arrow": ("memlake.reading", "read_arrow"),
    "read_csv": ("memlake.reading", "read_csv"),
    "read_database": ("memlake.reading", "read_database"),
    "read_dataset": ("memlake.reading", "read_dataset"),
    "read_hf": ("memlake.reading", "read_hf"),
    "read_json": ("memlake.reading", "read_json"),
    "read_jsonl": ("memlake.reading", "read_jsonl"),
    "read_pandas": ("memlake.reading", "read_pandas"),
    "read_parquet": ("memlake.reading", "read_parquet"),
    "read_polars": ("memlake.reading", "read_polars"),
    "read_records": ("memlake.reading", "read_records"),
    "read_storage": ("memlake.reading", "read_storage"),
    "read_values": ("memlake.reading", "read_values"),
    "restore_dataset": ("memlake.reading", "restore_dataset"),
}
__all__ = [
    "Agent", "AlreadyExists", "AudioFile", "Author", "Branch", "C", "Chain", "Change", "Commit", "Conflict",
    "ConflictError", "Corrupt", "Denied", "Entry", "Error", "File", "ImageFile", "InvalidInput", "NotARepo",
    "NotFound", "Nothing", "Purged", "Repo", "Status", "Tag", "TextFile", "Unavailable", "Vector", "VideoFile",
    "datasets", "delete_dataset", "func", "init", "lit", "metrics", "move_dataset", "open", "param", "read_arrow",
    "read_csv", "read_database", "read_dataset", "read_hf", "read_json", "read_jsonl", "read_pandas", "read_parquet",
    "read_polars", "read_records", "read_storage", "read_values", "restore_dataset",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'memlake' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
