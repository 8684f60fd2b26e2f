"""What public functions are called with, checked against their own annotations before anything is done.

Knows no function and no verb: annotations are read once, when a function is first called. A call then costs a
few microseconds more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import CO_VARARGS, unwrap
from types import FunctionType, MappingProxyType, UnionType
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin

from memlake.errors import InvalidInput
from memlake.records import Commit

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
_PLAIN = frozenset((str, bytes, bool, int, type(None)))
_NAMES = {"AnyPath": "str | os.PathLike", "SomePaths": "str | os.PathLike, or a list of them"}


class _Takes(NamedTuple):
    """One parameter: the kinds it may be, what a list or mapping of it may hold, the words it may say."""

    name: str
    text: str
    kinds: tuple[Any, ...]
    inner: tuple[Any, ...]
    words: tuple[Any, ...]
    plain: frozenset[Any]  # kinds that need no further look, which most values are

    def fits(self, value: object) -> bool:
        if type(value) in self.plain:
            return True
        if not isinstance(value, self.kinds) or (self.words and value not in self.words):
            return False
        if isinstance(value, str | bytes):
            return type(value) in self.kinds or Sequence not in self.kinds  # a text is no list of its letters
        if isinstance(value, Mapping):
            return _all_are(value, (str,)) and _all_are(value.values(), self.inner)
        return not isinstance(value, Sequence) or _all_are(value, self.inner)


def _all_are(values: Any, kinds: tuple[Any, ...]) -> bool:
    """Each type once, however many the values are."""
    return not kinds or all(issubclass(kind, kinds) for kind in set(map(type, values)))


class _Signature(NamedTuple):
    order: tuple[_Takes | None, ...]
    rest: _Takes | None
    names: Mapping[str, _Takes]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with an InvalidInput for a value of a type it does not take."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        _check(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def refuse_unknown(
    what: str, given: Iterable[str], known: Iterable[str], meant: Mapping[str, str] = MappingProxyType({})
) -> None:
    """InvalidInput for the first name that is not among the known ones, with the name that is probably meant.

    `meant` holds names that look like none of ours but are common elsewhere.
    """
    names = list(known)
    for name in given:
        if name not in names:
            hint = suggest(name, names, meant) or f"It takes {', '.join(names)}."
            raise InvalidInput(f"{what} has no parameter {name!r}. Nothing was done.", hint=hint)


def suggest(name: str, known: Iterable[str], meant: Mapping[str, str] = MappingProxyType({})) -> str:
    """The name that is probably meant, as a hint; "" where none is near."""
    from difflib import get_close_matches  # only a mistake needs it

    near = [meant[name]] if name in meant else get_close_matches(name, list(known), 1, 0.5)
    return f"Did you mean {near[0]}?" if near else ""


def named(method: Callable[P, R]) -> Callable[P, R]:
    """`method`, with an InvalidInput for a name it does not take that says which is probably meant."""
    code = unwrap(method).__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(method.__name__, kwargs, known)
        return method(*args, **kwargs)

    return call


def door(cls: C) -> C:
    """Every public method of a class checked; all but `close` also ask `_refuse_closed` first."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") or name == "close":
            continue
        if isinstance(member, FunctionType):
            setattr(cls, name, _while_open(member))
        elif isinstance(member, property) and member.fget:
            setattr(cls, name, property(_while_open(member.fget), doc=member.__doc__))
    return cls


def _while_open(method: Callable[..., R]) -> Callable[..., R]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> R:
        self._refuse_closed()
        _check(method, (self, *args), kwargs)
        return method(self, *args, **kwargs)

    return call


def _check(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    signature = _signature(function)
    for takes, value in zip(signature.order, args, strict=False):
        if takes is not None and not takes.fits(value):
            raise _wrong(function, takes, value)
    if signature.rest is not None:
        for value in args[len(signature.order) :]:
            if not signature.rest.fits(value):
                raise _wrong(function, signature.rest, value)
    for name, value in kwargs.items():
        if name in signature.names and not signature.names[name].fits(value):
            raise _wrong(function, signature.names[name], value)


def _wrong(function: Callable[..., Any], takes: _Takes, value: object) -> InvalidInput:
    given = repr(value)
    given = given if len(given) <= 60 else given[:57] + "..."
    return InvalidInput(
        f"{function.__qualname__}() takes {takes.name} as {takes.text}, "
        f"and was given {given} ({type(value).__name__}). Nothing was changed.",
        hint=_cure(takes, value),
    )


def _cure(takes: _Takes, value: object) -> str:
    if Commit in takes.kinds:
        return "Get one with repo.commit_at('HEAD')."
    if Sequence in takes.kinds and isinstance(value, str):
        return f"Give a list, also of one: {takes.name}=[{value!r}]"
    return f"Give each as an argument of its own: *{takes.name}" if isinstance(value, list | tuple) else ""


@functools.cache
def _signature(function: Callable[..., Any]) -> _Signature:
    plain: Any = unwrap(function)  # a context manager is wrapped already
    code = plain.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    known = {name: _takes(name, plain) for name in code.co_varnames[: last + 1] if name in plain.__annotations__}
    rest = code.co_varnames[last] if code.co_flags & CO_VARARGS else None
    order = tuple(known.get(name) for name in code.co_varnames[: code.co_argcount])
    return _Signature(order, known.get(rest) if rest else None, known)


def _takes(name: str, function: Any) -> _Takes:
    text = function.__annotations__[name]
    hint = eval(text, function.__globals__)  # our own source, as typing.get_type_hints does it
    parts = _parts(hint)
    kinds = tuple(get_origin(part) or part for part in parts if get_origin(part) is not Literal)
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    inner = tuple(kind for part in parts for kind in _inner(part))
    for alias, meant in _NAMES.items():
        text = text.replace(alias, meant)
    plain = frozenset() if words else _PLAIN.intersection(kinds)
    return _Takes(name, " or ".join(map(repr, words)) or text, kinds or (str,), inner, words, plain)


def _parts(hint: Any) -> tuple[Any, ...]:
    """The kinds a hint allows, one by one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _inner(part: Any) -> tuple[Any, ...]:
    """What a list or mapping holds, as kinds; nothing where it may hold anything."""
    if get_origin(part) not in (Sequence, Mapping, tuple):
        return ()
    held = get_args(part)[-1 if get_origin(part) is Mapping else 0]
    return () if held is Any else tuple(get_origin(kind) or kind for kind in _parts(held))
