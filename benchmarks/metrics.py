"""`memlake metrics` over 10,000 commits that each record two metrics and two params of their own: CPU seconds.

python benchmarks/metrics.py [--commits 10000] [--work FOLDER]

Each figure is the best of five, in this process; the last is the whole command, with Python starting.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import memlake as ml
from memlake.objects.layout import now
from memlake.records import Author, Entry
from memlake.versions.history.append import record, write_facts
from memlake.versions.history.commits import Draft


def build(repo: ml.Repo, commits: int) -> None:
    """A line of commits, written in one transaction, because nobody waits for it here."""
    history, rng = repo._history, random.Random(7)
    with history.db.write():
        for number in range(commits):
            data = b"weights %d\n" % number
            entry = Entry(history.objects.write(data), "file", len(data))
            facts = {
                "metrics": {"accuracy": rng.random(), "loss": rng.random()},
                "params": {"lr": rng.random(), "seed": number},
            }
            meta = write_facts(history.objects, facts)
            draft = Draft("work", {"files/model": entry}, Author("Ada"), f"epoch {number}", now(), meta)
            record(history, draft, branch="main")


def measure(name: str, work: Callable[[], object]) -> None:
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    sys.stdout.write(f"{name:<40} {best:6.3f} CPU s\n")


def measure_command(root: Path) -> None:
    best = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "memlake.cli", "metrics", "-n", "10"]
        subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    sys.stdout.write(f"{'memlake metrics -n 10':<40} {best:6.3f} CPU s\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--work", default=None)
    given = parser.parse_args()
    os.environ.update(MEMLAKE_AUTHOR_NAME="Ada", MEMLAKE_AUTHOR_EMAIL="ada@example.org")
    with tempfile.TemporaryDirectory(dir=given.work) as folder, ml.init(folder) as repo:
        build(repo, given.commits)
        sys.stdout.write(f"{given.commits:,} commits, load {os.getloadavg()[0]:.1f}\n")
        measure("repo.metrics()", repo.metrics)
        measure("repo.metrics(sort='accuracy')", lambda: repo.metrics(sort="accuracy"))
        measure("repo.metrics(where='accuracy > 0.9')", lambda: repo.metrics(where="accuracy > 0.9"))
        measure("repo.log(where='metrics.accuracy > 0.9')", lambda: list(repo.log(where="metrics.accuracy > 0.9")))
        measure_command(Path(folder))


if __name__ == "__main__":
    main()
