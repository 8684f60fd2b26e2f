"""Nothing out of a repo is ever unpickled or executed: pickles and extension types are planted, then all is read."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memlake as ml
from memlake.dataset.lineage import runs
from memlake.dataset.parts import frames, sums
from memlake.dataset.storages import buckets
from memlake.dataset.types.files import File
from tests.reliability.ground import forged


class Canary:
    """Once unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def double(x: int) -> int:
    return 2 * x


@pytest.fixture
def made(here: Path) -> Path:
    """A repo with a dataset, work that is remembered, a run, and vectors beside it."""
    with ml.init(here) as repo:
        ds = repo.datasets()
        rows = ds.read_values(x=[1, 2, 3], v=[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]).map(y=double, params=["x"])
        rows.save("d")
        rows.filter(ml.C("x") > 1).to_records()
        runs.wait()
    return here


def read_everything() -> list[str]:
    """Every reading verb; what they fail with."""
    failed: list[str] = []
    with contextlib.ExitStack() as stack:
        try:
            repo = stack.enter_context(ml.open("."))
            ds = repo.datasets()
        except ml.Error as error:
            return [str(error)]
        verbs: list[Callable[[], object]] = [
            ds.runs, lambda: ds.promote(1, "again"), ds.all, lambda: ds.read_dataset("d").to_records(),
            lambda: ds.read_dataset("d").map(y=double, params=["x"]).to_records(), lambda: ds.preview("d"),
            lambda: ds.read_dataset("d").similarity_search("v", [1.0, 2.0]).to_records(),
            lambda: ds.diff("d", "d"), lambda: ds.lineage("d"), lambda: ds.export("d", "out.csv", force=True),
            lambda: repo.upkeep.fsck(full=True), repo.status, lambda: list(repo.log()), repo.upkeep.gc,
        ]  # fmt: skip
        for verb in verbs:
            try:
                verb()
            except ml.Error as error:
                failed.append(str(error))
    return failed


BLOBS = {"plan": "frame", "listing": "frame", "piece": "data", "shard": "family", "run": "told"}


def poison(path: Path, blob: bytes) -> None:
    """Every blob of every table, in pages whose checksums are right."""
    with forged(path) as db:
        for table, column in BLOBS.items():
            db.execute(f"UPDATE {table} SET {column} = ?", (blob,))
        assert db.execute("SELECT (SELECT count(*) FROM plan), (SELECT count(*) FROM shard)").fetchone() > (0, 0)


def hostile_arrow(canary: bytes, sink: Any) -> None:
    """Rows whose type says it is a pickled class, as pyarrow once believed, with pandas metadata beside."""
    marks = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": canary}
    schema = pa.schema(
        [pa.field("x", pa.int64(), metadata=marks)], metadata={b"pandas": canary, b"huggingface": canary}
    )
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], schema=schema))


def test_planted_pickles_are_never_run(made: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    blob = pickle.dumps(Canary(canary))
    folder = made / ".memlake"
    poison(folder / "datasets.db", blob)
    hostile_arrow(blob, str(next(folder.glob("runs/*.arrow"), folder / "runs/1.arrow")))
    for file in folder.rglob("*.npy"):
        np.save(file, np.array([Canary(canary)], dtype=object), allow_pickle=True)
    for cached in (folder / "cache").rglob("*"):
        cached.write_bytes(blob) if cached.is_file() else None
    failed = read_everything()
    assert any("run" in one for one in failed), "runs are not passed over in silence"
    assert not any("unexpected" in one for one in failed)
    assert not canary.exists()
    pickle.loads(blob)
    assert canary.exists(), "the canary sings when it is unpickled"


def test_planted_parts_and_files_are_never_run(made: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    blob = pickle.dumps(Canary(canary))
    marks = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": blob}
    schema = pa.schema([pa.field("x", pa.int64(), metadata=marks)], metadata={b"pandas": blob})
    pq.write_table(pa.table([pa.array([1])], schema=schema), "t.parquet")
    with ml.open(".") as repo:
        ds = repo.datasets()
        ds.read_parquet("t.parquet").save("foreign")
        assert ds.read_dataset("foreign").to_pandas()["x"].tolist() == [1]
    for part in (made / ".memlake/parts").rglob("*"):
        if part.is_file():
            part.chmod(0o600)
            shutil.copy("t.parquet", part)
    read_everything()
    assert not canary.exists()


def test_a_run_that_is_none_is_named(made: Path) -> None:
    for told in (b"\x80\x04\xff", b"[1]", b'{"action": 1}', b"[" * 100_000, b"null"):
        with apsw.Connection(str(made / ".memlake/datasets.db")) as db:
            db.execute("UPDATE run SET told = ?", (told,))
        with ml.open(".") as repo, pytest.raises(ml.Error, match=r"run \d+ in datasets\.db cannot be read"):
            repo.datasets().runs()


def test_a_small_part_that_says_it_holds_millions_of_rows_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "bomb.parquet")
    pq.write_table(pa.table({"x": pa.repeat(1, 3_000_000)}), path)
    assert os.path.getsize(path) < 100_000
    with pytest.raises(ml.Error, match="3,000,000 rows"):
        sums.check(path, ["x"], sums.footer(path))


@pytest.mark.parametrize(
    "changed",
    [{"rows": 10**12}, {"rows": -1}, {"rows": 2.0}, {"families": [{"part": "../x", "bytes": 1}]}, {"rows": None}],
    ids=str,
)
def test_a_manifest_that_says_any_number_is_refused_before_memory_is_asked_for(changed: dict[str, Any]) -> None:
    family = {"part": "a" * 64, "bytes": 10, "footer": "", "columns": {"x": "m"}}
    told = {"fragments": [{"rows": 3, "families": [family], **changed}]}
    with pytest.raises(ml.Error, match="the manifest of a dataset cannot be read"):
        frames.decode_manifest(pa.schema([pa.field("x", pa.int64())]), json.dumps(told).encode())


def test_deep_nesting_in_a_manifest_is_a_named_error() -> None:
    with pytest.raises(ml.Error, match="the manifest of a dataset cannot be read"):
        frames.decode_manifest(pa.schema([]), b"[" * 100_000)


def test_a_key_that_leads_upwards_is_refused_by_name() -> None:
    with pytest.raises(ml.Error, match=r"'\.\./x' cannot be the key of a file in s3://b"):
        buckets.reach(File(source="s3://b", path="../x"), {})
