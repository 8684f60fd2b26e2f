"""Rerankers: models that read a question beside each of the first hits. Knows texts and settings, not memories.

A service, a program, a Python function or a cross-encoder of sentence-transformers, as `reranker.provider` says. All of
them give each text a number, the higher the better. Nothing is loaded or asked before the first search.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from memlake import config
from memlake.defaults import Settings
from memlake.errors import InvalidInput, Unavailable
from memlake.memories.embedders import native
from memlake.memories.embedders.http import Endpoint, ask
from memlake.named_tuple import NamedTuple

PROVIDERS = ("none", "http", "cohere", "sentence-transformers", "python", "command")
LOST = "The hits keep their order."
_COHERE, _COHERE_MODEL = "https://api.cohere.com/v2", "rerank-v3.5"

Score = Callable[[str, list[str]], Any]


class Reranker(NamedTuple):
    """Who it is, and how it is asked: a question and texts, for a number of each."""

    name: str
    ask: Score

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One finite number for each text, or an Error, whatever the reranker did."""
        answer = self.ask(question, list(texts))
        try:
            scores = [float(score) for score in answer]
        except (TypeError, ValueError):
            raise self._refuse("something that is not a list of numbers") from None
        if len(scores) != len(texts):
            raise self._refuse(f"{len(scores)} numbers for {len(texts)} texts")
        if not all(map(math.isfinite, scores)):
            raise self._refuse("a number that is not finite")
        return scores

    def _refuse(self, what: str) -> Unavailable:
        return Unavailable(f"the reranker {self.name} returned {what}. {LOST}", hint="Check `reranker.model`.")


def open_reranker(settings: Settings) -> Reranker:
    """The reranker that is configured."""
    provider, model = _split_name(settings.reranker_provider, settings.reranker_model)
    if provider in ("http", "cohere"):
        return _open_service(provider, model, settings)
    if not model:
        raise InvalidInput(
            f"the reranker {provider} needs to know what to use. {LOST}",
            hint=f"Write `{provider}:<what>`, or set `reranker.model`.",
        )
    if provider == "command":
        return Reranker(f"{provider}:{model}", _open_command(model, settings.reranker_timeout))
    return Reranker(f"{provider}:{model}", _open_function(model) if provider == "python" else _open_encoder(model))


def check_setting(key: str, value: str) -> None:
    """Refuse a provider that there is not. Whether it answers shows at the first search."""
    if key == "reranker.provider":
        _split_name(value, "")


def _split_name(name: str, model: str) -> tuple[str, str]:
    provider, _, named = name.partition(":")
    if provider not in PROVIDERS:
        raise InvalidInput(
            f'there is no reranker "{provider}". Nothing was changed.',
            hint=f"Set `reranker.provider` to one of {', '.join(PROVIDERS)}; a model follows a colon.",
        )
    return provider, named or model


def _open_service(provider: str, model: str, settings: Settings) -> Reranker:
    """A service that speaks like Cohere's, as Jina, vLLM, llama.cpp and others do: POST <url>/rerank."""
    is_cohere = provider == "cohere"
    key_name = "COHERE_API_KEY" if is_cohere else "MEMLAKE_RERANKER_KEY"
    endpoint = Endpoint(
        "the reranker", settings.reranker_url or (_COHERE if is_cohere else ""), key_name=key_name,
        key=config.outside(key_name), timeout=settings.reranker_timeout, settings="reranker", lost=LOST,
    )  # fmt: skip
    model = model or (_COHERE_MODEL if is_cohere else "")

    def score(question: str, texts: list[str]) -> list[float]:
        asked = {"query": question, "documents": texts, "top_n": len(texts), **({"model": model} if model else {})}
        answer = ask(endpoint, "/rerank", asked, tries=1)
        try:
            given = {item["index"]: item["relevance_score"] for item in answer["results"]}
            return [given[place] for place in range(len(texts))]
        except (KeyError, TypeError) as error:
            raise Unavailable(
                f"the reranker at {endpoint.host} answered in a shape it should not have: {error}. {LOST}",
                hint="Check `reranker.url`: it is the address before /rerank.",
            ) from None

    return Reranker(f"{provider}:{model or endpoint.host}", score)


def _open_function(model: str) -> Score:
    """A function of an installed module, `package.module:function`: takes a question and texts, returns numbers."""

    def score(question: str, texts: list[str]) -> Any:
        from importlib import import_module

        module, _, name = model.partition(":")
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise Unavailable(
                f"the reranker {model} could not be loaded: {error}. {LOST}",
                hint="Write `reranker.model` as package.module:function.",
            ) from error
        return function(question, texts)

    return score


def _open_command(model: str, timeout: float) -> Score:
    """A program: reads {"query": ..., "documents": [...]} as JSON, prints a JSON list of numbers."""

    def score(question: str, texts: list[str]) -> Any:
        import shlex  # 20 ms with subprocess, which no other search pays
        import subprocess

        asked = json.dumps({"query": question, "documents": texts}).encode()
        try:
            done = subprocess.run(shlex.split(model), input=asked, capture_output=True, timeout=timeout, check=True)
            return json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            why = f"it did not answer within {timeout:g} s"
        except subprocess.CalledProcessError as error:
            said = " ".join(error.stderr.decode("utf-8", "replace").split())[-200:]
            why = f"it ended with {error.returncode}{f': {said}' if said else ''}"
        except (OSError, ValueError) as error:
            why = str(error)
        raise Unavailable(f"the reranker {model} failed: {why}. {LOST}", hint="Run it by hand to see what it says.")

    return score


def _open_encoder(model: str) -> Score:
    loaded: list[Any] = []

    def score(question: str, texts: list[str]) -> Any:
        config.no_telemetry()
        with native.gate.enter():
            try:
                from sentence_transformers import CrossEncoder

                loaded[:] = loaded or [CrossEncoder(model)]
            except ImportError as error:
                raise Unavailable(
                    f"sentence-transformers is not installed, so {model} cannot be used. {LOST}",
                    hint="Install it with `pip install sentence-transformers`.",
                ) from error
            except (OSError, ValueError, RuntimeError) as error:
                raise Unavailable(f"{model} could not be loaded: {error}. {LOST}", hint="Check its name.") from error
            return loaded[0].predict([(question, text) for text in texts])

    return score
