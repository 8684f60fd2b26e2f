"""What the commands that measure row by row share: which rows, one after the other, and the table of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from measure import CommandFailed, machine
from report import Line, markdown, record


class Bench(Protocol):
    troubles: list[str]


Rows = Mapping[str, Callable[[Any], Sequence[Line]]]


def parser(told: str | None, kinds: Mapping[str, str]) -> argparse.ArgumentParser:
    """The options of all of them."""
    listed = "\n".join(f"  {letter}  {says}" for letter, says in kinds.items())
    made = argparse.ArgumentParser(description=f"{told}\nrows:\n{listed}",
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--rows", default=",".join(kinds), type=_chosen(kinds), help="of " + ",".join(kinds))
    made.add_argument("--quick", action="store_true", help="small sizes, targets not judged")
    made.add_argument("--out", help="write every raw number here as JSON")
    return made


def _chosen(kinds: Mapping[str, str]) -> Callable[[str], list[str]]:
    def letters(text: str) -> list[str]:
        unknown = [letter for letter in text.split(",") if letter not in kinds]
        if unknown:
            raise argparse.ArgumentTypeError(f"no row {', '.join(unknown)}; there are {', '.join(kinds)}")
        return text.split(",")

    return letters


def report(options: argparse.Namespace, bench: Bench, rows: Rows, columns: Sequence[str], work: Path) -> None:
    facts = machine(work) | {"commit": _commit_of(Path(__file__).parent)}
    lines: list[Line] = []
    for letter in options.rows:
        load = os.getloadavg()[0]
        print(f"row {letter} ({time.strftime('%H:%M:%S')}, load {load:.1f})", file=sys.stderr, flush=True)
        try:
            lines += rows[letter](bench)
        except (CommandFailed, FileNotFoundError) as error:
            bench.troubles.append(f"row {letter}: {error}")
    print(markdown(lines, judged=not options.quick, columns=columns))
    print("\nload at the end:", " ".join(f"{load:.1f}" for load in os.getloadavg()))
    print(" · ".join(f"{name} {value}" for name, value in facts.items()))
    for text in bench.troubles:
        print(f"- not measured: {' '.join(text.split())}")
    if options.out:
        answer = {"machine": facts, "lines": [record(one) for one in lines], "troubles": bench.troubles}
        Path(options.out).write_text(json.dumps(answer, indent=1, default=str) + "\n")


def environment(home: Path) -> dict[str, str]:
    """The environment of what is measured: nobody's settings, and compiled modules as after an install."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "MEMLAKE_AUTHOR_NAME": "bench"}


def _commit_of(folder: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
