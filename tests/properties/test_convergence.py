"""Clones that share converge, whatever they do in whatever order and wherever they are killed.

The machine is in sync_machine.py. `make torture` has 64 clones and many histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import memlake as ml
from memlake.versions.sync import push, remote_gc
from tests.properties.sync_machine import Fleet
from tests.reliability.ground import fast_folder

pytestmark = pytest.mark.filterwarnings("ignore:not written, because their content was purged")


def run(seed: int, patch: pytest.MonkeyPatch, *, clones: int, steps: int) -> Counter[str]:
    """One history; returns how often what was done."""
    with fast_folder() as folder:
        fleet = Fleet(folder, seed, clones, patch)
        try:
            for _ in range(steps):
                fleet.step()
            fleet.settle()
            fleet.compare()
        finally:
            fleet.close()
        return fleet.counts


def run_many(seeds: range, monkeypatch: pytest.MonkeyPatch, *, clones: int, steps: int) -> Counter[str]:
    counts = Counter[str]()
    for seed in seeds:
        with monkeypatch.context() as patch:
            counts += run(seed, patch, clones=clones, steps=steps)
    return counts


@pytest.mark.parametrize("seeds", [range(4), range(4, 8)])
def test_eight_clones_that_are_killed_anywhere_end_with_the_same(
    seeds: range, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    counts = run_many(seeds, monkeypatch, clones=8, steps=90)
    assert counts["kills"] > 10 and counts["conflicts"] > 10 and counts["purges"] > 1
    assert counts["archived"] > 4
    tally(**counts)


def test_the_machine_finds_a_gc_that_forgets_what_commits_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_gc, "_list_named", lambda *_: set())
    with pytest.raises((AssertionError, ml.Error)):
        run_many(range(9), monkeypatch, clones=3, steps=60)


def test_the_machine_finds_a_push_that_loses_commits_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_is_behind", lambda *_: True)
    with pytest.raises((AssertionError, ml.Error, pytest.fail.Exception)):
        run_many(range(9), monkeypatch, clones=3, steps=60)


@pytest.mark.torture
@pytest.mark.parametrize("clones", [8, 64])
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_clones_end_with_the_same(
    seed: int, clones: int, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    tally(histories=1, **run(seed, monkeypatch, clones=clones, steps=20 * clones))
