"""Repos full of memories for the rows of memory.py: made once, kept, the same on every machine.

Texts are as turns of conversations are: a name, then about 14 words by Zipf's law, of which the most frequent are the
usual little words. One name stands in each twentieth text, so a question that names someone asks for many rows.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from memlake import Agent, config
from memlake.memories.memories import Draft, Memories

DIMENSION, MODEL = 384, "synthetic"
AGENTS, CATEGORIES, TAGS, SESSION = 20, ("facts", "preferences", "habits", "plans", "people"), 50, 20
WORDS = 30_000
START = int(datetime(2025, 1, 1, tzinfo=timezone.utc).timestamp() * 1e6)
STEP = 60 * 1_000_000  # microseconds between two memories
BATCH = 256
_LITTLE = (  # noqa: SIM905  a list of words is read as words
    "the and to a of i in is it you that was for on my with at so we but have be this are had not they from your me "
    "all can about as he she what would do there or her his our been if when who them an just up out how no will"
).split()
_SOUNDS = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "il")]
Array = np.ndarray[Any, Any]


def vocabulary() -> list[str]:
    """Little words, then made-up ones, the frequent short and the rare long, as in any language."""
    made = ("".join(parts) for size in (2, 3) for parts in itertools.product(_SOUNDS, repeat=size))
    return [*_LITTLE, *itertools.islice(made, WORDS - len(_LITTLE))]


def texts(count: int, seed: int = 1) -> Iterator[str]:
    words, chance = np.array(vocabulary(), object), np.random.default_rng(seed)
    names = [f"{name.capitalize()}ine" for name in _SOUNDS[:AGENTS]]
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    for start in range(0, count, 10_000):
        some = min(10_000, count - start)
        sizes = chance.integers(6, 23, some)
        drawn = words[np.searchsorted(shares, chance.random(int(sizes.sum())) * shares[-1])]
        who = chance.integers(AGENTS, size=some)
        for name, part in zip(who, np.split(drawn, np.cumsum(sizes)[:-1]), strict=True):
            yield f"{names[name]}: {' '.join(part)}"


def questions(count: int, seed: int = 99) -> list[str]:
    """Questions: nine words of a text that nobody stored, little words among them, its name first."""
    return [f"what did {' '.join(text.replace(':', '').split()[:9])}?" for text in texts(count, seed)]


def drafts(count: int, first: int = 0, seed: int = 1) -> Iterator[Draft]:
    chance = np.random.default_rng(seed + 1)
    marks = chance.random((count, 4))
    for number, (text, mark) in enumerate(zip(texts(count, seed), marks, strict=True), first):
        yield Draft(
            text,
            agent_id=f"agent-{int(mark[0] * AGENTS)}",
            session_id=f"session-{number // SESSION}",
            category=CATEGORIES[int(mark[1] * len(CATEGORIES))],
            tags=(f"tag-{int(mark[2] * TAGS)}",),
            metadata={"quarter": f"Q{1 + number % 4}"},
            importance=round(float(mark[3]), 2),
            created_at=START + number * STEP,
        )


def repo(folder: Path, count: int, *, vectors: bool = False) -> Path:
    """A repo with so many memories, made when it is not there yet. Nothing embeds it."""
    root = folder / f"{count}{'-vectors' if vectors else ''}"
    if not (root / "ready").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        started = time.monotonic()
        fill(root, count, vectors=vectors)
        (root / "ready").touch()
        print(f"filled {root} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return root


def fill(root: Path, count: int, *, vectors: bool) -> None:
    agent = opened(root)
    for part in batched(drafts(count), BATCH):
        agent.memories.store_many(part)
    index = agent.memories.shared.index
    index.fold()
    if vectors:
        for first in range(1, count + 1, 50_000):
            ids = np.arange(first, min(first + 50_000, count + 1))
            index.add_vectors(MODEL, ids, directions(len(ids), first), of=index.db)
    index.db.checkpoint()
    agent.close()


def opened(root: Path, provider: str = "none") -> Agent:
    """An agent in a repo, who sees everybody's memories and embeds nothing."""
    Agent(root).close()
    config.set_value(root / ".memlake", "embedding.provider", provider)
    return Agent(root)


def with_vectors(agent: Agent) -> None:
    """Let the agent's searches carry a vector without a model: one at random for each question."""
    memories = agent.memories
    found = itertools.cycle(directions(64, 7))
    ground = dataclasses.replace(memories.context, vector_of=lambda _: (MODEL, next(found)))
    agent.memories = Memories(ground, memories.shared)


def directions(count: int, seed: int) -> Array:
    """Unit vectors in 200 clusters, as texts have subjects."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((200, DIMENSION), np.float32)
    found = centres[chance.integers(200, size=count)] + chance.standard_normal((count, DIMENSION), np.float32)
    unit: Array = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def batched(items: Iterator[Draft], size: int) -> Iterator[list[Draft]]:
    while part := list(itertools.islice(items, size)):
        yield part
