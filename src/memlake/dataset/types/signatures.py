"""What a function takes and gives back: its parameters, their annotations resolved, its return. Runs nothing of it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from memlake.named_tuple import NamedTuple

MISSING: Final = inspect.Signature.empty


class Signature(NamedTuple):
    """`wants` holds only annotations that are there and can be resolved; `returns` is MISSING without one."""

    parameters: tuple[str, ...]
    wants: Mapping[str, Any]
    returns: Any
    optional: frozenset[str]


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of anything that can be called; a builtin that tells none has no parameters."""
    try:
        taken = list(inspect.signature(function).parameters.values())
    except ValueError:  # str, max and some others tell nothing
        taken = []
    hints = _resolve_hints(_find_annotated(function))
    named = [one for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return Signature(
        parameters=tuple(one.name for one in named),
        wants={one.name: hints[one.name] for one in named if one.name in hints},
        returns=function if isinstance(function, type) else hints.get("return", MISSING),
        optional=frozenset(one.name for one in named if one.default is not MISSING),
    )


def _find_annotated(function: Any) -> Any:
    """The function whose annotations count: inside partials, wrappers, bound methods and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, types.MethodType):
        return inspect.unwrap(function.__func__)
    if isinstance(function, type):
        return vars(function).get("__init__")
    if hasattr(function, "__annotations__") and hasattr(function, "__globals__"):
        return function
    return type(function).__call__


def _resolve_hints(function: Any) -> dict[str, Any]:
    """Annotations resolved one by one: a name only a type checker knows costs that one, not all."""
    scope = dict(getattr(function, "__globals__", {}))
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is not None and cells:
        for name, cell in zip(code.co_freevars, cells, strict=True):
            with contextlib.suppress(ValueError):  # a name of the function around that gets its value later
                scope[name] = cell.cell_contents
    hints = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        with contextlib.suppress(NameError, AttributeError, TypeError, SyntaxError):
            hints[name] = typing.get_type_hints(holder, scope, include_extras=True)["it"]
    return hints
