"""What the rows share: the tools, the work folder, interleaved rounds, and the repos that several rows use.

Knows how to run, not what any row measures.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from generate import files
from measure import CommandFailed, Cost, Place, allocated, checkpoint, run
from peers import HERE, Tool
from report import size

Samples = dict[str, list[Cost]]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmark. `divide` is 1, or 10 for a quick run; `troubles` collects what could not be run."""

    work: Path
    place: Place
    tools: Sequence[Tool]
    divide: int = 1
    heavy: bool = False
    commits: int = 1_000_000
    troubles: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def small(self) -> int:
        """How many small files: 10k, or 1k in a quick run."""
        return 10_000 // self.divide

    @property
    def quick_tools(self) -> list[Tool]:
        """The tools whose commands take seconds at this size; the others only when heavy peers are asked for."""
        return [tool for tool in self.tools if self.heavy or tool.name != "Oxen"]

    def tool(self, name: str) -> Tool:
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise CommandFailed(f"{name} is not installed")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rounds(bench: Bench, tools: Iterable[Tool], count: int, step: Callable[[Tool, int], Cost]) -> Samples:
    """Run a step of every tool in turn, `count` times round. A tool that fails is noted and left out of the rest."""
    samples: Samples = defaultdict(list)
    going = list(tools)
    for number in range(count):
        for tool in [tool for tool in going if number < tool.rounds]:
            try:
                samples[tool.name].append(step(tool, number))
            except CommandFailed as error:
                trouble(bench, tool.name, error)
                going.remove(tool)
    return samples


def trouble(bench: Bench, name: str, error: CommandFailed) -> None:
    bench.troubles.append(f"{name}: {error}")
    say(f"  {name}: {error}")


def best(samples: Samples) -> dict[str, float]:
    """The least CPU seconds of each tool: load on the box only ever adds."""
    return {name: min(cost.cpu for cost in costs) for name, costs in samples.items() if costs}


def raw(samples: Samples) -> dict[str, Any]:
    return {name: [{"cpu": c.cpu, "wall": c.wall, "rss": c.rss} for c in costs] for name, costs in samples.items()}


def cells(values: Mapping[str, float], show: Callable[[float], str]) -> dict[str, str]:
    return {name: show(value) for name, value in values.items()}


def stored(tool: Tool, folder: Path) -> int:
    """Allocated bytes of a tool's store, its databases checkpointed."""
    checkpoint(folder)
    return allocated(folder, tool.store)


def fresh(bench: Bench, name: str, tool: Tool) -> Place:
    """An empty repo of the tool; one of that name from before is removed."""
    folder = bench.work / name / tool.name
    shutil.rmtree(folder, ignore_errors=True)
    place = bench.place.at(folder)
    tool.do("init", place)
    return place


def record_small(bench: Bench, tool: Tool) -> Cost:
    """Make the repo of small files anew and measure its one add and commit."""
    place = fresh(bench, "small", tool)
    before = stored(tool, place.folder)
    files(place.folder, range(bench.small), salt=0)
    cost = tool.do("record", place, path="data", message="first")
    bench.sizes[tool.name] = stored(tool, place.folder) - before
    return cost


def small_repos(bench: Bench, tools: Iterable[Tool]) -> dict[str, Place]:
    """The repo of small files of each tool, on main; made now where no row before made it."""
    missing = [tool for tool in tools if tool.name not in bench.sizes]
    rounds(bench, missing, 1, lambda tool, _: record_small(bench, tool))
    return {tool.name: bench.place.at(bench.work / "small" / tool.name) for tool in tools if tool.name in bench.sizes}


def inside(bench: Bench, verb: str, repo: Path, *, shown: bool = False, timeout: float = 0, **args: Any) -> Answer:
    """Run one verb of inside.py in a child and return its answer."""
    repo.mkdir(parents=True, exist_ok=True)
    place = replace(bench.place, shown=shown, timeout=max(timeout, bench.place.timeout))
    words = json.dumps({"repo": str(repo), **args})
    answer: Answer = json.loads(run([sys.executable, str(HERE / "inside.py"), verb, words], place).out)
    return answer


def inside_repo(bench: Bench, lane: str, paths: int) -> Path:
    """A repo of this many paths on one lane; made now where no row before made it."""
    repo = bench.work / "inside" / f"{lane}-{paths}"
    whole = repo.with_suffix(".whole")
    if not whole.exists():
        shutil.rmtree(repo, ignore_errors=True)
        say(f"  making {paths:,} paths on the {lane} lane ...")
        made = inside(bench, "setup", repo, lane=lane, paths=paths)
        say(f"  made in {made['cpu']:.1f} CPU s, peak memory {size(made['peak'])}")
        whole.touch()
    return repo
