"""The rows of memory.py: what each measures, its target, and how the figures of a child become lines of the table."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memory_fixtures
import memory_processes
from measure import Place, run
from memory_systems import PEERS, measured
from report import MB, Check, Line, seconds, size

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Bench:
    """One run: where fixtures are kept, where durable writes go, the scorers, the sizes, the peers' environments."""

    keep: Path
    disk: Path
    place: Place
    scorers: Path | None = None
    data: Path | None = None
    sizes: Sequence[int] = (5_000, 100_000, 1_000_000)
    peers: Path | None = None
    only: Sequence[str] = ()
    store: int = 100_000
    writes: int = 5_000
    troubles: list[str] = field(default_factory=list)

    def repo(self, count: int) -> Path:
        return memory_fixtures.repo(self.keep, count, vectors=True)

    def copy(self, count: int, name: str, where: Path | None = None) -> Path:
        """A copy of a fixture to write into."""
        target = (where or self.disk) / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.repo(count), target)
        return target

    def inside(self, verb: str, repo: Path, **args: Any) -> dict[str, Any]:
        """Run one verb of memory_inside.py in a child and return its answer."""
        words = json.dumps({"repo": str(repo), **args})
        out = run([sys.executable, str(HERE / "memory_inside.py"), verb, words], self.place).out
        answer: dict[str, Any] = json.loads(out)
        return answer


def line(work: str, ours: str, *, target: str, checks: Sequence[Check] = (), peers: str = "-", raw: Any = None) -> Line:
    return Line(work, {"memlake": ours, "peers": peers}, target, checks, {"memlake": raw})


# -- what is found ------------------------------------------------------------------------------


def row_a(bench: Bench) -> list[Line]:
    """Retrieval of conversations, without a model and with the default one."""
    limits = {"NoModel": (66, 45), "LocalModel": (73, 50)}
    peers = {
        "NoModel": "BM25 57.2 / 39.9, LIKE 1.4 / 0.6",
        "LocalModel": "MiniLM alone 41.6 / 24.9, best by hand 72.2 / 49.9",
    }
    lines = []
    for name, (recall, mrr) in limits.items():
        out = bench.disk / f"{name}.json"
        argv = ["locomo_retrieval.py", f"memory_adapters:{name}", "--json", str(out)]
        _scored(bench, [*argv, *(["--data", str(bench.data)] if bench.data else [])])
        found = json.loads(out.read_text())["all"]
        checks = [Check("R@10", found["R@10"], recall, least=True), Check("MRR", found["MRR"], mrr, least=True)]
        what = "no model" if name == "NoModel" else "the default model"
        shown = f"R@10 {found['R@10']:.1f} / MRR {found['MRR']:.1f}"
        target = f"R@10 >= {recall} / MRR >= {mrr}"
        lines.append(
            line(f"LoCoMo retrieval, {what}", shown, target=target, checks=checks, peers=peers[name], raw=found)
        )
    return lines


def row_b(bench: Bench) -> list[Line]:
    """Merge decisions against labelled pairs."""
    limits = {"SICK": 0.85, "HaluMem-short": 0.80, "HaluMem-full": 0.65, "seed-003": 1.0}
    out = _scored(bench, ["merge_decision.py", "memlake.memories.rules:decide"])
    lines = []
    for text in out.splitlines()[2:]:
        name, count, _, _, f1, *_, destroyed = (cell.strip() for cell in text.strip(" |").split("|"))
        least = limits.get(name, 0.0)
        checks = [Check("F1", float(f1), least, least=True), Check("destructive", float(destroyed), 1.99)]
        shown = f"F1 {f1}, destructive {destroyed} %"
        target = f"F1 >= {least:.2f}, destructive < 2 %"
        lines.append(line(f"merge decisions, {name} ({count} pairs)", shown, target=target, checks=checks,
                          peers="conflict F1 0 to .09" if name == "SICK" else "-", raw=text))  # fmt: skip
    return lines


def _scored(bench: Bench, argv: Sequence[str]) -> str:
    if bench.scorers is None:
        raise FileNotFoundError("--scorers names no folder with locomo_retrieval.py and merge_decision.py")
    whole = [sys.executable, str(bench.scorers / argv[0]), *argv[1:]]
    return run(whole, Place(HERE, bench.place.env, 3600)).out


# -- storing ------------------------------------------------------------------------------------


def row_c(bench: Bench) -> list[Line]:
    """Stores of one memory each, durable, among many; then in batches."""
    repo = bench.copy(bench.store, "store")
    one = bench.inside("store", repo, count=bench.writes)
    many = bench.inside("batches", repo, count=3200, size=32)
    shutil.rmtree(repo)
    beyond = {name: one["wall"][name] - one["fsync"][name] for name in ("p50", "p99")}
    shown = (
        f"p50 {beyond['p50']:.2f} ms, p99 {beyond['p99']:.1f} ms beyond an fsync of {one['fsync']['p50']:.2f} ms "
        f"(p99 {one['fsync']['p99']:.1f}); CPU of the caller p50 {one['own']['p50']:.2f}, "
        f"p99 {one['own']['p99']:.2f} ms"
    )
    peers = ", ".join(f"{name} {one['add_p50_ms']:.1f} ms" for name, one in _peers(bench).items()) or _quoted(
        "add_p50_ms", " ms"
    )
    checks = [Check("p50", beyond["p50"], 1.5), Check("p99", beyond["p99"], 15)]
    batch = f"{many['per_second']:,.0f} a second ({many['per_cpu']:,.0f} a CPU second)"
    return [
        line(f"store, one per call, durable, at {bench.store:,}", shown, checks=checks, peers=peers,
             raw=one | {"peers": _peers(bench)},
             target="p50 <= 1.5 ms, p99 <= 15 ms beyond the fsync"),
        line("store, 32 a commit, durable", batch, target=">= 1,000 a second", raw=many,
             checks=[Check("memories a second", many["per_second"], 1000, least=True)]),
    ]  # fmt: skip


def _peers(bench: Bench) -> dict[str, dict[str, Any]]:
    """What the peers that could be installed took; measured once in a run."""
    if bench.peers is None:
        return {}
    return measured(bench.peers, bench.disk, bench.only, bench.troubles)


def _quoted(figure: str, unit: str) -> str:
    told = (f"{name} {known[figure]:g}{unit}" for name, known in PEERS.items() if figure in known)
    return ", ".join(told) + " (not run here)"


# -- searching ----------------------------------------------------------------------------------


def row_d(bench: Bench) -> list[Line]:
    """Searches with and without vectors and filters at each size, many branches, memory."""
    limits = dict(zip(bench.sizes, (5, 20, 60), strict=False))
    lines = [
        _searches(bench, count, vectors=vectors, limit=limits[count]) for count in limits for vectors in (False, True)
    ]
    if 100_000 in bench.sizes:
        lines += [_branches(bench), _memory(bench)]
    return lines


def _searches(bench: Bench, count: int, *, vectors: bool, limit: float) -> Line:
    found = bench.inside("search", bench.repo(count), count=count, vectors=vectors)
    kinds = found["searches"]
    plain = kinds["no filter"]
    rest = ", ".join(
        f"{name} {one['p50']:.1f} / {one['p95']:.1f}" for name, one in kinds.items() if name != "no filter"
    )
    checks = [Check(name, one["p95"], limit) for name, one in kinds.items()]
    quoted = _quoted("search_p50_ms", " ms") if count == bench.sizes[0] and not vectors else "-"
    live = ", ".join(f"{name} {one['search_p50_ms']:.1f} ms" for name, one in _peers(bench).items())
    return line(
        f"search at {count:,}, {'words and vectors' if vectors else 'words'}, k=10, CPU p50 / p95",
        f"{plain['p50']:.1f} / {plain['p95']:.1f} ms; {rest}",
        target=f"p95 <= {limit} ms CPU",
        checks=checks,
        peers=live if live and quoted != "-" else quoted,
        raw=found,
    )


def _branches(bench: Bench) -> Line:
    repo = bench.copy(100_000, "branches", bench.keep)
    found = bench.inside("branches", repo, alone=str(bench.repo(100_000)), count=100, writes=20)
    shutil.rmtree(repo)
    one, many = found["one"]["p50"], found["many"]["p50"]
    shown = f"{many:.1f} ms in turn on 100 branches, {one:.1f} ms on the only one: {many / one:.2f} times"
    return line("search at 100,000 on 100 branches, CPU p50", shown, target="within 1.5 times of one",
                checks=[Check("100 branches", many / one, 1.5)], raw=found)  # fmt: skip


def _memory(bench: Bench) -> Line:
    found = bench.inside("search", bench.repo(100_000), count=100_000, vectors=True, questions_each=30)
    shown = f"{size(found['rss'])}, of which {size(found['anonymous'])} are not pages of mapped files"
    return line("RSS at 100,000 with vectors, after 540 searches", shown, target="<= 400 MB",
                checks=[Check("RSS", found["rss"], 400 * MB)], peers="Chroma +99 MB at 3.7k", raw=found)  # fmt: skip


# -- starting -----------------------------------------------------------------------------------


def row_e(bench: Bench) -> list[Line]:
    """An MCP server from its spawn to the answer to `initialize`."""
    tries = [memory_processes.initialize(bench.repo(bench.sizes[0]), bench.place.env) for _ in range(5)]
    best = min(tries, key=lambda one: one["cpu"])
    loaded = any(one["model"] for one in tries)
    times = f"{seconds(best['cpu'])} CPU, {seconds(best['wall'])} wall"
    shown = f"{times}, {'a' if loaded else 'no'} model loaded, {size(best['rss'])}"
    checks = [Check("CPU", best["cpu"], 1.0), Check("models loaded", int(loaded), 0)]
    return [line("MCP: spawn to `initialize` answered", shown, target="<= 1.0 s CPU, no model loaded", checks=checks,
                 peers="mcp-memory-service 1.9 s, HatiData 0.44 s wall (not run here)", raw=tries)]  # fmt: skip


def row_f(bench: Bench) -> list[Line]:
    """Opening a large repo and the first search in it."""
    count = bench.sizes[-1]
    lines = []
    for vectors in (False, True):
        tries = [bench.inside("open_and_search", bench.repo(count), vectors=vectors) for _ in range(3)]
        best = min(tries, key=lambda one: one["cpu"])
        times = f"{seconds(best['cpu'])} CPU, {seconds(best['wall'])} wall"
        shown = f"{times}, {size(best['read'])} read, RSS {size(best['rss'])}"
        lines.append(line(f"opening {count:,} and the first search, {'with vectors' if vectors else 'words'}", shown,
                          target="<= 0.5 s", checks=[Check("CPU", best["cpu"], 0.5)], raw=tries))  # fmt: skip
    return lines


def row_g(bench: Bench) -> list[Line]:
    """`memlake recall` in a process of its own at 10k memories."""
    repo = bench.copy(10_000, "recall", bench.keep)
    lines = []
    for model, limit in ((False, 0.25), (True, 0.6)):
        if model:
            bench.inside("embedded", repo)
        argv, how = memory_processes.recall(bench.place.env)
        tries = [run(argv, Place(repo, bench.place.env, 60)) for _ in range(5)]
        best = min(cost.cpu for cost in tries)
        what = f"{how} at 10,000, {'with' if model else 'without'} the model"
        lines.append(line(what, f"{seconds(best)} CPU", target=f"<= {limit} s CPU", checks=[Check("CPU", best, limit)],
                          raw=[cost.cpu for cost in tries]))  # fmt: skip
    shutil.rmtree(repo)
    return lines


def row_h(bench: Bench) -> list[Line]:
    """Sign-bit vectors alone, by vectors.py."""
    sizes = ",".join(map(str, bench.sizes))
    out = run([sys.executable, str(HERE / "vectors.py"), "--rows", sizes, "--work", str(bench.keep)], bench.place).out
    lines = []
    for text in re.findall(r"^\| \d.*$", out, re.MULTILINE):
        rows, what, plan, _, cpu, target, _, _, recall = (cell.strip() for cell in text.strip(" |").split(" | "))
        if what not in ("none", "1 % as ids", "10 % as ids"):
            continue
        checks = [Check("CPU", float(cpu), float(target))] if target else []
        wanted = f"<= {target} ms CPU" if target else ""
        shown = f"{cpu} ms CPU, recall@10 {recall}"
        lines.append(line(f"vectors alone, {rows} rows, filter {what}", shown, target=wanted, checks=checks, raw=plan))
    return lines


ROWS = {"a": row_a, "b": row_b, "c": row_c, "d": row_d, "e": row_e, "f": row_f, "g": row_g, "h": row_h}
KINDS: Mapping[str, str] = {letter: (work.__doc__ or "") for letter, work in ROWS.items()}
