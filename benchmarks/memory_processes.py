"""Whole processes of agent memory: an MCP server that is spoken to over a pipe, and one recall from a cold start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SERVER = "from memlake.mcp.workspace import Desk, Who; from memlake.mcp.server import run; run(Desk(), Who(''))"
RECALL = """
from memlake import Agent
for hit in Agent('.').search_memory('what did Barine say of bago bamu and dami?', agent_id='*'): print(hit['content'])
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def commands(env: Mapping[str, str]) -> str:
    """What `memlake --help` lists."""
    argv = [sys.executable, "-m", "memlake.cli", "--help"]
    return subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False).stdout


def has(command: str, env: Mapping[str, str]) -> bool:
    return any(text.split()[:1] == [command] for text in commands(env).splitlines())


def recall(env: Mapping[str, str]) -> tuple[list[str], str]:
    """The command line of one recall, and what it is."""
    if has("recall", env):
        question = RECALL.split("'")[3]
        return [sys.executable, "-m", "memlake.cli", "recall", question], "`memlake recall`"
    return [sys.executable, "-c", RECALL], "a script of three lines (Agent, search_memory)"


def initialize(repo: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Start a server in a repo, wait for its first answer, look at it, and let it go."""
    argv = ["-m", "memlake.cli", "mcp"] if has("mcp", env) else ["-c", SERVER]
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, *argv], cwd=repo, env=dict(env), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    child.stdin.flush()
    answer = json.loads(child.stdout.readline() or b"{}")
    wall, cpu = time.perf_counter() - started, _spent(child.pid)
    maps = Path(f"/proc/{child.pid}/maps").read_text()
    child.stdin.close()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert answer["result"]["serverInfo"]["name"] == "memlake", answer
    whole = usage.ru_utime + usage.ru_stime
    return {"cpu": cpu, "wall": wall, "whole": whole, "model": "onnxruntime" in maps, "rss": usage.ru_maxrss * 1024}


def _spent(pid: int) -> float:
    """CPU seconds of all threads of a living process, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
