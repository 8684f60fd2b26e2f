"""Asking an embedder for the vector of a query: a search waits a moment for it, and no longer. Knows no index."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from memlake.errors import Error, Unavailable

if TYPE_CHECKING:
    from memlake.memories.embedders import Embedder

PATIENCE = 5.0  # seconds; the local model is loaded in one


class Asker:
    """Asks in a thread of its own. While one question hangs, others are not waited for at all."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._seconds = min(seconds, PATIENCE)
        self._late: _Question | None = None

    def is_late(self) -> bool:
        """Whether an answer is still owed that nobody waits for."""
        return self._late is not None and self._late.is_alive()

    def ask(self, embedder: Embedder, text: str) -> Any:
        """The vector, or None for a text the model cannot read; an Error, whatever the embedder did."""
        if self.is_late():
            raise Unavailable(f"the embedder {embedder.name} still has not answered an earlier search.")
        question = _Question(embedder, text)
        question.start()
        question.join(self._seconds)
        if question.is_alive():
            self._late = question
            raise Unavailable(f"the embedder {embedder.name} did not answer within {self._seconds:g} s.")
        if question.problem is not None:
            raise question.problem
        return question.vector


class _Question(threading.Thread):
    def __init__(self, embedder: Embedder, text: str) -> None:
        super().__init__(name="memlake-query", daemon=True)
        self._embedder, self._text = embedder, text
        self.vector: Any = None
        self.problem: Error | None = None

    def run(self) -> None:
        try:
            self.vector = self._embedder.embed_query(self._text)
        except Error as error:
            self.problem = error
        except Exception as error:  # noqa: BLE001  a search must outlive whatever an embedder does
            self.problem = Unavailable(f"the embedder {self._embedder.name} failed: {type(error).__name__}: {error}")
