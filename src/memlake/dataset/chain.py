"""Chain: what a user writes. A verb gives a new chain and runs nothing; what ends one (save, show, to_...) runs it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from memlake.calls import suggest
from memlake.dataset import databases, export, show_rows
from memlake.dataset.compare import plan_diff
from memlake.dataset.expressions.columns import C, Expression
from memlake.dataset.expressions.functions import func
from memlake.dataset.lineage import graph
from memlake.dataset.plan import build, nodes
from memlake.dataset.plan.nodes import Origin, Plan, Source
from memlake.dataset.read import sources
from memlake.dataset.run_settings import Settings
from memlake.dataset.save import Wanted
from memlake.dataset.types import arrow, names
from memlake.dataset.types.field_metadata import is_unknown
from memlake.errors import InvalidInput
from memlake.rows.sql import PLACE, compose, hole
from memlake.versions.lineage.graph import Asked

if TYPE_CHECKING:
    from memlake.dataset.parts.version_record import Version
    from memlake.dataset.run.engine import Ran
    from memlake.dataset.session import Session

# What other libraries call these.
_MEANT = {"where": "filter", "head": "limit", "sort": "order_by", "drop": "select_except", "join": "merge"}
_METRICS = {"cosine": func.cosine_distance, "l2": func.euclidean_distance, "ip": func.inner_product}


class Chain:
    """Typed rows and the steps that lead to them. Immutable: each verb gives a new one."""

    __slots__ = ("_session", "_settings", "_setup", "plan", "ran", "record", "reused")

    def __init__(
        self,
        session: Session,
        node: Plan,
        settings: Settings | None = None,
        setup: Mapping[str, Callable[[], Any]] | None = None,
        record: Version | None = None,
    ) -> None:
        self._session, self.plan = session, node
        self._settings, self._setup = settings or Settings(), dict(setup or {})
        self.record = record  # of the version it was read from or saved as
        self.reused: bool | None = None  # of a save: whether nothing new had to be stored
        self.ran: tuple[Ran, ...] = ()  # of a save: what each function step did, and why it ran

    if not TYPE_CHECKING:  # a type checker knows the methods there are

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [one for one in dir(type(self)) if not one.startswith("_")]
            hint = suggest(name, known, _MEANT) or "See: help(memlake.Chain)"
            raise AttributeError(f"a chain has no method {name!r}. {hint}")

    def _with(self, node: Plan) -> Chain:
        return Chain(self._session, node, self._settings, self._setup)

    def _table(self, action: str = "") -> pa.Table:
        """The rows; with an action they are recorded as a run."""
        return self._session.table(self.plan, self._settings, action)

    def _batches(self, action: str) -> Iterator[pa.RecordBatch]:
        return self._session.batches(self.plan, self._settings, action)

    # -- settings -----------------------------------------------------------------------------

    def settings(self, **given: Any) -> Chain:
        """How functions from here on run: parallel, cache, prefetch, batch_size, engine, recompute, on_error ..."""
        return Chain(self._session, self.plan, self._settings.update(given), self._setup)

    def setup(self, **made: Callable[[], Any]) -> Chain:
        """Values made once in each worker, given to functions by their parameter's name: setup(model=load_model)."""
        for name, make in made.items():
            if not callable(make):
                raise InvalidInput(
                    f"setup({name}=...) takes a function that makes the value.", hint="Like: lambda: load()"
                )
        return Chain(self._session, self.plan, self._settings, {**self._setup, **made})

    # -- rows ---------------------------------------------------------------------------------

    def filter(self, *conditions: Any) -> Chain:
        """Rows for which all conditions hold: filter(C("size") > 10, C("file.path").glob("*.jpg"))."""
        node = self.plan
        for one in conditions:
            node = nodes.Filter(node.schema, (node,), build.condition(one, node.schema))
        return self._with(node)

    def limit(self, count: int) -> Chain:
        """The first rows. Functions of single rows are not called for others."""
        return self._with(build.limit(self.plan, _natural(count, "limit")))

    def offset(self, count: int) -> Chain:
        """All but the first rows."""
        return self._with(build.limit(self.plan, None, _natural(count, "offset")))

    def order_by(self, *columns: Any, descending: bool | Sequence[bool] = False) -> Chain:
        """Sort by columns or expressions; C("x").desc() reverses one of them, `descending` all, or each by a list.

        Missing values come last either way, and NaN is greater than any number.
        """
        return self._with(build.order(self.plan, columns, descending=descending))

    def distinct(self, *columns: Any) -> Chain:
        """One row for each combination of these columns, or of all columns if none is named."""
        on = tuple(build.column(one, self.plan.schema) for one in columns)
        return self._with(nodes.Distinct(self.plan.schema, (self.plan,), on))

    def sample(self, count: int, seed: int | None = None) -> Chain:
        """`count` rows at random; the same seed gives the same rows again."""
        return self.shuffle(seed).limit(count)

    def shuffle(self, seed: int | None = None) -> Chain:
        form = compose(
            f"SELECT * EXCLUDE {PLACE} FROM {{}} ORDER BY hash({PLACE}, {{}})", nodes.with_places(hole(0)), hole(1)
        )
        number = random.getrandbits(31) if seed is None else int(seed)
        node = nodes.Shaped(
            self.plan.schema, (self.plan,), f"shuffle {seed}", form, (number,), frozenset(), seed is not None
        )
        return self._with(node)

    def chunk(self, index: int, total: int) -> Chain:
        """The rows of one of `total` equal shares, counted from 0."""
        if not 0 <= index < total:
            raise InvalidInput(f"chunk {index} of {total}: chunks are counted from 0 to {total - 1}.")
        form = compose(
            f"SELECT * EXCLUDE {PLACE} FROM {{}} WHERE ({PLACE} - 1) % {{}} = {{}}",
            nodes.with_places(hole(0)),
            hole(1),
            hole(2),
        )
        name = f"chunk {index} of {total}"
        return self._with(nodes.Shaped(self.plan.schema, (self.plan,), name, form, (total, index)))

    # -- columns ------------------------------------------------------------------------------

    def select(self, *columns: Any) -> Chain:
        return self._with(build.select(self.plan, columns))

    def select_except(self, *columns: Any) -> Chain:
        return self._with(build.without(self.plan, columns))

    def mutate(self, *unnamed: Any, **columns: Any) -> Chain:
        """New columns from expressions: mutate(area=C("w") * C("h"), renamed="old"). A string names a column."""
        named = {str(one.given_name()): one for one in unnamed if isinstance(one, Expression) and one.given_name()}
        if len(named) != len(unnamed):
            raise InvalidInput("mutate takes name=expression.", hint='Like: mutate(area=C("w") * C("h"))')
        return self._with(build.mutate(self.plan, {**named, **columns}))

    def explode(self, column: Any) -> Chain:
        """A row for each item of a list column."""
        return self._with(build.explode(self.plan, column))

    # -- functions ----------------------------------------------------------------------------

    def map(self, function: Any = None, params: Any = None, output: Any = None, **signals: Callable[..., Any]) -> Chain:
        """A new column from a function of others, bound to its parameters by name: map(n=lambda text: len(text))."""
        return self._call("map", function, params, output, signals)

    def gen(self, function: Any = None, params: Any = None, output: Any = None, **signals: Callable[..., Any]) -> Chain:
        """Any number of new rows from each row; only what the function yields is kept."""
        return self._call("gen", function, params, output, signals)

    def batch_map(
        self, function: Any = None, params: Any = None, output: Any = None, **signals: Callable[..., Any]
    ) -> Chain:
        """A new column from a function of whole batches: NumPy arrays, or Arrow ones where it is annotated so."""
        return self._call("batch_map", function, params, output, signals)

    def agg(
        self,
        function: Any = None,
        partition_by: Any = (),
        params: Any = None,
        output: Any = None,
        **signals: Callable[..., Any],
    ) -> Chain:
        """New rows from groups: the function gets a list for each parameter, and yields rows or returns one value."""
        by = build.as_list(partition_by, "agg")
        call, names = _one(function, output, signals, "agg")
        node = build.aggregate(self.plan, by, call, names, params, settings=self._settings, setup=self._setup)
        return self._with(node)

    def _call(self, kind: build.Kind, function: Any, params: Any, output: Any, signals: Mapping[str, Any]) -> Chain:
        if function is None and not signals:
            raise InvalidInput(f"{kind} needs a function.", hint=f"Like: {kind}(name=function)")
        if kind != "map" or function is not None:
            one, output = _one(function, output, signals, kind)
            signals = {"": one}
        node = self.plan
        for name, one in signals.items():
            made = _output(name, output) if name else output
            node = build.call(node, kind, one, made, params, settings=self._settings, setup=self._setup)
        return self._with(node)

    # -- several chains -----------------------------------------------------------------------

    def group_by(self, *keys: Any, partition_by: Any = None, **made: Any) -> Chain:
        """Aggregates over rows with equal keys: group_by("breed", n=func.count())."""
        by = [] if partition_by is None else build.as_list(partition_by, "group_by")
        return self._with(build.group(self.plan, [*keys, *by], made))

    def merge(
        self,
        right: Chain,
        on: Any,
        right_on: Any = None,
        *,
        inner: bool = False,
        full: bool = False,
        rname: str = "right_",
    ) -> Chain:
        """Join with another chain; rows of this one all stay, unless `inner`. Taken names get the prefix `rname`."""
        how: Literal["INNER", "LEFT", "FULL"] = "INNER" if inner else "FULL" if full else "LEFT"
        keyed = build.add_keys(self.plan, _plan_of(right, "merge"), on, right_on, "merge")
        joined = build.join(keyed.left, keyed.right, keyed.on, how, rname)
        return self._with(build.drop_keys(joined, keyed.made))

    def union(self, *others: Chain) -> Chain:
        node = self.plan
        for one in others:
            node = build.union(node, _plan_of(one, "union"))
        return self._with(node)

    __or__ = __add__ = union

    def subtract(self, other: Chain, on: Any = None, right_on: Any = None) -> Chain:
        """Rows that the other chain does not have, compared by the columns `on`, or by all that both have."""
        right = _plan_of(other, "subtract")
        shared = [name for name in self.plan.schema.names if name in right.schema.names]
        keyed = build.add_keys(self.plan, right, shared if on is None else on, right_on, "subtract")
        left = nodes.Subtract(keyed.left.schema, (keyed.left, keyed.right), keyed.on)
        return self._with(build.drop_keys(left, keyed.made))

    def diff(
        self,
        other: Chain,
        on: Any,
        right_on: Any = None,
        *,
        compare: Any = None,
        added: bool = True,
        deleted: bool = True,
        modified: bool = True,
        same: bool = False,
        status_col: str | None = "diff",
    ) -> Chain:
        """What would make another chain this one: rows added (A), deleted (D), modified (M), the same (S)."""
        wanted = "".join(
            letter for letter, asked in zip("ADMS", (added, deleted, modified, same), strict=True) if asked
        )
        return self._with(
            plan_diff(
                self.plan, _plan_of(other, "diff"), on, right_on, compare=compare, wanted=wanted, status_col=status_col
            )
        )

    def similarity_search(
        self, column: Any, query: Any, *, k: int = 10, metric: str = "cosine", score_column: str | None = None
    ) -> Chain:
        """The k rows nearest to a vector."""
        if metric not in _METRICS:
            raise InvalidInput(f"metric is {metric!r}; it takes one of {', '.join(_METRICS)}.")
        name = score_column or "distance"
        near = self.mutate(**{name: _METRICS[metric](column, query)})
        near = near.order_by(C(name).desc() if metric == "ip" else name).limit(k)
        return near if score_column else near.select_except(name)

    # -- what is there ------------------------------------------------------------------------

    @property
    def schema(self) -> dict[str, str]:
        """The columns and their types; runs the first rows of functions that do not say what they return."""
        return {one.name: arrow.show_type(one) for one in self.arrow_schema}

    @property
    def arrow_schema(self) -> pa.Schema:
        if any(map(is_unknown, self.plan.schema)):
            return self.limit(16)._table().schema
        return self.plan.schema

    @property
    def columns(self) -> list[str]:
        return list(self.plan.schema.names)

    @property
    def name(self) -> str | None:
        return self.record.name if self.record else None

    @property
    def version(self) -> str | None:
        """The number of the version it was read from or saved as, like "1.0.0"."""
        return self.record.version if self.record else None

    def print_schema(self) -> None:
        show_rows.print_schema(self.arrow_schema)

    def explain(self) -> str:
        """The steps, one a line, and where each runs."""
        return show_rows.explain_plan(self.plan)

    def lineage(self, **how: Any) -> Any:
        """Where these rows come from and what was made of them: lineage(up=, down=, depth=, column=)."""
        return graph.of_chain(self._session.context, self, Asked(**how))

    # -- answers ------------------------------------------------------------------------------

    def count(self) -> int:
        return self._session.count(self.plan, self._settings)

    def sum(self, column: Any) -> Any:
        return self._aggregate(func.sum(column))

    def avg(self, column: Any) -> Any:
        return self._aggregate(func.avg(column))

    def min(self, column: Any) -> Any:
        return self._aggregate(func.min(column))

    def max(self, column: Any) -> Any:
        return self._aggregate(func.max(column))

    def _aggregate(self, expression: Expression) -> Any:
        return next(export.tuples(self.group_by(value=expression)._table()))[0]

    def show(self, limit: int = 20, *, flatten: bool = False, transpose: bool = False) -> None:
        """Print the first rows."""
        _natural(limit, "show")
        show_rows.show(self.limit(limit + 1)._table("show"), limit, flatten=flatten, transpose=transpose)

    def persist(self) -> Chain:
        """Run the chain up to here once; the chain that is returned goes on from the result."""
        frame, _ = self._session.frame(self.plan, self._settings)
        origin = Origin("persisted", "", {"plan": self.plan, "trace": frame.trace})
        return self._with(Source(frame.schema, (), origin, lambda: frame, None, frame.content))

    def to_arrow(self) -> pa.Table:
        return self._table("to_arrow")

    def to_reader(self) -> Iterator[pa.RecordBatch]:
        """Rows batch by batch: for more than fits in memory."""
        return self._batches("to_reader")

    def to_pandas(self, *, flatten: bool = False) -> Any:
        return export.to_pandas(self._table("to_pandas"), flatten=flatten)

    def to_polars(self) -> Any:
        return export.to_polars(self._table("to_polars"))

    def to_iter(self, *columns: Any) -> Iterator[tuple[Any, ...]]:
        return self._pick(columns)._tuples("to_iter")

    def _pick(self, columns: Sequence[Any]) -> Chain:
        """These columns; of nested ones the values themselves, where a select would keep what is around them."""
        inner = {f"memlake_{i}": one for i, one in enumerate(columns) if not isinstance(one, str) or "." in one}
        names = [f"memlake_{i}" if f"memlake_{i}" in inner else one for i, one in enumerate(columns)]
        return (self.mutate(**inner) if inner else self).select(*names) if columns else self

    def _tuples(self, action: str) -> Iterator[tuple[Any, ...]]:
        for batch in self._batches(action):
            yield from export.tuples(pa.Table.from_batches([batch]))

    def to_list(self, *columns: Any) -> list[tuple[Any, ...]]:
        return list(self._pick(columns)._tuples("to_list"))

    collect = to_iter

    def to_values(self, column: Any) -> list[Any]:
        return [one for (one,) in self.mutate(value=column).select("value")._tuples("to_values")]

    def to_records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self._tuples("to_records")]

    def to_parquet(self, path: Any, *, partition_cols: Any = (), **options: Any) -> None:
        by = [build.path_of(one, "partition_cols") for one in build.as_list(partition_cols, "partition_cols")]
        export.to_parquet(self._batches("to_parquet"), path, by, options)

    def to_csv(self, path: Any, *, delimiter: str = ",", header: bool = True) -> None:
        export.to_csv(self._batches("to_csv"), path, delimiter, header=header)

    def to_json(self, path: Any) -> None:
        export.to_json(self._batches("to_json"), path, lines=False)

    def to_jsonl(self, path: Any) -> None:
        export.to_json(self._batches("to_jsonl"), path, lines=True)

    def to_storage(
        self,
        output: Any,
        signal: Any = "file",
        placement: str = "fullpath",
        *,
        num_threads: int = 5,
        link_type: str = "copy",
    ) -> int:
        """Copy the files of a column to a folder or bucket; returns how many."""
        values = self.to_values(signal)
        return export.to_storage(values, output, placement, num_threads, link_type)

    def to_database(
        self, table_name: str, connection: Any, *, batch_size: int = 10_000, if_exists: str = "append"
    ) -> int:
        return databases.write(self._batches("to_database"), table_name, connection, batch_size, if_exists)

    def to_pytorch(self, transform: Any = None, *, num_samples: int = 0) -> Any:
        """A torch IterableDataset over the rows."""
        return export.to_pytorch(self, transform, num_samples)

    def to_hf(self) -> Any:
        """A Hugging Face Dataset."""
        return export.to_hf(self._table("to_hf"))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.to_iter()

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.name}: {arrow.show_type(one)}" for one in self.plan.schema)
        return f"Chain({self.record.spec + ', ' if self.record else ''}{shown})"

    # -- keeping ------------------------------------------------------------------------------

    def save(
        self,
        name: str,
        version: str | None = None,
        description: str | None = None,
        attrs: Sequence[str] | None = None,
        update_version: str | None = None,
        *,
        tags: Sequence[str] | None = None,
    ) -> Chain:
        """Run the chain and keep its rows as the next version of a dataset, in one commit.

        If the newest version holds the same rows, they are not stored twice, and the chain returned says `reused`.
        """
        full = names.check_name(name, self._settings.namespace)
        wanted = Wanted(full, version, update_version, description, attrs, tags)
        saved, ran = self._session.save(self.plan, wanted, self._settings)
        chain = Chain(self._session, sources.from_version(self._session.context, saved.version), record=saved.version)
        chain.reused, chain.ran = not saved.new, ran
        return chain


def _one(function: Any, output: Any, signals: Mapping[str, Any], kind: str) -> tuple[Callable[..., Any], Any]:
    """The function of a verb that takes one, and what its result is called."""
    if function is None and len(signals) == 1:
        name, function = next(iter(signals.items()))
        return function, _output(name, output)
    if function is None or signals:
        raise InvalidInput(
            f"{kind} takes one function.", hint=f"Like: {kind}(name=function), or {kind}(function, output=...)"
        )
    return function, output


def _output(name: str, output: Any) -> Any:
    """What a function makes that was given under a name: `output` tells other names, or the type alone."""
    if output is None:
        return name
    return output if isinstance(output, str | Mapping | Sequence) else {name: output}


def _plan_of(other: Any, verb: str) -> Plan:
    if not isinstance(other, Chain):
        raise InvalidInput(f"{verb} takes another chain, not {other!r}. Nothing was run.", hint="Read one first.")
    return other.plan


def _natural(count: Any, verb: str) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InvalidInput(f"{verb} takes a whole number of rows, 0 or more, not {count!r}.")
    return count
