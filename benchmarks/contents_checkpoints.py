"""Two checkpoints of 1 GiB of which 1 % of the tensors differ: bytes read, memory and CPU of their diff.

python benchmarks/contents_checkpoints.py [--megabytes 1024] [--work FOLDER]

Each diff runs in a process of its own: its peak memory is then its own, with Python and every module in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import memlake as ml
from memlake.contents import checkpoints
from memlake.contents.content import Content, open_file, open_stored
from memlake.contents.explain import How

SIDE = 1024  # values of a row and of a column of a tensor: 4 MiB each
PARTS = ("q", "k", "v", "o", "up", "down", "gate", "norm")


def write_checkpoint(file: Path, tensors: int, changed: range | tuple[()]) -> None:
    """A safetensors file of random tensors, some of them moved a little; one of these by a change of low rank."""
    size = SIDE * SIDE * 4
    names = [f"model.layers.{number // len(PARTS)}.{PARTS[number % len(PARTS)]}.weight" for number in range(tensors)]
    facts = {
        name: {"dtype": "F32", "shape": [SIDE, SIDE], "data_offsets": [number * size, (number + 1) * size]}
        for number, name in enumerate(names)
    }
    header = json.dumps(facts).encode()
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(header)) + header)
        for number in range(tensors):
            values = np.random.default_rng(number).standard_normal((SIDE, SIDE), dtype=np.float32)
            if number in changed:
                rng, rank = np.random.default_rng(-number - 1 & 0xFFFF), 8 if number == changed[0] else SIDE
                low = rng.standard_normal((SIDE, rank), dtype=np.float32)
                values += 0.01 * (low @ rng.standard_normal((rank, SIDE), dtype=np.float32)) / rank**0.5
            out.write(values.tobytes())


def open_sides(root: Path, repo: ml.Repo, what: str) -> tuple[Content, Content]:
    objects, (new, old) = repo._history.objects, list(repo.log())
    before = open_stored(objects, "m.safetensors", repo.objects.at("m.safetensors", old.oid))
    if what == "working file":
        return before, open_file("m.safetensors", root / "m.safetensors")
    return before, open_stored(objects, "m.safetensors", repo.objects.at("m.safetensors", new.oid))


def measure(root: Path, what: str) -> None:
    """One diff, in this process; prints what it took."""
    with ml.open(root) as repo:
        old, new = open_sides(root, repo, what)
        begin = time.process_time()
        found = checkpoints.diff(old, new, How())
        took = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({
        "diff of two commits" if what == "commits" else "diff of a commit and the working file": {
            "CPU s": round(took, 2), "MB of memory": peak,
            "MB read of both sides": round((old.bytes_read + new.bytes_read) / (1 << 20), 1),
            "tensors changed": found.changed_count, "of low rank": sum(bool(one.rank) for one in found.changed),
            "identical": found.identical,
        }
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--work", default=None)
    parser.add_argument("--measure", nargs=2, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(Path(given.measure[0]), given.measure[1])
        return
    os.environ.update(MEMLAKE_AUTHOR_NAME="Ada", MEMLAKE_AUTHOR_EMAIL="ada@example.org")
    tensors = given.megabytes // 4
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        root = Path(folder)
        with ml.init(root) as repo:
            for changed in ((), range(tensors // 3, tensors // 3 + max(tensors // 100, 1))):
                write_checkpoint(root / "m.safetensors", tensors, changed)
                repo.add(root / "m.safetensors")
                repo.commit("a checkpoint")
        for what in ("commits", "working file"):
            subprocess.run([sys.executable, __file__, "--measure", folder, what], check=True)


if __name__ == "__main__":
    main()
