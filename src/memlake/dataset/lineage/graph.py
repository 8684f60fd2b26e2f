"""Lineage: the graph over what saves and commits recorded, up to storages, files and code, and down to what was made.

An edge goes from what was read to what was made of it. All edges of a repo are gathered once; a lineage is the part of
them that leads to or from one version.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memlake.config import repo_root
from memlake.dataset.context import DatasetContext
from memlake.dataset.lineage import draw
from memlake.dataset.lineage.draw import Edge, Node
from memlake.dataset.parts import version_record
from memlake.dataset.parts.version_record import Version
from memlake.dataset.plan import column_sources
from memlake.dataset.plan.nodes import Call, Plan, Source
from memlake.dataset.types.names import ROOM
from memlake.errors import Corrupt, NotFound, Purged
from memlake.records import Commit, count, short
from memlake.versions.history import log
from memlake.versions.paths import FILES
from memlake.versions.verbs import show

if TYPE_CHECKING:
    from memlake.dataset.chain import Chain

_MANY = 8  # files of one commit above which they are drawn as one
CHAIN = "chain:"
Columns = tuple[tuple[str, str], ...]


class Lineage(NamedTuple):
    """Nodes and edges around a version or chain. In a notebook it is drawn."""

    root: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]

    def to_text(self) -> str:
        return draw.text(self.root, self.nodes, self.edges)

    def to_json(self) -> dict[str, Any]:
        nodes = [node._asdict() for node in self.nodes.values()]
        return {"root": self.root, "nodes": nodes, "edges": [edge._asdict() for edge in self.edges]}

    def to_mermaid(self) -> str:
        return draw.mermaid(self.root, self.nodes, self.edges)

    def to_svg(self) -> str:
        return draw.svg(self.root, self.nodes, self.edges)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        return self.to_text()


class Asked(NamedTuple):
    """How far to go: upstream, downstream, so many steps, from one column alone."""

    up: bool = True
    down: bool = True
    depth: int | None = None
    column: str | None = None


def of_version(context: DatasetContext, version: Version, asked: Asked) -> Lineage:
    if asked.column is not None and asked.column.partition(".")[0] not in version.schema.names:
        raise NotFound(
            f"{version.spec} has no column {asked.column!r}.", hint=f"It has: {', '.join(version.schema.names)}."
        )
    return _Graph(context).around(_dataset_id(version.name, version.version), asked)


def of_chain(context: DatasetContext, chain: Chain, asked: Asked) -> Lineage:
    """Of a chain that was not saved: what its plan reads, and where that came from."""
    if chain.record is not None and isinstance(chain.plan, Source):
        return of_version(context, chain.record, asked)
    graph = _Graph(context)
    graph.add_chain(chain.plan)
    return graph.around(CHAIN, asked)


class _Graph:
    def __init__(self, context: DatasetContext) -> None:
        self._context, self._head = context, context.head()
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self._files: dict[tuple[str, str], Any] = {}  # how many a storage had when a version was made of it
        versions = list(context.all(deleted=True))
        self._by_name = {(one.name, one.version): one for one in versions}
        self._by_content: dict[str, list[Version]] = {}
        for one in versions:
            self._by_content.setdefault(one.content, []).append(one)
            self._dataset(one)
        for one in versions:
            self._add_version(one)
        self._add_uses()

    # -- gathering ----------------------------------------------------------------------------

    def _node(self, id: str, kind: str, name: str, about: str = "") -> str:
        self.nodes.setdefault(id, Node(id, kind, name, about))
        return id

    def _edge(self, source: str, target: str, columns: Columns | None = None) -> None:
        if source != target:
            self.edges.setdefault((source, target), Edge(source, target, columns))

    def _dataset(self, one: Version) -> str:
        about = f"{count(one.rows, 'row')}, {count(len(one.schema), 'column')}"
        return self._node(
            _dataset_id(one.name, one.version), "dataset", one.spec, f"{about}, deleted" if one.deleted else about
        )

    def _add_version(self, one: Version) -> None:
        told, target = one.provenance, _dataset_id(one.name, one.version)
        known = told.get("columns")
        for parent in _list_records(told, "parents"):
            spec = str(parent.get("spec") or f"{parent.get('name')}@{parent.get('version')}")
            self._edge(self._parent(parent, spec), target, _columns_from(known, spec))
        for storage in _list_records(told, "storages"):
            uri = str(storage.get("uri"))
            source = self._storage(uri)
            self._files[source, target] = storage.get("files")
            self._edge(source, target, _columns_from(known, uri))
        for origin in _list_records(told, "origins"):
            for source in self._origin(origin):
                # How `columns` names it
                self._edge(source, target, _columns_from(known, f"{origin.get('kind')} {origin.get('name')}".strip()))
        for code in self._code(told):
            self._edge(code, target, _columns_made(known))

    def _parent(self, parent: Mapping[str, Any], spec: str) -> str:
        """The version that was read: by name and number; by its content, when it was renamed since."""
        name, version, content = parent.get("name"), parent.get("version"), parent.get("content")
        found = self._by_name.get((str(name), str(version)))
        alike = self._by_content.get(str(content), [])
        if (found is None or content not in (None, found.content)) and alike:
            found = next((one for one in alike if one.version == version), alike[0])
        if found is None:
            return self._node(f"dataset:{spec}", "dataset", spec, "no longer here")
        return self._dataset(found)

    def _storage(self, uri: str) -> str:
        return self._node(f"storage:{uri}", "storage", uri)

    def _origin(self, origin: Mapping[str, Any]) -> list[str]:
        """Ids of what an origin names: a few files one by one, else what it says of itself."""
        paths = [str(one["path"]) for one in _list_records(origin, "files")]
        if 0 < len(paths) <= _MANY:
            return [self._file(path) for path in paths]
        kind, name = str(origin.get("kind") or "values"), str(origin.get("name") or "")
        if paths:
            files = count(int(origin.get("count") or len(paths)), "file")
            return [self._node(f"{kind}:{name}", "file", name, files)]
        # Values of a script have no name of their own: what they hold tells them apart.
        key = str(origin.get("content") or "")
        return [self._node(f"{kind}:{name}:{key}", "values", name or kind, kind if name else "")]

    def _file(self, path: str) -> str:
        """A file that was read; one of this repo is the file its commits tell of."""
        root = os.path.realpath(repo_root(self._context.folder))
        full = os.path.realpath(path)
        if full.startswith(f"{root}{os.sep}") and self._head is not None:
            name = FILES + os.path.relpath(full, root).replace(os.sep, "/")
            entry = self._context.here.history.entries(self._head, [name]).get(name)
            if entry is not None:
                return self._tracked_id(name, entry.oid)
        return self._node(f"file:{path}", "file", path)

    def _tracked_id(self, path: str, oid: str, commit: Commit | None = None) -> str:
        about = f"commit {short(commit.oid)}" if commit else f"file {short(oid)}"
        return self._node(f"file:{path}@{short(oid)}", "file", path.removeprefix(FILES), about)

    def _code(self, told: Mapping[str, Any]) -> Iterator[str]:
        functions = _list_records(told, "functions")
        for one in functions:
            key = str(one.get("fingerprint") or "")
            name = str(one.get("name") or "function")
            yield self._node(f"code:{name}:{key}", "code", f"{name}()", f"code {key[:10]}" if key else "code")
        if not functions and told.get("source"):
            key = hashlib.sha256(str(told["source"]).encode()).hexdigest()[:10]
            name = str(told.get("source_name") or told.get("source_kind") or "script")
            yield self._node(f"code:{name}:{key}", "code", name, f"code {key}")

    def _add_uses(self) -> None:
        """Files that commits declared to be made from others, or from datasets."""
        history = self._context.here.history
        commits = [commit for commit in log.walk(history, [self._head]) if "uses" in commit.meta] if self._head else []
        for commit in reversed(commits):  # a file is named by the commit that made it, before others use it
            changes = history.changes(commit)
            made = [(c.path, c.new.oid) for c in changes if c.new is not None and c.path.startswith(FILES)]
            targets = (
                [self._node(f"commit:{commit.oid}", "file", count(len(made), "file"), f"commit {short(commit.oid)}")]
                if len(made) > _MANY
                else [self._tracked_id(path, oid, commit) for path, oid in made]
            )
            for use in show.fact(self._context.here, "uses", commit.meta["uses"]) or ():
                for target in targets:
                    self._edge(self._use_id(use), target)

    def _use_id(self, use: Mapping[str, Any]) -> str:
        path = str(use["path"])
        if path.startswith(ROOM):
            name, _, version = path.removeprefix(ROOM).rpartition("/")
            told = {"name": name, "version": version, "content": self._content(str(use.get("oid") or ""))}
            return self._parent(told, f"{name}@{version}")
        return self._tracked_id(path, str(use.get("oid") or ""))

    def _content(self, oid: str) -> str | None:
        """The rows that a record named: a merge may have given its number to others."""
        with contextlib.suppress(NotFound, Purged, Corrupt):
            return version_record.decode(self._context.here.history.objects.read(oid)).content if oid else None
        return None

    def add_chain(self, plan: Plan) -> None:
        self._node(CHAIN, "chain", "this chain", count(len(plan.schema), "column"))
        known = column_sources.made_of(plan)
        for node in column_sources.walk(plan):
            if isinstance(node, Source) and node.origin.kind != "persisted":
                for source in self._read(node):
                    self._edge(source, CHAIN, _columns_from(known, column_sources.source_name(node)))
            elif isinstance(node, Call):
                code = self._node(f"code:{node.name}", "code", f"{node.name}()", node.kind)
                self._edge(code, CHAIN, _columns_made(known))

    def _read(self, node: Source) -> list[str]:
        kind, name, detail = node.origin
        if kind == "dataset":
            return [self._parent({**detail, "spec": name}, name)]
        if kind == "storage":
            return [self._storage(str(uri)) for uri in detail.get("uris") or [name]]
        return self._origin({"kind": kind, "name": name, "files": [{"path": path} for path in detail.get("paths", ())]})

    # -- choosing -----------------------------------------------------------------------------

    def around(self, root: str, asked: Asked) -> Lineage:
        edges: dict[tuple[str, str], Edge] = {}
        if asked.up:
            edges |= self._walk(root, asked, lambda edge: (edge.target, edge.source))
        if asked.down:
            edges |= self._walk(root, asked, lambda edge: (edge.source, edge.target))
        ids = dict.fromkeys([root, *(id for edge in edges.values() for id in (edge.source, edge.target))])
        return Lineage(root, {id: self._with_file_count(id, edges) for id in ids}, tuple(edges.values()))

    def _with_file_count(self, id: str, edges: Mapping[tuple[str, str], Edge]) -> Node:
        """A storage changes: its files are those that the versions which are shown were made of."""
        found = [self._files[edge] for edge in edges if edge[0] == id and edge in self._files]
        counts = sorted({len(one) if isinstance(one, list) else one for one in found if isinstance(one, list | int)})
        if not counts:
            return self.nodes[id]
        few = f"{counts[0]:,} to " if len(counts) > 1 else ""
        return self.nodes[id]._replace(about=few + count(counts[-1], "file"))

    def _walk(self, root: str, asked: Asked, ends: Callable[[Edge], tuple[str, str]]) -> dict[tuple[str, str], Edge]:
        """Edges reached from the root, level by level; `ends` says which way. Columns are followed where known."""
        leaving: dict[str, list[Edge]] = {}
        for edge in self.edges.values():
            leaving.setdefault(ends(edge)[0], []).append(edge)
        wanted: dict[str, frozenset[str] | None] = {root: frozenset([asked.column]) if asked.column else None}
        found: dict[tuple[str, str], Edge] = {}
        level, steps = [root], 0
        while level and (asked.depth is None or steps < asked.depth):
            following: dict[str, None] = {}
            for edge in (edge for id in level for edge in leaving.get(id, ())):
                here, there = ends(edge)
                columns, kept = _follow(edge, wanted[here], up=here == edge.target)
                if kept is None:
                    continue
                before = wanted.get(there, frozenset())
                after = None if before is None or columns is None else before | columns  # None: all of them
                grown = there not in wanted or after != before
                wanted[there] = after
                found[edge.source, edge.target] = kept
                following |= {there: None} if grown else {}
            level, steps = list(following), steps + 1
        return found


def _follow(edge: Edge, wanted: frozenset[str] | None, *, up: bool) -> tuple[frozenset[str] | None, Edge | None]:
    """The columns asked of the other end, and the edge with those it carries; no edge when it carries none of them."""
    if wanted is None or edge.columns is None:
        return None, edge
    pairs = tuple(pair for pair in edge.columns if _is_wanted(pair[1] if up else pair[0], wanted))
    return frozenset(pair[0] if up else pair[1] for pair in pairs), edge._replace(columns=pairs) if pairs else None


def _is_wanted(column: str, wanted: frozenset[str]) -> bool:
    """`file.path` is part of `file`, and the other way round."""
    return any(column == one or column.startswith(f"{one}.") or one.startswith(f"{column}.") for one in wanted)


def _dataset_id(name: str, version: str) -> str:
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
