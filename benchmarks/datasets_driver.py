"""DataChain doing what the dataset rows do, in its own environment and an empty folder: `datasets_driver.py ROW JSON`.

Its checkpoints are off, else a repeat would time a lookup; `no_reuse` fails the run should one have been used anyway.
The answer is the last line, JSON: CPU seconds of the process and its children, and bytes.
"""

# No `from __future__ import annotations`: DataChain cannot resolve a function's annotations that are text.
import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets_fixtures as fixtures


def clock(work: Callable[[], Any]) -> dict[str, float]:
    before, wall = _spent(), time.perf_counter()
    work()
    return {"cpu": _spent() - before, "wall": time.perf_counter() - wall}


def _spent() -> float:
    usages = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usages)


def stored() -> int:
    return sum(path.stat().st_size for path in Path(".datachain").rglob("*") if path.is_file())


def twice(x: int) -> int:
    return x * 2


def table(source: str) -> dict[str, Any]:
    """Rows a, b, c and g: ingest, three queries, to_pandas, sizes."""
    import datachain as dc

    answer: dict[str, Any] = {"ingest": clock(lambda: dc.read_parquet(source, source=False).save("recs").count())}
    sizes = {"rows": stored()}
    read = lambda: dc.read_dataset("recs")  # noqa: E731
    works = {
        "group_by": lambda: read().group_by(n=dc.func.count(), s=dc.func.avg("score"), partition_by="cat").to_list(),
        "order_by + limit": lambda: read().order_by("score", descending=True).limit(10).to_values("id"),
        "filter + count": lambda: read().filter(dc.C("score") > 0.7, dc.C("size") < 1000).count(),
    }
    for name, one in works.items():
        answer[name] = min((clock(one) for _ in range(3)), key=lambda cost: cost["cpu"])
    answer["to_pandas"] = clock(lambda: read().to_pandas())
    before = stored()
    read().mutate(double=dc.C("score") * 2).save("wide")
    sizes["column"] = stored() - before
    before = stored()
    new = Path.cwd() / "new.parquet"
    fixtures.write(fixtures.table(read().count() // 10, seed=1), new)
    read().union(dc.read_parquet(str(new), source=False)).save("recs")
    sizes["append"] = stored() - before
    return {**answer, "sizes": sizes}


def maps(count: int) -> dict[str, Any]:
    """Row d: a trivial function, serial at its defaults, without prefetching, and with two processes."""
    import datachain as dc

    dc.read_values(x=list(range(count))).save("base")
    read = lambda **how: dc.read_dataset("base").settings(**how) if how else dc.read_dataset("base")  # noqa: E731
    return {
        "ours": clock(lambda: read().map(y=twice).save("serial").count()),
        "tuned": clock(lambda: read(prefetch=0).map(y=twice).save("tuned").count()),
        "parallel": clock(lambda: read(parallel=2, prefetch=0).map(y=twice).save("parallel").count()),
    }


def nearest(source: str) -> dict[str, Any]:
    """Row e: the ten nearest vectors."""
    import datachain as dc
    import numpy as np

    matrix = np.load(source)
    query = fixtures.query(matrix)
    records = ({"id": i, "emb": one.tolist()} for i, one in enumerate(matrix))
    save = clock(lambda: dc.read_records(records, schema={"id": int, "emb": list[float]}).save("vectors"))
    near = dc.read_dataset("vectors").mutate(distance=dc.func.cosine_distance("emb", query))
    return {"save": save, "ours": clock(lambda: near.order_by("distance").limit(10).to_values("id"))}


def listing(source: str) -> dict[str, Any]:
    """Row f: a folder listed and saved."""
    import datachain as dc

    return {"ours": clock(lambda: dc.read_storage(source, update=True).save("files").count())}


def changed(count: int) -> dict[str, Any]:
    """Row i: 1 % of files changed, with delta=True as it comes; rows that should be there, and that are."""
    import datachain as dc

    top = fixtures.files(Path.cwd(), count)
    made = lambda: dc.read_storage(str(top), update=True, delta=True).map(n=lambda file: file.path).save("read").count()  # noqa: E731
    first = made()
    for number in range(0, count, 100):
        fixtures.text(top, number).write_text(f"changed {number}")
    return {"files": count, "first": first, "rows": made()}


def no_reuse() -> None:
    """Fail when a timed step was answered from a checkpoint."""
    db = sqlite3.connect(".datachain/db")
    sql = "SELECT * FROM checkpoint_events WHERE event_type LIKE '%SKIPPED%' OR coalesce(rows_input_reused, 0) > 0"
    reused = db.execute(sql).fetchall()
    assert not reused, reused


ROWS = {one.__name__: one for one in (table, maps, nearest, listing, changed)}

if __name__ == "__main__":
    os.environ |= {"DATACHAIN_IGNORE_CHECKPOINTS": "1", "DATACHAIN_NO_ANALYTICS": "1",
                   "DATACHAIN_ROOT_DIR": os.getcwd()}  # fmt: skip
    answer = ROWS[sys.argv[1]](**json.loads(sys.argv[2]))
    if sys.argv[1] != "changed":
        no_reuse()
    print(json.dumps(answer))
