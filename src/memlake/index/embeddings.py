"""Embeddings kept by what they are of: vectors.db. The same text is embedded once, whatever becomes of the index.

The key is a hash of the text keyed by a secret of this file, so that it cannot be guessed from a text one suspects.
Each vector has a checksum: one that does not fit is not known, and is made again. So is a file that cannot be read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from memlake.errors import Damaged
from memlake.index.derived import Derived
from memlake.objects import disk

_SCHEMA = Path(__file__).with_name("vectors.sql")
Array = np.ndarray[Any, Any]
Given = ParamSpec("Given")
Result = TypeVar("Result")


def _heals(
    work: Callable[Concatenate[Embeddings, Given], Result],
) -> Callable[Concatenate[Embeddings, Given], Result]:
    """Work on the file, done again on a new one where it turns out to be damaged."""

    @functools.wraps(work)
    def done(self: Embeddings, /, *args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return work(self, *args, **named)
        except Damaged:
            self.renew()
            return work(self, *args, **named)

    return done


class Embeddings:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._open()
        self._left: list[Derived] = []
        self._changing = threading.Lock()
        self._secret: bytes | None = None

    def _open(self) -> Derived:
        return Derived(self._path, schema=[_SCHEMA], durable=False)

    def renew(self) -> None:
        """Leave a damaged file behind for an empty one, unless another process has done so already."""
        with self._changing:
            self._left.append(self._db)  # another thread may be reading it; closed at the end
            self._db, self._secret = self._open(), None
            if not self._is_sound():
                self._left.append(self._db)
                for end in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        disk.unlink(self._path.with_name(self._path.name + end))
                self._db = self._open()

    def _is_sound(self) -> bool:
        try:
            return self._db.row("PRAGMA quick_check(1)") == ("ok",)
        except Damaged:
            return False

    @_heals
    def find(self, model: str, texts: Sequence[str]) -> dict[str, Array]:
        """Vectors of texts that are known, as float32."""
        keys = {self._key(text): text for text in texts}
        sql = "SELECT key, half FROM vector WHERE model = (SELECT id FROM model WHERE name = ?2) AND key IN carray(?1)"
        return {
            keys[key]: np.frombuffer(kept[:-4], np.float16).astype(np.float32)
            for key, kept in self._db.rows_in(sql, keys, (model,))
            if key in keys and _is_whole(kept)
        }

    @_heals
    def keep(self, model: str, vectors: Mapping[str, Array]) -> None:
        with self._db.write():
            self._db.run("INSERT OR IGNORE INTO model(name) VALUES(?)", (model,))
            self._db.run_many(
                "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM model WHERE name = ?",
                [
                    (self._key(text), _with_sum(vector.astype(np.float16).tobytes()), model)
                    for text, vector in vectors.items()
                ],
            )

    @_heals
    def drop(self, but: str) -> None:
        """Let go of what other models made."""
        with self._db.write():
            self._db.run("DELETE FROM vector WHERE model IN (SELECT id FROM model WHERE name <> ?)", (but,))

    @_heals
    def forget(self, texts: Iterable[str]) -> None:
        """Erase the vectors of texts, of every model."""
        with self._db.write():
            self._db.run_in("DELETE FROM vector WHERE key IN carray(?1)", {self._key(text) for text in texts})
        self._db.checkpoint()

    def close(self) -> None:
        for db in (self._db, *self._left):
            db.close()

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._known_secret(), digest_size=16).digest()

    def _known_secret(self) -> bytes:
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


def _with_sum(half: bytes) -> bytes:
    return half + zlib.crc32(half).to_bytes(4, "little")


def _is_whole(kept: object) -> bool:
    return isinstance(kept, bytes) and len(kept) > 4 and kept == _with_sum(kept[:-4])
