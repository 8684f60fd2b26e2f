"""What public functions are called with: misspelled names, values of a wrong type, a closed repo. Knows no function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, MappingProxyType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from memlake.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
_VARARGS = 0x04  # CO_VARARGS of inspect, which is not loaded for it: a tenth of start-up
_ALIASES = {"AnyPath": "str | os.PathLike", "SomePaths": "str | os.PathLike, or a list of them"}


# -- names


def suggest(name: str, known: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """A hint with the name that is probably meant, or "". `elsewhere` maps names that other libraries use to ours."""
    from difflib import get_close_matches  # only a mistake needs it

    near = [elsewhere[name]] if name in elsewhere else get_close_matches(name, list(known), 1, 0.5)
    return f"Did you mean {near[0]}?" if near else ""


def refuse_unknown(
    what: str, names: Iterable[str], known: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})
) -> None:
    """InvalidInput for the first name that `what` does not take, with the name that is probably meant."""
    takes = list(known)
    for name in names:
        if name not in takes:
            hint = suggest(name, takes, elsewhere) or f"It takes {', '.join(takes)}."
            raise InvalidInput(f"{what} has no parameter {name!r}. Nothing was done.", hint=hint)


def check_names(method: Callable[P, R]) -> Callable[P, R]:
    """A method that refuses a misspelled keyword with the name that is probably meant."""
    code = _unwrap(method).__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(method.__name__, kwargs, known)
        return method(*args, **kwargs)

    return call


# -- types


def check_types(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses a value its annotations do not allow, before anything is done."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        _check(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def check_methods(cls: C) -> C:
    """A class whose public methods check types and, all but `close`, ask `_refuse_closed` first."""

    def guard(method: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> R:
            self._refuse_closed()
            _check(method, (self, *args), kwargs)
            return method(self, *args, **kwargs)

        return call

    for name, member in list(vars(cls).items()):
        if name.startswith("_") or name == "close":
            continue
        if isinstance(member, FunctionType):
            setattr(cls, name, guard(member))
        elif isinstance(member, property) and member.fget:
            setattr(cls, name, property(guard(member.fget), doc=member.__doc__))
    return cls


def _check(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    order, rest, hints, plain = _parameters(function)
    extra = [(rest, value) for value in args[len(order) :]]
    for name, value in (*zip(order, args, strict=False), *extra, *kwargs.items()):
        # Most values are exactly of a type that is named, which is by far the quickest to see.
        if name in hints and type(value) not in plain[name] and not _fits(value, hints[name]):
            raise _refusal(function, name, value)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[Sequence[str], str, dict[str, Any], dict[str, set[Any]]]:
    """The names in order, the one of `*args` ("" for none), what each may be, and the types that need no more look."""
    plain: Any = _unwrap(function)  # a context manager is wrapped already
    code = plain.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[last] if code.co_flags & _VARARGS else ""
    names = [name for name in code.co_varnames[: last + 1] if name in plain.__annotations__]
    # Our own source, as typing.get_type_hints evaluates it; that one also wants the names of returned types.
    hints = {name: eval(plain.__annotations__[name], plain.__globals__) for name in names}
    types = {name: {str, bytes, bool, int, type(None)}.intersection(_parts(hint)) for name, hint in hints.items()}
    return code.co_varnames[: code.co_argcount], rest, hints, types


def _unwrap(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in inner)
    if kind is Any or kind is Literal:
        return kind is Any or value in inner
    if not isinstance(value, kind) or (kind is Sequence and isinstance(value, str | bytes)):
        return False  # a text is not a list of its letters
    if kind is Mapping:
        return _all_fit(value, str) and _all_fit(value.values(), inner[1])
    return kind not in (Sequence, tuple) or not inner or _all_fit(value, inner[0])


def _all_fit(values: Any, hint: Any) -> bool:
    """Looks at one value of each type, however many there are."""
    return hint is Any or all(_fits(one, hint) for one in dict(zip(map(type, values), values, strict=True)).values())


def _refusal(function: Callable[..., Any], name: str, value: object) -> InvalidInput:
    hint, text = _parameters(function)[2][name], str(_unwrap(function).__annotations__[name])
    for alias, meaning in _ALIASES.items():
        text = text.replace(alias, meaning)
    if get_origin(hint) is Literal:
        text = " or ".join(map(repr, get_args(hint)))
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    kinds = [get_origin(part) or part for part in _parts(hint)]
    cure = ""
    if isinstance(value, str) and Sequence in kinds:
        cure = f"Pass a list, even for one: {name}=[{value!r}]"
    elif isinstance(value, list | tuple):
        cure = f"Pass each as an argument of its own: *{name}"
    return InvalidInput(
        f"{function.__qualname__}() takes {name} as {text}, but got {shown} ({type(value).__name__}). "
        "Nothing was changed.",
        hint=cure,
    )
