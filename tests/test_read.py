"""Chains over the repo found from here: which repo that is, which transaction they join, when it is made."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import memlake as ml


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ml.Repo:
    monkeypatch.chdir(tmp_path)
    return ml.init(tmp_path)


def specs(repo: ml.Repo) -> list[str]:
    return [one.spec for one in repo.datasets().all()]


# -- transactions ---------------------------------------------------------------------------------


def test_a_save_from_here_is_dropped_with_the_transaction_it_is_in(repo: ml.Repo) -> None:
    before = ml.read_values(x=[2])

    def fail() -> None:
        with repo.transaction("both"):
            ml.read_values(x=[1]).save("t1")
            before.save("t2")
            assert ml.read_dataset("t1").to_values("x") == [1]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert specs(repo) == []
    before.save("t2")
    assert specs(repo) == ["t2@1.0.0"], "afterwards saves are their own commits again"


def test_saves_from_here_are_in_the_commit_of_the_transaction(repo: ml.Repo) -> None:
    with repo.transaction("all of it"):
        ml.read_values(x=[1]).save("a")
        repo.datasets().read_values(x=[2]).save("b")
    assert [commit.message for commit in repo.log()] == ["all of it"] and specs(repo) == ["a@1.0.0", "b@1.0.0"]


def test_memories_of_an_agent_belong_to_the_transaction_too(repo: ml.Repo) -> None:
    agent = ml.Agent(agent_id="bot")

    def fail() -> None:
        with repo.transaction("never"):
            agent.remember("the sky is blue")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert repo.branches.list()[0].memory is None
    with repo.transaction("kept"):
        agent.remember("the sky is blue")
    assert [commit.message for commit in repo.log(lane="memory")] == ["kept"]


def test_a_transaction_is_not_joined_by_other_threads_or_repos(
    repo: ml.Repo, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = ml.init(tmp_path_factory.mktemp("other"))
    with repo.transaction("mine"):
        other.datasets().read_values(x=[1]).save("elsewhere")
        assert specs(other) == ["elsewhere@1.0.0"]
        thread = threading.Thread(target=lambda: ml.open(repo.root).datasets().read_values(x=[1]).save("theirs"))
        thread.start()
        thread.join()
        assert specs(ml.open(repo.root)) == ["theirs@1.0.0"]


def test_transactions_of_one_thread_do_not_nest_through_another_repo(repo: ml.Repo) -> None:
    with repo.transaction("outer"), pytest.raises(ml.errors.AlreadyExists), ml.open(repo.root).transaction("inner"):
        pass


# -- the personal repo ----------------------------------------------------------------------------


@pytest.fixture
def personal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it will be; there is no repo from here."""
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def test_a_chain_that_is_only_written_down_makes_no_repo(personal: Path) -> None:
    Path("rows.csv").write_text("x,y\n1,a\n", encoding="utf-8")
    ml.read_values(x=[1]).filter(ml.C("x") > 0).map(y=lambda x: x + 1)
    ml.read_csv("rows.csv").union(ml.read_csv("rows.csv"))
    ml.read_storage(".")
    assert not personal.exists()


def test_asking_for_what_nobody_saved_makes_no_repo(personal: Path) -> None:
    with pytest.raises(ml.errors.NotFound, match="no repo here or above and no personal one"):
        ml.read_dataset("pets")
    assert list(ml.datasets().schema)[:2] == ["name", "version"]
    assert not personal.exists()


def test_a_save_makes_the_personal_repo_wherever_one_is_by_then(
    personal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chain, other = ml.read_values(x=[1]), ml.read_values(x=[2])
    there = ml.init(tmp_path / "there")
    monkeypatch.chdir(there.root)
    chain.save("numbers")
    other.save("others")
    assert capsys.readouterr().err.count("so data is kept in your personal one") == 1
    assert specs(there) == [] and specs(ml.open(personal / "memlake")) == ["numbers@1.0.0", "others@1.0.0"]
    monkeypatch.chdir(tmp_path / "outside")
    assert ml.read_dataset("numbers").to_values("x") == [1]
