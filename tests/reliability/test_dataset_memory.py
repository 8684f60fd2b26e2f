"""Memory stays bounded however many rows are saved, and an order that does not fit is spilled beside the repo."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memlake.rows import duckdb_connections
from tests.reliability.dataset_ground import leftovers
from tests.reliability.ground import init, python

ROWS, LIMIT = 3_000_000, 600  # megabytes of the whole process, with Python, Arrow and DuckDB in it

_SAVE = """
import sys
import memlake as ml
repo = ml.init(sys.argv[1])
repo.datasets().read_parquet(sys.argv[2]).filter(ml.C("a") > 0.05).save("big")
# Not ru_maxrss: it counts what the parent had when it started us.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(repo.datasets().read_dataset("big").count(), int(peak.split()[1]) // 1024)
"""


def rows_at(path: Path, rows: int) -> Path:
    """Rows in row groups as others write them: numbers that do not compress, and texts."""
    writer, each = None, 250_000
    for start in range(0, rows, each):
        chance, count = np.random.default_rng(start), min(each, rows - start)
        columns = {"id": np.arange(start, start + count), "a": chance.random(count), "b": chance.random(count)}
        table = pa.table({**columns, "c": chance.integers(0, 1 << 60, count)})
        table = table.append_column("s", table["c"].cast(pa.string()))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def test_three_million_rows_are_saved_in_bounded_memory(tmp_path: Path) -> None:
    source = rows_at(tmp_path / "rows.parquet", ROWS)
    (tmp_path / "repo").mkdir()
    with python("-c", _SAVE, str(tmp_path / "repo"), str(source), stdout=subprocess.PIPE) as child:
        out, _ = child.communicate(timeout=200)
    assert child.returncode == 0
    rows, peak = map(int, out.split())
    print(f"{rows:,} rows, {peak} MB")
    assert 2_800_000 < rows < ROWS
    assert peak < LIMIT


def test_an_order_that_does_not_fit_in_memory_spills_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, spilled = rows_at(tmp_path / "rows.parquet", 1_000_000), []
    monkeypatch.setattr(
        duckdb_connections, "_CLOSED", duckdb_connections._CLOSED | {"memory_limit": "60MB", "threads": "1"}
    )
    with init(tmp_path / "repo") as repo:
        data = repo.datasets()
        chain = data.read_parquet(source).order_by("c")
        last, rows = -1, 0
        for batch in data.session.batches(chain.plan, chain._settings):
            spilled += leftovers(tmp_path / "repo")
            values = batch.column("c").to_numpy()
            assert last <= values[0] and (np.diff(values) >= 0).all()
            last, rows = values[-1], rows + len(values)
        assert rows == 1_000_000
        assert spilled, "it fitted in memory"
        repo.upkeep.gc(prune=True)
    assert not [name for name in leftovers(tmp_path / "repo") if name.startswith("family-")]
