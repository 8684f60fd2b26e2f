"""Embeddings kept by what they are of: vectors.db. The same text is embedded once, whatever becomes of the index.

The key is a hash of the text keyed by a secret of this file, so that it cannot be guessed from a text one suspects.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memlake.objects.db import Database

_SCHEMA = Path(__file__).with_name("vectors.sql")
Array = np.ndarray[Any, Any]


class Embeddings:
    def __init__(self, path: Path) -> None:
        self._db = Database(path, schema=[_SCHEMA], durable=False)
        self._secret: bytes | None = None

    def find(self, model: str, texts: Sequence[str]) -> dict[str, Array]:
        """Vectors of texts that are known, as float32."""
        keys = {self._key(text): text for text in texts}
        sql = "SELECT key, half FROM vector WHERE model = (SELECT id FROM model WHERE name = ?2) AND key IN carray(?1)"
        return {
            keys[key]: np.frombuffer(half, np.float16).astype(np.float32)
            for key, half in self._db.rows_in(sql, keys, (model,))
        }

    def keep(self, model: str, vectors: Mapping[str, Array]) -> None:
        with self._db.write():
            self._db.run("INSERT OR IGNORE INTO model(name) VALUES(?)", (model,))
            self._db.run_many(
                "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM model WHERE name = ?",
                [(self._key(text), vector.astype(np.float16).tobytes(), model) for text, vector in vectors.items()],
            )

    def drop(self, but: str) -> None:
        """Let go of what other models made."""
        with self._db.write():
            self._db.run("DELETE FROM vector WHERE model IN (SELECT id FROM model WHERE name <> ?)", (but,))

    def forget(self, texts: Iterable[str]) -> None:
        """Erase the vectors of texts, of every model."""
        with self._db.write():
            self._db.run_in("DELETE FROM vector WHERE key IN carray(?1)", {self._key(text) for text in texts})
        self._db.checkpoint()

    def close(self) -> None:
        self._db.close()

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
