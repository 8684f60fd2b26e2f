"""A question to a model that the user named: a program, or a service that speaks like OpenAI's. Knows no diff.

Both are settings that act, so they count only from the user's own file or a trusted repo. Keys come from the
environment alone, and each goes only to the host it belongs to.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from memlake import config, memories
from memlake.defaults import Settings
from memlake.errors import Unavailable
from memlake.named_tuple import NamedTuple

_LONGEST = 4000  # characters of an answer
_LOST = "The model was not heard."
_OPENAI = "api.openai.com"


class Words(NamedTuple):
    """What a model said, and who it is."""

    who: str
    text: str


def names_model(settings: Settings) -> bool:
    """Whether a model is configured."""
    return bool(settings.model_command or settings.model_url)


def ask_model(settings: Settings, task: str, record: str) -> Words:
    """The answer to a task over a record; Unavailable or another of our errors where there is none to be had."""
    if settings.model_command:
        return _run_command(settings.model_command, f"{task}\n\n{record}\n", settings.model_timeout)
    key_name = "OPENAI_API_KEY" if urlsplit(settings.model_url).hostname == _OPENAI else "MEMLAKE_MODEL_KEY"
    endpoint = memories.embedders.http.Endpoint(
        "the model", settings.model_url, key_name=key_name, key=config.outside(key_name),
        timeout=settings.model_timeout, settings="model", lost=_LOST,
    )  # fmt: skip
    messages = [{"role": "system", "content": task}, {"role": "user", "content": record}]
    question: dict[str, Any] = {"messages": messages, "temperature": 0}
    if settings.model_model:
        question["model"] = settings.model_model
    answer = memories.embedders.http.ask(endpoint, "/chat/completions", question, tries=1)
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        text = None
    return Words(settings.model_model or endpoint.host, _check_answer(text, f"the model at {endpoint.host}"))


def _run_command(command: str, question: str, timeout: float) -> Words:
    import shlex
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(words, input=question.encode(), capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[0]} did not answer within {timeout:g} s. {_LOST}") from None
    except (OSError, ValueError) as error:
        raise Unavailable(f"model.command cannot be run: {error}. {_LOST}") from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
        raise Unavailable(f"{words[0]} ended with {done.returncode}{f': {said}' if said else ''}. {_LOST}")
    return Words(words[0], _check_answer(done.stdout.decode("utf-8", "replace"), words[0]))


def _check_answer(text: object, who: str) -> str:
    """An answer in words, cut to a paragraph or two."""
    if not isinstance(text, str) or not text.strip():
        raise Unavailable(f"{who} answered without any words. {_LOST}")
    words = text.strip()
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
