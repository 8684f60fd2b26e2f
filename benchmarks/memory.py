"""Measures agent memory against its targets, peers beside it where they can be installed, and prints the table.

    python benchmarks/memory.py --scorers FOLDER --keep /dev/shm/memlake-bench --out figures.json
    python benchmarks/memory.py --rows c,d,e          some rows
    python benchmarks/memory.py --quick               a smoke run: 1k and 5k memories, targets not judged

Repos of up to a million memories are filled once (minutes) and kept where --keep says. A report, never a test: a missed
target is printed, not raised.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import rowwise
from measure import Place
from memory_systems import PACKAGES
from rows_memory import KINDS, ROWS, Bench

COLUMNS = ("memlake", "peers")


def main() -> None:
    options = arguments().parse_args()
    with tempfile.TemporaryDirectory(prefix="memlake-bench-", dir=options.disk) as folder:
        rowwise.report(options, prepare(options, Path(folder)), ROWS, COLUMNS, Path(folder))


def arguments() -> argparse.ArgumentParser:
    parser = rowwise.parser(__doc__, KINDS)
    add = parser.add_argument
    add("--scorers", type=Path, help="folder of locomo_retrieval.py and merge_decision.py, for rows a and b")
    add("--data", type=Path, help="the conversations of row a, when not the scorer's own")
    add("--keep", type=Path, help="folder that keeps the filled repos between runs; default: a temporary one")
    add("--disk", help="folder on a disk, for durable writes; default: the temporary folder")
    add("--peers", type=Path, help="run the peers too; folder that keeps their environments")
    add("--only", default=",".join(PACKAGES), help="which peers")
    return parser


def prepare(options: argparse.Namespace, work: Path) -> Bench:
    keep = options.keep.resolve() if options.keep else work / "keep"
    keep.mkdir(parents=True, exist_ok=True)
    small = {"sizes": (1_000, 5_000), "store": 5_000, "writes": 500} if options.quick else {}
    scorers = options.scorers.resolve() if options.scorers else None
    peers = options.peers.expanduser().resolve() if options.peers else None
    place = Place(work, rowwise.environment(work / "home"), 3600)
    return Bench(keep, work, place, scorers, options.data, peers=peers, only=options.only.split(","), **small)


if __name__ == "__main__":
    main()
