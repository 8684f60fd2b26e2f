"""The real repo and a dict side by side: whatever is done to both, they must agree, and nothing may ever be lost.

The machine is in machine.py, the dict in model.py. `make torture` runs it for hours.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import memlake as ml
from memlake.versions import branching, checkout, fsck, gc, history, merge, operations, record, stash, thin, writing
from memlake.versions.here import Here
from tests.properties.machine import RepoMachine

QUICK = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
LONG = settings(QUICK, max_examples=3000, stateful_step_count=80)
CONTROL = settings(QUICK, max_examples=400, phases=[Phase.generate], database=None, derandomize=True)


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thin the memory lane every fourth commit: with 256 no run of the machine would ever get there."""
    for module in (history, record, thin, gc, fsck):
        monkeypatch.setattr(module, "WINDOW", 4)


def test_the_repo_does_what_a_plain_dict_would() -> None:
    run_state_machine_as_test(RepoMachine, settings=QUICK)


@pytest.mark.torture
def test_the_repo_does_what_a_plain_dict_would_for_a_long_time() -> None:
    run_state_machine_as_test(RepoMachine, settings=LONG)


# -- the machine can fail: each safeguard switched off once ------------------------------------------


def keep_no_root(*_: object) -> set[bytes]:
    return set()


def everything_is_safe(*_: object) -> list[str]:
    return []


def forget_the_stage(here: Here) -> tuple[set[str], set[str]]:
    return set(), gc_local_roots(here)[1]


gc_local_roots = gc._local_roots


@pytest.mark.parametrize(
    ("module", "guard", "without"),
    [
        (thin, "_kept_roots", keep_no_root),
        (checkout, "_unsafe", everything_is_safe),
        (gc, "_local_roots", forget_the_stage),
        (merge, "merge_bases", lambda *_: []),
        (operations, "save_dirty", lambda *_: {}),
    ],
    ids=[
        "thin forgets the heads",
        "checkout checks nothing",
        "gc forgets the stage",
        "merge has no base",
        "undo saves nothing",
    ],
)
def test_the_machine_goes_red_without(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, guard: str, without: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, guard, without)
    for user in (branching, stash, writing):
        if hasattr(user, guard):
            monkeypatch.setattr(user, guard, without)
    with pytest.raises((AssertionError, ml.Error, pytest.fail.Exception, KeyError)):
        run_state_machine_as_test(RepoMachine, settings=CONTROL)
