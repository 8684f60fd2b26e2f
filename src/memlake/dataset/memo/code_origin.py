"""Whose code it is: the user's own, which is followed, or a library's, which is known by its version; and its text."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import os
import re
import sys
import sysconfig
import textwrap
import tokenize
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from memlake.dataset.memo.bytecode import ITS_OWN, MISSING, PYTHON
from memlake.dataset.memo.object_state import scalar
from memlake.named_tuple import NamedTuple

OWN = "memlake"
INSTALLED = ("site-packages", "dist-packages")
PLAIN, MANY = (list, tuple, set, frozenset, dict), 1000  # items above which a library's table is left to its version
STANDARD = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib")})


class Library(NamedTuple):
    name: str
    version: str

    def key(self) -> str:
        """Our own classes carry data and keep their meaning, so a new memlake does not make all work run again."""
        return OWN if self.name == OWN else f"{self.name}=={self.version}"


def library_of_code(code: CodeType, module: str) -> Library | None:
    """The library a function was written in. `__module__` is no witness: functools.wraps copies the wrapped one's."""
    if code.co_filename.startswith("<") and not code.co_filename.startswith("<frozen"):
        return library_of(module)
    return _library(module.partition(".")[0], code.co_filename)


def library_of(module: str) -> Library | None:
    """The library a module belongs to, None when it is the user's own."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return _library(module.partition(".")[0], file or "")


def put_into(value: Any, attributes: tuple[str, ...]) -> list[Any]:
    """What stands in a library's module where anybody may have put it: plain data, or a function of the user's own."""
    if not attributes or not isinstance(value, ModuleType):
        return []
    for name in attributes:
        if isinstance(value, ModuleType):
            value = MISSING if name in ITS_OWN else vars(value).get(name, MISSING)
    return [value] if _is_plain(value) or _is_own(value) else []


def _is_plain(value: Any) -> bool:
    if type(value) not in PLAIN:
        return scalar(value) is not None
    items = [*value, *value.values()] if isinstance(value, dict) else value
    return len(items) <= MANY and all(map(_is_plain, items))


def _is_own(value: Any) -> bool:
    if not isinstance(value, FunctionType):
        return False
    module = str(value.__globals__.get("__name__", ""))
    return module in sys.modules and library_of_code(value.__code__, module) is None


@lru_cache(maxsize=4096)
def _library(top: str, file: str) -> Library | None:
    if top == OWN:
        return Library(OWN, _version(OWN) or "")
    if any(f"/{name}/" in Path(file).as_posix() for name in INSTALLED):
        return Library(top, _version(top) or _stamp(file))
    if file.startswith(("<frozen", *STANDARD)) or (not file and top in sys.stdlib_module_names):
        return Library("python", PYTHON)
    version = _version_of_owner(file)
    return Library(top, version) if version else None


def _version_of_owner(file: str) -> str | None:
    """The version of the distribution in a folder or zip of sys.path that lists the file as its own.

    An editable install lists only what leads to its files, never themselves: those are the user's own.
    """
    for root in sorted({os.path.abspath(one) for one in sys.path}, key=len, reverse=True):
        if file.startswith(root + os.sep) and os.path.exists(root):
            line = f"\n{Path(file).relative_to(root).as_posix()},"
            for version, record in _records(root, os.stat(root).st_mtime_ns):
                if line in record:
                    return version
    return None


@lru_cache(maxsize=32)
def _records(root: str, _changed: int) -> list[tuple[str, str]]:
    """The versions that are installed here, and their lists of files as text: nobody asks for a whole list parsed."""
    found = ((one, one.read_text("RECORD")) for one in metadata.distributions(path=[root]))
    return [(one.version, f"\n{record}") for one, record in found if record]


def _version(top: str) -> str | None:
    """The version of the distributions that a top-level name comes from; a namespace comes from several.

    A module that is named otherwise than its distribution (PIL, yaml) mostly tells its version, which saves looking
    through everything that is installed: half a second.
    """
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        told = vars(sys.modules[top]).get("__version__") if top in sys.modules else None
        if isinstance(told, str):
            return told
        names = sorted(set(_distributions().get(top, ())))
        return " ".join(f"{name} {metadata.version(name)}" for name in names) or None


@lru_cache(maxsize=1)
def _distributions() -> Any:
    return metadata.packages_distributions()


def _stamp(file: str) -> str:
    """What stands for a version where nobody wrote one down."""
    path = Path(file)
    return f"{path.stat().st_size} bytes of {path.stat().st_mtime_ns}" if path.is_file() else "unknown"


class Text(NamedTuple):
    """Source text and the lines of its file it covers."""

    file: str
    first: int
    last: int
    text: str


def text_of_code(code: CodeType) -> Text | None:
    """The lines of a function; None where there are none: a prompt, `-c`, generated code, a file changed since."""
    return _text(code.co_filename, code.co_firstlineno - 1, _word(code))


def text_of_class(cls: type) -> Text | None:
    """The lines of a class. `inspect` would parse the whole file for it, which takes longer than all the rest."""
    codes = [each.__code__ for each in vars(cls).values() if isinstance(each, FunctionType)]
    written = [code for code in codes if cls.__qualname__ in code.co_qualname]
    file = written[0].co_filename if written else getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    before = min((code.co_firstlineno for code in written), default=sys.maxsize)
    head = re.compile(rf"\s*class\s+{re.escape(cls.__name__)}\b")
    heads = [at for at, line in enumerate(linecache.getlines(file)[:before]) if head.match(line)]
    return _text(file, heads[-1], "class") if heads else None


def text_in(code: CodeType, program: str) -> Text | None:
    """The lines of a function in a program that is at hand, but is no file; None where it is not from there."""
    if code not in _codes(program, code.co_filename):  # `exec` gives what it makes the name of the program too
        return None
    return _cut(code.co_filename, program.splitlines(keepends=True), code.co_firstlineno - 1, _word(code))


def _codes(program: str, name: str) -> list[CodeType]:
    """Every function of a program, as Python makes them of it."""
    try:
        found = [compile(program, name, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):  # a text that was cut
        return []
    for code in found:  # grows as it is walked
        found += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def _word(code: CodeType) -> str:
    return "lambda" if code.co_name == "<lambda>" else code.co_name


def _text(file: str, first: int, word: str) -> Text | None:
    linecache.checkcache(file)
    return _cut(file, linecache.getlines(file), first, word)


def _cut(file: str, lines: list[str], first: int, word: str) -> Text | None:
    block = _block(lines[first:]) if lines[first:] else []
    if not any(word in line for line in block):
        return None
    while first and lines[first - 1].lstrip().startswith("@"):
        first, block = first - 1, [lines[first - 1], *block]
    return Text(file, first, first + len(block), f"# {_file_name(file)}\n{textwrap.dedent(''.join(block)).rstrip()}\n")


def _block(lines: list[str]) -> list[str]:
    block: Callable[[list[str]], list[str]] = inspect.getblock
    try:
        return block(lines)
    except (SyntaxError, tokenize.TokenError, IndentationError):
        return lines[:1]


def _file_name(file: str) -> str:
    """The name alone: where a machine keeps it is nobody's business. A notebook's cell has a number that changes."""
    if "ipykernel" in file or file.startswith("<ipython"):
        return "notebook cell"
    return Path(file).name


def library_of_file(top: str, file: str) -> Library | None:
    """The library of a module that would be read from a file."""
    return _library(top, "" if file in ("built-in", "frozen") else file)


def library_ahead(name: str) -> Library | None:
    """The library of a module that is not imported yet; finding its top-level name runs none of its code."""
    top = name.partition(".")[0]
    if name in sys.modules or top in sys.modules:
        return None if top not in sys.modules else library_of(top)
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    return library_of_file(top, spec.origin) if spec and spec.origin else None
