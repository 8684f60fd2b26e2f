"""Runs: chains that ended in an answer instead of a save. Each leaves a record, and its rows when they are not many.

Recording is done beside the work, never fails it, and costs it next to nothing: what takes time is done by a thread.
Rows are kept as Arrow files in `.memlake/runs/`: derived, and gone when newer ones need their place.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from memlake import nofollow
from memlake.dataset.context import DatasetContext
from memlake.dataset.lineage import program, provenance
from memlake.dataset.parts import parquet
from memlake.dataset.parts.frames import Frame
from memlake.errors import Corrupt, InvalidInput, NotFound
from memlake.named_tuple import NamedTuple

NEWEST = 1000  # runs that are remembered
LARGEST = 64 << 20  # bytes of a result that is kept
_ROOM = 1 << 30  # bytes of all results
_SELDOM = 64  # runs until small results make room: looking at a thousand files takes longer than many a query
_AT_WORK: set[Future[None]] = set()
os.register_at_fork(after_in_child=_AT_WORK.clear)  # a fork has none of its parent's threads


class Run(NamedTuple):
    number: int
    time: int  # microseconds
    action: str
    rows: int | None  # None: not all were read
    seconds: float
    kept: str  # empty: its rows are kept; else why not
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class Result:
    """What an answer consists of, as far as it is small enough to be kept."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batches: list[pa.RecordBatch] | None = []
        self.rows, self.bytes, self.is_whole = 0, 0, False

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if self.batches is not None:
            self.batches = [*self.batches, batch] if self.bytes <= LARGEST else None

    def why_not(self) -> str:
        if not self.is_whole:
            return "only its first rows were asked for"
        return f"its rows are too large to keep ({self.bytes / 1e6:,.0f} MB)" if self.batches is None else ""


def of_table(table: pa.Table, most: int | None) -> Result:
    """A result that is there at once; with `most` rows or more, there may be others behind them."""
    made = Result(table.schema)
    for batch in table.to_batches():
        made.add(batch)
    made.is_whole = most is None or made.rows < most
    return made


# -- recording -------------------------------------------------------------------------------------


def record(context: DatasetContext, action: str, told: dict[str, Any], result: Result) -> None:
    """Note a run. A thread does what takes time; it is waited for when the repo is closed or Python ends."""
    note = _writer(os.getpid()).submit(_record, context, action, told, result)
    _AT_WORK.add(note)
    note.add_done_callback(_AT_WORK.discard)


@functools.cache
def _writer(process: int) -> ThreadPoolExecutor:
    """The one thread of a process: to start one for each note costs more than the note."""
    return ThreadPoolExecutor(1, f"memlake-runs-{process}")


def wait() -> None:
    futures.wait(list(_AT_WORK))


def _record(context: DatasetContext, action: str, told: dict[str, Any], result: Result) -> None:
    try:
        body = {
            "action": action, "rows": result.rows if result.is_whole else None, "seconds": told["seconds"],
            "kept": result.why_not(), "provenance": provenance.add_git_state(told, program.git_lately),
        }  # fmt: skip
        number = context.recall.keep_run(body, None, NEWEST)
        if not body["kept"] and number:
            _write(_folder(context), number, result)
        if number % _SELDOM == 0 or result.bytes > _ROOM >> 10:
            _make_room(_folder(context))
    except Exception:  # noqa: BLE001  an answer was given; that no note of it could be made is no reason to fail
        pass


def _folder(context: DatasetContext) -> Path:
    return context.folder / "runs"


def _write(folder: Path, number: int, result: Result) -> None:
    nofollow.make_folder(folder)
    new, file = folder / f"{number}.new", folder / f"{number}.arrow"
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(new), "wb") as sink, pa.ipc.new_file(sink, result.schema, options=options) as writer:
        for batch in result.batches or ():
            writer.write_batch(batch)
    nofollow.restrict_mode(new)
    new.replace(file)


def _make_room(folder: Path) -> None:
    """The newest results that fit; older ones go."""
    left = _ROOM
    numbered = sorted((int(file.stem), file) for file in folder.glob("*.arrow") if file.stem.isdecimal())
    for place, (_, file) in enumerate(reversed(numbered)):
        with contextlib.suppress(OSError):  # another process makes room too
            left -= file.stat().st_size
            if left < 0 or place >= NEWEST:
                file.unlink()


# -- reading ---------------------------------------------------------------------------------------


def list_runs(context: DatasetContext) -> Iterator[Run]:
    """The runs that are remembered, newest first."""
    wait()
    for number, made, told, _ in context.recall.runs():
        is_there = (_folder(context) / f"{number}.arrow").exists()
        kept = told["kept"] or ("" if is_there else "newer results needed their place")
        yield Run(number, made, told["action"], told["rows"], told["seconds"], kept, told["provenance"])


def get(context: DatasetContext, number: int) -> Run:
    for run in list_runs(context):
        if run.number == number:
            return run
    raise NotFound(f"there is no run {number}.", hint="See those that are remembered with: memlake runs")


def frame(context: DatasetContext, run: Run) -> Frame:
    """The rows a run gave."""
    if run.kept:
        raise InvalidInput(
            f"run {run.number} cannot become a dataset: {run.kept}. Nothing was saved.",
            hint=f"Run it again, ended by .save(NAME); its program: memlake runs show {run.number}",
        )
    path = _folder(context) / f"{run.number}.arrow"
    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise Corrupt(
            f"the rows of run {run.number} cannot be read: {error}. Nothing was saved.",
            hint=f"Run it again, ended by .save(NAME); its program: memlake runs show {run.number}",
        ) from error
    return Frame(table.schema, tuple(parquet.fragments([table], table.schema)))
