"""Clones of one remote beside a plain graph of commits: whatever they do in whatever order, they end up the same.

Clones commit, remember, save datasets, branch, tag, purge, drop, read what is away, collect garbage here and there,
push, fetch and pull in random order. What talks to the remote may be killed before or after any request, by an
exception that nobody may catch or by SIGKILL, or meets another clone that acts between two requests. Contents are
random and never text, so that what both sides changed is a conflict and nothing is taken for renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.objects.places import Folder
from memlake.objects.swap import FolderSwap
from memlake.repo import Repo
from memlake.versions import tables
from tests.versions.sync.test_purges import holds

LANES = (0, 1)
PATHS = [f"{number}.bin" for number in range(5)]
SIZES = (60, 300, 6000, 40_000, 40_000, 40_000, 40_000, 1_200_000)  # in a row, in a pack, in chunks
DATASET = "datasets/"
Tree = dict[str, str]  # path -> oid of what it holds
Heads = tuple[str | None, str | None]  # of work and memory
Act = Callable[[Repo], object]


class Killed(BaseException):
    """Raised between two requests. Nothing of ours may catch it."""


class Wire:
    """Everything that is asked of the remote, with a fuse that burns before and after each request."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fuse: Callable[[], None] | None = None
        self._busy = threading.local()  # a swap reads the file again while it has the lock: that is no request
        for name in ("put", "get_ranges", "size", "list", "delete"):
            patch.setattr(Folder, name, self._tap(getattr(Folder, name), lambda place: place.root))
        for name in ("load", "swap"):
            patch.setattr(FolderSwap, name, self._tap(getattr(FolderSwap, name), lambda swap: swap._folder))

    def _tap(self, real: Callable[..., Any], folder_of: Callable[[Any], Path]) -> Callable[..., Any]:
        def request(where: Any, *given: Any, **named: Any) -> Any:
            if folder_of(where).name != "remote" or getattr(self._busy, "inside", False):
                return real(where, *given, **named)
            self._burn()
            self._busy.inside = True
            try:
                answer = real(where, *given, **named)
            finally:
                self._busy.inside = False
            self._burn()
            return answer

        return request

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse()

    @contextlib.contextmanager
    def burning(self, after: int, work: Callable[[], object]) -> Iterator[None]:
        """Do some work at this many steps from now, once."""
        left = after

        def burn() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.fuse = None
                work()

        self.fuse = burn
        try:
            yield
        finally:
            self.fuse = None


class Point(NamedTuple):
    """A commit of the model."""

    tree: Tree
    parents: tuple[str, ...]


class Joined(NamedTuple):
    """What a merge of two commits must come to: a head that is there, or a tree with the paths that wait."""

    head: str | None
    tree: Tree
    waiting: set[str]


class Fleet:
    """Clones of one remote, and what is known of what they did."""

    def __init__(self, folder: Path, seed: int, clones: int, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.remote, self.rng = folder, folder / "remote", random.Random(seed)
        self.wire = Wire(patch)
        self.points: dict[str, Point] = {}
        self.contents: dict[str, bytes] = {}
        self.rows: list[int] = []
        self.purged: set[str] = set()
        self.tags: dict[str, str] = {}
        self.number = 0
        self.counts = Counter[str]()
        with ml.init(folder / "0") as first:
            first.config.set("embedding.provider", "none")
        self.repos = [ml.open(folder / "0")]
        self.repos[0].remotes.add("origin", self.remote)
        for path in PATHS[:3]:
            self.commit(self.repos[0], path)
        self.remember(self.repos[0])
        self.repos[0].push()
        for number in range(1, clones):
            self.join(str(number), only="none" if number % 3 == 2 else None)

    def join(self, name: str, only: str | None = None) -> None:
        with ml.clone(self.remote, self.folder / name, filter=only) as clone:
            clone.config.set("embedding.provider", "none")
            clone.config.set("merge.conflict", self.rng.choice(["merge", "diff3"]))
        self.repos.append(ml.open(self.folder / name))
        (self.folder / name / "mine.txt").write_text(name)  # never added
        self.repos[-1].branches.create(f"mine-{name}")  # never pushed

    def close(self) -> None:
        for repo in self.repos:
            repo.close()

    # -- the model

    def head(self, repo: Repo) -> Heads:
        (heads,) = [row[2:4] for row in tables.list_all_refs(repo._history.db) if row[:2] == (0, "main")]
        work, memory = (oid.hex() if oid else None for oid in heads)
        return work, memory

    def there(self) -> Heads:
        """What main is at the remote."""
        work, memory, _ = json.loads((self.remote / "root").read_bytes())["refs"]["0/main"]
        return work, memory

    def learn(self, repo: Repo, lane: int) -> Tree:
        """Note the commit that a lane names now; returns its tree."""
        oid = self.head(repo)[lane]
        assert oid is not None
        if oid not in self.points:
            commit = repo._history.get(oid)
            tree = {path: entry.oid for path, entry in repo._history.scan(commit)}
            assert all(path.startswith(("files/", "datasets/", "memories/", "state/", "runs/")) for path in tree)
            self.points[oid] = Point(tree, tuple(commit.parents))
        return self.points[oid].tree

    def list_behind(self, head: str | None) -> set[str]:
        found, waiting = set[str](), [head] if head else []
        while waiting:
            if (oid := waiting.pop()) not in found:
                found.add(oid)
                waiting.extend(self.points[oid].parents)
        return found

    def join_heads(self, ours: str | None, theirs: str | None) -> Joined | None:
        """What their merge must be; None where it has several bases."""
        before, other = self.list_behind(ours), self.list_behind(theirs)
        if theirs is None or theirs in before:
            return Joined(ours, {}, set())
        if ours is None or ours in other:
            return Joined(theirs, {}, set())
        shared = before & other
        best = shared - {oid for one in shared for oid in self.list_behind(one) - {one}}
        if len(best) > 1:
            return None
        base = self.points[best.pop()].tree if best else {}
        tree, waiting = _join_trees(base, self.points[ours].tree, self.points[theirs].tree)
        return Joined(None, tree, {path for path in waiting if not path.startswith(DATASET)})

    # -- one step

    def step(self) -> None:
        """One clone does one thing, which may be killed or met by another clone."""
        self.counts["steps"] += 1
        repo, before = self.rng.choice(self.repos), self.there()
        chance = self.rng.random()
        if chance < 0.4:
            self.rng.choices([self.commit, self.remember, self.save, self.tag, self.side, self.purge, self.collect],
                             [8, 6, 1, 2, 2, 1, 1])[0](repo)  # fmt: skip
        elif chance < 0.65:
            self.push_or_pull(repo)
        else:
            acts: list[Act] = [Repo.push, Repo.fetch, self.collect_there, self.read, self.drop, self.archive]
            act = self.rng.choices(acts, [4, 3, 2, 3, 1, 2])[0]
            self.disturb(repo, act)
        after = self.there()
        for lane in LANES:  # a branch of the remote never loses a commit
            for one in self.repos:
                if self.head(one)[lane] is not None:
                    self.learn(one, lane)
            assert before[lane] is None or before[lane] in self.list_behind(after[lane])

    def disturb(self, repo: Repo, act: Act) -> None:
        """Do something, and be killed or met by somebody else between two requests."""
        heads, after, way = self.head(repo), self.rng.randrange(30), self.rng.randrange(5)
        if way == 0:
            self.kill_child(repo, act, after)
        elif way == 1:
            other = self.rng.choice([one for one in self.repos if one is not repo])
            theirs = self.rng.choice([Repo.push, Repo.push, self.collect_there])
            with contextlib.suppress(ml.Error), self.wire.burning(after, lambda: self.try_to(other, theirs)):
                act(repo)
        else:
            with contextlib.suppress(Killed), self.wire.burning(after, self.die):
                self.try_to(repo, act)
        assert self.head(repo) == heads

    def die(self) -> None:
        self.counts["kills"] += 1
        raise Killed

    def try_to(self, repo: Repo, act: Act) -> None:
        with contextlib.suppress(ml.errors.Conflict, ml.errors.NotFound, ml.errors.Nothing, ml.errors.Purged):
            act(repo)

    def kill_child(self, repo: Repo, act: Act, after: int) -> None:
        """The same in a process of its own, which kills itself."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with self.wire.burning(after, lambda: os.kill(os.getpid(), signal.SIGKILL)), ml.open(repo.root) as mine:
                    self.try_to(mine, act)
                code = 0
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        self.counts["kills"] += status != 0

    # -- verbs without a remote

    def commit(self, repo: Repo, path: str | None = None) -> None:
        path = path or self.rng.choice(PATHS)
        size = self.rng.choice(SIZES)
        data = random.Random(f"{path} {size} {self.rng.randrange(9)}").randbytes(size)
        old = self.learn(repo, 0) if self.head(repo)[0] else {}
        (Path(repo.root) / path).write_bytes(data)
        try:
            repo.add(Path(repo.root) / path)
            repo.commit(f"{path} of {Path(repo.root).name}")
        except (ml.errors.Purged, ml.errors.Nothing):
            (Path(repo.root) / path).unlink()
            with contextlib.suppress(ml.Error):
                repo.reset("HEAD", "hard")
            return
        tree = self.learn(repo, 0)
        oid = tree[f"files/{path}"]
        self.contents[oid] = data
        assert tree == {**old, f"files/{path}": oid}

    def remember(self, repo: Repo) -> None:
        """A memory, a change of one, or a value of state. One path changes."""
        self.number += 1
        old = self.learn(repo, 1) if self.head(repo)[1] else {}
        memories, way = repo.memories(), self.rng.randrange(5)
        known = memories.list_memories(Query(limit=1000)) if way == 0 else []
        if known:
            memories.update(self.rng.choice(known).memory_id, Draft(f"note word{self.number}"), changed=["content"])
        elif way == 1:
            memories.set_state("bot", f"key{self.rng.randrange(3)}", self.number)
        else:
            memories.store(Draft(f"note word{self.number}", agent_id="bot"))
        tree = self.learn(repo, 1)
        assert len([path for path in tree.keys() | old.keys() if tree.get(path) != old.get(path)]) == 1

    def save(self, repo: Repo) -> None:
        self.number += 1
        repo.datasets().read_values(x=[self.number]).save("pets")
        self.rows.append(self.number)
        self.learn(repo, 0)

    def tag(self, repo: Repo) -> None:
        self.number += 1
        self.tags[f"t{self.number}"] = repo.tags.create(f"t{self.number}").work or ""

    def side(self, repo: Repo) -> None:
        """A branch of its own, sent, or one that is deleted at the remote."""
        self.number += 1
        refs = [key[2:] for key in json.loads((self.remote / "root").read_bytes())["refs"] if key.startswith("0/side")]
        if refs and self.rng.random() < 0.5:
            repo.push("origin", self.rng.choice(sorted(refs)), delete=True)
        else:
            name = f"side{self.number}"
            repo.branches.create(name)
            repo.write({f"files/{name}": self.rng.randbytes(20_000)}, name, branch=name)
            self.disturb(repo, lambda repo: repo.push("origin", name))

    def purge(self, repo: Repo) -> None:
        tree = self.learn(repo, 0)
        path = self.rng.choice(sorted(path for path in tree if path.startswith("files/")))
        if tree[path] not in self.purged:
            with contextlib.suppress(ml.errors.NotFound):
                repo.upkeep.purge(tree[path], reason="a test")
            self.purged.add(tree[path])
            self.counts["purges"] += 1

    def collect(self, repo: Repo) -> None:
        repo.upkeep.gc(prune=True)

    # -- verbs with a remote

    def collect_there(self, repo: Repo) -> None:
        repo.remotes.gc(prune=self.number % 2 == 0)

    def read(self, repo: Repo) -> None:
        for path, oid in sorted(self.learn(repo, 0).items()):
            if path.startswith("files/") and oid in self.contents:
                try:
                    assert repo.read(path.removeprefix("files/")) == self.contents[oid]
                except (ml.errors.Purged, ml.errors.NotFound):
                    assert oid in self.purged

    def drop(self, repo: Repo) -> None:
        repo.remotes.drop(self.rng.choice(PATHS))

    def archive(self, repo: Repo) -> None:
        """Move the data of all that was pushed there, or have it back."""
        done = repo.remotes.unarchive() if self.number % 8 == 0 else repo.remotes.archive("0d")
        self.counts["archived"] += done.commits

    def push_or_pull(self, repo: Repo) -> None:
        if self.rng.random() < 0.5:
            self.push(repo)
        else:
            self.pull(repo)

    def push(self, repo: Repo) -> None:
        """Each lane goes forward there, or nothing does."""
        ours, theirs, expected = self.head(repo), self.there(), list[str | None]()
        for mine, other in zip(ours, theirs, strict=True):
            is_known = other is not None and repo._history.has(other)
            if mine is None or mine == other or (is_known and mine in self.list_behind(other)):
                expected.append(other)
            elif other is None or (is_known and other in self.list_behind(mine)):
                expected.append(mine)
            else:
                with pytest.raises(ml.errors.Conflict):
                    repo.push()
                assert self.there() == theirs
                return
        repo.push()
        assert self.there() == tuple(expected)

    def pull(self, repo: Repo) -> None:
        """What both changed differently waits, nothing else does, and the rest is joined."""
        for lane in LANES:
            if self.head(repo)[lane]:
                self.learn(repo, lane)
        ours, theirs = self.head(repo), self.there()
        joined = [self.join_heads(*pair) for pair in zip(ours, theirs, strict=True)]
        merged = repo.pull().merged
        waiting = {one.path for one in merged.conflicts} if merged else set()
        if all(joined):
            assert waiting == {path for one in joined if one for path in one.waiting}
        if merged and waiting:
            self.counts["conflicts"] += len(waiting)
            for path in sorted(waiting):
                merged.choose(self.rng.choice(["ours", "theirs"]), path)
            merged.conclude("Joined")
        for lane, one in zip(LANES, joined, strict=True):
            head = self.head(repo)[lane]
            if head is None or one is None:
                continue
            tree = self.learn(repo, lane)
            if one.head is not None:
                assert head == one.head
                continue
            assert self.points[head].parents == (ours[lane], theirs[lane])
            sure = {path for path in tree.keys() | one.tree.keys() if not path.startswith(DATASET)} - one.waiting
            assert {path: tree.get(path) for path in sure} == {path: one.tree.get(path) for path in sure}

    # -- the end

    def settle(self) -> None:
        """Everybody pushes and pulls until nothing changes, which takes two rounds."""
        for _ in range(2):
            self.rng.shuffle(self.repos)
            for repo in self.repos:
                self.pull(repo)
                repo.push()
                if repo.tags.list():
                    repo.push(tags=True)
        for repo in self.repos:
            assert repo.fetch().up_to_date and repo.push().up_to_date and repo.pull().merged is None

    def compare(self) -> None:
        """All clones hold the same, all that was acknowledged, once, and nothing that was erased."""
        self.join("late")
        last, heads = self.repos[-1], self.there()
        assert self.points.keys() == self.list_behind(heads[0]) | self.list_behind(heads[1])
        saved = last.datasets().versions("pets") if self.rows else []
        assert sorted(row for one in saved for row in last.datasets().of(one).to_values("x")) == self.rows
        for repo in self.repos:
            assert self.head(repo) == heads
            assert {tag.name: tag.work for tag in repo.tags.list()} == self.tags
            assert repo.remotes.branches() == last.remotes.branches()
            for lane in LANES:
                commit = repo._history.get(heads[lane] or "")
                assert repo._history.root(commit) == last._history.root(last._history.get(heads[lane] or ""))
            assert _tell(repo) == _tell(last)
            self.read(repo)
            report = repo.upkeep.fsck(full=True)
            assert report.ok, report
            mine = {branch.name for branch in repo.branches.list() if branch.name.startswith("mine")}
            assert mine <= {f"mine-{Path(repo.root).name}"}
        for oid in self.purged:
            assert not holds(self.remote, self.contents[oid])
        self.compare_bundle(next(repo for repo in self.repos if Path(repo.root).name == "0"))

    def compare_bundle(self, whole: Repo) -> None:
        """What is collected into a bundle of all refs is, applied to nothing, the same repo."""
        names = {branch.name: (branch.work, branch.memory) for branch in whole.branches.list()}
        tags = {f"tag:{name}" for name in self.tags}
        whole.remotes.bundle(self.folder / "all.bundle", *sorted({*names, *tags}))
        with ml.clone(self.folder / "all.bundle", self.folder / "from bundle") as copy:
            assert {
                one.name.removeprefix("origin/"): (one.work, one.memory) for one in copy.remotes.branches()
            } == names
            assert {tag.name: tag.work for tag in copy.tags.list()} == self.tags
            heads = {oid for one in (*names.values(), *((oid,) for oid in self.tags.values())) for oid in one if oid}
            assert _list_objects(copy, heads) == _list_objects(whole, heads) and _tell(copy) == _tell(whole)
            assert copy.upkeep.fsck(full=True).ok


def _list_objects(repo: Repo, heads: Iterable[str]) -> dict[str, str | None]:
    """What some commits hold, each with the hash of its content; None of what was purged."""
    found = dict[str, str | None]()
    for head in heads:
        for _, entry in repo._history.scan(repo._history.get(head)):
            try:
                found[entry.oid] = hashlib.sha256(repo._history.objects.read(entry.oid)).hexdigest()
            except ml.errors.Purged:
                found[entry.oid] = None
    return found


def _join_trees(base: Tree, ours: Tree, theirs: Tree) -> tuple[Tree, set[str]]:
    """What one side changed, and the paths that both changed differently."""
    merged, waiting = dict(ours), set[str]()
    for path in base.keys() | theirs.keys():
        old, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if old == mine and other is not None:
            merged[path] = other
        elif old == mine:
            merged.pop(path, None)
        elif old not in (mine, other) and mine != other:
            waiting.add(path)
    return merged, waiting


def _tell(repo: Repo) -> list[object]:
    """Memories as they are listed, found by word, and the state."""
    memories = repo.memories()
    listed = sorted((one.memory_id, one.content) for one in memories.list_memories(Query(limit=10_000)))
    found = [[hit["memory_id"] for hit in memories.search(Query(text.split()[-1]))] for _, text in listed[:5]]
    return [listed, found, sorted((one.key, one.value) for one in memories.states("bot"))]
