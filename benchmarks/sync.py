"""Figures of push, fetch and clone over a folder: CPU, memory, requests and bytes; git where it does the same work.

    .venv/bin/python benchmarks/sync.py [--mib 1024] [--files 100000] [--commits 50000] [--work FOLDER]

Each verb runs in a child of its own. A request is one call of the place that a remote lies in, and a group of ranges
less than 1 MiB apart counts as one, as a bucket is asked. A missed target is printed, not raised.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from generate import memory, uuid7
from measure import Cost, Place, peak_memory, run

import memlake as ml
from memlake.objects import places, swap
from memlake.records import Author, Entry
from memlake.versions.history import refs, thin
from memlake.versions.history.commits import WINDOW, Draft

NEAR = 1 << 20
Answer = dict[str, Any]


class Counter:
    """Counts what is asked of folders below one path."""

    def __init__(self, remote: str) -> None:
        self.remote, self.requests, self.sent, self.got = remote, 0, 0, 0
        for name in ("put", "get_ranges", "size", "list", "delete"):
            self._wrap(places.Folder, name, lambda place: str(place.root))
        for name in ("load", "swap"):
            self._wrap(swap.FolderSwap, name, lambda held: str(held._folder))

    def _wrap(self, kind: type, name: str, where: Callable[[Any], str]) -> None:
        real = getattr(kind, name)

        def counted(held: Any, *args: Any) -> Any:
            if not where(held).startswith(self.remote):
                return real(held, *args)
            self.requests += 1
            if name == "put":
                self.sent += os.stat(args[1]).st_size
            elif name == "swap":
                self.sent += len(args[0])
            answer = real(held, *args)
            if name == "get_ranges":
                ends = sorted((start, start + length) for start, length in args[1])
                self.requests += sum(b[0] - a[1] > NEAR for a, b in pairwise(ends))
                self.got += sum(map(len, answer))
            elif name == "load" and answer is not None:
                self.got += len(answer.data)
            return answer

        setattr(kind, name, counted)


# -- verbs of a child


def push(repo: str, _: str) -> None:
    with ml.open(repo) as lake:
        lake.push()


def fetch(repo: str, _: str) -> None:
    with ml.open(repo) as lake:
        lake.fetch()


def clone(repo: str, remote: str) -> None:
    ml.clone(remote, repo).close()


def child(verb: str, repo: str, remote: str) -> None:
    counter = Counter(remote)
    {"push": push, "fetch": fetch, "clone": clone}[verb](repo, remote)
    found = {"requests": counter.requests, "sent": counter.sent, "got": counter.got, "peak": peak_memory()}
    print(json.dumps(found))


def measured(verb: str, repo: Path, remote: Path, place: Place) -> Answer:
    cost: Cost = run([sys.executable, __file__, "--child", verb, str(repo), str(remote)], place)
    answer: Answer = {"cpu": cost.cpu, **json.loads(cost.out)}
    say(f"  {verb} {repo.name}: {answer}")
    return answer


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- rows


def row_of_a_large_file(work: Path, place: Place, mib: int) -> list[list[str]]:
    """1 % of a file, one contiguous piece of it, is overwritten; then nothing changed."""
    random, repo, remote = Random(3), work / "large", work / "large.remote"
    with ml.init(repo) as lake:
        with (repo / "big.bin").open("wb") as file:
            for _ in range(mib):
                file.write(random.randbytes(1 << 20))
        lake.add("big.bin")
        lake.commit("first")
        lake.remotes.add("origin", remote)
    first = measured("push", repo, remote, place)
    new = (mib << 20) // 100
    with ml.open(repo) as lake:
        with (repo / "big.bin").open("r+b") as file:
            file.seek((mib << 20) // 3)
            file.write(random.randbytes(new))
        lake.add("big.bin")
        lake.commit("second")
    again = measured("push", repo, remote, place)
    nothing = measured("fetch", repo, remote, place)
    return [
        line(f"first push of a file of {mib:,} MiB", first, "memory <= 300 MB", first["peak"] <= 300 << 20),
        line(
            f"push 1 % of it ({new / 2**20:.1f} MB)", again, "<= 1.2 times the new bytes, <= 8 requests",
            again["sent"] <= 1.2 * new and again["requests"] <= 8,
        ),
        line("fetch when nothing changed", nothing, "1 request", nothing["requests"] == 1),
    ]  # fmt: skip


def row_of_small_files(work: Path, place: Place, count: int) -> list[list[str]]:
    random, repo, remote = Random(4), work / "small", work / "small.remote"
    with ml.init(repo) as lake:
        for number in range(count):
            file = repo / f"data/{number // 1000:03d}/{number:06d}.bin"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(random.randbytes(300))
        lake.add(all=True)
        lake.commit("all")
        lake.remotes.add("origin", remote)
    rows = []
    for verb, target in (("push", repo), ("clone", work / "small.clone")):
        cost = measured(verb, target, remote, place)
        good = cost["requests"] <= 40 and cost["cpu"] <= 6
        rows.append(line(f"{verb} {count:,} files of 300 bytes", cost, "<= 40 requests, <= 6 CPU s", good))
    rows[0][1], rows[1][1] = _run_git(work, repo, place)
    return rows


def _run_git(work: Path, repo: Path, place: Place) -> tuple[str, str]:
    """The same files, pushed to and cloned from a bare repo of git."""
    if shutil.which("git") is None:
        return "-", "-"
    folder, bare = work / "git", work / "git.bare"
    shutil.copytree(repo / "data", folder / "data")
    at = place.at(folder)
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "all"]):
        run(["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *command], at)
    run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], at)
    pushed = run(["git", "push", "-q", f"file://{bare}", "main"], at)
    cloned = run(["git", "clone", "-q", f"file://{bare}", str(work / "git.clone")], at)
    return f"{pushed.cpu:.1f} s", f"{cloned.cpu:.1f} s"


def row_of_memories(work: Path, place: Place, count: int) -> list[list[str]]:
    random, repo, remote = Random(5), work / "memories", work / "memories.remote"
    with ml.init(repo) as lake:
        history, head, moved = lake._history, None, None
        for start in range(0, count, WINDOW):
            with history.db.write():
                for number in range(start, min(start + WINDOW, count)):
                    content = memory(random)
                    entry = Entry(history.objects.write(content), "memory", len(content))
                    path = f"memories/agent-{number % 8}/{uuid7(1_700_000_000_000 + number, random)}"
                    draft = Draft("memory", {path: entry}, Author("bot", ""), "remember", 10**15 + number, {})
                    head = history.append(draft, (head,) if head else (), None)
                refs.move(history, "main", "memory", moved, head, action="bench", who="bot")
                thin.thin(history)
                moved = head
        lake.remotes.add("origin", remote)
    pushed = measured("push", repo, remote, place)
    cloned = measured("clone", work / "memories.clone", remote, place)
    share = count / 1e6
    good = cloned["cpu"] <= 60 * share and cloned["got"] <= (250 << 20) * share and cloned["peak"] <= 300 << 20
    return [
        line(f"push {count:,} memory commits", pushed, "-", None),
        line(f"clone {count:,} memory commits", cloned, "a millionth of 60 CPU s and 250 MB for each", good),
    ]


def line(work: str, cost: Answer, target: str, good: bool | None) -> list[str]:
    peak, moved = cost["peak"] / 2**20, (cost["sent"] + cost["got"]) / 2**20
    figures = f"{cost['cpu']:.1f} s, {peak:.0f} MB, {cost['requests']} requests, {moved:.1f} MB"
    return [work, "-", figures, target, "-" if good is None else "yes" if good else "no"]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=50_000)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        work = Path(folder)
        os.environ.update(HOME=folder, XDG_CONFIG_HOME=f"{folder}/.config")
        place = Place(work, dict(os.environ), shown=True)
        print("| work | git | memlake: CPU, peak memory, requests, on the wire | target | reached? |")
        print("|---|---|---|---|---|")
        for rows in (
            lambda: row_of_memories(work, place, options.commits),
            lambda: row_of_small_files(work, place, options.files),
            lambda: row_of_a_large_file(work, place, options.mib),
        ):
            for cells in rows():
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
