"""Datasets: what a repo knows of typed rows. Begins chains, and lists, compares, exports and deletes versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memlake.calls import check_names
from memlake.dataset import RECALL, erase, feedback, storages
from memlake.dataset import compare as compare_rows
from memlake.dataset import export as export_rows
from memlake.dataset import join_rows as merge_two
from memlake.dataset import save as save_rows
from memlake.dataset.chain import Chain
from memlake.dataset.compare import Differences
from memlake.dataset.context import DatasetContext
from memlake.dataset.export import Exported
from memlake.dataset.join_rows import JoinedRows
from memlake.dataset.lineage import graph, process_facts, provenance, runs
from memlake.dataset.lineage.rows import FileRows, Row, RowLineage, RowTracer
from memlake.dataset.lineage.runs import Run
from memlake.dataset.memo import listings
from memlake.dataset.memo.results import Memo
from memlake.dataset.parts import version_record
from memlake.dataset.parts.parquet import Parts
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import build
from memlake.dataset.plan.nodes import Origin
from memlake.dataset.read import sources
from memlake.dataset.save import Wanted
from memlake.dataset.search_rows import find_rows, read_rows
from memlake.dataset.session import Session
from memlake.dataset.types import names
from memlake.errors import InvalidInput, NotFound, Nothing
from memlake.objects.layout import now
from memlake.objects.store import Objects
from memlake.records import MergeHow, count
from memlake.reports import PurgeReport
from memlake.versions.checkout.context import Checkout
from memlake.versions.lineage.graph import Asked, Lineage
from memlake.versions.upkeep import purge as purge_objects
from memlake.versions.verbs.write import Group

_TRACED = 10  # rows whose origins are told one by one


class Datasets:
    def __init__(self, context: DatasetContext) -> None:
        self.context = context

    @property
    def session(self) -> Session:
        return Session(lambda: self.context)

    # -- beginning ----------------------------------------------------------------------------

    @check_names
    def read_dataset(
        self, name: str, version: str | int | None = None, *, as_of: str | None = None, branch: str | None = None
    ) -> Chain:
        """The rows of a dataset: the newest version, or `name@1.2.0`, `name@>=1,<2`, `name@branch`, `name@tag`,
        `name@commit`. What looks like a number is a version's first, then a branch, a tag, a commit.
        """
        if branch is not None:
            name, version = f"{names.split_spec(name)[0]}@{branch}", None
        found = self.context.find(name, version, as_of)
        feedback.report({"dataset": name if version is as_of is None else found.spec, "spec": found.spec})
        return self.of(found)

    @check_names
    def read_storage(
        self,
        uri: Any,
        *,
        type: str = "binary",
        recursive: bool = True,
        column: str = "file",
        update: bool = True,
        anon: bool | None = None,
        client_config: Mapping[str, Any] | None = None,
    ) -> Chain:
        """The files of a folder or bucket, one a row, by reference: their bytes are read when a function asks.

        The storage is listed when the chain runs; update=False is content with the last listing there is.
        """
        access = storages.Access(anon, dict(client_config or {}))
        uris = [uri] if isinstance(uri, str | os.PathLike) else list(uri)
        asked = listings.Asked(listings.absolute_uris(uris), type, column, recursive, access, update)
        return Chain(self.session, sources.from_listing(lambda: self.context, asked))

    def read_values(self, output: Any = None, **columns: Any) -> Chain:
        """Rows from lists, one a column: read_values(x=[1, 2], name=["a", "b"])."""
        types = output if isinstance(output, Mapping) or output is None else dict.fromkeys(columns, output)
        return self._rows(sources.from_values(columns, types), "values")

    @check_names
    def read_records(self, records: Any, schema: Mapping[str, Any] | None = None) -> Chain:
        """Rows from dictionaries."""
        given = [records] if isinstance(records, Mapping) else records
        return self._rows(sources.from_records(given or [], schema), "records")

    @check_names
    def read_arrow(self, table: Any) -> Chain:
        """Rows of an Arrow table, batch, reader, or anything that speaks Arrow's C stream."""
        return self._rows(sources.from_arrow(table), "arrow")

    @check_names
    def read_pandas(self, frame: Any) -> Chain:
        return self._rows(sources.from_pandas(frame), "pandas")

    @check_names
    def read_polars(self, frame: Any) -> Chain:
        return self._rows(sources.from_arrow(frame), "polars")

    def read_hf(self, dataset: Any, *, split: str | None = None, **options: Any) -> Chain:
        """Rows of a Hugging Face dataset, or of the one a name means."""
        return self._rows(sources.from_hf(dataset, split, options), "hf")

    @check_names
    def read_parquet(self, path: Any, *, partitioning: str | None = "hive", union_by_name: bool = False) -> Chain:
        options = {"hive_partitioning": partitioning == "hive", "union_by_name": union_by_name}
        return Chain(
            self.session,
            sources.from_files(
                "parquet", sources.expand_paths(lambda: self.context, path, (".parquet", ".pq")), options
            ),
        )

    @check_names
    def read_csv(
        self, path: Any, *, delimiter: str | None = None, header: bool = True, types: Mapping[str, str] | None = None
    ) -> Chain:
        """Rows of CSV files. The first line names the columns; a line with more or fewer values is an error."""
        paths = sources.expand_paths(lambda: self.context, path, (".csv", ".tsv", ".csv.gz"))
        return Chain(self.session, sources.delimited_files(paths, delimiter, header=header, types=types))

    @check_names
    def read_json(self, path: Any, *, format: str = "auto") -> Chain:
        """Rows of JSON files: a list of objects each, or one object a line.

        A field that is text in some and a number, a list or an object in others is a text column: of a text the text
        itself, of all else its JSON. So is one of fractions and of whole numbers beyond 2**53, which no float can hold.
        """
        options = {"format": {"json": "array", "jsonl": "newline_delimited"}.get(format, format)}
        paths = sources.expand_paths(lambda: self.context, path, (".json", ".jsonl", ".ndjson"))
        return Chain(self.session, sources.from_files("json", paths, options))

    @check_names
    def read_jsonl(self, path: Any) -> Chain:
        return self.read_json(path, format="jsonl")

    @check_names
    def read_database(self, query: str, connection: Any, params: Any = None) -> Chain:
        """Rows of a query over a DB-API or SQLAlchemy connection, or of a table by its name."""
        return self._rows(sources.from_database(query, connection, params), "database")

    def _rows(self, table: pa.Table, kind: str) -> Chain:
        return Chain(self.session, sources.from_table(table, Origin(kind, count(table.num_rows, "row"))))

    # -- versions ------------------------------------------------------------------------

    def promote(self, number: int, name: str) -> Chain:
        """Keep the rows of an earlier run as a dataset, with the provenance of that run."""
        run = runs.get(self.context, number)
        wanted = Wanted(names.check_name(name), description=f"of run {run.number} ({run.action})")
        with self.context.parts.hold():
            frame = self.context.parts.seal(runs.frame(self.context, run))
            facts = provenance.fields(dict(run.provenance))
            saved = save_rows.save(self.context, wanted, frame, facts)
        process_facts.note(self.context, saved, wanted, facts)
        return self.read_dataset(saved.version.spec)

    def get(self, spec: str) -> Version:
        """The version a spec means: `pets`, `pets@1.2.0`, `pets@>=1,<2`, `pets@branch`."""
        return self.context.find(spec)

    def of(self, version: Version) -> Chain:
        """A chain over the rows of this version."""
        return Chain(self.session, sources.from_version(self.context, version), record=version)

    def preview(self, spec: str, rows: int = 10) -> pa.Table:
        """The first rows."""
        return self.session.table(build.limit(sources.from_version(self.context, self.get(spec)), rows))

    @check_names
    def diff(self, old: str, new: str, *, key: Sequence[str] = (), limit: int | None = 10) -> Differences:
        """What differs between two versions: columns, rows, vectors, metrics, params.

        `key`: the columns that tell rows apart; without them those that `.memlakeattributes` declares
        (`datasets/pets key=id`), the path of files, a unique column, or none, and rows are compared as a multiset.
        `limit`: how many rows of each kind are told; None for all.
        """
        keys = (key,) if isinstance(key, str) else tuple(key)
        return compare_rows.compare_versions(self.context, self.get(old), self.get(new), key=keys, limit=limit)

    def merge(
        self,
        ours: str,
        theirs: str,
        *,
        on: Sequence[str] = (),
        base: str | None = None,
        strategy: str | None = None,
        choices: Mapping[str, str] | None = None,
    ) -> JoinedRows:
        """Join two versions into the next one of the first's dataset, by key and cell, as `merge` joins table files.

        `on`: the columns that tell rows apart; without them the path of files, else a unique column. `base`: the
        version that both come from, if not the newest before both. A cell that both changed differently is a Conflict,
        unless `choices` ({"id=17: price": "theirs"}) or `strategy` ("ours", "theirs", "union", "latest") settle it.
        """
        for side in (strategy, *(choices or {}).values()):
            if side and side not in merge_two.SIDES:
                raise InvalidInput(f"{side!r} is not a side.", hint=f"Write one of: {', '.join(merge_two.SIDES)}")
        how = MergeHow(strategy=strategy or "", choices=choices or {})
        ready = merge_two.join_rows(self.session, ours, theirs, merge_two.Wish(tuple(on), base, how))
        saved = Chain(self.session, ready.plan).save(ready.ours.name)
        assert saved.version is not None
        return JoinedRows(
            self.get(f"{ready.ours.name}@{saved.version}"), ready.ours, ready.theirs, ready.base, ready.key,
            bool(saved.reused), ready.notes,
        )  # fmt: skip

    def export(self, spec: str, target: Any, *, format: str | None = None, force: bool = False) -> Exported:
        """Write a version as plain files: one named like `pets.parquet`, or a folder of them."""
        record = self.get(spec)
        return export_rows.export(
            record,
            self.session.batches(sources.from_version(self.context, record)),
            Path(target),
            form=format,
            force=force,
        )

    def lineage(
        self,
        of: str | Chain,
        *,
        up: bool = True,
        down: bool = True,
        depth: int | None = None,
        column: str | None = None,
    ) -> Lineage:
        """Where rows came from, to storages, files and code, and what was made of them; or only of one column."""
        asked = Asked(up, down, depth, column)
        if isinstance(of, Chain):
            return graph.of_chain(self.context, of, asked)
        return graph.of_version(self.context, self.get(of), asked)

    def row_lineage(
        self, spec: str, where: str | None = None, *, up: bool = True, down: bool = True, rows: bool = False
    ) -> RowLineage:
        """Which rows and files each row that fits `where` came from (`id = 17`), and what rests on these rows.

        `rows`: where many rows count, as of an aggregate, name each of them.
        """
        version, tracer = self.get(spec), RowTracer(self.context)
        places = find_rows(self.session, version, where)
        if where is not None and not len(places):
            raise NotFound(f"no row of {version.spec} fits {where!r}.")
        first = [] if not up else read_rows(self.session, version, places[:_TRACED])
        found = [
            Row(int(place) + 1, values, tracer.list_origins(version, np.asarray([place])))
            for place, values in zip(places, first, strict=False)
        ]
        used = tracer.list_users(version, places) if down and len(places) else ()
        return RowLineage(version.spec, len(places), tuple(found), used, rows)

    def rows_from_file(self, file: FileRows, *, rows: bool = False) -> RowLineage:
        """Which rows of which versions rest on a file, or on some of its rows."""
        used = RowTracer(self.context).list_users_of_file(file)
        return RowLineage(file.path, len(file.rows or ()), (), used, rows)

    # -- what is kept -------------------------------------------------------------------------

    def versions(self, name: str, *, deleted: bool = False) -> list[Version]:
        """Every version of a dataset, oldest first."""
        full = names.check_name(name)
        entries = self.context.entries(full, self.context.head())
        kept = (self.context.read_kept(entries[number]) for number in sorted(entries))
        versions = [one for one in kept if one is not None]
        if not versions:
            self.context.find(full)  # says what is there instead
        return [one for one in versions if deleted or not one.deleted]

    def compare(self, name: str) -> list[dict[str, Any]]:
        """Params and metrics of every version, oldest first; None where a version has none of that name."""
        versions = self.versions(name)
        params = dict.fromkeys(key for one in versions for key in one.params)
        metrics = dict.fromkeys(key for one in versions for key in one.metrics)
        return [
            {"version": one.version, "created": one.created, "rows": one.rows,
             "params": {**params, **one.params}, "metrics": {**metrics, **one.metrics}}
            for one in versions
        ]  # fmt: skip

    def runs(self) -> list[Run]:
        """Chains that ended in an answer instead of a save, newest first."""
        return list(runs.list_runs(self.context))

    def run_of(self, number: int) -> Run:
        return runs.get(self.context, number)

    def all(self, *, deleted: bool = False) -> list[Version]:
        return list(self.context.all(deleted=deleted))

    def overview(self, *, deleted: bool = False) -> Chain:
        """Every version as a row: name, version, rows, bytes, schema, params, metrics, author, source ..."""
        return self._rows(version_record.to_table(self.all(deleted=deleted)), "datasets")

    def delete_dataset(self, name: str, version: str | int | None = None, *, all_versions: bool = False) -> list[str]:
        """Delete a version, or all of them: they are no longer read or listed, and can be restored."""
        dataset, spec = names.split_spec(name)
        if version is None and spec is None and not all_versions and len(self.versions(dataset)) > 1:
            raise InvalidInput(
                f"{dataset!r} has {len(self.versions(dataset))} versions. Nothing was deleted.",
                hint=f"Name one, {dataset}@1.0.0, or say all_versions=True.",
            )
        chosen = self.versions(dataset) if all_versions else [self.context.find(name, version)]
        mark = {"time": now(), "by": str(self.context.here.author)}
        return [save_rows.edit(self.context, one, {"deleted": mark}, f"delete {one.spec}").spec for one in chosen]

    def restore_dataset(self, name: str, version: str | int | None = None) -> list[str]:
        """Bring deleted versions back."""
        dataset, spec = names.split_spec(name)
        wanted = str(version) if version is not None else spec
        gone = [one for one in self.versions(dataset, deleted=True) if one.deleted]
        if wanted is not None:
            numbers = set(names.match_versions(wanted, [one.semver for one in gone]))
            gone = [one for one in gone if one.semver in numbers]
        if not gone:
            raise Nothing(f"{name!r} has no deleted versions. Nothing was changed.")
        return [save_rows.edit(self.context, one, {"deleted": None}, f"restore {one.spec}").spec for one in gone]

    def purge(self, spec: str, reason: str, *, with_others: bool = False, leave_derived: bool = False) -> PurgeReport:
        """Erase a version for good: its record in all its edits, its rows, what is remembered of work over them.

        `with_others` erases versions that were made from it too, and its rows where others hold the same parts.
        `leave_derived` leaves versions that were made from it and share no part with it. Cannot be undone.
        """
        context, record = self.context, self.get(spec)
        oid = context.entries(record.name, context.head())[record.semver].oid
        oids, loose = erase.plan_erasure(context.here, [oid], erase.Others(with_others, leave_derived))
        report = purge_objects.purge(context.here, oids, reason, loose=loose)
        _forget_derived(context.folder, context.recall)
        return report

    def move_dataset(self, name: str, to: str) -> list[str]:
        """Rename a dataset with all its versions, in one commit."""
        return save_rows.move(self.context, names.check_name(name), names.check_name(to))


class Store:
    """What all datasets of an open repo share: their parts, and the memo of past work."""

    def __init__(self, folder: Path, objects: Objects, cache_limit: int) -> None:
        self._folder, self._parts, self._limit = folder, Parts(objects), cache_limit
        self.recall = Memo(folder / RECALL, self._parts)

    def datasets(self, here: Checkout, branch: str | None, group: Callable[[], Group | None]) -> Datasets:
        return Datasets(DatasetContext(here, self._folder, self._parts, self.recall, branch, group, self._limit))

    def forget(self) -> None:
        _forget_derived(self._folder, self.recall)

    def close(self) -> None:
        runs.wait()
        process_facts.let_go(self.recall)
        self.recall.close()


def _forget_derived(folder: Path, recall: Memo) -> None:
    """Drop the rows that runs kept and the answers of functions: all derived, made again when needed."""
    runs.wait()
    erase.drop_copies(folder)
    recall.empty()
