"""What a code object does and which names it reads; not where it was written, nor how it was laid out.

The code object, not the text, is what runs: it is there for a lambda, a cell, `-c` and stdin alike, and a file edited
after it was imported cannot lie about it. Lines, comments, docstrings and annotations of locals never get into it.
It is Python's own, so the minor version is part of every answer here.
"""

from __future__ import annotations

import dis
import importlib.util
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from memlake.dataset.memo.object_state import join, scalar
from memlake.named_tuple import NamedTuple

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
# There for lines and for the interpreter. How a call is prepared (a method, a NULL before a function) depends on
# whether the module of `math.floor(x)` was imported in the same text or, say, in another cell.
SILENT = {"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "NOT_TAKEN", "PUSH_NULL"}
JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
ONWARD = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}
CONSTANT = frozenset(dis.hasconst)
NAMED = set(dis.hasname) | set(dis.haslocal) | set(dis.hasfree) | set(dis.hascompare)
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
SUBSCRIPTS = {"BINARY_SUBSCR", "BINARY_OP"}  # the latter, written "[]", from Python 3.14 on
GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
# Of a class inside a function: where it stands and what it says of itself, not what it does.
PLACES = {"__qualname__", "__firstlineno__", "__static_attributes__", "__doc__"}
# Arguments by star, generator, coroutine, asynchronous generator; the other flags tell of nesting and of __future__.
MEANT = 0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200


# Of a module: other when it is run and when it is imported.
ITS_OWN = {"__name__", "__file__", "__spec__", "__loader__", "__package__", "__builtins__", "__doc__", "__cached__"}

BY_TEXT = {"eval", "exec", "globals"}  # builtins that reach anything
BY_CHANCE = {"__subclasses__", "__globals__", "f_globals"}  # attributes that lead to what happens to be there


class Read(NamedTuple):
    """A name that is loaded, and the attributes taken from it at once: `models.bert.encode`."""

    name: str
    attributes: tuple[str, ...] = ()
    is_global: bool = False


class Import(NamedTuple):
    """An import inside a function; `bound` is the local name of a plain `import a.b`, `taken` those of a `from`."""

    module: str
    level: int
    taken: tuple[str, ...]
    bound: str


def code_token(code: CodeType) -> bytes:
    """The token of what a code object does: equal for equal code, however it was formatted or wherever it stands."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & MEANT)
    total = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return join("code", PYTHON.encode(), _constant(counts), _constant(code.co_varnames[:total]), *_steps(code))


def _steps(code: CodeType) -> Iterator[bytes]:
    """Each instruction, with the handler it is under: a `try` is a table beside the code, not a step in it."""
    every = _instructions(code, code.co_exceptiontable)
    place = _places(every)
    handlers = {
        offset: place(entry.target)
        for entry in reversed(getattr(dis.Bytecode(code), "exception_entries", ()))
        for offset in range(entry.start, entry.end, 2)
    }
    pairs = list(zip(every, [*(place(step.offset) for step in every[1:]), -1], strict=True))
    loud = [(step, onward) for step, onward in pairs if step.opname not in SILENT and step.opname not in ONWARD]
    for (step, onward), (after, _) in zip(loud, [*loud[1:], loud[-1]], strict=True):
        if after.opname == "STORE_NAME" and after.argval in PLACES:
            continue
        said = place(step.argval) if step.opcode in JUMPS else _argument(code, step)
        name = step.opname.replace("_FORWARD_", "_").replace("_BACKWARD_", "_").replace("_METHOD", "_ATTR")
        yield join(name, _constant(said), _constant((onward, handlers.get(step.offset))))


def _argument(code: CodeType, step: dis.Instruction) -> Any:
    if step.opcode in CONSTANT and step.arg is not None:
        return code.co_consts[step.arg]  # of the names in a call, dis itself knows only the place
    return step.argval if step.opcode in NAMED else step.arg


@lru_cache(maxsize=512)
def _instructions(code: CodeType, table: bytes) -> tuple[dis.Instruction, ...]:  # noqa: ARG001  not all Pythons compare it
    return tuple(dis.get_instructions(code))


def _places(every: tuple[dis.Instruction, ...]) -> Any:
    """Offset -> number of the instruction that does something there, through what is silent and through jumps.

    Plain jumps are no steps of their own: which of them Python shortens depends on the lines they stand on.
    """
    numbers, behind, count = {}, {}, 0
    for step, after in zip(every, [*every[1:], None], strict=True):
        numbers[step.offset] = count
        count += step.opname not in SILENT and step.opname not in ONWARD
        if step.opname in ONWARD:
            behind[step.offset] = step.argval
        elif step.opname in SILENT and after is not None:
            behind[step.offset] = after.offset

    def place(offset: int) -> int:
        seen: set[int] = set()
        while offset in behind and offset not in seen:
            seen.add(offset)
            offset = behind[offset]
        return numbers[offset]

    return place


def _constant(value: Any) -> bytes:
    plain = scalar(value)
    if plain is not None:
        return plain
    if isinstance(value, CodeType):
        return code_token(value)
    parts = [_constant(each) for each in value]
    return join(type(value).__name__, *(sorted(parts) if isinstance(value, frozenset) else parts))


def reads(code: CodeType) -> list[Read | Import]:
    """What the code and the code inside it load by name and import, in the order it is written, each once."""
    return list(dict.fromkeys(_list_reads(code)))


def _list_reads(code: CodeType) -> Iterator[Read | Import]:
    steps = [step for step in _instructions(code, code.co_exceptiontable) if step.opname not in SILENT]
    for number, step in enumerate(steps):
        if isinstance(step.argval, CodeType):
            yield from _list_reads(step.argval)
        elif step.opname == "IMPORT_NAME":
            yield _import(steps, number)
        elif step.opname.startswith("LOAD_") and step.opcode in (*dis.haslocal, *dis.hasfree):
            *others, last = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            yield from map(Read, others)
            yield Read(last, _attributes(steps, number))
        elif step.opname in GLOBALS:
            yield Read(step.argval, _attributes(steps, number), is_global=True)


def asks(code: CodeType, called: str) -> Iterator[str | None]:
    """The texts that a function of this name is called with first; None where the text is not written out."""
    steps = [step for step in _instructions(code, code.co_exceptiontable) if step.opname not in SILENT - {"PUSH_NULL"}]
    for number, step in enumerate(steps):
        if isinstance(step.argval, CodeType):
            yield from asks(step.argval, called)
        elif step.argval != called or step.opcode in CONSTANT:
            continue
        elif step.opname.startswith("LOAD_"):
            yield _first_text(
                [each for each in steps[number + 1 : number + 2] if each.opname != "PUSH_NULL"] + steps[number + 2 :]
            )
        elif step.opname == "IMPORT_FROM" and steps[number + 1].argval != called:
            yield None  # under another name


def _first_text(steps: list[dis.Instruction]) -> str | None:
    """The text that is loaded first for a call; None when anything is made of it before it is handed over."""
    text = steps[0].argval if steps and steps[0].opcode in CONSTANT else None
    depth = 1  # of the stack, the text and what lies on it
    for step in steps[1:] if isinstance(text, str) else ():
        effect = dis.stack_effect(step.opcode, step.arg, jump=False)
        if step.opname.startswith("CALL") and depth + effect < 1:
            return text
        is_taken = depth - (1 - effect) < 1 or (step.opname in ATTRIBUTES and depth == 1)
        if step.opcode in JUMPS or (is_taken and step.opname != "PRECALL"):
            return None
        depth += effect
    return None


def _attributes(steps: list[dis.Instruction], number: int) -> tuple[str, ...]:
    end = number + 1
    while end < len(steps) and steps[end].opname in ATTRIBUTES:
        end += 1
    return tuple(step.argval for step in steps[number + 1 : end])


def _import(steps: list[dis.Instruction], number: int) -> Import:
    level, taken = steps[number - 2].argval, steps[number - 1].argval
    stores = (step.argval for step in steps[number + 1 :] if step.opname.startswith("STORE_"))
    return Import(steps[number].argval, level, tuple(taken or ()), "" if taken else str(next(stores, "")))


class Missing:
    """A name that stands for nothing yet, a closure that is still empty."""


MISSING = Missing()


def closure(function: FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def outside(function: FunctionType, found: list[Read | Import]) -> Iterator[Read | Import]:
    """Reads of what lies outside the function: its closure, globals, imports. Its own names and builtins say enough."""
    held, space, builtins = closure(function), function.__globals__, getattr(function, "__builtins__", {})

    def is_outside(name: str) -> bool:
        return name not in ITS_OWN and (name in space or name not in builtins)

    for each in found:
        if isinstance(each, Import) or each.name in held or (each.is_global and is_outside(each.name)):
            yield each


def unseen(function: FunctionType) -> Iterator[tuple[str, str | None]]:
    """What reaches code or globals by a text, each with the module it names, None where that is not written out."""
    code = function.__code__
    for each in reads(code):
        if not isinstance(each, Read):
            continue
        if each.is_global and each.name in BY_TEXT and each.name not in function.__globals__:
            yield f"{each.name}()", None
        if each.attributes[:1] == ("modules",) and (each.name == "sys" or found_in(function, each) is sys):
            yield from (("sys.modules", text) for text in _subscripts(code, "modules"))
    yield from ((name, None) for name in sorted(BY_CHANCE & _names(code)))
    for call in ("import_module", "__import__"):
        for text in asks(code, call):
            yield f"{call}()", None if not text or text.startswith(".") else text


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes, in the code and the code inside it."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _subscripts(code: CodeType, attribute: str) -> Iterator[str | None]:
    """The texts that stand in the brackets behind an attribute; None where it is anything else that stands there."""
    steps = [step for step in _instructions(code, code.co_exceptiontable) if step.opname not in SILENT]
    for step, key, taken in zip(steps, steps[1:], steps[2:], strict=False):
        if isinstance(step.argval, CodeType):
            yield from _subscripts(step.argval, attribute)
        elif step.opname in ATTRIBUTES and step.argval == attribute:
            is_text = taken.opname in SUBSCRIPTS and key.opcode in CONSTANT and isinstance(key.argval, str)
            yield key.argval if is_text and taken.argrepr in ("", "[]") else None


def found_in(function: FunctionType, read: Read) -> Any:
    held = closure(function)
    if read.name in held and not read.is_global:
        return content(held[read.name])
    return function.__globals__.get(read.name, MISSING)


def absolute(function: FunctionType, read: Import) -> str:
    package = function.__globals__.get("__package__") or ""
    try:
        return importlib.util.resolve_name("." * read.level + read.module, package)
    except ImportError:
        return read.module
