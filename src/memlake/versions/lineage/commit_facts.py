"""What commits record of how files came to be: what they used, with which params, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memlake.records import Commit, count, short
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import log
from memlake.versions.kinds import kind_at
from memlake.versions.lineage.graph import MANY, Graph
from memlake.versions.paths import FILES
from memlake.versions.verbs import show

_FACTS = ("uses", "params", "metrics")
Use = Mapping[str, Any]  # path, commit and oid of what a commit used


def add_commits(
    graph: Graph, here: Checkout, tips: Sequence[Commit], *, use_id: Callable[[Use], str], apart: frozenset[str]
) -> None:
    """Files that commits said something of. `apart`: tree paths that are never drawn as one of many."""
    commits = [commit for commit in log.walk(here.history, tips) if any(name in commit.meta for name in _FACTS)]
    for commit in reversed(commits):  # a file is named by the commit that made it, before others use it
        facts = read_facts(here, commit)
        targets = list(_add_made(graph, here, commit, apart))
        for use in facts["uses"] or ():
            for target in targets:
                graph.add_edge(use_id(use), target)
        for target in targets:
            owner = f"commit {short(commit.oid)}"
            graph.add_facts(target, owner, params=facts["params"] or {}, metrics=facts["metrics"] or {})


def add_commit(graph: Graph, here: Checkout, commit: Commit, *, use_id: Callable[[Use], str]) -> str:
    """One commit as a node between what it used and what it made; for who asks about the commit itself."""
    id = graph.add_node(f"commit:{commit.oid}", "commit", f"commit {short(commit.oid)}", _subject(commit))
    facts = read_facts(here, commit)
    for use in facts["uses"] or ():
        graph.add_edge(use_id(use), id)
    for target in _add_made(graph, here, commit, frozenset()):
        graph.add_edge(id, target)
    graph.add_facts(id, f"commit {short(commit.oid)}", params=facts["params"] or {}, metrics=facts["metrics"] or {})
    return id


def add_use(graph: Graph, use: Use) -> str:
    """What a commit used, as its path tells; the layer that knows the kind may know more of it."""
    path, kind = str(use["path"]), kind_at(str(use["path"]))
    if path.startswith(FILES):
        return graph.add_file(path, str(use.get("oid") or ""))
    return graph.add_node(f"{kind.name}:{kind.label(path)}", kind.name, kind.label(path))


def read_facts(here: Checkout, commit: Commit) -> dict[str, Any]:
    return {name: show.fact(here, name, commit.meta[name]) if name in commit.meta else None for name in _FACTS}


def _add_made(graph: Graph, here: Checkout, commit: Commit, apart: frozenset[str]) -> Iterator[str]:
    """The files that a commit wrote; many of them as one node."""
    changes = here.history.changes(commit)
    made = [(one.path, one.new.oid) for one in changes if one.new is not None and one.path.startswith(FILES)]
    alone = made if len(made) <= MANY else [one for one in made if one[0] in apart]
    for path, oid in alone:
        yield graph.add_file(path, oid, commit.oid)
    if rest := len(made) - len(alone):
        yield graph.add_node(f"files:{commit.oid}", "file", count(rest, "file"), f"commit {short(commit.oid)}")


def find_maker(here: Checkout, tip: Commit, path: str, oid: str) -> Commit | None:
    """The newest commit that gave a path this content."""
    for commit in log.log(here.history, [tip], [], log.Filter(paths=(path,))):
        if any(one.path == path and one.new is not None and one.new.oid == oid for one in here.history.changes(commit)):
            return commit
    return None


def _subject(commit: Commit) -> str:
    return commit.message.split("\n", 1)[0][:60]
