"""What became of what memories rest on: right under any edits, at any moment, and never stale for a rename."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.memories import doubt, standing, take_anchors
from memlake.memories.anchors import IN_DOUBT
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Memory
from memlake.repo import Repo
from tests.memories.anchored_edits import Project, Use


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def repo(root: Path) -> Iterator[Repo]:
    with ml.init(root) as repo:
        repo.config.set("embedding.provider", "none")
        yield repo


@pytest.fixture
def memories(repo: Repo) -> Memories:
    return repo.memories()


def remember(memories: Memories, text: str, *uses: str) -> str:
    return memories.store(Draft(text, uses=uses)).memory_id


def standing_of(memories: Memories, memory_id: str) -> str:
    return str(memories.fields(memories.get(memory_id))["standing"])


# -- generated edits --------------------------------------------------------------------------


class Tried:
    """Anchors of a project, each of a memory of its own, and how often their standing was right."""

    def __init__(self, memories: Memories, project: Project, count: int) -> None:
        self.context, self.project = memories.context, project
        self.uses = {number: project.choose_use() for number in range(count)}
        self.memories = {number: self._anchor(number, use) for number, use in self.uses.items()}
        self.count, self.renames_stale = Counter[tuple[bool, bool]](), 0

    def _anchor(self, number: int, use: Use) -> Memory:
        uses = take_anchors.take_all(self.context, doubt.describe_moment(self.context), [use.name])
        memory = Memory(f"{number:08x}-0000-7000-8000-000000000000", "x", uses=uses, own=True)
        return memory._replace(created_at=0)

    def judge_all(self, kind: str) -> None:
        judged = standing.judge(doubt.describe_moment(self.context), self.memories.values())
        for number, use in list(self.uses.items()):
            memory = self.memories[number]
            stale, said = use.is_stale(self.project), judged[memory.memory_id][0].word in IN_DOUBT
            self.count[stale, said] += 1
            self.renames_stale += kind == "rename" and said and not stale
            if stale or said:  # it has become clear, so the next edits are of something else
                self.uses[number] = self.project.choose_use()
                self.memories[number] = self._anchor(number, self.uses[number])

    @property
    def precision(self) -> float:
        return self.count[True, True] / (self.count[True, True] + self.count[False, True])

    @property
    def recall(self) -> float:
        return self.count[True, True] / (self.count[True, True] + self.count[True, False])


def run_edits(repo: Repo, root: Path, *, seed: int, anchors: int, edits: int, texts: int = 40) -> Tried:
    (root / ".git" / "objects").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    project = Project(root, seed, texts, 6)
    repo.add("src")  # the rest only git may track
    repo.commit("files")
    tried = Tried(repo.memories(), project, anchors)
    assert {use.is_of_git for memory in tried.memories.values() for use in memory.uses} == {True, False}
    for _ in range(edits):
        tried.judge_all(project.edit(list(tried.uses.values())))
    return tried


def test_after_random_edits_what_is_stale_is_known_and_no_rename_is_called_so(repo: Repo, root: Path) -> None:
    tried = run_edits(repo, root, seed=1, anchors=80, edits=150, texts=12)
    assert tried.renames_stale == 0
    assert tried.precision >= 0.99 and tried.recall >= 0.99, (tried.count, tried.project.did)
    kinds = {"inside", "outside", "whitespace", "rename", "move", "delete", "tensor inside", "tensor outside"}
    assert tried.count[True, True] > 80 and kinds <= tried.project.did.keys()


@pytest.mark.torture
def test_five_hundred_anchors_under_two_thousand_edits(repo: Repo, root: Path) -> None:
    tried = run_edits(repo, root, seed=99, anchors=500, edits=2000)
    print(tried.count, tried.precision, tried.recall, tried.project.did)
    assert tried.renames_stale == 0
    assert tried.precision >= 0.99 and tried.recall >= 0.99
