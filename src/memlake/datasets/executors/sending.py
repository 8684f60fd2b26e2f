"""A function made ready to be sent to another process, or a message that names what in it cannot be sent."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from memlake.datasets.executors.frames import pack
from memlake.errors import InvalidInput

DEEP = 5
Blob = tuple[bytes, list[bytearray]]  # a pickle and the buffers beside it, which the work may write to
EMPTY: Blob = (b"", [])


def blob_of(work: Any) -> Blob:
    """The pickle of work, functions of a script by value; InvalidInput names what in it cannot be sent."""
    try:
        body, beside = pack(work)
        return bytes(body), [bytearray(one) for one in beside]
    except Exception as error:  # pickling runs code of the user's class, which may raise anything
        raise _cannot_send(*_culprit("the function", work, error)) from error


def _cannot_send(name: str, value: Any, reason: Exception) -> InvalidInput:
    return InvalidInput(
        f"{name} (a {type(value).__name__}) cannot be sent to a worker process: {reason}. Nothing was run.",
        hint="make it inside each worker instead: setup=lambda: ... (a model, a connection, a lock), "
        "or run it in process without parallel",
    )


def _why_not(value: Any) -> Exception | None:
    try:
        pack(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the user's class, which may raise anything
        return error
    return None


def _culprit(name: str, value: Any, error: Exception, *, deep: int = DEEP) -> tuple[str, Any, Exception]:
    """The innermost named thing in a value that cannot be sent by itself either."""
    for inner, part in _parts(name, value) if deep else ():
        why = _why_not(part)
        if why is not None:
            return _culprit(inner, part, why, deep=deep - 1)
    return name, value, error


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.MethodType):
        yield name, value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f"an argument of {name}", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.FunctionType):
        called = value.__name__
        for inner, part in _captured(value):
            yield f"`{inner}`, which {called} uses,", part
    elif not isinstance(value, type | types.ModuleType):
        for inner, part in getattr(value, "__dict__", {}).items():
            yield f"`{inner}` of {name}", part


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    try:
        found = inspect.getclosurevars(function)
    except ValueError:  # a cell not filled yet
        return
    yield from {**found.nonlocals, **found.globals}.items()
