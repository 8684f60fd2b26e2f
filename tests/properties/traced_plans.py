"""Random chains, and a plain Python tracer that runs the same steps over lists of rows with the leaves of each row."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import memlake as ml
from memlake import C, func
from memlake.dataset.chain import Chain
from memlake.dataset.datasets import Datasets

NAMES = ("id", "k", "x")
MOST = 40  # rows that a step may leave: joins multiply


class Row(NamedTuple):
    """A row, and the rows of files and values that it came from."""

    id: int
    k: int
    x: int
    leaves: frozenset[tuple[str, int]]


class Both(NamedTuple):
    """The same rows twice: as memlake means them, and as plain Python has them."""

    chain: Chain
    rows: list[Row]


@contextlib.contextmanager
def open_tables(folder: Path) -> Iterator[Datasets]:
    """The datasets of a new repo here, beside two small tables."""
    rng = random.Random(7)
    for name, size in (("a.csv", 9), ("b.csv", 5)):
        lines = [f"{rng.randrange(12)},{rng.randrange(4)},{rng.randrange(97)}" for _ in range(size)]
        Path(name).write_text("\n".join(["id,k,x", *lines]) + "\n")
    with ml.init(folder) as repo:
        yield repo.datasets()


def f(x: int) -> int:
    return (x * 7 + 3) % 97


def repeat(id: int, k: int, x: int) -> Iterator[tuple[int, int, int]]:
    for i in range(x % 3):
        yield id, k, (x + i) % 97


def join_up(id: list[int], k: list[int], x: list[int]) -> Iterator[tuple[int, int, int]]:
    yield min(id), k[0], sum(x) % 97
    if sum(x) % 2:
        yield max(id), k[0], len(x)


def cut(x: int) -> list[int]:
    return [x, (x + 1) % 97][: x % 3]


def read(data: Datasets, rng: random.Random) -> Both:
    """Two files read as one, or values: whichever, with the leaves that a person would count by hand."""
    if rng.random() < 0.5:
        counts = [len(Path(name).read_text().splitlines()) - 1 for name in ("a.csv", "b.csv")]
        chain = data.read_csv(["a.csv", "b.csv"])
        leaves = [(name, i + 1) for name, rows in zip(("a.csv", "b.csv"), counts, strict=True) for i in range(rows)]
    else:
        size = rng.randint(0, 12)
        rows = [(i, rng.randrange(4), rng.randrange(97)) for i in range(size)]
        chain = data.read_values(output=int, **{name: [row[i] for row in rows] for i, name in enumerate(NAMES)})
        leaves = [(f"values ({'1 row' if size == 1 else f'{size} rows'})", i + 1) for i in range(size)]
    values = chain.to_list(*NAMES)
    return Both(chain, [Row(*row, frozenset([leaf])) for row, leaf in zip(values, leaves, strict=True)])


def build(data: Datasets, rng: random.Random, name: str, depth: int = 0) -> Both:
    """A random chain of a few steps; some read another random chain, some are saved on the way and read again."""
    found = read(data, rng)
    for number in range(rng.randint(1, 5 if depth else 7)):
        step = rng.choice(STEPS if depth < 2 else STEPS[:-5])
        if step in (_merge, _union, _subtract):
            other = found if rng.random() < 0.2 else build(data, rng, f"{name}_{number}", depth + 1)
            found = step(found, other, rng)
        elif step is _save:
            saved = found.chain.save(f"{name}_{number}_{depth}")
            found = found._replace(chain=data.read_dataset(str(saved.record.spec if saved.record else "")))
        else:
            found = step(found, rng)
        if len(found.rows) > MOST:
            found = Both(found.chain.limit(MOST), found.rows[:MOST])
    return found


def _filter(given: Both, rng: random.Random) -> Both:
    by, left = rng.choice([2, 3, 5]), rng.choice([0, 1])
    return Both(given.chain.filter(C("x") % by != left), [row for row in given.rows if row.x % by != left])


def _mutate(given: Both, rng: random.Random) -> Both:
    by = rng.randint(1, 9)
    rows = [row._replace(x=(row.x * by) % 97, k=row.id % 3) for row in given.rows]
    return Both(given.chain.mutate(x=(C("x") * by) % 97, k=C("id") % 3), rows)


def _map(given: Both, _rng: random.Random) -> Both:
    chain = given.chain.map(y=f).mutate(x="y").select(*NAMES)
    return Both(chain, [row._replace(x=f(row.x)) for row in given.rows])


def _gen(given: Both, _rng: random.Random) -> Both:
    rows = [Row(*made, row.leaves) for row in given.rows for made in repeat(row.id, row.k, row.x)]
    return Both(given.chain.gen(repeat, output=dict.fromkeys(NAMES, int)), rows)


def _groups(rows: list[Row]) -> list[list[Row]]:
    keys = sorted({row.k for row in rows})
    return [[row for row in rows if row.k == key] for key in keys]


def _leaves(rows: list[Row]) -> frozenset[tuple[str, int]]:
    return frozenset[tuple[str, int]]().union(*(row.leaves for row in rows))


def _group(given: Both, _rng: random.Random) -> Both:
    chain = given.chain.group_by("k", id=func.min("id"), x=func.sum("x"))
    chain = chain.mutate(x=(C("x") % 97).cast(int)).select(*NAMES)
    groups = _groups(given.rows)
    rows = [Row(min(r.id for r in g), g[0].k, sum(r.x for r in g) % 97, _leaves(g)) for g in groups]
    return Both(chain, rows)


def _agg(given: Both, _rng: random.Random) -> Both:
    chain = given.chain.agg(join_up, partition_by="k", output=dict.fromkeys(NAMES, int))
    rows = [
        Row(*made, _leaves(group))
        for group in _groups(given.rows)
        for made in join_up(*([getattr(row, name) for row in group] for name in NAMES))
    ]
    return Both(chain, rows)


def _order(given: Both, _rng: random.Random) -> Both:
    return Both(given.chain.order_by("x", descending=True), sorted(given.rows, key=lambda row: -row.x))


def _limit(given: Both, rng: random.Random) -> Both:
    start, size = rng.randint(0, 3), rng.randint(0, 30)
    return Both(given.chain.offset(start).limit(size), given.rows[start : start + size])


def _distinct(given: Both, rng: random.Random) -> Both:
    names = ("k",) if rng.random() < 0.5 else NAMES
    first: dict[Any, Row] = {}
    for row in given.rows:
        first.setdefault(tuple(getattr(row, name) for name in names), row)
    return Both(given.chain.distinct("k") if names == ("k",) else given.chain.distinct(), list(first.values()))


def _chunk(given: Both, rng: random.Random) -> Both:
    index = rng.randint(0, 1)
    return Both(given.chain.chunk(index, 2), given.rows[index::2])


def _explode(given: Both, _rng: random.Random) -> Both:
    chain = given.chain.map(part=cut, output=list[int]).explode("part").mutate(x="part").select(*NAMES)
    return Both(chain, [row._replace(x=part) for row in given.rows for part in cut(row.x)])


def _persist(given: Both, _rng: random.Random) -> Both:
    return given._replace(chain=given.chain.persist())


def _shuffle(given: Both, rng: random.Random) -> Both:
    """In an order that only the engine knows, and then in one that all know."""
    rows = sorted(enumerate(given.rows), key=lambda one: (one[1].id, one[1].k, one[1].x))
    if len({row[:3] for row in given.rows}) < len(given.rows):  # rows that are alike cannot be told apart by hand
        return given
    return Both(given.chain.shuffle(rng.randint(0, 9)).order_by(*NAMES), [row for _, row in rows])


def _merge(given: Both, other: Both, rng: random.Random) -> Both:
    key, how = rng.choice(["id", "k"]), rng.choice(["left", "inner", "full"])
    chain = given.chain.merge(other.chain, on=key, inner=how == "inner", full=how == "full", rname="r_")
    rows = [
        left._replace(x=(left.x + right.x) % 97, leaves=left.leaves | right.leaves)
        for left in given.rows
        for right in other.rows
        if getattr(left, key) == getattr(right, key)
    ]
    if how != "inner":
        there, matched = {getattr(row, key) for row in other.rows}, iter(rows)
        rows = []
        for left in given.rows:
            twins = sum(getattr(right, key) == getattr(left, key) for right in other.rows)
            rows += [next(matched) for _ in range(twins)] if getattr(left, key) in there else [left]
    if how == "full":
        here = {getattr(row, key) for row in given.rows}
        rows += [right for right in other.rows if getattr(right, key) not in here]
    names = {"x": (func.coalesce(C("x"), 0) + func.coalesce(C("r_x"), 0)) % 97}
    rest = "k" if key == "id" else "id"
    chain = chain.mutate(**names, **{rest: func.coalesce(C(rest), C(f"r_{rest}"))}).select(*NAMES)
    return Both(chain, rows)


def _union(given: Both, other: Both, _rng: random.Random) -> Both:
    return Both(given.chain.union(other.chain), [*given.rows, *other.rows])


def _subtract(given: Both, other: Both, _rng: random.Random) -> Both:
    there = {row.id for row in other.rows}
    return Both(given.chain.subtract(other.chain, on="id"), [row for row in given.rows if row.id not in there])


def _save(given: Both, _rng: random.Random) -> Both:
    return given  # `build` saves: it knows where


STEPS: list[Callable[..., Both]] = [
    _filter, _mutate, _map, _gen, _group, _agg, _order, _limit, _distinct, _chunk, _explode, _persist, _shuffle,
    _save, _merge, _merge, _union, _subtract,
]  # fmt: skip
__all__ = ["Both", "Row", "build", "ml"]
