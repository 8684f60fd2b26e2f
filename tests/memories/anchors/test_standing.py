"""What became of what memories rest on: right under any edits, at any moment, and never stale for a rename."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.integrations.read_memories import read_memories
from memlake.memories import record
from memlake.memories.anchors import doubt, standing, take_anchors
from memlake.memories.anchors.anchor import IN_DOUBT
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.memories.transfer import list_items, load_items, write_items
from memlake.repo import Repo, open_repo
from tests.memories.anchors.anchored_edits import Project, Use

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


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


# -- one by one -------------------------------------------------------------------------------


def write_lines(file: Path, *, change: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"line {number} of a file with many words\n" for number in range(1, 31)]
    file.write_text("".join(lines).replace("line 12 ", f"{change or 'line 12'} "))


def commit(repo: Repo, *paths: str) -> None:
    repo.add(list(paths))
    repo.commit("files")


def test_a_hit_says_what_became_of_its_foundation_in_every_search(repo: Repo, root: Path) -> None:
    memories = repo.memories()
    write_lines(root / "api.py")
    remember(memories, "Ports stand in api.py", "api.py:10-14", "api.py")
    remember(memories, "Ports are numbers")
    anchored, plain = sorted(memories.search(Query("ports")), key=lambda hit: not hit["uses"])
    assert (anchored["standing"], anchored["because"], anchored["uses"]) == ("fresh", [], ["api.py:10-14", "api.py"])
    assert (plain["standing"], plain["because"], plain["uses"]) == (None, [], [])
    (root / "api.py").rename(root / "port.py")
    (hit,) = memories.search(Query("ports stand", limit=1))
    assert hit["standing"] == "moved"
    assert hit["because"] == ["api.py:10-14 is now port.py:10-14", "api.py is now port.py"]
    write_lines(root / "port.py", change="line twelve")
    (hit,) = memories.search(Query(anchored=True))
    assert hit["because"][0] == "api.py:10-14 changed and is port.py now"


def test_the_past_is_judged_by_the_files_of_then(repo: Repo, root: Path) -> None:
    memories = repo.memories()
    write_lines(root / "api.py")
    commit(repo, "api.py")
    remember(memories, "Ports stand in api.py", "api.py:10-14")
    then = memories.log(1)[0].oid
    write_lines(root / "api.py", change="line twelve")
    commit(repo, "api.py")
    remember(memories, "Something else")
    (now,) = memories.search(Query("ports"))
    (past,) = memories.search(Query("ports", as_of=then))
    assert (now["standing"], past["standing"]) == ("changed", "fresh")


def run_git(root: Path, *arguments: str, seconds: int = 0) -> None:
    date = f"{int(time.time()) + seconds} +0000"
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    env = {**os.environ, **identity, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
    subprocess.run(["git", *arguments], cwd=root, env=env, check=True, capture_output=True)


@needs_git
def test_files_of_git_alone_are_anchored_by_their_blob_and_judged_in_the_past_too(repo: Repo, root: Path) -> None:
    memories = repo.memories()
    run_git(root, "init", "-b", "main")
    write_lines(root / "api.py")
    run_git(root, "add", "api.py")
    run_git(root, "commit", "-m", "one", seconds=-50)
    known = remember(memories, "Ports stand in api.py", "api.py:10-14")
    blob = subprocess.run(["git", "hash-object", "api.py"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert memories.get(known).uses[0].oid == blob.strip()
    then = memories.log(1)[0].oid
    write_lines(root / "api.py", change="line twelve")
    (root / "api.py").rename(root / "port.py")
    run_git(root, "add", "-A", "port.py", "api.py")
    run_git(root, "commit", "-m", "two", seconds=50)
    (now,) = memories.search(Query("ports"))
    (past,) = memories.search(Query("ports", as_of=then))
    assert (now["standing"], past["standing"]) == ("changed", "fresh")
    (one,) = memories.doubts()
    (change,) = memories.list_changes(one)
    assert "-line 12 of a file with many words" in change.lines


@needs_git
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_line_is_followed_through_a_rename_of_git_and_an_edit(repo: Repo, root: Path, is_committed: bool) -> None:
    memories = repo.memories()
    run_git(root, "init", "-b", "main")
    (root / "conf.py").write_text("PORT = 8080\n")
    run_git(root, "add", "conf.py")
    run_git(root, "commit", "-m", "one", seconds=-50)
    remember(memories, "The port stands in conf.py", "conf.py:1")
    for old, new in (("conf.py", "set.py"), ("set.py", "settings.py")):
        run_git(root, "mv", old, new)
        if is_committed or new == "set.py":
            run_git(root, "commit", "-m", f"rename to {new}", seconds=50)
    (hit,) = memories.search(Query("port"))
    assert hit["because"] == ["conf.py:1 is now settings.py:1"]
    (root / "settings.py").write_text("PORT = 9000\n")
    (hit,) = memories.search(Query("port"))
    assert (hit["standing"], hit["because"]) == ("changed", ["conf.py:1 changed and is settings.py now"])
    (change,) = memories.list_changes(memories.doubts()[0])
    assert {"-PORT = 8080", "+PORT = 9000"} <= {line.rstrip("\n") for line in change.lines}
    (settled,) = memories.settle(memories.doubts()[0].memory.memory_id)
    assert settled.memory.uses[0].name == "settings.py:1"
    (root / "settings.py").unlink()
    assert memories.doubts()[0].standings[0].word == "gone"


def test_an_anchor_holds_at_another_path_and_not_in_another_project(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(root / "src/api.py")
    with ml.init(root) as repo:
        repo.config.set("embedding.provider", "none")
        remember(repo.memories(), "Ports stand in api.py", "src/api.py:10-14")
    copy = shutil.copytree(root, root.parent / "copy/p")
    monkeypatch.chdir(copy)
    with open_repo(copy) as other:
        (hit,) = other.memories().search(Query("ports"))
        assert hit["standing"] == "fresh"
        foreign = other.memories().get(hit["memory_id"])._replace(project="github.com/ada/shop", own=False)
        (one,) = doubt.judge(other.memories().context, [foreign])[foreign.memory_id]
        assert one.word == "unknown"


def test_on_a_branch_that_is_not_checked_out_its_last_commit_counts(repo: Repo, root: Path) -> None:
    write_lines(root / "api.py")
    commit(repo, "api.py")
    known = remember(repo.memories(), "Ports stand in api.py", "api.py:10-14")
    repo.switch("dev", create=True)
    write_lines(root / "api.py", change="line twelve")
    commit(repo, "api.py")
    assert standing_of(repo.memories("dev"), known) == "changed"
    assert standing_of(repo.memories("main"), known) == "fresh"


def test_a_version_is_changed_when_another_follows_it(repo: Repo, root: Path) -> None:
    memories = repo.memories()
    ml.read_values(k=[1, 2]).save("pets")
    known = remember(memories, "There are two pets", "pets")
    assert memories.get(known).uses[0].name == "pets@1.0.0" and standing_of(memories, known) == "fresh"
    ml.read_values(k=[1, 2, 3]).save("pets")
    (one,) = memories.doubts()
    assert one.causes == ("pets@1.0.0 was followed by pets@1.0.1",)
    memories.settle(known)
    assert memories.get(known).uses[0].name == "pets@1.0.1" and memories.doubts() == []
    repo.datasets().move_dataset("pets", "animals")
    assert memories.fields(memories.get(known))["because"] == ["pets@1.0.1 is now animals@1.0.1"]


def test_a_tensor_is_changed_when_its_values_are(repo: Repo, root: Path) -> None:
    memories, project = repo.memories(), Project(root, 1, 1, 1)
    (weights,) = project.weights
    known = remember(memories, "The layer is noisy", f"{weights.path}#layer.1.weight")
    below = remember(memories, "The layers are noisy", f"{weights.path}#layer.1")
    weights.tensors["layer.0.weight"] = bytes(64)
    project._write(weights)
    assert {standing_of(memories, one) for one in (known, below)} == {"fresh"}
    weights.tensors["layer.1.weight"] = bytes(64)
    project._write(weights)
    assert {standing_of(memories, one) for one in (known, below)} == {"changed"}


def test_a_commit_is_gone_when_no_branch_has_it(repo: Repo, root: Path) -> None:
    write_lines(root / "api.py")
    commit(repo, "api.py")
    repo.switch("dev", create=True)
    write_lines(root / "api.py", change="line twelve")
    commit(repo, "api.py")
    repo.switch("main")
    known = remember(repo.memories(), "The tests pass at that commit", "dev")
    assert standing_of(repo.memories(), known) == "fresh"
    repo.branches.delete("dev", force=True)
    assert standing_of(repo.memories(), known) == "gone"


def test_what_a_record_of_a_stranger_names_is_never_read(repo: Repo, root: Path, tmp_path: Path) -> None:
    memories = repo.memories()
    write_lines(root / "api.py")
    known = remember(memories, "Ports stand in api.py", "api.py")
    memory = memories.get(known)
    for path in ("../outside.txt", "/etc/passwd", ".git/config", "a/../../b"):
        with pytest.raises(ml.errors.Corrupt):
            record.decode(record.encode(memory._replace(uses=(memory.uses[0]._replace(path=path),))))
    (tmp_path / "outside.txt").write_bytes((root / "api.py").read_bytes())
    (root / "api.py").unlink()
    (root / "api.py").symlink_to(tmp_path / "outside.txt")
    assert standing_of(memories, known) == "gone"


def test_an_export_brings_anchors_to_another_clone_of_the_project(repo: Repo, root: Path, tmp_path: Path) -> None:
    memories, stream = repo.memories(), io.BytesIO()
    write_lines(root / "api.py")
    known = remember(memories, "Ports stand in api.py", "api.py:10-14")
    remember(memories, "So they are numbers", known)
    write_items(list_items(memories), stream)
    (tmp_path / "other").mkdir()
    with ml.init(tmp_path / "other") as other:
        load_items(other.memories(), read_memories(io.BytesIO(stream.getvalue()), format="jsonl"))
        kept = {one.content: [use.name for use in one.uses] for one in other.memories().list_memories(Query())}
    assert kept == {"Ports stand in api.py": ["api.py:10-14"], "So they are numbers": []}
