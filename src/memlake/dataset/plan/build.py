"""Building plans: what a user wrote, checked against the columns at once, as frozen nodes. Runs nothing."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from memlake.dataset.expressions import bind
from memlake.dataset.expressions.columns import C, Column, Expression, Form, Ordered, column_of
from memlake.dataset.expressions.functions import choices, func
from memlake.dataset.plan import nodes
from memlake.dataset.plan.nodes import Call, Plan
from memlake.dataset.run_settings import Settings
from memlake.dataset.types import arrow, names, signatures
from memlake.dataset.types.field_metadata import class_of, is_unknown, unknown_field
from memlake.errors import InvalidInput
from memlake.identifiers import check_name
from memlake.named_tuple import NamedTuple
from memlake.rows.sql import compose, hole, identifier, several

Kind = Literal["map", "gen", "agg", "batch_map"]
_MANY = (Iterator, Iterable, Generator, AsyncIterator, AsyncGenerator, list, Sequence)


# -- columns ---------------------------------------------------------------------------------------


def column(given: Any, schema: pa.Schema) -> Expression:
    """What names or computes a column, known to fit the schema."""
    expression = column_of(given)
    bind.check(expression, schema)
    return bind.guard_nan(expression, schema)


def as_list(given: Any, verb: str) -> list[str | Expression]:
    """What a verb is given where it takes one column or several: a name, C(...), func.name(...), or a list of them."""
    several = [given] if isinstance(given, str | Expression) else given
    several = list(several) if isinstance(several, Iterable) else [given]
    odd = [one for one in several if not isinstance(one, str | Expression)]
    if odd:
        raise InvalidInput(
            f"{verb} takes columns, not {odd[0]!r}. Nothing was run.", hint='Like: "id", or C("file.path")'
        )
    return several


def path_of(given: Any, verb: str) -> str:
    """The dotted name of a column, where a verb takes no computed one."""
    (one,) = as_list(given if isinstance(given, str | Expression) else [given], verb)
    expression = column_of(one)
    if not isinstance(expression, Column):
        raise InvalidInput(
            f"{verb} takes columns, not {expression!r}. Nothing was run.",
            hint="Make it a column first: mutate(new=...)",
        )
    return repr(expression)


def condition(given: Any, schema: pa.Schema) -> Expression:
    """What a filter keeps rows by: true or false for each."""
    expression = column(given, schema)
    kind = bind.check(expression, schema)
    if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        raise InvalidInput(
            f"filter takes what is true or false for a row; {expression!r} is {kind}.", hint='Like: C("size") > 10'
        )
    return expression


def limit(below: Plan, count: int | None, start: int = 0) -> Plan:
    """A range of rows, taken before what makes one row of each: a function is not called for rows nobody sees."""
    keeps = (
        below.settings is None or below.settings.on_error != "skip"
        if isinstance(below, Call) and below.kind in ("map", "batch_map")
        else isinstance(below, nodes.Mutate | nodes.Select) and below.local
    )
    if keeps and any(isinstance(one, Call) for one in below.walk()):
        return dataclasses.replace(below, inputs=(limit(below.inputs[0], count, start),))
    return nodes.Limit(below.schema, (below,), count, start)


def field_of(name: str, expression: Expression, schema: pa.Schema) -> pa.Field:
    """The field an expression makes, with the class of columns that are only passed on, or chosen from."""
    kind = bind.check(expression, schema)
    sources = [source_field(one, schema) for one in choices(expression)]
    known = sources[0] if sources else None
    if known is not None and isinstance(expression, Column):
        return known.with_name(name)
    if known is not None and all(
        one is not None and (bool(one.type.equals(known.type)) and class_of(one) == class_of(known)) for one in sources
    ):
        if known.type.equals(kind):
            return known.with_name(name)
        if kind.equals(pa.list_(known.type)):
            return pa.field(name, pa.list_(known.with_name("item")))
    return unknown_field(name) if pa.types.is_null(kind) and expression.reads() else pa.field(name, kind)


def source_field(expression: Expression, schema: pa.Schema) -> pa.Field | None:
    if not isinstance(expression, Column):
        return None
    first, *rest = next(iter(expression.reads())).split(".")
    found = schema.field(first)
    for name in rest:
        if not pa.types.is_struct(found.type):
            return None
        found = found.type.field(name)
    return found


def short_name(given: Any, taken: Iterable[str] = ()) -> str:
    """What a column is called that a user only pointed at: `file.path` becomes `path`, unless that is taken."""
    expression = column_of(given)
    told = expression.given_name()
    if told is not None:
        return told
    path = next(iter(expression.reads())) if isinstance(expression, Column) else repr(expression)
    last = path.rsplit(".", 1)[-1]
    return last if last not in set(taken) else path.replace(".", "_")


def mutate(below: Plan, given: Mapping[str, Any]) -> Plan:
    new = {check_column(name): column(value, below.schema) for name, value in given.items()}
    fields = {name: field_of(name, expression, below.schema) for name, expression in new.items()}
    for name, expression in new.items():
        if expression.is_aggregate():
            raise InvalidInput(
                f"{name} is an aggregate; mutate makes one value a row.", hint="Use group_by, or .over(...)."
            )
    known = {one.name: one for one in below.schema} | fields
    return nodes.Mutate(pa.schema(list(known.values())), (below,), new)


def check_column(name: str) -> str:
    check_name(name)
    if not name.isidentifier() and ("." in name or not name.strip()):
        raise InvalidInput(
            f"{name!r} cannot be the name of a column: dots lead into nested ones. Nothing was read or changed."
            if name.strip()
            else "a column has no name. Nothing was read or changed.",
            hint=f"Call it {name.replace('.', '_')!r}." if name.strip() else "",
        )
    return name


def select(below: Plan, given: Sequence[Any]) -> Plan:
    """Columns, or fields of nested ones, which keep their place: select("file.path") is a `file` with only a path."""
    if not given:
        raise InvalidInput("select names no column.")
    parts: dict[str, Expression] = {}
    fields: dict[str, pa.Field] = {}
    nested: dict[str, list[str]] = {}
    for one in given:
        expression = column(one, below.schema)
        path = repr(expression) if isinstance(expression, Column) else ""
        if "." in path and expression.given_name() is None:
            first, _, rest = path.partition(".")
            nested.setdefault(first, []).append(rest)
            parts.setdefault(first, expression)
            continue
        name = expression.given_name() or path or repr(expression)
        parts[name] = expression
        fields[name] = field_of(name, expression, below.schema)
    for first, inside in nested.items():
        parts[first], fields[first] = _partial(first, inside, below.schema)
    return nodes.Select(pa.schema([fields[name] for name in parts]), (below,), parts)


def _partial(first: str, rests: Sequence[str], schema: pa.Schema) -> tuple[Expression, pa.Field]:
    """A struct of just these fields of a struct."""
    tree: dict[str, list[str]] = {}
    for rest in rests:
        name, _, below = rest.partition(".")
        tree.setdefault(name, []).extend([below] if below else [])
    pieces, fields = [], []
    for name, deeper in tree.items():
        path = f"{first}.{name}"
        if deeper:
            expression, made = _partial(path, deeper, schema)
        else:
            expression = C(path)
            made = source_field(expression, schema) or pa.field(name, bind.check(expression, schema))
        pieces.append((name, expression))
        fields.append(made.with_name(name))
    return pack_struct(pieces), pa.field(first.rsplit(".", 1)[-1], pa.struct(fields))


def pack_struct(pieces: Sequence[tuple[str, Expression]]) -> Expression:
    fields = (compose("{} := {}", identifier(name), hole(i)) for i, (name, _) in enumerate(pieces))
    form = compose("struct_pack({})", several(fields))
    return Form("struct_pack", form, tuple(expression for _, expression in pieces))


def without(below: Plan, given: Sequence[Any]) -> Plan:
    dropped = [path_of(one, "select_except") for one in given]
    for name in dropped:
        bind.check(C(name), below.schema)
        if "." in name:
            raise InvalidInput(
                f"select_except takes whole columns, and {name!r} lies inside one. Nothing was run.",
                hint="Name what stays: select(...) takes fields of nested columns.",
            )
    kept = [name for name in below.schema.names if name not in dropped]
    if not kept:
        raise InvalidInput("select_except leaves no column.")
    return select(below, kept)


def order(below: Plan, given: Sequence[Any], *, descending: bool | Sequence[bool]) -> Plan:
    if not given:
        raise InvalidInput("order_by names no column.")
    by = []
    # Which columns go downwards: all or none, or one answer for each
    count = len(given)
    each = descending if isinstance(descending, list | tuple) else [descending] * count
    if len(each) != count or not all(isinstance(one, bool) for one in each):
        raise InvalidInput(
            f"descending is {descending!r}, for {count} column{'s' if count > 1 else ''}. Nothing was run.",
            hint="Give True or False for all, or a list with one of them for each column.",
        )
    for one, turned in zip(given, each, strict=True):
        expression = column(one, below.schema)
        by.append(expression if isinstance(expression, Ordered) else expression.desc() if turned else expression.asc())
    return nodes.Order(below.schema, (below,), tuple(by))


def explode(below: Plan, given: Any) -> Plan:
    name = path_of(given, "explode")
    kind = bind.check(C(name), below.schema)
    listed = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    if "." in name or not (listed or pa.types.is_null(kind)):
        raise InvalidInput(f"{name!r} is not a column of lists, so there is nothing to explode.")
    made = kind.value_field.with_name(name) if listed else unknown_field(name)
    schema = below.schema.set(below.schema.get_field_index(name), made)
    form = compose("SELECT * REPLACE (unnest({0}) AS {0}) FROM {1}", identifier(name), hole(0))
    return nodes.Shaped(schema, (below,), f"explode {name}", form, (), frozenset([name]))


def group(below: Plan, keys: Sequence[Any], made: Mapping[str, Any]) -> Plan:
    by: dict[str, Expression] = {}
    for one in keys:
        by[short_name(one, (*by, *made))] = column(one, below.schema)
    if not made and not by:
        raise InvalidInput("group_by makes nothing.", hint='Like: group_by("breed", n=func.count())')
    new = {check_column(name): column(value, below.schema) for name, value in made.items()}
    for name, expression in new.items():
        if not expression.is_aggregate():
            raise InvalidInput(
                f"{name} is not an aggregate: {expression!r}.", hint='Like: n=func.count(), m=func.avg("x")'
            )
    fields = [field_of(name, e, below.schema) for name, e in (*by.items(), *new.items())]
    return nodes.Group(pa.schema(fields), (below,), by, new)


class Keyed(NamedTuple):
    """Two plans and the columns they are compared by; what is computed for that is a column of its own: see unkeyed."""

    left: Plan
    right: Plan
    on: tuple[tuple[str, str], ...]
    made: frozenset[str]


def add_keys(left: Plan, right: Plan, on: Any, right_on: Any, verb: str) -> Keyed:
    mine = as_list(on, verb)
    theirs = mine if right_on is None else as_list(right_on, verb)
    if len(mine) != len(theirs) or not mine:
        raise InvalidInput(
            f"{len(mine)} columns cannot be compared with {len(theirs)}.", hint="Name as many on each side."
        )
    made = _free_names(len(mine), (left, right))
    left, names = _with_keys(left, mine, made)
    right, others = _with_keys(right, theirs, made)
    on = tuple(zip(names, others, strict=True))
    for name, other in on:
        a, b = bind.check(C(name), left.schema), bind.check(C(other), right.schema)
        if not _are_comparable(a, b):
            raise InvalidInput(
                f"{name!r} is {a} and {other!r} is {b}: values of these are never equal.",
                hint=f"Cast one of them first: mutate({name}=C({name!r}).cast(str))",
            )
    return Keyed(left, right, on, frozenset(made))


def _free_names(count: int, plans: Sequence[Plan]) -> list[str]:
    """Names that neither side has a column of: one of the user may well begin like ours."""
    taken = {name.lower() for one in plans for name in one.schema.names}
    free = (name for i in itertools.count() if (name := f"{nodes.KEY}{i}") not in taken)
    return list(itertools.islice(free, count))


def _with_keys(below: Plan, given: Sequence[str | Expression], free: Sequence[str]) -> tuple[Plan, list[str]]:
    """The columns' names, where computed ones are made columns under the free names."""
    each = [column_of(one) for one in given]
    made = {name: one for name, one in zip(free, each, strict=True) if not isinstance(one, Column)}
    names = [repr(one) if isinstance(one, Column) else name for name, one in zip(free, each, strict=True)]
    return (mutate(below, made) if made else below), names


def drop_keys(below: Plan, made: frozenset[str]) -> Plan:
    """Without the columns that were made only to compare by."""
    kept = [name for name in below.schema.names if name not in made]
    return below if len(kept) == len(below.schema.names) else select(below, kept)


def _are_comparable(a: pa.DataType, b: pa.DataType) -> bool:
    t = pa.types
    groups = (
        lambda one: t.is_integer(one) or t.is_floating(one) or t.is_decimal(one),
        lambda one: t.is_date(one) or t.is_timestamp(one),
        t.is_nested,
    )
    return a.id == b.id or t.is_null(a) or t.is_null(b) or any(is_one(a) and is_one(b) for is_one in groups)


def join(left: Plan, right: Plan, on: tuple[tuple[str, str], ...], how: Any, prefix: str) -> Plan:
    """Right columns come behind the left; a name that is taken gets a prefix, a key that says the same is left out."""
    check_name(prefix)
    doubled = {b for a, b in on if "." not in b and (a == b or how != "FULL")}
    renamed = {}
    for name in right.schema.names:
        if name in doubled and (name, name) in on:
            continue
        renamed[name] = f"{prefix}{name}" if name in left.schema.names else name
    fields = [*left.schema, *(right.schema.field(old).with_name(new) for old, new in renamed.items())]
    twice = [one.name for one in fields if [f.name for f in fields].count(one.name) > 1]
    if twice:
        raise InvalidInput(
            f"both sides have a column {twice[0]!r}.", hint="Choose another rname=, or rename one first."
        )
    return nodes.Join(pa.schema(fields), (left, right), on, how, renamed)


def union(left: Plan, right: Plan) -> Plan:
    mine, theirs = set(left.schema.names), set(right.schema.names)
    if mine != theirs:
        raise InvalidInput(
            "a union needs the same columns on both sides; "
            f"only left: {', '.join(sorted(mine - theirs)) or 'none'}; "
            f"only right: {', '.join(sorted(theirs - mine)) or 'none'}."
        )
    fields = [_widen_field(one, right.schema.field(one.name)) for one in left.schema]
    return nodes.Union(pa.schema(fields), (left, right))


def _widen_field(a: pa.Field, b: pa.Field) -> pa.Field:
    if is_unknown(a) or is_unknown(b):
        return a if is_unknown(a) else b
    if pa.types.is_null(a.type) or pa.types.is_null(b.type):
        return a if pa.types.is_null(b.type) else b
    if a.type.equals(b.type):
        return a if pa.types.is_nested(a.type) or class_of(a) == class_of(b) else a.remove_metadata()
    try:
        return pa.unify_schemas([pa.schema([a]), pa.schema([b])], promote_options="permissive").field(0)
    except pa.ArrowException as error:
        mine, theirs = arrow.show_type(a), arrow.show_type(b)
        mine, theirs = (mine, theirs) if mine != theirs else (a.type, b.type)
        raise InvalidInput(
            f"column {a.name!r} is {mine} on one side and {theirs} on the other.",
            hint="Cast one of them first: mutate(x=C('x').cast(str))",
        ) from error


# -- functions -------------------------------------------------------------------------------------


def call(
    below: Plan,
    kind: Kind,
    function: Callable[..., Any],
    output: Any,
    params: Any,
    *,
    settings: Settings,
    setup: Mapping[str, Callable[[], Any]],
) -> Plan:
    """A function over the rows of a plan, its parameters bound to columns by name."""
    if isinstance(function, Column) or not callable(function):
        raise InvalidInput(
            f"{function!r} is not a function.", hint='For a constant or an expression: mutate(x=lit("..."))'
        )
    if kind == "gen":
        _check_rows(settings, "gen")
    told = signatures.signature_of(function)
    binds = _binds(below.schema, told, params, setup)
    made, single = _output_fields(kind, function, output, told.returns)
    if kind in ("gen", "agg"):
        schema = pa.schema(made)
    else:
        known = {one.name: one for one in below.schema} | {one.name: one for one in made}
        if settings.on_error == "column":
            known[f"{made[0].name}_error"] = pa.field(f"{made[0].name}_error", pa.string())
        schema = pa.schema(list(known.values()))
    used = {name: make for name, make in setup.items() if name in told.parameters}
    return Call(schema, (below,), kind, function, binds, dict(told.wants), tuple(made), single, (), used, settings)


def aggregate(
    below: Plan, by: Sequence[str | Expression], function: Callable[..., Any], output: Any, params: Any, **how: Any
) -> Plan:
    """Rows with equal keys, gathered into lists, then given to the function, which makes rows as that of a gen."""
    _check_rows(how["settings"], "agg")
    told = signatures.signature_of(function)
    binds = _binds(below.schema, told, params, how["setup"])
    keys = {f"by_{i}": column(one, below.schema) for i, one in enumerate(by)}
    columns = list(dict.fromkeys(path.split(".")[0] for path in binds.values()))
    lists = {name: func.list(name) for name in columns}
    fields = [pa.field(name, bind.check(one, below.schema)) for name, one in keys.items()]
    fields += [
        unknown_field(one.name) if is_unknown(one) else pa.field(one.name, pa.list_(one.with_name("item")))
        for one in map(below.schema.field, columns)
    ]
    grouped = nodes.Group(pa.schema(fields), (below,), keys, lists)
    ordered = nodes.Order(grouped.schema, (grouped,), tuple(C(name).asc() for name in keys)) if keys else grouped
    made, single = _output_fields("agg", function, output, told.returns)
    nested = {name: path for name, path in binds.items() if "." in path}
    if nested:
        raise InvalidInput("agg takes whole columns.", hint=f"Select {next(iter(nested.values()))!r} into one first.")
    return Call(
        pa.schema(made), (ordered,), "agg", function, binds, {}, tuple(made), single, (),
        {k: v for k, v in how["setup"].items() if k in told.parameters}, how["settings"],
    )  # fmt: skip


def _check_rows(settings: Settings, kind: Kind) -> None:
    if settings.on_error == "column":
        raise InvalidInput(
            f"on_error='column' cannot keep the errors of {kind}, because a row that fails makes no row. "
            "Nothing was run.",
            hint=f"Before {kind}: settings(on_error='skip') or on_error='raise'; or map to a list, then explode it.",
        )


def _binds(schema: pa.Schema, told: signatures.Signature, params: Any, setup: Mapping[str, Any]) -> dict[str, str]:
    if params is not None:
        given = [path_of(one, "params") for one in as_list(params, "params")]
        for path in given:
            bind.check(C(path), schema)
        free = [name for name in told.parameters if name not in setup]
        if len(given) > len(free) and free:
            raise InvalidInput(f"{len(given)} columns for {len(free)} parameters: {', '.join(free)}.")
        return dict(zip(free or given, given, strict=False))
    binds = {}
    for name in told.parameters:
        if name in schema.names:
            binds[name] = name
        elif name not in setup and name not in told.optional:
            near = names.find_nearest(name, schema.names)
            raise InvalidInput(
                f"parameter {name!r} of the function is not a column" + (f"; did you mean {near!r}?" if near else "."),
                hint=f"Columns: {', '.join(schema.names)}. Others bind with params=['column'], or setup({name}=...).",
            )
    return binds


def _output_fields(kind: Kind, function: Any, output: Any, returns: Any) -> tuple[list[pa.Field], bool]:
    """The fields a function makes, and whether it makes one value or a tuple of them."""
    if kind in ("gen", "agg"):
        returns = _yielded_type(returns)
    if kind == "batch_map":
        returns = _element_type(returns)
    if isinstance(output, Mapping):
        return [arrow.field_of(check_column(name), kind_) for name, kind_ in output.items()], len(output) == 1
    if isinstance(output, Sequence) and not isinstance(output, str):
        inner = typing.get_args(returns) if typing.get_origin(returns) is tuple else ()
        if inner and len(inner) != len(output):
            raise InvalidInput(f"the function returns {len(inner)} values for {len(output)} names.")
        told = inner or [signatures.MISSING] * len(output)
        return [_field(check_column(name), one) for name, one in zip(output, told, strict=True)], len(output) == 1
    if output is not None and not isinstance(output, str):
        returns, output = output, None
    name = output or getattr(function, "__name__", type(function).__name__.lower())
    if name == "<lambda>":
        raise InvalidInput("a lambda needs a name for what it makes.", hint="Like: map(breed=lambda file: ...)")
    return [_field(check_column(name), returns)], True


def _field(name: str, annotation: Any) -> pa.Field:
    if annotation is signatures.MISSING or annotation is Any:
        return unknown_field(name)
    return arrow.field_of(name, annotation)


def _yielded_type(returns: Any) -> Any:
    """What a generator yields, from what it says it returns."""
    if typing.get_origin(returns) in _ITEMS and typing.get_args(returns):
        return typing.get_args(returns)[0]
    return signatures.MISSING if returns in _MANY or returns is signatures.MISSING else returns


def _element_type(returns: Any) -> Any:
    if typing.get_origin(returns) is list:
        return typing.get_args(returns)[0]
    return signatures.MISSING


_ITEMS = {typing.get_origin(one) or one for one in (*_MANY,)}
