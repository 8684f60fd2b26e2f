"""Whole processes of datasets: a script run twice, files of which some changed, an import, an install."""

from __future__ import annotations

import importlib.metadata
import os
import re
import statistics
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets_fixtures as fixtures
from measure import Cost, Place, allocated, run
from peers import HERE

SLEEPS = """
import os, time
import memlake as ml

def slow(x: int) -> int:
    time.sleep(0.01)
    os.write(CALLS, b".")
    return x + 1

CALLS = os.open({calls!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
made = ml.read_dataset("numbers").settings(threads={threads}).map(y=slow).save("slow")
print(made.count(), made.reused, made.version)
"""
NUMBERS = "import memlake as ml; ml.read_parquet({source!r}).save('numbers')"

READS = """
import os, sys
import memlake as ml

def look(file: ml.TextFile) -> int:
    os.write(CALLS, b".")
    return sum(map(ord, file.read() * 50))

CALLS = os.open({calls!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
made = ml.read_storage({top!r}, type="text").map(told=look).save("read")
wanted = {{}}
for where, _, names in os.walk({top!r}):
    for name in names:
        path = os.path.join(where, name)
        wanted[os.path.relpath(path, os.path.dirname({top!r}))] = sum(map(ord, open(path).read() * 50))
found = made.mutate(path="file.path").select("path", "told").to_list()
print(len(found), dict(found) == wanted and len(found) == len(wanted))
"""


class Script:
    """A script in a repo of its own; its calls are counted by the bytes they write."""

    def __init__(self, folder: Path, place: Place, text: str, **words: Any) -> None:
        self.calls = folder / "calls"
        self.file = folder / "script.py"
        self.place = place.at(folder / "repo")
        run([sys.executable, "-m", "memlake.cli", "init"], self.place)
        self.file.write_text(text.format(calls=str(self.calls), **words))

    def run(self) -> tuple[Cost, int]:
        self.calls.write_bytes(b"")
        cost = run([sys.executable, str(self.file)], self.place)
        return cost, self.calls.stat().st_size


def again(folder: Path, place: Place, count: int, threads: int) -> dict[str, Any]:
    """A function of 10 ms a row, then the same script in new processes."""
    folder.mkdir()
    source = folder / "numbers.parquet"
    fixtures.write(fixtures.table(count).select(["id"]).rename_columns(["x"]), source)
    script = Script(folder, place, SLEEPS, threads=threads)
    run([sys.executable, "-c", NUMBERS.format(source=str(source))], script.place)
    first, calls = script.run()
    assert calls == count, (calls, count)
    runs = [script.run() for _ in range(5)]
    return {
        "first": {"cpu": first.cpu, "wall": first.wall, "calls": calls},
        "cpu": [cost.cpu for cost, _ in runs],
        "wall": [cost.wall for cost, _ in runs],
        "calls": [called for _, called in runs],
        "out": runs[-1][0].out.strip(),
    }


def changed(folder: Path, place: Place, count: int) -> dict[str, Any]:
    """1 % of files changed, ten removed, ten new."""
    folder.mkdir()
    top = fixtures.files(folder, count)
    script = Script(folder, place, READS, top=str(top))
    first, calls = script.run()
    for number in range(0, count, 100):
        fixtures.text(top, number).write_text(f"changed {number}")
    second, some = script.run()
    for number in range(1, 11):
        fixtures.text(top, number).unlink()
        fixtures.text(top, number).with_suffix(".md").write_text(f"new {number}")
    third, few = script.run()
    costs = {"first": first, "changed": second, "moved": third}
    told = {name: {"cpu": cost.cpu, "wall": cost.wall, "out": cost.out.strip()} for name, cost in costs.items()}
    return {**told, "calls": [calls, some, few], "exact": all("True" in cost.out for cost in costs.values())}


IMPORT = "import time; a = time.process_time(); import {name}; print(time.process_time() - a)"


def imported(place: Place, name: str, python: str = sys.executable, rounds: int = 9) -> dict[str, float]:
    """CPU of an import in a new process."""
    costs = [run([python, "-c", IMPORT.format(name=name)], place) for _ in range(rounds)]
    inner = [float(cost.out) for cost in costs]
    return {"least": min(inner), "median": statistics.median(inner), "whole": min(cost.cpu for cost in costs)}


def installed() -> dict[str, int]:
    """Bytes of memlake, of all it needs without extras, and of the local model, as du counts; the heaviest first."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    names = {"memlake-minilm"}
    for text in project["dependencies"]:
        names |= _needed(_name(text))
    weights = {name: _weight(name) for name in sorted(names)}
    weights["memlake"] = allocated(HERE.parent / "src/memlake")
    return dict(sorted(weights.items(), key=lambda one: -one[1]))


def _needed(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """A package and everything it needs here, without extras."""
    seen |= {name}
    for text in importlib.metadata.requires(name) or []:
        found = _name(text)
        if "extra ==" not in text and found not in seen and _here(found):
            seen = _needed(found, seen)
    return seen


def _name(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[(]", requirement)[0].lower().replace("_", "-")


def _here(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:  # meant for other systems or Pythons
        return False


def _weight(name: str) -> int:
    """Of the files a package put beside others, and of the folders these are in."""
    found = importlib.metadata.distribution(name)
    paths = {os.path.realpath(str(one.locate())) for one in found.files or []}
    top = os.path.realpath(str(found.locate_file("")))
    inside = {parent for path in paths for parent in map(str, Path(path).parents) if parent.startswith(f"{top}/")}
    return sum(os.lstat(path).st_blocks * 512 for path in {*paths, *inside} if os.path.exists(path))


def site_packages(python: Path) -> int:
    """Bytes of an environment's packages, without the tools that installed them."""
    top = next(python.parent.parent.glob("lib/python*/site-packages"))
    tools = [one.name for one in top.iterdir() if re.match(r"(pip|setuptools|pkg_resources|_distutils)", one.name)]
    return allocated(top) - sum(allocated(top, [name]) for name in tools)


def shown(weights: Mapping[str, int], least: int = 1 << 20) -> str:
    """What weighs what."""
    told = [f"{name} {size / 2**20:.1f}" for name, size in weights.items() if size >= least]
    rest = sum(size for size in weights.values() if size < least)
    return ", ".join(told) + f", {sum(size < least for size in weights.values())} others {rest / 2**20:.1f}"
