"""Lineage over all of a repo: joins what commits, versions of datasets and memories record into one graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from memlake import contents, dataset, memories, versions
from memlake.dataset.kind import DATASET
from memlake.errors import InvalidInput, NotFound, pasted
from memlake.memories.kind import MEMORY
from memlake.named_tuple import NamedTuple
from memlake.records import Commit, Entry
from memlake.versions.paths import FILES

if TYPE_CHECKING:
    from memlake.dataset.lineage.graph import Versions
    from memlake.dataset.lineage.rows import RowLineage
    from memlake.dataset.parts.version_record import Version
    from memlake.repo.repo import Repo
    from memlake.versions.checkout.context import Checkout
    from memlake.versions.lineage.commit_facts import Use
    from memlake.versions.lineage.graph import Asked, Graph, Lineage

_PROMPTS = (".prompt", ".jinja", ".jinja2", ".j2")


class Thing(NamedTuple):
    """What a user means by a word: a file as a commit has it, a version, a memory or a commit."""

    file: tuple[str, Entry, Commit] | None = None
    version: Version | None = None
    memory: str | None = None
    commit: Commit | None = None


def trace(repo: Repo, of: str, asked: Asked) -> Lineage:
    """The lineage of what `of` names."""
    thing = find_thing(repo, of)
    if asked.column is not None:
        if thing.version is None:
            raise InvalidInput(f"{of!r} is not a dataset, so it does not have columns to follow.")
        return repo.datasets().lineage(of, up=asked.up, down=asked.down, depth=asked.depth, column=asked.column)
    graph, use_id, versions_ = gather(repo, thing)
    if thing.file is not None:
        path, entry, tip = thing.file
        maker = versions.commit_facts.find_maker(repo._look(), tip, path, entry.oid)
        root = graph.add_file(path, entry.oid, maker.oid if maker else "")
    elif thing.version is not None:
        assert versions_ is not None
        root = versions_.version_id(thing.version)
    elif thing.memory is not None:
        root = memories.lineage.memory_id(thing.memory)
    else:
        assert thing.commit is not None
        root = versions.commit_facts.add_commit(graph, repo._look(), thing.commit, use_id=use_id)
    found = graph.around(root, asked)
    nodes = {id: node._replace(kind=kind_of_node(node.kind, node.name)) for id, node in found.nodes.items()}
    return found._replace(nodes=nodes)


def trace_rows(repo: Repo, of: str, where: str | None, *, up: bool, down: bool, rows: bool) -> RowLineage:
    """The lineage of single rows: of a dataset both ways, of a file what rests on it."""
    thing = find_thing(repo, of)
    if thing.version is not None:
        return repo.datasets().row_lineage(thing.version.spec, where, up=up, down=down, rows=rows)
    if thing.file is None:
        raise InvalidInput(f"{of!r} is not a dataset or a file, so it does not have rows.")
    path, entry, _ = thing.file
    chosen = _choose_rows(where) if where is not None else None
    return repo.datasets().rows_from_file(dataset.rows.FileRows(path.removeprefix(FILES), entry.oid, chosen), rows=rows)


def _choose_rows(where: str) -> tuple[int, ...]:
    """The row of a file that a condition names: rows of a file are known by their numbers."""
    compared = dataset.search_rows.parse_where(where)
    if len(compared) != 1 or dataset.search_rows.name_of(compared[0]) != "row" or compared[0].operator != "==":
        raise InvalidInput(
            f"rows of a file are named by number, and {where!r} names something else.",
            hint="Write it as: row = 3",
        )
    value = compared[0].value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"rows are counted from 1, so there is no row {value!r}.")
    return (value,)


def gather(
    repo: Repo, thing: Thing, *, tips: Iterable[Commit] = (), apart: frozenset[str] = frozenset()
) -> tuple[Graph, Callable[[Use], str], Versions | None]:
    """Everything that is recorded in the repo; room by room, each only if it holds something.

    `tips`: commits from which to look beside HEAD. `apart`: tree paths that are never drawn as one of many.
    """
    graph, here = versions.graph.Graph(), repo._look()
    head = here.head()
    named = (head, thing.file[2] if thing.file else None, thing.commit, *tips)
    ends = {commit.oid: commit for commit in named if commit}
    work = [commit for commit in ends.values() if commit.lane == "work"]
    found: Versions | None = None
    if any(True for commit in work for _ in here.history.scan(commit, DATASET.folder)):
        found = dataset.graph.Versions(repo.datasets().context, graph, work)
    use_id = found.use_id if found is not None else lambda use: versions.commit_facts.add_use(graph, use)
    lane = versions.rev.find(here, repo._memory_branch(), "memory")
    if lane is not None and lane.lane == "memory" and any(True for _ in here.history.scan(lane, MEMORY.folder)):
        seen = list_seen(repo)
        memories.lineage.add_memories(
            graph, here.history, lane, seen=seen, find=lambda names: _find_names(graph, here, names, use_id)
        )
    apart = apart | frozenset([thing.file[0]] if thing.file else [])
    versions.commit_facts.add_commits(graph, here, work, use_id=use_id, apart=apart)
    return graph, use_id, found


def list_seen(repo: Repo) -> memories.lineage.Seen:
    """As searching does: memories of one's own organisation, and in a repo of many projects those of this one."""
    org = repo._settings.memory_org
    return memories.lineage.Seen(None if org == "*" else org, repo._place().seen)


def _find_names(graph: Graph, here: Checkout, names: Iterable[str], use_id: Callable[[Use], str]) -> Mapping[str, str]:
    """The nodes of names: a file of HEAD by its path, a version as `pets@1.0.0`, a commit by its whole id."""
    given, head = list(names), here.head()
    files = here.history.entries(head, [FILES + name for name in given if _may_be_path(name)])
    found = {path.removeprefix(FILES): graph.add_file(path, entry.oid) for path, entry in files.items()}
    for name in given:
        if f"dataset:{name}" in graph.nodes:
            found[name] = f"dataset:{name}"
        elif here.history.has(name):
            found[name] = versions.commit_facts.add_commit(graph, here, here.history.get(name), use_id=use_id)
    return found


def _may_be_path(name: str) -> bool:
    return 0 < len(name) < 1000 and "\n" not in name and "\0" not in name


def kind_of_node(kind: str, name: str) -> str:
    """Of files the checkpoints and prompts have names of their own."""
    if kind != "file":
        return kind
    parts = name.lower().split("/")
    if "prompts" in parts[:-1] or parts[-1].endswith(_PROMPTS):
        return "prompt"
    found = contents.file_types.find_type(name)
    return "checkpoint" if found is not None and found.name == "checkpoint" else "file"


# -- what a user means --------------------------------------------------------------------------------


def find_thing(repo: Repo, word: str) -> Thing:
    """A file (`PATH`, `REV:PATH`), a dataset (`NAME[@VERSION]`), a memory (its id or the end of it), else a commit."""
    here = repo._look()
    for find in (_find_file, _find_version, _find_memory, _find_commit):
        found = find(repo, here, word)
        if found is not None:
            return found
    raise NotFound(
        f"{word!r} is not a file of HEAD, a dataset, a memory or a commit.",
        hint="See what there is: memlake ls\nOr: memlake dataset ls\nOr: memlake log",
    )


def _find_file(repo: Repo, here: Checkout, word: str) -> Thing | None:
    name, colon, rest = word.partition(":")
    is_at_rev = bool(colon and rest and name) and not os.path.lexists(word)
    rev, given = (name, rest) if is_at_rev else ("HEAD", word)
    commit = versions.rev.find(here, rev)
    if commit is None:
        return None
    try:
        path = repo._tree_path(given)
    except InvalidInput:
        return None
    entry = here.history.entries(commit, [path]).get(path) if path.startswith(FILES) else None
    if entry is None and is_at_rev:
        raise NotFound(f"{given!r} is not a file in {rev}.", hint=f"See what is there with: memlake ls {pasted(rev)}")
    return Thing(file=(path, entry, commit)) if entry is not None else None


def _find_version(repo: Repo, here: Checkout, word: str) -> Thing | None:
    """Only what begins with the name of a dataset: asking for another version of it is an error of its own."""
    head, spec = here.head(), word.removeprefix(DATASET.folder)
    if spec != word and "@" not in spec and "/" in spec:
        spec = "@".join(spec.rsplit("/", 1))  # `datasets/pets/1.0.0`, as ls shows it
    name = spec.partition("@")[0]
    if not name or head is None or not any(True for _ in here.history.scan(head, f"{DATASET.folder}{name}/")):
        return None
    return Thing(version=repo.datasets().get(spec))


def _find_memory(repo: Repo, here: Checkout, word: str) -> Thing | None:
    """By its whole id, or by at least six characters that end or begin it."""
    digits = word.lower().replace("-", "").rsplit("/", 1)[-1]
    if len(digits) < 6 or any(char not in "0123456789abcdef" for char in digits):
        return None
    lane = versions.rev.find(here, repo._memory_branch(), "memory")
    ids = [path.rsplit("/", 1)[1] for path, _ in here.history.scan(lane, MEMORY.folder)] if lane is not None else []
    plain = {id: id.replace("-", "") for id in ids}
    found = [id for id, text in plain.items() if text.endswith(digits) or text.startswith(digits)]
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} memories have an id that ends or begins with {word!r}.",
            hint="Name one by its last characters:\n" + "\n".join(found[:5]),
        )
    return Thing(memory=found[0]) if found else None


def _find_commit(repo: Repo, here: Checkout, word: str) -> Thing | None:
    found = versions.rev.find(here, word) or versions.rev.find(here, word, "memory")
    if found is None and repo.head is not None:
        return None
    return Thing(commit=found) if found is not None else None
