"""A server and the hooks of one client: what one told, the other does not tell unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import Implementation

import memlake as ml
from memlake.memories.memories import Draft
from tests.mcp.test_server import call, server

ASKED = "which francs does the sandbox cost, and when does it sleep?"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLAKE_HOOK_SECONDS", "100")
    with ml.init(tmp_path / "repo") as repo:
        repo.config.set("embedding.provider", "none")
        repo.memories().store(Draft("The sandbox costs 3 francs an hour"))
        repo.memories().store(Draft("The sandbox sleeps between 22:00 and 06:00"))
    return tmp_path / "repo"


def hook(folder: Path, event: str, client: str, **given: Any) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "memlake.cli", "hook", event, "--client", client]
    data = json.dumps({"cwd": str(folder), **given}).encode()
    printed = subprocess.run(command, input=data, capture_output=True, check=True, cwd=folder).stdout
    text = json.loads(printed)["hookSpecificOutput"]["additionalContext"] if printed else ""
    return [json.loads(line) for line in text.splitlines()[1:]]


async def search(folder: Path, client: str) -> list[dict[str, Any]]:
    info = Implementation(name=f"{client}-mcp-client", version="1")
    async with Client(server(folder), client_info=info) as one:
        return (await call(one, "search_memory", query="francs", top_k=1))["results"]  # type: ignore[no-any-return]


@pytest.mark.anyio
async def test_what_a_server_told_is_not_told_again_by_a_hook_of_that_client(folder: Path) -> None:
    hook(folder, "session-start", "codex", session_id="one")
    hook(folder, "session-start", "claude", session_id="another")
    (found,) = await search(folder, "codex")
    assert "francs" in found["content"]
    told = hook(folder, "prompt", "codex", session_id="one", prompt=ASKED)
    assert [one["content"] for one in told] == ["The sandbox sleeps between 22:00 and 06:00"]
    assert len(hook(folder, "prompt", "claude", session_id="another", prompt=ASKED)) == 2
    assert len(hook(folder, "prompt", "codex", session_id="two", prompt=ASKED)) == 2
    with ml.open(folder) as repo:
        surfaces = [recall.surface for recall in repo.memories().shared.recalls.scan(session="one")]
    assert surfaces == ["prompt", "mcp", "session-start"]


@pytest.mark.anyio
async def test_a_tool_takes_the_end_of_an_id_as_a_hook_shows_it(folder: Path) -> None:
    (shown, _) = hook(folder, "prompt", "codex", session_id="one", prompt=ASKED)
    async with Client(server(folder)) as one:
        changed = await call(one, "memory_update", id=shown["id"], content="The sandbox costs 4 francs an hour")
    assert changed["id"].endswith(shown["id"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
