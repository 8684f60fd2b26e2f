"""memlake: the data memory of a team and its agents. The public names, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake import errors
    from memlake.client import Agent
    from memlake.dataset import metrics
    from memlake.dataset.chain import Chain
    from memlake.dataset.expressions.columns import C, lit
    from memlake.dataset.expressions.functions import func
    from memlake.dataset.params import param
    from memlake.dataset.types.arrow import Vector
    from memlake.dataset.types.files import AudioFile, File, ImageFile, TextFile, VideoFile
    from memlake.errors import Error
    from memlake.read import (
        datasets,
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
    )
    from memlake.records import Author, Commit
    from memlake.repo import Repo, clone, init
    from memlake.repo import open_repo as open

__version__ = "0.1.0"

_HOMES = {
    "memlake.client": "Agent",
    "memlake.dataset.chain": "Chain",
    "memlake.dataset.expressions.columns": "C lit",
    "memlake.dataset.expressions.functions": "func",
    "memlake.dataset.params": "param",
    "memlake.dataset.types.arrow": "Vector",
    "memlake.dataset.types.files": "AudioFile File ImageFile TextFile VideoFile",
    "memlake.errors": "Error",
    "memlake.read": (
        "datasets read_arrow read_csv read_database read_dataset read_hf read_json "
        "read_jsonl read_pandas read_parquet read_polars read_records read_storage read_values"
    ),
    "memlake.records": "Author Commit",
    "memlake.repo": "Repo clone init",
}
__all__ = [
    "Agent", "AudioFile", "Author", "C", "Chain", "Commit", "Error", "File", "ImageFile", "Repo", "TextFile",
    "Vector", "VideoFile", "clone", "datasets", "errors", "func", "init", "lit", "metrics", "open", "param",
    "read_arrow", "read_csv", "read_database", "read_dataset", "read_hf", "read_json", "read_jsonl", "read_pandas",
    "read_parquet", "read_polars", "read_records", "read_storage", "read_values",
]  # fmt: skip
_NAMED_OTHERWISE = {
    "errors": "memlake.errors",
    "metrics": "memlake.dataset.metrics",
    "open": "memlake.repo:open_repo",
}
__getattr__ = lazy(
    __name__, {name: f"{home}:{name}" for home, names in _HOMES.items() for name in names.split()} | _NAMED_OTHERWISE
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
