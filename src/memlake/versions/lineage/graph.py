"""Graph: things and what each was made from. Walks it from one thing; knows neither rows nor memories.

An edge goes from what was read to what was made of it. The layers above add their own nodes and edges; a lineage is the
part of them that leads to or from one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from memlake.named_tuple import NamedTuple
from memlake.records import count, short
from memlake.versions.lineage import draw
from memlake.versions.lineage.draw import Edge, Node
from memlake.versions.paths import FILES

MANY = 8  # files of one commit, or of one origin, above which they are drawn as one
Columns = tuple[tuple[str, str], ...]


class Lineage(NamedTuple):
    """Nodes and edges around one thing. In a notebook it is drawn."""

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


class Graph:
    """Nodes and edges as they are gathered. What was said of a node or edge first stays."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self._below: dict[str, list[str]] = {}  # of a node: what was made of it
        self.file_counts: dict[tuple[str, str], int] = {}  # of an edge: files a storage had when this was made of it

    def add_node(self, id: str, kind: str, name: str, about: str = "") -> str:
        self.nodes.setdefault(id, Node(id, kind, name, about))
        return id

    def add_edge(self, source: str, target: str, columns: Columns | None = None) -> None:
        if source != target and (source, target) not in self.edges:
            self.edges[source, target] = Edge(source, target, columns)
            self._below.setdefault(source, []).append(target)

    def leads_to(self, source: str, ends: Collection[str]) -> bool:
        """Whether a node is one of these, or one of these was made of it, however far down."""
        seen, left = {source}, [source]
        while left:
            id = left.pop()
            if id in ends:
                return True
            left += (fresh := [one for one in self._below.get(id, ()) if one not in seen])
            seen.update(fresh)
        return False

    def add_file(self, path: str, oid: str, commit: str = "") -> str:
        """A file of this repo by its tree path and content; `commit` made it so."""
        id, name = file_id(path, oid), path.removeprefix(FILES)
        if not commit:
            return self.add_node(id, "file", name, f"file {short(oid)}")
        known = self.nodes.get(id)
        if known is None or not known.about.startswith("commit "):  # who made it says more than what it holds
            self.nodes[id] = Node(id, "file", name, f"commit {short(commit)}")
        return id

    def add_facts(
        self, target: str, owner: str, *, params: Mapping[str, Any], metrics: Mapping[str, Any], key: str = ""
    ) -> None:
        """What a thing was configured with, and what was measured of it; `owner` recorded both. `key` names the two."""
        key = key or (target if not owner.startswith("commit ") else owner)
        for kind, facts in (("params", params), ("metrics", metrics)):
            if facts:
                said = ", ".join(f"{name}={_brief(value)}" for name, value in facts.items())
                id = self.add_node(f"{kind}:{key}", kind, said, f"{kind} of {owner}")
                self.add_edge(*((id, target) if kind == "params" else (target, id)), columns=())

    # -- choosing -----------------------------------------------------------------------------

    def around(self, root: str, asked: Asked) -> Lineage:
        self._drop_circles()
        edges: dict[tuple[str, str], Edge] = {}
        if asked.up:
            edges |= self._walk(root, asked, lambda edge: (edge.target, edge.source))
        if asked.down:
            edges |= self._walk(root, asked, lambda edge: (edge.source, edge.target))
        ids = dict.fromkeys([root, *(id for edge in edges.values() for id in (edge.source, edge.target))])
        return Lineage(root, {id: self._with_file_count(id, edges) for id in ids}, tuple(edges.values()))

    def _drop_circles(self) -> None:
        """Drop edges that lead back to what their own end was made of: nothing is older than itself.

        Commits are seen to when they are added. What is left is two memories that name each other, or a version that
        was deleted and is found by its content in one that was made of it.
        """
        done: set[str] = set()
        for first in list(self._below):
            path: dict[str, Iterator[str]] = {}  # the way from the first node to this one, with what is left below each
            self._enter(first, path, done)
            while path:
                id, below = next(reversed(path.items()))
                target = next(below, None)
                if target is None:
                    done.add(id)
                    del path[id]
                elif target in path:
                    del self.edges[id, target]
                    self._below[id].remove(target)
                else:
                    self._enter(target, path, done)

    def _enter(self, id: str, path: dict[str, Iterator[str]], done: set[str]) -> None:
        if id not in done:
            path[id] = iter(list(self._below.get(id, ())))

    def _with_file_count(self, id: str, edges: Mapping[tuple[str, str], Edge]) -> Node:
        """A storage changes: its files are those that the versions which are shown were made of."""
        counts = sorted({self.file_counts[edge] for edge in edges if edge[0] == id and edge in self.file_counts})
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


def file_id(path: str, oid: str) -> str:
    return f"file:{path}@{short(oid)}"


def _follow(edge: Edge, wanted: frozenset[str] | None, *, up: bool) -> tuple[frozenset[str] | None, Edge | None]:
    """The columns asked of the other end, and the edge with those it carries; no edge when it carries none of them."""
    if wanted is None or edge.columns is None:
        return None, edge
    pairs = tuple(pair for pair in edge.columns if _is_wanted(pair[1] if up else pair[0], wanted))
    return frozenset(pair[0] if up else pair[1] for pair in pairs), edge._replace(columns=pairs) if pairs else None


def _is_wanted(column: str, wanted: frozenset[str]) -> bool:
    """`file.path` is part of `file`, and the other way round."""
    return any(column == one or column.startswith(f"{one}.") or one.startswith(f"{column}.") for one in wanted)


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
