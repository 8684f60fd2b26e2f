"""The lines beside a log: which commit continues which. Pure: takes ids and parents, returns characters.

Each open line of history has a lane, two characters wide; a lane holds the id it leads to. Under a commit's row come
the rows in which its parents fork off to the right (`|\\`) and lines that lead to the same commit join, each moving
left by one lane a row (`|/`), straight through the lanes between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Edge:
    """A line on its way down: where it is, the lane it must reach, and how many rows it still waits before moving."""

    at: int
    to: int
    wait: int = 0


@dataclass(slots=True)
class Graph:
    """Draws a log whose commits come after all their children. `lanes` are the ids that open lines lead to."""

    lanes: list[str] = field(default_factory=list)

    def rows(self, oid: str, parents: Sequence[str], mark: str = "*") -> list[str]:
        """The commit's own row, then the rows that lead from it to what comes next."""
        if oid not in self.lanes:
            self.lanes.append(oid)
        column = self.lanes.index(oid)
        first = " ".join(mark if index == column else "|" for index in range(len(self.lanes)))
        left, right = self.lanes[:column], self.lanes[column + 1 :]
        parents = list(dict.fromkeys(parents))
        joined = [left.index(parent) for parent in parents if parent in left]
        fresh = [parent for parent in parents if parent not in left]
        rows = [first, *_fork(column, len(right), len(fresh))]
        wide = [*left, *fresh, *right]
        self.lanes = list(dict.fromkeys(wide))
        edges = [_Edge(index, self.lanes.index(lane)) for index, lane in enumerate(wide)]
        edges += [_Edge(column, lane, wait) for wait, lane in enumerate(sorted(joined))]
        return rows + _join(_shift_right(edges, column, len(fresh), len(right)))

    def padding(self) -> str:
        """What stands beside further lines of text about the same commit."""
        return " ".join("|" for _ in self.lanes)


def _fork(column: int, right: int, fresh: int) -> list[str]:
    """One row for each parent beyond the first: a new lane opens and those to the right of it move over."""
    rows = []
    for extra in range(1, fresh):
        moving = extra - 1 + right
        rows.append(" ".join("|" for _ in range(column + 1)) + "\\" + " \\" * moving)
    return rows


def _shift_right(edges: list[_Edge], column: int, fresh: int, right: int) -> list[_Edge]:
    """Without a fresh parent the commit's own lane ends, so the lanes right of it still stand one further right."""
    if fresh:
        return edges
    for edge in edges[column : column + right]:
        edge.at += 1
    return edges


def _join(edges: list[_Edge]) -> list[str]:
    """Rows until every line is in its lane."""
    rows = []
    while any(edge.at > edge.to for edge in edges):
        cells: dict[int, str] = {}
        for edge in edges:
            if edge.at == edge.to or edge.wait:
                cells[2 * edge.at] = "|"
                edge.wait = max(0, edge.wait - 1)
            else:
                cells[2 * edge.at - 1] = "/"
                edge.at -= 1
        rows.append("".join(cells.get(index, " ") for index in range(max(cells) + 1)))
    return rows


def beside(rows: Sequence[str], texts: Sequence[str], padding: str) -> list[str]:
    """Text lines, aligned, with the graph's rows before them; whichever is longer goes on alone."""
    left = [*rows, *(padding for _ in range(len(texts) - len(rows)))]
    width = max((len(row) for row, _ in zip(left, texts, strict=False)), default=0)
    right = [*texts, *("" for _ in range(len(left) - len(texts)))]
    return [f"{row:<{width}} {text}".rstrip() for row, text in zip(left, right, strict=True)]


def rewrite_parents(parents: Mapping[str, Sequence[str]], shown: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each shown commit the nearest shown ancestors, through commits that a filter hides.

    `parents` must be in the order of a log, children first.
    """
    wanted = set(shown)
    nearest: dict[str, tuple[str, ...]] = {}
    for oid in reversed(list(parents)):
        above: list[str] = []
        for parent in parents[oid]:
            above += [parent] if parent in wanted else nearest.get(parent, ())
        nearest[oid] = tuple(dict.fromkeys(above))
    return {oid: nearest[oid] for oid in parents if oid in wanted}
