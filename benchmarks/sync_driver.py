"""What the rows of `sync.py` run: verbs in children of their own, counted, and a bucket in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import sync_paths
from measure import Cost, Place, peak_memory, run

import memlake as ml
from memlake.objects import bucket, places, swap

HERE = Path(__file__).parent
NEAR = 1 << 20
PUSHES, PUSHERS = 12, 8
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


def push_until_killed(repo: str, _: str) -> None:
    """Push, and die by SIGKILL when 99 % of the content is stored."""
    size, stored, mutex = Path(repo, "big.bin").stat().st_size, [0], threading.Lock()
    for kind in (places.Folder, bucket.Bucket):
        real = kind.put

        def put(held: Any, name: str, file: Path, real: Callable[..., None] = real) -> None:
            length = os.stat(file).st_size
            real(held, name, file)
            if name.startswith("packs/"):
                with mutex:
                    stored[0] += length
                    if stored[0] >= 0.99 * size:
                        os.kill(os.getpid(), signal.SIGKILL)

        kind.put = put  # type: ignore[method-assign]
    push(repo, _)


def push_often(repo: str, _: str) -> None:
    """Twelve commits, each pushed, to the branch that this clone is on."""
    with ml.open(repo) as lake:
        for number in range(PUSHES):
            Path(repo, f"{lake._local.branch}-{number}.txt").write_text(f"{number}\n")
            lake.add(all=True)
            lake.commit(f"push {number}")
            lake.push()


def fetch(repo: str, _: str) -> None:
    with ml.open(repo) as lake:
        lake.fetch()


def clone(repo: str, remote: str) -> None:
    ml.clone(remote, repo).close()


def search(repo: str, _: str) -> None:
    """The first search of a clone, which indexes the memories, finds by words what a hundred of them say."""
    with ml.Agent(repo, agent_id="bench") as agent:
        hits = agent.search_memory("which release did ticket-100 name", top_k=5)
        assert len(hits) == 5, hits
        assert all("ticket-100" in hit["content"] for hit in hits), hits


def make_paths(repo: str, remote: str) -> None:
    sync_paths.make(repo, remote, int(sys.argv[4]), int(sys.argv[5]))


def add_large(repo: str, remote: str) -> None:
    sync_paths.add_large(repo, remote, int(sys.argv[4]), int(sys.argv[5]))


VERBS: dict[str, Callable[[str, str], None]] = {
    "push": push, "fetch": fetch, "clone": clone, "search": search, "kill": push_until_killed, "often": push_often,
    "make": make_paths, "large": add_large, "clone-none": sync_paths.clone_without_content, "look": sync_paths.look,
    "add": sync_paths.add_one,
}  # fmt: skip


def child(verb: str, repo: str, remote: str) -> None:
    counter = Counter(remote)
    VERBS[verb](repo, remote)
    found = {"requests": counter.requests, "sent": counter.sent, "got": counter.got, "peak": peak_memory()}
    print(json.dumps(found))


def measured(verb: str, repo: Path, remote: Path | str, place: Place, server: str = "") -> Answer:
    if server:
        counts(server)
    cost: Cost = run([sys.executable, __file__, verb, str(repo), str(remote)], place)
    answer: Answer = {"cpu": cost.cpu, **json.loads(cost.out)}
    if server:
        answer["requests"], answer["sent"], answer["got"] = counts(server)
    say(f"  {verb} {repo.name}: {answer}")
    return answer


@contextmanager
def bucket_server() -> Iterator[str]:
    """The address of a bucket server with an empty bucket, whose keys stand in the environment."""
    server = subprocess.Popen([sys.executable, str(HERE / "s3_server.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
        os.environ.update(keys, AWS_ENDPOINT_URL=address, AWS_ALLOW_HTTP="true", AWS_DEFAULT_REGION="us-east-1")
        urlopen(Request(f"{address}/bench", method="PUT")).close()
        yield address
    finally:
        server.terminate()
        server.wait()


def counts(server: str) -> list[int]:
    with urlopen(f"{server}/counts") as answer:
        found: list[int] = json.loads(answer.read())
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    child(*sys.argv[1:4])
