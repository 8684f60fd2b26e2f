"""What the machine of machine.py stands on: a repo beside its model, doing things to both, and comparing them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import memlake as ml
from memlake.records import Change, Entry
from tests.properties.model import Model, Point, Tree, Value, put

FAST_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
Moves = dict[str, tuple[Value | None, Value | None]]


class Driver(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=FAST_DISK))
        self.repo = ml.init(self.root)
        self.left_open: list[ml.Repo] = []
        self.model = Model()
        self.done: list[tuple[Model, Model]] = []  # (before, after) of each verb that undo can take back
        self.written = 0
        self.exact = True

    def teardown(self) -> None:
        try:
            assert self.repo.upkeep.fsck(full=True).ok
            self.every_commit_is_readable()
        finally:
            self.put_away()

    def put_away(self) -> None:
        for repo in (self.repo, *self.left_open):
            repo.close()
        shutil.rmtree(self.root)

    # -- doing ---------------------------------------------------------------------------------

    def does(self, verb: Callable[[], object], expected: Model) -> None:
        """Run a verb that must succeed and take the model to `expected`."""
        before, self.model = self.model, self.model.copy()
        verb()
        self.model = expected
        self.done.append((before, expected.copy()))
        if not self.exact:
            self.done.clear()
        self.exact = True

    def stages(self, verb: Callable[[], object], expected: Model) -> None:
        """As does; an add that stages nothing is no operation, so undo takes back the verb before it."""
        verb() if expected == self.model else self.does(verb, expected)

    def refuses(self, verb: Callable[[], object], *kinds: type[Exception]) -> None:
        """Run a verb that must not succeed; the invariants check that it changed nothing."""
        with pytest.raises(kinds or ml.Error):
            verb()

    def learn(self, model: Model, tree: Tree, parents: Iterable[str | None]) -> None:
        """Note the commit HEAD names after a verb, with the tree it must have."""
        tip = self.repo.head
        assert tip is not None
        model.commits[tip] = Point(dict(tree), tuple(p for p in parents if p))
        model.move(tip)

    def full(self, path: str) -> Path:
        return self.root / path

    def on_disk(self) -> Tree:
        found: Tree = {}
        for folder, folders, names in os.walk(self.root):
            if Path(folder) == self.root:
                folders.remove(".memlake")
            for one in names:
                file = Path(folder) / one
                found[file.relative_to(self.root).as_posix()] = (file.read_bytes(), bool(file.stat().st_mode & 0o100))
        return found

    def blocked(self, moves: Moves) -> bool:
        """Whether moving these paths would lose something that is nowhere else."""
        model = self.model
        head = model.tree(model.tip)
        for path, (_, new) in moves.items():
            old = head.get(path)
            if model.stage.get(path) not in (old, new) or model.work.get(path) not in (None, old, new):
                return True
            if new is None and path in model.work and path not in model.stage and model.work[path] != old:
                return True
            gone = {p for p, (_, after) in moves.items() if after is None}
            around = {p for p in model.work if p.startswith(path + "/") or path.startswith(p + "/")}
            staged = {p for p in model.stage if p.startswith(path + "/") or path.startswith(p + "/")}
            if new is not None and (around | staged) - gone:
                return True
        return False

    def blocked_over_stage(self, moves: Moves) -> bool:
        """As blocked, for a verb that builds on what is staged."""
        model, gone = self.model, {path for path, (_, new) in moves.items() if new is None}
        for path, (_, new) in moves.items():
            kept = (None, model.stage.get(path), new) if path in model.stage else (None, new)
            around = {p for p in (*model.work, *model.stage) if p.startswith(path + "/") or path.startswith(p + "/")}
            if model.work.get(path) not in kept or (new is not None and around - gone):
                return True
        return False

    def cannot_wait(self, moves: Moves, asked: set[str]) -> bool:
        """Whether there is work where a conflict would wait: it would be taken for a choice later."""
        return bool(asked) and self.blocked_over_stage({**moves, **dict.fromkeys(asked, (None, None))})

    def moved(self, moves: Moves) -> Model:
        """The model after moving these paths."""
        expected = self.model.copy()
        for path, (_, new) in sorted(moves.items(), key=lambda item: item[1][1] is not None):
            put(expected.stage, path, new)
            put(expected.work, path, new)
        return expected

    def pick(self, which: int) -> str:
        """Any commit of the work lane, also one that no branch names any more."""
        works = [
            oid for oid, point in self.model.commits.items() if not any(p.startswith("memories") for p in point.tree)
        ]
        return works[which % len(works)]

    @rule()
    def every_commit_is_readable(self) -> None:
        for oid, point in self.model.commits.items():
            assert {p.removeprefix("files/"): self.value(e) for p, e in self.repo.ls(oid)} == dict(point.tree)

    def value(self, entry: Entry) -> Value:
        return self.repo.objects.read(entry.oid), bool(entry.mode)

    # -- what must always hold -----------------------------------------------------------------------

    @invariant()
    def repo_and_model_agree(self) -> None:
        self.files_are_what_the_model_has()
        self.head_branches_and_tags_are_where_the_model_has_them()
        self.head_holds_the_tree_of_the_model()
        self.log_shows_the_work_lane_only()
        self.status_says_what_differs()
        self.stashes_are_counted()

    def files_are_what_the_model_has(self) -> None:
        assert self.on_disk() == self.model.work

    def head_branches_and_tags_are_where_the_model_has_them(self) -> None:
        assert (self.repo.branches.current, self.repo.head) == (self.model.branch, self.model.tip)
        assert {b.name: (b.work, b.memory) for b in self.repo.branches} == self.model.branches
        assert {t.name: (t.work, t.memory) for t in self.repo.tags} == self.model.tags

    def head_holds_the_tree_of_the_model(self) -> None:
        if self.model.tip:
            found = {path.removeprefix("files/"): self.value(entry) for path, entry in self.repo.ls("HEAD", "files/")}
            assert found == self.model.tree(self.model.tip)

    def log_shows_the_work_lane_only(self) -> None:
        if self.model.tip:
            shown = [commit.oid for commit in self.repo.log()]
            assert set(shown) == self.model.behind(self.model.tip) and len(shown) == len(set(shown))

    def status_says_what_differs(self) -> None:
        status = self.repo.status()
        assert self.shown(status.staged) == kinds(self.model.staged())
        assert self.shown(status.unstaged) == kinds(self.model.unstaged())
        assert set(status.untracked) == self.model.untracked()
        assert (status.doing, status.conflicts, status.behind) == (None, (), 0)

    def shown(self, changes: Iterable[Change]) -> dict[str, str]:
        return {change.path.removeprefix("files/"): change.status for change in changes}

    def stashes_are_counted(self) -> None:
        assert len(self.repo.stash.entries()) == len(self.model.shelves)


def is_memory(path: str) -> bool:
    return path.startswith("memories/")


def kinds(moves: Moves) -> dict[str, str]:
    return {path: "A" if old is None else "D" if new is None else "M" for path, (old, new) in moves.items()}
