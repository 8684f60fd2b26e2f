"""The fingerprint of a function: equal when it would do the same again, other when anything it reaches has changed.

Followed: its code, defaults, closure, globals and what those reach in turn: helpers, classes with their bases, modules
of the user's own, decorators, partials, instances with their state. A library is its version, and the plain data read
from its modules. What pickle cannot see into (a lock, a socket, a client), and names made up at run time
(`globals()[...]`, `eval`, `__subclasses__()`), are opaque: named, never guessed.

Not followed, because no key can: what time, random, the environment, files and the network answer; a library's own
dependencies; what was put into a library that is imported in the function. Such work is told apart with `params=`.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import importlib
import importlib.util
import inspect
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from memlake.dataset.memo import code_origin, object_state
from memlake.dataset.memo.bytecode import (
    ITS_OWN,
    MISSING,
    PYTHON,
    Import,
    Missing,
    Read,
    absolute,
    asks,
    closure,
    code_token,
    content,
    found_in,
    outside,
    reads,
    unseen,
)
from memlake.dataset.memo.object_state import join, scalar
from memlake.named_tuple import NamedTuple

EDITION = "1"  # raise it when what is followed changes: every key is then another
NOTHING: Mapping[str, Any] = types.MappingProxyType({})
Given = Callable[[frozenset[str] | None], Mapping[str, Any]]
PARAM = ("memlake.dataset.params", "param")
SLOTS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


class Opaque(NamedTuple):
    """Something a function uses that memlake cannot fingerprint."""

    name: str
    kind: str
    hint: str


class Fingerprint(NamedTuple):
    """`key` says what the work is; when something is `opaque` it must not be trusted, and the work runs again."""

    key: str
    source: str
    libraries: Mapping[str, str]
    opaque: tuple[Opaque, ...]
    params: Mapping[str, Any] = NOTHING  # that it asks for and that were set from outside


def fingerprint(
    function: Callable[..., Any], *, params: Mapping[str, Any] = NOTHING, given: Given = lambda _: NOTHING
) -> Fingerprint:
    """What a function is, with all it reaches and the parameters it is given.

    `given` tells what was set from outside for the params a function asks for by `ml.param(name)`.
    """
    walk, asked = _Walk(), NOTHING
    try:
        work = walk.token(function, "the function")
        told = join("params", *(join(name, walk.token(params[name], name)) for name in sorted(params)))
        rest = [walk.annotations(function), *walk.definitions()]
        asked = given(walk.params()) if walk.params() != frozenset() else NOTHING
        rest += [join("param", name.encode(), walk.token(asked[name], name)) for name in sorted(asked)]
        key = join("fingerprint", EDITION.encode(), work, told, *rest)
    except RecursionError:
        key = walk.add_opaque(function, "something it holds is nested too deeply")
    libraries, opaque = dict(sorted(walk.libraries.items())), tuple(dict.fromkeys(walk.opaque))
    return Fingerprint(key.hex(), "\n".join(walk.texts()), libraries, opaque, asked)


class _Walk:
    """One walk over everything a function reaches.

    Functions, classes and modules of the user's own are definitions: numbered where they are met and looked into one
    after another, so that neither calls in a circle nor a long chain of them matters. Values are looked into on the
    spot, each once; one that holds itself is told by how far up it is.
    """

    def __init__(self) -> None:
        self.libraries: dict[str, str] = {}
        self.opaque: list[Opaque] = []
        self._known: dict[int, tuple[Any, bytes]] = {}  # the value is kept, or its id would be given to another
        self._open: dict[int, int] = {}
        self._trail: list[str] = []
        self._texts: list[code_origin.Text] = []
        self._named: set[str | None] = set()  # params
        self._numbers: dict[int, int] = {}
        self._definitions: list[tuple[Any, Callable[[], bytes]]] = []

    # -- any value

    def token(self, value: Any, called: str) -> bytes:
        """The token of a value; `called` is how a reader would name it where it was met."""
        plain = scalar(value)
        if plain is not None:
            return plain
        key = id(value)
        if key in self._known:
            return self._known[key][1]
        if key in self._open:
            return join("again", str(len(self._open) - self._open[key]).encode())
        self._open[key] = len(self._open)
        self._trail.append(called)
        try:
            found = self._look(value)
        finally:
            self._trail.pop()
            del self._open[key]
        self._known[key] = (value, found)
        return found

    def _look(self, value: Any) -> bytes:
        own = _own_fingerprint(value)
        if own is not None:
            return self._ask(value, lambda: join("own", type(value).__name__.encode(), self.token(own(), "")))
        if value is sys.modules:
            return self.add_opaque(value, "it holds all that was imported")
        look = LOOKS.get(type(value))
        if look is not None:
            return look(self, value)
        if isinstance(value, type | types.ModuleType):
            return self._class(value) if isinstance(value, type) else self._module(value)
        if isinstance(value, logging.Logger | logging.LoggerAdapter):
            return join("logger")  # it tells of the work and is no part of it
        return self._ask(value, lambda: self._object(value))

    def _ask(self, value: Any, ask: Callable[[], bytes]) -> bytes:
        """Objects answer with code of their own, which may do anything: then it is opaque, and the work runs."""
        try:
            return ask()
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001  a stranger's method must not end the run
            return self.add_opaque(value, f"{type(error).__name__}: {error}")

    def add_opaque(self, value: Any, reason: str) -> bytes:
        kind = type(value).__name__
        name = self._place()
        hint = (
            f"memlake cannot fingerprint {name} ({kind}): {reason}. So results of this function are not reused, and it "
            f"runs every time. Make it in setup=, or say what it is with params= or a __fingerprint__() of its class."
        )
        self.opaque.append(Opaque(name, kind, hint))
        return join("opaque", kind.encode())

    def _place(self) -> str:
        """As a reader sees it: `encoder.client in embed()`."""
        calls = [at for at, label in enumerate(self._trail) if label.endswith("()")]
        inside = self._trail[calls[-1]] if calls else ""
        name = "".join(self._trail[calls[-1] + 1 if calls else 0 :]).lstrip(".")
        return f"{name} in {inside}" if name and inside else name or inside or "the function"

    def _define(self, value: Any, look: Callable[[Any], bytes]) -> bytes:
        """The number of a definition, which is looked into later."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._definitions)
            self._definitions.append((value, functools.partial(look, value)))
        return join("definition", str(self._numbers[id(value)]).encode())

    def definitions(self) -> Iterator[bytes]:
        """Every definition met so far, and those met in them."""
        for value, look in self._definitions:  # it grows meanwhile
            self._trail.append(_display_name(value))
            yield self._ask(value, look)
            self._trail.pop()

    # -- containers

    def _items(self, values: Iterable[Any]) -> list[bytes]:
        return [self.token(value, f"[{at}]") for at, value in enumerate(values)]

    def _sequence(self, value: Any) -> bytes:
        return join(type(value).__name__, *self._items(value))

    def _set(self, value: Any) -> bytes:
        """In no order of its own; definitions in it are numbered by name."""
        return join(type(value).__name__, *sorted(self._items(sorted(value, key=_sort_key))))

    def _mapping(self, value: Mapping[Any, Any], *, attributes: bool = False) -> bytes:
        """In its own order: a loop over it meets that order."""
        show = ".{}".format if attributes else "[{!r}]".format
        pairs = ((self.token(name, "key"), name, each) for name, each in list(value.items()))
        return join("dict", *(part for key, name, each in pairs for part in (key, self.token(each, show(name)))))

    # -- functions

    def _function(self, function: types.FunctionType) -> bytes:
        code, module = function.__code__, str(function.__globals__.get("__name__", ""))
        library = code_origin.library_of_code(code, module)
        if library is None:
            return self._define(function, self._own_function)
        name = self._library(library, f"{module}.{code.co_qualname}")
        if (module, code.co_name) == PARAM and self._trail[-1].rpartition(".")[2] != "param":
            self._named.add(None)  # under another name: what it is called with is not followed
        if code.co_qualname == "singledispatch.<locals>.wrapper":
            return join("made", name, self._mapping(function.__dict__["registry"]))
        # A function made by a library on the spot, as its decorators do, holds what it was given.
        return join("made", name, *self._defaults(function), *self._cells(function)) if function.__closure__ else name

    def _own_function(self, function: types.FunctionType) -> bytes:
        code = function.__code__
        self._note(code_origin.text_of_code(code))
        self.libraries["python"] = PYTHON
        self._named.update(asks(code, "param"))
        return join("function", code_token(code), *self._inputs(function), *self._unseen(function))

    def _unseen(self, function: types.FunctionType) -> Iterator[bytes]:
        """What is reached by a text alone: a module that is written out is followed, anything else hidden."""
        for call, module in unseen(function):
            if module is None:
                yield self.add_opaque(function, f"{call} reaches what no name in the code tells")
            else:
                yield self._import_token(function, Import(module, 0, (), ""))

    def _inputs(self, function: types.FunctionType) -> Iterator[bytes]:
        yield from self._defaults(function)
        for each in outside(function, reads(function.__code__)):
            yield self._read_token(function, each)

    def _defaults(self, function: types.FunctionType) -> Iterator[bytes]:
        yield self.token(function.__defaults__, "defaults")
        yield self.token(function.__kwdefaults__, "defaults")
        yield self._mapping(function.__dict__, attributes=True)

    def _cells(self, function: types.FunctionType) -> list[bytes]:
        return [self.token(content(cell), name) for name, cell in closure(function).items()]

    def _read_token(self, function: types.FunctionType, read: Read | Import) -> bytes:
        if isinstance(read, Import):
            return self._import_token(function, read)
        value = found_in(function, read)
        return join(".".join([read.name, *read.attributes]), self._attribute(value, read.name, read.attributes))

    def _attribute(self, value: Any, called: str, attributes: tuple[str, ...]) -> bytes:
        """A module of the user's own is followed to what is taken from it, so the rest of it may change."""
        while attributes and isinstance(value, types.ModuleType) and code_origin.library_of(value.__name__) is None:
            called, space = f"{called}.{attributes[0]}", vars(value)
            value = MISSING if attributes[0] in ITS_OWN else space.get(attributes[0], space.get("__getattr__", MISSING))
            attributes = attributes[1:]
        put = code_origin.put_into(value, attributes)
        return join("read", self.token(value, called), *(self.token(each, called) for each in put))

    def _import_token(self, function: types.FunctionType, read: Import) -> bytes:
        """An import inside a function is made now when it is of the user's own: the function would make it anyway."""
        name = absolute(function, read)
        library = code_origin.library_of(name) or code_origin.library_ahead(name)
        if library is not None:
            return self._library(library, name)
        try:
            module = importlib.import_module(name)
        except ImportError:
            return join("absent", name.encode())
        except Exception as error:  # noqa: BLE001  a module's own code may do anything
            return self.add_opaque(function, f"import {name}: {type(error).__name__}: {error}")
        if read.taken:
            return join("from", *(self._taken(module, each) for each in read.taken))
        return self._bound(function, read, module)

    def _taken(self, module: types.ModuleType, name: str) -> bytes:
        if not hasattr(module, name) and importlib.util.find_spec(f"{module.__name__}.{name}"):
            importlib.import_module(f"{module.__name__}.{name}")
        return self._attribute(module, module.__name__, (name,))

    def _bound(self, function: types.FunctionType, read: Import, module: types.ModuleType) -> bytes:
        """`import a.b` binds a; `import a.b as c` binds b: which, the name tells. Without one, it is used whole."""
        if not read.bound:
            return self.token(module, module.__name__)
        top = sys.modules[module.__name__.partition(".")[0]]
        value = top if read.bound == top.__name__ else module
        uses = [each for each in reads(function.__code__) if isinstance(each, Read) and each.name == read.bound]
        return join("import", *(self._attribute(value, read.bound, each.attributes) for each in uses))

    def _partial(self, value: functools.partial[Any]) -> bytes:
        func, args, keywords = self.token(value.func, ""), self.token(value.args, ""), self._mapping(value.keywords)
        return join("partial", func, args, keywords, self.token(value.__dict__, ""))

    def _method(self, value: types.MethodType) -> bytes:
        return join("method", self.token(value.__func__, ""), self.token(value.__self__, "self"))

    def _builtin(self, value: Any) -> bytes:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._name(value.__module__ or "builtins", value.__qualname__)
        return join("builtin", value.__name__.encode(), self.token(owner, "self"))

    def _slot(self, value: Any) -> bytes:
        return join("slot", value.__name__.encode(), self.token(value.__objclass__, ""))

    def _lru_cache(self, value: Any) -> bytes:
        """functools.lru_cache: what it wraps, not what it remembers."""
        return join("cached", self.token(value.__wrapped__, ""))

    def _property(self, value: property) -> bytes:
        return join("property", *(self.token(each, "") for each in (value.fget, value.fset, value.fdel)))

    def _inner(self, value: Any) -> bytes:
        """staticmethod, classmethod and functools.cached_property: the function inside."""
        inside = value.func if isinstance(value, functools.cached_property) else value.__func__
        return join(type(value).__name__, self.token(inside, ""))

    def annotations(self, function: Any) -> bytes:
        """The annotations of the parameters: they say as what the values of a row are handed over."""
        while isinstance(function, functools.partial | types.MethodType):
            function = function.func if isinstance(function, functools.partial) else function.__func__
        if not isinstance(function, types.FunctionType | type):
            function = type(function).__call__
        try:
            hints = inspect.get_annotations(function, eval_str=True)
        except Exception:  # noqa: BLE001  an annotation that names what is not there
            hints = getattr(function, "__annotations__", {})
        return join("wants", *(join(name, self.token(each, name)) for name, each in hints.items() if name != "return"))

    # -- modules and classes

    def _module(self, module: types.ModuleType) -> bytes:
        library = code_origin.library_of(module.__name__)
        if library is not None:
            return self._library(library, module.__name__)
        return self._define(module, self._own_module)

    def _own_module(self, module: types.ModuleType) -> bytes:
        """A module that is handed on whole: all that is in it."""
        inside = {name: each for name, each in sorted(vars(module).items()) if name not in ITS_OWN}
        return join("module", self._mapping(inside, attributes=True))

    def _class(self, cls: type) -> bytes:
        library = code_origin.library_of(cls.__module__)
        if library is not None:
            return self._library(library, f"{cls.__module__}.{cls.__qualname__}")
        return self._define(cls, self._own_class)

    def _own_class(self, cls: type) -> bytes:
        self._note(code_origin.text_of_class(cls))
        bases = [self.token(each, each.__name__) for each in (type(cls), *cls.__bases__)]
        return join(
            "class", cls.__name__.encode(), *bases, self._mapping(object_state.class_namespace(cls), attributes=True)
        )

    def _library(self, library: code_origin.Library, name: str) -> bytes:
        self.libraries[library.name] = library.version
        return join("library", library.key().encode(), name.encode())

    def _name(self, module: str, name: str) -> bytes:
        """A thing known by its name alone; of a compiled module of the user's own, with the bytes of its file."""
        library = code_origin.library_of(module)
        if library is not None:
            return self._library(library, f"{module}.{name}")
        file = getattr(sys.modules.get(module), "__file__", None)
        compiled = file is not None and file.endswith(tuple(EXTENSION_SUFFIXES))
        return join("name", name.encode(), object_state.path_token(Path(file)) if file and compiled else b"")

    # -- objects

    def _object(self, value: Any) -> bytes:
        found = object_state.data_token(value, self.token) or object_state.model_token(value, self.token)
        if found is not None:
            return found
        if isinstance(value, enum.Enum):
            return join("member", self.token(type(value), type(value).__name__), value.name.encode())
        return self._reduce(value)

    def _reduce(self, value: Any) -> bytes:
        """What pickle would keep of an object; where that cannot be seen, the name it gives itself."""
        named = object_state.name_token(value, self.token)
        if named is None:
            return self._at_once(value)
        aside = _Walk()
        found = aside._ask(value, lambda: join("object", aside._pickle(value), *aside.definitions()))
        self.libraries.update(aside.libraries)
        return named if aside.opaque else found

    def _at_once(self, value: Any) -> bytes:
        """A library's object is opaque as a whole: what it is made of is nothing a user knows by name."""
        before, found = len(self.opaque), self._pickle(value)
        library = code_origin.library_of(type(value).__module__)
        if len(self.opaque) == before or library is None or library.name == "python":
            return found
        del self.opaque[before:]
        return self.add_opaque(value, "it holds what lives in this process alone")

    def _pickle(self, value: Any) -> bytes:
        reduce = copyreg.dispatch_table.get(type(value))
        made = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(made, str):
            return self._global(value, made)
        func, args, state, items, pairs = (*made, None, None, None)[:5]
        parts = [self.token(func, ""), self.token(args, ""), self._state(state)]
        listed = join("items", *self._items(items or ()))
        return join("object", *parts, listed, self._mapping(dict(pairs or ())))

    def _state(self, state: Any) -> bytes:
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            return join("slots", self._state(state[0]), self._state(state[1]))
        return self._mapping(state, attributes=True) if type(state) is dict else self.token(state, "")

    def _global(self, value: Any, name: str) -> bytes:
        module = getattr(value, "__module__", None) or type(value).__module__
        found = functools.reduce(lambda at, each: getattr(at, each, None), name.split("."), sys.modules.get(module))
        if found is not value:
            return self.add_opaque(value, f"{module}.{name} is something else")
        return join("global", self._name(module, name), self._mapping(getattr(value, "__dict__", {}), attributes=True))

    def params(self) -> frozenset[str] | None:
        """The params that are asked for; None when it may be any."""
        if code_origin.OWN not in self.libraries:
            return frozenset()  # `param` is then a name of the user's own
        return None if None in self._named else frozenset(name for name in self._named if name is not None)

    # -- the text

    def _note(self, text: code_origin.Text | None) -> None:
        if text is not None:
            self._texts.append(text)

    def texts(self) -> list[str]:
        """In the order it was met, the function first; a method is inside its class already."""
        kept: list[code_origin.Text] = []
        for text in self._texts:
            around = (each for each in self._texts if each is not text and each.file == text.file)
            if not any(each.first <= text.first and text.last <= each.last and each != text for each in around):
                kept.append(text)
        return [text.text for text in dict.fromkeys(kept)]


def _sort_key(value: Any) -> tuple[str, str]:
    return type(value).__name__, str(getattr(value, "__qualname__", ""))


def _own_fingerprint(value: Any) -> Callable[[], Any] | None:
    if isinstance(value, types.FunctionType):
        return value.__dict__.get("__fingerprint__")
    if isinstance(value, type) or not hasattr(type(value), "__fingerprint__"):
        return None
    found: Callable[[], Any] = value.__fingerprint__
    return found


def _display_name(value: Any) -> str:
    """How a reader names a definition."""
    if not isinstance(value, types.FunctionType):
        return str(value.__name__)
    name = value.__code__.co_qualname.rpartition("<locals>.")[2]
    return "lambda()" if name == "<lambda>" else f"{name}()"


LOOKS: dict[type, Callable[[_Walk, Any], bytes]] = {
    list: _Walk._sequence,
    tuple: _Walk._sequence,
    memoryview: lambda _, value: object_state.buffer("memoryview", value),
    bytearray: lambda _, value: object_state.buffer("bytearray", value),
    set: _Walk._set,
    frozenset: _Walk._set,
    dict: _Walk._mapping,
    types.MappingProxyType: _Walk._mapping,
    types.FunctionType: _Walk._function,
    types.MethodType: _Walk._method,
    types.BuiltinFunctionType: _Walk._builtin,
    types.MethodWrapperType: _Walk._builtin,
    types.CodeType: lambda _, value: code_token(value),
    functools.partial: _Walk._partial,
    functools.cached_property: _Walk._inner,
    type(functools.lru_cache(len)): _Walk._lru_cache,
    staticmethod: _Walk._inner,
    classmethod: _Walk._inner,
    property: _Walk._property,
    TypeVar: lambda _, value: join("variable", value.__name__.encode()),
    ParamSpec: lambda _, value: join("variable", value.__name__.encode()),
    Missing: lambda *_: join("missing"),
    **dict.fromkeys(SLOTS, _Walk._slot),
}
