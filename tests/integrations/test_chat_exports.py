"""Exports of ChatGPT and Claude: the zip, the folder, one file; what the person said and what was remembered."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import Query, iso
from memlake.memories.transfer import Report, load_items

from .test_given import zipped


def node(key: str, parent: str | None, message: dict[str, Any] | None, *children: str) -> dict[str, Any]:
    return {key: {"id": key, "parent": parent, "children": list(children), "message": message}}


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    shape = content if isinstance(content, dict) else {"content_type": "text", "parts": [content]}
    said = {"author": {"role": role, "name": None, "metadata": {}}, "content": shape, "create_time": 1735732800.25}
    return {"recipient": "all", "weight": 1.0, "metadata": {}, "status": "finished_successfully", **said, **more}


ASKED = "Which of my two sourdough starters should I keep in the fridge?"
TOLD = "1. [2024-11-02]. The user bakes on Saturdays.\n\n2. [2024-12-24]. Is allergic to hazelnuts.\nAlmonds are fine."
CONVERSATION = {
    "title": "Sourdough", "create_time": 1735732800.0, "update_time": 1735740000.0, "current_node": "e",
    "conversation_id": "67a1", "is_archived": False, "mapping": {
        **node("root", None, None, "s"),
        **node("s", "root", message("user", {"content_type": "user_editable_context", "user_profile": "I run a bakery.",
                                             "user_instructions": "Answer in grams."}), "m"),
        **node("m", "s", message("system", {"content_type": "model_editable_context", "model_set_context": TOLD}),
               "old", "a"),
        **node("old", "m", message("user", "This is the message before it was edited, on another branch")),
        **node("a", "m", message("user", {"content_type": "multimodal_text", "parts": [{"asset_pointer": "x"}, ASKED]},
                                 id="0b8a1c52-55a1-4bb0-8e29-6f9a1d2c3b4a"), "b"),
        **node("b", "a", message("assistant", "User keeps two sourdough starters.", recipient="bio"), "c"),
        **node("c", "b", message("tool", "Model set context updated."), "d"),
        **node("d", "c", message("assistant", "Keep the younger one in the fridge."), "e"),
        **node("e", "d", message("user", "Ok, thanks!")),
    },
}  # fmt: skip


def gpt(**more: Any) -> list[dict[str, Any]]:
    again = {**CONVERSATION, "conversation_id": "67a2", "title": "Again", **more}
    return [CONVERSATION, again]


WANTED = {
    "I run a bakery.", "Answer in grams.", "The user bakes on Saturdays.",
    "Is allergic to hazelnuts.\nAlmonds are fine.", ASKED, "User keeps two sourdough starters.",
}  # fmt: skip


@pytest.mark.parametrize("shape", ["file", "zip", "parts", "folder"])
def test_an_export_of_chatgpt_is_read_in_every_shape_it_comes_in(tmp_path: Path, shape: str) -> None:
    text = json.dumps([CONVERSATION])
    extra = {"chat.html": "<html>", "user.json": "{}", "file-x.png": b"\x89PNG"}
    if shape == "file":
        source = tmp_path / "conversations.json"
        source.write_text(text)
    elif shape == "folder":
        source = tmp_path / "export"
        source.mkdir()
        (source / "conversations.json").write_text(text)
        (source / "chat.html").write_text("<html>")
    else:
        name = "conversations.json" if shape == "zip" else "conversations-000.json"
        source = zipped(tmp_path / "export.zip", {**extra, name: text})
    reading = read_memories(source)
    assert reading.format == "chatgpt"
    assert {item.memory.content for item in reading} == WANTED


def test_what_the_person_said_is_an_episode_of_its_conversation_and_what_was_remembered_a_fact(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps([CONVERSATION]))
    by = {item.memory.content: item.memory for item in read_memories(tmp_path / "c.json")}
    asked = by[ASKED]
    assert (asked.memory_type, asked.session_id, asked.metadata) == ("episode", "67a1", {"title": "Sourdough"})
    assert asked.memory_id == "0b8a1c52-55a1-4bb0-8e29-6f9a1d2c3b4a" and asked.source == "import:chatgpt"
    assert iso(asked.created_at) == "2025-01-01T12:00:00.250000Z" and asked.client == "chatgpt"
    assert by["Answer in grams."].category == "preferences"
    assert iso(by["The user bakes on Saturdays."].created_at) == "2024-11-02T00:00:00Z"
    assert by["User keeps two sourdough starters."].memory_type == "fact"


def test_what_every_conversation_repeats_is_one_memory_also_in_the_next_export(repo: ml.Repo, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(gpt()))
    assert load_items(repo.memories(), read_memories(tmp_path / "c.json")).stored == len(WANTED)
    (tmp_path / "c.json").write_text(json.dumps(gpt()[::-1]))
    assert load_items(repo.memories(), read_memories(tmp_path / "c.json"))[:2] == (0, len(WANTED) + 1)


def test_a_conversation_that_goes_in_circles_ends(tmp_path: Path) -> None:
    loop = {**CONVERSATION, "mapping": {"e": {"parent": "f", "message": message("user", ASKED)}, "f": {"parent": "e"}}}
    (tmp_path / "c.json").write_text(json.dumps([loop, {"title": "none"}]))
    reading = read_memories(tmp_path / "c.json", format="chatgpt", skip_bad=True)
    assert [item.memory.content for item in reading] == [ASKED]
    assert reading.problems == [f'{tmp_path}/c.json, conversation 2: a conversation has a "mapping" of messages.']


# -- Claude -----------------------------------------------------------------------------------

CHATS = [
    {"uuid": "c-1", "name": "Boat trip", "summary": "", "created_at": "2026-01-02T03:04:05.000000Z",
     "updated_at": "2026-01-02T03:09:05.000000Z", "account": {"uuid": "acc"}, "chat_messages": [
        {"uuid": "7d3f0e4c-93a5-4c93-9f7a-2f1f0c4d5e6f", "sender": "human", "created_at": "2026-01-02T03:04:06Z",
         "text": "Our boat has a draft of 1.4 metres, where can we anchor?", "content": [], "attachments": []},
        {"uuid": "m-2", "sender": "assistant", "text": "In the northern bay.", "created_at": "2026-01-02T03:04:09Z"},
        {"uuid": "m-3", "sender": "human", "text": "", "created_at": "2026-01-02T03:05:06Z",
         "content": [{"type": "text", "text": "And is there a fuel dock on the island nearby?"}]}]},
]  # fmt: skip
PROJECT = {
    "uuid": "0198aaaa-0000-7000-8000-000000000001", "name": "Harbour app", "description": "Berth booking",
    "prompt_template": "Write Kotlin.", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-05T00:00:00Z",
    "docs": [{"uuid": "d", "filename": "big.md", "content": "not a memory"}],
}  # fmt: skip
ACCOUNT = {
    "conversations_memory": "**Work context**\nSails a ketch.\nWorks in Kiel.\n\n**Personal context**\n\nHas two dogs.",
    "project_memories": {PROJECT["uuid"]: "Uses Postgres 16."}, "account_uuid": "acc",
    "memory_files": [{"path": "/boats.md", "content": "- Draft: 1.4 m", "updated_at": "2026-01-02T00:00:00Z"}],
}  # fmt: skip
REMEMBERED = {
    "Work context: Sails a ketch.\nWorks in Kiel.", "Personal context: Has two dogs.",
    "Harbour app: Uses Postgres 16.", "- Draft: 1.4 m", "Harbour app: Berth booking\n\nWrite Kotlin.",
}  # fmt: skip
SAID = {CHATS[0]["chat_messages"][0]["text"], "And is there a fuel dock on the island nearby?"}  # type: ignore[index]


@pytest.mark.parametrize("shape", ["old", "new", "chats", "memories"])
def test_an_export_of_claude_is_read_in_every_shape_it_comes_in(tmp_path: Path, shape: str) -> None:
    old = {"conversations.json": CHATS, "projects.json": [PROJECT], "memories.json": [ACCOUNT], "users.json": []}
    new = {"conversations.json": CHATS, f"projects/{PROJECT['uuid']}.json": PROJECT, "memories/acc.json": ACCOUNT}
    wanted = REMEMBERED | SAID
    if shape in ("old", "new"):
        files = {name: json.dumps(what) for name, what in (old if shape == "old" else new).items()}
        source = zipped(tmp_path / "data.zip", files)
    else:
        source = tmp_path / "one.json"
        source.write_text(json.dumps(CHATS if shape == "chats" else ACCOUNT))
        wanted = SAID if shape == "chats" else {text.removeprefix("Harbour app: ") for text in REMEMBERED}
        wanted -= {"Berth booking\n\nWrite Kotlin."}
    reading = read_memories(source)
    assert reading.format == "claude"
    assert {item.memory.content for item in reading} == wanted


def test_what_claude_remembers_is_updated_by_the_next_export_and_not_kept_twice(repo: ml.Repo, tmp_path: Path) -> None:
    source = tmp_path / "memories.json"
    for hour, text in enumerate(("Sails a ketch.", "Sails a sloop.", "Sails a yawl.")):
        changed = {**ACCOUNT, "conversations_memory": f"**Work context**\n{text}", "memory_files": []}
        source.write_text(json.dumps([changed]))
        os.utime(source, (1_800_000_000 + 3600 * hour,) * 2)
        report = load_items(repo.memories(), read_memories(source))
        assert report == (Report(known=1, updated=1) if hour else Report(stored=2))
    assert {memory.content for memory in repo.memories().list_memories(Query(""))} == {
        "Work context: Sails a yawl.", "Uses Postgres 16.",
    }  # fmt: skip
