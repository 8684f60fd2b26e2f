"""Two sets of 100,000 vectors of 384 numbers: CPU of their diff, merge and plot, beside a few lines of numpy by hand.

python benchmarks/contents_embeddings.py [--vectors 100000] [--width 384] [--rounds 3] [--work FOLDER]

Each contestant runs in a process of its own, imports included, in turns; the least CPU of the rounds counts, since load
only ever adds. `by hand` loads both matrices and takes the cosine of each pair: no ids, neighbours or rotation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HAND = """
import sys, numpy as np
old, new = np.load(sys.argv[1])["v"], np.load(sys.argv[2])["v"]
cosine = np.einsum("ij,ij->i", old, new) / np.linalg.norm(old, axis=1) / np.linalg.norm(new, axis=1)
print(np.quantile(1 - cosine, [0.5, 0.9, 1.0]))
"""
OURS = """
import sys
from pathlib import Path
from memlake import config
config.one_thread_of_algebra()
from memlake.contents import embeddings
from memlake.contents.content import open_file
from memlake.contents.explain import How
from memlake.contents.merged import MergeHow
verb, *files = sys.argv[1:]
sides = [open_file(Path(file).name, Path(file)) for file in files]
if verb == "merge":
    print(len(embeddings.merge(*sides, MergeHow()).data))
elif verb == "sketch":
    print(len(embeddings.sketch(*sides, How()).stayed))
else:
    print(embeddings.diff(*sides, How()).moved)
"""


def make_files(folder: Path, count: int, width: int) -> None:
    random = np.random.default_rng(0)
    base = random.standard_normal((count, width), dtype=np.float32)
    ids = np.array([f"e{number}" for number in range(count)])
    few = random.choice(count, 2000, replace=False) if count >= 2000 else np.arange(count)
    turn = np.linalg.qr(random.standard_normal((width, width)))[0].astype(np.float32)
    sides = {
        "base": base,
        "noise": base + 0.1 * random.standard_normal(base.shape, dtype=np.float32),
        "rotated": base @ turn,
    }
    for name, rows in (("ours", few[::2]), ("theirs", few[1::2])):
        sides[name] = base.copy()
        sides[name][rows] += 0.1
    for name, matrix in sides.items():
        np.savez(folder / f"{name}.npz", ids=ids, v=matrix)


def measure(*command: str) -> tuple[float, int]:
    """CPU seconds of a process, and its peak memory in MiB."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[2:]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make_files(given.make, given.vectors, given.width)
        return
    with tempfile.TemporaryDirectory(dir=given.work) as name:
        folder = Path(name)
        making = [sys.executable, __file__, "--make", name, f"--vectors={given.vectors}", f"--width={given.width}"]
        subprocess.run(making, check=True)  # apart: the peak of a child begins with what its parent holds
        files = {side: str(folder / f"{side}.npz") for side in ("base", "ours", "theirs", "noise", "rotated")}
        rows = {
            "diff, 1,000 moved": ("-c", OURS, "diff", files["base"], files["ours"]),
            "diff, all moved": ("-c", OURS, "diff", files["base"], files["noise"]),
            "diff, rotated": ("-c", OURS, "diff", files["base"], files["rotated"]),
            "by hand, all moved": ("-c", HAND, files["base"], files["noise"]),
            "merge, 1,000 + 1,000 moved": ("-c", OURS, "merge", files["base"], files["ours"], files["theirs"]),
            "map for --plot, all moved": ("-c", OURS, "sketch", files["base"], files["noise"]),
        }
        figures: dict[str, list[tuple[float, int]]] = {work: [] for work in rows}
        for _ in range(given.rounds):
            for work, command in rows.items():
                figures[work].append(measure(*command))
    for work, taken in figures.items():
        seconds, peak = min(taken)
        print(json.dumps({"work": work, "cpu_s": round(seconds, 2), "peak_mib": peak}))


if __name__ == "__main__":
    main()
