"""Measures datasets against their targets, the same by hand and DataChain beside us, and prints the table.

    python benchmarks/datasets.py --out figures.json                  ours and by hand
    python benchmarks/datasets.py --peers ~/.cache/memlake-bench      DataChain too, in an environment of its own
    python benchmarks/datasets.py --rows a,b          some rows
    python benchmarks/datasets.py --quick             a smoke run: sizes divided by ten, targets not judged

A report, never a test: a missed target is printed, not raised.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import rowwise
from measure import Place
from rows_datasets import KINDS, ROWS, Bench

COLUMNS = ("by hand", "DataChain", "memlake")
QUICK = {"rows": 100_000, "values": 10_000, "vectors": 10_000, "files": 10_000, "slow": 1000, "some": 1000, "rounds": 2}


def main() -> None:
    options = arguments().parse_args()
    with tempfile.TemporaryDirectory(prefix="memlake-bench-", dir=options.work) as folder:
        rowwise.report(options, prepare(options, Path(folder)), ROWS, COLUMNS, Path(folder))


def arguments() -> argparse.ArgumentParser:
    parser = rowwise.parser(__doc__, KINDS)
    parser.add_argument("--work", help="folder to work in; default: the temporary folder")
    parser.add_argument("--peers", type=Path, help="run DataChain too; folder that keeps its environment")
    return parser


def prepare(options: argparse.Namespace, work: Path) -> Bench:
    peers = options.peers.expanduser().resolve() if options.peers else None
    place = Place(work, rowwise.environment(work / "home"), 1800)
    return Bench(work, place, peers, **(QUICK if options.quick else {}))


if __name__ == "__main__":
    main()
