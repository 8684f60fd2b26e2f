"""Two versions of memlake beside each other: the same work in turns, CPU of whole processes, the least of the rounds.

    python benchmarks/compare.py OLD/src NEW/src --work /dev/shm/compare --rounds 9

Both run with the Python that runs this, compiled, each in repos of its own.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from generate import spread
from measure import Place, run

MAIN = "import sys; from memlake.cli.main import main; sys.exit(main())"
# In process: what a snippet prints is its CPU in seconds.
STORE = """import time, memlake as ml
agent = ml.Agent('.', agent_id='a')
costs = []
for n in range(120):
    began = time.process_time()
    agent.store_memory(f'the build of part {n} takes {n * 7} minutes on machine {n % 13}')
    costs.append(time.process_time() - began)
print(sorted(costs[20:])[50])
"""
SEARCH = """import time, memlake as ml
agent = ml.Agent('.', agent_id='a')
agent.search_memory('part 3', 10, mode='keyword')
costs = []
for n in range(60):
    best = []
    for _ in range(3):
        began = time.process_time()
        agent.search_memory(f'which machine builds part {n * 11}', 10, mode='keyword')
        best.append(time.process_time() - began)
    costs.append(min(best))
print(sorted(costs)[30])
"""
FILL = """import memlake as ml
agent = ml.Agent('.', agent_id='a')
with ml.open('.').transaction('fill'):
    for n in range(5000):
        agent.store_memory(f'memory {n}: the build of part {n} takes {n * 7 % 97} minutes on machine {n % 13}')
"""
SAVE = """import time, memlake as ml
def double(x: int) -> int:
    return x * 2
ml.read_values(x=[1]).map(y=double).save('warm')
ml.read_values(x=[1]).save('warm2')
began = time.process_time()
{work}
print(time.process_time() - began)
"""
PARQUET = "ml.read_parquet('../rows/rows.parquet').save('rows')"
MAP = "ml.read_values(x=list(range(100_000))).map(y=double).save('mapped')"


class Version:
    """One source tree, compiled, and the folder in which it works."""

    def __init__(self, name: str, source: Path, work: Path) -> None:
        self.name, self.work = name, work / name
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(source / "memlake", self.work / "code/memlake", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self.work / "code", quiet=1)
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        author = {"MEMLAKE_AUTHOR_NAME": "a", "MEMLAKE_AUTHOR_EMAIL": "a@b"}
        self.env = {**kept, **author, "PYTHONPATH": str(self.work / "code"), "XDG_DATA_HOME": str(self.work / "data")}

    def cli(self, repo: str, *args: str) -> float:
        return run([sys.executable, "-c", MAIN, *args], Place(self.work / repo, self.env)).cpu

    def whole(self, repo: str, code: str) -> float:
        return run([sys.executable, "-c", code], Place(self.work / repo, self.env)).cpu

    def inside(self, repo: str, code: str) -> float:
        return float(run([sys.executable, "-c", code], Place(self.work / repo, self.env)).out.split()[-1])


def write_files(folder: Path, numbers: range | list[int], salt: int = 0) -> None:
    for number in numbers:
        path = folder / f"data/{number // 100:03d}/{number:05d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((b"%d %d " % (number, salt)) * 400)


def prepare(version: Version) -> None:
    """Repos of each version: 10k files with two branches, an empty one, 5k memories, datasets."""
    for name in ("files", "empty", "memories", "rows"):
        (version.work / name).mkdir()
        version.cli(name, "init")
    version.cli("memories", "config", "embedding.provider", "none")
    version.whole("memories", FILL)
    files = version.work / "files"
    write_files(files, range(10_000))
    version.cli("files", "add", ".")
    version.cli("files", "commit", "-m", "all")
    for salt, branch in ((1, "left"), (2, "right"), (3, "other")):
        version.cli("files", "switch", "-c", branch, "main")
        write_files(files, range(10_000) if salt == 3 else spread(100, 10_000, salt), salt)
        version.cli("files", "add", ".")
        version.cli("files", "commit", "-m", branch)
    version.cli("files", "switch", "main")
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    columns = {f"c{n}": random.integers(0, 1000, 1_000_000) for n in range(4)} | {"s": random.random(1_000_000)}
    pq.write_table(pa.table(columns), version.work / "rows/rows.parquet")


def add_and_commit(version: Version, number: int) -> float:
    shutil.rmtree(version.work / "fresh", ignore_errors=True)
    write_files(version.work / "fresh", range(10_000), number)
    version.cli("fresh", "init")
    return version.cli("fresh", "add", ".") + version.cli("fresh", "commit", "-m", "all")


def merge(version: Version, number: int) -> float:
    version.cli("files", "switch", "left")
    version.cli("files", "switch", "-c", f"merged-{number}")
    cost = version.cli("files", "merge", "right")
    version.cli("files", "switch", "main")
    return cost


def save(version: Version, number: int, code: str) -> float:
    """CPU of a save in process, the modules loaded, in a repo of its own, so that nothing is remembered."""
    repo = f"saved-{number}-{len(code)}"
    (version.work / repo).mkdir()
    version.cli(repo, "init")
    # A file, since a function whose source cannot be read has no fingerprint.
    (version.work / repo / "job.py").write_text(SAVE.format(work=code))
    return float(run([sys.executable, "job.py"], Place(version.work / repo, version.env)).out.split()[-1])


ROWS: dict[str, Callable[[Version, int], float]] = {
    "`import memlake`": lambda v, _: v.whole("empty", "import memlake"),
    "`memlake --help`": lambda v, _: v.cli("empty", "--help"),
    "`memlake status`, empty": lambda v, _: v.cli("empty", "status"),
    "`memlake status`, 10k clean files": lambda v, _: v.cli("files", "status"),
    "`memlake log -n 3`": lambda v, _: v.cli("files", "log", "-n", "3"),
    "`memlake branch NAME`": lambda v, n: v.cli("files", "branch", f"b{n}"),
    "`memlake merge`, 100 + 100 of 10k files": merge,
    "`memlake remember`, cold": lambda v, n: v.cli("memories", "remember", f"the team meets at {n} on Mondays"),
    "`memlake recall`, cold": lambda v, _: v.cli("memories", "recall", "when does the team meet"),
    "store of a memory at 5k, in process, p50": lambda v, _: v.inside("memories", STORE),
    "search at 5k, words, in process, p50": lambda v, _: v.inside("memories", SEARCH),
    "read_values + map + save, 100k rows": lambda v, n: save(v, n, MAP),
    "read_parquet + save, 1M x 5": lambda v, n: save(v, n, PARQUET),
    "add + commit 10k files of 4 KB": add_and_commit,
    "switch, all of 10k files differ": lambda v, n: v.cli("files", "switch", "main" if n % 2 else "other"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("sources", nargs=2, type=Path, metavar="SOURCE")
    options.add_argument("--work", type=Path, required=True)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--rows", default="", help="only rows whose names hold one of these texts")
    given = options.parse_args()
    versions = [
        Version(name, source, given.work) for name, source in zip(("before", "now"), given.sources, strict=True)
    ]
    for version in versions:
        prepare(version)
    print("| work | before | now | now / before |\n|---|---|---|---|")
    for name, work in ROWS.items():
        if not any(text in name for text in given.rows.split(",")):
            continue
        rounds = max(2, given.rounds // 3) if name.startswith(("add", "switch", "read_parquet")) else given.rounds
        costs: list[list[float]] = [[], []]
        for number in range(rounds):
            for version, taken in zip(versions, costs, strict=True):
                taken.append(work(version, number))
        before, now = (min(taken) * 1e3 for taken in costs)
        print(f"| {name} | {before:.1f} ms | {now:.1f} ms | {now / before:.2f} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}, {time.strftime('%H:%M')}")


if __name__ == "__main__":
    main()
