"""What a coding agent is told, through the real hook commands: at the start, at a prompt, and nothing twice."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from tests.cli.conftest import Run
from tests.conftest import SetClock

Hook = Callable[..., str]


@pytest.fixture
def repo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLAKE_HOOK_SECONDS", "100")
    run("init")
    run("config", "embedding.provider", "none")
    return tmp_path


@pytest.fixture
def hook(run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """`hook("prompt", prompt="...")`: the context it gives, empty for none; in this process, by the real command."""

    def called(event: str, *options: str, **given: Any) -> str:
        data = json.dumps({"cwd": str(repo), **given}).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        out = run("hook", event, *options).out
        return str(json.loads(out)["hookSpecificOutput"]["additionalContext"]) if out else ""

    return called


def contents(context: str) -> list[str]:
    return [json.loads(line)["content"] for line in context.splitlines()[1:]]


def store(repo: Path, *drafts: Draft) -> list[str]:
    with ml.open(repo) as opened:
        return [opened.memories().store(one).memory_id for one in drafts]


def test_a_prompt_in_two_languages_brings_what_it_is_about(hook: Hook, run: Run) -> None:
    run("remember", "The sandbox sleeps between 22:00 and 06:00")
    run("remember", "预发布环境的部署要先通知小林")
    run("remember", "Omar rotates the signing keys", "--category", "contacts")
    assert contents(hook("prompt", prompt="why is the sandbox down at night?")) == [
        "The sandbox sleeps between 22:00 and 06:00"
    ]
    assert contents(hook("prompt", prompt="部署到预发布环境要走什么流程?")) == ["预发布环境的部署要先通知小林"]
    assert contents(hook("prompt", prompt="who can rotate the keys?")) == ["Omar rotates the signing keys"]
    for prompt in ("yes", "commit", "run the tests", "thanks!", "继续", "/compact the sandbox", "why is it so slow?"):
        assert hook("prompt", prompt=prompt) == "", prompt


def test_three_are_told_at_most(hook: Hook, repo: Path) -> None:
    store(repo, *(Draft(f"The sandbox number {number} sleeps in winter") for number in range(20, 30)))
    assert len(contents(hook("prompt", prompt="which sandbox sleeps in winter?"))) == 3


def test_what_a_person_said_is_told_and_an_agents_words_for_it_are_not(hook: Hook, run: Run) -> None:
    run("remember", "Noted: the sandbox sleeps between 22:00 and 06:00", "--agent", "codex")
    run("remember", "The sandbox sleeps between 22:00 and 06:00", "--on-conflict", "add")
    run("remember", "The sandbox costs 3 francs an hour", "--agent", "codex", "--on-conflict", "add")
    told = hook("prompt", session_id="s", prompt="what about the sandbox when it sleeps?")
    assert contents(told)[0] == "The sandbox sleeps between 22:00 and 06:00"
    assert not any(one.startswith("Noted") for one in contents(told))
    assert json.loads(told.splitlines()[1])["by"] == "person"
    (record,) = run("recalls", "--session", "s", "--json").json["recalls"]
    assert "echo" in {one["gate"] for one in record["candidates"]}


def test_a_start_keeps_to_its_budget_and_names_who_said_what(hook: Hook, run: Run, repo: Path) -> None:
    store(repo, *(Draft(f"Rule {number}: " + "word " * number, category="conventions") for number in range(60)))
    whole = hook("session-start", session_id="s")
    assert len(whole) / 4 <= 800 and len(contents(whole)) > 5
    run("config", "hook.budget", "200")
    assert len(hook("session-start", session_id="s")) / 4 <= 200
    lines = [json.loads(line) for line in whole.splitlines()[1:]]
    assert all(one["date"] and one["by"] and len(one["id"]) == 12 for one in lines)
    assert run("memory", "show", lines[0]["id"]).out
    run("config", "hook.budget", "0")
    assert hook("session-start", session_id="s") == ""


def test_learnings_facts_and_contacts_wait_for_their_prompt(hook: Hook, run: Run) -> None:
    run("remember", "Names are in snake case", "--category", "conventions")
    run("remember", "The sandbox test is flaky on Mondays", "--category", "learnings")
    run("remember", "Omar rotates the signing keys", "--category", "contacts")
    assert contents(hook("session-start", session_id="s")) == ["Names are in snake case"]
    assert contents(hook("prompt", session_id="s", prompt="the sandbox test is flaky?")) == [
        "The sandbox test is flaky on Mondays"
    ]


def test_a_session_is_told_once_by_any_door_and_anew_after_a_compaction(
    hook: Hook, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "The sandbox sleeps between 22:00 and 06:00", "--category", "conventions")
    run("remember", "The sandbox costs 3 francs an hour", "--on-conflict", "add")
    asked = "what about the sandbox?"
    assert len(contents(hook("session-start", session_id="s"))) == 1
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")  # the agent types a command
    run("recall", "francs")
    assert hook("prompt", session_id="s", prompt=asked) == ""
    assert len(contents(hook("prompt", session_id="other", prompt=asked))) == 2
    assert hook("session-start", session_id="s", source="resume") == ""
    assert len(contents(hook("session-start", session_id="s", source="compact"))) == 1
    assert contents(hook("prompt", session_id="s", prompt=asked)) == ["The sandbox costs 3 francs an hour"]


def test_what_a_hook_tells_and_what_it_keeps_back_is_on_record(hook: Hook, run: Run) -> None:
    told = run("remember", "The sandbox sleeps between 22:00 and 06:00", "-q").out.strip()
    near = run("remember", "Bo named the sandbox after a whale", "-q", "--on-conflict", "add").out.strip()
    prompt = "when does the sandbox sleep, and why does this fail: curl -u ada:hunter2hunter2 https://host.example/"
    hook("prompt", session_id="s", prompt=prompt)
    (record,) = run("recalls", "--session", "s", "--json").json["recalls"]
    gates = {one["memory_id"]: one["gate"] for one in record["candidates"]}
    assert (record["surface"], gates[told], gates[near]) == ("prompt", "told", "floor")
    assert "hunter2hunter2" not in record["question"] and "sandbox sleep" in record["question"]
    assert "prompt" in run("why", told, "--session", "s").out
    hook("prompt", session_id="s", prompt="when does the sandbox sleep?")
    said = run("why-not", near, "when does the sandbox sleep?", "--session", "s").out
    assert "floor:" in said and "prompt was not about it" in said
    assert "told already" in run("why-not", told, "when does the sandbox sleep?", "--session", "s").out


def test_a_sub_agent_is_told_the_rules_and_its_session_is_told_them_too(hook: Hook, run: Run) -> None:
    run("remember", "Names are in snake case", "--category", "conventions")
    assert contents(hook("subagent-start", session_id="s", agent_id="a1")) == ["Names are in snake case"]
    assert contents(hook("subagent-start", session_id="s", agent_id="a2")) == ["Names are in snake case"]
    assert contents(hook("session-start", session_id="s")) == ["Names are in snake case"]


def test_a_session_that_starts_forgets_what_is_over_if_the_setting_says_so(
    hook: Hook, repo: Path, run: Run, set_clock: SetClock
) -> None:
    store(repo, Draft("The demo is on stage two", expires_at="in 1 day"), Draft("Tea is at four"))
    set_clock(2 * 86_400)
    hook("session-start", session_id="s1")
    assert "expired" not in run("memory", "log").out
    run("config", "memory.cleanup", "expired")
    hook("session-start", session_id="s2")
    assert "forget 1 memory that expired" in run("memory", "log", "-n", "1").out
