"""The Python door of agents: what it takes, and what it says of what it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.client import Agent
from memlake.errors import InvalidInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with ml.init(tmp_path / "repo") as repo:
        repo.config.set("embedding.provider", "none")
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("given", "near"),
    [({"agentid": "secret-bot"}, "agent_id"), ({"org": "acme"}, "org_id"), ({"sesion_id": "s"}, "session_id")],
)
def test_a_misspelled_name_makes_no_agent(folder: Path, given: dict[str, Any], near: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=f"Agent has no parameter '{next(iter(given))}'") as error:
        Agent(folder, **given)
    assert f"Did you mean {near}?" in error.value.hint


def test_names_of_a_server_are_taken_and_mean_nothing_to_a_folder(folder: Path) -> None:
    with Agent(folder, agent_id="a", password="p", port=5439, framework="custom", database="d", user="u") as agent:
        assert agent.store_memory("The build runs on Fridays")


@pytest.mark.parametrize(("name", "near"), [("limit", "top_k"), ("text", "query"), ("catgory", "category")])
def test_a_search_names_the_parameter_that_was_meant(folder: Path, name: str, near: str) -> None:
    with (
        Agent(folder, agent_id="a") as agent,
        pytest.raises(ml.errors.InvalidInput, match="search_memory has no") as error,
    ):
        agent.search_memory("acme", **{name: 1})
    assert f"Did you mean {near}?" in error.value.hint and "limit" not in error.value.hint.replace(name, "")


@pytest.mark.parametrize("verb", ["store_memory", "remember", "update_memory"])
def test_every_verb_of_an_agent_refuses_a_name_it_does_not_know(folder: Path, verb: str) -> None:
    with Agent(folder, agent_id="a") as agent:
        stored = agent.store_memory("The build runs on Fridays")
        given = [stored] if verb == "update_memory" else ["The tests run on Mondays"]
        with pytest.raises((ml.errors.InvalidInput, TypeError), match="categry"):
            getattr(agent, verb)(*given, categry="ci")
        assert [hit["content"] for hit in agent.search_memory("")] == ["The build runs on Fridays"]


def test_an_update_leaves_a_memory_in_the_package_it_was_stored_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("web", "api"):
        (folder / "packages" / package).mkdir(parents=True)
        (folder / "packages" / package / "package.json").write_text("{}")
    monkeypatch.chdir(folder / "packages" / "web")
    with Agent(agent_id="a") as agent:
        stored = agent.store_memory("The server listens on port 3000")
    monkeypatch.chdir(folder / "packages" / "api")
    with Agent(agent_id="a") as agent:
        assert agent.update_memory(stored, metadata={"owner": "ann"})["area"] == "packages/web"
        assert agent.get_memory(agent.store_memory("Tests run in parallel"))["area"] == "packages/api"


def test_agents_share_what_they_store_and_scope_narrows_it(folder: Path) -> None:
    with Agent(folder, agent_id="one") as one, Agent(folder, agent_id="two") as two:
        one.store_memory("The user prefers pytest over unittest")
        assert len(two.search_memory("which test framework pytest")) == 1
        assert two.search_memory("which test framework pytest", scope="own") == []
        assert len(one.search_memory("which test framework pytest", scope="own")) == 1
        with pytest.raises(InvalidInput, match="scope is one of project, own, not 'mine'"):
            two.search_memory("pytest", scope="mine")
        with pytest.raises(InvalidInput, match='scope "own" and agent_id both'):
            two.search_memory("pytest", scope="own", agent_id="one")


def test_an_agent_serves_one_user_and_never_corrects_what_it_knows_of_another(folder: Path) -> None:
    with Agent(folder, "coach", user_id="alex") as alex, Agent(folder, "coach", user_id="bob") as bob:
        assert alex.remember("The phone number is 1111").decision == "add"
        assert bob.remember("The phone number is 2222").decision == "add"
        assert bob.remember("The phone number is 3333").decision == "conflict"
        with Agent(folder, "coach") as anybodys:
            assert anybodys.remember("The phone number is 4444").decision == "add"
        assert sorted(hit["content"][-4:] for hit in alex.search_memory("phone number")) == ["1111", "4444"]
        assert [hit["user_id"] for hit in alex.search_memory("phone number", user_id="bob")] == ["bob"]
        assert len(alex.search_memory("phone number", user_id="*")) == 3


def test_an_agent_learns_what_became_of_what_its_memories_rest_on(folder: Path) -> None:
    (folder / "api.py").write_text("port = 80\n")
    with Agent(folder, agent_id="a") as agent:
        known = agent.store_memory("The server port is 80", uses=["api.py"])
        assert agent.search_memory("port")[0]["standing"] == "fresh"
        (folder / "api.py").write_text("port = 81\n")
        assert agent.get_memory(known)["because"] == ["api.py changed"]
        assert [one.memory.memory_id for one in agent.doubts()] == [known]
        agent.settle(known)
        assert agent.doubts() == []
