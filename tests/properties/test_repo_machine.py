"""The real repo and a dict side by side: whatever is done to both, they must agree, and nothing may ever be lost.

The machine is in machine.py, the dict in model.py. `make torture` runs it a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import memlake as ml
from memlake.versions.checkout import update
from memlake.versions.history import commits, merge_trees, thin
from memlake.versions.upkeep import gc
from memlake.versions.verbs import branch, merge_to_stage, undo
from tests.properties.machine import CONTENTS, RepoMachine

LONG = settings(
    max_examples=125, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
# The same histories in every run: what chance finds is for the long run, and must not stop somebody else's change.
QUICK = settings(LONG, max_examples=20, stateful_step_count=40, derandomize=True, database=None)
ROUNDS = 8  # of the long run, each a test of its own: one that was stopped goes on with the next


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thin the memory lane every fourth commit: with 256 no run of the machine would ever get there."""
    monkeypatch.setattr(commits, "WINDOW", 4)


@pytest.mark.timeout(900)  # a failure is worth the minutes it takes to make it short
def test_the_repo_does_what_a_plain_dict_would() -> None:
    run_state_machine_as_test(RepoMachine, settings=QUICK)


@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_repo_does_what_a_plain_dict_would_for_a_long_time(number: int, tally: Callable[..., None]) -> None:
    run_state_machine_as_test(RepoMachine, settings=LONG)
    tally(histories_of_80_verbs=LONG.max_examples)


# -- the machine can fail: each safeguard switched off once ------------------------------------------

ONE, TWO, SIX = ((content, False) for content in CONTENTS)


def remember_a_lot(machine: RepoMachine) -> None:
    for number in range(13):
        machine.remember(number % 4, CONTENTS[number % 3])
        machine.repo_and_model_agree()
    machine.reopen()
    machine.fsck()


def switch_with_work_in_the_way(machine: RepoMachine) -> None:
    machine.write("a", SIX)
    machine.switch("dev")


def collect_between_add_and_commit(machine: RepoMachine) -> None:
    machine.write("b", SIX)
    machine.add_all()
    machine.done.clear()
    machine.repo._local.db.run("DELETE FROM operation")  # undo needs it too; here only the stage does
    machine.gc(True)
    machine.commit(False)
    machine.fsck()


def merge_what_one_side_changed(machine: RepoMachine) -> None:
    machine.work_on("dev", "b", SIX)
    machine.work_on("main", "d/x", SIX)
    machine.merge("dev", True, "ours")


def throw_work_away_and_undo(machine: RepoMachine) -> None:
    machine.write("a", SIX)
    machine.reset(0, "hard")
    machine.undo()


def pop_a_file_over_a_folder(machine: RepoMachine) -> None:
    machine.write("c", TWO)
    machine.add_all()
    machine.stash(False)
    machine.pop()


def pop_where_work_stands(machine: RepoMachine) -> None:
    machine.write("a", ONE)
    machine.stash(False)
    machine.mv(0, "b")
    machine.write("a", ONE)
    machine.pop()


def merge_where_work_stands(machine: RepoMachine) -> None:
    machine.work_on("dev", "a", SIX)
    machine.switch("main")
    machine.write("a", ONE)
    machine.merge("dev", False, "ours")


def revert_where_the_same_file_stands(machine: RepoMachine) -> None:
    machine.rm(0, False, False)
    machine.commit(False)
    machine.write("a", ONE)
    machine.replay(1, "theirs", "revert")


def pop_where_a_file_was_deleted(machine: RepoMachine) -> None:
    machine.write("a", SIX)
    machine.write("b", SIX)
    machine.add_all()
    machine.commit(False)
    machine.write("a", ONE)
    machine.write("b", ONE)
    machine.stash(False)
    machine.write("a", TWO)
    machine.add_all()
    machine.commit(False)
    machine.delete(1)
    machine.pop()


def undo_after_an_add_of_nothing(machine: RepoMachine) -> None:
    machine.switch("dev")
    machine.add_all()
    machine.undo()


GUARDS: dict[str, tuple[Callable[[RepoMachine], None], ModuleType, str, Callable[..., object]]] = {
    "roots that thinning keeps": (remember_a_lot, thin, "_find_kept_roots", lambda *_: set()),
    "a look before files are moved": (switch_with_work_in_the_way, update, "_examine", lambda *_: {}),
    "the stage among what gc keeps": (collect_between_add_and_commit, gc, "_local_roots", lambda *_: (set(), set())),
    "a merge base": (merge_what_one_side_changed, merge_trees, "merge_bases", lambda *_: []),
    "saving what is thrown away": (throw_work_away_and_undo, branch, "save_dirty", lambda *_: {}),
    "what gives way in the stage": (pop_a_file_over_a_folder, merge_to_stage, "_find_giving_way", lambda *_: []),
    "a look before a stash waits": (pop_where_work_stands, merge_to_stage, "_check_safe", lambda *_: {}),
    "a look before a merge waits": (merge_where_work_stands, merge_to_stage, "_check_safe", lambda *_: {}),
    "a look at a file that is the same": (
        revert_where_the_same_file_stands,
        merge_to_stage,
        "_check_safe",
        lambda *_: {},
    ),
    "a note of what was deleted": (pop_where_a_file_was_deleted, merge_to_stage, "_check_safe", lambda *_: {}),
    "an add that is no operation": (undo_after_an_add_of_nothing, undo, "has_staged", lambda *_: True),
}


def play(story: Callable[[RepoMachine], None]) -> None:
    machine = RepoMachine()
    try:
        machine.begin(True)
        story(machine)
        machine.repo_and_model_agree()
    finally:
        machine.put_away()


@pytest.mark.parametrize("guard", GUARDS)
def test_the_machine_goes_red_without(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, module, name, nothing = GUARDS[guard]
    play(story)
    monkeypatch.setattr(module, name, nothing)
    with pytest.raises((AssertionError, ml.Error, pytest.fail.Exception)):
        play(story)


def amend_to_what_the_parent_has(machine: RepoMachine) -> None:
    machine.write("a", ONE)
    machine.add_all()
    machine.commit(True)


def amend_a_merge_to_what_its_first_parent_has(machine: RepoMachine) -> None:
    machine.work_on("dev", "b", SIX)
    machine.switch("main")
    machine.merge("dev", False, "ours")
    machine.rm(1, False, False)
    machine.commit(True)


@pytest.mark.parametrize("story", [amend_to_what_the_parent_has, amend_a_merge_to_what_its_first_parent_has])
def test_the_model_knows_when_an_amend_leaves_nothing(story: Callable[[RepoMachine], None]) -> None:
    play(story)
