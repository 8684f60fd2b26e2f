"""Figures of datasets taken inside a process, ours and the same by hand in turns; the answer is one line of JSON.

Run by the rows as `python datasets_inside.py VERB '{"work": ..., ...}'`. CPU is user + system of the process, of the
children it has waited for, and of those still at work.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets_fixtures as fixtures
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import allocated, checkpoint

import memlake as ml
from memlake import C, func
from memlake.dataset.lineage import runs

Work = Callable[[], Any]
Times = dict[str, dict[str, list[float]]]
_TICK = os.sysconf("SC_CLK_TCK")
_numbers = itertools.count()


def spent() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(one) for one in whose]
    return sum(one.ru_utime + one.ru_stime for one in usages) + sum(map(_of, _children(os.getpid())))


def _children(pid: int) -> list[int]:
    """Living descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _read(task).split()):
            found += [child, *_children(child)]
    return found


def _of(pid: int) -> float:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK


def _read(file: Path) -> str:
    """Nothing of a thread or process that ended just now."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def clock(work: Work) -> tuple[Any, float, float]:
    cpu, wall = spent(), time.perf_counter()
    answer = work()
    return answer, spent() - cpu, time.perf_counter() - wall


def turns(rounds: int, works: dict[str, Work]) -> Times:
    """Each of the works once a round."""
    times: Times = {name: {"cpu": [], "wall": []} for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            _, cpu, wall = clock(work)
            times[name]["cpu"].append(cpu)
            times[name]["wall"].append(wall)
    return times


@contextmanager
def fresh(work: str) -> Iterator[Any]:
    """The datasets of a new repo, gone afterwards."""
    folder = Path(work) / f"repo-{next(_numbers)}-{os.getpid()}"
    with ml.init(folder) as lake:
        yield lake.datasets()
    shutil.rmtree(folder)


def saved(work: str, begin: Callable[[Any], Any]) -> Work:
    """A save into a new repo; only the save is the work, so that this gives the clock's answer."""
    return lambda: _saved(work, begin)


def _saved(work: str, begin: Callable[[Any], Any]) -> tuple[float, float]:
    with fresh(work) as here:
        _, cpu, wall = clock(lambda: begin(here).save("made"))
    return cpu, wall


def warm(work: str) -> None:
    """Load every module and start the engine: what is measured is work, not imports."""
    with fresh(work) as here:
        here.read_values(x=[1, 2, 3]).map(y=lambda x: x + 1).save("warm")
        here.read_dataset("warm").filter(C("x") > 1).to_pandas()


def beside(rounds: int, save: Work, raw: Work) -> Times:
    """Saves into new repos, and the same by hand, in turns."""
    times: Times = {"ours": {"cpu": [], "wall": []}, "raw": {"cpu": [], "wall": []}}
    for _ in range(rounds):
        found = {"ours": save(), "raw": clock(raw)[1:]}
        for name, (cpu, wall) in found.items():
            times[name]["cpu"].append(cpu)
            times[name]["wall"].append(wall)
    return times


# -- tables -------------------------------------------------------------------------------------


def ingest(work: str, source: str, rounds: int) -> Times:
    """read_parquet + save; by hand, read and written again."""
    warm(work)
    copy = f"{work}/copy.parquet"
    raw: Work = lambda: fixtures.write(pq.read_table(source), Path(copy))  # noqa: E731
    raw()
    return beside(rounds, saved(work, lambda here: here.read_parquet(source)), raw)


KINDS = {"plain": "score", "families": "double", "selection": "score"}


def queries(work: str, source: str, rounds: int) -> dict[str, Times]:
    """Three queries over a plain dataset, over two families, over a selection; by hand over Parquet with these rows."""
    plain = pq.read_table(source)
    double = plain.append_column("double", pa.array(plain["score"].to_numpy() * 2))
    half = plain.filter(pa.array(plain["score"].to_numpy() > 0.5))
    files = {"plain": source, "families": f"{work}/double.parquet", "selection": f"{work}/half.parquet"}
    fixtures.write(double, Path(files["families"]))
    fixtures.write(half, Path(files["selection"]))
    del plain, double, half
    with fresh(work) as here:
        base = here.read_parquet(source).save("plain")
        base.mutate(double=C("score") * 2).save("families")
        base.filter(C("score") > 0.5).save("selection")
        con = duckdb.connect()
        found = {}
        for kind, column in KINDS.items():
            for name, (ours, sql) in _questions(column).items():
                works = {
                    "ours": functools.partial(_asked, here, kind, ours),
                    "raw": functools.partial(_told, con, sql.format(file=files[kind])),
                }
                if kind == "selection":
                    works["where"] = functools.partial(_told, con, _all_of(sql, source))
                answers = [sorted(map(tuple, one())) for one in works.values()]
                assert all(_alike(answers[0], other) for other in answers[1:]), (kind, name, answers)
                found[f"{name}, {kind}"] = turns(rounds, works)
    return found


def _asked(here: Any, kind: str, ours: Callable[[Any], list[Any]]) -> list[Any]:
    """Our answer. The note of it is made beside it: it is waited for, so that it is in our figure, not in another's."""
    answer = ours(here.read_dataset(kind))
    runs.wait()
    return answer


def _told(con: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return con.execute(sql).fetchall()


def _all_of(sql: str, source: str) -> str:
    """The same question over all rows, the selection as a condition."""
    return sql.replace("'{file}'", f"(SELECT * FROM '{source}' WHERE score > 0.5)")


def _questions(column: str) -> dict[str, tuple[Callable[[Any], list[Any]], str]]:
    return {
        "group_by": (
            lambda rows: rows.group_by("cat", n=func.count(), mean=func.avg(column)).to_list(),
            f"SELECT cat, count(*), avg({column}) FROM '{{file}}' GROUP BY 1",
        ),
        "order_by + limit": (
            lambda rows: rows.order_by(C(column).desc()).limit(10).select("id").to_list(),
            f"SELECT id FROM '{{file}}' ORDER BY {column} DESC LIMIT 10",
        ),
        "filter + count": (
            lambda rows: [(rows.filter(C(column) > 0.7, C("size") < 1000).count(),)],
            f"SELECT count(*) FROM '{{file}}' WHERE {column} > 0.7 AND size < 1000",
        ),
    }


def _alike(ours: list[Any], raw: list[Any]) -> bool:
    """The same, but for the last digits of a mean."""
    pairs = [pair for one, other in zip(ours, raw, strict=True) for pair in zip(one, other, strict=True)]
    return all(abs(one - other) < 1e-9 if isinstance(one, float) else one == other for one, other in pairs)


def frames(work: str, source: str, rounds: int) -> Times:
    """to_pandas of a saved dataset; by hand from Parquet."""
    with fresh(work) as here:
        here.read_parquet(source).save("plain")
        works = {
            "ours": lambda: here.read_dataset("plain").to_pandas(),
            "raw": lambda: pq.read_table(source).to_pandas(),
        }
        assert works["ours"]().equals(works["raw"]())
        return turns(rounds, works)


# -- functions ----------------------------------------------------------------------------------


def times(number: int) -> Callable[[int], int]:
    """A trivial function; another number is another function, so that nothing is remembered."""

    def twice(x: int) -> int:
        return x * number

    return twice


def maps(work: str, count: int, rounds: int) -> Times:
    """map + save of a trivial function, serial and parallel=2; by hand, a loop between two Parquet files."""
    source, made = f"{work}/numbers.parquet", f"{work}/made.parquet"
    pq.write_table(pa.table({"x": np.arange(count)}), source)
    number = itertools.count(2)
    with fresh(work) as here:
        here.read_parquet(source).save("numbers")

        def ours(parallel: int) -> None:
            chain = here.read_dataset("numbers").settings(parallel=parallel)
            chain.map(y=times(next(number))).save("made")

        def raw() -> None:
            call, table = times(next(number)), pq.read_table(source)
            pq.write_table(table.append_column("y", pa.array([call(x) for x in table["x"].to_pylist()])), made)

        works = {"ours": lambda: ours(1), "parallel": lambda: ours(2), "raw": raw}
        turns(1, works)
        return turns(rounds, works)


def nearest(work: str, source: str, rounds: int) -> dict[str, Any]:
    """The ten nearest of saved vectors, the first time and after it; by hand with numpy over a matrix mapped once."""
    matrix = np.load(source, mmap_mode="r")
    query = fixtures.query(matrix)
    with fresh(work) as here:
        here.read_parquet(source.replace(".npy", ".parquet")).save("vectors")

        def ours() -> list[int]:
            chain = here.read_dataset("vectors").mutate(distance=func.cosine_distance("emb", query))
            return list(chain.order_by("distance").limit(10).to_values("id"))

        works = {"ours": ours, "raw": lambda: _nearest(matrix, query)}
        found, cpu, wall = clock(ours)
        assert found == works["raw"](), "the ten nearest differ"
        return {**turns(rounds, works), "first": {"cpu": [cpu], "wall": [wall]}}


def _nearest(matrix: np.ndarray, query: list[float]) -> list[int]:
    wanted = np.asarray(query, np.float32)
    far = 1 - (matrix @ wanted) / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(wanted))
    best = np.argpartition(far, 10)[:10]
    return [int(one) for one in best[np.argsort(far[best])]]


# -- files --------------------------------------------------------------------------------------


def listing(work: str, source: str, rounds: int) -> Times:
    """A folder listed and saved; by hand with scandir and Parquet."""
    warm(work)
    return beside(
        rounds,
        saved(work, lambda here: here.read_storage(source)),
        functools.partial(_scanned, source, f"{work}/listed.parquet"),
    )


def _scanned(top: str, file: str) -> None:
    found: list[tuple[str, int, float, str]] = []
    folders = [top]
    while folders:
        for entry in os.scandir(folders.pop()):
            if entry.is_dir():
                folders.append(entry.path)
            else:
                stat = entry.stat()
                name, etag = entry.path[len(top) + 1 :], hex(stat.st_ino ^ stat.st_mtime_ns)
                found.append((name, stat.st_size, stat.st_mtime, etag))
    columns = dict(zip(("path", "size", "mtime", "etag"), map(list, zip(*found, strict=True)), strict=True))
    pq.write_table(pa.table(columns), file, compression="zstd")


def sizes(work: str, source: str) -> dict[str, dict[str, int]]:
    """Bytes a repo grows by, all of it counted; by hand, the same rows as Parquet."""
    folder = Path(work) / "sizes"
    file, found = Path(work) / "size.parquet", {}
    rows = pq.read_table(source)
    new = fixtures.table(len(rows) // 10, seed=1)
    column = pa.table({"double": rows["score"].to_numpy() * 2})
    steps: dict[str, tuple[Callable[[Any], Any], pa.Table]] = {
        "rows": (lambda here: here.read_parquet(source).save("plain"), rows),
        "column": (lambda here: here.read_dataset("plain").mutate(double=C("score") * 2).save("wide"), column),
        "append": (lambda here: here.read_dataset("plain").union(here.read_arrow(new)).save("plain"), new),
    }
    with ml.init(folder) as lake:
        lake.datasets().read_values(x=[1]).save("first")
        for name, (save, table) in steps.items():
            before = _stored(folder)
            assert save(lake.datasets()).count() == (len(rows) + len(new) if name == "append" else len(rows))
            found[name] = {"ours": _stored(folder) - before, "raw": fixtures.write(table, file)}
    shutil.rmtree(folder)
    return found


def _stored(folder: Path) -> int:
    checkpoint(folder)
    return allocated(folder)


VERBS = {one.__name__: one for one in (ingest, queries, frames, maps, nearest, listing, sizes)}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](**json.loads(sys.argv[2]))))
