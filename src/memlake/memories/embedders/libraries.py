"""Embedders of libraries the user installed: sentence-transformers and model2vec. Both load at the first text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from memlake import config
from memlake.errors import InvalidInput, Unavailable
from memlake.memories.embedders import native

if TYPE_CHECKING:
    from memlake.memories.embedders.checked import Vectors


class Library:
    """A model of an installed library. Its vectors are as long as the first answer says."""

    dimension = 0
    step = 8

    def __init__(self, provider: str, model: str) -> None:
        if not model:
            raise InvalidInput(
                f"{provider} needs a model.", hint=f"Write `{provider}:<name or folder>`, or set `embedding.model`."
            )
        self.name = f"{provider}:{model}"
        self._provider, self._place = provider, model
        self._lock = Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        with self._lock, native.gate.enter():
            rows = np.asarray(self._model.encode(list(texts)), np.float32)
        rows[~rows.any(axis=1)] = np.nan  # model2vec gives zeros to a text it has no word of
        return rows

    def embed_query(self, text: str) -> Vectors | None:
        row: Vectors = self.embed([text])[0]
        return row if row[0] == row[0] else None

    @cached_property
    def _model(self) -> Any:
        config.no_telemetry()
        try:
            return LOADERS[self._provider](self._place)
        except ImportError as error:
            raise Unavailable(
                f"{self._provider} is not installed, so {self.name} cannot be used.",
                hint=f"Install it with `pip install {self._provider}`.",
            ) from error
        except (OSError, ValueError, RuntimeError) as error:  # no such model, no network, files of another kind
            raise Unavailable(
                f"{self.name} could not be loaded: {error}.", hint="Check the name or folder after the colon."
            ) from error


def _sentence_transformers(model: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model)


def _model2vec(model: str) -> Any:
    from model2vec import StaticModel

    return StaticModel.from_pretrained(model)


LOADERS: dict[str, Callable[[str], Any]] = {
    "sentence-transformers": _sentence_transformers,
    "model2vec": _model2vec,
}
