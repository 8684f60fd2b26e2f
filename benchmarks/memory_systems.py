"""Other memory systems beside ours: what they took where the targets were set, and how they are installed and run."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import memory_fixtures
from peers import HERE, installed

COUNT, QUESTIONS = 5_000, 200
SECONDS = 300

# Medians at 5k memories with vectors given, one add per call; "Chroma" and "mcp-memory-service" stopped before 5k.
PEERS: Mapping[str, Mapping[str, float]] = {
    "mem0": {"add_p50_ms": 4.4, "search_p50_ms": 88},
    "LangGraph": {"search_p50_ms": 122},
    "Chroma": {"add_p50_ms": 18.8, "search_p50_ms": 17},
    "mcp-memory-service": {"add_p50_ms": 32.9, "search_p50_ms": 9.3},
    "HatiData": {"add_p50_ms": 2.8, "search_p50_ms": 14.3},
}
PACKAGES = {
    "mem0": "mem0ai",
    "Chroma": "chromadb",
    "mcp-memory-service": "mcp-memory-service",
    "HatiData": "hatidata-agent[mcp]",
}


@functools.cache
def _texts(work: Path) -> Path:
    """The same texts and questions for all, as a file: their environments do not know memlake."""
    file = work / "texts.json"
    asked = memory_fixtures.questions(QUESTIONS)
    file.write_text(json.dumps({"texts": list(memory_fixtures.texts(COUNT)), "questions": asked}))
    return file


_done: dict[str, dict[str, Any]] = {}


def measured(folder: Path, work: Path, only: Sequence[str], troubles: list[str]) -> dict[str, dict[str, Any]]:
    """Each peer that runs here, in a process of its own; those that do not are noted. Measured once."""
    if not _done:
        for name in only:
            package = PACKAGES[name]
            answer = (
                _run(name, folder / package.partition("[")[0], work)
                if installed(folder, package)
                else "its install failed"
            )
            if isinstance(answer, str):
                troubles.append(f"{name}: {answer}")
            else:
                _done[name] = answer
    return _done


def _run(name: str, home: Path, work: Path) -> dict[str, Any] | str:
    """What a peer took, or why it did not run."""
    place = work / name
    place.mkdir()
    argv = [str(home / "bin/python"), str(HERE / "memory_driver.py"), name, str(_texts(work)), str(place)]
    told = {"ANONYMIZED_TELEMETRY": "False", "MEM0_TELEMETRY": "False", "HF_HUB_OFFLINE": "1", "HOME": str(place)}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | told
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    if done.returncode:
        return done.stderr.strip()[-200:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
