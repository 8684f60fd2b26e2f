"""Embedders that are services: OpenAI and all that speak like it, Cohere, Ollama. Knows their questions and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.errors import Unavailable
from memlake.memories.embedders.http import Endpoint, ask

if TYPE_CHECKING:
    from memlake.memories.embedders.checked import Vectors

TRIES = 4


@dataclass(frozen=True, slots=True)
class Api:
    """How one service is spoken to."""

    path: str
    url: str
    model: str
    question: Callable[[str, list[str], bool], dict[str, Any]]  # model, texts, whether they are a query
    rows: Callable[[Any], list[Any]]
    url_name: str = ""
    key_name: str = ""


def _openai_rows(answer: Any) -> list[Any]:
    return [item["embedding"] for item in sorted(answer["data"], key=lambda item: item["index"])]


APIS = {
    "openai": Api(
        path="/embeddings",
        url="https://api.openai.com/v1",
        model="text-embedding-3-small",
        question=lambda model, texts, _: {"model": model, "input": texts, "encoding_format": "float"},
        rows=_openai_rows,
        url_name="OPENAI_BASE_URL",
        key_name="OPENAI_API_KEY",
    ),
    "cohere": Api(
        path="/v2/embed",
        url="https://api.cohere.com",
        model="embed-multilingual-v3.0",
        question=lambda model, texts, query: {
            "model": model,
            "texts": texts,
            "input_type": "search_query" if query else "search_document",
            "embedding_types": ["float"],
        },
        rows=lambda answer: answer["embeddings"]["float"],
        url_name="CO_API_URL",
        key_name="COHERE_API_KEY",
    ),
    "ollama": Api(
        path="/api/embed",
        url="http://127.0.0.1:11434",
        model="nomic-embed-text",
        question=lambda model, texts, _: {"model": model, "input": texts},
        rows=lambda answer: answer["embeddings"],
        url_name="OLLAMA_HOST",
    ),
}


class Service:
    """A model behind HTTP. Its vectors are as long as the first answer says."""

    dimension = 0

    def __init__(self, endpoint: Endpoint, model: str, *, batch_size: int) -> None:
        self._api, self._endpoint, self._batch = APIS[endpoint.provider], endpoint, batch_size
        self._model = model or self._api.model
        self.name = f"{endpoint.provider}:{self._model}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        starts = range(0, len(texts), self._batch)
        return np.concatenate([self._rows(list(texts[at : at + self._batch])) for at in starts])

    def embed_query(self, text: str) -> Vectors | None:
        """One try: a search must not wait, and has the other arms."""
        row: Vectors = self._rows([text], query=True)[0]
        return row

    def _rows(self, texts: list[str], *, query: bool = False) -> Vectors:
        import numpy as np

        question = self._api.question(self._model, texts, query)
        answer = ask(self._endpoint, self._api.path, question, tries=1 if query else TRIES)
        try:
            rows = self._api.rows(answer)
            if len(rows) != len(texts):
                raise ValueError(f"{len(rows)} vectors for {len(texts)} texts")
            with np.errstate(over="ignore"):  # what is too large becomes infinity, and is refused by the check
                return np.array(rows, np.float32).reshape(len(texts), -1)
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # the shape of the answer is theirs
            raise Unavailable(
                f"{self.name} at {self._endpoint.host} answered in a shape it should not have: {error}. "
                "Nothing was embedded.",
                hint="Check `embedding.url` and `embedding.model`.",
            ) from error
