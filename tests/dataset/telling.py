"""Records written as another save might have written them: provenance of every shape, without a chain that makes it."""

from __future__ import annotations

from typing import Any

from memlake.dataset import save
from memlake.dataset.datasets import Datasets


def put(datasets: Datasets, spec: str, **fields: Any) -> None:
    """Put these in place of what the record of a version says."""
    one = datasets.get(spec)
    ground = datasets.context
    entry = ground.entries(one.name, ground.head_of_branch())[one.semver]
    save.write(ground, one._replace(**fields), f"edit {one.spec}: {', '.join(fields)}", old=entry)
