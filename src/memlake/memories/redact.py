"""Secrets in what an agent is about to store, and what to do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from memlake.errors import Denied, InvalidInput
from memlake.memories.record import Memory
from memlake.secrets import Secret, find, redact

HOWS = ("warn", "block", "redact", "off")
_APART = "\n" * 6  # more white space than any rule reaches over
Guarded = tuple[Any, tuple[str, ...]]  # what to store, and what to tell its writer


def guard(text: str, how: str, *, what: str = "the text", name: str = "") -> tuple[str, tuple[str, ...]]:
    """The text to store and what to tell its writer. `block` raises Denied instead.

    `name` is what the text is kept under: `{"api_key": "..."}` is read as `api_key: ...`.
    """
    if how not in HOWS:
        raise InvalidInput(f"what to do with secrets is one of {', '.join(HOWS)}, not {how!r}.")
    found = _find_under(name, text) if how != "off" else ()
    if not found:
        return text, ()
    told = _describe_secrets(found)
    if how == "block":
        raise Denied(
            f"{what} looks like it holds {told}. Nothing was stored.",
            hint="Store where the secret is kept instead of it, or allow secrets: memlake config memory.secrets warn",
        )
    if how == "redact":
        return redact(text, found), (f"{what} looked like it held {told}; it was stored without.",)
    return text, (f"{what} looks like it holds {told}. If it should not be kept for ever, delete and purge it.",)


def _find_under(name: str, text: str) -> tuple[Secret, ...]:
    if not name:
        return find(text)
    before = len(name) + 2
    found = (Secret(s.rule, max(s.start - before, 0), s.end - before) for s in find(f"{name}: {text}"))
    return tuple(secret for secret in found if secret.end > 0)


def guard_value(value: Any, how: str, *, what: str, name: str = "") -> Guarded:
    """As `guard`, for every text inside a JSON value, its names too."""
    if isinstance(value, str):
        return guard(value, how, what=what, name=name)
    texts = _APART.join(_list_texts(value, name))
    if how in HOWS and not (texts and find(texts)):  # the usual case: one search for all of them
        return value, ()
    if isinstance(value, dict):
        names = [guard(inner, how, what=what) for inner in value]
        found = [guard_value(inner, how, what=what, name=key) for key, inner in value.items()]
        made: Any = {key: inner for (key, _), (inner, _) in zip(names, found, strict=True)}
    elif isinstance(value, list):
        names, found = [], [guard_value(inner, how, what=what, name=name) for inner in value]
        made = [inner for inner, _ in found]
    else:
        return value, ()
    return made, tuple(dict.fromkeys(warning for _, told in (*names, *found) for warning in told))


def _list_texts(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{name}: {value}" if name else value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _list_texts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_texts(inner, name)


def guard_memory(memory: Memory, how: str) -> tuple[Memory, tuple[str, ...]]:
    """As `guard`, for all that a memory says: its content, its metadata, its tags."""
    content, said = guard(memory.content, how)
    metadata, beside = guard_value(dict(memory.metadata), how, what="the metadata")
    tags, filed = guard_value(list(memory.tags), how, what="a tag")
    made = memory._replace(content=content, metadata=metadata, tags=tuple(tags))
    return made, (*said, *beside, *filed)


def join_filing(memory: Memory) -> str:
    """All texts that a memory has beside its content, each under its name, for one search through them."""
    return _APART.join(_list_texts({**memory.metadata, "tags": list(memory.tags)}, ""))


def _describe_secrets(found: Iterable[Secret]) -> str:
    """The rules that fired, in words."""
    counts = Counter(secret.rule for secret in found)
    return " and ".join(f"{n} {rule}s" if n > 1 else f"{_article(rule)} {rule}" for rule, n in counts.items())


def _article(rule: str) -> str:
    return "an" if rule[0] in "aeio" or rule.startswith("npm") else "a"  # a url is a "you"
