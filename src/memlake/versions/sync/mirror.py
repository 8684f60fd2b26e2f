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
from memlake.versions.sync.root import LogFile, Root, decode_root, mark_of

Learn = Callable[[str, int, Batch, Sequence[bytes]], None]
_IN_PART, _SEEN, _TAKEN = range(3)  # how far a file is known
_SCHEMA = (Path(__file__).with_name("mirror.sql"),)


class Held(NamedTuple):
    """Where an object lies at the remote: the name of its file.

    Of a part it is that of the batch that tells of it, and `start` is its `sweeps`.
    """

    oid: bytes
    file: str
    start: int
    length: int
    form: int
    size: int


class _Join(NamedTuple):
    """A file that has what lay in others, so many bytes further behind."""

    name: str
    size: int
    known: int
    old: list[tuple[str, int]]


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

    def list_taken(self) -> set[str]:
        """Names of those of which all was taken in."""
        return {row[0] for row in self.db.rows("SELECT name FROM file WHERE known = ?", (_TAKEN,))}

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

    # -- learning

    @contextlib.contextmanager
    def learning(self, root: Root, data: bytes, tag: str | None) -> Iterator[Learn]:
        """Note batches that are read, (name, size, batch, oids of its small objects), and then the root they are of.

        What the root no longer names is forgotten. Without a tag the root counts as one that was not read in full.
        """
        packs = {pack.name for pack in root.packs}

        def learn(name: str, size: int, batch: Batch, oids: Sequence[bytes]) -> None:
            self._add_batch(self._add_file(f"log/{name}", size, _TAKEN), batch, oids, packs)

        with self.db.write():
            self._move_joined(root)
            yield learn
            self._forget_gone(root.paths())
            self.db.run_many("INSERT OR REPLACE INTO fact VALUES(?, ?)", [("root", data), ("tag", tag)])

    def follow_joins(self, root: Root) -> None:
        """Let what lay in files that were joined lie in those that have all of them now. Nothing is read for it."""
        if self._find_joins(root):
            with self.db.write():
                self._move_joined(root)

    def is_outdated(self, root: Root) -> bool:
        """Whether it names files that the root does not, joined or not: somebody rewrote or deleted them."""
        self.follow_joins(root)
        return not self.files().keys() <= root.paths()

    def look_again(self, root: Root, batches: Callable[[list[LogFile]], Iterator[tuple[LogFile, Batch]]]) -> None:
        """Forget what the root no longer names, and note what lies in its other files.

        `batches` reads those that are new. They are noted as looked into, because they were not taken in.
        """
        self.follow_joins(root)
        known, packs = self._list_known(), {pack.name for pack in root.packs}
        unread = list(batches([file for file in root.log if not known.get(f"log/{file.name}")]))
        with self.db.write():
            for file, batch in unread:
                oids = [hashlib.sha256(one.content).digest() for one in batch.objects]
                self._add_batch(self._add_file(f"log/{file.name}", file.size, _SEEN), batch, oids, packs)
            self._forget_gone(root.paths())

    def _list_known(self) -> dict[str, int]:
        return dict(self.db.rows("SELECT name, known FROM file"))

    def _find_joins(self, root: Root) -> list[_Join]:
        """The files of a root that are joined of files that are known, and not known themselves."""
        names = self._list_known()
        marks = {f"{folder}/{mark_of(name)}": f"{folder}/{name}"
                 for folder, _, name in (path.partition("/") for path in names)}  # fmt: skip
        files = [("log", file.name, file.size, [(mark, 0) for mark in file.joined]) for file in root.log]
        files += [("packs", pack.name, pack.size, list(pack.joined)) for pack in root.packs]
        joins = []
        for folder, name, size, joined in files:
            old = [(marks[f"{folder}/{mark}"], by) for mark, by in joined if f"{folder}/{mark}" in marks]
            if old and f"{folder}/{name}" not in names:
                known = min(names[path] for path, _ in old) if len(old) == len(joined) else _IN_PART
                joins.append(_Join(f"{folder}/{name}", size, known, old))
        return joins

    def _move_joined(self, root: Root) -> None:
        for join in self._find_joins(root):
            file = self._add_file(join.name, join.size, join.known)
            sql = "UPDATE held SET file = ?, start = start + ? WHERE file = (SELECT id FROM file WHERE name = ?)"
            self.db.run_many(sql, [(file, by, name) for name, by in join.old])

    def _add_batch(self, file: int, batch: Batch, oids: Sequence[bytes], packs: set[str]) -> None:
        """Note where all lies that a batch has or tells of; of packs, those that the root names."""
        lane = batch.lane
        rows: list[Sequence[Any]] = [
            (oid, file, 0, 0, INLINE, len(one.content), lane) for oid, one in zip(oids, batch.objects, strict=True)
        ]
        rows += [(one.oid, file, 0, len(one.data), CHUNKED, one.size, lane) for one in batch.lists]
        rows += [(one.oid, file, one.sweeps, one.size, PART, one.size, lane) for one in batch.parts]
        self._add_held(rows)
        for pack in (one for one in batch.packs if one.name in packs):  # one by one: each may have many records
            lies_in = self._add_file(f"packs/{pack.name}", pack.size, _TAKEN)
            self._add_held(
                (one.oid, lies_in, one.start, one.length, one.form, one.size, lane)
                for one in pack.read().records
                if one.role != LOG and one.form not in (CHUNKED, PART)
            )

    def _add_file(self, name: str, size: int, known: int) -> int:
        sql = (
            "INSERT INTO file(name, size, known) VALUES(?, ?, ?) ON CONFLICT(name) DO UPDATE SET known = max(known, ?)"
        )
        self.db.run(sql, (name, size, known, known))
        row = self.db.row("SELECT id FROM file WHERE name = ?", (name,))
        if row is None:
            raise Corrupt(f"{name} could not be noted.")
        return int(row[0])

    def _add_held(self, rows: Iterable[Sequence[Any]]) -> None:
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
