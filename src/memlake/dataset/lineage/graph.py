"""What saves record of how rows came to be, as nodes and edges: storages, files, code, and what was made."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memlake.config import repo_root
from memlake.dataset.context import DatasetContext
from memlake.dataset.parts import version_record
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import column_sources
from memlake.dataset.plan.nodes import Call, Plan, Source
from memlake.dataset.types.names import ROOM
from memlake.errors import Corrupt, NotFound, Purged
from memlake.records import Commit, count, short
from memlake.versions.lineage import commit_facts
from memlake.versions.lineage.graph import MANY, Asked, Columns, Graph, Lineage
from memlake.versions.paths import FILES

if TYPE_CHECKING:
    from memlake.dataset.chain import Chain

CHAIN = "chain:"


def of_version(context: DatasetContext, version: Version, asked: Asked) -> Lineage:
    if asked.column is not None and asked.column.partition(".")[0] not in version.schema.names:
        raise NotFound(
            f"{version.spec} has no column {asked.column!r}.", hint=f"It has: {', '.join(version.schema.names)}."
        )
    return gather(context).graph.around(dataset_id(version.name, version.version), asked)


def of_chain(context: DatasetContext, chain: Chain, asked: Asked) -> Lineage:
    """Of a chain that was not saved: what its plan reads, and where that came from."""
    if chain.record is not None and isinstance(chain.plan, Source):
        return of_version(context, chain.record, asked)
    found = gather(context)
    found.add_chain(chain.plan)
    return found.graph.around(CHAIN, asked)


def gather(context: DatasetContext) -> Versions:
    """Everything that versions and commits recorded."""
    graph, head = Graph(), context.head()
    found = Versions(context, graph)
    commit_facts.add_commits(graph, context.here, [head] if head else [], use_id=found.use_id, apart=frozenset())
    return found


class Versions:
    """The versions of a branch and what they were made of, added to a graph.

    `tips`: commits of other branches that are asked about; where both number other rows alike, theirs count.
    """

    def __init__(self, context: DatasetContext, graph: Graph, tips: Iterable[Commit] = ()) -> None:
        self._context, self._head, self.graph = context, context.head(), graph
        self.by_name = {(one.name, one.version): one for one in context.all(deleted=True)}
        for one in (one for tip in tips if tip != self._head for one in context.all(tip, deleted=True)):
            known = self.by_name.get((one.name, one.version))
            if known is None or known.content != one.content:  # else what was said of it since counts
                self.by_name[one.name, one.version] = one
        versions = list(self.by_name.values())
        self._by_content: dict[str, list[Version]] = {}
        for one in versions:
            self._by_content.setdefault(one.content, []).append(one)
            self.version_id(one)
        for one in versions:
            self._add_version(one)

    def version_id(self, one: Version) -> str:
        about = f"{count(one.rows, 'row')}, {count(len(one.schema), 'column')}"
        return self.graph.add_node(
            dataset_id(one.name, one.version), "dataset", one.spec, f"{about}, deleted" if one.deleted else about
        )

    def _add_version(self, one: Version) -> None:
        told, target = one.provenance, dataset_id(one.name, one.version)
        known = told.get("columns")
        for parent in _list_records(told, "parents"):
            spec = str(parent.get("spec") or f"{parent.get('name')}@{parent.get('version')}")
            self.graph.add_edge(self._parent(parent, spec), target, _columns_from(known, spec))
        for storage in _list_records(told, "storages"):
            uri = str(storage.get("uri"))
            source = self._storage(uri)
            if isinstance(files := storage.get("files"), list | int):
                self.graph.file_counts[source, target] = files if isinstance(files, int) else len(files)
            self.graph.add_edge(source, target, _columns_from(known, uri))
        for origin in _list_records(told, "origins"):
            named = f"{origin.get('kind')} {origin.get('name')}".strip()  # how `columns` names it
            for source in self._origin(origin):
                self.graph.add_edge(source, target, _columns_from(known, named))
        if opened := _list_records(told, "opened"):
            for source in self._origin({"kind": "opened", "name": one.spec, "files": opened}):
                self.graph.add_edge(source, target)
        for code in self._code(told):
            self.graph.add_edge(code, target, _columns_made(known))
        self.graph.add_facts(target, one.spec, params=one.params, metrics=one.metrics)

    def find(self, parent: Mapping[str, Any]) -> Version | None:
        """The version that was read, by name and number; by its content if it was renamed or renumbered since."""
        name, version, content = parent.get("name"), parent.get("version"), parent.get("content")
        found = self.by_name.get((str(name), str(version)))
        alike = self._by_content.get(str(content), [])
        if (found is None or content not in (None, found.content)) and alike:
            return next((one for one in alike if one.version == version), alike[0])
        return found

    def list_children(self, version: Version) -> list[Version]:
        """The versions that were made from this one."""
        made = (target for source, target in self.graph.edges if source == dataset_id(version.name, version.version))
        ids = {dataset_id(*key): one for key, one in self.by_name.items()}
        return [ids[id] for id in made if id in ids and not ids[id].deleted]

    def _parent(self, parent: Mapping[str, Any], spec: str) -> str:
        found = self.find(parent)
        if found is None:
            return self.graph.add_node(f"dataset:{spec}", "dataset", spec, "no longer here")
        return self.version_id(found)

    def _storage(self, uri: str) -> str:
        return self.graph.add_node(f"storage:{uri}", "storage", uri)

    def _origin(self, origin: Mapping[str, Any]) -> list[str]:
        """Ids of what an origin names: a few files one by one, else what it says of itself."""
        files = [one for one in _list_records(origin, "files") if "path" in one]
        if 0 < len(files) <= MANY:
            return [self._file(one) for one in files]
        kind, name = str(origin.get("kind") or "values"), str(origin.get("name") or "")
        if files:
            number = count(int(origin.get("count") or len(files)), "file")
            return [self.graph.add_node(f"{kind}:{name}", "file", name, number)]
        # Values of a script have no name of their own: what they hold tells them apart.
        key = str(origin.get("content") or "")
        return [self.graph.add_node(f"{kind}:{name}:{key}", "values", name or kind, kind if name else "")]

    def _file(self, told: Mapping[str, Any]) -> str:
        """A file that was read; one of this repo is the file its commits tell of, as it was then."""
        path, oid, here = str(told["path"]), told.get("oid"), told.get("file")
        history = self._context.here.history
        if isinstance(oid, str) and isinstance(here, str):
            if _is_oid(oid) and not history.objects.find_missing([oid]):
                return self.graph.add_file(FILES + here, oid)
            return self.graph.add_node(f"file:{path}@{short(oid)}", "file", path, f"file {short(oid)}, not committed")
        root = os.path.realpath(repo_root(self._context.folder))
        full = os.path.realpath(path)
        if oid is None and full.startswith(f"{root}{os.sep}") and self._head is not None:
            # Recorded without a hash, as of a large file: what is known is the one that is here now.
            name = FILES + os.path.relpath(full, root).replace(os.sep, "/")
            entry = history.entries(self._head, [name]).get(name)
            if entry is not None:
                return self.graph.add_file(name, entry.oid)
        return self.graph.add_node(f"file:{path}", "file", path)

    def _code(self, told: Mapping[str, Any]) -> Iterator[str]:
        functions = _list_records(told, "functions")
        for one in functions:
            key = str(one.get("fingerprint") or "")
            name = str(one.get("name") or "function")
            yield self.graph.add_node(f"code:{name}:{key}", "code", f"{name}()", f"code {key[:10]}" if key else "code")
        if not functions and told.get("source"):
            key = hashlib.sha256(str(told["source"]).encode()).hexdigest()[:10]
            name = str(told.get("source_name") or told.get("source_kind") or "script")
            yield self.graph.add_node(f"code:{name}:{key}", "code", name, f"code {key}")

    def use_id(self, use: Mapping[str, Any]) -> str:
        path = str(use["path"])
        if path.startswith(ROOM):
            name, _, version = path.removeprefix(ROOM).rpartition("/")
            told = {"name": name, "version": version, "content": self._content(str(use.get("oid") or ""))}
            return self._parent(told, f"{name}@{version}")
        return commit_facts.add_use(self.graph, use)

    def _content(self, oid: str) -> str | None:
        """The rows that a record named: a merge may have given its number to others."""
        with contextlib.suppress(NotFound, Purged, Corrupt):
            return version_record.decode(self._context.here.history.objects.read(oid)).content if oid else None
        return None

    def add_chain(self, plan: Plan) -> None:
        self.graph.add_node(CHAIN, "chain", "this chain", count(len(plan.schema), "column"))
        known = column_sources.made_of(plan)
        for node in column_sources.walk(plan):
            if isinstance(node, Source) and node.origin.kind != "persisted":
                for source in self._read(node):
                    self.graph.add_edge(source, CHAIN, _columns_from(known, column_sources.source_name(node)))
            elif isinstance(node, Call):
                code = self.graph.add_node(f"code:{node.name}", "code", f"{node.name}()", node.kind)
                self.graph.add_edge(code, CHAIN, _columns_made(known))

    def _read(self, node: Source) -> list[str]:
        kind, name, detail = node.origin
        if kind == "dataset":
            return [self._parent({**detail, "spec": name}, name)]
        if kind == "storage":
            return [self._storage(str(uri)) for uri in detail.get("uris") or [name]]
        return self._origin({"kind": kind, "name": name, "files": [{"path": path} for path in detail.get("paths", ())]})


def _is_oid(text: str) -> bool:
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)


def dataset_id(name: str, version: str) -> str:
    return f"dataset:{name}@{version}"


def _list_records(told: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """What provenance tells under a key: records; one that is only a text names itself."""
    found: Iterable[Any] = told.get(key) or ()
    return [one if isinstance(one, Mapping) else {"spec": one, "uri": one, "name": one} for one in found]


def _columns_from(known: Any, parent: str) -> Columns | None:
    """(column there, column here) of a parent; None when the plan did not know."""
    if not isinstance(known, Mapping) or not known:
        return None
    return tuple(
        (str(theirs), str(ours))
        for ours, sources in known.items()
        for spec, theirs in sources or ()
        if parent == spec or parent in spec.split(", ")  # several storages that are read as one
    )


def _columns_made(known: Any) -> Columns | None:
    """Columns that are not just one of a parent's, as they were: code made them, out of no column of its own."""
    if not isinstance(known, Mapping) or not known:
        return None
    return tuple(
        ("", str(ours)) for ours, from_ in known.items() if [str(theirs) for _, theirs in from_ or ()] != [ours]
    )
