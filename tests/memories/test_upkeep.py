"""What may go, what matters more or less than it says, and what is done about expired memories unasked."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories import upkeep
from memlake.memories.answers.recalls import Teller
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.memories.upkeep import Rule
from memlake.repo import Repo, clean_up
from tests.conftest import SetClock

DAY = 86_400


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    with ml.init(tmp_path / "repo") as repo:
        repo.config.set("embedding.provider", "none")
        yield repo


@pytest.fixture
def memories(repo: Repo) -> Memories:
    return repo.memories()


def tell(memories: Memories, text: str, *sessions: str) -> None:
    """Let sessions be told what is found by a text."""
    for session in sessions:
        query = Query(text)
        memories.note_told(query, memories.search(query), Teller("mcp", session))


def test_the_score_grows_with_age_and_doubt_and_falls_with_importance_and_readers() -> None:
    steps = {"importance": (1.0, 0.7, 0.2), "days": (1, 40, 400), "sessions": (9, 2, 0)}
    for importance, days, sessions in itertools.product(*steps.values()):
        at = {"importance": importance, "days": days, "sessions": sessions}
        here = upkeep.score(**at, uncertain=False)  # type: ignore[arg-type]
        assert 0 <= here < upkeep.score(**at, uncertain=True) <= 1  # type: ignore[arg-type]
        for name, values in steps.items():
            worse = [value for value in values if values.index(value) > values.index(at[name])]
            for value in worse if importance < 1 or name == "importance" else ():
                assert upkeep.score(**{**at, name: value}, uncertain=False) > here, (at, name, value)  # type: ignore[arg-type]


def test_a_memory_that_different_sessions_read_is_missed_more_than_one_that_a_session_read_often(
    memories: Memories, set_clock: SetClock
) -> None:
    memories.store(Draft("The cello is in the attic"))
    memories.store(Draft("The piano is in the hall"))
    tell(memories, "cello", "s1", "s2", "s3")
    tell(memories, "piano", *["s1"] * 9)
    set_clock(100 * DAY)
    found = {age.memory.content: age for age in memories.stale(Rule(max_sessions=9))}
    cello, piano = found["The cello is in the attic"], found["The piano is in the hall"]
    assert (cello.sessions, piano.sessions) == (3, 1) and cello.access_count < piano.access_count
    assert cello.score < piano.score
    assert [age.memory.content for age in memories.stale(Rule(max_sessions=2))] == [piano.memory.content]


def test_what_is_contradicted_is_missed_less(memories: Memories, set_clock: SetClock) -> None:
    memories.remember(Draft("The office is in Bern", "ada"))
    memories.remember(Draft("The office is in Basel", "bob"))  # another agent's is kept, and listed as a contradiction
    set_clock(100 * DAY)
    first, second = memories.stale(Rule())
    assert (first.memory.content, first.contradicted) == ("The office is in Basel", True)
    assert not second.contradicted and first.score > second.score


def test_what_rests_on_a_change_is_missed_less(
    memories: Memories, set_clock: SetClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "repo")
    (tmp_path / "repo/api.py").write_text("port = 80\n")
    memories.store(Draft("The port is 80", uses=["api.py"], importance=0.5))
    memories.store(Draft("The host is called a"))
    (tmp_path / "repo/api.py").write_text("port = 81\n")
    set_clock(100 * DAY)
    first, second = memories.stale(Rule())
    assert (first.memory.content, first.in_doubt, first.contradicted) == ("The port is 80", True, False)
    assert not second.in_doubt and first.score > second.score
    set_clock(0)
    memories.update(first.memory.memory_id, Draft("x", importance=0.9), changed=["importance"])
    assert [one.why for one in memories.suggest_importance(Rule())] == ["what it rests on changed"]


# -- importance


def test_silence_counts_only_while_records_are_kept(memories: Memories, set_clock: SetClock) -> None:
    """A clone knows nothing of who read what elsewhere, so it does not take that for nobody."""
    memories.store(Draft("The canteen has soup", importance=0.9))
    set_clock(500 * DAY)
    assert memories.suggest_importance(Rule()) == []
    tell(memories, "unrelated words", "s1")
    assert memories.suggest_importance(Rule()) == []
    set_clock(700 * DAY)
    assert [one.why for one in memories.suggest_importance(Rule())] == ["nobody was told it in 200 days"]


def test_nothing_is_applied_over_a_memory_that_changed_meanwhile(memories: Memories) -> None:
    stored = memories.store(Draft("Deploys need two reviews", importance=0.4))
    tell(memories, "deploys", "s1", "s2", "s3")
    suggested = memories.suggest_importance(Rule())
    memories.update(stored.memory_id, Draft("Deploys need three reviews"), changed=["content"])
    with pytest.raises(ml.errors.Conflict, match="was changed meanwhile"):
        memories.apply_importance(suggested)
    assert memories.get(stored.memory_id).importance == 0.4


def test_what_was_told_often_is_not_found_sooner(memories: Memories) -> None:
    memories.store_many([Draft("The red tea is in the kitchen"), Draft("The green tea is in the kitchen")])
    order = [hit["content"] for hit in memories.search(Query("tea kitchen"))]
    tell(memories, "green tea", *map(str, range(20)))
    assert [hit["content"] for hit in memories.search(Query("tea kitchen"))] == order


# -- cleanup


@pytest.fixture
def expiring(tmp_path: Path, set_clock: SetClock) -> Iterator[Callable[[str], Repo]]:
    """A repo with a memory that is over, one that ends later, and one that stays; under a setting."""
    opened = contextlib.ExitStack()

    def begin(setting: str) -> Repo:
        with ml.init(tmp_path / "expiring") as made:
            made.config.set("memory.cleanup", setting)
            made.config.set("embedding.provider", "none")
        repo = opened.enter_context(ml.open(tmp_path / "expiring"))
        ends = {"Over": "in 1 day", "Later": "in 9 days", "Stays": "never"}
        repo.memories().store_many([Draft(f"{name} and done", expires_at=end) for name, end in ends.items()])
        set_clock(2 * DAY)
        return repo

    with opened:
        yield begin


def count(repo: Repo) -> int:
    """Memories on the branch, those that are over, too."""
    return len([path for path, _ in repo.ls() if path.startswith("memories/")])


@pytest.mark.parametrize(
    ("setting", "told", "kept"),
    [("off", "", 3), ("propose", "1 memory expired.", 3), ("expired", "Forgot 1 memory", 2)],
)
def test_cleanup_does_what_the_setting_says_once_a_day(
    expiring: Callable[[str], Repo], set_clock: SetClock, setting: str, told: str, kept: int
) -> None:
    repo = expiring(setting)
    assert clean_up(repo).startswith(told)
    assert count(repo) == kept
    set_clock(2.001 * DAY)
    assert clean_up(repo) == ""
    set_clock(20 * DAY)
    assert bool(clean_up(repo)) == bool(told)
    assert count(repo) == {"expired": 1}.get(setting, 3)


def test_what_gc_forgot_is_brought_back_by_undo(expiring: Callable[[str], Repo]) -> None:
    repo = expiring("expired")
    told = "Forgot 1 memory that expired, as memory.cleanup says. Bring them back with: memlake undo"
    assert repo.upkeep.gc().notes == (told,)
    assert count(repo) == 2
    repo.undo()
    assert count(repo) == 3


def test_a_dry_run_of_gc_forgets_nothing(expiring: Callable[[str], Repo]) -> None:
    repo = expiring("expired")
    assert repo.upkeep.gc(dry_run=True).notes == () and count(repo) == 3


def test_another_setting_counts_at_once_and_nothing_is_proposed_to_nobody(expiring: Callable[[str], Repo]) -> None:
    repo = expiring("propose")
    assert clean_up(repo, silent=True) == ""
    assert clean_up(repo).startswith("1 memory expired.")
    repo.config.set("memory.cleanup", "expired")
    with ml.open(repo.root) as again:
        assert clean_up(again, silent=True).startswith("Forgot 1 memory")
        assert count(again) == 2
