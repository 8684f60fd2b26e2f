"""Repos and files for the tests that take memories out of one repo and bring them into another."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import memlake as ml
from memlake.integrations.read_memories import read_memories
from memlake.memories.memories import Memories
from memlake.memories.transfer import list_items, write_items

ONE = "7d3f0e4c-93a5-4c93-9f7a-2f1f0c4d5e6f"
TWO = "0b8a1c52-55a1-4bb0-8e29-6f9a1d2c3b4a"


def opened(folder: Path) -> ml.Repo:
    """A repo that sees the memories of every organisation."""
    with ml.init(folder) as made:
        made.config.set("memory.org", "*")
    return ml.open(folder)


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def contents(source: Any, **options: Any) -> list[str]:
    return [item.memory.content for item in read_memories(source, **options)]


def export(memories: Memories) -> str:
    stream = io.StringIO()
    write_items(list_items(memories), stream)
    return stream.getvalue()
