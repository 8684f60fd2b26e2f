"""Many processes push to one bucket at once, each its own branch: none is lost, and none sees an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import memlake as ml
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, put, python
from tests.servers import S3, Bucket

PUSHERS, PUSHES = (8, 12) if TORTURE else (3, 4)
CHILD = """
import sys
from pathlib import Path
import memlake as ml
number, pushes, root, url, endpoint = sys.argv[1:]
with ml.clone(url, root, endpoint=endpoint) as repo:
    print("ready", flush=True)
    sys.stdin.readline()
    repo.switch(f"b{number}", create=True)
    for at in range(int(pushes)):
        (Path(root) / f"{number}.txt").write_text(f"{number} {at}")
        repo.add(all=True)
        repo.commit(f"{number} {at}")
        repo.push()
"""


def test_of_many_who_push_at_once_none_is_lost_and_none_sees_an_error(s3: S3, bucket: Bucket) -> None:
    url, endpoint = f"s3://{bucket.name}/p", s3.proxy.endpoint
    with fast_folder() as folder:
        with ml.init(folder / "ours") as ours:
            put(ours.root, "base.txt", "base")
            ours.add(all=True)
            ours.commit("base")
            ours.remotes.add("origin", url, endpoint=endpoint)
            ours.push()
        pushers = [_start(folder, number, url, endpoint) for number in range(PUSHERS)]
        for pusher in pushers:
            assert pusher.stdout is not None and pusher.stdout.readline() == "ready\n"
        for pusher in pushers:
            assert pusher.stdin is not None
            pusher.stdin.write("go\n")
            pusher.stdin.flush()
        ends = [(pusher.communicate()[1], pusher.returncode) for pusher in pushers]
        assert ends == [("", 0)] * PUSHERS
        with ml.clone(url, folder / "look", endpoint=endpoint) as look:
            assert_sound(look)
            for number in range(PUSHERS):
                told = [commit.message for commit in look.log(f"origin/b{number}")]
                assert told == [f"{number} {at}" for at in reversed(range(PUSHES))] + ["base"]


def _start(folder: Path, number: int, url: str, endpoint: str) -> subprocess.Popen[str]:
    words = ("-c", CHILD, str(number), str(PUSHES), str(folder / f"clone-{number}"), url, endpoint)
    return python(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
