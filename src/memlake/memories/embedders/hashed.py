"""An embedder for tests: hashed letter triples. No model, the same on every machine; alike texts are near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from memlake.memories.embedders.checked import Vectors


class Hashed:
    name = "test-64"
    dimension = 64

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            spaced = f"  {' '.join(text.casefold().split())}  "
            for at in range(len(spaced) - 2):
                code = crc32(spaced[at : at + 3].encode("utf-8", "surrogatepass"))
                row[code % self.dimension] += 1 if code & 0x10000 else -1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = np.nan  # triples that cancel out say nothing
        unit: Vectors = rows / lengths
        return unit

    def embed_query(self, text: str) -> Vectors | None:
        row: Vectors = self.embed([text])[0]
        return row if row[0] == row[0] else None
