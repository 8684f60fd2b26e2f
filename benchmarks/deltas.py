"""A hundred one-line edits of a 240 KB JSON file: bytes after gc beside git, and what reading the oldest costs.

python benchmarks/deltas.py
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.search import Query

EDITS, LINES = 100, 2400
MEMORIES, ROUNDS = 5000, 60
NAME, EMAIL = "Ada Lovelace", "ada@example.org"  # of every commit, on either side


def make_versions() -> list[bytes]:
    rng = random.Random(1)
    text = [f'{{"id": {n}, "value": {rng.random()}, "name": "{rng.randbytes(16).hex()}"}}' for n in range(LINES)]
    versions = []
    for number in range(EDITS):
        text[rng.randrange(LINES)] = f'{{"edited": {number}, "value": {rng.random()}}}'
        versions.append("\n".join(text).encode())
    return versions


def count_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_ours(root: Path, versions: list[bytes]) -> dict[str, float]:
    with ml.init(root) as repo:
        begin = time.process_time()
        for number, content in enumerate(versions):
            (root / "data.json").write_bytes(content)
            repo.add(root / "data.json")
            repo.commit(str(number))
        stored = time.process_time() - begin
        repo.upkeep.checkpoint()
        before, begin = count_bytes(repo.dir), time.process_time()
        repo.upkeep.gc(prune=True)
        collected = time.process_time() - begin
        oldest = list(repo.log())[-1].oid
        begin = time.process_time()
        for _ in range(100):
            assert repo.read("data.json", oldest) == versions[0]
        read = (time.process_time() - begin) / 100
    packs, databases = count_bytes(repo.dir / "packs"), {name: repo.dir / name for name in ("repo.db", "local.db")}
    return {
        "bytes of .memlake before gc": before, "bytes of .memlake after gc": count_bytes(repo.dir),
        "bytes of packs after gc": packs, **{f"bytes of {n}": file.stat().st_size for n, file in databases.items()},
        "ms CPU an edit (add and commit)": stored / EDITS * 1000, "ms CPU of gc": collected * 1000,
        "ms CPU to read the oldest": read * 1000,
    }  # fmt: skip


def measure_git(root: Path, versions: list[bytes]) -> dict[str, float]:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    git = ["git", "-C", str(root), "-c", f"user.name={NAME}", "-c", f"user.email={EMAIL}"]
    for number, content in enumerate(versions):
        (root / "data.json").write_bytes(content)
        subprocess.run([*git, "add", "data.json"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", str(number)], check=True)
    subprocess.run([*git, "gc", "-q"], check=True)
    whole = count_bytes(root / ".git") - count_bytes(root / ".git/hooks")  # which are samples
    packs = count_bytes(root / ".git/objects/pack")
    return {"bytes of git's packs after git gc": packs, "bytes of .git after it": whole}


def measure_speed(root: Path, versions: list[bytes]) -> None:
    """Ms of CPU to store and to search beside 5,000 memories: as it was written, and after gc made deltas."""
    with ml.init(root / "plain") as repo:
        repo.config.set("embedding.provider", "none")
        for number, content in enumerate(versions):
            (repo.root / "data.json").write_bytes(content)
            repo.add("data.json")
            repo.commit(str(number))
        repo.memories().store_many([Draft(make_text(number)) for number in range(MEMORIES)])
    shutil.copytree(root / "plain", root / "deltas")
    with ml.open(root / "deltas") as repo:
        print(f"deltas made by gc: {repo.upkeep.gc(prune=True).deltas}")
    repos = {name: ml.open(root / name) for name in ("plain", "deltas")}
    spent: dict[tuple[str, str], list[float]] = {}
    for turn in range(ROUNDS):
        for name, repo in repos.items():
            for what, do in WORK.items():
                begin = time.process_time()
                do(repo, turn)
                spent.setdefault((what, name), []).append((time.process_time() - begin) * 1000)
    for what in WORK:
        plain, deltas = (statistics.median(spent[what, name]) for name in repos)
        print(f"ms CPU, {what:32} without deltas {plain:6.2f}   with deltas {deltas:6.2f}")


def make_text(number: int) -> str:
    words = random.Random(number).choices(WORDS, k=25)
    return f"note {number}: {' '.join(words)}"


def add_and_commit(repo: ml.Repo, turn: int) -> None:
    (repo.root / "small.txt").write_text(f"small {turn}")
    repo.add("small.txt")
    repo.commit(f"small {turn}")


WORDS = [f"word{number}" for number in range(3000)]
WORK: dict[str, Callable[[ml.Repo, int], object]] = {
    "Repo.write of one record": lambda repo, turn: repo.write({f"state/bot/{turn}": make_text(turn).encode()}, "m"),
    "add and commit of a small file": add_and_commit,
    "search": lambda repo, turn: repo.memories().search(Query(f"word{turn} word{turn * 7 % 3000}")),
    "read of the file of HEAD": lambda repo, _: repo.read("data.json"),
}


def main() -> None:
    versions = make_versions()
    os.environ |= {"MEMLAKE_AUTHOR_NAME": NAME, "MEMLAKE_AUTHOR_EMAIL": EMAIL}
    with tempfile.TemporaryDirectory() as folder:
        figures = measure_ours(Path(folder) / "ours", versions) | measure_git(Path(folder) / "git", versions)
    figures["times the bytes of .git"] = figures["bytes of .memlake after gc"] / figures["bytes of .git after it"]
    for name, value in figures.items():
        print(f"{name:40} {value:12,.2f}")
    with tempfile.TemporaryDirectory() as folder:
        measure_speed(Path(folder), versions)


if __name__ == "__main__":
    main()
