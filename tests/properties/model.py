"""A repo as plain dicts: what the state machine expects of the real one. Knows nothing of memlake's own code.

A value is (content, executable). A tree is a dict from path to value. Nothing here is clever on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace

Value = tuple[bytes, bool]
Tree = dict[str, Value]


@dataclass(frozen=True)
class Point:
    """One commit: its whole tree and its parents."""

    tree: Mapping[str, Value]
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Shelf:
    """One stash: what it changes, against what, and which of its paths were untracked."""

    changes: Mapping[str, tuple[Value | None, Value | None]]
    untracked: frozenset[str]


@dataclass
class Model:
    """`head` is a branch name, or "@" and an id. Branches map to (work commit, memory commit)."""

    commits: dict[str, Point] = field(default_factory=dict)
    branches: dict[str, tuple[str | None, str | None]] = field(default_factory=lambda: {"main": (None, None)})
    tags: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    head: str = "main"
    stage: Tree = field(default_factory=dict)
    work: Tree = field(default_factory=dict)
    shelves: list[Shelf] = field(default_factory=list)

    def copy(self) -> Model:
        return replace(deepcopy(self), commits=self.commits)

    # -- where we are -------------------------------------------------------------------------

    @property
    def branch(self) -> str | None:
        return None if self.head.startswith("@") else self.head

    @property
    def tip(self) -> str | None:
        return self.head[1:] if self.branch is None else self.branches[self.branch][0]

    @property
    def memory(self) -> str | None:
        return None if self.branch is None else self.branches[self.branch][1]

    def tree(self, commit: str | None) -> Tree:
        return dict(self.commits[commit].tree) if commit else {}

    def move(self, commit: str | None) -> None:
        """HEAD names another commit now."""
        if self.branch is None:
            self.head = f"@{commit}"
        else:
            self.branches[self.branch] = (commit, self.branches[self.branch][1])

    # -- what status says ---------------------------------------------------------------------

    def staged(self) -> dict[str, tuple[Value | None, Value | None]]:
        return differences(self.tree(self.tip), self.stage)

    def unstaged(self) -> dict[str, tuple[Value | None, Value | None]]:
        tracked_work = {path: value for path, value in self.work.items() if path in self.stage}
        return differences(self.stage, tracked_work)

    def untracked(self) -> set[str]:
        """A folder with nothing tracked in it is shown once, as a folder."""
        shown = set()
        for path in self.work.keys() - self.stage.keys():
            folders = [path[:at] for at, sign in enumerate(path) if sign == "/"]
            whole = [f for f in folders if not any(tracked.startswith(f + "/") for tracked in self.stage)]
            shown.add(whole[0] + "/" if whole else path)
        return shown

    # -- history ------------------------------------------------------------------------------

    def behind(self, commit: str | None) -> set[str]:
        seen: set[str] = set()
        waiting = [commit] if commit else []
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting.extend(self.commits[one].parents)
        return seen

    def bases(self, a: str | None, b: str | None) -> set[str]:
        common = self.behind(a) & self.behind(b)
        return {one for one in common if not any(one != other and one in self.behind(other) for other in common)}


def differences(a: Mapping[str, Value], b: Mapping[str, Value]) -> dict[str, tuple[Value | None, Value | None]]:
    return {p: (a.get(p), b.get(p)) for p in sorted(a.keys() | b.keys()) if a.get(p) != b.get(p)}


def put(tree: Tree, path: str, value: Value | None) -> None:
    """Write a path as a file system would: a file in the place of a folder replaces it, and the other way round."""
    tree.pop(path, None)
    if value is None:
        return
    for other in list(tree):
        if other.startswith(path + "/") or path.startswith(other + "/"):
            del tree[other]
    tree[path] = value


def three_way(
    base: Mapping[str, Value], ours: Mapping[str, Value], theirs: Mapping[str, Value]
) -> tuple[Tree, set[str]]:
    """(merged with ours where both changed, the paths where both did)."""
    merged, both = dict(ours), set()
    for path in base.keys() | ours.keys() | theirs.keys():
        old, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if other == old or mine == other:
            continue
        if mine != old:
            both.add(path)
        elif other is None:
            merged.pop(path, None)
        else:
            merged[path] = other
    return merged, both | _clashes(ours, theirs, merged)


def _clashes(ours: Mapping[str, Value], theirs: Mapping[str, Value], merged: Tree) -> set[str]:
    """Paths only theirs brought that cannot stand beside ours, with ours: theirs are left out until someone chooses."""
    bad = {
        path
        for path in merged
        if path not in ours and any(clash(path, other) for other in merged if other in ours and other != path)
    }
    met = {other for path in bad for other in merged if other in ours and clash(path, other)}
    for path in bad:
        del merged[path]
    return bad | met


def clash(one: str, two: str) -> bool:
    return one.startswith(two + "/") or two.startswith(one + "/")


def clashes(paths: Iterable[str]) -> bool:
    every = sorted(paths)
    return any(clash(one, two) for one in every for two in every if one != two)
