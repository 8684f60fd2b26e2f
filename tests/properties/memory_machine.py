"""Memories and a dict side by side: whatever is done to both, every list, search and moment of the past agrees.

A few words make all contents, so that any word finds several memories; after each verb one branch is compared whole,
and the trunk in the past. The index folds after a few rows, and is deleted now and then.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memlake as ml
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query

WORDS = ["alder", "briar", "clover", "dogwood", "elm"]
AGENTS = ["ann", "bob"]
BRANCHES = ["one", "two"]
EVERY = 10_000

content = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
agent = st.sampled_from(AGENTS)
number = st.integers(0, 10**6)
Tree = dict[str, tuple[str, str, int]]  # memory id -> (agent, content, number of the write)


class MemoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="memlake-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        ml.init(self.folder).close()
        with ml.open(self.folder) as repo:
            repo.config.set("embedding.provider", "none")
        self.repo = ml.open(self.folder)
        self.trees: dict[str, Tree] = {"main": {}}
        self.bases: dict[str, Tree] = {}  # of each branch, what it and main last had in common
        self.past: list[tuple[str, str, Tree]] = []  # (branch, commit, what it held)
        self.gone: dict[str, Tree] = {"main": {}}  # last values of deleted memories by branch
        self.at, self.writes = "main", 0

    def teardown(self) -> None:
        self.repo.close()
        shutil.rmtree(self.folder)

    @property
    def memories(self) -> Memories:
        return self.repo.memories(self.at)

    @property
    def tree(self) -> Tree:
        return self.trees[self.at]

    @initialize()
    def begin(self) -> None:
        self.store("alder", "ann")

    def note(self) -> None:
        """Remember this moment of the branch."""
        head = self.memories.context.head()
        if head is not None:
            self.past.append((self.at, head.oid, dict(self.tree)))

    def put(self, memory_id: str, agent: str, content: str) -> None:
        self.writes += 1  # two writes of one content are two changes to a merge
        self.tree[memory_id] = (agent, content, self.writes)

    def some(self, which: int) -> str:
        return sorted(self.tree)[which % len(self.tree)]

    # -- writing ---------------------------------------------------------------------------------

    @rule(content=content, agent=agent)
    def store(self, content: str, agent: str) -> None:
        made = self.memories.store(Draft(content, agent_id=agent))
        self.put(made.memory_id, agent, content)
        self.note()

    @rule(contents=st.lists(content, min_size=1, max_size=9), agent=agent)
    def store_many(self, contents: list[str], agent: str) -> None:
        for made in self.memories.store_many([Draft(one, agent_id=agent) for one in contents]):
            self.put(made.memory_id, agent, made.content)
        self.note()

    @rule(content=content, agent=agent)
    def remember(self, content: str, agent: str) -> None:
        """Whatever is decided, the outcome says what is there now."""
        done = self.memories.remember(Draft(content, agent_id=agent))
        if done.decision == "skip":
            assert self.tree[done.memory_id][0] == agent
            return
        self.put(done.memory_id, agent, done.content)
        self.note()

    @precondition(lambda self: self.tree)
    @rule(which=number, content=content)
    def update(self, which: int, content: str) -> None:
        memory_id = self.some(which)
        self.memories.update(memory_id, Draft(content), changed=["content"])
        self.put(memory_id, self.tree[memory_id][0], content)
        self.note()

    @precondition(lambda self: self.tree)
    @rule(which=number)
    def delete(self, which: int) -> None:
        memory_id = self.some(which)
        self.memories.delete(memory_id)
        self.gone[self.at][memory_id] = self.tree.pop(memory_id)
        self.note()

    @precondition(lambda self: self.gone[self.at].keys() - self.tree.keys())
    @rule(which=number)
    def restore(self, which: int) -> None:
        """To the value it had on this branch, named by the commit before it was deleted."""
        gone = sorted(self.gone[self.at].keys() - self.tree.keys())
        memory_id = gone[which % len(gone)]
        held = [(oid, tree) for branch, oid, tree in self.past if branch == self.at and memory_id in tree]
        if not held:
            return
        self.memories.restore(memory_id, at=held[-1][0])
        self.put(memory_id, *held[-1][1][memory_id][:2])
        self.note()

    # -- branches --------------------------------------------------------------------------------

    @rule(name=st.sampled_from(BRANCHES))
    def create_branch(self, name: str) -> None:
        if name in self.trees:
            return
        self.repo.memories("main").create_branch(name)
        self.trees[name], self.bases[name] = dict(self.trees["main"]), dict(self.trees["main"])
        self.gone[name] = {}

    @rule(name=st.sampled_from(["main", *BRANCHES]))
    def go(self, name: str) -> None:
        self.at = name if name in self.trees else "main"

    @precondition(lambda self: len(self.trees) > 1)
    @rule(which=number, strategy=st.sampled_from(["branch_wins", "main_wins"]))
    def merge(self, which: int, strategy: str) -> None:
        name = sorted(self.bases)[which % len(self.bases)]
        self.at = "main"
        self.memories.merge_branch(name, strategy)
        base, theirs, ours = self.bases[name], self.trees[name], self.trees["main"]
        for memory_id in base.keys() | theirs.keys() | ours.keys():
            before, mine, other = (tree.get(memory_id) for tree in (base, ours, theirs))
            if other != before and (mine == before or strategy == "branch_wins"):
                ours.pop(memory_id, None)
                if other is not None:
                    ours[memory_id] = other
        self.bases[name] = dict(theirs)
        self.note()

    @precondition(lambda self: len(self.trees) > 1)
    @rule(which=number)
    def discard(self, which: int) -> None:
        name = sorted(self.bases)[which % len(self.bases)]
        self.at = "main"
        self.memories.discard_branch(name)
        for known in (self.trees, self.bases, self.gone):
            del known[name]
        self.past = [moment for moment in self.past if moment[0] != name]

    # -- the index -------------------------------------------------------------------------------

    @rule()
    def fold(self) -> None:
        self.memories.shared.index.fold()

    @rule()
    def reopen(self) -> None:
        self.repo.close()
        self.repo = ml.open(self.folder)

    @rule(closed=st.booleans())
    def delete_index(self, closed: bool) -> None:
        if closed:
            self.repo.close()
        shutil.rmtree(self.folder / ".memlake" / "index", ignore_errors=True)
        if closed:
            self.repo = ml.open(self.folder)

    # -- what must be equal ----------------------------------------------------------------------

    @invariant()
    def lists_are_equal(self) -> None:
        assert self.listed() == plain(self.tree), f"on {self.at}"

    @rule(word=st.sampled_from(WORDS), agent=st.sampled_from([*AGENTS, "*"]))
    def search(self, word: str, agent: str) -> None:
        assert self.found(word, agent_id=agent) == self.expected(self.tree, word, agent)

    @precondition(lambda self: self.past)
    @rule(which=number, word=st.sampled_from(WORDS))
    def search_the_past(self, which: int, word: str) -> None:
        branch, oid, tree = self.past[which % len(self.past)]
        self.at = branch
        assert self.found(word, as_of=oid) == self.expected(tree, word)
        assert self.listed(as_of=oid) == plain(tree)

    @precondition(lambda self: self.tree)
    @rule(which=number)
    def find(self, which: int) -> None:
        memory_id = self.some(which)
        found = self.memories.get(memory_id)
        assert (found.agent_id, found.content) == self.tree[memory_id][:2]

    def listed(self, **how: object) -> dict[str, tuple[str, str]]:
        found = self.memories.list_memories(Query(limit=EVERY, **how))  # type: ignore[arg-type]
        assert len({m.memory_id for m in found}) == len(found), "a memory is listed twice"
        return {m.memory_id: (m.agent_id, m.content) for m in found}

    def found(self, word: str, **how: object) -> set[str]:
        hits = self.memories.search(Query(word, mode="keyword", limit=100, **how))  # type: ignore[arg-type]
        ids = [hit["memory_id"] for hit in hits if hit["why"].get("words")]
        assert len(ids) == len(set(ids)), "a memory was found twice"
        return set(ids)

    @staticmethod
    def expected(tree: Tree, word: str, agent: str = "*") -> set[str]:
        return {i for i, (who, content, _) in tree.items() if word in content.split() and agent in ("*", who)}


def plain(tree: Tree) -> dict[str, tuple[str, str]]:
    return {memory_id: value[:2] for memory_id, value in tree.items()}
