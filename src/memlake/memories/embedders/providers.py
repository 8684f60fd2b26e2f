"""From the name in `embedding.provider` to an embedder: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from memlake import config
from memlake.defaults import Settings
from memlake.errors import InvalidInput
from memlake.memories.embedders import local
from memlake.memories.embedders.checked import Embedder, check_embedder
from memlake.memories.embedders.http import Endpoint
from memlake.memories.embedders.libraries import LOADERS, Library
from memlake.memories.embedders.services import APIS, Service

if TYPE_CHECKING:
    from memlake.memories.embedders.checked import Vectors

PROVIDERS = ("local", *APIS, *LOADERS, "test", "none")


def open_embedder(name: str, settings: Settings) -> Embedder | None:
    """The embedder called `provider` or `provider:model`, checked; None for `none`, and for a `local` that is missing.

    Nothing is loaded or asked before the first text, so a wrong key or an unreachable service shows there.
    """
    provider, model = _split_name(name, settings)
    if provider == "none" or describe_missing(name):
        return None
    if provider in APIS:
        return check_embedder(_open_service(provider, model, settings))
    if provider in LOADERS:
        return check_embedder(Library(provider, model))
    return check_embedder(Hashed() if provider == "test" else local.Local())


def describe_missing(name: str) -> str:
    """Why `open_embedder` gives None where an embedder was meant, in a sentence; empty when it does not."""
    return local.MISSING if name == "local" and not local.is_installed() else ""


def check_setting(key: str, value: str) -> None:
    """Refuse a setting that no embedder could be opened with. Whether it answers shows at the first text."""
    try:
        if key == "embedding.provider":
            _split_name(value, Settings())
        elif key == "embedding.url" and value:
            Endpoint("a provider", _complete_url(value))
    except InvalidInput as error:
        raise InvalidInput(f"{error.message} {key} was not changed.", hint=error.hint) from None


def is_on_this_machine(name: str) -> bool:
    """Whether texts stay in this process: no service is asked, not even one at an address of this machine."""
    return name.partition(":")[0] not in APIS


def _split_name(name: str, settings: Settings) -> tuple[str, str]:
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS:
        raise InvalidInput(
            f'there is no embedding provider "{provider}".',
            hint=f"Set `embedding.provider` to one of {', '.join(PROVIDERS)}; a model follows a colon.",
        )
    return provider, model or settings.embedding_model


def _open_service(provider: str, model: str, settings: Settings) -> Service:
    api = APIS[provider]
    url = settings.embedding_url or config.outside(api.url_name) or api.url
    endpoint = Endpoint(
        provider,
        _complete_url(url),
        key_name=api.key_name,
        key=config.outside(api.key_name),
        timeout=settings.embedding_timeout,
    )
    return Service(endpoint, model, batch_size=settings.embedding_batch_size)


def _complete_url(url: str) -> str:
    return url if "://" in url else f"http://{url}"  # OLLAMA_HOST is often host:port


class Hashed:
    """An embedder for tests: hashed letter triples. No model, the same on every machine; alike texts are near."""

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
