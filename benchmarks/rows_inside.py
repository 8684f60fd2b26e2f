"""The rows measured inside a process, at up to a million paths: d, e, h, i. Each returns lines of the table."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Bench, best, cells, inside, inside_repo, raw, rounds, say, small_repos
from generate import files, spread
from measure import Cost, Place, allocated, checkpoint, filesystem, free, run
from peers import Tool
from report import GB, KB, MB, Check, Line, seconds, size

LANES = {"work": "a file rewritten", "memory": "a memory added"}


def row_d(bench: Bench) -> list[Line]:
    """A commit of one path among 10k, 100k, 1M: CPU, bytes kept, bytes written to the log."""
    counts = [10_000 // bench.divide, 100_000 // bench.divide, 1_000_000 // bench.divide]
    lines = []
    for lane, what in LANES.items():
        figures = {paths: _one_path(bench, lane, paths) for paths in counts}
        for paths, figure in figures.items():
            lines.append(_one_path_line(f"d. {what}, 1 of {paths:,} paths", figure))
        small, large = figures[counts[0]], figures[counts[-1]]
        # A B-tree of nodes about 1 KB is log N deep: 100 times the paths may cost log(1M) / log(10k) = 1.5 times.
        grown = {name: large[name] / small[name] for name in ("cpu", "stored", "log")}
        text = f"CPU {grown['cpu']:.2f}x, kept {grown['stored']:.2f}x, log {grown['log']:.2f}x"
        checks = [Check(f"growth of {name}", grown[name], 1.5) for name in grown]
        lines.append(Line(f"d. {what}: growth over 100 times the paths", {"memlake": text}, "<= 1.5x (the logarithm)",
                          checks, grown))  # fmt: skip
    return [*lines, *_git_one_path(bench, counts[-1])]


def _one_path(bench: Bench, lane: str, paths: int) -> dict[str, float]:
    repo = inside_repo(bench, lane, paths)
    # Batches of 256: the memory lane drops old nodes at every 256th commit, and each batch must pay for that once.
    taken = inside(bench, "commits", repo, lane=lane, paths=paths, count=5 * 256)
    log = inside(bench, "wal", repo, lane=lane, paths=paths, count=30)
    return {**taken, "log": log["median"], "log_most": log["most"]}


def _one_path_line(work: str, figure: dict[str, float]) -> Line:
    text = f"{seconds(figure['cpu'])}, {size(figure['stored'])} kept, {size(figure['log'])} log"
    checks = [
        Check("CPU", figure["cpu"], 0.002),
        Check("kept", figure["stored"], 12 * KB),
        Check("log", figure["log"], 100 * KB),
    ]
    return Line(work, {"memlake": text}, "<= 2 ms, 12 KB after checkpoint, 100 KB log", checks, figure)


def _git_one_path(bench: Bench, paths: int) -> list[Line]:
    """git's nearest: stage one path in an index of a million and commit it by plumbing, no working files."""
    place = git_repo(bench, paths)
    blob = run(["git", "rev-parse", "main:data/00000/0000001.bin"], place).out.strip()
    taken, before = [], allocated(place.folder)
    for number in range(3):
        entry = f"100644,{blob},data/00000/new{number}.bin"
        cost = run(["git", "update-index", "--add", "--cacheinfo", entry], place)
        tree = run(["git", "write-tree"], place)
        commit = run(["git", "commit-tree", "-p", "main", "-m", "one", tree.out.strip()], place)
        taken.append(cost + tree + commit + run(["git", "update-ref", "refs/heads/main", commit.out.strip()], place))
    grown = (allocated(place.folder) - before) / len(taken)
    text = f"{seconds(min(cost.cpu for cost in taken))}, {size(grown)} kept"
    return [Line(f"d. (beside it) git plumbing, 1 of {paths:,} paths", {"git": text}, raw=raw({"git": taken}))]


def git_repo(bench: Bench, paths: int) -> Place:
    """A git repo of this many paths in one commit and a second one with 100 changed, by fast-import."""
    place = bench.place.at(bench.work / "inside" / f"git-{paths}")
    if not (place.folder / ".git").exists():
        say(f"  making {paths:,} paths in git ...")
        run(["git", "init", "-q", "-b", "main", "."], place)
        _import(place, paths)
        run(["git", "read-tree", "main"], place)
    return place


def _import(place: Place, paths: int) -> None:
    with tempfile.TemporaryFile() as stream:
        stream.writelines(_import_lines(paths))
        stream.seek(0)
        subprocess.run(["git", "fast-import", "--quiet"], check=True, cwd=place.folder, env=place.env, stdin=stream)


def _import_lines(paths: int) -> Iterator[bytes]:
    for mark, text in ((1, b"old"), (2, b"new")):
        yield b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(text), text)
    who = b"committer bench <bench@example.com> 1700000000 +0000\ndata 1\nx\n"
    yield b"commit refs/heads/main\nmark :3\n" + who
    yield from (b"M 100644 :1 data/%05d/%07d.bin\n" % (n // 100, n) for n in range(paths))
    yield b"commit refs/heads/changed\n" + who + b"from :3\n"
    yield from (b"M 100644 :2 data/%05d/%07d.bin\n" % (n // 100, n) for n in spread(100, paths))


def row_e(bench: Bench) -> list[Line]:
    """diff of two commits with 100 paths changed, among 10k and among 1M."""
    few, many = bench.small, 1_000_000 // bench.divide
    peers = [tool for tool in bench.quick_tools if "diff" in tool.verbs and tool.name != "memlake"]
    return [
        _diff_line(bench, few, _peers_diff(bench, peers), limit=0.010),
        _diff_line(bench, many, _git_diff(bench, many), limit=0.015),
    ]


def _diff_line(bench: Bench, paths: int, peers: dict[str, list[Cost]], limit: float) -> Line:
    repo = inside_repo(bench, "work", paths)
    ends = inside(bench, "change", repo, paths=paths)
    taken = [inside(bench, "diff", repo, **ends) for _ in range(5)]
    cold, warm, trees = (min(answer[name] for answer in taken) for name in ("cold", "warm", "trees"))
    told = f"{seconds(cold)} first, {seconds(warm)} again, {seconds(trees)} by trees"
    shown = {**cells(best(peers), seconds), "memlake": told}
    work = f"e. diff of two commits, {taken[0]['changes']} of {paths:,} paths"
    checks = [Check("CPU of the first", cold, limit), Check("CPU by trees", trees, limit)]
    return Line(work, shown, f"<= {seconds(limit)} CPU in process", checks, {"memlake": taken, **raw(peers)})


def _peers_diff(bench: Bench, tools: list[Tool]) -> dict[str, list[Cost]]:
    places = small_repos(bench, tools)

    def prepare(tool: Tool, _: int) -> Cost:
        place, cost = places[tool.name], Cost(0, 0)
        tool.do("start", place, name="changed")
        numbers = spread(100, bench.small, 2)
        for half in (numbers[::2], numbers[1::2]):
            files(place.folder, half, salt=5)
            cost += tool.do("record", place, path="data", message="fifty")
        return cost + tool.do("switch", place, name="main")

    ready = rounds(bench, [tool for tool in tools if tool.name in places], 1, prepare)
    step = lambda tool, _: tool.do("diff", places[tool.name], old="main", new="changed")  # noqa: E731
    return rounds(bench, [tool for tool in tools if tool.name in ready], 5, step)


def _git_diff(bench: Bench, paths: int) -> dict[str, list[Cost]]:
    place = git_repo(bench, paths)
    return rounds(bench, [bench.tool("git")], 5, lambda tool, _: tool.do("diff", place, old="changed~1", new="changed"))


def row_h(bench: Bench) -> list[Line]:
    """Branch create: inside a process for us, as a process for git."""
    repo = inside_repo(bench, "work", bench.small)
    git = bench.tool("git")
    places = small_repos(bench, [git])
    taken = rounds(bench, [git], 20, lambda tool, number: tool.do("branch", places["git"], name=f"b{number}"))
    ours = [inside(bench, "branches", repo, count=1000, prefix=f"b{number}") for number in range(2)]
    cpu = min(answer["cpu"] for answer in ours)
    shown = cells(best(taken), lambda value: f"{seconds(value)} (process)") | {
        "memlake": f"{seconds(cpu)} (in process)"
    }
    figures = {"memlake": ours, **raw(taken)}
    return [Line("h. branch create", shown, "<= 1 ms CPU in process", [Check("CPU", cpu, 0.001)], figures)]


def row_i(bench: Bench) -> list[Line]:
    """gc and fsck of a long memory lane, each in a fresh process."""
    count = bench.commits // bench.divide
    repo = _growth_folder(bench, count) / f"memlake-grown-{count}"
    shutil.rmtree(repo, ignore_errors=True)
    say(f"  {count:,} memory-lane commits on {filesystem(repo.parent)} ...")
    grown = inside(bench, "grow", repo, shown=True, timeout=count * 0.1, count=count)
    before = _kept(repo) / count
    # gc with prune: nothing else uses this repo, so there is no one to keep a grace period for.
    taken = {"gc": inside(bench, "gc", repo, timeout=7200)}
    after = _kept(repo) / count
    taken["fsck"] = inside(bench, "fsck", repo, timeout=7200)
    shutil.rmtree(repo, ignore_errors=True)
    lines = [_upkeep_line(verb, count, answer) for verb, answer in taken.items()]
    text = f"{size(after)} (before gc {size(before)})"
    work = f"i. kept for each of {count:,} memory-lane commits, its record of 200 B with it"
    checks = [Check("kept", after, 1.5 * KB)]
    figures = {"before": before, "after": after, "made": grown}
    return [*lines, Line(work, {"memlake": text}, "<= 1.5 KB after gc", checks, figures)]


def _upkeep_line(verb: str, count: int, answer: dict[str, Any]) -> Line:
    text = f"{answer['cpu']:.1f} s, {size(answer['peak'])} memory"
    checks = [Check("CPU", answer["cpu"], 60.0), Check("memory", answer["peak"], 500 * MB)]
    work = f"i. {verb} of {count:,} memory-lane commits"
    return Line(work, {"memlake": text}, "<= 60 s, 500 MB memory", checks, answer)


def _kept(repo: Path) -> int:
    checkpoint(repo)
    return allocated(repo)


def _growth_folder(bench: Bench, count: int) -> Path:
    """Memory where there is room for it: a million waits for a disk say nothing of CPU and take hours."""
    shared = Path("/dev/shm")
    # 12 KB each before gc, and a database twice while it is compacted.
    roomy = free(shared) > 24 * KB * count and _memory_left() > 26 * KB * count + 2 * GB
    return shared if roomy else bench.work


def _memory_left() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
