"""Measures agent memory against its targets, peers beside it where they can be installed, and prints the table.

    python benchmarks/memory.py --scorers FOLDER --keep /dev/shm/memlake-bench --out figures.json
    python benchmarks/memory.py --rows c,d,e          some rows
    python benchmarks/memory.py --quick               a smoke run: 1k and 5k memories, targets not judged

Repos of up to a million memories are filled once (minutes) and kept where --keep says. A report, never a test: a missed
target is printed, not raised.
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
from memory_systems import PACKAGES
from report import Line, markdown, record
from rows_memory import KINDS, ROWS, Bench, commit_of

COLUMNS = ("memlake", "peers")


def main() -> None:
    options = arguments().parse_args()
    unknown = [letter for letter in options.rows.split(",") if letter not in ROWS]
    if unknown:
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory(prefix="memlake-bench-", dir=options.disk) as folder:
        report(options, Path(folder))


def arguments() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {letter}  {says}" for letter, says in KINDS.items())
    parser = argparse.ArgumentParser(description=f"{__doc__}\nrows:\n{listed}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--rows", default=",".join(ROWS), help="of " + ",".join(ROWS))
    add("--quick", action="store_true", help="small sizes, targets not judged")
    add("--scorers", type=Path, help="folder of locomo_retrieval.py and merge_decision.py, for rows a and b")
    add("--data", type=Path, help="the conversations of row a, when not the scorer's own")
    add("--keep", type=Path, help="folder that keeps the filled repos between runs; default: a temporary one")
    add("--disk", help="folder on a disk, for durable writes; default: the temporary folder")
    add("--peers", type=Path, help="run the peers too; folder that keeps their environments")
    add("--only", default=",".join(PACKAGES), help="which peers")
    add("--out", help="write every raw number here as JSON")
    return parser


def report(options: argparse.Namespace, work: Path) -> None:
    bench = prepare(options, work)
    facts = machine(work) | {"commit": commit_of(Path(__file__).parent)}
    lines: list[Line] = []
    for letter in options.rows.split(","):
        print(f"row {letter} ({time.strftime('%H:%M:%S')})", file=sys.stderr, flush=True)
        try:
            lines += ROWS[letter](bench)
        except (CommandFailed, FileNotFoundError) as error:
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
    keep = options.keep.resolve() if options.keep else work / "keep"
    home = work / "home"
    for folder in (keep, home):
        folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "MEMLAKE_AUTHOR_NAME": "bench"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled; a start must not compile it each time
    small = {"sizes": (1_000, 5_000), "store": 5_000, "writes": 500} if options.quick else {}
    scorers = options.scorers.resolve() if options.scorers else None
    peers = options.peers.expanduser().resolve() if options.peers else None
    return Bench(
        keep, work, Place(work, env, 3600), scorers, options.data, peers=peers, only=options.only.split(","), **small
    )


if __name__ == "__main__":
    main()
