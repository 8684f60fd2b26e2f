"""A million paths over many gigabytes, and what a clone without content does there. Runs in children of `sync.py`."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import memlake as ml
from memlake.objects.writer import Writer
from memlake.records import Author, Entry
from memlake.versions.history import refs
from memlake.versions.history.commits import Commit, Draft

BLOCK = 1 << 20
COMMITS = 20


class Noise(io.RawIOBase):
    """A stream of seeded bytes that nothing compresses."""

    def __init__(self, random: Random, size: int) -> None:
        self._random, self._left = random, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        got = min(len(buffer), self._left, BLOCK)
        buffer[:got] = self._random.randbytes(got)
        self._left -= got
        return got


def make(repo: str, remote: str, paths: int, mib: int) -> None:
    """Files of 100 bytes and a large one, each with content of its own, in twenty commits; nothing is written into the
    working folder."""
    random = Random(6)
    with ml.init(repo) as lake:
        head = None
        for number in range(COMMITS):
            head = _commit(
                lake, random, range(number * paths // COMMITS, (number + 1) * paths // COMMITS), mib << 20, head
            )
        lake.remotes.add("origin", Path(remote))


def add_large(repo: str, remote: str, count: int, mib: int) -> None:
    """Large files, each committed and pushed by itself. The disk holds their packs once: those here are links to those
    there."""
    with ml.open(repo) as lake:
        for number in range(count):
            head = refs.commit_of(lake._history, refs.get(lake._history.db, "main")["work"])
            _commit(lake, Random(100 + number), range(0), mib << 20, head)
            lake.push()
            for pack in Path(repo, ".memlake/packs").iterdir():
                there = Path(remote, "packs", pack.name)
                if there.exists() and not there.samefile(pack):
                    pack.unlink()
                    pack.hardlink_to(there)


def _commit(lake: ml.Repo, random: Random, small: range, large: int, head: Commit | None) -> Commit:
    history, number = lake._history, head.generation if head else 0
    with Writer(history.objects, "bench") as writer:
        entries = {
            f"files/data/{at // 1000:04d}/{at:07d}.bin": Entry(writer.add(random.randbytes(100)), "file", 100)
            for at in small
        }
        oid, _ = writer.add_stream(io.BufferedReader(Noise(random, large), BLOCK), large)  # type: ignore[arg-type]
        entries[f"files/large/{number:02d}.bin"] = Entry(oid, "file", large)
        writer.finish()
    with history.db.write():
        draft = Draft("work", entries, Author("bench", ""), f"part {number}", 10**15 + number, {})
        made = history.append(draft, (head,) if head else (), None)
        refs.move(history, "main", "work", head, made, action="bench", who="bench")
    return made


def clone_without_content(repo: str, remote: str) -> None:
    ml.clone(remote, repo, filter="none").close()


def look(repo: str, _: str) -> None:
    """What anybody does first: list, log, status, the last commit's size, memories."""
    with ml.open(repo) as lake:
        assert sum(1 for _ in lake.ls()) > 0
        assert len(list(lake.log())) >= COMMITS
        status = lake.status()
        assert not [*status.staged, *status.unstaged, *status.untracked]
        assert len(lake.diff("HEAD~1", "HEAD")) > 0


def add_one(repo: str, _: str) -> None:
    with ml.open(repo) as lake:
        Path(repo, "new.txt").write_text("one line\n")
        lake.add("new.txt")
        lake.commit("one more")
        lake.push()
