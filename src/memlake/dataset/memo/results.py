"""Memo: results of functions by what they are results of, in datasets.db. Knows keys and frames, not what runs.

Three levels, tried in turn: a whole plan, a fragment of a function's output (a shard), single rows. Rows are only
looked up for functions that cost more than finding the answer does.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from memlake.dataset import feedback
from memlake.dataset.parts import frames
from memlake.dataset.parts.frames import Family, Frame
from memlake.dataset.parts.parquet import Parts, fit_schema, make_family
from memlake.errors import Corrupt, InvalidInput, NotFound, Purged, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.objects import disk, leases
from memlake.objects.db import Database, Row, array
from memlake.objects.layout import now

_SCHEMA = Path(__file__).with_name("results.sql")
# What reading a row of a stranger's datasets.db may end in: it is not relied on then.
# Arrow says of a damaged schema that it is an OSError.
_FOREIGN = (
    ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError, OSError, Corrupt, pa.ArrowException,
)  # fmt: skip
_OF_PART = (
    "DELETE FROM plan WHERE instr(frame, ?)",
    "DELETE FROM listing WHERE instr(frame, ?)",
    "DELETE FROM shard WHERE instr(family, ?)",
)
_SHARD = "key, function, family, rows, seconds, fields, row_keys"
_LOOKED = b"memlake.looked"
UNKNOWN = 2  # what an answer hangs on that does not say it: it is not taken for one over other files of the same bytes
DEAR = 1e-5  # seconds a row above which rows are remembered one by one; finding one costs about 1e-6


class Shard(NamedTuple):
    """What a function answered for a fragment, as its row says it; for whoever sends it elsewhere."""

    key: bytes
    function: bytes
    family: bytes
    rows: int
    seconds: float
    fields: bytes
    row_keys: bytes | None

    @property
    def part(self) -> str:
        """The part that holds the answers. Raises ValueError for a row that names none."""
        try:
            oid = json.loads(self.family)["part"]
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it names no part: {error}") from error
        if type(oid) is not str or len(oid) != 64:
            raise ValueError(f"{oid!r:.80} is no part")
        return oid


class Known(NamedTuple):
    """Rows a function has answered before: sorted keys, and for each the row of the tables that holds the answer.

    The tables stay apart, each in the types it was written with: what one run showed must not change another's.
    """

    keys: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]  # counted through all tables
    tables: tuple[pa.Table, ...]
    looked: np.ndarray[Any, Any]  # for each row what its answer hangs on, if that was kept: file_keys.py
    pieces: frozenset[int] = frozenset()  # those that shards will have taken the place of

    def find(self, keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """For each key the row that answers it, the newest where there are several, or -1."""
        at = (np.searchsorted(self.keys, keys, side="right") - 1).clip(min=0)
        return np.where(self.keys[at] == keys, self.rows[at], -1)

    def take(self, rows: np.ndarray[Any, Any]) -> Iterator[tuple[np.ndarray[Any, Any], pa.Table]]:
        """These rows, table by table: their places in `rows`, and the answers."""
        start = 0
        for table in self.tables:
            places = np.flatnonzero((rows >= start) & (rows < start + table.num_rows))
            if len(places):
                yield places, table.take(pa.array(rows[places] - start))
            start += table.num_rows

    def join(self, other: Known) -> Known:
        """Both in one. Keys are of one function each, so none is in both."""
        keys = np.concatenate([self.keys, other.keys])
        rows = np.concatenate([self.rows, other.rows + len(self.looked)])
        order, looked = np.argsort(keys, kind="stable"), np.concatenate([self.looked, other.looked])
        return Known(keys[order], rows[order], self.tables + other.tables, looked, self.pieces | other.pieces)


class Memo:
    def __init__(self, path: Path, parts: Parts) -> None:
        self._db = _open(path)
        self._parts = parts
        self.relied_on: set[str] = set()  # parts that were handed out without looking into them
        self._silent: dict[str, float] = {}  # until when what failed is not tried again
        self._is_closed = False

    # -- plans --------------------------------------------------------------------------------

    def frame(self, key: str) -> Frame | None:
        """The frame a plan led to, when all its parts are still there."""
        for (data,) in self._rows("SELECT frame FROM plan WHERE key = ?", (bytes.fromhex(key),)):
            return self._frame(data)
        return None

    def keep_frame(self, key: str, frame: Frame) -> None:
        sql = "INSERT OR REPLACE INTO plan(key, frame, made) VALUES(?, ?, ?)"
        self._run(sql, (bytes.fromhex(key), _encode_frame(frame), now()))

    def _frame(self, data: bytes) -> Frame | None:
        try:
            told = json.loads(data)
            frame = frames.decode(frames.decode_schema(told["schema"]), told)
        except _FOREIGN:
            return None
        return frame if all(map(self._has_part, frame.families())) else None

    def _has_part(self, family: Family) -> bool:
        assert family.oid is not None
        with contextlib.suppress(NotFound, Purged, Corrupt, OSError):
            if os.path.getsize(self._parts.path(family)) == self._parts.objects.size(family.oid):
                self.relied_on.add(family.oid)
                return True
        return False

    # -- shards -------------------------------------------------------------------------------

    def family(self, key: str) -> tuple[Family, tuple[pa.Field, ...]] | None:
        """The family a function made of a fragment, and its fields."""
        for told, fields in self._rows("SELECT family, fields FROM shard WHERE key = ?", (bytes.fromhex(key),)):
            family = _decode_family(told)
            with contextlib.suppress(*_FOREIGN):
                return (
                    (family, tuple(pa.ipc.read_schema(pa.py_buffer(fields))))
                    if family is not None and self._has_part(family)
                    else None
                )
        return None

    def keep_family(
        self, key: str, function: str, family: Family, fields: Sequence[pa.Field], *, cost: float, keys: Any = None
    ) -> None:
        """Remember a shard, and with `keys` each of its rows."""
        told = json.dumps(frames.encode_family(family)).encode()
        schema = bytes(pa.schema(list(fields)).serialize())
        packed = None if keys is None else keys.tobytes()
        rows = 0 if keys is None else len(keys)
        names = bytes.fromhex(key), bytes.fromhex(function)
        self._run(
            "INSERT OR REPLACE INTO shard(key, function, family, rows, seconds, made, fields, row_keys) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (*names, told, rows, cost, now(), schema, packed),
        )

    def list_shards(self) -> list[Shard]:
        """Every shard whose part is here."""
        rows = self._rows(f"SELECT {_SHARD} FROM shard ORDER BY key")
        families = ((Shard(*row), _decode_family(row[2])) for row in rows)
        return [shard for shard, family in families if family is not None and self._has_part(family)]

    def has_shard(self, key: bytes) -> bool:
        return self.family(key.hex()) is not None

    def keep_shard(self, shard: Shard) -> None:
        """Remember a shard of elsewhere whose part is here. Raises Corrupt if that is not what the row says.

        All but one thing is checked: whether the function would answer this. So whoever sent it must be trusted.
        """
        family = _decode_family(shard.family)
        try:
            if family is None or len(shard.function) != len(shard.key):
                raise ValueError("it names no part or no function")
            schema = pa.ipc.read_schema(pa.py_buffer(shard.fields))
            if not self._has_part(family) or tuple(schema.names) != family.columns:
                raise ValueError("it has other columns, or another size")
            table = fit_schema(self._parts.table(family, family.columns), schema)
            rows = 0 if shard.row_keys is None else len(shard.row_keys) // KEY.itemsize
            if make_family(table).marks != family.marks or shard.rows != rows or (rows and rows != table.num_rows):
                raise ValueError("its values are not those that its marks are of")
        except (*_FOREIGN, InvalidInput) as error:
            raise Corrupt(f"a result of a function is not what it says: {error}.") from error
        sql = f"INSERT OR REPLACE INTO shard({_SHARD}, made) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
        self._run(sql, (*shard, now()))

    # -- rows ---------------------------------------------------------------------------------

    def keep_piece(
        self, function: str, keys: np.ndarray[Any, Any], table: pa.Table, looked: np.ndarray[Any, Any]
    ) -> int:
        """Rows of a shard that is not finished: what a killed run leaves for the next."""
        table = table.replace_schema_metadata({_LOOKED: looked.tobytes()})
        told, packed = bytes.fromhex(function), keys.tobytes()
        sql = "INSERT INTO piece(function, row_keys, data, made) VALUES(?, ?, ?, ?)"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        return self._run(sql, (told, packed, bytes(sink.getvalue()), now()))

    def drop_pieces(self, pieces: Iterable[int]) -> None:
        """Let go of pieces whose shards are finished; others may be at work on theirs."""
        given = tuple(pieces)
        if given:
            self._run("DELETE FROM piece WHERE id IN carray(?1)", (array(given),))

    def known_rows(self, function: str) -> Known | None:
        """Every row this function has answered."""
        keys, tables, looked, pieces = [], [], [], set()
        for piece, packed, table in self._answers(bytes.fromhex(function)):
            pieces |= {piece} if piece else set()
            if isinstance(packed, bytes) and len(packed) == table.num_rows * KEY.itemsize:
                kept = (table.schema.metadata or {}).get(_LOOKED, b"")
                kept = kept if len(kept) == table.num_rows else bytes([UNKNOWN]) * table.num_rows
                keys.append(np.frombuffer(packed, KEY))
                tables.append(table.replace_schema_metadata(None))
                looked.append(np.frombuffer(kept, np.uint8))
        if not keys:
            return None
        everything = np.concatenate(keys)
        order = np.argsort(everything, kind="stable")
        return Known(everything[order], order, tuple(tables), np.concatenate(looked), frozenset(pieces))

    def cost_of(self, function: str) -> float:
        """The most seconds a row that shards of a function took."""
        rows = self._rows("SELECT max(seconds) FROM shard WHERE function = ?", (bytes.fromhex(function),))
        return float(rows[0][0] or 0.0) if rows else 0.0

    def _answers(self, function: bytes) -> Iterator[tuple[int, Any, pa.Table]]:
        sql = "SELECT family, row_keys FROM shard WHERE function = ? AND row_keys NOT NULL ORDER BY made"
        for told, keys in self._rows(sql, (function,)):
            family = _decode_family(told)
            if family is not None and self._has_part(family):
                with contextlib.suppress(Corrupt):
                    yield 0, keys, self._parts.table(family, family.columns)
        sql = "SELECT id, row_keys, data FROM piece WHERE function = ? ORDER BY id"
        for number, keys, data in self._rows(sql, (function,)):
            with contextlib.suppress(*_FOREIGN):
                yield number, keys, pa.ipc.open_stream(data).read_all()

    # -- the bytes of files -------------------------------------------------------------------

    def find_contents(self, files: Iterable[bytes]) -> dict[bytes, bytes]:
        """The hashes of those of these files that were read, each in the state that its key names."""
        wanted = tuple(files)
        return dict(
            self._rows("SELECT file, oid FROM content WHERE file IN carray(?1)", (array(wanted),)) if wanted else ()
        )

    def keep_contents(self, oids: Mapping[bytes, bytes]) -> None:
        if oids:
            self._run_many("INSERT OR REPLACE INTO content(file, oid) VALUES(?, ?)", tuple(oids.items()))

    # -- suspects: rows whose worker died -----------------------------------------------------

    def suspects(self, function: str) -> np.ndarray[Any, Any]:
        """The keys of rows this function must not be run on but alone, in a process of its own."""
        rows = self._rows("SELECT row_key FROM suspect WHERE function = ?", (bytes.fromhex(function),))
        return np.frombuffer(b"".join(key for (key,) in rows if len(key) == KEY.itemsize), KEY)

    def add_suspects(self, function: str, keys: np.ndarray[Any, Any]) -> None:
        sql = "INSERT OR IGNORE INTO suspect(row_key, function) SELECT value, ?2 FROM carray(?1)"
        self._run(sql, (array(_split_keys(keys)), bytes.fromhex(function)))

    def clear_suspects(self, function: str, keys: np.ndarray[Any, Any]) -> None:
        sql = "DELETE FROM suspect WHERE row_key IN carray(?1) AND function = ?2"
        if len(keys):
            self._run(sql, (array(_split_keys(keys)), bytes.fromhex(function)))

    # -- notes: functions begun in a process that may not outlive them ------------------------

    def leave_note(self, function: str) -> int:
        """Note that this process is about to run a function itself; the id of the note."""
        sql = "INSERT INTO begun(function, host, pid, born) VALUES(?, ?, ?, ?)"
        pid = os.getpid()
        return self._run(sql, (bytes.fromhex(function), leases.host(), pid, leases.process_start_time(pid)))

    def orphaned_notes(self, function: str) -> list[int]:
        """Notes whose process is gone. One of another machine counts as gone, because we cannot look there."""
        sql = "SELECT id, host, pid, born FROM begun WHERE function = ?"
        notes = self._rows(sql, (bytes.fromhex(function),))
        return [
            note for note, host, pid, born in notes if host != leases.host() or leases.process_start_time(pid) != born
        ]

    def drop_notes(self, notes: Sequence[int]) -> None:
        if notes:
            self._run("DELETE FROM begun WHERE id IN carray(?1)", (array(tuple(notes)),))

    # -- listings -----------------------------------------------------------------------------

    def listing(self, uri: str) -> tuple[Frame, int, float] | None:
        """The last listing of a storage: its frame, when it was made, how many seconds that took."""
        for data, made, seconds in self._rows("SELECT frame, made, seconds FROM listing WHERE uri = ?", (uri,)):
            frame = self._frame(data)
            return (frame, made, seconds) if frame else None
        return None

    def keep_listing(self, uri: str, frame: Frame, seconds: float, access: Mapping[str, Any]) -> None:
        sql = "INSERT OR REPLACE INTO listing(uri, frame, made, seconds, access) VALUES(?, ?, ?, ?, ?)"
        self._run(sql, (uri, _encode_frame(frame), now(), seconds, json.dumps(dict(access)) if access else ""))

    def accesses(self) -> dict[str, dict[str, Any]]:
        """How storages are reached that were listed in a way of their own, secrets left out."""
        found = {}
        for uri, text in self._rows("SELECT uri, access FROM listing WHERE access <> ''"):
            with contextlib.suppress(ValueError, TypeError):
                found[uri] = json.loads(text)
        return found

    # -- runs ---------------------------------------------------------------------------------

    def keep_run(self, told: Mapping[str, Any], plan: bytes | None, newest: int) -> int:
        """Remember a run, and let go of those before the newest; 0 where it could not be."""
        sql = "INSERT INTO run(made, told, plan) VALUES(?, ?, ?)"
        number = self._run(sql, (now(), json.dumps(dict(told), default=str).encode(), plan))
        if number > newest:
            self._run("DELETE FROM run WHERE id <= ?", (number - newest,))
        return number

    def runs(self) -> list[tuple[int, int, dict[str, Any], bytes | None]]:
        rows = self._rows("SELECT id, made, told, plan FROM run ORDER BY id DESC")
        return [(number, made, _decode_run(number, made, told), plan) for number, made, told, plan in rows]

    # -- keeping ------------------------------------------------------------------------------

    def parts(self) -> set[str]:
        """Every part something here relies on: gc keeps them."""
        found: set[str] = set()
        for (data,) in self._rows("SELECT frame FROM plan UNION ALL SELECT frame FROM listing"):
            with contextlib.suppress(*_FOREIGN):
                told = json.loads(data)
                trace = told.get("trace") or {"fragments": (), "groups": ()}
                every = (told["fragments"], trace["fragments"], *trace["groups"])
                for fragment in (one for each in every for one in each):
                    found |= {family["part"] for family in fragment["families"]}
                    found |= {fragment["kept"]["part"]} if "kept" in fragment else set()
        families = (_decode_family(told) for (told,) in self._rows("SELECT family FROM shard"))
        found |= {family.oid for family in families if family is not None and family.oid}
        return found

    def forget(self, parts: Iterable[str]) -> None:
        """Rely on these parts no more."""
        for oid in parts:
            self.relied_on.discard(oid)
            for sql in _OF_PART:
                self._run(sql, (oid.encode(),))

    def empty(self) -> None:
        """Forget everything, down to the bytes."""
        path = self._db.path
        self._db.close()
        for file in path.parent.glob(f"{path.name}*"):
            if not file.name.endswith((".lock", ".wait")):
                file.unlink(missing_ok=True)
        self._db = _open(path)
        self.relied_on.clear()

    def close(self) -> None:
        self._is_closed = True
        self._db.close()

    # -- what is remembered may be lost at any time, and then work is only done again ---------

    def _rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        """What is remembered; nothing where that cannot be read now."""
        return self._attempt("read", lambda: self._db.rows(sql, args)) or []

    def _run(self, sql: str, args: Sequence[Any]) -> int:
        """Remember something; the id of its row, or 0."""

        def write() -> int:
            with self._db.write():
                self._db.run(sql, args)
                return self._db.last_id()

        return self._attempt("write", write) or 0

    def _run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        def write() -> bool:
            with self._db.write():
                self._db.run_many(sql, rows)
            return True

        self._attempt("write", write)

    def _attempt(self, how: str, do: Callable[[], T]) -> T | None:
        if time.monotonic() < self._silent.get(how, 0.0):
            return None
        try:
            return do()
        except Unavailable:  # full, read-only, or held by someone: waiting for it again and again would stop the work
            self._silent[how] = time.monotonic() + _SILENT
        except Corrupt as error:
            self._begin_anew(error)
        except InvalidInput:  # closed: by who closed the repo, or by another thread that sets a damaged file aside
            if self._is_closed:
                raise
        return None

    def _begin_anew(self, error: Corrupt) -> None:
        path = self._db.path
        self._db.close()
        self._db = _open(path)
        if not self._db.integrity(full=False):  # another process was faster, or it lacks a table of this version
            with contextlib.suppress(Corrupt, Unavailable), self._db.write():
                self._db.run(_SCHEMA.read_text(encoding="utf-8"))
            return
        self._db.close()
        with contextlib.suppress(OSError):
            disk.rename(path, path.with_name(f"{path.name}.damaged"))
            for log in ("-wal", "-shm"):
                path.with_name(path.name + log).unlink(missing_ok=True)
        self._db = _open(path)
        feedback.warn(
            f"{error.message} What was remembered of earlier work is gone, so it is done again; no dataset is "
            f"affected. The damaged file is now {path.name}.damaged."
        )


def _open(path: Path) -> Database:
    return Database(path, schema=[_SCHEMA], durable=False, patience=PATIENCE)


T = TypeVar("T")
_SILENT = 30.0  # seconds without remembering after that failed
PATIENCE = 10.0  # seconds that remembered work is waited for: to do it again may be quicker


def _decode_family(data: bytes) -> Family | None:
    with contextlib.suppress(*_FOREIGN):
        return frames.decode_family(json.loads(data))
    return None


def _decode_run(number: Any, made: Any, data: Any) -> dict[str, Any]:
    """What is remembered of a run. Raises Corrupt, because people are shown runs, and a lost one must not go unsaid."""
    try:
        told = json.loads(data)
        texts = (told["action"], told["kept"], *told["provenance"])
        numbers = (number, made, told["rows"] or 0, told["seconds"])
        if all(isinstance(one, str) for one in texts) and all(isinstance(one, int | float) for one in numbers):
            return dict(told)
        why = "it is not a record of a run"
    except _FOREIGN as error:
        why = str(error)
    raise Corrupt(
        f"run {number} in datasets.db cannot be read: {why:.200}. No data is lost: it holds only what was remembered.",
        hint="Move that file away; it is made again: mv .memlake/datasets.db /tmp/",
    )


KEY = np.dtype("S16")  # of a row: sorts and compares as bytes


def _split_keys(keys: np.ndarray[Any, Any]) -> tuple[bytes, ...]:
    """Keys one by one; NumPy's own bytes would lose the zeros at their end."""
    packed = keys.tobytes()
    return tuple(packed[at : at + KEY.itemsize] for at in range(0, len(packed), KEY.itemsize))


def _encode_frame(frame: Frame) -> bytes:
    return json.dumps({"schema": frames.encode_schema(frame.schema), **frame.encode()}, separators=(",", ":")).encode()
