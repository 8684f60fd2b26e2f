"""Letta's agent files, old and new, and its exported passages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlake.errors import InvalidInput
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import iso

from .test_given import zipped

PASSAGE_ID = "0b8a1c52-55a1-4bb0-8e29-6f9a1d2c3b4a"
PASSAGE = {
    "created_by_id": "user-1", "created_at": "2025-11-05 23:04:24.901468+00:00", "updated_at": "2025-11-05T23:05:00Z",
    "is_deleted": False, "archive_id": "archive-1", "source_id": None, "metadata": {"lang": "en"}, "tags": ["bug"],
    "id": f"passage-{PASSAGE_ID}", "text": "Deploys fail on Fridays", "organization_id": "org-1",
}  # fmt: skip


def agent(name: str, *blocks: str) -> dict[str, Any]:
    return {"name": name, "memory_blocks": [], "tools": [], "block_ids": list(blocks), "system": "x" * 90_000,
            "llm_config": {"model": "m"}, "messages": [{"role": "system", "content": "not a memory"}]}  # fmt: skip


def block(key: str, label: str, value: str) -> dict[str, Any]:
    return {"id": key, "label": label, "value": value, "limit": 20000, "description": f"The {label} block",
            "read_only": False, "metadata": {}}  # fmt: skip


AGENT_FILE = {
    "agents": [agent("Sam", "block-0", "block-1", "block-2"), agent("Kim", "block-1")], "groups": [],
    "blocks": [block("block-0", "human", "\nName: Ada\n"), block("block-1", "shared", "The rules"),
               block("block-2", "empty", " ")],
    "files": [], "sources": [], "tools": [], "mcp_servers": [], "metadata": {"revision_id": "r"},
    "created_at": "2025-11-21T03:05:34Z",
}  # fmt: skip


@pytest.mark.parametrize("wrap", [json.dumps, lambda found: json.dumps(found, indent=2),
                                  lambda found: json.dumps(json.dumps(found, indent=2))])  # fmt: skip
def test_the_blocks_of_an_agent_file_are_memories_of_the_agent_that_has_them(tmp_path: Path, wrap: Any) -> None:
    source = tmp_path / "sam.af"
    source.write_text(wrap(AGENT_FILE))
    reading = read_memories(source)
    found = [item.memory for item in reading]
    assert reading.format == "letta"
    assert [(one.content, one.agent_id, one.category) for one in found] == [
        ("Name: Ada", "Sam", "human"), ("The rules", "", "shared"),
    ]  # fmt: skip
    assert iso(found[0].updated_at) == "2025-11-21T03:05:34Z" and found[0].memory_type == "context"


def test_the_first_form_of_agent_files_is_read_too(tmp_path: Path) -> None:
    source = tmp_path / "old.af"
    core = [{"label": "human", "value": "Name: Ada", "limit": 5000, "created_at": "2025-04-01T00:00:00Z"}]
    source.write_text(json.dumps({"agent_type": "memgpt_agent", "core_memory": core, "name": "Sam", "messages": []}))
    (item,) = read_memories(source)
    assert (item.memory.content, item.memory.agent_id, iso(item.memory.created_at)) == (
        "Name: Ada", "Sam", "2025-04-01T00:00:00Z",
    )  # fmt: skip


@pytest.mark.parametrize("shape", ["file", "zip"])
def test_passages_keep_their_ids_times_and_tags_and_deleted_ones_are_left_out(tmp_path: Path, shape: str) -> None:
    text = json.dumps([PASSAGE, {**PASSAGE, "id": "passage-x", "is_deleted": True}])
    source = tmp_path / "memory.json"
    source.write_text(text)
    reading = read_memories(source if shape == "file" else zipped(tmp_path / "m.zip", {"memory.json": text}))
    (one,) = (item.memory for item in reading)
    assert reading.format == "letta" and one.memory_id == PASSAGE_ID and one.tags == ("bug",)
    assert one.metadata == {"lang": "en", "archive_id": "archive-1"}
    assert iso(one.created_at) == "2025-11-05T23:04:24.901468Z"


def test_what_is_wrong_in_an_agent_file_is_said_with_its_place(tmp_path: Path) -> None:
    source = tmp_path / "a.af"
    source.write_text(json.dumps({**AGENT_FILE, "blocks": [{"label": "human"}]}))
    with pytest.raises(InvalidInput, match=r'a\.af, block 1: a block has a "label" and a "value"'):
        list(read_memories(source))
    source.write_text(json.dumps("{not json"))
    with pytest.raises(InvalidInput, match=r"a\.af: the document inside it is not JSON"):
        list(read_memories(source, format="letta"))
