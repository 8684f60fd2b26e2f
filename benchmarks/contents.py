"""What it costs to look inside files and to merge them, peers beside us: CPU seconds, each in a process of its own.

    python benchmarks/contents.py                    # every row
    python benchmarks/contents.py --rows diff-csv    # some rows
    python benchmarks/contents.py --quick            # sizes divided by ten

A row is one function that returns what each contestant does, and one line of ROWS. Imports and the making of the files
are not counted; reading the files is. Each contestant runs in a fresh process, in turns, and the least of the rounds
counts, since load only ever adds. Oxen and daff are installed into environments of their own, and left out with
the reason where that fails; each counts its own CPU seconds, without starting Python and importing it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import peers
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from memlake.contents import tables
from memlake.contents.content import open_file
from memlake.contents.explain import How
from memlake.contents.merged import MergeHow

Work = Callable[[], object]
HERE = Path(__file__).resolve().parent
CACHE = Path("~/.cache/memlake-bench").expanduser()
PEERS = {"Oxen": "oxenai", "daff": "daff"}  # those that compare tables; the packages they come in


class Row(NamedTuple):
    """One piece of work. `target` compares memlake with another contestant, or with another row."""

    name: str
    work: str
    make: Callable[[Path, int], Mapping[str, Work]]
    target: str


# -- tables -------------------------------------------------------------------------------------------


def make_tables(folder: Path, rows: int) -> None:
    """base, ours and theirs: 1,000 rows changed on each side, 250 cells in each of four columns."""
    rng = np.random.default_rng(0)
    base: dict[str, Any] = {
        "id": np.arange(rows),
        "name": np.array([f"name {number % 9973}" for number in range(rows)], dtype=object),
        "price": rng.integers(0, 10**6, rows),
        "amount": rng.integers(0, 100, rows),
        "score": rng.random(rows).round(6),
    }
    for seed, side in enumerate(("base", "ours", "theirs")):
        columns = dict(base)
        places = np.random.default_rng(seed).choice(rows, 1000, replace=False)
        for number, name in enumerate(("name", "price", "amount", "score") if seed else ()):
            changed = columns[name].copy()
            some = places[number * 250 : (number + 1) * 250]
            changed[some] = changed[some] + ("x" if name == "name" else 1)
            columns[name] = changed
        table = pa.table(columns)
        pq.write_table(table, folder / f"{side}.parquet")
        pa_csv.write_csv(table, folder / f"{side}.csv", pa_csv.WriteOptions(quoting_style="none"))
        table.to_pandas().to_json(folder / f"{side}.jsonl", orient="records", lines=True)


def run_peer(cache: Path, name: str, old: Path, new: Path) -> Mapping[str, float]:
    """What a peer says a diff cost it: it prints that as its last line."""
    command = [str(cache / PEERS[name] / "bin/python"), str(HERE / "contents_peers.py"), name, str(old), str(new)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    found: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def diff_tables(form: str) -> Callable[[Path, int], Mapping[str, Work]]:
    """Rows that changed, by id, cell by cell, and the first ten of them."""

    def make(folder: Path, _rows: int) -> Mapping[str, Work]:
        old, new = (folder / f"{side}.{form}" for side in ("base", "ours"))
        read = {"parquet": "read_parquet('{}')", "csv": "read_csv('{}', all_varchar = true)"}.get(
            form, "read_json('{}')"
        )
        unequal = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in ("name", "price", "amount", "score"))
        query = (
            f"CREATE TEMP TABLE d AS SELECT a.id AS was, b.id AS now, a, b FROM {read.format(old)} a FULL JOIN "
            f"{read.format(new)} b ON a.id = b.id WHERE a.id IS NULL OR b.id IS NULL OR {unequal}"
        )

        def by_hand() -> object:
            con = duckdb.connect()
            con.execute(query)
            return con.execute("SELECT count(*) FROM d").fetchone(), con.execute("SELECT * FROM d LIMIT 10").fetchall()

        def by_polars() -> object:
            scan = {"parquet": pl.scan_parquet, "csv": lambda path: pl.scan_csv(path, infer_schema=False)}
            before, after = (scan.get(form, pl.scan_ndjson)(path) for path in (old, new))
            joined = before.join(after, on="id", how="full", suffix="_new")
            changed = pl.any_horizontal(
                pl.col(name).ne_missing(pl.col(f"{name}_new")) for name in ("name", "price", "amount", "score")
            )
            return joined.filter(changed).collect().height

        def by_us() -> object:
            with open_file(old.name, old) as before, open_file(new.name, new) as after:
                found = tables.diff(before, after, How())
            assert found.changed == 1000
            return found

        contestants: dict[str, Work] = {"memlake": by_us, "DuckDB by hand": by_hand, "polars": by_polars}
        if form != "parquet":
            command = ["git", "diff", "--no-index", "--stat", str(old), str(new)]
            contestants["git diff --no-index"] = lambda: subprocess.run(command, capture_output=True, check=False)
        for name in ("Oxen", "daff") if form == "csv" else ("Oxen",) if form == "parquet" else ():
            if (CACHE / PEERS[name]).exists():
                contestants[name] = functools.partial(run_peer, CACHE, name, old, new)
        return contestants

    return make


def merge_tables(form: str) -> Callable[[Path, int], Mapping[str, Work]]:
    """1,000 changed rows on each side joined, the result as bytes; and the diff of one side."""

    def make(folder: Path, rows: int) -> Mapping[str, Work]:
        def merge() -> object:
            base, ours, theirs = (
                open_file(f"t.{form}", folder / f"{side}.{form}") for side in ("base", "ours", "theirs")
            )
            found = tables.merge(base, ours, theirs, MergeHow())
            assert found.data
            return found

        contestants: dict[str, Work] = {"memlake": merge, "diff": diff_tables(form)(folder, rows)["memlake"]}
        if form != "parquet":
            files = [str(folder / f"{side}.{form}") for side in ("ours", "base", "theirs")]
            command = ["git", "merge-file", "-p", *files]
            contestants["git merge-file"] = lambda: subprocess.run(command, capture_output=True, check=False)
        return contestants

    return make


ROWS = [
    Row("diff-parquet", "diff, Parquet, 1M x 5, 1,000 rows changed", diff_tables("parquet"), "1.2 DuckDB by hand"),
    Row("diff-csv", "diff, CSV, the same", diff_tables("csv"), "2 DuckDB by hand"),
    Row("diff-jsonl", "diff, JSON lines, the same", diff_tables("jsonl"), ""),
    Row("merge-parquet", "merge, Parquet, 1M x 5, 1,000 + 1,000 rows", merge_tables("parquet"), "3 diff"),
    Row("merge-csv", "merge, CSV, the same", merge_tables("csv"), "3 diff"),
    Row("merge-jsonl", "merge, JSON lines, the same", merge_tables("jsonl"), "3 diff"),
]
FIXTURES: tuple[Callable[[Path, int], None], ...] = (make_tables,)


# -- measuring ----------------------------------------------------------------------------------------


def measure_here(work: Work) -> dict[str, float]:
    """CPU seconds of this process and its children, and the most memory it held, in MB."""
    before = _read_cpu()
    if isinstance(found := work(), dict) and found.keys() == {"cpu", "memory"}:
        return found  # a peer, by its own clock
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": _read_cpu() - before, "memory": most}


def _read_cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_row(row: Row, folder: Path, size: int, rounds: int) -> dict[str, dict[str, float]]:
    least: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for who in row.make(folder, size):
            command = [sys.executable, __file__, "--child", row.name, who, "--work", str(folder), "--size", str(size)]
            done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
            if done.returncode:
                print(f"{row.name}, {who}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            least[who] = min(least.get(who, found), found, key=lambda one: one["cpu"])
    return least


def print_row(row: Row, found: Mapping[str, Mapping[str, float]]) -> None:
    others = ", ".join(f"{who} {one['cpu']:.2f} s" for who, one in found.items() if who != "memlake")
    verdict = ""
    if row.target:
        times, _, who = row.target.partition(" ")
        share = found["memlake"]["cpu"] / found[who]["cpu"]
        verdict = f"{'yes' if share <= float(times) else 'no'} ({share:.2f})"
    ours = found["memlake"]
    target = f"<= {row.target.replace(' ', ' times ', 1)}" if row.target else ""
    print(
        f"| {row.work} | {ours['cpu']:.2f} s, {ours['memory']:.0f} MB | {others} | {target} | {verdict} |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make-files", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    known = {row.name: row for row in ROWS}
    if asked.child:
        print(json.dumps(measure_here(known[asked.child[0]].make(asked.work, asked.size)[asked.child[1]])))
        return
    if asked.make_files:
        for make in FIXTURES:
            make(asked.work, asked.size)
        return
    for package in PEERS.values():
        peers.installed(CACHE, package)
    size = asked.size // 10 if asked.quick else asked.size
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        # In a process of its own: the kernel counts the memory of a parent as that of its children.
        command = [sys.executable, __file__, "--make-files", "--work", folder, "--size", str(size)]
        subprocess.run(command, check=True)
        print("| work | memlake | beside it | target | reached? |\n|---|---|---|---|---|")
        for name in asked.rows.split(","):
            print_row(known[name], measure_row(known[name], Path(folder), size, asked.rounds))


if __name__ == "__main__":
    main()
