"""The sample agents of both families run as they are written: only the import, and where the repo is, differ."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import memlake as ml
from memlake import Agent as HatiDataAgent


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person with no repo here: memories go to the personal one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_sample_of_the_sdk_runs(person: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = HatiDataAgent(
        agent_id="research-agent",
        password="hd_live_your_api_key",
    )
    # Store a memory
    agent.store_memory(
        content="Revenue grew 15% in Q4 driven by enterprise segment",
        memory_type="fact",
        importance=0.9,
        metadata={"quarter": "Q4", "metric": "revenue"},
    )
    # Search memories
    results = agent.search_memory(
        query="revenue growth trends",
        top_k=5,
        memory_type="fact",
    )
    for memory in results:
        print(f"[{memory['importance']}] {memory['content']}")
    # Agent state
    agent.set_state("analysis_phase", "data_collection")
    phase = agent.get_state("analysis_phase")
    agent.close()

    said = capsys.readouterr()
    assert said.out == "[0.9] Revenue grew 15% in Q4 driven by enterprise segment\n"
    assert phase == "data_collection"
    assert str(person / "data" / "memlake") in said.err  # said once, where memories are kept
    with ml.Agent(agent_id="research-agent") as again:
        assert again.get_state("analysis_phase") == "data_collection"
        assert capsys.readouterr().err == ""


def test_a_server_that_cannot_be_reached_is_said_so(person: Path) -> None:
    for host in ("your-org.proxy.invalid", "http://127.0.0.1:9/"):
        with pytest.raises(ml.errors.Unavailable, match="cannot be reached"):
            HatiDataAgent(host=host, agent_id="research-agent", password="secret-key")


def test_a_folder_that_is_not_there_is_no_repo_and_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for typo in ("typo-folder", str(tmp_path / "typo"), "~/typo"):
        with pytest.raises(ml.errors.NotARepo, match=r"typo\S*, which does not exist\.\s.*memlake init"):
            ml.Agent(typo)
    assert list(tmp_path.iterdir()) == []
    ml.Agent(str(tmp_path)).close()
    assert f"{tmp_path} was not a repo yet" in capsys.readouterr().err
    ml.Agent(str(tmp_path)).close()
    assert capsys.readouterr().err == ""


def test_memories_survive_restarts_and_are_shared_between_agents(tmp_path: Path) -> None:
    with ml.Agent(str(tmp_path), agent_id="one", session_id="monday") as one:
        memory_id = one.store_memory("The build uses Python 3.11", category="conventions", tags=["build"])
        assert one.get_memory(memory_id)["session_id"] == "monday"
    with ml.Agent(str(tmp_path), agent_id="two") as two:
        assert two.search_memory("python build", scope="own") == []
        assert [hit["memory_id"] for hit in two.search_memory("python build")] == [memory_id]
        assert [hit["memory_id"] for hit in two.search_memory("python", agent_id=["one", "two"])] == [memory_id]


def test_a_memory_is_corrected_and_remembers_what_it_was(tmp_path: Path) -> None:
    with ml.Agent(str(tmp_path), agent_id="bot") as agent:
        first = agent.remember("User phone: 1111", category="contacts")
        second = agent.remember("My phone is actually 2222")
        assert (second.decision, second.memory_id) == ("conflict", first.memory_id)
        found = agent.get_memory(first.memory_id)
        assert found["content"] == "User phone: 2222"
        assert [past["value"] for past in found["metadata"]["history"]] == ["User phone: 1111"]
        agent.update_memory(first.memory_id, "User phone: 3333", tags=["mobile"])
        assert agent.get_memory(first.memory_id)["tags"] == ["mobile"]
        assert agent.delete_memory(first.memory_id)
        assert not agent.delete_memory(first.memory_id)
        assert agent.restore_memory(first.memory_id)["content"] == "User phone: 3333"
        assert len(agent.memory_history(first.memory_id)) == 4


def test_what_was_believed_yesterday_can_be_asked(tmp_path: Path) -> None:
    with ml.Agent(str(tmp_path), agent_id="bot") as agent:
        memory_id = agent.store_memory("We deploy on Fridays")
        then = time.time()
        time.sleep(0.01)
        agent.update_memory(memory_id, "We never deploy on Fridays")
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(then)) + f"{then % 1:.6f}"[1:]
        assert agent.search_memory("deploy", as_of=moment)[0]["content"] == "We deploy on Fridays"
        assert agent.search_memory("deploy")[0]["content"] == "We never deploy on Fridays"


def test_a_wrong_parameter_is_named(tmp_path: Path) -> None:
    with ml.Agent(str(tmp_path)) as agent:
        with pytest.raises(ml.errors.InvalidInput, match="'sesion'"):
            agent.search_memory("x", sesion="y")
        with pytest.warns(UserWarning, match="github"):
            agent.store_memory("the key is ghp_" + "a1B2" * 9)
