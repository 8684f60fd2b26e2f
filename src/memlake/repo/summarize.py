"""What a diff touches: things made from what changed, memories that name it, and what was measured of all of them.

Reads one lineage graph for all paths. Says nothing itself: words are for views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memlake import versions
from memlake.errors import Error, Purged
from memlake.memories.lineage import find_naming
from memlake.records import Change, Commit, Entry, short
from memlake.repo.lineage import Thing, gather, kind_of_node, list_seen
from memlake.reports import DiffSummary, Measured, PathSummary, Touched
from memlake.versions.kinds import kind_at
from memlake.versions.paths import FILES, plain

if TYPE_CHECKING:
    from memlake.contents.explain import Explanation
    from memlake.repo.diff import Diff
    from memlake.repo.repo import Repo
    from memlake.versions.lineage.graph import Graph, Lineage

_SHOWN = ("checkpoint", "dataset", "file", "prompt", "code", "chain")
_MANY = 200  # paths that are looked into, and whose lineage is followed; of more only the names are told


def summarize_changes(diff: Diff, key: Sequence[str]) -> DiffSummary:
    """What a diff touches, as far as it is recorded."""
    repo, (old, new) = diff._repo, diff.sides
    if old in (":", "") and new in (":", ""):
        old = "HEAD"  # what was measured last
    sides = ("" if old == ":" or not repo.head else old), ("" if new == ":" else new)
    tips = [commit for rev in sides if rev and (commit := versions.rev.find(repo._look(), rev))]
    graph, _, _ = gather(repo, Thing(), tips=tips, apart=frozenset(change.path for change in diff[:_MANY]))
    named = _find_memories(repo, tips, [change.path for change in diff[:_MANY]])
    paths = [
        _summarize_path(diff, graph, change, key)._replace(memories=tuple(named.get(change.path, ())))
        for change in diff[:_MANY]
    ]
    paths += [PathSummary(change.status, change.path) for change in diff[_MANY:]]
    was, now = (_read_last_metrics(repo, rev) for rev in sides)
    return DiffSummary(*sides, tuple(paths), make_measured(was, now))


def _read_last_metrics(repo: Repo, rev: str) -> Mapping[str, Any]:
    """What the line of a rev recorded last."""
    rows = repo.metrics(rev, rev, limit=1) if rev else []  # named twice, it is one row with its last values
    return rows[0].metrics if rows else {}


def make_measured(old: Mapping[str, Any], new: Mapping[str, Any]) -> Measured:
    """What was measured on both sides, with the difference of every number."""
    both = [name for name in new if _is_number(new[name]) and _is_number(old.get(name))]
    deltas = {name: round(new[name] - old[name], 12) for name in both}  # without the last digits, which floats make up
    return Measured(old, new, deltas)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _summarize_path(diff: Diff, graph: Graph, change: Change, key: Sequence[str]) -> PathSummary:
    repo = diff._repo
    nodes = [_node_id(change.path, entry) for entry in (change.old, change.new)]
    found = [_walk_down(graph, id) for id in nodes]
    own = [_metrics_of(repo, graph, id) for id in nodes]
    return PathSummary(
        change.status, change.path, change.old, change.new, _explain(diff, change, key), make_measured(*own),
        tuple(_list_touched(repo, graph, *found)),
    )  # fmt: skip


def _explain(diff: Diff, change: Change, key: Sequence[str]) -> Explanation | None:
    is_moved = change.old is not None and change.new is not None and change.old.oid == change.new.oid
    try:
        return None if is_moved or not change.path.startswith(FILES) else diff.explain(change, key=key, limit=5)
    except (Purged, Error):  # of a diff the rest is told
        return None


def _node_id(path: str, entry: Entry | None) -> str:
    if entry is None:
        return ""
    kind = kind_at(path)
    return f"file:{path}@{short(entry.oid)}" if path.startswith(FILES) else f"{kind.name}:{kind.label(path)}"


def _walk_down(graph: Graph, id: str) -> Lineage | None:
    return graph.around(id, versions.graph.Asked(up=False)) if id in graph.nodes else None


def _list_touched(repo: Repo, graph: Graph, old: Lineage | None, new: Lineage | None) -> Iterable[Touched]:
    """Things made of the old content beside those of the same name made of the new one."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for side, lineage in enumerate((old, new)):
        for id, node in (lineage.nodes if lineage else {}).items():
            kind = kind_of_node(node.kind, node.name)
            if lineage is not None and id != lineage.root and kind in _SHOWN:
                name = node.name.partition("@")[0] if kind == "dataset" else node.name
                pairs.setdefault((kind, name), ["", ""])[side] = id
    for (kind, name), ids in sorted(pairs.items()):
        about = [graph.nodes[id].name if kind == "dataset" else graph.nodes[id].about if id else "" for id in ids if id]
        which = iter(about)
        old_one, new_one = (next(which) if id else "" for id in ids)
        yield Touched(kind, name, old_one, new_one, make_measured(*(_metrics_of(repo, graph, id) for id in ids)))


def _metrics_of(repo: Repo, graph: Graph, id: str) -> Mapping[str, Any]:
    """What was recorded of a thing: with the commit that made a file, or with a version of a dataset."""
    node = graph.nodes.get(id)
    if node is None:
        return {}
    try:
        if node.kind == "dataset":
            return repo.datasets().get(node.name).metrics
        return repo.show(node.about.removeprefix("commit ")).metrics if node.about.startswith("commit ") else {}
    except Error:  # a version that was deleted, a commit that is gone
        return {}


def _find_memories(repo: Repo, tips: Sequence[Commit], paths: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """For each path the memories that name it, whatever it held then.

    The name of a file alone counts where no other file of these commits has it.
    """
    here = repo._look()
    lane = versions.rev.find(here, repo._memory_branch(), "memory")
    if lane is None or lane.lane != "memory":
        return {}
    ways = {path: _list_ways(path) for path in paths}
    naming = find_naming(here.history, lane, (way for listed in ways.values() for way in listed), seen=list_seen(repo))
    if any(way in naming for listed in ways.values() for way in listed[1:]):
        heads = [commit for commit in (here.head(), *tips) if commit is not None]
        files = {path for commit in heads for path, _ in here.history.scan(commit, FILES)} | set(paths)
        names = Counter(path.rsplit("/", 1)[-1] for path in files)
        ways = {path: [way for way in listed if way == listed[0] or names[way] == 1] for path, listed in ways.items()}
    memories = {path: dict(one for way in listed for one in naming.get(way, ())) for path, listed in ways.items()}
    return {path: [*texts.values()] for path, texts in memories.items()}


def _list_ways(path: str) -> list[str]:
    """How a memory may write a path: in full, and if it is a file with a suffix, without its folder."""
    full = plain(path)
    name = full.rsplit("/", 1)[-1]
    return [full, name] if name != full and path.startswith(FILES) and "." in name[1:] else [full]
