"""Running a function over batches of rows, in whichever process. Knows no repo, no plan, no file of ours.

A Work is sent to workers once; then each batch in is one Done out. `gen` and `agg` (a gen over groups) are a map to a
list of rows, taken apart later.
"""

from __future__ import annotations

import inspect
import pickle
import reprlib
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memlake.dataset import executors, feedback, storages
from memlake.dataset.parts.arrow_types import plain_type
from memlake.dataset.run_settings import Settings
from memlake.dataset.types import arrow, files
from memlake.dataset.types.classes import is_shape
from memlake.dataset.types.field_metadata import is_unknown
from memlake.dataset.types.files import File
from memlake.errors import InvalidInput, Unavailable
from memlake.named_tuple import NamedTuple
from memlake.records import count

MANY = frozenset({"gen", "agg"})  # the kinds of functions that make any number of rows
ROWS = "memlake.rows"  # the one column of what a gen made, a list of rows for each row; no name of a user has a dot


class NoRows(TypeError):
    """What a function returned where rows were asked for."""


class Failed(NamedTuple):
    """A row on which a function raised: its place in the batch, what was said, where; the exception, if it travels."""

    row: int
    text: str
    trace: str = ""
    error: Exception | None = None
    killed: bool = False  # it raised nothing: the process it ran in died


class Done(NamedTuple):
    """What a batch came to: one column a field, a value a row (a list of rows for gen); rows that failed hold null."""

    table: pa.Table
    failed: tuple[Failed, ...]
    seconds: float
    looked: frozenset[str] = frozenset({files.PLACE})  # what the function looked at of its files, beside their bytes


@dataclass
class Work:
    kind: str
    function: Callable[..., Any]
    binds: Mapping[str, str]  # parameter -> column path
    wanted: Mapping[str, Any]
    schema: pa.Schema  # of the batches
    made: tuple[pa.Field, ...]
    single: bool
    settings: Settings
    setup: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    access: Mapping[str, storages.Access] = field(default_factory=dict)
    cache: tuple[Path, int] | None = None  # where remote bytes are kept, and how many
    given: dict[str, Any] | None = None  # what setup made, in this process
    bears_loss: ClassVar = True  # rows of which workers die are told by name: see Calling

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "given": None}

    def open(self) -> None:
        """Once in a process: reach the storages, load the models."""
        storages.ACCESS.update(self.access)
        if self.cache is None:
            storages.use(None)
        else:
            storages.use(self.cache[0], limit=self.cache[1])
        if self.given is None:
            self.given = {name: make() for name, make in self.setup.items()}

    def __call__(self, batch: pa.Table) -> Done:
        try:
            if self.given is None:
                self.open()
            begun = time.perf_counter()
            looked = set[str]()
            run = self._run_batches if self.kind == "batch_map" else self._run_rows
            values, failed = run(batch, looked)
            table = self._table(values)  # what a File that is returned says is looked at here
            return Done(table, failed, time.perf_counter() - begun, frozenset(looked))
        except MemoryError as error:
            raise Unavailable(
                f"a process ran out of memory over {count(batch.num_rows, 'row')}. Nothing was saved; finished "
                "rows are kept.",
                hint="Use fewer workers (settings(parallel=...)), or return less for a row.",
            ) from error

    def is_one_by_one(self, batch: pa.Table) -> bool:
        """Does each row begin when the one before it has ended, and nothing is read ahead for it?"""
        if self.kind == "batch_map" or self.settings.threads > 1 or self._is_async():
            return False
        first = batch.slice(0, 1).to_pylist() if self.settings.prefetch else []
        # Is this a file elsewhere, as its column holds it?
        return not any(
            (
                isinstance(value, dict)
                and {"source", "path"} <= value.keys()
                and not str(value["source"]).startswith("file:")
            )
            for row in first
            for value in row.values()
        )

    def lost(self, rows: int, how: str) -> Done:
        """Rows of which their worker died, as rows that failed."""
        nothing: list[Any] = [None] * rows
        values = [[nothing] * len(self.made)] if self.kind == "batch_map" else nothing
        text = f"its worker process {how}, each time it was run alone"
        return Done(self._table(values), tuple(Failed(i, text, killed=True) for i in range(rows)), 0.0)

    # -- rows ---------------------------------------------------------------------------------

    def _run_rows(self, batch: pa.Table, looked: set[str]) -> tuple[list[Any], tuple[Failed, ...]]:
        call, rows = self._bind_function(), self._arguments(batch, looked)
        if self._is_async() or self.settings.threads > 1:
            return self._run_together(call, list(rows))
        out: list[Any] = []
        failed: list[Failed] = []
        while True:  # again after each row that failed
            try:
                for row in rows:
                    out.append(call(*row))  # noqa: PERF401  how many there are says which row failed
                return out, tuple(failed)
            except Exception as error:  # noqa: BLE001  the user's own function
                failed.append(self._failure(error, len(out)))
                out.append(None)
                if self.settings.on_error == "raise":
                    return out + [None] * (batch.num_rows - len(out)), tuple(failed)

    def _failure(self, error: Exception, row: int) -> Failed:
        if isinstance(error, NoRows):  # it raised nothing: there is no place in it to show
            return Failed(row, str(error))
        text = "".join(traceback.format_exception_only(error)).strip()
        if self.settings.on_error != "raise":
            return Failed(row, text)
        # Where a function failed, without our own frames; all of them where no other is left
        own = (error.__traceback__ and error.__traceback__.tb_next) or error.__traceback__
        frames = traceback.extract_tb(own)
        theirs = [frame for frame in frames if not feedback.is_ours(frame.filename)]
        return Failed(row, text, "".join(traceback.format_list(theirs or frames)), _picklable(error))

    def _run_together(self, call: Callable[..., Any], rows: list[Any]) -> tuple[list[Any], tuple[Failed, ...]]:
        """Several rows under way at once, in threads or as coroutines; the results in the order of the rows."""

        def attempt(*row: Any) -> Any:
            try:
                return call(*row), None
            except Exception as error:  # noqa: BLE001  the user's own function
                return None, error

        async def attempt_async(*row: Any) -> Any:
            try:
                return await call(*row), None
            except Exception as error:  # noqa: BLE001  the user's own function
                return None, error

        if self._is_async():
            results = executors.run_async(attempt_async, rows, self.settings.concurrency)
        else:
            results = executors.run_threads(attempt, rows, self.settings.threads)
        out: list[Any] = [None] * len(rows)
        failed: list[Failed] = []
        for index, (value, error) in results:
            out[index] = value
            if error is not None:
                failed.append(self._failure(error, index))
        return out, tuple(sorted(failed, key=lambda one: one.row))

    def _bind_function(self) -> Callable[..., Any]:
        """The function of the bound columns alone, in their order."""
        function = self.function
        fixed = {name: value for name, value in (self.given or {}).items() if name in self._parameters()}
        names = list(self.binds)
        if fixed or self._needs_names():
            plain = function

            def function(*row: Any) -> Any:
                return plain(**dict(zip(names, row, strict=True)), **fixed)

        return self._gather_rows(function) if self.kind in MANY else function

    def _is_async(self) -> bool:
        called = inspect.unwrap(self.function) if inspect.isroutine(self.function) else self.function
        kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        return any(is_one(one) for is_one in kinds for one in (called, getattr(called, "__call__", None)))  # noqa: B004

    def _gather_rows(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What a gen yields for a row, or an agg for a group, as a list, whichever way it yields."""

        def as_rows(made: Any) -> list[Any]:
            made = made[()] if isinstance(made, np.ndarray) and not made.ndim else made
            items = made if self._is_many(made) else self._single_value(made)
            return [one if self.single else _tuple(one) for one in items]

        async def call_async(*row: Any) -> list[Any]:
            made = function(*row)
            return as_rows([one async for one in made] if hasattr(made, "__aiter__") else await made)

        return call_async if self._is_async() else lambda *row: as_rows(function(*row))

    def _is_many(self, made: Any) -> bool:
        """Are these rows, and not the values of one?"""
        if isinstance(made, tuple) and not self.single:
            return all(isinstance(one, tuple | list) for one in made)
        return _is_iterable(made)

    def _single_value(self, made: Any) -> Sequence[Any]:
        """A single value: of a group its aggregate, of a row a mistake, unless it is nothing."""
        if self.kind == "agg":
            return [(None,) * len(self.made) if made is None and not self.single else made]
        if made is None:
            return ()
        raise NoRows(
            f"it returned {reprlib.repr(made)}, {type(made).__name__}, which is not a list of rows. Return a list, or "
            "yield each row; for one value a row there is map."
        )

    def _parameters(self) -> set[str]:
        try:
            return set(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            return set()

    def _needs_names(self) -> bool:
        """True when the function cannot be called by position with just the bound columns."""
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):
            return False
        plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return not any(p.kind == p.VAR_POSITIONAL for p in parameters) and plain[: len(self.binds)] != list(self.binds)

    def _arguments(self, batch: pa.Table, looked: set[str]) -> Iterator[tuple[Any, ...]]:
        if not self.binds:
            return iter([()] * batch.num_rows)
        columns = []
        for name, path in self.binds.items():
            field, array = read_column(batch, self.schema, path)
            values = arrow.decode(field, array, self.wanted.get(name))
            if is_file(field):
                files.watch(values, looked)
            columns.append(self._read_ahead(values))
        return zip(*columns, strict=True)

    def _read_ahead(self, column: list[Any]) -> Iterable[Any]:
        """Remote files are read ahead of the function; anything else is as it is."""
        first = next((one for one in column if one is not None), None)
        remote = isinstance(first, File) and not files.is_local(first)
        return storages.prefetch(column, self.settings.prefetch) if remote and self.settings.prefetch else column

    # -- batches ------------------------------------------------------------------------------

    def _run_batches(self, batch: pa.Table, looked: set[str]) -> tuple[list[Any], tuple[Failed, ...]]:
        """A batch that fails fails for each of its rows."""
        out: list[Any] = []
        failed: list[Failed] = []
        for start in range(0, batch.num_rows, self.settings.batch_size):
            piece = batch.slice(start, self.settings.batch_size)
            try:
                out.append(self._run_batch(piece, looked))
            except InvalidInput:
                raise
            except Exception as error:  # noqa: BLE001  the user's own function
                failed += [self._failure(error, start + i) for i in range(piece.num_rows)]
                out.append([[None] * piece.num_rows for _ in self.made])
        return out, tuple(failed)

    def _run_batch(self, piece: pa.Table, looked: set[str]) -> list[Any]:
        arguments = {}
        for name, path in self.binds.items():
            field, array = read_column(piece, self.schema, path)
            values = arguments[name] = _as_wanted(field, array, self.wanted.get(name))
            if is_file(field):
                files.watch(values, looked)
        made = self.function(**arguments, **{k: v for k, v in (self.given or {}).items() if k in self._parameters()})
        columns = [made] if self.single else list(made)
        if len(columns) != len(self.made):
            raise InvalidInput(f"the function returned {len(columns)} columns for {len(self.made)} names.")
        for one, column in zip(self.made, columns, strict=True):
            if not hasattr(column, "__len__") or len(column) != piece.num_rows:
                told = f"{len(column)} values" if hasattr(column, "__len__") else f"{column!r}, which is not a column,"
                rows = count(piece.num_rows, "row")
                raise InvalidInput(f"{one.name}: {told} for a batch of {rows}. Nothing was saved.")
        return columns

    # -- what came of it ----------------------------------------------------------------------

    def _table(self, values: list[Any]) -> pa.Table:
        if self.kind == "batch_map":
            columns: list[Any] = [[part[i] for part in values] for i in range(len(self.made))]
            arrays = [_concat_column(one, parts) for one, parts in zip(self.made, columns, strict=True)]
        elif self.kind in MANY:
            arrays = [self._encode_lists(values)]
        else:
            lists = [values] if self.single else _transpose(values, len(self.made))
            arrays = [_encode(one, column) for one, column in zip(self.made, lists, strict=True)]
        return pa.Table.from_arrays([array for array, _ in arrays], schema=pa.schema([made for _, made in arrays]))

    def _encode_lists(self, values: list[Any]) -> tuple[pa.Array, pa.Field]:
        """What a gen yielded: one list of structs a row."""
        flat = [item for items in values for item in items or ()]
        lists = [flat] if self.single else _transpose(flat, len(self.made))
        arrays = [_encode(one, column) for one, column in zip(self.made, lists, strict=True)]
        made = pa.StructArray.from_arrays([array for array, _ in arrays], fields=[one for _, one in arrays])
        offsets = [0]
        for items in values:
            offsets.append(offsets[-1] + len(items or ()))
        array = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), made)
        return array, pa.field(ROWS, array.type)


def _picklable(error: Exception) -> Exception | None:
    """The exception, when it can be sent to another process."""
    try:
        return pickle.loads(pickle.dumps(error.with_traceback(None)))  # type: ignore[no-any-return]  # our own bytes
    except Exception:  # noqa: BLE001  whatever the user's class does
        return None


def _encode(made: pa.Field, values: Sequence[Any]) -> tuple[pa.Array, pa.Field]:
    if is_unknown(made):
        made = arrow.infer_field(made.name, values)
    if pa.types.is_null(made.type):
        return pa.nulls(len(values)), made
    return arrow.encode(made, values), made


def _concat_column(made: pa.Field, parts: list[Any]) -> tuple[pa.Array, pa.Field]:
    """One column from what a batch function returned, array by array."""
    if all(isinstance(part, pa.Array | pa.ChunkedArray) for part in parts) and is_unknown(made):
        made = pa.field(made.name, plain_type(parts[0].type))
    if not is_unknown(made):
        arrays = [p if isinstance(p, pa.Array | pa.ChunkedArray) else arrow.encode(made, p) for p in parts]
        chunks = [c for a in arrays for c in (a.chunks if isinstance(a, pa.ChunkedArray) else [a])]
        return pa.concat_arrays([chunk.cast(made.type) for chunk in chunks]), made
    return _encode(made, [value for part in parts for value in part])


def _transpose(rows: Sequence[Any], count: int) -> list[list[Any]]:
    """Tuples turned to columns; a row that failed is null in each."""
    out: list[list[Any]] = [[] for _ in range(count)]
    for row in rows:
        try:
            values = (None,) * count if row is None else _tuple(row)
        except NoRows as error:
            raise InvalidInput(f"{error}. Nothing was saved.", hint=f"Return a tuple of {count} values.") from error
        if len(values) != count:
            raise InvalidInput(f"the function returned {len(values)} values for {count} columns.")
        for column, value in zip(out, values, strict=True):
            column.append(value)
    return out


def _tuple(row: Any) -> tuple[Any, ...]:
    """The values of a row of several columns; of a text or a dict, tuple() would take letters or keys."""
    if not _is_iterable(row) and not isinstance(row, tuple):
        raise NoRows(f"the function made {reprlib.repr(row)}, {type(row).__name__}, for a row of several columns")
    return tuple(row)


def _is_iterable(made: Any) -> bool:
    """Is it made of items, and not one value?"""
    if isinstance(made, str | bytes | bytearray | memoryview | Mapping) or is_shape(type(made)):
        return False
    return isinstance(made, Iterable)


def is_file(made: pa.Field) -> bool:
    return pa.types.is_struct(made.type) and tuple(one.name for one in made.type) == files.NAMES


def read_column(batch: pa.Table, schema: pa.Schema, path: str) -> tuple[pa.Field, pa.Array]:
    """A column, or a field of a nested one, with the field that says what it is."""
    first, *rest = path.split(".")
    made, column = schema.field(first), batch.column(first)
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    for name in rest:
        made, array = made.type.field(name), pc.struct_field(array, name)
    return made, array


def _as_wanted(made: pa.Field, array: pa.Array, want: Any) -> Any:
    """A column as a batch function asks for it: an Arrow array, a list, or (the default) a NumPy array."""
    if isinstance(want, type) and issubclass(want, pa.Array):
        return array
    if want is list or getattr(want, "__origin__", None) is list:
        return arrow.decode(made, array)
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
    return array.to_numpy(zero_copy_only=False)
