"""A version as plain files, Parquet, CSV or JSON lines, that need no memlake. Holds one fragment at a time."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from memlake.dataset import outputs
from memlake.dataset.parts import parquet
from memlake.dataset.parts.version_record import Version
from memlake.errors import AlreadyExists, InvalidInput

FORMATS = ("parquet", "csv", "jsonl")


class Exported(NamedTuple):
    version: str
    rows: int
    bytes: int
    files: tuple[str, ...]


def export(
    version: Version, batches: Iterator[pa.RecordBatch], target: Path, *, form: str | None, force: bool
) -> Exported:
    """Write to one file when the target is called like one (`pets.parquet`), else to a folder of files of 256k rows."""
    told = target.suffix.removeprefix(".").lower()
    kind = form or (told if told in FORMATS else "parquet")
    if kind not in FORMATS:
        raise InvalidInput(f"{kind!r} is no format. Nothing was written.", hint=f"Formats are {', '.join(FORMATS)}.")
    if form is None and told.isalpha() and told not in FORMATS and not target.is_dir():
        raise InvalidInput(
            f"{target} is called like a file of a format that is not known here. Nothing was written.",
            hint=f"Formats are {', '.join(FORMATS)}; a folder may be called so when the format is given too.",
        )
    if re.match(r"[a-z]\w+:/", str(target)):
        raise InvalidInput(
            f"{target} is no folder here. Nothing was written.", hint="Export to a folder, then copy it."
        )
    pieces = _pieces(version, batches)
    if told in FORMATS:
        if target.is_dir():
            raise InvalidInput(
                f"{target} is a folder. Nothing was written.", hint="Name a file in it, or another folder."
            )
        if target.exists() and not force:
            raise AlreadyExists(f"{target} is there already. Nothing was written.", hint="Say -f to replace it.")
        _write(kind, (batch for piece in pieces for batch in piece), target)
        files = [target]
    else:
        if target.is_file():
            raise AlreadyExists(
                f"{target} is a file. Nothing was written.", hint=f"Name a folder, or {target}.parquet."
            )
        found = sorted(os.listdir(target)) if target.exists() else []
        strange = [name for name in found if not name.startswith("part-") or name.rpartition(".")[2] not in FORMATS]
        if strange:
            raise AlreadyExists(
                f"{target} holds {strange[0]}, which no export wrote. Nothing was written.", hint="Name another folder."
            )
        if found and not force:
            raise AlreadyExists(f"{target} holds an export already. Nothing was written.", hint="Say -f to replace it.")
        files = _fill(kind, pieces, target)
    return Exported(version.spec, version.rows, sum(one.stat().st_size for one in files), tuple(map(str, files)))


def _pieces(version: Version, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Rows of at most a fragment; one piece without rows says at least what the columns are."""
    tables = parquet.cut(batches, version.schema)
    first = next(tables, None)
    if first is None:
        yield [pa.RecordBatch.from_pylist([], schema=version.schema)]
        return
    for table in itertools.chain([first], tables):
        yield table.to_batches()


def _write(kind: str, batches: Iterator[pa.RecordBatch], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        outputs.to_parquet(batches, file, (), {})
    elif kind == "csv":
        outputs.to_csv(batches, file, ",", header=True)
    else:
        outputs.to_json(batches, file, lines=True)


def _fill(kind: str, pieces: Iterator[list[pa.RecordBatch]], folder: Path) -> list[Path]:
    """The folder is there whole or as it was."""
    made = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    names = []
    try:
        for number, piece in enumerate(pieces):
            names.append(f"part-{number:05}.{kind}")
            _write(kind, iter(piece), made / names[-1])
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return [folder / name for name in names]
