"""Plans: the frozen nodes beneath a chain. Each knows its columns, what it reads and the SQL it means; none runs.

A node is *local* when a row of its result depends on one row of its input alone, in the same order: over stored
fragments such a step stores only what is new, a family or a selection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from memlake.dataset.expressions.columns import Column, Expression, Form, walk
from memlake.dataset.expressions.functions import choices
from memlake.dataset.expressions.windows import takes_in_order
from memlake.dataset.types.field_metadata import inner
from memlake.errors import InvalidInput
from memlake.identifiers import check_name
from memlake.named_tuple import NamedTuple
from memlake.rows.sql import (
    NOTHING,
    PLACE,
    Sql,
    compose,
    identifier,
    identifiers,
    join,
    number,
    path,
    several,
    template,
    value,
    word,
)

if TYPE_CHECKING:
    from memlake.dataset.parts.frames import Frame
    from memlake.dataset.plan.table_files import Files
    from memlake.dataset.run_settings import Settings

Columns = frozenset[str]
KEY = "memlake_key_"  # how columns begin that are made only to join by


class Origin(NamedTuple):
    """Where rows came from, as provenance tells it: a dataset version, a storage, a file, a value of the script."""

    kind: str
    name: str
    detail: Mapping[str, Any] = {}


@dataclass(frozen=True, eq=False)
class Plan:
    schema: pa.Schema
    inputs: tuple[Plan, ...] = ()
    local = False

    def __post_init__(self) -> None:
        """Names are told apart as the engine does it, which does not look at case."""
        seen: dict[str, str] = {}
        for name in self.schema.names:
            if name.lower() in seen or not name:
                told = (
                    f"{seen[name.lower()]!r} and {name!r} are one name to the engine"
                    if name
                    else "a column has no name"
                )
                raise InvalidInput(f"{told}.", hint="Rename a column first.")
            seen[name.lower()] = name
        _check_names(self.schema)

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        """Which columns of each input are needed for these of the result."""
        return tuple(columns & frozenset(one.schema.names) for one in self.inputs)

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        """Of which inputs the order of rows matters; `ordered` says whether that of the result does."""
        return (ordered,) * len(self.inputs)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        """The rows in their order, or (`ordered` false) in any that is cheaper."""
        raise NotImplementedError

    def key(self) -> tuple[Any, ...] | None:
        """What this step does, apart from its inputs; None when doing it again may give something else."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line for `explain`."""
        return type(self).__name__.lower()

    def passed_from(self, name: str) -> Iterator[tuple[Plan, str]]:
        """Where a column of the result is passed on from, as it was: inputs, and its name there."""
        return ((one, name) for one in self.inputs)

    def walk(self) -> Iterator[Plan]:
        """This node and everything beneath it, each once, inputs first."""
        seen: set[int] = set()

        def visit(node: Plan) -> Iterator[Plan]:
            if id(node) not in seen:
                seen.add(id(node))
                for one in node.inputs:
                    yield from visit(one)
                yield node

        return visit(self)


# -- sources ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Source(Plan):
    """Rows that are there. `frame` brings them when the plan runs; or `scan` is SQL with a hole for the `files`."""

    origin: Origin = field(default_factory=lambda: Origin("values", ""))
    frame: Callable[[], Frame] | None = None
    scan: Sql | None = None
    mark: Callable[[], str] = lambda: ""  # the identity of the content, asked when the plan runs
    seen: Mapping[str, str] = field(default_factory=dict)  # files and their etags when the schema was read from them
    files: Files | None = None

    def key(self) -> tuple[Any, ...]:
        return ("source", self.mark())

    def describe(self) -> str:
        return f"{self.origin.kind} {self.origin.name}".strip()


# -- relational steps ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Filter(Plan):
    condition: Expression = field(default=None)  # type: ignore[assignment]

    @property
    def local(self) -> bool:  # type: ignore[override]
        return self.condition.is_local()

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        return (columns | tops(self.condition),)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        return compose("SELECT * FROM {} WHERE {}", inputs[0], self.condition.sql())

    def key(self) -> tuple[Any, ...] | None:
        return ("filter", self.condition.key()) if steady(self.condition) else None

    def describe(self) -> str:
        return f"filter {self.condition!r}"


@dataclass(frozen=True, eq=False)
class Mutate(Plan):
    """New columns beside the old, or in their place."""

    new: Mapping[str, Expression] = field(default_factory=dict)

    def passed_from(self, name: str) -> Iterator[tuple[Plan, str]]:
        return _passed_from(self, self.new.get(name, Column((name,))))

    @property
    def local(self) -> bool:  # type: ignore[override]
        return all(expression.is_local() for expression in self.new.values())

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        read = frozenset[str]().union(*(tops(e) for name, e in self.new.items() if name in columns))
        return ((columns - self.new.keys()) | read,)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        made = {name: e for name, e in self.new.items() if name in columns}
        parts = [
            alias(made[name].sql(placed=not self.local), name) if name in made else identifier(name)
            for name in self.schema.names
            if name in columns
        ]
        rows = inputs[0] if self.local else compose("{}{}", with_places(inputs[0]), _by_place(ordered))
        return compose("SELECT {} FROM {}", several(parts), rows)

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return (ordered or not self.local,)  # of rows that a window holds for equal, the first comes first

    def key(self) -> tuple[Any, ...] | None:
        if not all(map(steady, self.new.values())):
            return None
        return ("mutate", tuple((name, expression.key()) for name, expression in self.new.items()))

    def describe(self) -> str:
        return "mutate " + ", ".join(f"{name}={expression!r}" for name, expression in self.new.items())


@dataclass(frozen=True, eq=False)
class Select(Plan):
    """Some of the columns, or some fields of nested ones: `parts` maps each name to what it is made of."""

    parts: Mapping[str, Expression] = field(default_factory=dict)

    local = True

    def passed_from(self, name: str) -> Iterator[tuple[Plan, str]]:
        return _passed_from(self, self.parts[name])

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        return (frozenset[str]().union(*(tops(e) for name, e in self.parts.items() if name in columns)),)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        made = [alias(e.sql(), name) for name, e in self.parts.items() if name in columns]
        return compose("SELECT {} FROM {}", several(made), inputs[0])

    def is_plain(self) -> bool:
        """Whole columns under their own names: nothing has to be written."""
        return all(expression.reads() == {name} for name, expression in self.parts.items())

    def key(self) -> tuple[Any, ...]:
        return ("select", tuple((name, expression.key()) for name, expression in self.parts.items()))

    def describe(self) -> str:
        return "select " + ", ".join(self.parts)


@dataclass(frozen=True, eq=False)
class Order(Plan):
    by: tuple[Expression, ...] = ()

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        return (columns.union(*(tops(expression) for expression in self.by)),)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        if not ordered:
            return compose("SELECT * FROM {}", inputs[0])
        by = join(", ", (e.sql() for e in self.by))  # of equals the first comes first, as Python sorts
        return compose(f"SELECT * EXCLUDE {PLACE} FROM {{}} ORDER BY {{}}, {PLACE}", with_places(inputs[0]), by)

    def key(self) -> tuple[Any, ...] | None:
        return ("order", tuple(e.key() for e in self.by)) if all(map(steady, self.by)) else None

    def describe(self) -> str:
        return "order_by " + ", ".join(map(repr, self.by))


@dataclass(frozen=True, eq=False)
class Limit(Plan):
    """`count` rows from `start`; count None means to the end."""

    count: int | None = None
    start: int = 0

    local = True

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return (True,)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        limit = NOTHING if self.count is None else compose(" LIMIT {}", number(self.count))
        offset = compose(" OFFSET {}", number(self.start)) if self.start else NOTHING
        return compose("SELECT * FROM {}{}{}", inputs[0], limit, offset)

    def key(self) -> tuple[Any, ...]:
        return ("limit", self.count, self.start)

    def describe(self) -> str:
        return f"limit {self.count}" if not self.start else f"offset {self.start} limit {self.count}"


@dataclass(frozen=True, eq=False)
class Distinct(Plan):
    on: tuple[Expression, ...] = ()

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        read = columns.union(*(tops(expression) for expression in self.on))
        return (read if self.on else frozenset(self.schema.names),)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        names = identifiers(self.schema.names)
        if not self.on and not ordered:
            return compose("SELECT DISTINCT {} FROM {}", names, inputs[0])
        rows = with_places(inputs[0])
        if not self.on:
            places = compose(f"SELECT {{}}, min({PLACE}) AS {PLACE} FROM {{}} GROUP BY ALL", names, rows)
            return compose("SELECT {} FROM ({}){}", names, places, _by_place(ordered))
        on = join(", ", (e.sql() for e in self.on))
        first = compose(f"SELECT DISTINCT ON ({{}}) * FROM {{}} ORDER BY {PLACE}", on, rows)
        return compose(f"SELECT * EXCLUDE {PLACE} FROM ({{}})", first)

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return (ordered or bool(self.on),)  # of rows that are alike in some columns the first stays

    def key(self) -> tuple[Any, ...] | None:
        return ("distinct", tuple(e.key() for e in self.on))


@dataclass(frozen=True, eq=False)
class Group(Plan):
    by: Mapping[str, Expression] = field(default_factory=dict)
    made: Mapping[str, Expression] = field(default_factory=dict)

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return (any(map(takes_in_order, self.made.values())),)

    def passed_from(self, name: str) -> Iterator[tuple[Plan, str]]:
        return _passed_from(self, self.by[name] if name in self.by else self.made[name])

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        read = frozenset[str]().union(*(tops(e) for e in (*self.by.values(), *self.made.values())))
        return (read or frozenset(self.inputs[0].schema.names[:1]),)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        (in_order,) = self.minds(ordered)
        parts = [alias(e.sql(placed=in_order), name) for name, e in (*self.by.items(), *self.made.items())]
        keys = join(", ", (number(i + 1) for i in range(len(self.by))))
        group = compose(" GROUP BY {0} ORDER BY {0}" if ordered else " GROUP BY {0}", keys) if self.by else NOTHING
        rows = with_places(inputs[0]) if in_order else inputs[0]
        return compose("SELECT {} FROM {}{}", several(parts), rows, group)

    def key(self) -> tuple[Any, ...] | None:
        return ("group", *((name, e.key()) for name, e in (*self.by.items(), *self.made.items())))

    def describe(self) -> str:
        return f"group_by {', '.join(self.by)}: {', '.join(f'{n}={e!r}' for n, e in self.made.items())}"


@dataclass(frozen=True, eq=False)
class Join(Plan):
    """Left and right rows that agree on `on`; `renamed` maps a right column to its name in the result."""

    on: tuple[tuple[str, str], ...] = ()
    how: Literal["INNER", "LEFT", "FULL"] = "LEFT"
    renamed: Mapping[str, str] = field(default_factory=dict)

    def passed_from(self, name: str) -> Iterator[tuple[Plan, str]]:
        left, right = self.inputs
        return iter([(left, name), *((right, old) for old, new in self.renamed.items() if new == name)])

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        left = (columns & frozenset(self.inputs[0].schema.names)) | {a.split(".")[0] for a, _ in self.on}
        right = {old for old, new in self.renamed.items() if new in columns} | {b.split(".")[0] for _, b in self.on}
        return left, frozenset(right)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        equal = (compose("{} = {}", side_column("a", left), side_column("b", right)) for left, right in self.on)
        return compose(
            "SELECT {} FROM {} AS a {} JOIN {} AS b ON {}{}",
            several(self._columns(dict(self.on), columns)),
            with_places(inputs[0]) if ordered else inputs[0],
            word(self.how),
            with_places(inputs[1]) if ordered else inputs[1],
            join(" AND ", equal),
            template(f" ORDER BY a.{PLACE} NULLS LAST, b.{PLACE}") if ordered else NOTHING,
        )

    def _columns(self, keys: Mapping[str, str], columns: Columns) -> Iterator[Sql]:
        for name in self.inputs[0].schema.names:
            if name not in columns:
                continue
            if self.how == "FULL" and name in keys and keys[name] in self.inputs[1].schema.names:
                yield alias(compose("coalesce({}, {})", path([name], "a"), side_column("b", keys[name])), name)
            else:
                yield path([name], "a")
        for old, new in self.renamed.items():
            if new in columns:
                yield alias(path([old], "b"), new)

    def key(self) -> tuple[Any, ...]:
        return ("join", self.on, self.how, tuple(self.renamed.items()))

    def describe(self) -> str:
        return f"{self.how.lower()} join on {', '.join(a if a == b else f'{a}={b}' for a, b in self.on)}"


@dataclass(frozen=True, eq=False)
class Union(Plan):
    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        names = identifiers(name for name in self.schema.names if name in columns)
        return join(" UNION ALL ", (compose("SELECT {} FROM {}", names, one) for one in inputs))

    def key(self) -> tuple[Any, ...]:
        return ("union",)


@dataclass(frozen=True, eq=False)
class Subtract(Plan):
    """Rows of the left that have no like on the right."""

    on: tuple[tuple[str, str], ...] = ()

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return ordered, False

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        return columns | {a.split(".")[0] for a, _ in self.on}, frozenset(b.split(".")[0] for _, b in self.on)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        same = alike(self.on)
        if not ordered:
            return compose("SELECT a.* FROM {} AS a ANTI JOIN {} AS b ON {}", inputs[0], inputs[1], same)
        return compose(
            f"SELECT a.* EXCLUDE {PLACE} FROM {{}} AS a ANTI JOIN {{}} AS b ON {{}} ORDER BY a.{PLACE}",
            with_places(inputs[0]),
            inputs[1],
            same,
        )

    def key(self) -> tuple[Any, ...]:
        return ("subtract", self.on)


@dataclass(frozen=True, eq=False)
class Shaped(Plan):
    """A step that is one piece of SQL with a hole for each input, then for each value: shuffling, exploding, diffs."""

    name: str = ""
    form: Sql = NOTHING
    values: tuple[Any, ...] = ()
    reads: Columns = frozenset()  # beside what is asked of the result
    certain: bool = True

    def minds(self, ordered: bool) -> tuple[bool, ...]:
        return (True,) * len(self.inputs)

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        return tuple((columns | self.reads) & frozenset(one.schema.names) for one in self.inputs)

    def sql(self, inputs: Sequence[Sql], columns: Columns, ordered: bool) -> Sql:
        return self.form.fill(*inputs, *map(value, self.values))

    def key(self) -> tuple[Any, ...] | None:
        return ("shaped", self.name, self.form.key(), self.values) if self.certain else None

    def describe(self) -> str:
        return self.name


# -- functions -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Call(Plan):
    """A Python function over rows. `binds` maps its parameters to columns; `made` are the fields it makes.

    Where nothing says what a function returns, `made` holds fields of no known type until its first rows have run.
    """

    kind: Literal["map", "gen", "agg", "batch_map"] = "map"
    function: Callable[..., Any] = print
    binds: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, Any] = field(default_factory=dict)  # annotations of the parameters
    made: tuple[pa.Field, ...] = ()
    single: bool = True  # one value a row, not a tuple of them
    by: tuple[str, ...] = ()  # agg: the columns whose equal values make a group
    setup: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    settings: Settings | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once; some column, where it reads none and only rows are counted."""
        read = tuple(dict.fromkeys(path.split(".")[0] for path in (*self.binds.values(), *self.by)))
        return read or tuple(self.inputs[0].schema.names[:1])

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def wants(self, columns: Columns) -> tuple[Columns, ...]:
        if not self.binds:  # rows are told apart by all they say
            return (frozenset(self.inputs[0].schema.names),)
        if self.kind in ("gen", "agg"):
            return (frozenset(self.columns),)
        return ((columns - {one.name for one in self.made}) | frozenset(self.columns),)

    def key(self) -> tuple[Any, ...] | None:
        return None  # known only with its fingerprint: recall.py

    def describe(self) -> str:
        return f"{self.kind} {', '.join(one.name for one in self.made)} = {self.name}({', '.join(self.binds)})"


# -- words shared by the steps -----------------------------------------------------------------------


def _passed_from(node: Plan, expression: Expression) -> Iterator[tuple[Plan, str]]:
    return ((one, repr(column)) for column in choices(expression) for one in node.inputs)


def tops(expression: Expression) -> Columns:
    """The columns an expression reads, nested names cut at the first dot."""
    return frozenset(name.split(".")[0] for name in expression.reads())


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Of columns, and of what lies inside them."""
    for one in fields:
        check_name(one.name)
        _check_names(inner(one.type))


def steady(expression: Expression) -> bool:
    """False when doing it again gives other values."""
    return not any(one.nature == "volatile" for one in walk(expression) if isinstance(one, Form))


def alias(made: Sql, name: str) -> Sql:
    return compose("{} AS {}", made, identifier(name))


def with_places(relation: Sql) -> Sql:
    """A relation whose rows know their place: joins and windows give rows in an order of their own."""
    return compose(f"(SELECT *, row_number() OVER () AS {PLACE} FROM {{}})", relation)


def _by_place(ordered: bool) -> Sql:
    return template(f" ORDER BY {PLACE}") if ordered else NOTHING


def side_column(alias: Literal["a", "b"], name: str) -> Sql:
    """A column of one side of a join, or what lies inside it."""
    return path(name.split("."), alias)


def alike(pairs: Iterable[tuple[str, str]]) -> Sql:
    """Whether rows of both sides say the same in these columns, nothing being as nothing."""
    each = (compose("{} IS NOT DISTINCT FROM {}", side_column("a", a), side_column("b", b)) for a, b in pairs)
    return join(" AND ", each)
