"""`make torture`: the long reliability tests, in parts. A part goes on where it was stopped, and its counts add up.

What every test tried and counted is a line of build/torture/ledger.jsonl. A test that passed is not run again until
its part is complete and is asked for once more (`make torture PART=power AGAIN=1`); then its counts add up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "torture"
LEDGER = FOLDER / "ledger.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- counts: written by `make torture` -->\n", "<!-- end of counts -->\n"


class Part(NamedTuple):
    about: str
    paths: tuple[str, ...]
    jobs: str = "auto"


def _reliability(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/reliability/test_{name}.py" for name in names)


PARTS = {
    "power": Part("power cuts: the disk's image is copied while it is written", _reliability("power"), jobs="0"),
    "kills": Part(
        "kill -9 before every step and at system calls, of processes and of workers",
        _reliability("crash", "sync_kills", "memory_crash", "dataset_crash", "dataset_workers", "dataset_ray"),
    ),
    "faults": Part(
        "I/O errors and a full disk at every step of every verb, a network that fails at random",
        _reliability("faults", "sync_faults", "memory_disk", "dataset_disk", "memory_embedders"),
    ),
    "writers": Part(
        "many processes write at once",
        (
            *_reliability(
                "writers", "sync_pushers", "memory_writers", "dataset_writers", "dataset_memory", "gc", "load"
            ),
            "tests/versions/sync/test_join.py",
        ),
        jobs="0",
    ),
    "flips": Part("flipped bits and damaged files", _reliability("flips", "dataset_damage", "memory_index")),
    "hostile": Part(
        "hostile names, texts, files and repos",
        (
            *_reliability("dataset_inputs", "memory_contents", "bombs", "no_unpickling"),
            *_reliability("hostile_links", "hostile_paths", "hostile_index"),
            "tests/dataset/test_hostile_names.py",
            "tests/cli/test_odd_lines.py",
            "tests/memories/test_sent_repo.py",
        ),
    ),
    "agents": Part("coding agents that are slow to start", ("tests/cli/hook/test_real_clients.py",)),
    "purges": Part("markers that a purge must leave nowhere", _reliability("purge", "markers")),
    "threads": Part("threads that share a repo, ways to end a process, a soak", ("tests/threads",)),
    "laws": Part(
        "random operations beside a plain model",
        (
            "tests/properties",
            "tests/memories/anchors/test_standing.py",
            "tests/versions/sync/test_archive.py",
            "tests/rows/test_compare.py",
            "tests/dataset/test_chain_laws.py",
            "tests/dataset/expressions/test_laws.py",
            "tests/contents/test_documents.py",
            "tests/contents/test_notebooks.py",
        ),
    ),
}


def examples(few: int, many: int = 2000) -> int:
    """How many examples of a law are tried: `few` in CI, `many` here."""
    return many if os.environ.get("MEMLAKE_TORTURE") else few


# -- the ledger -----------------------------------------------------------------------------------


def read_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []


def append_line(line: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with LEDGER.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read_passed(part: str) -> list[str]:
    """Tests of a part that passed since it was last complete."""
    lines = [line for line in read_lines() if line["part"] == part]
    last = max((at for at, line in enumerate(lines) if "complete" in line), default=-1)
    return [line["test"] for line in lines[last + 1 :] if line.get("outcome") == "passed"]


def done_file(part: str) -> Path:
    """What its workers leave out: written before they start, so that all of them leave out the same."""
    return FOLDER / f"done-{part}.json"


class Recorder:
    """A pytest plugin of the process that hears of every test: one line of the ledger for each."""

    def __init__(self, part: str) -> None:
        self.part = part

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            counts: Counter[str] = Counter()
            for name, value in report.user_properties:
                counts[name] += int(str(value))
            append_line(
                {
                    "part": self.part,
                    "test": report.nodeid,
                    "outcome": report.outcome,
                    "counts": counts,
                    "seconds": round(report.duration, 1),
                    "day": _today(),
                }
            )


def add_up(lines: list[dict[str, Any]]) -> dict[str, tuple[Counter[str], str]]:
    """part -> (counts of all its tests that passed, the day of the last)."""
    sums: dict[str, tuple[Counter[str], str]] = {}
    for line in lines:
        if line.get("outcome") == "passed":
            counts, day = sums.get(line["part"], (Counter(), ""))
            counts.update({"tests": 1, **line["counts"]})
            sums[line["part"]] = (counts, max(day, line["day"]))
    return sums


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


# -- the page -------------------------------------------------------------------------------------


def table(lines: list[dict[str, Any]], before: str = "") -> str:
    """The counts of each part; of one that was not run here, what the page had `before`."""
    rows = ["| part | what it does | counts, added up | last run |", "|---|---|---|---|"]
    known = {line.split(" | ")[0]: line for line in before.splitlines()}
    sums, whole = add_up(lines), {line["part"] for line in lines if "complete" in line}
    for name, part in PARTS.items():
        if name not in sums and f"| {name}" in known:
            rows.append(known[f"| {name}"])
            continue
        counts, day = sums.get(name, (Counter(), "not yet"))
        text = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in sorted(counts.items()))
        rows.append(
            f"| {name} | {part.about} | {text or '-'} | {day}{', in part' if counts and name not in whole else ''} |"
        )
    return "\n".join(rows) + "\n"


def write_page(lines: list[dict[str, Any]]) -> None:
    above, _, rest = PAGE.read_text().partition(BEGIN)
    old, _, below = rest.partition(END)
    PAGE.write_text(f"{above}{BEGIN}{table(lines, old)}{END}{below}")


# -- running --------------------------------------------------------------------------------------


def run_part(name: str, *, again: bool) -> int:
    """Run what is left of a part; 0 when all of it has passed."""
    part, passed = PARTS[name], read_passed(name)
    complete = any("complete" in line for line in read_lines() if line["part"] == name)
    if complete and not passed and not again:
        print(f"{name} is complete; to add to its counts: make torture PART={name} AGAIN=1")
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    done_file(name).write_text(json.dumps(passed))
    print(f"{name}: {part.about}" + (f"; {len(passed)} tests passed before" if passed else ""), flush=True)
    command = [sys.executable, "-m", "pytest", "-n", part.jobs, "--timeout=0", "-q", "--durations=5", *part.paths]
    status = subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "MEMLAKE_TORTURE": name}).returncode
    if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        append_line({"part": name, "complete": _today()})
        return 0
    return int(status)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the long reliability tests, all parts or some.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--again", action="store_true", help="run parts that are complete once more")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    failed = [name for name in given.parts or PARTS if run_part(name, again=given.again)]
    write_page(read_lines())
    print(table(read_lines()))
    if failed:
        print(f"failed: {', '.join(failed)}. What passed is kept; the same command goes on from here.")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
