"""The mirror of a remote: a local database of what it holds, so that nobody has to ask it. Derived from its batches."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memlake.errors import Corrupt
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Database
from memlake.objects.packs import CHUNKED, INLINE, LOG, PART
from memlake.versions.sync.batch import Batch
from memlake.versions.sync.root import LogFile, Root, decode_root

Learn = Callable[[str, int, Batch, Sequence[bytes]], None]
_SCHEMA = (Path(__file__).with_name("mirror.sql"),)


class Held(NamedTuple):
    """Where an object lies at the remote: the name of its file, of a part that of the batch that tells of it."""

    oid: bytes
    file: str
    start: int
    length: int
    form: int
    size: int


class Mirror:
    """What is known of one remote."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the remote in `.memlake/remotes`."""
        self.db = Database(folder / "mirror.db", schema=_SCHEMA, durable=False)

    def close(self) -> None:
        self.db.close()

    # -- the root that was read last

    def tag(self) -> str | None:
        tag: str | None = self._fact("tag")
        return tag

    def root(self) -> Root | None:
        data = self._fact("root")
        return None if data is None else decode_root(data, "the mirror of the remote")

    def _fact(self, key: str) -> Any:
        row = self.db.row("SELECT value FROM fact WHERE key = ?", (key,))
        return row[0] if row else None

    # -- what is there

    def files(self) -> dict[str, int]:
        """Names and sizes of the batches and packs that were looked into."""
        return dict(self.db.rows("SELECT name, size FROM file"))

    def find(self, oids: Iterable[bytes]) -> list[Held]:
        """Where those of these objects lie that are there."""
        sql = (
            "SELECT h.oid, f.name, h.start, h.length, h.form, h.size FROM held h JOIN file f ON f.id = h.file "
            "WHERE h.oid IN carray(?1)"
        )
        return [Held(*row) for row in self.db.rows_in(sql, oids)]

    def list_held(self, oids: Iterable[bytes], lane: int) -> set[bytes]:
        """Those of these objects that whoever has this lane can have from there."""
        sql = "SELECT oid FROM held WHERE lane <= ?2 AND oid IN carray(?1)"
        return {row[0] for row in self.db.rows_in(sql, oids, (lane,))}

    def scan_file(self, name: str) -> Iterator[bytes]:
        """The objects that lie in a file."""
        sql = "SELECT h.oid FROM held h JOIN file f ON f.id = h.file WHERE f.name = ?"
        return (row[0] for row in self.db.each(sql, (name,)))

    # -- learning

    @contextlib.contextmanager
    def learning(self, root: Root, data: bytes, tag: str | None) -> Iterator[Learn]:
        """Note batches that are read, (name, size, batch, oids of its small objects), and then the root they are of.

        What the root no longer names is forgotten. Without a tag the root counts as one that was not read in full.
        """
        packs = {pack.name for pack in root.packs}

        def learn(name: str, size: int, batch: Batch, oids: Sequence[bytes]) -> None:
            rows = _list_told(batch, oids, self._add_file(f"log/{name}", size))
            self._add_held(rows + self._list_packed(batch, packs))

        with self.db.write():
            yield learn
            self._forget_gone(root.paths())
            self.db.run_many("INSERT OR REPLACE INTO fact VALUES(?, ?)", [("root", data), ("tag", tag)])

    def is_outdated(self, root: Root) -> bool:
        """Whether it names files that the root does not: somebody rewrote or deleted them."""
        return not self.files().keys() <= root.paths()

    def look_again(self, root: Root, batches: Callable[[list[LogFile]], Iterator[tuple[LogFile, Batch]]]) -> None:
        """Forget what the root no longer names, and note what lies in its other files.

        `batches` reads those that are new. They were not taken in, so they do not count as known, but as `unread/...`.
        """
        known, packs = self.files(), {pack.name for pack in root.packs}
        unread = list(batches([file for file in root.log if f"log/{file.name}" not in known]))
        with self.db.write():
            for file, batch in unread:
                oids = [hashlib.sha256(one.content).digest() for one in batch.objects]
                rows = _list_told(batch, oids, self._add_file(f"unread/{file.name}", file.size))
                self._add_held(rows + self._list_packed(batch, packs))
            self._forget_gone(root.paths() | {f"unread/{file.name}" for file, _ in unread})

    def _list_packed(self, batch: Batch, packs: set[str]) -> list[Sequence[Any]]:
        """What lies in the packs of a batch, of those that the root names."""
        rows: list[Sequence[Any]] = []
        for pack in (one for one in batch.packs if one.name in packs):
            file = self._add_file(f"packs/{pack.name}", pack.size)
            rows += [
                (one.oid, file, one.start, one.length, one.form, one.size, batch.lane)
                for one in pack.read().records
                if one.role != LOG and one.form not in (CHUNKED, PART)
            ]
        return rows

    def _add_file(self, name: str, size: int) -> int:
        self.db.run("INSERT OR IGNORE INTO file(name, size) VALUES(?, ?)", (name, size))
        row = self.db.row("SELECT id FROM file WHERE name = ?", (name,))
        if row is None:
            raise Corrupt(f"{name} could not be noted.")
        return int(row[0])

    def _add_held(self, rows: list[Sequence[Any]]) -> None:
        """A pack or batch that came later counts: the one before may be about to go. The smaller lane stays."""
        sql = (
            "INSERT INTO held VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(oid) DO UPDATE SET file = excluded.file, "
            "start = excluded.start, length = excluded.length, form = excluded.form, lane = min(lane, excluded.lane)"
        )
        self.db.run_many(sql, sorted(rows, key=lambda row: row[0]))

    def _forget_gone(self, names: set[str]) -> None:
        gone = [id for id, name in self.db.rows("SELECT id, name FROM file") if name not in names]
        self.db.run_in("DELETE FROM held WHERE file IN carray(?1)", gone)
        self.db.run_in("DELETE FROM file WHERE id IN carray(?1)", gone)


def _list_told(batch: Batch, oids: Sequence[bytes], file: int) -> list[Sequence[Any]]:
    """What a batch holds itself, with the oids of its small objects, and the parts that it tells of."""
    lane = batch.lane
    small = zip(oids, batch.objects, strict=True)
    rows: list[Sequence[Any]] = [(oid, file, 0, 0, INLINE, len(one.content), lane) for oid, one in small]
    rows += [(one.oid, file, 0, len(one.data), CHUNKED, one.size, lane) for one in batch.lists]
    rows += [(one.oid, file, 0, one.size, PART, one.size, lane) for one in batch.parts]
    return rows
