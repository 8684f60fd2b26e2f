"""Repos that share: one with something of everything, a folder remote, clones of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.repo import Repo
from memlake.versions import tables

Team = Callable[[str], Repo]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Repo]:
    """A repo with files of all sizes, a dataset, memories, state and tags, that knows a remote in a folder."""
    with ml.init(tmp_path / "ours") as repo:
        fill(repo)
        repo.remotes.add("origin", tmp_path / "remote")
        yield repo


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """Makes clones of the remote by name."""
    made: list[Repo] = []

    def join(name: str) -> Repo:
        made.append(ml.clone(tmp_path / "remote", tmp_path / name))
        return made[-1]

    yield join
    for repo in made:
        repo.close()


def fill(repo: Repo) -> None:
    rng = random.Random(7)
    put(repo, "a.txt", b"hello\n")
    put(repo, "deep/er/b.csv", b"id,v\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500)))
    put(repo, "big.bin", rng.randbytes(3_000_000))
    repo.add(all=True)
    repo.commit("one", metrics={"accuracy": 0.9})
    for i in range(40):
        put(repo, f"many/{i}.txt", f"file {i}\n".encode() * 700)
    put(repo, "a.txt", b"hello again\n")
    repo.add(all=True)
    repo.commit("two")
    remember(repo, "The dev server runs on port 8080", "Rex is a cat")


def put(repo: Repo, path: str, data: bytes) -> None:
    file = Path(repo.root) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def commit(repo: Repo, path: str, data: bytes, message: str = "more") -> str:
    put(repo, path, data)
    repo.add(path)
    return repo.commit(message).oid


def remember(repo: Repo, *texts: str) -> None:
    with ml.Agent(repo.root, agent_id="bot") as agent:
        for text in texts:
            agent.store_memory(text)


def heads(repo: Repo) -> dict[tuple[int, str], tuple[bytes | None, bytes | None]]:
    """What branches and tags name, both lanes."""
    rows = tables.list_all_refs(repo._history.db)
    return {(kind, name): (work, memory) for kind, name, work, memory, _ in rows if kind < 2}


def snapshot(repo: Repo) -> dict[str, object]:
    """All that must not change when something is refused."""
    db = repo._history.db
    return {
        "refs": tables.list_all_refs(db),
        "commits": tables.count_commits(db),
        "files": {
            str(file.relative_to(repo.root)): file.stat().st_size
            for file in Path(repo.root).rglob("*")
            if file.is_file() and ".memlake" not in file.parts
        },
        "status": str(repo.status()),
    }


def files_of(remote: Path) -> list[str]:
    return sorted(os.path.relpath(os.path.join(at, name), remote) for at, _, names in os.walk(remote) for name in names)
