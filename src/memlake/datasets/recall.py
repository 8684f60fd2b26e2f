"""Recall: results of functions by what they are results of, in datasets.db. Knows keys and frames, not what runs.

Three levels, tried in turn: a whole plan, a fragment of a function's output (a shard), single rows. Rows are only
looked up for functions that cost more than finding the answer does.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from memlake.datasets import frames
from memlake.datasets.frames import Family, Frame
from memlake.datasets.parts import Parts
from memlake.errors import Corrupt, NotFound, Purged, Unavailable
from memlake.objects.db import Database
from memlake.objects.layout import now

_SCHEMA = Path(__file__).with_name("recall.sql")
DEAR = 1e-5  # seconds a row above which rows are remembered one by one; finding one costs about 1e-6


class Known(NamedTuple):
    """Rows a function has answered before: sorted keys, and for each the row of the tables that holds the answer.

    The tables stay apart, each in the types it was written with: what one run showed must not change another's.
    """

    keys: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]  # counted through all tables
    tables: tuple[pa.Table, ...]
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


class Recall:
    def __init__(self, path: Path, parts: Parts) -> None:
        self._db = Database(path, schema=[_SCHEMA], durable=False)
        self._parts = parts

    # -- plans --------------------------------------------------------------------------------

    def frame(self, key: str) -> Frame | None:
        """The frame a plan led to, when all its parts are still there."""
        row = self._db.row("SELECT frame FROM plan WHERE key = ?", (bytes.fromhex(key),))
        return self._frame(row[0]) if row else None

    def keep_frame(self, key: str, frame: Frame) -> None:
        with self._writing():
            sql = "INSERT OR REPLACE INTO plan(key, frame, made) VALUES(?, ?, ?)"
            self._db.run(sql, (bytes.fromhex(key), _packed(frame), now()))

    def _frame(self, data: bytes) -> Frame | None:
        told = json.loads(data)
        frame = frames.decode(frames.decode_schema(told["schema"]), told)
        return frame if all(map(self._is_here, frame.families())) else None

    def _is_here(self, family: Family) -> bool:
        with contextlib.suppress(NotFound, Purged, Corrupt):
            return bool(self._parts.path(family))
        return False

    # -- shards -------------------------------------------------------------------------------

    def family(self, key: str) -> tuple[Family, tuple[pa.Field, ...]] | None:
        """The family a function made of a fragment, and its fields."""
        row = self._db.row("SELECT family, fields FROM shard WHERE key = ?", (bytes.fromhex(key),))
        if row is None:
            return None
        family = frames.family_in(json.loads(row[0]))
        return (family, _fields(row[1])) if self._is_here(family) else None

    def keep_family(
        self, key: str, function: str, family: Family, fields: Sequence[pa.Field], *, cost: float, keys: Any = None
    ) -> None:
        """Remember a shard, and with `keys` each of its rows."""
        told = json.dumps(frames.family_out(family)).encode()
        schema = bytes(pa.schema(list(fields)).serialize())
        packed = None if keys is None else keys.tobytes()
        rows = 0 if keys is None else len(keys)
        with self._writing():
            self._db.run(
                "INSERT OR REPLACE INTO shard(key, function, family, rows, seconds, made, fields, row_keys) "
                "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                (bytes.fromhex(key), bytes.fromhex(function), told, rows, cost, now(), schema, packed),
            )

    # -- rows ---------------------------------------------------------------------------------

    def keep_piece(self, function: str, keys: np.ndarray[Any, Any], table: pa.Table) -> int:
        """Rows of a shard that is not finished: what a killed run leaves for the next."""
        number = 0  # nothing was written
        with self._writing():
            sql = "INSERT INTO piece(function, row_keys, data, made) VALUES(?, ?, ?, ?)"
            self._db.run(sql, (bytes.fromhex(function), keys.tobytes(), _ipc(table), now()))
            number = self._db.last_id()
        return number  # noqa: RET504  the write may have been given up

    def drop_pieces(self, pieces: Iterable[int]) -> None:
        """Let go of pieces whose shards are finished; others may be at work on theirs."""
        with self._writing():
            self._db.run_in("DELETE FROM piece WHERE id IN carray(?1)", pieces)

    def known(self, function: str) -> Known | None:
        """Every row this function has answered."""
        keys, tables, pieces = [], [], set()
        for piece, packed, table in self._answers(bytes.fromhex(function)):
            found = np.frombuffer(packed, KEY)
            pieces |= {piece} if piece else set()
            if len(found) == table.num_rows:
                keys.append(found)
                tables.append(table)
        if not keys:
            return None
        everything = np.concatenate(keys)
        order = np.argsort(everything, kind="stable")
        return Known(everything[order], order, tuple(tables), frozenset(pieces))

    def _answers(self, function: bytes) -> Iterator[tuple[int, bytes, pa.Table]]:
        sql = "SELECT row_keys, family FROM shard WHERE function = ? AND row_keys NOT NULL ORDER BY made"
        for packed, told in self._db.rows(sql, (function,)):
            family = frames.family_in(json.loads(told))
            if self._is_here(family):
                yield 0, packed, self._parts.table(family, family.columns)
        for row in self._db.rows("SELECT id, row_keys, data FROM piece WHERE function = ? ORDER BY id", (function,)):
            yield row[0], row[1], pa.ipc.open_stream(row[2]).read_all()

    # -- listings -----------------------------------------------------------------------------

    def listing(self, uri: str) -> tuple[Frame, int, float] | None:
        """The last listing of a storage: its frame, when it was made, how many seconds that took."""
        row = self._db.row("SELECT frame, made, seconds FROM listing WHERE uri = ?", (uri,))
        frame = self._frame(row[0]) if row else None
        return (frame, row[1], row[2]) if row and frame else None

    def keep_listing(self, uri: str, frame: Frame, seconds: float, access: Mapping[str, Any]) -> None:
        with self._writing():
            sql = "INSERT OR REPLACE INTO listing(uri, frame, made, seconds, access) VALUES(?, ?, ?, ?, ?)"
            self._db.run(sql, (uri, _packed(frame), now(), seconds, json.dumps(dict(access))))

    def accesses(self) -> dict[str, dict[str, Any]]:
        """How each storage that was ever listed is reached, secrets left out."""
        return {uri: json.loads(text) for uri, text in self._db.rows("SELECT uri, access FROM listing")}

    # -- runs ---------------------------------------------------------------------------------

    def keep_run(self, told: Mapping[str, Any], plan: bytes | None) -> int:
        with self._writing():
            sql = "INSERT INTO run(made, told, plan) VALUES(?, ?, ?)"
            self._db.run(sql, (now(), json.dumps(dict(told)).encode(), plan))
            return self._db.last_id()

    def runs(self) -> list[tuple[int, int, dict[str, Any], bytes | None]]:
        rows = self._db.rows("SELECT id, made, told, plan FROM run ORDER BY id DESC")
        return [(number, made, json.loads(told), plan) for number, made, told, plan in rows]

    # -- keeping ------------------------------------------------------------------------------

    def parts(self) -> set[str]:
        """Every part something here relies on: gc keeps them."""
        found: set[str] = set()
        for (data,) in self._db.rows("SELECT frame FROM plan UNION ALL SELECT frame FROM listing"):
            for fragment in json.loads(data)["fragments"]:
                found |= {family["part"] for family in fragment["families"]}
                found |= {fragment["kept"]["part"]} if "kept" in fragment else set()
        found |= {json.loads(row[0])["part"] for row in self._db.rows("SELECT family FROM shard")}
        return found

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """What cannot be remembered is only done again one day: a full disk stops no work here."""
        with contextlib.suppress(Unavailable), self._db.write():
            yield


KEY = np.dtype("S16")  # of a row: sorts and compares as bytes


def _packed(frame: Frame) -> bytes:
    return json.dumps({"schema": frames.encode_schema(frame.schema), **frame.encode()}, separators=(",", ":")).encode()


def _fields(data: bytes) -> tuple[pa.Field, ...]:
    return tuple(pa.ipc.read_schema(pa.py_buffer(data)))


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
