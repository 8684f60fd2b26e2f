"""What commits record of how files came to be: what they used, with which params, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from memlake.records import Commit, count, short
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import log
from memlake.versions.kinds import kind_at
from memlake.versions.lineage.graph import MANY, Graph, file_id
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
        used = {use_id(use): None for use in facts["uses"] or ()}
        made, inputs = _add_files(graph, here, commit, used=used, apart=apart)
        for source in used:
            for target in made:
                graph.add_edge(source, target)
        for target in made or inputs:  # a commit that made nothing tells of what it holds
            owner = f"commit {short(commit.oid)}"
            graph.add_facts(target, owner, params=facts["params"] or {}, metrics=facts["metrics"] or {})


def add_commit(graph: Graph, here: Checkout, commit: Commit, *, use_id: Callable[[Use], str]) -> str:
    """One commit as a node between what it used and what it made; for who asks about the commit itself."""
    id = graph.add_node(f"commit:{commit.oid}", "commit", f"commit {short(commit.oid)}", _subject(commit))
    facts = read_facts(here, commit)
    used = {use_id(use): None for use in facts["uses"] or ()}
    for source in used:
        graph.add_edge(source, id)
    for target in _add_files(graph, here, commit, used=used, apart=frozenset())[0]:
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


def _add_files(
    graph: Graph, here: Checkout, commit: Commit, *, used: Collection[str], apart: frozenset[str]
) -> tuple[list[str], list[str]]:
    """The files that a commit holds: those it made, many of them as one node, and those it made them from.

    What it used itself, and what something it used was made of, was there before the others, so it is an input.
    """
    changes = here.history.changes(commit)
    held = [(one.path, one.new.oid) for one in changes if one.new is not None and one.path.startswith(FILES)]
    is_input = {one: graph.leads_to(file_id(*one), used) for one in held} if used else {}
    inputs = [graph.add_file(path, oid, commit.oid) for path, oid in held if is_input.get((path, oid))]
    made = [one for one in held if not is_input.get(one)]
    alone = made if len(made) <= MANY else [one for one in made if one[0] in apart]
    targets = [graph.add_file(path, oid, commit.oid) for path, oid in alone]
    if rest := len(made) - len(alone):
        owner = f"commit {short(commit.oid)}"
        targets.append(graph.add_node(f"files:{commit.oid}", "file", count(rest, "file"), owner))
    return targets, inputs


def find_maker(here: Checkout, tip: Commit, path: str, oid: str) -> Commit | None:
    """The newest commit that gave a path this content."""
    for commit in log.log(here.history, [tip], [], log.Filter(paths=(path,))):
        if any(one.path == path and one.new is not None and one.new.oid == oid for one in here.history.changes(commit)):
            return commit
    return None


def _subject(commit: Commit) -> str:
    return commit.message.split("\n", 1)[0][:60]
