"""kill -9 at a request of a push, pull or clone: run again it comes to its end, and next to nothing goes twice."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.repo import Repo
from tests.reliability.ground import KILLED, TORTURE, assert_sound, fast_folder, noise, put, python, snapshot_of
from tests.servers import DROP, LOSE, S3, Bucket

PACKS, PACK = 6, 150_000
AT_ONCE = 4  # packs on their way at one time
EVERY = 1 if TORTURE else 5
CHILD = """
import sys
import memlake as ml
verb, root, url, endpoint = sys.argv[1:]
if verb == "clone":
    ml.clone(url, root, endpoint=endpoint).close()
else:
    with ml.open(root) as repo:
        repo.config.set("remote.retries", "0")
        getattr(repo, verb)()
"""


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A repo with a commit and a pack for each of its files, and some memories."""
    with fast_folder() as folder:
        with ml.init(folder / "repo") as repo:
            for number in range(PACKS):
                put(repo.root, f"{number}.bin", noise(PACK, number))
                repo.add(all=True)
                repo.commit(f"commit {number}")
            repo.write({"memories/bot/1": b"one"}, "m")
        yield folder / "repo"


class Ground:
    """A fresh bucket and fresh repos for each trial."""

    def __init__(self, folder: Path, s3: S3, template: Path) -> None:
        self.folder, self.s3, self._template, self._count = folder, s3, template, 0

    def begin(self, verb: str) -> tuple[Path, Bucket]:
        """What a verb is tried on: a repo to be pushed, a clone that lacks all packs, or a folder for a clone."""
        self._count += 1
        bucket, root = self.s3.make_bucket(), self.folder / f"{verb}-{self._count}"
        with ml.open(snapshot_of(self._template, self.folder / f"ours-{self._count}")) as ours:
            url = f"s3://{bucket.name}/p"
            ours.remotes.add("origin", url, endpoint=self.s3.proxy.endpoint)
            if verb == "push":
                return ours.root, bucket
            if verb == "pull":
                ours.push(memories=False)
                ml.clone(url, root, endpoint=self.s3.proxy.endpoint).close()
                put(ours.root, "more.bin", noise(PACK, "more"))
                ours.add(all=True)
                ours.commit("more")
            ours.push()
        return root, bucket

    def kill(self, verb: str, root: Path, bucket: Bucket, fault: Callable[[int, str, str], str]) -> int:
        """Run a verb in a process that is killed at the first request that has a fault; returns its exit code."""
        started: list[subprocess.Popen[str]] = []
        proxy = self.s3.proxy
        proxy.forget()

        def kill(number: int, method: str, path: str) -> str:
            found = fault(number, method, path)
            if found:
                os.kill(started[0].pid, signal.SIGKILL)
            return found

        command: Any = ("-c", CHILD, verb, str(root), f"s3://{bucket.name}/p", proxy.endpoint)
        proxy.fault = lambda *_: ""
        started.append(python(*command, stderr=subprocess.DEVNULL))
        proxy.fault = kill
        code = started[0].wait()
        proxy.fault = None
        return code

    def run(self, verb: str, root: Path, bucket: Bucket) -> None:
        """The verb in this process, to its end."""
        if verb == "clone":
            ml.clone(f"s3://{bucket.name}/p", root, endpoint=self.s3.proxy.endpoint).close()
            return
        with ml.open(root) as repo:
            getattr(repo, verb)()

    def check(self, root: Path, bucket: Bucket) -> None:
        """A stranger's clone and the repo itself have all there is."""
        with ml.open(root) as made:
            assert_sound(made)
            assert made.read("memories/bot/1") == b"one"
            with ml.clone(f"s3://{bucket.name}/p", f"{root}-look", endpoint=self.s3.proxy.endpoint) as look:
                assert_sound(look)
                assert _everything(look) == _everything(made)


def _everything(repo: Repo) -> list[tuple[str, str]]:
    assert [commit.message for commit in repo.log()].count("commit 3") == 1
    return sorted((path, entry.oid) for path, entry in repo.ls())


@pytest.fixture
def ground(s3: S3, bucket: Bucket, template: Path) -> Iterator[Ground]:
    with fast_folder() as folder:
        yield Ground(folder, s3, template)


def count_requests(ground: Ground, verb: str) -> int:
    root, bucket = ground.begin(verb)
    ground.s3.proxy.forget()
    ground.run(verb, root, bucket)
    return len(ground.s3.proxy.seen)


@pytest.mark.parametrize("verb", ["push", "pull", "clone"])
def test_a_process_killed_at_any_request_loses_nothing_and_goes_on_where_it_was(
    verb: str, ground: Ground, tally: Callable[..., None]
) -> None:
    numbers = range(2, count_requests(ground, verb) + 1, EVERY)
    for number in numbers:
        root, bucket = ground.begin(verb)
        how = DROP if number % 2 else LOSE
        code = ground.kill(verb, root, bucket, lambda at, _method, _path, n=number, how=how: how if at >= n else "")  # type: ignore[misc]
        assert code == KILLED
        before = [one for one in ground.s3.proxy.seen if "/packs/" in one.path and not one.fault]
        ground.s3.proxy.seen = []
        ground.run(verb, root, bucket)
        again = [one for one in ground.s3.proxy.seen if "/packs/" in one.path and one.method in ("GET", "PUT")]
        ground.check(root, bucket)
        moved = Counter(one.path for one in (*before, *again) if one.method == ("PUT" if verb == "push" else "GET"))
        assert sum(moved.values()) - len(moved) <= AT_ONCE, moved
    tally(kills=len(numbers))


def test_a_push_killed_before_its_last_request_sends_no_pack_again(ground: Ground) -> None:
    root, bucket = ground.begin("push")
    is_last: Callable[[int, str, str], str] = lambda _number, method, path: (  # noqa: E731
        DROP if method == "PUT" and path.endswith("/root") else ""
    )
    assert ground.kill("push", root, bucket, is_last) == KILLED
    assert "p/root" not in bucket.files(), "a push that is half done is not seen"
    ground.s3.proxy.forget()
    ground.run("push", root, bucket)
    assert ground.s3.proxy.bytes_to("packs") == 0
    ground.check(root, bucket)
