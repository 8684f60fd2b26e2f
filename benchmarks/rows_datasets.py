"""The rows of the dataset report: what is done, how it is shown beside the same by hand, what is wanted of it."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets_fixtures as fixtures
import datasets_scripts as scripts
from measure import CommandFailed, Place, run
from peers import HERE, installed
from report import Check, Line, seconds, size

PEER = "datachain==0.62.0"
Times = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass
class Bench:
    """Where things lie and how much is done: a folder to work in, the peer's environments, sizes and rounds."""

    work: Path
    place: Place
    peers: Path | None = None
    rows: int = 1_000_000
    values: int = 100_000
    vectors: int = 100_000
    files: int = 100_000
    slow: int = 100_000
    some: int = 10_000
    rounds: int = 7
    troubles: list[str] = field(default_factory=list)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)

    def inside(self, verb: str, **args: Any) -> dict[str, Any]:
        """One verb of datasets_inside.py in a child."""
        words = json.dumps({"work": str(self.work), **args})
        answer: dict[str, Any] = json.loads(
            run([sys.executable, str(HERE / "datasets_inside.py"), verb, words], self.place).out
        )
        return answer

    def peer(self, row: str, **args: Any) -> dict[str, Any]:
        """One row of datasets_driver.py in the peer's own environment; empty where it does not run. Once in a run."""
        if row not in self.told:
            self.told[row] = self._peer(row, args) if self.peers else {}
        return self.told[row]

    def _peer(self, row: str, args: Mapping[str, Any]) -> dict[str, Any]:
        assert self.peers is not None
        if not installed(self.peers, PEER):
            self.troubles.append(f"{PEER}: its install failed")
            return {}
        home = self.work / f"peer-{row}"
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HOME": str(home)}
        argv = [str(python_of(self.peers)), str(HERE / "datasets_driver.py"), row, json.dumps(args)]
        try:
            out = run(argv, Place(self.work, env, 1800).at(home)).out
        except CommandFailed as error:
            self.troubles.append(f"{PEER}, {row}: {error}")
            return {}
        finally:
            shutil.rmtree(home, ignore_errors=True)
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    @property
    def source(self) -> str:
        return str(fixtures.rows(self.work, self.rows))


def python_of(peers: Path) -> Path:
    return peers / PEER.partition("==")[0] / "bin/python"


def line(work: str, cells: Mapping[str, str], target: str, checks: Sequence[Check] = (), raw: Any = None) -> Line:
    return Line(work, cells, target, checks, {"memlake": raw})


def least(times: Times, name: str, what: str = "cpu") -> float:
    return min(times[name][what])


def compared(work: str, times: Times, limit: float, peer: Mapping[str, Any] | None = None) -> Line:
    """A line of ours beside the same by hand: least CPU, its median, and how many times by hand."""
    ours, raw = least(times, "ours"), least(times, "raw")
    cells = {
        "memlake": f"{spread(times, 'ours')}: {ours / raw:.2f} x",
        "by hand": spread(times, "raw"),
        "DataChain": against(peer, raw),
    }
    return line(work, cells, f"<= {limit:g} x by hand", [Check("CPU", ours / raw, limit)], {**times, "peer": peer})


def spread(times: Times, name: str) -> str:
    values = times[name]["cpu"]
    return f"{seconds(min(values))} (median {seconds(statistics.median(values))})"


def against(peer: Mapping[str, Any] | None, raw: float) -> str:
    return f"{seconds(peer['cpu'])}: {peer['cpu'] / raw:,.0f} x" if peer else "-"


# -- tables -------------------------------------------------------------------------------------


def row_a(bench: Bench) -> list[Line]:
    """read_parquet + save."""
    times = bench.inside("ingest", source=bench.source, rounds=bench.rounds)
    peer = bench.peer("table", source=bench.source).get("ingest")
    return [compared(f"read_parquet + save, {bench.rows:,} x 5", times, 3, peer)]


def row_b(bench: Bench) -> list[Line]:
    """group_by, order_by + limit, filter + count on saved rows: plain, over two families, over a selection."""
    limits = {"plain": 1.5, "families": 2.5, "selection": 2.5}
    told = {"plain": "a plain dataset", "families": "two families", "selection": "a selection of half the rows"}
    lines = []
    for name, times in bench.inside("queries", source=bench.source, rounds=3 * bench.rounds).items():
        query, kind = name.split(", ")
        peer = bench.peer("table", source=bench.source).get(query) if kind == "plain" else None
        made = compared(f"{query}, {bench.rows:,} rows, {told[kind]}", times, limits[kind], peer)
        if kind == "selection":
            where = f"; with WHERE on all rows {spread(times, 'where')}"
            made = line(made.work, {**made.cells, "by hand": f"of a copy {made.cells['by hand']}{where}"},
                        made.target, made.checks, times)  # fmt: skip
        lines.append(made)
    return lines


def row_c(bench: Bench) -> list[Line]:
    """to_pandas."""
    times = bench.inside("frames", source=bench.source, rounds=bench.rounds)
    peer = bench.peer("table", source=bench.source).get("to_pandas")
    return [compared(f"to_pandas, {bench.rows:,} x 5", times, 2, peer)]


# -- functions ----------------------------------------------------------------------------------


def row_d(bench: Bench) -> list[Line]:
    """map of a trivial function, serial and parallel=2."""
    times = bench.inside("maps", count=bench.values, rounds=2 * bench.rounds)
    peer = bench.peer("maps", count=bench.values)
    serial = compared(f"map of a trivial function + save, {bench.values:,} rows", times, 10, peer.get("ours"))
    each = (least(times, "ours") - least(times, "raw")) / bench.values * 1e6
    raw = least(times, "raw")
    cells = {
        **serial.cells,
        "memlake": f"{serial.cells['memlake']}, {each:.2f} us a row beyond it",
        "DataChain": f"{serial.cells['DataChain']}; prefetch=0 {against(peer.get('tuned'), raw)}",
    }
    checks = [*serial.checks, Check("us a row", least(times, "ours") / bench.values * 1e6, 3)]
    both = {what: least(times, "parallel", what) / least(times, "ours", what) for what in ("cpu", "wall")}
    two = {
        "memlake": f"{spread(times, 'parallel')}: {both['cpu']:.2f} x serial, wall {both['wall']:.2f} x",
        "by hand": "-",
        "DataChain": against(peer.get("parallel"), raw) + (", prefetch=0" if peer else ""),
    }
    # A tenth is what two equal runs differ by here.
    slower = [Check(f"{what} of serial", value, 1.1) for what, value in both.items()]
    return [
        line(serial.work, cells, "<= 10 x by hand, <= 3 us a row", checks, serial.raw),
        line("the same, parallel=2", two, "never slower than serial", slower, times),
    ]


def row_e(bench: Bench) -> list[Line]:
    """The ten nearest of saved vectors."""
    source = str(fixtures.vectors(bench.work, bench.vectors))
    times = bench.inside("nearest", source=source, rounds=2 * bench.rounds)
    peer = bench.peer("nearest", source=source)
    made = compared(f"cosine top 10, {bench.vectors:,} x {fixtures.SIZE}", times, 2, peer.get("ours"))
    cells = {**made.cells, "memlake": f"{made.cells['memlake']}; the first time {spread(times, 'first')}"}
    return [line(made.work, cells, "<= 2 x numpy", made.checks, made.raw)]


# -- files and bytes ----------------------------------------------------------------------------


def row_f(bench: Bench) -> list[Line]:
    """A folder listed and saved."""
    source = str(fixtures.files(bench.work, bench.files))
    times = bench.inside("listing", source=source, rounds=bench.rounds)
    return [compared(f"list + save, {bench.files:,} files", times, 3, bench.peer("listing", source=source).get("ours"))]


def row_g(bench: Bench) -> list[Line]:
    """Stored bytes."""
    found = bench.inside("sizes", source=bench.source)
    peer = bench.peer("table", source=bench.source).get("sizes", {})
    told = {
        "rows": (f"stored: {bench.rows:,} rows", "Parquet", 1.2),
        "column": ("stored: the same with one column more", "the column", 1.2),
        "append": ("stored: 10 % more rows, saved under the same name", "the new rows", 1.3),
    }
    lines = []
    for name, (work, what, limit) in told.items():
        ours, raw = found[name]["ours"], found[name]["raw"]
        theirs = f"{size(peer[name])}: {peer[name] / raw:.1f} x" if peer else "-"
        cells = {"memlake": f"{size(ours)}: {ours / raw:.2f} x", "by hand": size(raw), "DataChain": theirs}
        lines.append(line(work, cells, f"<= {limit} x {what}", [Check("bytes", ours / raw, limit)], found[name]))
    return lines


# -- what is not done again ---------------------------------------------------------------------


def row_h(bench: Bench) -> list[Line]:
    """The same script a second time."""
    found = scripts.again(bench.work / "again", bench.place, bench.slow, 64)
    wall, cpu, calls = min(found["wall"]), min(found["cpu"]), max(found["calls"])
    first = found["first"]
    shown = (
        f"{seconds(cpu)} CPU, {seconds(wall)} wall at a load of {os.getloadavg()[0]:.0f}, {calls} calls; "
        f"the first run, 64 threads, {seconds(first['wall'])} wall, {seconds(first['cpu'])} CPU"
    )
    cells = {"memlake": shown, "by hand": "-", "DataChain": "kept for 4 h (not run)"}
    # Wall time is shown, not judged: on a shared machine it says how many others wait for the cores.
    checks = [Check("CPU", cpu, 0.5), Check("calls", calls, 0)]
    work = f"the same script in a new process, {bench.slow:,} rows of 10 ms"
    return [line(work, cells, "<= 0.5 s CPU, no calls", checks, found)]


def row_i(bench: Bench) -> list[Line]:
    """1 % of files changed."""
    found = scripts.changed(bench.work / "changed", bench.place, bench.some)
    every, some, few = found["calls"]
    peer = bench.peer("changed", count=bench.some)
    exact = "exact" if found["exact"] else "not exact"
    shown = f"{some} of {every:,} computed, {few} when ten were new and ten gone; result {exact}"
    theirs = f"{peer['rows']:,} rows where there are {peer['files']:,}" if peer else "-"
    cells = {"memlake": shown, "by hand": "-", "DataChain": theirs}
    checks = [Check("calls", some, bench.some // 100), Check("calls for ten", few, 10),
              Check("exact", int(found["exact"]), 1, least=True)]  # fmt: skip
    return [line(f"1 % of {bench.some:,} files changed", cells, "only these, exact", checks, found)]


# -- starting -----------------------------------------------------------------------------------


def row_j(bench: Bench) -> list[Line]:
    """import, and what an install weighs."""
    ours, weights = scripts.imported(bench.place, "memlake"), scripts.installed()
    lazy = scripts.imported(bench.place, "memlake; memlake.read_dataset")
    shown = f"{seconds(ours['least'])}, the process {seconds(ours['whole'])}; with datasets {seconds(lazy['least'])}"
    theirs, size_of = "-", "-"
    if bench.peers and installed(bench.peers, PEER):
        python = python_of(bench.peers)
        env = {name: value for name, value in bench.place.env.items() if name != "PYTHONPATH"}
        cost = scripts.imported(Place(bench.work, env), "datachain", str(python), 3)
        theirs, size_of = seconds(cost["least"]), size(scripts.site_packages(python))
    whole = sum(weights.values())
    told = f"{size(whole)}: {scripts.shown(weights)}"
    return [
        line("import memlake", {"memlake": shown, "by hand": "-", "DataChain": theirs}, "<= 0.1 CPU s",
             [Check("CPU", ours["least"], 0.1)], ours),
        line("installed, the local model and its runtime included, no extras",
             {"memlake": told, "by hand": "-", "DataChain": size_of}, "<= 450 MB",
             [Check("bytes", whole, 450 * 2**20)], weights),
    ]  # fmt: skip


ROWS = {"a": row_a, "b": row_b, "c": row_c, "d": row_d, "e": row_e,
        "f": row_f, "g": row_g, "h": row_h, "i": row_i, "j": row_j}  # fmt: skip
KINDS: Mapping[str, str] = {letter: (work.__doc__ or "") for letter, work in ROWS.items()}
