"""JSON schemas from the signatures of tools: small ones, because an agent reads them all. Checks arguments by them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from memlake.calls import refuse_unknown
from memlake.errors import InvalidInput
from memlake.memories.record import CATEGORIES, SCOPES, TYPES
from memlake.memories.remember import WAYS
from memlake.memories.search import MODES, SEES

_SAYS = {
    "content": "One atomic fact in one clear sentence.",
    "memory_type": f"{', '.join(TYPES)}, or your own.",
    "importance": "0 to 1.",
    "category": f"For filing; suggested: {', '.join(CATEGORIES)}.",
    "search": 'What to find, described ("user\'s coding habits") or in exact words.',
    "agentId": "An agent's name.",
    "startTime": 'ISO time or words such as "last week".',
    "since": 'A time, or "last week".',
    "purge": "true: erase it for good; nothing brings it back.",
    "expires_at": 'A time, "in 3 days", "never".',
    "expiresAt": 'A time, "in 3 days", "never".',
    "agent_id": "Only this agent's.",
    "user_id": "The user it is about, if you serve many.",
    "userId": "The user it is about, if you serve many.",
    "scope": f"{', '.join(SCOPES)}: everybody's of this project, or only yours.",
    "project": 'Another project\'s name or folder, or "*" for all.',
    "mode": f"{', '.join(MODES)}.",
    "on_conflict": f"{', '.join(WAYS)}.",
    "as_of": "A revision or time: search the past.",
    "branch": "A branch of memory, if not the usual one.",
    "sees": f"Which part of the branch: {', '.join(SEES)}.",
    "min_score": "Leave out hits that are less close, 0 to 1.",
    "max_tokens": "Stop when the results are about this long.",
    "timeout": "Seconds.",
    "uses": "What it rests on, to be warned when that changes: path, path:10-40, dataset@1.0.0, memory id.",
}
_KINDS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list[str]: {"type": "array", "items": {"type": "string"}},
    dict[str, Any]: {"type": "object"},
    Any: {"type": ["object", "array", "string", "number", "boolean", "null"], "items": {}},
}
_CHECKS: dict[Any, tuple[type, ...]] = {
    str: (str,), int: (int,), float: (int, float), bool: (bool,), list[str]: (list,), dict[str, Any]: (dict,),
    Any: (object,),
}  # fmt: skip
_OURS = ("desk", "who")


def input_schema(run: Callable[..., Any], hidden: Collection[str] = ()) -> dict[str, Any]:
    """What a tool takes, without the parameters that are not told."""
    properties, required = {}, []
    for name, (kind, default) in parameters(run, hidden).items():
        said = {"description": _SAYS[name]} if name in _SAYS else {}
        shown = {"default": default} if default not in (inspect.Parameter.empty, None, False, "") else {}
        properties[name] = {**_KINDS[kind], **said, **shown}
        if default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def parameters(run: Callable[..., Any], without: Collection[str] = ()) -> dict[str, tuple[Any, Any]]:
    """name -> (kind, default) of what a client may give."""
    hints = typing.get_type_hints(run)
    given = inspect.signature(run).parameters
    return {
        name: (_plain(hints[name]), one.default)
        for name, one in given.items()
        if name not in _OURS and name not in without
    }


def _plain(kind: Any) -> Any:
    """`str | None` as str: a client leaves out what it does not give."""
    if isinstance(kind, types.UnionType):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def check_arguments(run: Callable[..., Any], given: Mapping[str, Any], refused: Collection[str] = ()) -> dict[str, Any]:
    """Arguments as a tool takes them, or InvalidInput that names the parameter."""
    known = parameters(run, refused)
    refuse_unknown(run.__name__, given, known)
    for name, (kind, default) in known.items():
        value = given.get(name)
        if default is inspect.Parameter.empty and (name not in given if kind is Any else value is None):
            raise InvalidInput(f"{run.__name__} needs {name}.", hint=_SAYS.get(name, ""))
        if value is not None and not _fits(value, kind):
            raise InvalidInput(f"{name} of {run.__name__} must be {_describe_kind(kind)}, not {type(value).__name__}.")
    return {name: value for name, value in given.items() if value is not None or known[name][0] is Any}


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) and kind in (int, float):
        return False
    if isinstance(value, list):
        return kind is Any or (kind == list[str] and all(isinstance(item, str) for item in value))
    return isinstance(value, _CHECKS[kind])


def _describe_kind(kind: Any) -> str:
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list[str]: "a list of texts"}
    return names.get(kind, "an object")
