"""SQL as it is composed: text of our own, names in quotes, values that are bound. Knows no column, no plan, no engine.

    compose("SELECT {} FROM {}", identifier(name), table)      operands are SQL themselves, put in their places at once
    template("({0} LIKE {1})")                                 places that are filled later, by Sql.fill

Nothing is ever formatted into text: a place is a part of its own, so what a name or a value says is never read again.
`tests/test_architecture.py` holds the rest of the source to it: what compose() and template() are given is written
there, and no other module makes an Sql.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, LiteralString, TypeAlias

import pyarrow as pa

from memlake.identifiers import quote
from memlake.named_tuple import NamedTuple
from memlake.rows.values import bound, plain, sql_type, value_key

PLACE: LiteralString = '"memlake.place"'  # a step's own column, which row it was before: no name of a user has a dot
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*|<>|[<>]=?|=|\|\||[-+*/]")


# Times without a zone, and lists of them: the engine reads '03:04+02:00' as 03:04 of these.
_ZONELESS = re.compile(r"TIMESTAMP(?P<unit>_S|_MS|_NS)?(?P<lists>(\[\d*\])*)")


class Value(NamedTuple):
    """Something to bind."""

    value: Any


class Hole(NamedTuple):
    """Where an operand will stand."""

    place: int


class Statement(NamedTuple):
    """What an engine is given: its text, and the values of $1, $2, ... in it. `key` is equal for equal values."""

    text: str
    values: list[Any]
    key: Hashable


Part: TypeAlias = str | Value | Hole


@dataclass(frozen=True, eq=False, slots=True)
class Sql:
    parts: tuple[Part, ...] = ()

    def fill(self, *operands: Sql) -> Sql:
        """The same with operands in its holes, each as often as there is a hole for it."""
        return _merge_texts(operands[part.place].parts if isinstance(part, Hole) else (part,) for part in self.parts)

    def render(self) -> Statement:
        """A value that is there twice is bound once."""
        places: dict[Hashable, int] = {}
        values: list[Any] = []
        text: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                text.append(part)
                continue
            assert isinstance(part, Value), "a hole is left"
            place = places.setdefault(value_key(part.value), len(values) + 1)
            if place > len(values):
                values.append(bound(part.value))
            text.append(f"${place}")
        return Statement("".join(text), values, tuple(places))

    def show(self, *operands: str) -> str:
        """As a person reads it, with what its operands are called."""
        return "".join(
            part if isinstance(part, str) else operands[part.place] if isinstance(part, Hole) else str(part.value)
            for part in self.parts
        )

    def key(self) -> tuple[Hashable, ...]:
        """The same in every process for the same SQL."""
        return tuple(value_key(part.value) if isinstance(part, Value) else part for part in self.parts)


NOTHING = Sql()


@functools.cache
def template(text: LiteralString) -> Sql:
    """SQL of our own with holes: {0}, {1} ..., or {} for one after the other."""
    parts: list[Part] = []
    after = itertools.count()
    for ours, field, _, _ in string.Formatter().parse(text):
        parts += [ours] if ours else []
        parts += [Hole(int(field) if field else next(after))] if field is not None else []
    return _merge_texts([parts])


def compose(text: LiteralString, *operands: Sql) -> Sql:
    return template(text).fill(*operands)


def hole(place: int) -> Sql:
    return Sql((Hole(place),))


def join(between: LiteralString, pieces: Iterable[Sql]) -> Sql:
    def alternate() -> Iterator[tuple[Part, ...]]:
        for index, piece in enumerate(pieces):
            if index:
                yield (between,)
            yield piece.parts

    return _merge_texts(alternate())


def value(given: Any) -> Sql:
    given = plain(given)
    return Sql(("NULL",)) if given is None else Sql((Value(given),))


def identifier(name: str) -> Sql:
    return within(name, '"')


def within(name: str, mark: str) -> Sql:
    """A name in the quotes of another dialect."""
    return Sql((quote(name, mark),))


def identifiers(names: Iterable[str]) -> Sql:
    return several(map(identifier, names))


def several(pieces: Iterable[Sql]) -> Sql:
    """What is selected; SQL has no rows without columns, so a 1 stands for none."""
    made = join(", ", pieces)
    return made if made.parts else Sql(("1",))


def path(names: Iterable[str], alias: LiteralString = "") -> Sql:
    """A column, or what lies inside it; of the table of an alias."""
    first, *rest = names
    # Brackets, not dots: "a"."b" may mean column b of a table called a.
    inside = "".join(f"[{quote(name, chr(39))}]" for name in rest)
    return Sql((f"{alias}{'.' if alias else ''}{quote(first)}{inside}",))


def word(given: str) -> Sql:
    """A keyword, an operator or the name of a function, which stands without quotes; nothing else passes."""
    if not _WORD.fullmatch(given):
        raise AssertionError(f"{given!r} is no word of SQL")
    return Sql((given,))


def number(given: int) -> Sql:
    """A whole number where the engine takes no bound one."""
    return Sql((str(int(given)),))


def kind(to: Any) -> Sql:
    """The name of a type, as the engine itself writes it."""
    return Sql((sql_type(to),))


def cast(to: Any) -> Sql:
    """One operand as another type. Made a time without a zone at once, a text would lose its offset: see _ZONELESS."""
    zoneless = _ZONELESS.fullmatch(sql_type(to))
    if zoneless is None:
        return compose("CAST({} AS {})", hole(0), kind(to))
    depth = zoneless["lists"].count("[")
    if zoneless["unit"] != "_NS":
        return compose("CAST(CAST({} AS TIMESTAMPTZ{}) AS {})", hole(0), Sql(("[]" * depth,)), kind(to))
    moment = _NANOSECONDS
    for _ in range(depth):
        moment = compose("list_transform({}, lambda item: {})", hole(0), moment.fill(template("item")))
    texts = compose("CAST({} AS VARCHAR{})", hole(0), Sql(("[]" * depth,))) if depth else hole(0)
    return compose("CAST({} AS {})", moment.fill(texts), kind(to))


def _merge_texts(pieces: Iterable[Iterable[Part]]) -> Sql:
    """Neighbouring texts become one, so that equal SQL has equal parts."""
    parts: list[Part] = []
    for piece in pieces:
        for part in piece:
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return Sql(tuple(parts))


# By way of a moment they would end at microseconds: so only the offset is taken from it. Infinity has none.
_NANOSECONDS = template(
    "coalesce(make_timestamp_ns(epoch_ns(CAST({0} AS TIMESTAMP_NS)) + 1000 * "
    "(epoch_us(CAST({0} AS TIMESTAMPTZ)) - epoch_us(CAST({0} AS TIMESTAMP)))), CAST({0} AS TIMESTAMP_NS))"
)

_MICROSECONDS = {
    "s": template("to_microseconds({0} * 1000000) AS {0}"),
    "ms": template("to_microseconds({0} * 1000) AS {0}"),
    "us": template("to_microseconds({0}) AS {0}"),
    "ns": template("to_microseconds({0} // 1000) AS {0}"),
}


def span(column: pa.Field) -> Sql:
    """A column of durations as the engine's own spans of time: from Parquet it reads them as whole numbers."""
    return _MICROSECONDS[column.type.unit].fill(identifier(column.name))
