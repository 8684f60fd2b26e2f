"""Lineage of single rows: which rows and files each came from, and which rows rest on it. Reads what saves traced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from memlake.config import repo_root
from memlake.dataset.context import DatasetContext
from memlake.dataset.lineage.graph import Versions, dataset_id
from memlake.dataset.parts.frames import Trace
from memlake.dataset.parts.version_record import Version
from memlake.dataset.run import trace
from memlake.errors import Corrupt, NotFound, Purged
from memlake.named_tuple import NamedTuple
from memlake.records import count
from memlake.versions.lineage import commit_facts
from memlake.versions.lineage.graph import Graph

Array = np.ndarray[Any, Any]
_SHOWN = 6  # values of a row that are shown beside it


class Step(NamedTuple):
    """Rows of one thing, counted from 1 (none: all of it), what they lead to, and `why` that may not be all."""

    kind: str
    name: str
    rows: tuple[int, ...] = ()
    why: str = ""
    steps: tuple[Step, ...] = ()

    def describe(self, *, every: bool) -> str:
        rows = f": {_name_rows(self.rows, every=every)}" if self.rows else ""
        return f"{self.name}{rows}" + (f"  ({self.why})" if self.why else "")

    def to_json(self, *, every: bool) -> dict[str, Any]:
        listed = {"rows": list(self.rows)} if every or len(self.rows) == 1 else {}
        steps = [one.to_json(every=every) for one in self.steps]
        told = {"kind": self.kind, "name": self.name, "number": len(self.rows), **listed, "why": self.why}
        return {**told, "steps": steps}


class Row(NamedTuple):
    """One row that was asked about, and what it was made from."""

    number: int
    values: Mapping[str, Any]
    steps: tuple[Step, ...]


class RowLineage(NamedTuple):
    """Where rows came from, one by one, and what rests on all of them together."""

    of: str
    number: int  # rows that were asked about
    rows: tuple[Row, ...] = ()  # the first of them
    used_by: tuple[Step, ...] = ()
    every: bool = False  # list rows one by one where there are many

    def to_text(self) -> str:
        lines = [f"{self.of}: {count(self.number, 'row')}" if self.number else self.of]
        for row in self.rows:
            values = ", ".join(f"{name}={_brief(one)}" for name, one in [*row.values.items()][:_SHOWN])
            lines += [f"row {row.number:,}  ({values})", *_branches(row.steps, every=self.every)]
        if len(self.rows) < self.number and self.rows:
            lines.append(f"and {self.number - len(self.rows):,} more")
        if self.used_by:
            lines += ["used by", *_branches(self.used_by, every=self.every)]
        return "\n".join(lines if len(lines) > 1 else [*lines, "nothing is known of what rests on it"])

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"row": one.number, "values": dict(one.values), "steps": [s.to_json(every=self.every) for s in one.steps]}
            for one in self.rows
        ]
        used = [one.to_json(every=self.every) for one in self.used_by]
        return {"of": self.of, "number": self.number, "rows": rows, "used_by": used}

    def __str__(self) -> str:
        return self.to_text()


class FileRows(NamedTuple):
    """A file as a commit has it, and some of its rows; None for all."""

    path: str  # inside the repo
    oid: str
    rows: tuple[int, ...] | None = None


class RowTracer:
    """Walks over the traces of all versions of a branch, each read once."""

    def __init__(self, context: DatasetContext) -> None:
        self._context = context
        self._graph = Graph()
        found, head = Versions(context, self._graph), context.head()
        tips = [head] if head else []
        commit_facts.add_commits(self._graph, context.here, tips, use_id=found.use_id, apart=frozenset())
        self._versions = found
        self._traces: dict[str, tuple[Trace | None, pa.Table | None, str]] = {}
        self._origins: dict[tuple[str, bytes], tuple[Step, ...]] = {}
        self._users: dict[tuple[str, bytes], tuple[Step, ...]] = {}

    # -- up -------------------------------------------------------------------------------------

    def list_origins(self, version: Version, places: Array) -> tuple[Step, ...]:
        """What these rows of a version were made from, down to files and values."""
        key = version.spec, places.tobytes()
        if key not in self._origins:  # two ways may lead to the same rows
            self._origins[key] = self._list_origins(version, places)
        return self._origins[key]

    def _list_origins(self, version: Version, places: Array) -> tuple[Step, ...]:
        told, table, why = self._read(version)
        if told is None or table is None:
            return (Step("unknown", "not traced", (), why),)
        wanted = _find_places(self._context, told, table, places)
        steps: list[Step] = []
        for index, source in enumerate(told.sources):
            if source["kind"] != "group" and index in wanted:
                steps += self._describe_source(version, source, wanted[index])
        notes = [Step("note", note) for note in told.notes]
        return (*steps, *notes) or (Step("unknown", "no row", (), "it was made without a row of a source"),)

    def _describe_source(self, version: Version, source: Mapping[str, Any], found: Sequence[Any]) -> Iterator[Step]:
        kind, name = str(source["kind"]), str(source["name"])
        if kind == "dataset":
            parent = self._versions.find(source)
            rows = _count_from_one(found)
            if parent is None:
                spec = str(source.get("spec") or f"{name}@{source.get('version')}")
                yield Step("dataset", spec, rows, "no longer here")
            else:
                yield Step("dataset", parent.spec, rows, "", self.list_origins(parent, np.asarray(found)))
        elif kind == "storage":
            yield from (Step("file", str(one)) for one in found)
        elif kind == "file":
            told = _list_files(version, source)
            for file, places in _part_by_file(told, np.asarray(found)):
                yield Step("file", file["name"], _count_from_one(places))
        else:
            yield Step(kind, f"{kind} ({name})" if name else kind, _count_from_one(found))

    # -- down -----------------------------------------------------------------------------------

    def list_users(self, version: Version, places: Array) -> tuple[Step, ...]:
        """Versions with rows that were made from these, and files that commits made from such versions."""
        key = version.spec, places.tobytes()
        if key not in self._users:
            self._users[key] = self._list_users(version, places)
        return self._users[key]

    def _list_users(self, version: Version, places: Array) -> tuple[Step, ...]:
        steps: list[Step] = []
        for other in self._versions.list_children(version):
            told, _, why = self._read(other)
            sources = [] if told is None else [
                index
                for index, one in enumerate(told.sources)
                if one["kind"] == "dataset" and _is_of(self._versions.find(one), version)
            ]  # fmt: skip
            steps += self._follow(other, dict.fromkeys(sources, places), why)
        return (*steps, *self._list_made(dataset_id(version.name, version.version), set()))

    def list_users_of_file(self, file: FileRows) -> tuple[Step, ...]:
        steps: list[Step] = []
        wanted = None if file.rows is None else np.asarray(file.rows) - 1
        uri = "file://" + os.path.join(os.path.realpath(repo_root(self._context.folder)), file.path)
        for version in self._versions.by_name.values():
            told, table, _ = self._read(version)
            if told is None or table is None or version.deleted:
                continue
            sought: dict[int, Array] = {}
            for index, source in enumerate(told.sources):
                if source["kind"] == "storage":
                    sought[index] = np.asarray([uri], dtype=object)
                elif source["kind"] == "file" and (span := _find_span(version, source, file)) is not None:
                    first, rows = span
                    last = np.iinfo(np.int64).max if rows is None else rows
                    inside = np.arange(last) if wanted is None and rows is not None else wanted
                    sought[index] = _Everything if inside is None else inside[inside < last] + first
            steps += self._follow(version, sought, "")
        id = f"file:files/{file.path}@{file.oid[:10]}"
        return (*steps, *self._list_made(id, set(), besides=frozenset(["dataset"])))

    def _follow(self, version: Version, sought: Mapping[int, Array], why: str) -> Iterator[Step]:
        """The rows of a version that came from one of these rows of its sources."""
        told, table, _ = self._read(version)
        if told is None or table is None:
            yield Step("dataset", version.spec, (), why)
            return
        places = _find_rows(self._context, told, table, sought)
        if len(places):
            yield Step("dataset", version.spec, _count_from_one(places), "", self.list_users(version, places))

    def _list_made(self, id: str, seen: set[str], besides: frozenset[str] = frozenset()) -> tuple[Step, ...]:
        """What commits made from a thing as a whole: files, checkpoints, and what these led to."""
        steps = []
        for edge in self._graph.edges.values():
            node = self._graph.nodes.get(edge.target)
            is_followed = edge.source == id and node is not None and edge.target not in seen
            if not is_followed or node is None or node.kind in besides or (
                node.kind == "dataset" and id.startswith("dataset:")
            ):  # fmt: skip
                continue
            seen.add(edge.target)
            steps.append(Step(node.kind, node.name, (), node.about, self._list_made(edge.target, seen)))
        return tuple(steps)

    def _read(self, version: Version) -> tuple[Trace | None, pa.Table | None, str]:
        """The trace of a version and its columns, or why there is none."""
        if version.spec not in self._traces:
            self._traces[version.spec] = self._read_once(version)
        return self._traces[version.spec]

    def _read_once(self, version: Version) -> tuple[Trace | None, pa.Table | None, str]:
        try:
            told = self._context.frame(version).trace
            if told is None:
                return None, None, f"{version.spec} was not saved by a chain that memlake traced"
            if told.why:
                return None, None, told.why
            return told, trace.read_columns(self._context.parts, told, version.rows), ""
        except (Corrupt, NotFound, Purged, KeyError, ValueError) as error:
            message = error.message if isinstance(error, Corrupt | NotFound | Purged) else "it cannot be read"
            return None, None, message


def _is_of(found: Version | None, version: Version) -> bool:
    return found is not None and found.spec == version.spec


_Everything: Any = None  # stands for all rows of a source


def _find_places(context: DatasetContext, told: Trace, table: pa.Table, places: Array) -> dict[int, list[Any]]:
    """Of each source the rows that these came from, sorted, each once; groups on the way are opened."""
    found: dict[int, set[Any]] = {}

    def add(rows: pa.Table, chosen: Sequence[int]) -> None:
        for name in rows.column_names:
            values = _flat(rows.column(name).take(pa.array(chosen, pa.int64())))
            found.setdefault(_index(name), set()).update(values)

    add(table, [int(one) for one in places])
    for index in reversed(range(len(told.sources))):  # a group is of sources before it
        source = told.sources[index]
        if source["kind"] == "group" and found.get(index):
            inner = trace.read_tables(context.parts, told.groups[source["group"]])
            add(inner, sorted(found[index]))
    return {index: sorted(values) for index, values in found.items() if values}


def _find_rows(context: DatasetContext, told: Trace, table: pa.Table, sought: Mapping[int, Any]) -> Array:
    """The rows that came from one of these rows of some sources, through whatever groups."""
    wanted = dict(sought)
    for index, source in enumerate(told.sources):
        if source["kind"] == "group":
            inner = trace.read_tables(context.parts, told.groups[source["group"]])
            numbers = _match(inner, wanted)
            if len(numbers):
                wanted[index] = numbers
    return _match(table, wanted)


def _match(table: pa.Table, wanted: Mapping[int, Any]) -> Array:
    """Rows of which some column holds one of the values that are wanted of it."""
    hit = np.zeros(table.num_rows, bool)
    for name in table.column_names:
        index = _index(name)
        if index not in wanted:
            continue
        column = table.column(name).combine_chunks()
        rows, values = np.arange(table.num_rows), column
        if pa.types.is_list(column.type):
            rows, values = np.asarray(pa.compute.list_parent_indices(column)), column.flatten()
        there = np.asarray(values.is_valid())
        if wanted[index] is not None:
            there &= np.isin(np.asarray(values.to_numpy(zero_copy_only=False)), wanted[index])
        hit[rows[there]] = True
    return np.flatnonzero(hit)


def _flat(column: pa.ChunkedArray) -> list[Any]:
    flat = column.combine_chunks().flatten() if pa.types.is_list(column.type) else column
    return [one for one in flat.to_pylist() if one is not None]


def _index(name: str) -> int:
    return int(name.removeprefix("from_"))


# -- files ------------------------------------------------------------------------------------------


def _list_files(version: Version, source: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of a source in their order, with what provenance recorded of each: its path in the repo, its hash."""
    origins = version.provenance.get("origins") or ()
    known = {
        str(one.get("path")): one
        for origin in origins
        if isinstance(origin, Mapping)
        for one in origin.get("files") or ()
    }
    files = []
    for one in source.get("files") or ():
        recorded = known.get(str(one["path"]), {})
        files.append({**one, "oid": recorded.get("oid"), "name": str(recorded.get("file") or one["path"])})
    return files


def _part_by_file(files: Sequence[Mapping[str, Any]], places: Array) -> Iterator[tuple[Mapping[str, Any], Array]]:
    first = 0
    for file in files:
        rows = file.get("rows")
        if rows is None:  # one file, or too many to count: then only the first is certain
            if len(files) == 1:
                yield file, places
            else:
                yield {"name": f"{len(files):,} files"}, places
            return
        inside = places[(places >= first) & (places < first + rows)] - first
        if len(inside):
            yield file, inside
        first += rows


def _find_span(version: Version, source: Mapping[str, Any], file: FileRows) -> tuple[int, int | None] | None:
    """Where the rows of a file begin among those of a source, and how many there are."""
    first = 0
    for one in _list_files(version, source):
        if one["name"] == file.path and one["oid"] == file.oid:
            return first, one.get("rows")
        if one.get("rows") is None:
            return None
        first += one["rows"]
    return None


# -- words ------------------------------------------------------------------------------------------


def _count_from_one(places: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(one) + 1 for one in places)


def _name_rows(rows: Sequence[int], *, every: bool) -> str:
    if len(rows) == 1:
        return f"row {rows[0]:,}"
    return "rows " + ", ".join(f"{one:,}" for one in rows) if every else count(len(rows), "row")


def _branches(steps: Sequence[Step], *, every: bool, seen: set[Any] | None = None) -> Iterator[str]:
    """A tree of steps; what stands above already is not told twice, because ways may meet again and again."""
    known = set() if seen is None else seen
    for place, step in enumerate(steps):
        last, key = place == len(steps) - 1, (step.name, step.rows)
        above = "  (see above)" if key in known and step.steps else ""
        yield f"{'└── ' if last else '├── '}{step.describe(every=every)}{above}"
        if key not in known:
            known.add(key)
            below = _branches(step.steps, every=every, seen=known)
            yield from (f"{'    ' if last else '│   '}{line}" for line in below)


def _brief(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 30 else f"{text[:27]}..."
