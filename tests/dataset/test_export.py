"""Files that chains are written to."""

from __future__ import annotations

from pathlib import Path

from tests.dataset.conftest import Python

FULL = """
import os, resource
import memlake as ml
rows = ml.read_values(x=[os.urandom(40).hex() for _ in range(60_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, resource.RLIM_INFINITY))
for kind in ("csv", "json", "jsonl", "parquet"):
    for name in ("old", "new"):
        try:
            getattr(rows, f"to_{kind}")(f"out/{name}.{kind}")
        except ml.Error as error:
            print(type(error).__name__, error.message.rpartition("/")[2])
"""


def test_where_a_file_cannot_be_written_the_old_one_stays(python: Python, here: Path) -> None:
    """A limit on the size of files stands for a disk that is full."""
    (here / "out").mkdir()
    kinds = ("csv", "json", "jsonl", "parquet")
    for kind in kinds:
        (here / f"out/old.{kind}").write_text("before")
    Path("full.py").write_text(FULL)
    told = python("full.py").stdout.splitlines()
    ends = {"old": "The old file is unchanged.", "new": "No file was left."}
    assert told == [
        f"Unavailable {name}.{kind} could not be written: File too large. {end}"
        for kind in kinds
        for name, end in ends.items()
    ]
    assert {path.name: path.read_text() for path in (here / "out").iterdir()} == {f"old.{k}": "before" for k in kinds}
