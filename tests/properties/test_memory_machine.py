"""The machine of memories, and the machine of a broken variant, which it finds out."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from memlake.index import rows
from tests.properties.memory_machine import MemoryMachine

TORTURE = bool(os.environ.get("MEMLAKE_TORTURE"))
_HOW = settings(
    deadline=None,
    max_examples=400 if TORTURE else 12,
    stateful_step_count=60 if TORTURE else 35,
    suppress_health_check=list(HealthCheck),
    derandomize=not TORTURE,  # what chance finds is for the long run
    database=None,
)


def test_memories_agree_with_a_dict_whatever_is_done() -> None:
    run_state_machine_as_test(MemoryMachine, settings=_HOW)


def test_the_machine_finds_an_index_that_forgets_to_end_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_end_row", lambda *_: None)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            MemoryMachine,
            settings=settings(_HOW, phases=[Phase.generate], max_examples=60, derandomize=True, database=None),
        )


@pytest.mark.torture
def test_the_machine_finds_overlays_that_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    laid = rows.lay_over
    monkeypatch.setattr(rows, "lay_over", lambda *given: laid(*given)._replace(hidden=frozenset()))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            MemoryMachine,
            settings=settings(_HOW, phases=[Phase.generate], max_examples=400, derandomize=True, database=None),
        )
