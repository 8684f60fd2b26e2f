"""Measures the local embedding model: loading, texts a second, one query, memory, and what it adds to an install.

    python benchmarks/embedding.py

Texts are made of real words with a fixed seed, about 35 tokens each as turns of a conversation are. CPU time is of the
whole process; the least of the rounds counts.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from memlake.defaults import Settings
from memlake.memories.embedders import describe_missing, open_embedder
from memlake.memories.embedders.wordpiece import WordPiece

TEXTS, QUERIES, ROUNDS = 600, 100, 5
PARTS = ("numpy", "onnxruntime", "protobuf", "flatbuffers", "packaging", "memlake-minilm")
START = """
from memlake.defaults import Settings
from memlake.memories.embedders import open_embedder
model = open_embedder("local", Settings())
"""


def main() -> None:
    if describe_missing("local"):
        sys.exit(describe_missing("local"))
    import memlake_minilm

    model = open_embedder("local", Settings())
    assert model is not None
    words = (memlake_minilm.path() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    texts = made(words)
    model.embed(texts[:64])
    print("| figure | measured |\n|---|---|")
    loading = started("model.embed_query('a')") - started("")
    row("import and load, until the first vector, CPU", f"{loading:.2f} s")
    cpu, wall = least(lambda: model.embed(texts))
    row("texts a CPU second", f"{TEXTS / cpu:.0f}")
    row("texts a second on this machine, its load included", f"{TEXTS / wall:.0f}")
    cpu, _ = least(lambda: [model.embed_query(text[:60]) for text in texts[:QUERIES]])
    row("a query of 60 characters, CPU", f"{cpu / QUERIES * 1000:.1f} ms")
    tokenizer = WordPiece(words)
    cpu, _ = least(lambda: [tokenizer.encode(text, 256) for text in texts])
    row("of which cutting a text into tokens, CPU", f"{cpu / TEXTS * 1000:.2f} ms")
    row("memory of the process at most", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    for name in PARTS:
        row(f"installed size of {name}", f"{installed(name) / 2**20:.1f} MB")
    row("together", f"{sum(map(installed, PARTS)) / 2**20:.0f} MB")


def made(words: list[str]) -> list[str]:
    rng = random.Random(1)
    plain = [word for word in words if word.isalpha() and word.isascii() and len(word) > 1]
    return [" ".join(rng.choices(plain, k=rng.randint(8, 58))) for _ in range(TEXTS)]


def least(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds of the best round."""
    rounds = []
    for _ in range(ROUNDS):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        rounds.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(cpu for cpu, _ in rounds), min(wall for _, wall in rounds)


def started(then: str) -> float:
    """CPU seconds of a fresh process that opens the model and does one thing more."""
    spent = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", START + then], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def installed(name: str) -> int:
    """Allocated bytes, as du counts, of the files a package lists, compiled ones included; 0 when it is not there."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0
    places = (Path(str(file.locate())) for file in files)
    return sum(place.stat().st_blocks * 512 for place in places if place.is_file())


def row(figure: str, measured: str) -> None:
    print(f"| {figure} | {measured} |", flush=True)


if __name__ == "__main__":
    main()
