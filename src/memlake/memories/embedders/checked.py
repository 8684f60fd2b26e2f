"""The contract of an embedder, and a wrapper that believes none: an answer is checked before it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from memlake.errors import Unavailable

if TYPE_CHECKING:
    import numpy as np

    Vectors = np.ndarray[Any, np.dtype[np.float32]]


class Embedder(Protocol):
    """Gives each text a unit vector. Vectors of two names are never compared."""

    @property
    def name(self) -> str:
        """The model, as stored with each vector: `minilm-l6-v2-int8`, `openai:text-embedding-3-small`."""

    @property
    def dimension(self) -> int:
        """The length of a vector; 0 until the first answer where only the answer tells."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One float32 row a text, of unit length; a row of NaN for a text the model cannot read."""

    def embed_query(self, text: str) -> Vectors | None:
        """The vector to search with, or None for a text the model cannot read."""


def check_embedder(embedder: Embedder) -> Embedder:
    """The same embedder with every answer checked and made unit length; blank texts are not sent at all."""
    return Checked(embedder)


class Checked:
    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._found = 0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimension(self) -> int:
        return self._inner.dimension or self._found

    @property
    def step(self) -> int:
        """How many texts are embedded at once by a model in this process, which cannot be stopped; 0 of a service."""
        return getattr(self._inner, "step", 0)

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np  # 60 ms that a start without embedding does not pay

        said = [number for number, text in enumerate(texts) if text.strip()]
        rows = self._check_answer(self._inner.embed([texts[number] for number in said]), len(said)) if said else None
        whole = np.full((len(texts), self.dimension), np.nan, np.float32)
        if rows is not None:
            whole[said] = rows
        return whole

    def embed_query(self, text: str) -> Vectors | None:
        vector = self._inner.embed_query(text) if text.strip() else None
        return None if vector is None else self._check_answer([vector], 1)[0]

    def _check_answer(self, answer: Any, count: int) -> Vectors:
        """The answer as unit rows, or Unavailable that says what is wrong with it."""
        import numpy as np

        rows = self._check_shape(answer, count)
        unread = np.isnan(rows).all(axis=1)
        if not np.isfinite(rows[~unread]).all():
            raise self._make_error("a vector with NaN or infinity in it")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if (lengths == 0).any():
            raise self._make_error("a vector of zeros, which points nowhere")
        self._found = rows.shape[1]
        unit: Vectors = rows / lengths
        return unit

    def _check_shape(self, answer: Any, count: int) -> Vectors:
        import numpy as np

        try:
            with np.errstate(over="ignore"):  # a number too large becomes infinity, which is refused with its name
                rows = np.asarray(answer, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise self._make_error("vectors that are not rows of numbers of one length") from error
        if rows.ndim != 2 or len(rows) != count:
            raise self._make_error(f"{len(rows) if rows.ndim else 'no'} vectors for {count} texts")
        if rows.shape[1] == 0 or (self.dimension and rows.shape[1] != self.dimension):
            raise self._make_error(
                f"vectors of {rows.shape[1]} dimensions where {self.dimension or 'some'} were expected"
            )
        return rows

    def _make_error(self, what: str) -> Unavailable:
        return Unavailable(
            f"the embedder {self.name} returned {what}. No vector of this answer was kept.",
            hint="Check `embedding.model` and `embedding.url`; memories are found by their words meanwhile.",
        )
