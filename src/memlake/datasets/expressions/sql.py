"""What SQL is written with: values that are bound, and names in quotes."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

import pyarrow as pa

from memlake.datasets.expressions.values import bound, plain, value_key

PLACE = "memlake_place"  # a column of a step's own: which row it was before


class Params:
    """The values of one statement, in the order of $1, $2, ...; a value used twice is bound once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.has_places = False  # the rows that are written about know their PLACE
        self._places: dict[Hashable, int] = {}

    @contextlib.contextmanager
    def placed(self, known: bool) -> Iterator[None]:
        """What is written inside is about rows that know their place, so that their order can decide."""
        before, self.has_places = self.has_places, known
        try:
            yield
        finally:
            self.has_places = before

    def add(self, value: Any) -> str:
        value = plain(value)
        if value is None:
            return "NULL"
        place = self._places.setdefault(value_key(value), len(self.values) + 1)
        if place > len(self.values):
            self.values.append(bound(value))
        return f"${place}"

    @property
    def key(self) -> Hashable:
        """Equal for the same values in the same order."""
        return tuple(self._places)


def quoted(name: str) -> str:
    """As an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


_MICROSECONDS = {"s": "{} * 1000000", "ms": "{} * 1000", "us": "{}", "ns": "{} // 1000"}


def span(column: pa.Field) -> str:
    """A column of durations as the engine's own spans of time: from Parquet it reads them as whole numbers."""
    name = quoted(column.name)
    return f"to_microseconds({_MICROSECONDS[column.type.unit].format(name)}) AS {name}"


def text(name: str) -> str:
    """As a text of SQL: of names that are ours, never of values."""
    return "'" + name.replace("'", "''") + "'"
