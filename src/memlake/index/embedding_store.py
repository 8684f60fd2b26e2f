"""Embeddings kept by what they are of: vectors.db. The same text is embedded once, whatever becomes of the index.

The key is a hash of the text keyed by a secret of this file, so that it cannot be guessed from a text one suspects.
A file that cannot be read is begun anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from memlake.errors import Damaged
from memlake.index.generations import Derived
from memlake.objects import disk
from memlake.objects.forks import Mutex

_SCHEMA = Path(__file__).with_name("vectors.sql")
Array = np.ndarray[Any, Any]
Given = ParamSpec("Given")
Result = TypeVar("Result")


def _heals(
    work: Callable[Concatenate[Embeddings, Given], Result],
) -> Callable[Concatenate[Embeddings, Given], Result]:
    """Work on the file, done again on a new one where it turns out to be damaged."""

    @functools.wraps(work)
    def run(self: Embeddings, /, *args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return work(self, *args, **named)
        except Damaged:
            self.renew()
            return work(self, *args, **named)

    return run


class Embeddings:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._open()
        self._changing = Mutex()
        self._secret: bytes | None = None

    def _open(self) -> Derived:
        return Derived(self._path, schema=[_SCHEMA], durable=False)

    def renew(self) -> None:
        """Leave a damaged file behind for an empty one, unless another process has done so already."""
        with self._changing:
            # The old one is let go of, not closed: another thread may be reading it.
            self._db, self._secret = self._open(), None
            if not self._is_sound():
                for end in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        disk.unlink(self._path.with_name(self._path.name + end))
                self._db = self._open()

    def _is_sound(self) -> bool:
        try:
            self._db.row("SELECT 1 FROM source, meta")  # a file without these tables is begun anew
            return self._db.row("PRAGMA quick_check(1)") == ("ok",)
        except Damaged:
            return False

    @_heals
    def find(self, model: str, texts: Sequence[str]) -> dict[str, Array]:
        """Vectors of texts that are known, as float32."""
        keys = {self._key(text): text for text in texts}
        sql = "SELECT key, half FROM vector WHERE model = (SELECT id FROM model WHERE name = ?2) AND key IN carray(?1)"
        return {
            keys[key]: np.frombuffer(half, np.float16).astype(np.float32)
            for key, half in self._db.rows_in(sql, keys, (model,))
            if isinstance(half, bytes) and len(half) % 2 == 0  # a stranger may have written anything
        }

    @_heals
    def keep(self, model: str, vectors: Mapping[str, Array], sources: Mapping[bytes, str], seen: bytes | None) -> None:
        """Keep vectors of texts, and which objects have which text: those were read when `seen` was the last purge."""
        with self._db.write():
            # One that was followed since has not found what is kept now: all are to be followed again.
            self._db.run("DELETE FROM meta WHERE key = 'purged' AND value IS NOT ?", (seen,))
            named = [(oid, self._key(text)) for oid, text in sources.items()]
            self._db.run_many("INSERT OR IGNORE INTO source VALUES(?, ?)", named)
            self._db.run("INSERT OR IGNORE INTO model(name) VALUES(?)", (model,))
            self._db.run_many(
                "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM model WHERE name = ?",
                [(self._key(text), vector.astype(np.float16).tobytes(), model) for text, vector in vectors.items()],
            )

    @_heals
    def drop(self, but: str) -> None:
        """Let go of what other models made."""
        with self._db.write():
            self._db.run("DELETE FROM vector WHERE model IN (SELECT id FROM model WHERE name <> ?)", (but,))

    @_heals
    def read_purge_cursor(self) -> bytes | None:
        """The last purge that was followed here."""
        row = self._db.row("SELECT value FROM meta WHERE key = 'purged'")
        return bytes(row[0]) if row else None

    @_heals
    def erase_objects(self, oids: Collection[bytes], purge: bytes) -> None:
        """Erase the vectors of purged objects, of every model. Then `purge` is the last one that was followed.

        Where another process still reads the log, which has pages as they were, that is left to a later call.
        """
        with self._db.write():
            self._erase(oids)
        if self._db.checkpoint():
            with self._db.write():
                if not self._erase(oids):  # else somebody kept one meanwhile, and the log has it
                    self._db.run("INSERT OR REPLACE INTO meta VALUES('purged', ?)", (purge,))

    def _erase(self, oids: Collection[bytes]) -> int:
        keys = {key for (key,) in self._db.rows_in("SELECT key FROM source WHERE oid IN carray(?1)", oids)}
        self._db.run_in("DELETE FROM vector WHERE key IN carray(?1)", keys)
        return self._db.run_in("DELETE FROM source WHERE oid IN carray(?1)", oids)

    def close(self) -> None:
        with self._changing:
            self._db.close()

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._read_secret(), digest_size=16).digest()

    def _read_secret(self) -> bytes:
        if self._secret is None:
            row = self._db.row("SELECT key FROM secret")
            if row is None:
                with self._db.write():
                    self._db.run(
                        "INSERT INTO secret SELECT ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (os.urandom(32),)
                    )
                row = self._db.row("SELECT key FROM secret")
            assert row is not None
            self._secret = bytes(row[0])
        return self._secret
