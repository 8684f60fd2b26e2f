"""Which columns of the sources each column of a plan is made of. Pure; what a function reads, it may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memlake.dataset.expressions.columns import Expression
from memlake.dataset.plan.nodes import Call, Group, Join, Mutate, Plan, Select, Shaped, Source, Subtract, Union, tops

Made = frozenset[tuple[str, str]]  # (source, column)
_NOTHING: Made = frozenset()
Known = Mapping[str, Made]


def made_of(plan: Plan) -> dict[str, list[list[str]]]:
    """For each column the columns of the sources it comes from."""
    known: dict[int, Known] = {}
    for node in walk(plan):
        known[id(node)] = _columns_of(node, [known[id(one)] for one in inputs(node)])
    return {name: [list(pair) for pair in sorted(known[id(plan)].get(name, ()))] for name in plan.schema.names}


def inputs(node: Plan) -> tuple[Plan, ...]:
    """What a node stands on; also what was persisted beneath it."""
    before = node.origin.detail.get("plan") if isinstance(node, Source) else None
    return (before,) if before is not None else node.inputs


def walk(plan: Plan) -> list[Plan]:
    """A plan's nodes, each once, inputs first, through what was persisted on the way."""
    found: dict[int, Plan] = {}
    stack = [(plan, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found.setdefault(id(node), node)
        elif id(node) not in found:
            stack.append((node, True))
            stack += [(one, False) for one in reversed(inputs(node))]
    return list(found.values())


def source_name(node: Source) -> str:
    return node.origin.name if node.origin.kind in ("dataset", "storage") else node.describe()


def _columns_of(node: Plan, below: list[Known]) -> Known:
    if isinstance(node, Source):
        return below[0] if below else {name: frozenset([(source_name(node), name)]) for name in node.schema.names}
    if isinstance(node, Union):
        return {name: _union(one.get(name, _NOTHING) for one in below) for name in node.schema.names}
    if isinstance(node, Join):
        left, right = below
        both = {a: right.get(b, _NOTHING) for a, b in node.on} if node.how == "FULL" else {}
        mine = {name: made | both.get(name, _NOTHING) for name, made in left.items()}
        return {**mine, **{new: right.get(old, _NOTHING) for old, new in node.renamed.items()}}
    if len(below) == 1 or isinstance(node, Subtract):
        known = below[0]
    else:
        known = {name: _union(one.get(name, _NOTHING) for one in below) for one in below for name in one}
    if isinstance(node, Mutate):
        return {**known, **_read_by(node.new, known)}
    if isinstance(node, Select):
        return _read_by(node.parts, known)
    if isinstance(node, Group):
        return _read_by({**node.by, **node.made}, known)
    if isinstance(node, Call):
        read = _union(known.get(name, _NOTHING) for name in node.columns)
        kept = known if node.kind in ("map", "batch_map") else {name: known.get(name, _NOTHING) for name in node.by}
        return {**kept, **{one.name: read for one in node.made if one.name not in node.by}}
    if isinstance(node, Shaped):
        read = _union(known.get(name, _NOTHING) for name in node.reads)
        return {name: known.get(name, read) for name in node.schema.names}
    return known


def _union(parts: Iterable[Made]) -> Made:
    return _NOTHING.union(*parts)


def _read_by(expressions: Mapping[str, Expression], below: Known) -> Known:
    return {name: _union(below.get(top, _NOTHING) for top in tops(each)) for name, each in expressions.items()}
