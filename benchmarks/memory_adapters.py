"""memlake as a memory system that scorers of conversations know: add, search, close.

    python SCORER/locomo_retrieval.py memory_adapters:NoModel --data FILE      # from this folder

All through `memlake.Agent`, with its defaults: a turn is a memory with its session and its time, a question a search.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_fixtures import opened

AGENT = "conversation"


class NoModel:
    """Text search alone."""

    provider = "none"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="memlake-bench-"))
        self._agent = opened(self._folder, self.provider)
        self._agent.agent_id = AGENT
        self._ids: dict[str, str] = {}

    def add(self, texts: Sequence[str], metas: Sequence[Mapping[str, Any]]) -> None:
        for text, meta in zip(texts, metas, strict=True):
            done = self._agent.remember(
                text, on_conflict="add", session_id=str(meta["session"]), created_at=meta["date"] or None
            )
            self._ids[done.memory_id] = meta["id"]
        if not self._agent.wait(1800):
            raise TimeoutError("the memories did not get their vectors in half an hour")

    def search(self, query: str, k: int) -> list[str]:
        return [self._ids[hit["memory_id"]] for hit in self._agent.search_memory(query, top_k=k)]

    def close(self) -> None:
        self._agent.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class LocalModel(NoModel):
    """With the default embedder."""

    provider = "local"
