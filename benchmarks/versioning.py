"""Measures memlake beside git, DVC and Oxen doing the same work, and prints the table with its targets.

    python benchmarks/versioning.py                  the rows that take minutes
    python benchmarks/versioning.py --rows all       every row; a million commits and a 10 GB file included
    python benchmarks/versioning.py --quick          a smoke run, sizes divided by ten

A report, never a test: a missed target is printed, not raised.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import peers
import rows_files
import rows_inside
from bench import Bench, say, trouble
from measure import CommandFailed, Place, machine
from report import Line, markdown, record

ROWS: dict[str, Callable[[Bench], list[Line]]] = {
    "a": rows_files.row_a,
    "b": rows_files.row_b,
    "c": rows_files.row_c,
    "d": rows_inside.row_d,
    "e": rows_inside.row_e,
    "f": rows_files.row_f,
    "g": rows_files.row_g,
    "h": rows_inside.row_h,
    "i": rows_inside.row_i,
    "j": rows_files.row_j,
    "k": rows_files.row_k,
}
LONG = "ik"


def main() -> None:
    options = arguments().parse_args()
    work = Path(tempfile.mkdtemp(prefix="memlake-bench-", dir=options.work))
    try:
        report(options, work)
    finally:
        if options.keep:
            say(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rows", default="default", help=f"of {','.join(ROWS)}; or all; default: all but {LONG}")
    add("--quick", action="store_true", help="sizes divided by ten, targets not judged")
    add("--work", help="folder to work in, for example /dev/shm; default: the temporary folder")
    add("--peers", default="~/.cache/memlake-bench", help="folder that keeps the environments of the peers")
    add("--only", default="git,DVC,Oxen,memlake", help="tools to run; git and memlake always do")
    add("--heavy-peers", action="store_true", help="peers also where they take minutes: all in row c, Oxen in f and g")
    add("--commits", type=int, default=1_000_000, help="memory-lane commits of row i")
    add("--timeout", type=float, default=900, help="seconds after which one command is given up")
    add("--out", help="write every raw number here as JSON")
    add("--keep", action="store_true", help="leave the work folder behind")
    return parser


def report(options: argparse.Namespace, work: Path) -> None:
    bench = prepare(options, work)
    facts = machine(work) | {tool.name: tool.version for tool in bench.tools}
    lines: list[Line] = []
    for letter in chosen(options.rows):
        say(f"row {letter} ({time.strftime('%H:%M:%S')})")
        try:
            lines += ROWS[letter](bench)
        except CommandFailed as error:
            trouble(bench, f"row {letter}", error)
    print(markdown(lines, judged=not options.quick))
    print("\nCPU seconds, user + system, the best of the rounds; sizes are allocated bytes after a checkpoint.")
    print(" · ".join(f"{name} {value}" for name, value in facts.items()))
    for text in bench.troubles:
        print(f"- not measured: {' '.join(text.split())}")
    if options.out:
        answer = {"machine": facts, "options": vars(options), "lines": [record(line) for line in lines],
                  "troubles": bench.troubles}  # fmt: skip
        Path(options.out).write_text(json.dumps(answer, indent=1, default=str) + "\n")


def prepare(options: argparse.Namespace, work: Path) -> Bench:
    """Find or install the tools and give them a clean home."""
    cache = Path(options.peers).expanduser().resolve()
    wanted = options.only.lower().split(",")
    found = [
        peers.git(),
        peers.dvc(cache) if "dvc" in wanted else None,
        peers.oxen(cache) if "oxen" in wanted else None,
        peers.memlake(),
    ]
    (work / "home").mkdir()
    place = Place(work, peers.environment(work, cache), options.timeout)
    tools = [tool for tool in found if tool]
    return Bench(work, place, tools, 10 if options.quick else 1, options.heavy_peers, options.commits)


def chosen(rows: str) -> list[str]:
    if rows == "all":
        return list(ROWS)
    if rows == "default":
        return [letter for letter in ROWS if letter not in LONG]
    unknown = [letter for letter in rows.split(",") if letter not in ROWS]
    if unknown:
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return rows.split(",")


if __name__ == "__main__":
    main()
