"""Real clients meet the server: the MCP Inspector's command line, and a coding agent's own health check."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memlake as ml

CLIENTS = Path(__file__).resolve().parents[2] / "build" / "clients" / "node_modules" / ".bin"
MEMLAKE = [sys.executable, "-m", "memlake.cli"]


def client(name: str) -> str:
    found = shutil.which(name, path=f"{CLIENTS}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{name} is not installed; npm install --prefix build/clients brings it")
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repo, and a home of its own: clients keep their settings there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    with ml.init(tmp_path / "repo") as repo:
        repo.config.set("embedding.provider", "none")
    return tmp_path / "repo"


def inspect(folder: Path, *args: str) -> Any:
    told = subprocess.run(
        [client("mcp-inspector"), "--cli", *MEMLAKE, "mcp", *args],
        cwd=folder, capture_output=True, text=True, timeout=280, check=True,
    )  # fmt: skip
    return json.loads(told.stdout)


def test_the_inspector_lists_and_calls_the_tools(folder: Path) -> None:
    tools = inspect(folder, "--method", "tools/list")["tools"]
    assert {"store_memory", "memory_add"} <= {tool["name"] for tool in tools}
    call = ("--method", "tools/call", "--tool-name")
    added = inspect(folder, *call, "memory_add", "--tool-arg", "content=User prefers tabs over spaces")
    assert json.loads(added["content"][0]["text"])["decision"] == "add"
    found = inspect(folder, *call, "memory_search", "--tool-arg", "search=tabs or spaces")
    assert [hit["content"] for hit in json.loads(found["content"][0]["text"])["results"]] == [
        "User prefers tabs over spaces"
    ]
    wrong = inspect(folder, *call, "memory_delete", "--tool-arg", "id=x")
    assert wrong["isError"] is True


def test_a_coding_agent_connects_once_it_is_installed(folder: Path) -> None:
    agent = client("claude")
    subprocess.run([*MEMLAKE, "mcp", "install", "--client", "claude", "--scope", "user"], cwd=folder, check=True)
    told = subprocess.run([agent, "mcp", "list"], cwd=folder, capture_output=True, text=True, timeout=280, check=True)
    line = next(line for line in told.stdout.splitlines() if line.startswith("memlake:"))
    assert "Connected" in line
