"""Law: the rows that lineage names are those that a plain Python tracer finds, whatever the chain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from memlake.dataset.datasets import Datasets
from memlake.dataset.lineage.rows import RowTracer, Step
from tests.properties import traced_plans


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    monkeypatch.chdir(tmp_path)
    with traced_plans.open_tables(tmp_path) as tables:
        yield tables


def leaves(steps: Sequence[Step]) -> set[tuple[str, int]]:
    """The rows of files and values at the ends of a tree; a row that came from none is at no end."""
    found: set[tuple[str, int]] = set()
    for step in steps:
        assert step.kind != "unknown" or step.name == "no row", step
        if step.kind == "dataset":
            found |= leaves(step.steps)
        elif step.kind != "unknown":
            found |= {(step.name, row) for row in step.rows}
    return found


def check_plans(data: Datasets, seeds: range) -> None:
    for seed in seeds:
        name = f"plan{seed}"
        both = traced_plans.build(data, random.Random(seed), name)
        version = both.chain.save(name).record
        assert version is not None
        rows = data.read_dataset(name).to_list(*traced_plans.NAMES)
        assert rows == [row[:3] for row in both.rows], f"seed {seed}: the chains differ, not their traces"
        tracer = RowTracer(data.context)
        told = [leaves(tracer.list_origins(version, np.asarray([place]))) for place in range(len(rows))]
        assert told == [set(row.leaves) for row in both.rows], f"seed {seed}"


def test_random_chains_are_traced_as_by_hand(data: Datasets) -> None:
    check_plans(data, range(12))


@pytest.mark.torture
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_200_random_chains_are_traced_as_by_hand(data: Datasets, first: int, tally: Callable[..., None]) -> None:
    check_plans(data, range(first, first + 20))
    tally(plans=20)
