"""CPU time, recall and size of the vector index on synthetic vectors; prints a Markdown table.

    python benchmarks/vectors.py                       # 5k, 100k and 1M rows of 384 dimensions; a few minutes, 4 GB
    python benchmarks/vectors.py --rows 5000,100000    # some sizes
    python benchmarks/vectors.py --spread isotropic    # a hard set: no clusters, all directions alike

Vectors are a mixture of Gaussians, normalised: 1,000 centres in 64 directions and a little of all others, as
embeddings of texts have. Queries are other points of the same mixture.
CPU is process_time of all threads: of each query the least of three rounds, then the mean.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memlake.index.vectors import Allow, Flat, Found

DIMENSION, DIRECTIONS, CENTRES = 384, 64, 1000
QUERIES, K, AT = 100, 100, 10
TARGETS = {(5_000, "none"): 1, (100_000, "none"): 4, (1_000_000, "none"): 25, (1_000_000, "1 % as ids"): 5}


@dataclass(frozen=True)
class Mixture:
    centres: np.ndarray
    base: np.ndarray
    within: float
    around: float

    def draw(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Points in pieces, so that a million need no second copy."""
        found = np.empty((count, DIMENSION), np.float32)
        for start in range(0, count, 50_000):
            size = min(50_000, count - start)
            latent = self.centres[chance.integers(len(self.centres), size=size)]
            latent = latent + self.within * chance.standard_normal(latent.shape, np.float32)
            points = latent @ self.base + self.around * chance.standard_normal((size, DIMENSION), np.float32)
            found[start : start + size] = points / np.linalg.norm(points, axis=1, keepdims=True)
        return found


def mixture(spread: str, chance: np.random.Generator) -> Mixture:
    base = chance.standard_normal((DIRECTIONS, DIMENSION), np.float32) / np.float32(DIRECTIONS**0.5)
    centres = chance.standard_normal((CENTRES, DIRECTIONS), np.float32)
    return Mixture(centres, base, 0.7, 0.1) if spread == "texts" else Mixture(0 * centres, base, 0.0, 1.0)


def filters(count: int, chance: np.random.Generator) -> dict[str, tuple[Allow | None, np.ndarray]]:
    """Each filter and, for the exact answer, the rows it allows."""
    order = chance.permutation(count)
    some = {share: np.sort(order[: max(1, count * share // 100)]) for share in (1, 10, 50)}
    table = np.zeros((101, count), np.bool_)
    for share, rows in some.items():
        table[share, rows] = True
    found: dict[str, tuple[Allow | None, np.ndarray]] = {"none": (None, np.arange(count))}
    for share, rows in some.items():
        found[f"{share} % as ids"] = rows, rows
        found[f"{share} % as a function"] = (lambda wanted, share=share: table[share, wanted]), rows
    return found


def exact(vectors: np.ndarray, rows: np.ndarray, queries: np.ndarray) -> list[set[int]]:
    scores = np.concatenate([queries @ vectors[part].T for part in np.array_split(rows, -(-len(rows) // 20_000))], 1)
    top = np.argpartition(scores, -AT, axis=1)[:, -AT:]
    return [set(rows[some].tolist()) for some in top]


def measured(work: Callable[[np.ndarray], Found], queries: np.ndarray) -> tuple[list[float], list[float], list[Found]]:
    """CPU and wall ms of each query, the least of three rounds, and the answers."""
    rounds = []
    for _ in range(3):
        figures, answers = [], []
        for query in queries:
            cpu, wall = time.process_time(), time.perf_counter()
            answers.append(work(query))
            figures.append((1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)))
        rounds.append(figures)
    least = np.array(rounds).min(axis=0)
    return least[:, 0].tolist(), least[:, 1].tolist(), answers


def run(count: int, spread: str, folder: Path) -> None:
    chance = np.random.default_rng(count)
    source = mixture(spread, chance)
    vectors, queries = source.draw(count, chance), source.draw(QUERIES, chance)
    index = Flat(folder / str(count), "synthetic", DIMENSION)
    cpu = time.process_time()
    for start in range(0, count, 50_000):
        index.append(np.arange(start, min(count, start + 50_000)), vectors[start : start + 50_000])
    built = time.process_time() - cpu
    started = time.perf_counter()
    index = Flat(index.folder, "synthetic", DIMENSION)
    assert index.count == count
    opened = 1e3 * (time.perf_counter() - started)
    for name, (allow, rows) in filters(count, chance).items():
        spent, waited, answers = measured(lambda query, allow=allow: index.explain(query, K, allow=allow), queries)
        true = exact(vectors, rows, queries)
        recall = statistics.fmean(
            len(set(found.rows[:AT].tolist()) & best) / len(best) for found, best in zip(answers, true, strict=True)
        )
        target = TARGETS.get((count, name), "")
        print(
            f"| {count:,} | {name} | {answers[0].plan} | {answers[0].scored:,} | {statistics.fmean(spent):.2f} "
            f"| {target} | {statistics.median(waited):.2f} | {np.percentile(waited, 95):.2f} | {recall:.3f} |",
            flush=True,
        )
    size = sum(file.stat().st_size for file in index.folder.iterdir())
    notes.append(
        f"{count:,}: built in {built:.1f} CPU s, opened in {opened:.1f} ms, {size / 1e6:.0f} MB on disk, "
        f"{index.rescore:,} candidates rescored"
    )
    started = time.process_time()
    index.verify()
    notes.append(f"{count:,}: verified in {time.process_time() - started:.2f} CPU s")
    started = time.process_time()
    index.compact(lambda rows: rows % 5 > 0)
    notes.append(f"{count:,}: a fifth removed by compacting in {time.process_time() - started:.1f} CPU s")


notes: list[str] = []


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--rows", default="5000,100000,1000000", help="sizes, separated by commas")
    told.add_argument("--spread", choices=("texts", "isotropic"), default="texts")
    told.add_argument("--work", type=Path, help="where the files are put; a temporary folder otherwise")
    options = told.parse_args()
    print("| rows | filter | plan | scored | CPU ms | target | p50 ms | p95 ms | recall@10 |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="memlake-vectors-", dir=options.work) as folder:
        for count in options.rows.split(","):
            run(int(count), options.spread, Path(folder))
    print("", *notes, sep="\n")


if __name__ == "__main__":
    main()
