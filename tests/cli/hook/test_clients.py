"""What each coding agent gives a hook is read into one form, however broken it is, and answered in its own."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from memlake.cli.hook import clients, events
from memlake.programs import HOOKED
from tests.cli.conftest import Ran, Run

PROMPT = "where does our staging cluster run?"
GIVEN = {  # as the clients were seen to give it: of a prompt, and of the end of a turn
    "claude": (
        {"session_id": "s1", "transcript_path": "/t", "prompt_id": "p", "permission_mode": "default",
         "hook_event_name": "UserPromptSubmit", "prompt": PROMPT},
        {"session_id": "s1", "hook_event_name": "Stop", "stop_hook_active": False, "background_tasks": [],
         "last_assistant_message": "In Bern.", "effort": {"level": "high"}},
    ),
    "codex": (
        {"session_id": "s1", "turn_id": "t", "transcript_path": None, "hook_event_name": "UserPromptSubmit",
         "model": "stub", "permission_mode": "bypassPermissions", "prompt": PROMPT},
        {"session_id": "s1", "turn_id": "t", "transcript_path": "/t", "hook_event_name": "Stop", "model": "stub",
         "stop_hook_active": False, "last_assistant_message": "In Bern."},
    ),
    "gemini": (
        {"session_id": "s1", "transcript_path": "/t", "hook_event_name": "BeforeAgent",
         "timestamp": "2026-11-19T05:44:32.816Z",
         "prompt": f"<hook_context>Names are in\nsnake case</hook_context>\n\n{PROMPT}"},
        {"session_id": "s1", "hook_event_name": "AfterAgent", "prompt": PROMPT, "prompt_response": "In Bern.",
         "stop_hook_active": False},
    ),
    "copilot": (
        {"sessionId": "s1", "timestamp": 1795067202049, "prompt": PROMPT},
        {"sessionId": "s1", "timestamp": 1795067202306, "transcriptPath": "", "stopReason": "end_turn",
         "stop_hook_active": False},
    ),
    "opencode": (
        {"session_id": "s1", "prompt": PROMPT},
        {"session_id": "s1", "last_assistant_message": "In Bern."},
    ),
}  # fmt: skip
TRANSCRIPTS = {
    "claude": {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "In Bern."}]},
    },
    "codex": {
        "type": "response_item",
        "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "In Bern."}]},
    },
    "gemini": {"id": "1", "type": "gemini", "content": "In Bern.", "thoughts": [], "model": "m"},
    "copilot": {"type": "assistant.message", "data": {"messageId": "1", "content": "In Bern.", "toolRequests": []}},
}


@pytest.fixture
def give(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`give("prompt", "claude", b"{...}")` in this process, where the input is whatever it is."""
    monkeypatch.setenv("MEMLAKE_HOOK_SECONDS", "100")

    def gave(event: str, client: str, data: bytes, folder: Path | None = None) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        if folder:
            os.chdir(folder)
        return run("hook", event, "--client", client)

    return gave


@pytest.fixture
def repo(run: Run, tmp_path: Path) -> Path:
    run("init")
    run("config", "embedding.provider", "none")
    run("remember", "The staging cluster runs in Bern")
    return tmp_path


@pytest.mark.parametrize("name", HOOKED)
def test_what_a_client_gives_is_read_into_one_form(name: str, tmp_path: Path) -> None:
    program = clients.find_program(name)
    prompt, stop = (dict(one) for one in GIVEN[name])
    if name == "copilot":
        (tmp_path / "t.jsonl").write_text(json.dumps(TRANSCRIPTS[name]))
        stop["transcriptPath"] = str(tmp_path / "t.jsonl")
    read, wrong = clients.read_given(json.dumps(prompt).encode(), program)
    assert (read["session_id"], read["prompt"], wrong) == ("s1", PROMPT, [])
    read, wrong = clients.read_given(json.dumps(stop).encode(), program)
    said = read.get("last_assistant_message") or clients.last_message(read["transcript_path"])
    assert (read["session_id"], said, read.get("stop_hook_active", False), wrong) == ("s1", "In Bern.", False, [])


def test_each_client_gets_an_answer_that_it_understands(give: Any, repo: Path) -> None:
    for name, hooks in HOOKED.items():
        told = give("prompt", name, json.dumps(GIVEN[name][0] | {"session_id": name}).encode()).json
        if name in ("claude", "codex", "gemini"):
            told = told["hookSpecificOutput"]
            assert told.pop("hookEventName") == hooks.events["prompt"]
        assert list(told) == ["additionalContext"] and "runs in Bern" in told["additionalContext"]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_transcript_of_each_client_is_read_from_its_end(name: str, tmp_path: Path) -> None:
    first = json.dumps(TRANSCRIPTS[name]).replace("In Bern.", "Earlier.")
    noise = ["{broken", "[1]", "3", '{"message": 3, "type": []}', "[" * 100_000, '{"type": "user", "content": "no"}']
    (tmp_path / "t.jsonl").write_text("\n".join([first, json.dumps(TRANSCRIPTS[name]), *noise]))
    assert clients.last_message(str(tmp_path / "t.jsonl")) == "In Bern."
    assert list(clients.list_backwards(str(tmp_path / "t.jsonl"))) == [
        ("user", "no"), ("assistant", "In Bern."), ("assistant", "Earlier."),
    ]  # fmt: skip


def test_hooks_of_claude_code_that_copilot_runs_are_left_to_its_own(
    give: Any, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps({"session_id": "s1", "timestamp": "2026-11-19T05:46:42Z", "prompt": PROMPT}).encode()
    assert "Bern" in give("prompt", "claude", data).out
    monkeypatch.setenv("COPILOT_CLI", "1")
    assert give("prompt", "claude", data).out == ""
    assert "Bern" in give("prompt", "claude", json.dumps(GIVEN["claude"][0] | {"session_id": "s2"}).encode()).out


# -- what is broken


LOGGED = {
    "not JSON": b'{"prompt": ',
    "no object": b"[1]",
    "not text": b"\xff\xfe{",
    "too deep": b"[" * 200_000,
    "too long": b'{"prompt": "' + b"x" * clients.LIMIT + b'"}',
    "of wrong types": b'{"session_id": [], "cwd": 4, "prompt": {}, "stop_hook_active": "no", "transcript_path": 1}',
}


@pytest.mark.parametrize("data", LOGGED.values(), ids=LOGGED)
def test_broken_input_is_a_line_of_the_log_and_nothing_else(data: bytes, give: Any, repo: Path) -> None:
    calls = [(name, event) for name in (*HOOKED, "no-such") for event in events.EVENTS]
    for name, event in calls:
        done = give(event, name, data)
        assert (done.out, done.err) == ("", ""), name
    lines = (repo / ".memlake/hooks.log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == [f"{event}:" for _, event in calls]


def test_missing_fields_and_odd_ones_are_no_trouble(give: Any, repo: Path) -> None:
    for data in (b"", b"{}", b'{"session_id": null, "prompt": null, "cwd": "/no/such/folder", "new": {"x": [1]}}'):
        for name in HOOKED:
            for event in events.EVENTS:
                done = give(event, name, data)
                assert done.err == "" and "Bern" not in done.out, (name, event)
    assert not (repo / ".memlake/hooks.log").exists()


def test_an_event_that_is_not_known_is_logged_for_an_agent_and_refused_to_a_person(
    give: Any, run: Run, repo: Path
) -> None:
    for name in HOOKED:
        done = give("post-tool-use", name, b"{}")
        assert (done.out, done.err) == ("", "")
    assert (repo / ".memlake/hooks.log").read_text().count(" post-tool-use: this event is not known") == len(HOOKED)
    assert "Did you mean" in run("hook", "instal", code=2).err


def test_a_folder_that_is_gone_is_logged_in_the_personal_repo(
    give: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    run("remember", "Ada plays the cello", "--personal")
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"prompt": PROMPT}).encode())))
    events.run("prompt", "claude")
    assert " prompt: " in (tmp_path / "data/memlake/.memlake/hooks.log").read_text()
