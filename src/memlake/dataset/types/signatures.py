"""What a function takes and gives back: its parameters, their annotations resolved, its return. Runs nothing of it."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

MISSING: Final = inspect.Signature.empty


class Signature(NamedTuple):
    """`wants` holds only annotations that are there and can be resolved; `returns` is MISSING without one."""

    parameters: tuple[str, ...]
    wants: Mapping[str, Any]
    returns: Any
    optional: frozenset[str]


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of anything that can be called; a builtin that tells none has no parameters."""
    taken = _parameters(function)
    hints = _hints(_find_annotated(function))
    named = [one for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return Signature(
        parameters=tuple(one.name for one in named),
        wants={one.name: hints[one.name] for one in named if one.name in hints},
        returns=function if isinstance(function, type) else hints.get("return", MISSING),
        optional=frozenset(one.name for one in named if one.default is not MISSING),
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # str, max and some others tell nothing
        return []


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


def _hints(function: Any) -> dict[str, Any]:
    """Annotations resolved one by one: a name only a type checker knows costs that one, not all."""
    annotations = getattr(function, "__annotations__", {})
    scope = {**getattr(function, "__globals__", {}), **_closure(function)}
    hints = {name: _resolve(annotation, scope) for name, annotation in annotations.items()}
    return {name: hint for name, hint in hints.items() if hint is not MISSING}


def _closure(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True) if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    """A name of the function around that is given its value later has none yet."""
    try:
        return cell.cell_contents is not MISSING
    except ValueError:
        return False


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["it"]
    except (NameError, AttributeError, TypeError, SyntaxError):
        return MISSING
