"""Expressions over columns: what a user writes with C(...) and lit(...), and the SQL it means.

An expression is a frozen tree of a few kinds of node; every operator and function is a Form: SQL with a hole for each
operand. Names and values never become text of it: see rows/sql.py. Knows no schema (see bind.py), and no function by
name (see functions.py).

    strings      a string compared with a column is a value; a string given to func.* or a verb names a column
    == None      means IS NULL; other comparisons with NULL are NULL, which a filter leaves out
    NaN          is not less, greater or equal to anything, as in Python; to sort and to group by, see bind.py
    //, %        round down, as Python does; by zero they are NULL, and / by zero is inf or nan, as in numpy
    C("x")[0]    is the first item, as in Python; C("x")["key"] goes into a struct or a map
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString

from memlake import secrets
from memlake.errors import InvalidInput
from memlake.identifiers import check_name
from memlake.rows import sql
from memlake.rows.sql import Sql, compose, hole, template
from memlake.rows.values import bound, plain, value_key

TEXT_FORMS = frozenset({"||", "lower", "upper"})
SHOWN_WHOLE, SHOWN = 60, 40  # characters up to which a value is shown, and of one that is longer
SHOWN_INFIX = frozenset({"//", "%", "=", "<>", "<", "<=", ">", ">="})  # their SQL says more than a reader needs
NATURES = ("scalar", "volatile", "aggregate", "window")


class Expression:
    """A value computed for each row, or for each group. Build it from C("column"), lit(value) and func.name(...)."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy on the left hands the operator to us

    def sql(self, *, placed: bool = False) -> Sql:
        """What it means. `placed`: the rows it is about know their PLACE, so that their order can decide."""
        raise NotImplementedError

    def key(self) -> tuple[Hashable, ...]:
        """The same in every process for the same expression: what hashes of plans are made of."""
        raise NotImplementedError

    def inner(self) -> tuple[Expression, ...]:
        """The operands, one level down."""
        return ()

    def reads(self) -> frozenset[str]:
        """The columns it needs, as dotted names ("file.path"); the later names may be keys of a map."""
        return frozenset(repr(one) for one in walk(self) if isinstance(one, Column))

    def is_local(self) -> bool:
        """A row's value depends on that row alone: no aggregate, no window, no random, no clock."""
        return all(one.nature == "scalar" for one in walk(self) if isinstance(one, Form))

    def is_aggregate(self) -> bool:
        """One value for a group of rows. An aggregate over a window is a value of each row."""
        return any(one.is_aggregate() for one in self.inner())

    def given_name(self) -> str | None:
        """What label() called it."""
        return None

    def __hash__(self) -> int:
        return hash(self.key())

    def __bool__(self) -> bool:
        raise InvalidInput(
            f"{self} has no truth of its own: it is computed for each row later",
            hint="Join conditions with & | ~ in place of `and`, `or`, `not`, each in parentheses; "
            "use .between(a, b) for `a <= x <= b` and .in_([...]) for `in`.",
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{self} is an expression, not a list: take items with [i] or [a:b]")

    # -- comparison: a string is a value

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self.is_null() if other is None else _infix(self, "=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self.is_not_null() if other is None else _infix(self, "<>", other)

    def __lt__(self, other: Any) -> Expression:
        return _infix(self, "<", other)

    def __le__(self, other: Any) -> Expression:
        return _infix(self, "<=", other)

    def __gt__(self, other: Any) -> Expression:
        return _infix(self, ">", other)

    def __ge__(self, other: Any) -> Expression:
        return _infix(self, ">=", other)

    # -- arithmetic and logic

    def __add__(self, other: Any) -> Expression:
        return _plus(self, value_of(other))

    def __radd__(self, other: Any) -> Expression:
        return _plus(value_of(other), self)

    def __sub__(self, other: Any) -> Expression:
        return _infix(self, "-", other)

    def __rsub__(self, other: Any) -> Expression:
        return _infix(other, "-", self)

    def __mul__(self, other: Any) -> Expression:
        return _infix(self, "*", other)

    def __rmul__(self, other: Any) -> Expression:
        return _infix(other, "*", self)

    def __truediv__(self, other: Any) -> Expression:
        return _infix(self, "/", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _infix(other, "/", self)

    def __floordiv__(self, other: Any) -> Expression:
        return _form("//", FLOOR_DIVISION, self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _form("//", FLOOR_DIVISION, other, self)

    def __mod__(self, other: Any) -> Expression:
        return _form("%", MODULO, self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _form("%", MODULO, other, self)

    def __pow__(self, other: Any) -> Expression:
        return _form("**", "pow({0}, {1})", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return _form("**", "pow({0}, {1})", other, self)

    def __neg__(self) -> Expression:
        return _form("neg", "(- {0})", self)

    def __abs__(self) -> Expression:
        return _form("abs", "abs({0})", self)

    def __and__(self, other: Any) -> Expression:
        return _infix(self, "AND", other)

    def __rand__(self, other: Any) -> Expression:
        return _infix(other, "AND", self)

    def __or__(self, other: Any) -> Expression:
        return _infix(self, "OR", other)

    def __ror__(self, other: Any) -> Expression:
        return _infix(other, "OR", self)

    def __invert__(self) -> Expression:
        return _form("not", "(NOT {0})", self)

    # -- items

    def __getitem__(self, item: int | str | slice) -> Expression:
        if isinstance(item, slice):
            if item.step not in (None, 1):
                raise InvalidInput(f"a slice of {self} cannot have a step, and {item.step!r} was given")
            start = 1 if item.start is None else item.start + (item.start >= 0)
            stop = -1 if item.stop is None else item.stop - (item.stop < 0)
            return _form("slice", "({0})[{1}:{2}]", self, start, stop)
        if isinstance(item, int) and not isinstance(item, bool):
            return _form("item", "({0})[{1}]", self, item + 1 if item >= 0 else item)
        if isinstance(item, str):
            return _form("item", "({0})[{1}]", self, item)
        raise InvalidInput(f"{self}[{item!r}] cannot be taken: an item is a number, a slice or the name of a key")

    # -- text

    def glob(self, pattern: Any) -> Expression:
        """Matches the whole text: `*` any characters, `/` too; `?` one; `[ab]` one of these."""
        return _form("glob", "({0} GLOB {1})", self, pattern)

    def like(self, pattern: Any) -> Expression:
        return _form("like", "({0} LIKE {1})", self, pattern)

    def ilike(self, pattern: Any) -> Expression:
        return _form("ilike", "({0} ILIKE {1})", self, pattern)

    def regexp(self, pattern: Any) -> Expression:
        """Found anywhere in the text; begin with ^ and end with $ for the whole."""
        return _form("regexp", "regexp_matches({0}, {1})", self, pattern)

    def startswith(self, text: Any) -> Expression:
        return _form("startswith", "starts_with({0}, {1})", self, text)

    def endswith(self, text: Any) -> Expression:
        return _form("endswith", "suffix({0}, {1})", self, text)

    def contains(self, part: Any) -> Expression:
        """A text holds this text, or a list this item."""
        return _form("contains", "contains({0}, {1})", self, part)

    def lower(self) -> Expression:
        return _form("lower", "lower({0})", self)

    def upper(self) -> Expression:
        return _form("upper", "upper({0})", self)

    def length(self) -> Expression:
        """Characters of a text, items of a list."""
        return _form("length", "length({0})", self)

    # -- membership, absence, type, order, name

    def in_(self, values: Iterable[Any]) -> Expression:
        """One of these; None among them means "or absent". Nothing is in an empty list."""
        if isinstance(values, str | bytes | Expression) or not isinstance(values, Iterable):
            raise InvalidInput(
                f"in_() takes a list of values, and {values!r} was given", hint='Write .in_(["a", "b"]), or == for one.'
            )
        given = list(values)
        kept = [one for one in given if one is not None]
        among = sql.join(", ", map(hole, range(1, len(kept) + 1)))
        form = compose("({} IN ({}))", hole(0), among)
        among_them = Form("in", form, (self, *map(value_of, kept))) if kept else None
        if len(kept) == len(given):
            return Literal(False) if among_them is None else among_them
        return self.is_null() if among_them is None else self.is_null() | among_them

    isin = in_

    def not_in(self, values: Iterable[Any]) -> Expression:
        return ~self.in_(values)

    def between(self, low: Any, high: Any) -> Expression:
        """Both ends belong to it."""
        return _form("between", "({0} BETWEEN {1} AND {2})", self, low, high)

    def is_null(self) -> Expression:
        return _form("is_null", "({0} IS NULL)", self)

    isnone = is_null

    def is_not_null(self) -> Expression:
        return _form("is_not_null", "({0} IS NOT NULL)", self)

    def cast(self, to: Any) -> Expression:
        """As another type: a Python type, "int", "list"-like DuckDB names ("FLOAT[384]") or an Arrow type.

        `datetime` is a moment: "03:04+02:00" is 01:04 UTC, and a time without an offset is taken for UTC. "TIMESTAMP"
        is the time in UTC, without a zone.
        """
        return Form("cast", sql.cast(to), (self,))

    def asc(self) -> Ordered:
        return Ordered(self, descending=False)

    def desc(self) -> Ordered:
        return Ordered(self, descending=True)

    def label(self, name: str) -> Expression:
        """Gives the result a name where none is given by a keyword."""
        return Named(self, check_name(name))

    alias = label


@dataclass(frozen=True, eq=False, repr=False)
class Column(Expression):
    """A column, or what lies inside it. `C.file.path` works unless a name is one of the methods: then C("file.key")."""

    _names: tuple[str, ...]

    def sql(self, *, placed: bool = False) -> Sql:  # noqa: ARG002
        return sql.path(self._names)

    def key(self) -> tuple[Hashable, ...]:
        return ("column", *self._names)

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        return Column((*self._names, name))

    def __call__(self, *_: Any, **__: Any) -> Expression:
        """`C("x").is_(None)`: a word that is no method of an expression is taken for a field of the column."""
        *column, name = self._names
        near = difflib.get_close_matches(name, (one for one in dir(Expression) if one[0] != "_"), n=1)
        hint = f"Did you mean .{near[0]}()?" if near else "See: help(memlake.C('x'))"
        if name in ("is_", "is_not"):
            hint = (
                f"Write .{'is_null' if name == 'is_' else 'is_not_null'}(), or {'==' if name == 'is_' else '!='} None."
            )
        raise InvalidInput(f"{'.'.join(column) or 'C'} is a column, which has no method {name}().", hint=hint)

    def __getitem__(self, item: int | str | slice) -> Expression:
        if isinstance(item, str) and item and "." not in item:
            return Column((*self._names, item))
        return super().__getitem__(item)

    def __repr__(self) -> str:
        return ".".join(self._names)


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expression):
    """A value, the same for every row; always bound, never text of a statement."""

    value: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", plain(self.value))

    def sql(self, *, placed: bool = False) -> Sql:  # noqa: ARG002
        return sql.value(self.value)

    def key(self) -> tuple[Hashable, ...]:
        return ("value", value_key(self.value))

    def __repr__(self) -> str:
        text = repr(bound(self.value))
        if len(text) <= SHOWN_WHOLE:
            return text
        shown = secrets.mask(text) if {"'", '"'} & {*text[:2]} else text  # vectors are long, and hold none
        return f"{shown[:SHOWN]}... ({len(text)} characters)"


@dataclass(frozen=True, eq=False, repr=False)
class Form(Expression):
    """SQL with a hole for each operand. `nature`: see NATURES."""

    name: str
    form: Sql
    args: tuple[Expression, ...]
    nature: str = "scalar"

    def sql(self, *, placed: bool = False) -> Sql:
        if self.nature == "window":
            raise InvalidInput(
                f"{self.name}() needs the rows it looks at",
                hint=f'Say which: func.{self.name}(...).over(func.window(partition_by="a", order_by="b")).',
            )
        return self.fill(placed=placed)

    def fill(self, *, placed: bool) -> Sql:
        return self.form.fill(*(one.sql(placed=placed) for one in self.args))

    def key(self) -> tuple[Hashable, ...]:
        return ("form", self.form.key(), *(one.key() for one in self.args))

    def inner(self) -> tuple[Expression, ...]:
        return self.args

    def is_aggregate(self) -> bool:
        return self.nature == "aggregate" or super().is_aggregate()

    def __repr__(self) -> str:
        if self.name in SHOWN_INFIX:
            return f"({self.args[0]!r} {self.name} {self.args[1]!r})"
        return self.form.show(*(repr(one) for one in self.args))


@dataclass(frozen=True, eq=False, repr=False)
class Ordered(Expression):
    """An expression to sort by. What is absent comes last either way."""

    of: Expression
    descending: bool = field(kw_only=True)

    def sql(self, *, placed: bool = False) -> Sql:
        form = template("{} DESC NULLS LAST") if self.descending else template("{} ASC NULLS LAST")
        return form.fill(self.of.sql(placed=placed))

    def key(self) -> tuple[Hashable, ...]:
        return ("ordered", self.descending, self.of.key())

    def inner(self) -> tuple[Expression, ...]:
        return (self.of,)

    def __repr__(self) -> str:
        return f"{self.of!r} {'desc' if self.descending else 'asc'}"


@dataclass(frozen=True, eq=False, repr=False)
class Named(Expression):
    """An expression with the name of its result; the name is no part of its SQL or its key."""

    of: Expression
    name: str

    def sql(self, *, placed: bool = False) -> Sql:
        return self.of.sql(placed=placed)

    def key(self) -> tuple[Hashable, ...]:
        return self.of.key()

    def inner(self) -> tuple[Expression, ...]:
        return (self.of,)

    def given_name(self) -> str | None:
        return self.name

    def __repr__(self) -> str:
        return f"{self.of!r} as {self.name}"


class Columns:
    """`C("file.path")`, or `C.file.path`."""

    def __call__(self, name: Any) -> Column:
        if isinstance(name, Column):
            return name
        if not isinstance(name, str) or not all(name.split(".")):
            raise InvalidInput(
                f"{name!r} does not name a column",
                hint='A column is named by text, and what lies inside it by dots: C("file.path"). '
                "A dot is never part of a name: rename such a column where it is read.",
            )
        return Column(tuple(check_name(name).split(".")))

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return self(name)


C = Columns()


def lit(value: Any) -> Expression:
    """A value anywhere: `func.concat("name", lit(" of "), "owner")`."""
    return value_of(value)


def value_of(given: Any) -> Expression:
    """Where a value is expected: a string is text."""
    return given if isinstance(given, Expression) else Literal(given)


def outcome_of(given: Any) -> Expression:
    """A value that becomes a column as it is: whole numbers get 64 bits, not the least they need."""
    one = value_of(given)
    whole = isinstance(one, Literal) and type(one.value) is int and -(2**63) <= one.value < 2**63
    return one.cast(int) if whole else one


def column_of(given: Any) -> Expression:
    """Where a column is expected: a string is its name."""
    return C(given) if isinstance(given, str) else value_of(given)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it."""
    yield expression
    for one in expression.inner():
        yield from walk(one)


# A remainder with the sign of the divisor; DuckDB's own has the sign of the dividend, as in C, and its // of two
# floats is no whole number. round() takes away what floats lose between, and leaves whole numbers alone.
MODULO: LiteralString = "((({0} % nullif({1}, 0)) + {1}) % nullif({1}, 0))"
FLOOR_DIVISION: LiteralString = f"round(({{0}} - {MODULO}) // nullif({{1}}, 0))"


def _form(name: str, form: LiteralString, *args: Any) -> Form:
    return Form(name, template(form), tuple(value_of(one) for one in args))


def _infix(left: Any, operator: str, right: Any) -> Form:
    return Form(
        operator, compose("({} {} {})", hole(0), sql.word(operator), hole(1)), (value_of(left), value_of(right))
    )


def _plus(left: Expression, right: Expression) -> Form:
    """Texts are joined with +, as in Python; of two columns only the schema knows, so func.concat joins those."""
    return _infix(left, "||" if _is_text(left) or _is_text(right) else "+", right)


def _is_text(one: Expression) -> bool:
    return (isinstance(one, Literal) and isinstance(one.value, str)) or (
        isinstance(one, Form) and one.name in TEXT_FORMS
    )
