"""What the reliability tests of datasets stand on: a repo with versions of every kind, and how it must look."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import memlake as ml
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets
from memlake.repo import Repo
from tests.reliability.ground import assert_sound, init, put

ROWS = 40
Rows = dict[str, list[dict[str, Any]]]


def slow(x: int) -> int:
    """Dear enough that every row is remembered."""
    time.sleep(0.0005)
    return x * 2


def numbers(data: Datasets, start: int = 0) -> Chain:
    return data.read_values(x=list(range(start, start + ROWS)))


def build(root: Path) -> Path:
    """A dataset of two versions, one made from it, one of a folder, and one that is deleted."""
    files = root.with_name("files")
    for number in range(5):
        put(files, f"{number}.txt", f"text {number}")
    with init(root) as repo:
        data = repo.datasets()
        numbers(data).save("numbers")
        numbers(data, 10).map(y=slow).save("numbers", description="second")
        data.read_dataset("numbers").filter(ml.C("x") > 20).save("some")
        data.read_storage(files, type="text").map(text=lambda file: file.read()).save("texts")
        numbers(data).save("gone")
        data.delete_dataset("gone")
    return root


def rows_of(repo: Repo) -> Rows:
    """Every row of every version that can be seen."""
    data = repo.datasets()
    return {one.spec: data.read_dataset(one.spec).to_records() for one in data.all()}


def look(root: Path) -> Rows:
    with ml.open(root) as repo:
        assert_sound(repo)
        return rows_of(repo)


def leftovers(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".memlake" / "tmp").glob("*"))
