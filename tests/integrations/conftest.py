"""Two repos that see the memories of every organisation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from tests.memories.exchange import opened


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "repo") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "other") as made:
        yield made
