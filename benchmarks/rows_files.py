"""The rows measured as processes over working files: a, b, c, f, g, j, k. Each returns lines of the table."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import Bench, Samples, best, cells, fresh, raw, record_small, rounds, say, small_repos, stored
from generate import binary, edited, files, sparse, spread
from measure import Cost, Place, run
from peers import Tool
from report import MB, Check, Line, seconds, size


def row_a(bench: Bench) -> list[Line]:
    """add + commit of 10k small files, start-up of both processes counted."""
    taken = rounds(bench, bench.tools, 3, lambda tool, _: record_small(bench, tool))
    cpu = best(taken)
    checks = [Check("CPU", cpu["memlake"], 1.7)] if "memlake" in cpu else []
    if checks and "git" in cpu:
        checks.append(Check("CPU beside half of git's", cpu["memlake"], cpu["git"] / 2))
    sizes = {name: float(value) for name, value in bench.sizes.items()}
    kept = [Check("stored", sizes["memlake"], 45 * MB)] if "memlake" in sizes else []
    data = bench.small * 4096
    return [
        Line(f"a. add + commit {bench.small:,} files of 4 KB", cells(cpu, seconds), "<= 1.7 CPU s and half of git's",
             checks, raw(taken)),
        Line(f"a. stored for {size(data)}, after checkpoint", cells(sizes, size), "<= 45 MB", kept, sizes),
    ]  # fmt: skip


def row_b(bench: Bench) -> list[Line]:
    """status with nothing changed."""
    places = small_repos(bench, bench.tools)
    taken = rounds(bench, _in(bench, places), 5, lambda tool, _: tool.do("status", places[tool.name]))
    cpu = best(taken)
    checks = [Check("CPU", cpu["memlake"], 0.15)] if "memlake" in cpu else []
    work = f"b. status, nothing changed, {bench.small:,} files"
    return [Line(work, cells(cpu, seconds), "<= 0.15 CPU s with start-up", checks, raw(taken))]


def row_c(bench: Bench) -> list[Line]:
    """A large binary and its second version."""
    mebibytes = 1024 // bench.divide
    tools = bench.tools if bench.heavy else [bench.tool("memlake")]
    first, second = bench.work / "v1.bin", bench.work / "v2.bin"
    say(f"  generating {mebibytes} MiB twice ...")
    binary(first, mebibytes)
    edited(first, second)
    sizes: dict[str, list[int]] = {}
    one: Samples = {}
    two: Samples = {}

    def both(tool: Tool, _: int) -> Cost:
        place = fresh(bench, "big", tool)
        size0 = stored(tool, place.folder)
        one.setdefault(tool.name, []).append(_record_big(tool, place, first))
        size1 = stored(tool, place.folder)
        cost = _record_big(tool, place, second)
        two.setdefault(tool.name, []).append(cost)
        sizes[tool.name] = [size1 - size0, stored(tool, place.folder) - size1]
        shutil.rmtree(place.folder, ignore_errors=True)
        return cost

    rounds(bench, tools, 1, both)
    # The peers take a minute each; our own is cheap enough to repeat.
    rounds(bench, [tool for tool in tools if tool.name == "memlake"], 2, both)
    for file in (first, second):
        file.unlink()
    growth = {name: float(grown) for name, (_, grown) in sizes.items()}
    cpu1, cpu2 = best(one), best(two)
    ours = "memlake" in growth and "memlake" in cpu1
    return [
        Line(f"c. {mebibytes} MiB random binary, first version", cells(cpu1, seconds), "<= 4 CPU s",
             [Check("CPU", cpu1["memlake"], 4.0)] if ours else [], raw(one)),
        Line("c. second version: 1 KB inserted, contiguous 1 % overwritten", cells(cpu2, seconds), "<= 2.8 CPU s",
             [Check("CPU", cpu2["memlake"], 2.8)] if ours else [], raw(two)),
        Line("c. stored for the second version", cells(growth, size), "<= 13 MB",
             [Check("stored", growth["memlake"], 13 * MB)] if ours else [], sizes),
    ]  # fmt: skip


def _record_big(tool: Tool, place: Place, source: Path) -> Cost:
    target = place.folder / "big.bin"
    # DVC leaves its working file read-only: remove it first, as a training script that writes anew would.
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    return tool.do("record", place, path="big.bin", message="version")


def row_f(bench: Bench) -> list[Line]:
    """Switch between two branches whose files all differ."""
    places = small_repos(bench, bench.quick_tools)

    def prepare(tool: Tool, _: int) -> Cost:
        place = places[tool.name]
        tool.do("start", place, name="other")
        files(place.folder, range(bench.small), salt=1)
        return tool.do("record", place, path="data", message="all") + tool.do("switch", place, name="main")

    ready = rounds(bench, _in(bench, places), 1, prepare)
    names = ("other", "main") * 3
    step = lambda tool, number: tool.do("switch", places[tool.name], name=names[number])  # noqa: E731
    taken = rounds(bench, _in(bench, ready), len(names), step)
    cpu = best(taken)
    checks = []
    if "memlake" in cpu and "git" in cpu:
        checks = [Check("CPU beside 1.5 times git's", cpu["memlake"], 1.5 * cpu["git"])]
    work = f"f. switch branches, all of {bench.small:,} files differ"
    return [Line(work, cells(cpu, seconds), "<= 1.5 times git's", checks, raw(taken))]


def row_g(bench: Bench) -> list[Line]:
    """Merge two branches that changed 100 files each."""
    places = small_repos(bench, bench.quick_tools)

    def prepare(tool: Tool, _: int) -> Cost:
        place, cost = places[tool.name], Cost(0, 0)
        for offset, name in enumerate(("left", "right")):
            tool.do("start", place, name=name)
            files(place.folder, spread(100, bench.small, offset), salt=2 + offset)
            cost += tool.do("record", place, path="data", message=name)
            tool.do("switch", place, name="main")
        return cost

    def merge(tool: Tool, number: int) -> Cost:
        place = places[tool.name]
        tool.do("switch", place, name="left")
        tool.do("start", place, name=f"merged-{number}")
        return tool.do("merge", place, name="right")

    ready = rounds(bench, _in(bench, places), 1, prepare)
    taken = rounds(bench, _in(bench, ready), 5, merge)
    rounds(bench, _in(bench, taken), 1, lambda tool, _: tool.do("switch", places[tool.name], name="main"))
    cpu = best(taken)
    checks = [Check("CPU beside git's", cpu["memlake"], cpu["git"])] if {"memlake", "git"} <= cpu.keys() else []
    commit = {name: cost / 2 for name, cost in best(ready).items()}
    return [
        Line("g. (beside it) add + commit 100 changed files", cells(commit, seconds), raw=raw(ready)),
        Line(f"g. merge 100 + 100 files of {bench.small:,}", cells(cpu, seconds), "under git's", checks, raw(taken)),
    ]


def row_j(bench: Bench) -> list[Line]:
    """What it costs to start: help, and status in an empty repo."""
    starters = [replace(tool, rounds=20) for tool in bench.tools if "help" in tool.verbs]
    places = {tool.name: fresh(bench, "empty", tool) for tool in starters}
    lines = []
    for verb, what in (("help", "--help"), ("status", "status in an empty repo")):
        taken = rounds(bench, starters, 20, partial(_start, verb, places))
        cpu = best(taken)
        shown = {name: f"{seconds(cpu[name])} (median {seconds(_median(costs))})" for name, costs in taken.items()}
        checks = [Check("CPU", cpu["memlake"], 0.110)] if "memlake" in cpu else []
        lines.append(Line(f"j. {what}, least of 20", shown, "<= 110 ms CPU", checks, raw(taken)))
    bare = [run([sys.executable, "-c", "pass"], bench.place) for _ in range(20)]
    text = f"{seconds(min(cost.cpu for cost in bare))} (median {seconds(_median(bare))})"
    return [*lines, Line("j. (beside it) `python -c pass`", {"memlake": text}, raw=raw({"python": bare}))]


def _start(verb: str, places: dict[str, Place], tool: Tool, _: int) -> Cost:
    return tool.do(verb, places[tool.name])


def row_k(bench: Bench) -> list[Line]:
    """A file far larger than the memory allowed: in by add, out by checkout, the same bytes."""
    mebibytes = 10_240 // bench.divide
    tool = bench.tool("memlake")
    place = fresh(bench, "huge", tool)
    target = place.folder / "huge.bin"
    say(f"  generating {mebibytes} MiB ...")
    sparse(target, mebibytes)
    before = _digest(target)
    come = tool.do("add", place, path="huge.bin")
    tool.do("commit", place, message="huge")
    target.unlink()
    leave = tool.do("fetch", place, path="huge.bin")
    same = "the same bytes" if _digest(target) == before else "OTHER BYTES"
    shutil.rmtree(place.folder, ignore_errors=True)
    return [
        Line(f"k. {mebibytes} MiB file, {verb}: peak memory", {"memlake": f"{size(cost.rss)}, {seconds(cost.cpu)} CPU"},
             "<= 300 MB", [Check("memory", cost.rss, 300 * MB)], {"rss": cost.rss, "cpu": cost.cpu, "content": same})
        for verb, cost in (("add", come), (f"checkout ({same})", leave))
    ]  # fmt: skip


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _median(costs: list[Cost]) -> float:
    return statistics.median(cost.cpu for cost in costs)


def _in(bench: Bench, names: dict[str, Place] | Samples) -> list[Tool]:
    """The tools that have come this far in a row."""
    return [tool for tool in bench.tools if names.get(tool.name)]
