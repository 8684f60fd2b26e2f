"""What the reliability tests of memories stand on: repos with memories, embedders that misbehave, what must hold."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.memories.embedders import check_embedder
from memlake.memories.embedders.providers import Hashed
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Hits, Query
from memlake.repo import Repo

EVERY = 1_000_000
WORDS = [f"{a}{b}" for a in ("amber", "birch", "cedar", "delta", "ember") for b in ("fox", "gull", "hare", "ibis")]


def made(root: Path, provider: str = "none") -> Path:
    """A repo whose memories are embedded by a provider."""
    with ml.init(root) as repo:
        repo.config.set("embedding.provider", provider)
        repo.config.set("embedding.flush_seconds", "0")
    return root


def text_of(number: int) -> str:
    """A memory of its own words: its number as a word, and two that others share."""
    return f"note{number} {WORDS[number % 20]} {WORDS[number * 7 % 20]}"


def store_numbered(memories: Memories, numbers: Iterable[int]) -> dict[str, str]:
    """Memories by id, all in one commit."""
    return {m.memory_id: m.content for m in memories.store_many([Draft(text_of(n)) for n in numbers])}


def everything(memories: Memories) -> dict[str, str]:
    """Every memory of a branch as the index lists it."""
    return {m.memory_id: m.content for m in memories.list_memories(Query(limit=EVERY))}


def in_history(repo: Repo, branch: str = "main") -> set[str]:
    """The ids of every memory of a branch as the history has it."""
    return {path.rsplit("/", 1)[1] for path, _ in repo.ls(branch, prefix="memories/")}


def words(memories: Memories, text: str, **how: Any) -> Hits:
    return memories.search(Query(text, mode="keyword", limit=how.pop("limit", 100), **how))


def found_by_own_word(memories: Memories, expected: dict[str, str]) -> None:
    """Each memory is the one that its own word finds."""
    for memory_id, content in expected.items():
        found = [hit["memory_id"] for hit in words(memories, content.split()[0]) if hit["content"] == content]
        assert found == [memory_id], f"{content!r}: {found}"


def answers(memories: Memories, queries: Sequence[str]) -> list[list[tuple[str, str]]]:
    """What queries find, without what a rebuilt index may order otherwise: rows of equal score."""
    return [sorted((hit["memory_id"], hit["content"]) for hit in words(memories, text)) for text in queries]


def assert_equals_a_rebuilt_index(root: Path, queries: Sequence[str]) -> None:
    """Delete the index: the one made again says the same."""
    with ml.open(root) as repo:
        before, listed = answers(repo.memories(), queries), everything(repo.memories())
    shutil.rmtree(root / ".memlake" / "index")
    with ml.open(root) as repo:
        assert everything(repo.memories()) == listed
        assert answers(repo.memories(), queries) == before


def index_folder(root: Path) -> Path:
    """The generation in use."""
    index = root / ".memlake" / "index"
    return index / (index / "CURRENT").read_text().strip()


# -- embedders ------------------------------------------------------------------------------------------


class Faulty(Hashed):
    """An embedder that does what `fault` does with its answer, until that is taken away."""

    def __init__(self, fault: Callable[[Any], Any] | None = None, name: str = "test-64") -> None:
        self.fault, self.name, self.asked = fault, name, 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += 1
        rows = super().embed(texts)
        return rows if self.fault is None else self.fault(rows)

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


def raising(_: Any) -> Any:
    raise RuntimeError("the model broke")


def hanging(_: Any) -> Any:
    time.sleep(600)


FAULTS: dict[str, Callable[[Any], Any]] = {
    "raising": raising,
    "of wrong dimensions": lambda rows: rows[:, :7],
    "of NaN": lambda rows: np.where(np.arange(rows.shape[1]) % 2, rows, np.nan),
    "of zeros": lambda rows: rows * 0,
    "of too few rows": lambda rows: rows[:-1],
    "of no numbers": lambda rows: [["x"] * rows.shape[1]] * len(rows),
}


@contextlib.contextmanager
def embedded_by(**embedders: Any) -> Iterator[None]:
    """Let providers be these embedders: `test` and any other name."""

    def opened(name: str, _settings: object) -> Any:
        found = embedders.get(name.partition(":")[0])
        return None if found is None else check_embedder(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memlake.memories.embedders.open_embedder", opened)
        yield


def wait_until(true: Callable[[], object], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
