"""Conditions on facts: `metrics.accuracy >= 0.9 && params.model == "small"`, in CEL's syntax. Pure: knows no commit.

One language for `--where`, for the rules of policy files and for whoever else asks whether recorded values are good
enough. A comparison of a value that is not recorded, or of another type, does not hold: nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

Facts = Mapping[str, Mapping[str, Any]]  # "metrics" and "params", each with flat names: {"test.f1": 0.9}
ROOMS = ("metrics", "params")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt}
_TOKEN = r"""\s*(?:(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[^\W\d]\w*)
    |(?P<mark>&&|\|\||==|!=|<=|>=|=>|=<|<>|[<>=.\[\]()!-])
    |(?P<end>$))"""
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
# One comparison as a person types it: what is compared, how, and with what; and where the next one begins.
_WORDY = rf"""\s*(?P<name>{_QUOTED}|[^=!<>"'&|]+?)\s*(?P<operator>=>|=<|<>|==|!=|<=|>=|[=<>])\s*(?P<value>.+?)\s*"""
_AND = rf"((?:{_QUOTED}|(?!&&|\s+and\s).)*)(?:&&|\s+and\s|$)"
_LITERAL = rf"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|true|false|{_QUOTED}"
_LONGEST = 1000  # characters: what a person types, or a rule says
_MEANT = {"=": "==", "=>": ">=", "=<": "<=", "<>": "!=", "and": "&&", "AND": "&&", "or": "", "||": ""}
_WORDS = {"true": True, "false": False}


class Fact(NamedTuple):
    """What is asked for: the accuracy of `metrics.accuracy`."""

    room: str
    name: str

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", self.name)
        return f"{self.room}.{self.name}" if plain else f"{self.room}[{json.dumps(self.name, ensure_ascii=False)}]"

    def find(self, facts: Facts) -> Any:
        """Its value; None if it is not recorded."""
        return facts.get(self.room, {}).get(self.name)


class Comparison(NamedTuple):
    fact: Fact
    operator: str
    value: Any

    def __str__(self) -> str:
        return f"{self.fact} {self.operator} {json.dumps(self.value, ensure_ascii=False)}"

    def holds(self, facts: Facts) -> bool:
        return self.compare(self.fact.find(facts))

    def compare(self, found: Any) -> bool:
        """Whether it holds of a value; not so of one of another type."""
        is_word = isinstance(found, str | bool) and type(found) is type(self.value)
        if not (is_word or (is_number(found) and is_number(self.value))):
            return False
        return _OPERATORS[self.operator](found, self.value)


class Condition(NamedTuple):
    """Comparisons that must all hold."""

    text: str
    comparisons: tuple[Comparison, ...]

    def find_failing(self, facts: Facts) -> Comparison | None:
        return next((one for one in self.comparisons if not one.holds(facts)), None)

    def holds(self, facts: Facts) -> bool:
        return self.find_failing(facts) is None


def is_number(value: Any) -> bool:
    """Whether a value can be compared and subtracted; not so NaN, the infinities and integers that no float holds."""
    kind = type(value)  # nearly all are floats, and a report asks of each twice
    is_one = kind is float or (isinstance(value, int | float) and kind is not bool)
    return is_one and -1e300 <= value <= 1e300


def parse(text: str, *, bare: str = "") -> Condition:
    """Read a condition; with `bare`, a name without a room is of that one: `accuracy > 0.9`."""
    reader = _Reader(text, bare)
    comparisons = [reader.read_comparison()]
    while reader.take("&&"):
        comparisons.append(reader.read_comparison())
    if reader.kind != "end":
        raise reader.refuse("there is more behind the comparison; only && joins two")
    return Condition(text.strip(), tuple(comparisons))


def parse_typed(text: str, *, bare: str) -> Condition:
    """Read a condition in which people may leave && and quotes out: `id = 17 and column = unit price`."""
    if len(text) > _LONGEST:
        return parse(text, bare=bare)  # which refuses it
    parts = [found[1] for found in re.finditer(_AND, text, re.DOTALL | re.IGNORECASE) if found[0]]
    return parse(" && ".join(_write_strictly(part, bare) for part in parts) or text, bare=bare)


def _write_strictly(part: str, bare: str) -> str:
    found = re.fullmatch(_WORDY, part, re.DOTALL)
    if found is None or "||" in part:
        return part.strip()
    name, operator, value = found["name"], found["operator"], found["value"]
    if not re.fullmatch(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", name):
        name = f"{bare}[{name if re.fullmatch(_QUOTED, name, re.DOTALL) else json.dumps(name)}]"
    if not re.fullmatch(_LITERAL, value, re.DOTALL):
        value = json.dumps(value, ensure_ascii=False)
    return f"{name} {'==' if operator == '=' else operator} {value}"


def parse_fact(text: str, *, bare: str = "") -> Fact:
    """Read the name of a fact alone."""
    reader = _Reader(text, bare)
    fact = reader.read_fact()
    if reader.kind != "end":
        raise reader.refuse("the name of a fact ends here")
    return fact


class _Reader:
    """The text, and where we are in it."""

    def __init__(self, text: str, bare: str) -> None:
        self.source, self.bare, self.at = text, bare, 0
        self.kind, self.token = "", ""
        if len(text) > _LONGEST:
            raise InvalidInput(f"a condition may have {_LONGEST:,} characters; this one has {len(text):,}.")
        self.advance()

    def advance(self) -> None:
        self.at += len(self.token)
        # Compiled here and kept by `re`: `log` loads this module, and has no condition most of the time.
        match = re.compile(_TOKEN, re.VERBOSE).match(self.source, self.at)
        if match is None:
            self.at = len(self.source) - len(self.source[self.at :].lstrip())
            raise self.refuse(f"{self.source[self.at]!r} means nothing here")
        self.kind = match.lastgroup or "end"
        self.token, self.at = match[self.kind], match.start(self.kind)

    def take(self, mark: str) -> bool:
        found = self.kind == "mark" and self.token == mark
        if found:
            self.advance()
        return found

    def read_comparison(self) -> Comparison:
        fact = self.read_fact()
        if self.kind != "mark" or self.token not in _OPERATORS:
            raise self.refuse("one of == != < <= > >= is missing")
        operator = self.token
        self.advance()
        return Comparison(fact, operator, self._read_value())

    def read_fact(self) -> Fact:
        if self.kind != "name":
            raise self.refuse("the name of a fact is missing, such as metrics.accuracy")
        start, room = self.at, self.token
        self.advance()
        is_room = (self.kind, self.token) in (("mark", "."), ("mark", "["))
        if room not in (*ROOMS, self.bare) or (self.bare and not is_room):
            if not self.bare:
                self.at = start
                raise self.refuse(f"there is no fact {room!r}; facts are metrics.NAME and params.NAME")
            return Fact(self.bare, ".".join([room, *self._read_parts()]))
        parts = self._read_parts()
        if not parts:
            raise self.refuse(f"a name of {room} is missing, such as {room}.accuracy")
        return Fact(room, ".".join(parts))

    def _read_parts(self) -> list[str]:
        parts: list[str] = []
        while (self.kind, self.token) in (("mark", "."), ("mark", "[")):
            is_dot, wanted = self.token == ".", "name" if self.token == "." else "text"
            self.advance()
            if self.kind != wanted:
                raise self.refuse("a name is missing" if is_dot else "a name in quotes is missing")
            parts.append(self.token if is_dot else _unquote(self.token))
            self.advance()
            if not is_dot and not self.take("]"):
                raise self.refuse("a ] is missing")
        return parts

    def _read_value(self) -> Any:
        if self.kind == "number":
            value: Any = float(self.token) if re.search(r"[.eE]", self.token) else int(self.token)
        elif self.kind == "text":
            value = _unquote(self.token)
        elif self.kind == "name" and self.token in _WORDS:
            value = _WORDS[self.token]
        else:
            raise self.refuse('a value is missing: a number, "text" in quotes, true or false')
        self.advance()
        return value

    def refuse(self, why: str) -> InvalidInput:
        meant = _MEANT.get(self.token)
        cure = "" if meant is None else f" (write {meant})" if meant else " (there is no `or`)"
        # The text is shown on one line, so that the mark below it stands where the mistake is.
        shown = "".join(char if char.isprintable() else " " for char in self.source)
        return InvalidInput(
            f"this condition is wrong at character {self.at + 1}: {why}{cure}.\n  {shown}\n  {' ' * self.at}^",
            hint='Write it as: metrics.accuracy >= 0.9 && params.model == "small"',
        )


def _unquote(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
