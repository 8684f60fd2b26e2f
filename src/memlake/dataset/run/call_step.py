"""Function steps: what is remembered is recalled, the rest is run, and what was dear is remembered for next time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from memlake.dataset import executors, feedback, storages
from memlake.dataset.memo.results import DEAR, KEY, UNKNOWN, Known
from memlake.dataset.parts import column_hashes, parquet
from memlake.dataset.parts.frames import Fragment, Frame
from memlake.dataset.plan.nodes import Call
from memlake.dataset.run import aligned, call_results, file_keys
from memlake.dataset.run.call_results import Answer
from memlake.dataset.run.call_work import MANY, ROWS, Done, Failed, Work
from memlake.dataset.run.engine import Engine, Ran
from memlake.dataset.run.killer_rows import Suspects
from memlake.dataset.run.plan_keys import RunServices, field_key, function_key, opaque_in
from memlake.dataset.run.work_items import Array, Item, Pace, Paced, Shard, cut, take_until
from memlake.dataset.run_settings import Settings
from memlake.errors import InvalidInput, RowFailed
from memlake.rows.sql import compose, identifier, several

_WORTH = 0.05  # seconds: what ran longer is sealed and remembered
_SOON, _FLUSH = 0.1, 1.0  # seconds of work a kill may cost: a quarter of what was done, within these
_KEYED = 2e-6  # seconds a row's key costs: no shard gets keys before functions took as long


class Calling:
    """One function step of one run."""

    def __init__(self, engine: Engine, call: Call, services: RunServices) -> None:
        self.engine, self.call, self.services = engine, call, services
        self.settings = call.settings or Settings()
        self.frame = engine.frame(call.inputs[0])
        self.print = services.fingerprint(call)
        fields = [self.frame.schema.field(name) for name in call.columns]
        self.function = column_hashes.of(function_key(call, self.print), [field_key(one) for one in fields])
        self.files = file_keys.find(call, self.frame.schema, self.function, self._row_keys)
        self.remembers = not opaque_in(call, self.print)
        self.recalls = self.remembers and not self.settings.recompute
        self.pace, self.recalled, self.failures = Pace(), 0, 0
        self.waiting: list[tuple[Shard, Array, pa.Table]] = []
        self.pieces: set[int] = set()
        self.asks_files = False  # is anything known of rows by what is in their files?
        self.last: list[Item] = []  # what killed workers in earlier runs
        self.begun = self.flushed = time.monotonic()

    def run(self) -> Frame:
        begun = time.perf_counter()
        made = [self._recall(fragment) if self.recalls else None for fragment in self.frame.fragments]
        todo = [i for i, one in enumerate(made) if one is None]
        if todo:
            for index, family in self._compute(todo):
                made[index] = family
        self.engine.ran.append(
            Ran(
                self.call.name,
                self.pace.rows,
                self.recalled,
                self.failures,
                time.perf_counter() - begun,
                self._why_not_recalled(),
            )
        )
        return self._assemble([family for family in made if family is not None])

    def _why_not_recalled(self) -> str:
        opaque = opaque_in(self.call, self.print)
        if opaque:
            return f"memlake cannot fingerprint {opaque[0].name} ({opaque[0].kind})"
        if self.settings.recompute:
            return "recompute=True"
        if not self.pace.rows:
            return ""
        return "some rows are new or changed" if self.recalled else "nothing is remembered of it for these rows"

    # -- what is remembered -------------------------------------------------------------------

    def _recall(self, fragment: Fragment) -> Answer | None:
        found = self.engine.recall.family(self._shard_key(fragment))
        if found is None:
            return None
        self.recalled += fragment.visible
        return Answer(*found)

    def _shard_key(self, fragment: Fragment) -> str:
        """What a shard is an answer to: the function, and what the columns it reads say in the rows that are kept."""
        # One that reads nothing of a row is told apart by all of it: a new row never gets the answer of an old one.
        read = [path.split(".")[0] for path in self.call.binds.values()] or self.frame.schema.names
        marks = [fragment.home(name).mark_of(name) for name in read]
        kept = fragment.kept.family.marks[0] if fragment.kept else ""
        names = [one.name for one in self.call.made]  # they are the names in the part
        return column_hashes.of("shard", self.function, names, fragment.rows, kept, *marks)

    # -- what has to run ----------------------------------------------------------------------

    def _compute(self, todo: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        known = self._find_known() if self.recalls and self.call.binds else None
        self.pieces = set(known.pieces) if known else set()
        self.suspects, self.work = Suspects(self.engine.recall, self.function), self._work()
        finished: list[Shard] = []
        self.pace.total = sum(self.frame.fragments[i].visible for i in todo)
        watch = self.suspects.watch(here=self.settings.engine == "local")
        with watch, self.services.progress(self.call.name, self.pace.total) as progress, self._flush_on_failure():
            for shard, rows, done in self._answers(self._items(todo, known, finished)):
                self.pace.add(len(rows), done.seconds)
                shard.left -= len(rows)
                shard.looked[rows] = file_keys.level_of(done.looked)
                if done.failed and self.settings.on_error == "raise":
                    first = done.failed[0].row
                    self._remember(shard, rows[:first], Done(done.table.slice(0, first), (), 0))
                    raise self._row_error(shard, rows, done.failed[0])
                self.failures += len(done.failed)
                shard.done.append((rows, done))
                self._remember(shard, rows, done)
                progress(len(rows))
                if not shard.left:
                    finished.append(shard)
                while finished:
                    one = finished.pop(0)
                    yield one.index, self._finish(one, known)
        while finished:
            one = finished.pop(0)
            yield one.index, self._finish(one, known)
        if self.remembers and not self.failures:
            self.engine.recall.drop_pieces(self.pieces)

    def _find_known(self) -> Known | None:
        """What is known of rows, by where their files lie and by what is in them."""
        here = self.engine.recall.known_rows(self.function)
        anywhere = self.engine.recall.known_rows(self.files.function) if self.files else None
        self.asks_files = anywhere is not None
        return here.join(anywhere) if here and anywhere else here or anywhere

    def _items(self, todo: Sequence[int], known: Known | None, finished: list[Shard]) -> Iterator[Item]:
        for index in todo:
            shard = self._read_shard(index, known)
            if not self.pace.rows:
                self.pace.one_by_one = self.work.is_one_by_one(shard.table)
            left = self._set_suspects_aside(shard)
            while len(left):
                size = self.pace.next()
                yield shard, left[:size]
                left = left[size:]
            if not len(shard.todo):  # every row was known
                finished.append(shard)

    def _set_suspects_aside(self, shard: Shard) -> Array:
        """The rows to run but for those that cost workers in earlier runs: they come last."""
        if not self.suspects:
            return shard.todo
        suspected = self.suspects.find(self._keys_of(shard, shard.todo))
        if suspected.any():
            self.last.append((shard, shard.todo[suspected]))
        return shard.todo[~suspected]

    def _answers(self, items: Iterator[Item]) -> Iterator[tuple[Shard, Array, Done]]:
        """Once an item has cost workers, no other is begun until its rows were run, each alone."""
        lost: list[Item] | None = None
        while lost is None or lost:
            lost = []
            for shard, rows, done in self._map(take_until(items, until=lost), self.settings.parallel or True):
                if isinstance(done, executors.Lost):
                    lost.append((shard, rows))
                    self.suspects.add(self._keys_of(shard, rows))
                else:
                    yield shard, rows, done
            yield from self._alone(lost)
        yield from self._alone(self.last)

    def _alone(self, items: Sequence[Item]) -> Iterator[tuple[Shard, Array, Done]]:
        """Each row, or batch, by itself and never in this process: one that kills its worker there has failed."""
        each = cut(items, self.settings.batch_size if self.call.kind == "batch_map" else 1)
        for shard, rows, done in self._map(iter(each), 1) if each else ():
            if isinstance(done, executors.Lost):
                self.suspects.blame(self._keys_of(shard, rows))
                if self.settings.on_error == "raise":  # those not yet run may go with others the next time
                    self.suspects.settle()
                yield shard, rows, self.work.lost(len(rows), done.how)
            else:
                self.suspects.add_answered(self._keys_of(shard, rows))
                yield shard, rows, done
        self.suspects.settle()

    def _map(self, items: Iterator[Item], parallel: int) -> Iterator[tuple[Shard, Array, Done | executors.Lost]]:
        under_way: dict[int, Item] = {}

        def tables() -> Iterator[pa.Table]:
            for number, (shard, rows) in enumerate(items):
                under_way[number] = shard, rows
                yield shard.rows(rows)

        paced, wants_none = Paced(tables(), self.pace), (self.settings.parallel, self.settings.engine) == (1, "local")
        executor = executors.choose(parallel, self.settings.engine, apart=bool(self.suspects))
        try:
            answered = executor.map(self.work, paced)
        except InvalidInput as error:
            if not wants_none or self.suspects.has_rows:
                raise
            # It cannot be sent to a worker. Somebody else may have ended that process, so it is tried here again.
            feedback.warn(
                f"an earlier process ended while it ran {self.call.name}(). It cannot run in a worker process, so it "
                f"runs in this one again: {error.message.removesuffix(' Nothing was run.')} If the function ends the "
                "program again, make what cannot be sent in setup=; memlake then finds the row and names it."
            )
            answered = executors.choose().map(self.work, paced)
        for number, done in answered:
            yield *under_way.pop(number), done

    @contextlib.contextmanager
    def _flush_on_failure(self) -> Iterator[None]:
        """Whatever ends the work, what was answered is written down, unless shards hold it."""
        try:
            yield
        except BaseException:
            self._flush(force=True)
            raise
        if self.failures:
            self._flush(force=True)

    def _work(self) -> Work:
        call = self.call
        columns = pa.schema([self.frame.schema.field(name) for name in call.columns])
        return Work(
            call.kind, call.function, call.binds, call.wanted, columns, call.made, call.single, self.settings,
            call.setup, dict(storages.ACCESS), self.services.cache if self.settings.cache else None,
        )  # fmt: skip

    def _read_shard(self, index: int, known: Known | None) -> Shard:
        fragment = self.frame.fragments[index]
        table = self.engine.parts.read_fragment(fragment, self.call.columns)
        keys = self._row_keys(table) if known is not None else None
        found = known.find(keys) if known is not None and keys is not None else np.full(table.num_rows, -1)
        looked = np.full(table.num_rows, UNKNOWN, np.uint8)
        if known is not None:
            looked[found >= 0] = known.looked[found[found >= 0]]
            if self.asks_files:
                self._find_by_files(table, known, found, looked)
        todo = np.flatnonzero(found < 0)
        self.recalled += table.num_rows - len(todo)
        return Shard(index, fragment, self._shard_key(fragment), table, keys, found, todo, looked, left=len(todo))

    def _find_by_files(self, table: pa.Table, known: Known, found: Array, looked: Array) -> None:
        """Rows that are answered for other files of the same bytes, into `found`."""
        rows = np.flatnonzero(found < 0)
        if not len(rows) or self.files is None:
            return
        worth = self.engine.recall.cost_of(self.files.function) * len(rows)
        keys = self._file_keys(table.take(pa.array(rows)), worth, after=False)
        if keys is None:
            return
        for level, each in ((file_keys.BYTES, keys.by_bytes), (file_keys.PATH, keys.by_path)):
            at = np.where(keys.known & (found[rows] < 0), known.find(each), -1)
            found[rows[at >= 0]] = at[at >= 0]
            looked[rows[at >= 0]] = level

    def _file_keys(self, table: pa.Table, worth: float, *, after: bool) -> file_keys.Keys | None:
        assert self.files is not None
        return self.files.read(table, self.engine.recall, self.services.find_tracked, worth=worth, after=after)

    def _keys_of(self, shard: Shard, rows: Array) -> Array:
        if shard.keys is None:
            shard.keys = self._row_keys(shard.table)
        return shard.keys[rows]

    def _row_keys(self, table: pa.Table) -> Array:
        """128 bits for each row, of what the function reads of it."""
        if not table.num_columns:
            return np.zeros(table.num_rows, KEY)
        name = self.engine.register(table)
        fields = (
            compose("{} := {}", identifier(f"c{i}"), identifier(column)) for i, column in enumerate(table.column_names)
        )
        sql = compose(
            "SELECT md5_number_lower(told) AS a, md5_number_upper(told) AS b FROM "
            "(SELECT CAST(to_json(struct_pack({})) AS VARCHAR) AS told FROM {})",
            several(fields),
            identifier(name),
        )
        found = self.engine.sql(sql).read_all()
        self.engine.con.unregister(name)
        pairs = np.stack([found.column("a").to_numpy(), found.column("b").to_numpy()], axis=1)
        return np.ascontiguousarray(pairs).view(KEY).reshape(-1)

    def _remember(self, shard: Shard, rows: Array, done: Done) -> None:
        if not self.remembers or not self.call.binds or self.pace.cost < DEAR or not len(rows):
            return
        good = np.ones(len(rows), bool)
        good[[one.row for one in done.failed]] = False
        self.waiting.append((shard, rows[good], done.table.filter(pa.array(good))))
        self._flush()

    def _is_dear(self, shard: Shard) -> bool:
        """Are its rows to be remembered one by one? A slow start is not yet a dear row."""
        if not self.call.binds or self.pace.cost < DEAR:
            return False
        return shard.keys is not None or self.pace.seconds >= _KEYED * len(shard.table)

    def _flush(self, *, force: bool = False) -> None:
        """Write down what was answered since the last time: often at first, so that a run killed soon gets on."""
        pause = min(max((self.flushed - self.begun) / 4, _SOON), _FLUSH)
        if self.waiting and (force or time.monotonic() - self.flushed > pause):
            dear = [
                (self._keys_of(shard, rows), shard.looked[rows], table)
                for shard, rows, table in self.waiting
                if self._is_dear(shard)
            ]
            if dear:
                keys, looked = (np.concatenate([one[i] for one in dear]) for i in (0, 1))
                table = call_results.concat([one[2] for one in dear])
                self.pieces.add(self.engine.recall.keep_piece(self.function, keys, table, looked))
            self.waiting, self.flushed = [], time.monotonic()

    def _row_error(self, shard: Shard, rows: Array, failed: Failed) -> RowFailed:
        row = shard.table.slice(int(rows[failed.row]), 1).to_pylist()[0]
        told = ", ".join(f"{name}={_brief(value)}" for name, value in row.items())
        batch = "the batch that begins with " if self.call.kind == "batch_map" else ""
        where, cure = batch or "the row with ", "Mend the function"
        if failed.killed:
            # The place of a row in the whole, counted from 0
            before = sum(fragment.visible for fragment in self.frame.fragments[: shard.index])
            where = f"{batch}row {before + int(rows[failed.row])}, with "
            cure = "Let it need less memory" if "SIGKILL" in failed.text else f"{cure}, which ends the process it is in"
        column = "" if self.call.kind in MANY else " or on_error='column'"
        error = RowFailed(
            f"{self.call.kind} {', '.join(f.name for f in self.call.made)}: {self.call.name}() failed on {where}"
            f"{told}:\n{failed.trace}{failed.text}\nNothing was saved; finished rows are remembered.",
            hint=f"{cure}, or go on without such rows: settings(on_error='skip'){column}.",
        )
        error.__cause__ = failed.error
        return error

    # -- what came of it ----------------------------------------------------------------------

    def _finish(self, shard: Shard, known: Known | None) -> Answer:
        """The family of a shard whose every row is answered."""
        table, failed = self._merge_answers(shard, known)
        shard.done = []
        if shard.fragment.kept is not None:
            table = call_results.scatter(table, aligned.mask_of(self.engine, shard.fragment))
        family = parquet.make_family(table.combine_chunks())
        answer = Answer(family, tuple(table.schema), failed)
        if self.remembers and not failed and (self.pace.cost >= DEAR or self.pace.seconds >= _WORTH):
            answer = answer._replace(family=self.engine.parts.try_seal(family))
            if answer.family.oid is not None:
                self._keep(shard, answer)
        return answer

    def _keep(self, shard: Shard, answer: Answer) -> None:
        recall, cost = self.engine.recall, self.pace.cost
        keys = self._keys_of(shard, np.arange(len(shard.table))) if self._is_dear(shard) else None
        by_files = self._keys_by_files(shard) if keys is not None and self.files is not None else None
        if shard.fragment.kept is not None:
            mask = aligned.mask_of(self.engine, shard.fragment)
            keys, by_files = (_spread(each, mask) if each is not None else None for each in (keys, by_files))
        recall.keep_family(shard.key, self.function, answer.family, answer.fields, cost=cost, keys=keys)
        if by_files is not None and self.files is not None:
            key = column_hashes.of("files", shard.key)
            recall.keep_family(key, self.files.function, answer.family, answer.fields, cost=cost, keys=by_files)

    def _keys_by_files(self, shard: Shard) -> Array | None:
        """Keys by what is in the files, of rows whose answers hang on no more, if reading them is worth it."""
        rows = np.flatnonzero(shard.looked < file_keys.PLACE)
        if not len(rows):
            return None
        keys = self._file_keys(shard.table.take(pa.array(rows)), self.pace.cost * len(rows) / 2, after=True)
        if keys is None or not keys.known.any():
            return None
        keyed = np.where(shard.looked[rows] == file_keys.PATH, keys.by_path, keys.by_bytes)
        every = np.zeros(len(shard.table), KEY)
        every[rows[keys.known]] = keyed[keys.known]
        return every

    def _merge_answers(self, shard: Shard, known: Known | None) -> tuple[pa.Table, Mapping[int, str]]:
        """Answers old and new, in the order of the rows."""
        tables, places = [], []
        failed = {int(rows[one.row]): one.text for rows, done in shard.done for one in done.failed}
        for rows, done in shard.done:
            tables.append(done.table)
            places.append(rows)
        old = np.flatnonzero(shard.found >= 0)
        if len(old):
            assert known is not None
            for at, table in known.take(shard.found[old]):
                # What a family of answers holds
                tables.append(
                    call_results.rename(
                        table, [pa.field(ROWS, pa.null())] if self.call.kind in MANY else self.call.made
                    )
                )
                places.append(old[at])
        table = call_results.concat(tables)
        order = np.argsort(np.concatenate(places), kind="stable")
        return (table if (np.diff(order) == 1).all() else table.take(pa.array(order))), failed

    def _assemble(self, made: Sequence[Answer]) -> Frame:
        if self.call.kind in MANY:
            # The rows a gen made, taken out of their lists
            tables, counts = [], []
            for fragment, answer in zip(self.frame.fragments, made, strict=True):
                lists = column_hashes.whole(self._table(answer).column(ROWS))
                if fragment.kept is not None:
                    lists = lists.filter(pa.array(aligned.mask_of(self.engine, fragment)))
                tables.append(call_results.flatten(lists))
                counts.append(np.asarray(lists.value_lengths().fill_null(0)))
            every = np.concatenate([*counts, np.zeros(0, np.int64)])
            self.engine.places[id(self.call)] = np.repeat(np.arange(len(every)), every.astype(np.int64))
            tables = [table for table in tables if table.num_rows]
            if not tables:
                return Frame(pa.schema(list(self.call.made)), ())
            tables = call_results.unify(tables)
            return Frame(tables[0].schema, tuple(parquet.fragments(tables, tables[0].schema)))
        made = self._unify(made)
        fields = made[0].fields if made else self.call.made
        names = list(dict.fromkeys([*self.frame.schema.names, *(one.name for one in fields)]))
        known = {one.name: one for one in (*self.frame.schema, *fields)}
        fragments = [
            fragment._replace(families=(*fragment.families, answer.family))
            for fragment, answer in zip(self.frame.fragments, made, strict=True)
        ]
        frame = Frame(pa.schema([known[name] for name in names]), tuple(fragments))
        if not any(answer.failed for answer in made):
            return frame if self.settings.on_error != "column" else self._with_errors(frame, made)
        if self.settings.on_error == "column":
            return self._with_errors(frame, made)
        fragments, at, places = [], 0, list[Array]()
        for fragment, answer in zip(frame.fragments, made, strict=True):
            places.append(np.delete(np.arange(at, at + fragment.visible), list(answer.failed)))
            at += fragment.visible
            mask = np.ones(fragment.rows, bool)
            mask[_places(self.engine, fragment)[list(answer.failed)]] = False
            narrowed = aligned.narrow(self.engine, fragment, mask)
            fragments += [narrowed] if narrowed is not None else []
        self.engine.places[id(self.call)] = np.concatenate(places)
        return Frame(frame.schema, tuple(fragments))

    def _unify(self, made: Sequence[Answer]) -> Sequence[Answer]:
        """Fragments may have shown different types; parts that were written are then read and written again."""
        if all(one.fields == made[0].fields for one in made[1:]):
            return made
        tables = [self._table(answer) for answer in made]
        return [
            answer._replace(family=parquet.make_family(table), fields=tuple(table.schema))
            for answer, table in zip(made, call_results.unify(tables), strict=True)
        ]

    def _table(self, answer: Answer) -> pa.Table:
        """A family as a table, in the fields it was made with."""
        found = self.engine.parts.table(answer.family, answer.family.columns)
        return parquet.fit_schema(found, pa.schema(list(answer.fields)))

    def _with_errors(self, frame: Frame, made: Sequence[Answer]) -> Frame:
        name = f"{self.call.made[0].name}_error"
        fields = pa.schema([pa.field(name, pa.string())])

        def tables() -> Iterator[pa.Table]:
            for fragment, answer in zip(frame.fragments, made, strict=True):
                texts: list[str | None] = [None] * fragment.rows
                places = _places(self.engine, fragment)
                for row, text in answer.failed.items():
                    texts[places[row]] = text
                yield pa.table([pa.array(texts, pa.string())], schema=fields)

        return aligned.with_family(frame, [*frame.schema.names, name], fields, tables())


def _spread(keys: Array, mask: Array) -> Array:
    """The keys of the kept rows of a fragment among those of all its rows."""
    every = np.zeros(len(mask), KEY)
    every[mask] = keys
    return every


def _places(engine: Engine, fragment: Fragment) -> Array:
    """For each kept row its place among all rows of the fragment."""
    return np.arange(fragment.rows) if fragment.kept is None else np.flatnonzero(aligned.mask_of(engine, fragment))


def _brief(value: Any) -> str:
    if isinstance(value, dict) and {"source", "path"} <= value.keys():  # a file
        return f"{value['source']}/{value['path']}"
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
