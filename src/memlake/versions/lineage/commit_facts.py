"""What commits record of how files came to be: what they used, with which params, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from memlake.records import Commit, count, short
from memlake.versions.checkout import run_notes
from memlake.versions.checkout.context import Checkout
from memlake.versions.history import log
from memlake.versions.kinds import kind_at
from memlake.versions.lineage.graph import MANY, Graph, file_id
from memlake.versions.paths import FILES, plain
from memlake.versions.verbs import show

_FACTS = ("uses", "params", "metrics", run_notes.FACT)
Use = Mapping[str, Any]  # path, commit and oid of what a commit or a run used
UseId = Callable[[Use], str]
Held = tuple[str, str]  # tree path and oid of a file that a commit holds


def add_commits(graph: Graph, here: Checkout, tips: Sequence[Commit], *, use_id: UseId, apart: frozenset[str]) -> None:
    """Files that commits said something of. `apart`: tree paths that are never drawn as one of many."""
    commits = [commit for commit in log.walk(here.history, tips) if any(name in commit.meta for name in _FACTS)]
    told = [(commit, read_facts(here, commit)) for commit in reversed(commits)]
    used = {(str(use["path"]), str(use["oid"])) for _, facts in told for use in list_uses(facts)}
    for commit, facts in told:  # a file is named by the commit that made it, before others use it
        _Files(graph, here, commit, facts, use_id).connect(apart, used)


def add_commit(graph: Graph, here: Checkout, commit: Commit, *, use_id: UseId) -> str:
    """One commit as a node between what it used and what it made; for who asks about the commit itself."""
    id = graph.add_node(f"commit:{commit.oid}", "commit", f"commit {short(commit.oid)}", _subject(commit))
    facts = read_facts(here, commit)
    files = _Files(graph, here, commit, facts, use_id)
    own = {file_id(*one) for one in files.made}  # one run may have read what another wrote
    for source in {**files.used, **{use_id(use): None for run in files.runs for use in list_reads(run)}}:
        if source not in own:
            graph.add_edge(source, id)
    for target in files.add(files.made, frozenset()):
        graph.add_edge(id, target)
    graph.add_facts(id, f"commit {short(commit.oid)}", params=facts["params"] or {}, metrics=facts["metrics"] or {})
    return id


class _Files:
    """The files that a commit holds: those it made, by which run, and those it made them from.

    What it used itself, and what something it used was made of, was there before the others, so it is an input.
    """

    def __init__(self, graph: Graph, here: Checkout, commit: Commit, facts: dict[str, Any], use_id: UseId) -> None:
        self._graph, self._commit, self._facts, self._use_id = graph, commit, facts, use_id
        self.runs: list[dict[str, Any]] = facts[run_notes.FACT] or []
        self.used = {use_id(use): None for use in facts["uses"] or ()}
        changes = here.history.changes(commit)
        held = [(one.path, one.new.oid) for one in changes if one.new is not None and one.path.startswith(FILES)]
        self.by_run = {(str(one["path"]), str(one["oid"])) for run in self.runs for one in run["wrote"]}
        is_read = {(str(use["path"]), str(use["oid"])) for run in self.runs for use in list_reads(run)} - self.by_run
        used = self.used
        self._inputs = [one for one in held if one in is_read or (used and graph.leads_to(file_id(*one), used))]
        self.made = [one for one in held if one not in self._inputs]

    def add(self, files: Sequence[Held], apart: Collection[Held], key: str = "") -> list[str]:
        """Their nodes; of many files those that nobody asks about are one node."""
        owner = f"commit {short(self._commit.oid)}"
        alone = files if len(files) <= MANY else [one for one in files if one in apart]
        targets = [self._graph.add_file(path, oid, self._commit.oid) for path, oid in alone]
        if rest := len(files) - len(alone):
            targets.append(self._graph.add_node(f"files:{self._commit.oid}{key}", "file", count(rest, "file"), owner))
        return targets

    def connect(self, asked_about: frozenset[str], used: set[Held]) -> None:
        """What the commit says holds for all it made; what a run read and was given, for what that run wrote.

        `asked_about`: tree paths, and `used`: files, none of which is drawn as one of many.
        """
        facts, owner = self._facts, f"commit {short(self._commit.oid)}"
        apart = {one for one in self.made if one in used or one[0] in asked_about}
        by_hand = self.add([one for one in self.made if one not in self.by_run], apart)
        outputs = [self._connect_run(run, f":{number}", apart, asked_about) for number, run in enumerate(self.runs)]
        made = [*by_hand, *(target for targets in outputs for target in targets)]
        inputs = [self._graph.add_file(path, oid, self._commit.oid) for path, oid in self._inputs]
        for source in self.used:
            for target in made:
                self._graph.add_edge(source, target)
        asked = {name for run in self.runs for name in run["params"]}  # those are of the run that asked for them
        params = {name: value for name, value in (facts["params"] or {}).items() if name not in asked}
        for target in made or inputs:  # a commit that made nothing tells of what it holds
            self._graph.add_facts(target, owner, params=params, metrics=facts["metrics"] or {})

    def _connect_run(self, run: dict[str, Any], key: str, apart: set[Held], asked_about: frozenset[str]) -> list[str]:
        graph, name = self._graph, plain(str(run["program"]["path"]))
        wrote = {(str(one["path"]), str(one["oid"])) for one in run["wrote"]}
        targets = self.add([one for one in self.made if one in wrote], apart, key)
        # What another run of this commit read, and nobody committed.
        committed = {*self.made}
        targets += [self._use_id(one) for one in run["wrote"] if (one["path"], one["oid"]) not in committed]
        ids = [self._use_id(run["program"]), *self._list_reads(run, key, asked_about)]
        said = {f"{name}={value}" for name, value in (self._facts["metrics"] or {}).items()}
        metrics = {name: value for name, value in run["metrics"].items() if f"{name}={value}" not in said}
        for target in targets:
            for source in ids:
                graph.add_edge(source, target)
            graph.add_facts(target, name, params=run["params"], metrics=metrics, key=f"{self._commit.oid}{key}")
        return targets

    def _list_reads(self, run: dict[str, Any], key: str, asked_about: frozenset[str]) -> list[str]:
        """What a run read. Of many files those of which nothing else is known are one node."""
        uses, more = run["reads"], int(run["more"])
        if len(uses) + more <= MANY:
            return [self._use_id(use) for use in uses]
        alone = [
            use
            for use in uses
            if use["path"] in asked_about
            or not str(use["path"]).startswith(FILES)
            or file_id(str(use["path"]), str(use["oid"])) in self._graph.nodes
        ]
        rest = len(uses) + more - len(alone)
        about = f"read by {plain(str(run['program']['path']))}"
        node = self._graph.add_node(f"read:{self._commit.oid}{key}", "file", count(rest, "file"), about)
        return [*(self._use_id(use) for use in alone), *([node] if rest else [])]


def list_uses(facts: Mapping[str, Any]) -> list[Use]:
    """All that a commit and the runs of its files used."""
    runs = facts[run_notes.FACT] or ()
    return [*(facts["uses"] or ()), *(use for run in runs for use in list_reads(run))]


def list_reads(run: Mapping[str, Any]) -> list[Use]:
    return [run["program"], *run["reads"]]


def add_use(graph: Graph, use: Use) -> str:
    """What a commit used, as its path tells; the layer that knows the kind may know more of it."""
    path, oid = str(use["path"]), str(use.get("oid") or "")
    if path.startswith("/") or not oid:  # outside of the repo, or too large to be hashed
        name, about = plain(path), f"file {short(oid)}, not committed" if oid else "not hashed"
        return graph.add_node(f"file:{name}@{short(oid)}", "file", name, about)
    kind = kind_at(path)
    if path.startswith(FILES):
        return graph.add_file(path, oid)
    return graph.add_node(f"{kind.name}:{kind.label(path)}", kind.name, kind.label(path))


def read_facts(here: Checkout, commit: Commit) -> dict[str, Any]:
    return {name: show.fact(here, name, commit.meta[name]) if name in commit.meta else None for name in _FACTS}


def find_maker(here: Checkout, tip: Commit, path: str, oid: str) -> Commit | None:
    """The newest commit that gave a path this content."""
    for commit in log.log(here.history, [tip], [], log.Filter(paths=(path,))):
        if any(one.path == path and one.new is not None and one.new.oid == oid for one in here.history.changes(commit)):
            return commit
    return None


def _subject(commit: Commit) -> str:
    return commit.message.split("\n", 1)[0][:60]
