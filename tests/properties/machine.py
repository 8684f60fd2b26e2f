"""The real repo and a dict side by side: whatever is done to both, they must agree, and nothing may ever be lost.

All contents have the same length, so that a file that changes at once after being added can only be told by
git's racy-clean rule; none is text, so that a merge cannot join two of them. One run of the machine is a few dozen
verbs in random order; after each of them everything that can be seen is compared.
"""

from __future__ import annotations

import shutil
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
)

import memlake as ml
from memlake.records import Merged
from tests.properties.driver import Driver, Moves
from tests.properties.model import Model, Point, Shelf, Tree, Value, clashes, differences, put, three_way

PATHS = ["a", "b", "c", "c/z", "d/x", "d/e/y"]
CONTENTS = [b"\0one", b"\0two", b"\0six"]
BRANCHES = ["main", "dev", "feature/x"]

path = st.sampled_from(PATHS)
value = st.tuples(st.sampled_from(CONTENTS), st.booleans())
name = st.sampled_from(BRANCHES)
side = st.sampled_from(["ours", "theirs"])
number = st.integers(0, 10**6)


class RepoMachine(Driver):
    @initialize(seeded=st.booleans())
    def begin(self, seeded: bool) -> None:
        """Either nothing, or what most stories begin with: a commit, and a branch that went its own way."""
        if seeded:
            for path, content in (("a", CONTENTS[0]), ("c/z", CONTENTS[0])):
                self.write(path, (content, False))
            self.add_all()
            self.commit(False)
            self.branch("dev")
            self.write("a", (CONTENTS[1], False))
            self.add_all()
            self.commit(False)

    # -- files by hand ---------------------------------------------------------------------------

    @rule(path=path, value=value)
    def write(self, path: str, value: Value) -> None:
        file = self.full(path)
        for above in file.relative_to(self.root).parents:
            if (self.root / above).is_file():
                (self.root / above).unlink()
        if file.is_dir():
            shutil.rmtree(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(value[0])
        file.chmod(0o755 if value[1] else 0o644)
        put(self.model.work, path, value)

    @precondition(lambda self: self.model.work)
    @rule(which=number)
    def delete(self, which: int) -> None:
        path = sorted(self.model.work)[which % len(self.model.work)]
        self.full(path).unlink()
        put(self.model.work, path, None)

    # -- the stage -------------------------------------------------------------------------------

    @rule()
    def add_all(self) -> None:
        expected = self.model.copy()
        expected.stage = dict(self.model.work)
        self.stages(lambda: self.repo.add(all=True), expected)

    @rule(path=path)
    def add(self, path: str) -> None:
        model, expected = self.model, self.model.copy()
        below = {p for p in model.work.keys() | model.stage.keys() if p == path or p.startswith(path + "/")}
        for one in below:
            put(expected.stage, one, None)
        for one in below & model.work.keys():
            put(expected.stage, one, model.work[one])  # a file that became a folder is replaced, as git does
        removed = any(p == path or p.startswith(path + "/") for p in model.tree(model.tip))
        if not below and not removed and not self.full(path).is_dir():
            return self.refuses(lambda: self.repo.add(self.full(path)), ml.errors.NotFound)
        return self.stages(lambda: self.repo.add(self.full(path)), expected)

    @precondition(lambda self: self.model.stage)
    @rule(which=number, cached=st.booleans(), force=st.booleans())
    def rm(self, which: int, cached: bool, force: bool) -> None:
        model, expected = self.model, self.model.copy()
        path = sorted(model.stage)[which % len(model.stage)]
        put(expected.stage, path, None)
        if not cached:
            put(expected.work, path, None)
        work, stage, head = model.work.get(path), model.stage[path], model.tree(model.tip).get(path)
        safe = work in (None, stage) and (stage == head or cached)
        if cached and work is not None and work != stage and stage == head:
            safe = True  # only the stage forgets it; the file stays
        if force or safe:
            self.does(lambda: self.repo.rm(self.full(path), cached=cached, force=force), expected)
        else:
            self.refuses(lambda: self.repo.rm(self.full(path), cached=cached), ml.errors.Conflict)

    @precondition(lambda self: self.model.stage)
    @rule(which=number, goal=path)
    def mv(self, which: int, goal: str) -> None:
        model, expected = self.model, self.model.copy()
        source = sorted(model.stage)[which % len(model.stage)]
        into = f"{goal}/{source.rpartition('/')[2]}" if self.full(goal).is_dir() else goal
        put(expected.work, into, expected.work.pop(source, None))
        put(expected.stage, into, expected.stage.pop(source))
        others = (model.work.keys() | model.stage.keys()) - {source}
        lost = others - expected.work.keys() - expected.stage.keys()
        if source not in model.work or into in model.work or lost or clashes([source, into]):
            with pytest.raises(ml.Error):
                self.repo.mv(self.full(source), self.full(goal))
        else:
            self.does(lambda: self.repo.mv(self.full(source), self.full(goal)), expected)

    @precondition(lambda self: self.model.stage)
    @rule(which=number, staged=st.booleans())
    def restore(self, which: int, staged: bool) -> None:
        model, expected = self.model, self.model.copy()
        path = sorted(model.stage)[which % len(model.stage)]
        if staged:
            put(expected.stage, path, None)
            for one, kept in model.tree(model.tip).items():
                if one == path or one.startswith(path + "/"):
                    put(expected.stage, one, kept)
        else:
            put(expected.work, path, model.stage[path])
            if model.work.keys() - {path} != expected.work.keys() - {path}:
                return self.refuses(lambda: self.repo.restore(self.full(path)), ml.errors.Conflict)
        return self.does(lambda: self.repo.restore(self.full(path), staged=staged), expected)

    # -- commits ---------------------------------------------------------------------------------

    @rule(amend=st.booleans())
    def commit(self, amend: bool) -> None:
        model, expected = self.model, self.model.copy()
        self.written += 1
        if (amend and model.tip is None) or (not amend and not model.staged()):
            return self.refuses(lambda: self.repo.commit(f"c{self.written}", amend=amend), ml.errors.Nothing)
        parents = model.commits[model.tip].parents if amend and model.tip else (model.tip,)
        if amend and model.staged() and len(parents) == 1 and model.stage == model.tree(parents[0]):
            return self.refuses(lambda: self.repo.commit(f"c{self.written}", amend=True), ml.errors.Nothing)

        def verb() -> None:
            made = self.repo.commit(f"c{self.written}", amend=amend)
            self.learn(expected, model.stage, parents)
            assert made.parents == expected.commits[made.oid].parents

        return self.does(verb, expected)

    @precondition(lambda self: self.model.branch is not None)
    @rule(key=st.integers(0, 3), content=st.sampled_from(CONTENTS))
    def remember(self, key: int, content: bytes) -> None:
        """An agent writes between the verbs of a person; only the memory lane may show it."""
        model, path = self.model, f"memories/bot/{key}"
        tree = model.tree(model.memory)
        if tree.get(path) == (content, False):
            return self.refuses(lambda: self.repo.write({path: content}, "m"), ml.errors.Nothing)
        made = self.repo.write({path: content}, "m")
        model.commits[made.oid] = Point({**tree, path: (content, False)}, (model.memory,) if model.memory else ())
        model.branches[model.branch or ""] = (model.tip, made.oid)
        for before, after in self.done[-1:]:
            if before.branches.get(model.head, (0, 0))[1] == after.branches.get(model.head, (0, 0))[1]:
                for one in (before, after):  # undo of a verb that left the memory lane alone leaves this write alone
                    if model.head in one.branches:
                        one.branches[model.head] = (one.branches[model.head][0], made.oid)
        return None

    # -- standing somewhere ------------------------------------------------------------------------

    @rule(name=name)
    def branch(self, name: str) -> None:
        expected = self.model.copy()
        expected.branches[name] = (self.model.tip, self.model.memory)
        if self.model.branch is None and self.model.tip:
            expected.branches[name] = (self.model.tip, self.repo.show("HEAD").commit.other)
        if name in self.model.branches or expected.branches[name] == (None, None):
            self.refuses(lambda: self.repo.branches.create(name), ml.errors.AlreadyExists, ml.errors.NotFound)
        else:
            self.does(lambda: self.repo.branches.create(name), expected)

    @rule(name=name)
    def switch(self, name: str) -> None:
        if name not in self.model.branches:
            return self.refuses(lambda: self.repo.switch(name), ml.errors.NotFound)
        target = self.model.branches[name][0]
        moves = differences(self.model.tree(self.model.tip), self.model.tree(target))
        if self.blocked(moves):
            return self.refuses(lambda: self.repo.switch(name), ml.errors.Conflict)
        expected = self.moved(moves)
        expected.head = name
        return self.does(lambda: self.repo.switch(name), expected)

    @precondition(lambda self: self.model.tip)
    @rule(which=number)
    def detach(self, which: int) -> None:
        target = self.pick(which)
        moves = differences(self.model.tree(self.model.tip), self.model.tree(target))
        if self.blocked(moves):
            return self.refuses(lambda: self.repo.switch(target, detach=True), ml.errors.Conflict)
        expected = self.moved(moves)
        expected.head = f"@{target}"
        return self.does(lambda: self.repo.switch(target, detach=True), expected)

    @precondition(lambda self: self.model.tip)
    @rule(which=number, mode=st.sampled_from(["soft", "mixed", "hard"]))
    def reset(self, which: int, mode: str) -> None:
        model, target = self.model, self.pick(which)
        expected = model.copy()
        tree = model.tree(target)
        if mode != "soft":
            expected.stage = dict(tree)
        if mode == "hard":
            for path in model.stage.keys() | model.tree(model.tip).keys():
                put(expected.work, path, None)
            for path, value in tree.items():
                put(expected.work, path, value)
        expected.move(target)
        self.does(lambda: self.repo.reset(target, mode), expected)

    @rule(name=st.sampled_from(["v1", "v2"]))
    def tag(self, name: str) -> None:
        expected = self.model.copy()
        if self.model.branch is None:
            expected.tags[name] = (self.model.tip, self.repo.show("HEAD").commit.other)
        else:
            expected.tags[name] = self.model.branches[self.model.branch]
        if name in self.model.tags or expected.tags[name] == (None, None):
            self.refuses(lambda: self.repo.tags.create(name), ml.errors.AlreadyExists, ml.errors.NotFound)
        else:
            self.does(lambda: self.repo.tags.create(name), expected)

    @rule(name=name, path=path, value=value)
    def work_on(self, name: str, path: str, value: Value) -> None:
        """What people do most, in one step, so that histories part and meet often."""
        self.switch(name)
        if self.model.head == name:
            self.write(path, value)
            self.add_all()
            self.commit(False)

    # -- merge, revert, cherry-pick ----------------------------------------------------------------

    @rule(name=name, ff=st.booleans(), side=side)
    def merge(self, name: str, ff: bool, side: str) -> None:
        model = self.model
        if name not in model.branches:
            return self.refuses(lambda: self.repo.merge(name), ml.errors.NotFound, ml.errors.Conflict)
        theirs = model.branches[name]
        if not any(theirs):
            return self.refuses(lambda: self.repo.merge(name), ml.errors.NotFound)
        if not ff and theirs[0] and not model.tip:
            return self.refuses(lambda: self.repo.merge(name, ff=False), ml.errors.InvalidInput, ml.errors.Conflict)
        if model.branch is None:
            theirs = (theirs[0], None)
        if model.behind(theirs[0]) <= model.behind(model.tip) and model.behind(theirs[1]) <= model.behind(model.memory):
            assert self.repo.merge(name, ff=ff).up_to_date
            return None
        unrelated = model.tip and theirs[0] and not model.bases(model.tip, theirs[0])
        if model.staged() or unrelated:
            return self.refuses(lambda: self.repo.merge(name), ml.errors.Conflict, ml.errors.InvalidInput)
        (work, asked), (memory, more) = (
            self.joined(ours, other, side) for ours, other in zip((model.tip, model.memory), theirs, strict=True)
        )
        moves = differences(model.tree(model.tip), work)

        def verb() -> Merged:
            return self.settle(self.repo.merge(name, ff=ff), side, asked | more)

        if clashes(work) or self.blocked(moves) or self.cannot_wait(moves, asked | more):
            self.refuses(verb, ml.errors.Conflict)
            return self.abandon()
        expected = self.moved(moves)
        expected.work.update({path: work[path] for path in asked if path in work})  # what is chosen is on the disk

        def both() -> None:
            verb()
            self.advance(expected, 0, theirs[0], work, ff)
            if model.branch is not None:
                self.advance(expected, 1, theirs[1], memory, ff)

        return self.does(both, expected)

    def joined(self, ours: str | None, theirs: str | None, side: str) -> tuple[Tree, set[str]]:
        """The tree a merge must give when all conflicts go to one side, and the paths it must ask about."""
        model = self.model
        bases = sorted(model.bases(ours, theirs))
        one, two = model.tree(ours), model.tree(theirs)
        merged, asked = three_way(model.tree(bases[0]) if bases else {}, one, two)
        if len(bases) > 1:
            # The right answer with two bases is tested in test_merge.py; here each must agree or be asked about.
            for base in bases[1:]:
                other, more = three_way(model.tree(base), one, two)
                asked |= more | differences(other, merged).keys()
        for path in asked:
            chosen = (two if side == "theirs" else one).get(path)
            merged.pop(path, None) if chosen is None else merged.__setitem__(path, chosen)
        return merged, {path for path in asked if one.get(path) != two.get(path)}

    def settle(self, merged: Merged, side: str, asked: set[str]) -> Merged:
        assert {conflict.path.removeprefix("files/") for conflict in merged.conflicts} == asked
        if merged.conflicts:
            assert self.repo.status().doing
            held = self.on_disk()
            assert all(held.get(path) == self.model.work[path] for path in asked & self.model.work.keys())
            self.exact = False  # undo goes back to the waiting merge, which the model does not have
            self.repo.pending_merge.choose(side)
            merged = self.repo.pending_merge.conclude()
        return merged

    def abandon(self) -> None:
        if self.repo.status().doing:
            self.repo.pending_merge.abort()
        self.exact = True
        self.done.clear()

    def advance(self, model: Model, lane: int, theirs: str | None, tree: Tree, ff: bool) -> None:
        """Where one lane of the current branch must be after a merge."""
        heads = list(model.branches[model.branch]) if model.branch else [model.tip, None]
        ours = heads[lane]
        if theirs is None or theirs in model.behind(ours):
            return
        if ff and (ours is None or ours in model.behind(theirs)):
            heads[lane] = theirs
        else:
            now = self.repo.head if lane == 0 else next(b.memory for b in self.repo.branches if b.current)
            assert now is not None and now not in model.commits
            model.commits[now] = Point(tree, tuple(p for p in (ours, theirs) if p))
            heads[lane] = now
        if model.branch is None:
            model.head = f"@{heads[0]}"
        else:
            model.branches[model.branch] = (heads[0], heads[1])

    @precondition(lambda self: self.model.tip)
    @rule(which=number, side=side, verb=st.sampled_from(["revert", "cherry_pick"]))
    def replay(self, which: int, side: str, verb: str) -> None:
        model, target = self.model, self.pick(which)
        merge = len(model.commits[target].parents) > 1
        run = partial(getattr(self.repo, verb), mainline=1 if merge else None)
        if model.staged():
            return self.refuses(lambda: run(target), ml.errors.Conflict)
        then = model.tree(target)
        before = model.tree(next(iter(model.commits[target].parents), None))
        base, theirs = (then, before) if verb == "revert" else (before, then)
        ours = model.tree(model.tip)
        tree, asked = three_way(base, ours, theirs)
        for path in asked:
            chosen = (theirs if side == "theirs" else ours).get(path)
            tree.pop(path, None) if chosen is None else tree.__setitem__(path, chosen)
        moves = differences(ours, tree)
        chosen_files = {path: tree[path] for path in asked if path in tree}  # what is chosen is on the disk
        if not moves or clashes(tree) or self.blocked(moves) or self.cannot_wait(moves, asked):
            self.refuses(lambda: self.settle(run(target), side, asked), ml.errors.Nothing, ml.errors.Conflict)
            if not moves and not self.cannot_wait(moves, asked):  # it waited, was chosen, and ended empty
                model.work.update(chosen_files)
            return self.abandon()
        expected = self.moved(moves)
        expected.work.update(chosen_files)

        def done() -> None:
            self.settle(run(target), side, asked)
            self.learn(expected, tree, (model.tip,))

        return self.does(done, expected)

    # -- putting aside -----------------------------------------------------------------------------

    @precondition(lambda self: self.model.tip)
    @rule(untracked=st.booleans())
    def stash(self, untracked: bool) -> None:
        model = self.model
        head = model.tree(model.tip)
        after = {path: model.work.get(path) for path in model.stage.keys() | head.keys()}
        extra = model.work.keys() - model.stage.keys() - head.keys() if untracked else set()
        after.update((path, model.work[path]) for path in extra)
        changes = {path: (head.get(path), new) for path, new in after.items() if head.get(path) != new}
        if not changes and not model.staged():
            return self.refuses(lambda: self.repo.stash.push(include_untracked=untracked), ml.errors.Nothing)
        expected = model.copy()
        expected.stage = dict(head)
        for path in after:
            put(expected.work, path, None)
        for path, kept in head.items():
            put(expected.work, path, kept)
        expected.shelves.insert(0, Shelf(changes, frozenset(extra)))
        if model.work.keys() - after.keys() - expected.work.keys():
            return self.refuses(lambda: self.repo.stash.push(include_untracked=untracked), ml.errors.Conflict)
        return self.does(lambda: self.repo.stash.push(include_untracked=untracked), expected)

    @precondition(lambda self: self.model.shelves)
    @rule()
    def pop(self) -> None:
        model, shelf = self.model, self.model.shelves[0]
        base, theirs = ({p: v[n] for p, v in shelf.changes.items() if v[n] is not None} for n in (0, 1))
        tree, asked = three_way(base, model.stage, theirs)
        moves: Moves = differences(model.stage, tree)
        if self.cannot_wait(moves, asked):
            return self.refuses(self.repo.stash.pop, ml.errors.Conflict)
        if asked:
            assert {c.path.removeprefix("files/") for c in self.repo.stash.pop().conflicts} == asked
            return self.abandon()
        if clashes(tree) or self.blocked_over_stage(moves):
            return self.refuses(self.repo.stash.pop, ml.errors.Conflict)
        expected = self.moved(moves)
        expected.shelves.pop(0)
        expected.stage = dict(model.stage)
        for path, (_, new) in moves.items():
            if path not in model.stage and path not in shelf.untracked and new is not None:
                put(expected.stage, path, new)
        return self.does(self.repo.stash.pop, expected)

    # -- keeping -----------------------------------------------------------------------------------

    @precondition(lambda self: self.done and self.done[-1][1] == self.model)
    @rule()
    def undo(self) -> None:
        """Taking back the last verb, when nothing was done by hand since, gives back all of what was."""
        before, _ = self.done.pop()
        self.repo.undo()
        self.model = before

    @rule(prune=st.booleans())
    def gc(self, prune: bool) -> None:
        self.repo.upkeep.gc(prune=prune)

    @rule()
    def reopen(self) -> None:
        self.repo.close()
        self.repo = ml.open(self.root)

    @rule()
    def crash(self) -> None:
        """The process is gone without saying goodbye: nothing is closed, nothing checkpointed."""
        self.left_open.append(self.repo)
        self.repo = ml.open(self.root)

    @rule()
    def fsck(self) -> None:
        report = self.repo.upkeep.fsck()
        assert report.ok, report.problems
