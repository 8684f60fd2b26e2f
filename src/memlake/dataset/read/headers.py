"""Columns as they come in, and as a chain has them: dots lead into nested ones, JSON of several kinds is text.

`a.b` is field b of a in every chain, and what nested columns are called where they leave for flat files. So it is
when such files come in. Knows no file and no source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from duckdb import DuckDBPyRelation

from memlake.dataset import feedback
from memlake.dataset.types.field_metadata import inner
from memlake.errors import InvalidInput
from memlake.identifiers import check_name, find_twins, fold
from memlake.rows.sql import Sql, compose, identifier, join, number

_TOLD = 5  # columns that are named in one warning
_NUMBERED = re.compile(r".+_[0-9]+", re.S)
Tree: TypeAlias = "dict[str, str | Tree]"  # the name of a field, and the column it is; or what lies inside it


def tree(names: Iterable[str]) -> Tree:
    """Where each column goes. InvalidInput for names that lead nowhere, or to the same place."""
    made: Tree = {}
    for name in names:
        *above, last = _pieces(name)
        at: Any = made
        for piece in above:
            at = at.setdefault(piece, {})
            _check(at if isinstance(at, str) else None, name)
        _check(_first(at[last]) if last in at else None, name)
        at[last] = name
    return made


def _pieces(name: str) -> list[str]:
    pieces = check_name(name).split(".")  # here: Arrow, to which the engine hands columns, ends a name at a NUL
    if all(piece.strip() for piece in pieces):
        return pieces
    if not name.strip():
        raise InvalidInput("a column has no name. Nothing was read or changed.", hint="Name it where it comes from.")
    raise InvalidInput(
        f"{name!r} cannot be the name of a column: dots lead into nested ones, and beside one of its dots stands "
        "nothing. Nothing was read or changed.",
        hint=f"Call it {name.replace('.', '_')!r} where it comes from.",
    )


def _first(inside: str | Tree) -> str:
    return inside if isinstance(inside, str) else _first(next(iter(inside.values())))


def _check(there: str | None, name: str) -> None:
    if there == name:
        raise InvalidInput(f"column {name!r} is there twice. Nothing was read or changed.", hint="Rename one of them.")
    if there is not None:
        raise InvalidInput(
            f"columns {there!r} and {name!r} cannot both be there: dots lead into nested ones. Nothing was read or "
            "changed.",
            hint=f"Call one {max(name, there, key=len).replace('.', '_')!r} where they come from.",
        )


def nest(table: pa.Table) -> pa.Table:
    """Rows in memory with their dotted columns nested, and names told apart as the engine tells those of files."""
    check_fields(table.schema)
    # Names of which none is another's but for case: later ones get a number. Twice the same stays, to be
    # refused.
    taken, given = dict[str, int](), set[str]()  # of each name that is taken, the last number that followed it
    names = []
    for name in table.column_names:
        new = name
        while name not in given and fold(new) in taken:
            taken[fold(name)] += 1
            new = f"{name}_{taken[fold(name)]}"
        taken.setdefault(fold(new), 0)
        given.add(name)
        names.append(new)
    if told := describe_numbered(table.column_names, names):
        feedback.warn(told)
    table = table.rename_columns(names) if names != table.column_names else table
    found = tree(names)
    if list(found.values()) == table.column_names:
        return table
    pairs = [_pack_column(table, name, inside) for name, inside in found.items()]
    return pa.Table.from_arrays([array for _, array in pairs], schema=pa.schema([field for field, _ in pairs]))


def check_fields(fields: Iterable[pa.Field], inside: str = "") -> None:
    """InvalidInput where fields of a struct differ only in case: the engine would lose all of them but one.

    Columns that do are numbered instead. Those inside could not be found again by the names their classes give them.
    """
    for field in fields:
        name = f"{inside}.{field.name}" if inside else field.name
        below = inner(field.type)
        if pa.types.is_struct(field.type) and (twins := find_twins(one.name for one in below)):
            raise InvalidInput(
                f"fields {twins[0]!r} and {twins[1]!r} of {name!r} differ only in case, and the engine cannot tell "
                "them apart. Nothing was read or changed.",
                hint="Rename one of them where they come from.",
            )
        check_fields(below, name)


def may_be_numbered(names: Sequence[str]) -> bool:
    """Whether some name may be one that the engine gave a column, because another has its own."""
    known = {fold(name) for name in names}
    return any(_NUMBERED.fullmatch(name) and fold(name.rpartition("_")[0]) in known for name in names)


def describe_numbered(old: Sequence[str], new: Sequence[str]) -> str:
    """Which columns are called otherwise than where they come from, and why; "" where none is."""
    told, first = [], dict[str, str]()
    for name, made in zip(old, new, strict=False):
        if made.startswith(f"{name}_"):
            other = first.get(fold(name), name)
            why = f"the engine ignores case and cannot tell it from {other!r}"
            told.append(
                f"column {name!r} is called {made!r} here, because {why if other != name else 'another has its name'}"
            )
        first.setdefault(fold(made), made)
    more = f"; and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return f"{'; '.join(told[:_TOLD])}{more}." if told else ""


def _pack_column(table: pa.Table, name: str, inside: str | Tree) -> tuple[pa.Field, pa.Array]:
    if isinstance(inside, str):
        return table.schema.field(inside).with_name(name), table.column(inside).combine_chunks()
    pairs = [_pack_column(table, each, below) for each, below in inside.items()]
    fields = [field for field, _ in pairs]
    return pa.field(name, pa.struct(fields)), pa.StructArray.from_arrays([array for _, array in pairs], fields=fields)


def choose_columns(found: DuckDBPyRelation) -> Sql | None:
    """The same of rows that a query finds: what is selected of them; None where that is all as it is."""
    kinds = dict(zip(found.columns, found.types, strict=True))
    inside = tree(kinds)
    if not any("JSON" in str(kind) for kind in kinds.values()) and list(inside.values()) == list(kinds):
        return None
    said = {name: _json_as_text(identifier(name), kind) for name, kind in kinds.items()}
    return join(", ", (compose("{} AS {}", _sql(below, said), identifier(name)) for name, below in inside.items()))


def _sql(inside: str | Tree, said: dict[str, Sql]) -> Sql:
    return said[inside] if isinstance(inside, str) else _pack((n, _sql(below, said)) for n, below in inside.items())


def _pack(fields: Iterable[tuple[str, Sql]]) -> Sql:
    return compose(
        "struct_pack({})", join(", ", (compose("{} := {}", identifier(name), each) for name, each in fields))
    )


def _json_as_text(sql: Sql, kind: Any, depth: int = 0) -> Sql:
    """A value in which JSON of several kinds is text: a text is itself, without quotes, all else its JSON."""
    if "JSON" not in str(kind):
        return sql
    if kind.id not in ("list", "struct", "map"):
        return compose("({} ->> '$')", sql) if str(kind) == "JSON" else sql
    parts = dict(kind.children)
    if kind.id == "struct":
        inner = ((n, _json_as_text(compose("({}).{}", sql, identifier(n)), each, depth)) for n, each in parts.items())
        return compose("CASE WHEN {} IS NOT NULL THEN {} END", sql, _pack(inner))
    item = compose("x{}", number(depth))
    if kind.id == "map":
        value = _json_as_text(compose("{}.value", item), parts["value"], depth + 1)
        return compose(
            "map_from_entries(list_transform(map_entries({0}), lambda {1}: struct_pack(k := {1}.key, v := {2})))",
            sql,
            item,
            value,
        )
    return compose("list_transform({}, lambda {}: {})", sql, item, _json_as_text(item, parts["child"], depth + 1))
