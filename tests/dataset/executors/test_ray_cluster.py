"""Ray: a real cluster of two nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from memlake.dataset.executors import choose, ray
from memlake.errors import Unavailable

SOURCE = Path(__file__).resolve().parents[3] / "src"

# Health checks of half a second: by default Ray takes half a minute to believe that a node is gone.
SCRIPT = """
import json, os, time
from ray.cluster_utils import Cluster
import pyarrow as pa
from memlake.dataset.executors import ray
import ray as library
import memlake as ml

health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 500,
          "health_check_failure_threshold": 3}
node = {"num_cpus": 2, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False, "_system_config": health})
second = [cluster.add_node(**node)]
on_ray = ray(cluster.address)
factor = 3

def triple(table):
    time.sleep(0.3)
    return table.num_rows * factor, library.get_runtime_context().get_node_id()

class Opened:
    times = 0
    def open(self):
        self.times += 1
    def __call__(self, table):
        return (*triple(table), self.times)
    def close(self):
        pass

def run(work):
    # Until the second node has done an item; then it is killed, and a dozen items more come.
    table, pulled, here = pa.table({"n": range(5000)}), 0, library.get_runtime_context().get_node_id()
    def items():
        nonlocal pulled
        more = 12
        while second or (more := more - 1) >= 0:
            yield table.slice(0, pulled)
            pulled += 1
    found, most = [], 0
    for index, result in on_ray.map(work, items()):
        found.append((index, *result))
        most = max(most, pulled + 1 - len(found))
        if second and result[1] != here:
            cluster.remove_node(second.pop(), allow_graceful=False)
    return {"found": found, "most": most, "alive": len([n for n in library.nodes() if n["Alive"]])}

told = {"tasks": run(triple)}
second.append(cluster.add_node(**node))
told["actors"] = run(Opened())
try:
    list(on_ray.map(lambda item: 1 / item, [1, 0]))
except ZeroDivisionError as error:
    told["error"] = error.__notes__[0]
class Bearing:
    bears_loss = True
    def __call__(self, item):
        return os._exit(7) if item == 1 else item
class Bearing_opened(Bearing):
    open = close = lambda self: None
for work in (Bearing, Bearing_opened):
    told[work.__name__] = [str(result) for _, result in sorted(on_ray.map(work(), range(3)), key=lambda one: one[0])]
repo = ml.init("repo")
made = repo.datasets().read_values(x=list(range(40))).settings(engine="ray").map(y=lambda x: x * factor).save("made")
told["chain"] = made.to_values("y")
repo.close()
library.shutdown()
cluster.shutdown()
print(json.dumps(told))
"""


def wait_until_gone(mark: str, seconds: float) -> list[psutil.Process]:
    """The processes with this mark in their environment that are left after so many seconds."""
    until = time.monotonic() + seconds
    while (left := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RAY_TEST_MARK") == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def cluster() -> Iterator[tuple[str, dict[str, str]]]:
    """The mark and the environment of a cluster; none of its processes or files outlives it."""
    # Ray's sockets lie in its folder, and the path of a socket has 107 bytes at most: pytest's folders are too deep.
    mark, folder = uuid4().hex, tempfile.mkdtemp(prefix="mlray")
    ours = {"RAY_TMPDIR": folder, "RAY_TEST_MARK": mark, "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        yield mark, os.environ | ours
    finally:
        for process in _marked(mark):
            os.kill(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def check(told: dict) -> None:
    """Every item once, a few in flight, and the loss was one."""
    found = sorted((index, rows) for index, rows, *_ in told["found"])
    assert found == [(number, 3 * number) for number in range(len(found))]
    assert len(found) > 12 and told["most"] <= 8
    assert len({node for _, _, node, *_ in told["found"]}) == 2 and told["alive"] == 1


def test_every_item_is_yielded_once_although_a_node_was_lost(here: Path) -> None:
    # One test, not several over one fixture: tests of a file run in several processes, each with a cluster.
    with cluster() as (mark, environment):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        check(told["tasks"])
        check(told["actors"])
        assert {times for *_, times in told["actors"]["found"]} == {1}, "opened once in each actor"
        assert "In a worker process" in told["error"] and "ZeroDivisionError" in told["error"]
        for name in ("Bearing", "Bearing_opened"):
            first, lost, last = told[name]
            assert (first, last) == ("0", "2") and lost.startswith("Lost(how='was lost by Ray (")
        assert told["chain"] == [3 * number for number in range(40)]
        assert wait_until_gone(mark, 100) == []


def test_without_the_extra_ray_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Unavailable, match=r"(?s)Ray is not installed.*pip install 'memlake\[ray\]'"):
        ray()
    with pytest.raises(Unavailable, match="Ray is not installed"):
        choose(2, "ray")
