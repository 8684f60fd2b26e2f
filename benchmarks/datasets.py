"""Measures datasets against their targets, the same by hand and DataChain beside us, and prints the table.

    python benchmarks/datasets.py --out figures.json                  ours and by hand
    python benchmarks/datasets.py --peers ~/.cache/memlake-bench      DataChain too, in an environment of its own
    python benchmarks/datasets.py --rows a,b          some rows
    python benchmarks/datasets.py --quick             a smoke run: sizes divided by ten, targets not judged

A report, never a test: a missed target is printed, not raised.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from measure import CommandFailed, Place, machine
from report import Line, markdown, record
from rows_datasets import KINDS, ROWS, Bench
from rows_memory import commit_of

COLUMNS = ("by hand", "DataChain", "memlake")
QUICK = {"rows": 100_000, "values": 10_000, "vectors": 10_000, "files": 10_000, "slow": 1000, "some": 1000, "rounds": 2}


def main() -> None:
    options = arguments().parse_args()
    unknown = [letter for letter in options.rows.split(",") if letter not in ROWS]
    if unknown:
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory(prefix="memlake-bench-", dir=options.work) as folder:
        report(options, Path(folder))


def arguments() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {letter}  {says}" for letter, says in KINDS.items())
    parser = argparse.ArgumentParser(description=f"{__doc__}\nrows:\n{listed}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--rows", default=",".join(ROWS), help="of " + ",".join(ROWS))
    add("--quick", action="store_true", help="small sizes, targets not judged")
    add("--work", help="folder to work in; default: the temporary folder")
    add("--peers", type=Path, help="run DataChain too; folder that keeps its environment")
    add("--out", help="write every raw number here as JSON")
    return parser


def report(options: argparse.Namespace, work: Path) -> None:
    bench = prepare(options, work)
    facts = machine(work) | {"commit": commit_of(Path(__file__).parent)}
    lines: list[Line] = []
    for letter in options.rows.split(","):
        load = os.getloadavg()[0]
        print(f"row {letter} ({time.strftime('%H:%M:%S')}, load {load:.1f})", file=sys.stderr, flush=True)
        try:
            lines += ROWS[letter](bench)
        except CommandFailed as error:
            bench.troubles.append(f"row {letter}: {error}")
    print(markdown(lines, judged=not options.quick, columns=COLUMNS))
    print("\nload at the end:", " ".join(f"{load:.1f}" for load in os.getloadavg()))
    print(" · ".join(f"{name} {value}" for name, value in facts.items()))
    for text in bench.troubles:
        print(f"- not measured: {' '.join(text.split())}")
    if options.out:
        answer = {"machine": facts, "lines": [record(one) for one in lines], "troubles": bench.troubles}
        Path(options.out).write_text(json.dumps(answer, indent=1, default=str) + "\n")


def prepare(options: argparse.Namespace, work: Path) -> Bench:
    home = work / "home"
    home.mkdir()
    kept = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }  # as after an install
    env = {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "MEMLAKE_AUTHOR_NAME": "bench"}
    peers = options.peers.expanduser().resolve() if options.peers else None
    return Bench(work, Place(work, env, 1800), peers, **(QUICK if options.quick else {}))


if __name__ == "__main__":
    main()
