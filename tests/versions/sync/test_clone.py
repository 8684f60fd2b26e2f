"""The files of a clone: written in groups, finished by whoever comes next, never over what somebody put there."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Nothing
from memlake.objects import disk
from memlake.repo import Repo
from memlake.versions.checkout import update
from memlake.versions.sync import receive, take_in
from memlake.versions.sync.batch import Batch
from tests.versions.sync.conftest import commit, files_of, heads, remember


def stop_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Stop at the creation of that many files."""
    left = iter(range(number))

    def stop(step: str) -> None:
        if step == "create" and next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(disk, "hook", stop)


def working_files(repo: Repo) -> dict[str, bytes]:
    root = Path(repo.root)
    return {name: (root / name).read_bytes() for name in files_of(root) if not name.startswith(".memlake")}


def test_a_clone_whose_files_come_in_many_groups_is_whole_and_clean(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    monkeypatch.setattr(update, "_BATCH_FILES", 4)
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        assert working_files(theirs) == working_files(ours)
        status = theirs.status()
        assert not (status.staged or status.unstaged or status.untracked)
        assert theirs.upkeep.fsck().ok


def test_a_clone_is_no_operation_and_the_log_of_head_says_where_it_came_from(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        with pytest.raises(Nothing, match="nothing to undo"):
            theirs.undo()
        (move,) = theirs._local.head_moves()
        assert move[:3] == (None, ours.head, "main") and move[4] == "clone: from origin/main"


@pytest.mark.parametrize("number", [0, 7, 30])
def test_a_clone_that_was_stopped_while_it_wrote_files_is_finished_by_the_next_verb(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    ours.push()
    monkeypatch.setattr(update, "_BATCH_FILES", 4)
    stop_at(monkeypatch, number)
    with pytest.raises(KeyboardInterrupt):
        ml.clone(tmp_path / "remote", tmp_path / "theirs")
    monkeypatch.setattr(disk, "hook", None)
    mine = tmp_path / "theirs/many/39.txt"
    mine.parent.mkdir(exist_ok=True)
    mine.write_bytes(b"mine\n")
    with ml.open(tmp_path / "theirs") as theirs:
        with pytest.warns(UserWarning, match="finished the interrupted clone: from origin/main"):
            status = theirs.status()
        assert [change.path for change in status.unstaged] == ["files/many/39.txt"] and not status.untracked
        assert working_files(theirs) == working_files(ours) | {"many/39.txt": b"mine\n"}


def test_a_file_that_somebody_puts_into_the_folder_of_a_clone_under_way_is_kept(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    monkeypatch.setattr(update, "_BATCH_FILES", 4)
    mine = tmp_path / "theirs/many/39.txt"

    def write(step: str) -> None:
        if step == "create" and not mine.exists() and mine.parent.exists():
            mine.write_bytes(b"mine\n")

    monkeypatch.setattr(disk, "hook", write)
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        assert mine.read_bytes() == b"mine\n"
        assert [change.path for change in theirs.status().unstaged] == ["files/many/39.txt"]


def test_a_clone_reads_a_batch_of_memories_once_to_plan_and_once_to_take_it_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ml.init(tmp_path / "ours") as ours:
        remember(ours, "The dev server runs on port 8080")
        commit(ours, "a.bin", bytes(range(256)) * 40)
        ours.remotes.add("origin", tmp_path / "remote")
        ours.push()
    lanes, decode_batch = list[int](), receive.decode_batch

    def decode(name: str, data: bytes, repo: bytes) -> Batch:
        batch = decode_batch(name, data, repo)
        lanes.append(batch.lane)
        return batch

    monkeypatch.setattr(receive, "decode_batch", decode)
    ml.clone(tmp_path / "remote", tmp_path / "theirs").close()
    assert lanes.count(1) == 2


def test_what_many_commits_name_is_looked_for_while_they_come(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        commit(ours, f"more/{number}.txt", f"{number}\n".encode())
    ours.push()
    held, check = list[int](), take_in.Taker._check_named

    def count(taker: take_in.Taker) -> None:
        held.append(len(taker._sizes))
        check(taker)

    monkeypatch.setattr(take_in, "_MANY", 3)
    monkeypatch.setattr(take_in.Taker, "_check_named", count)
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        assert heads(theirs) == heads(ours) and theirs.upkeep.fsck().ok
    assert held.count(4) >= 3, "of commits with one file each no more than four are held"


def test_a_clone_without_memories_shares_files_and_keeps_its_own_memories(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "theirs", memories=False) as theirs:
        remember(theirs, "The printer is out of paper")
        commit(theirs, "mine.txt", b"mine\n")
        assert theirs.push().commits == 1 and theirs.push().up_to_date
        assert [(one.ahead, one.behind, one.memories) for one in theirs.remotes.compare()] == [(0, 0, False)]
        ours.pull()
        remember(ours, "The printer is on fire")
        ours.push()
        theirs.pull()
        commit(theirs, "more.txt", b"more\n")
        assert theirs.push().commits == 1
    ours.pull()
    with ml.Agent(ours.root, agent_id="bot") as agent:
        found = [one["content"] for one in agent.search_memory("printer", top_k=5)]
    assert "The printer is on fire" in found and "The printer is out of paper" not in found


def test_a_clone_stands_on_a_branch_that_is_left_when_the_first_was_deleted(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    ours.branches.create("zoo")
    ours.push("origin", "zoo")
    ours.push("origin", "main", delete=True)
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        assert theirs.branches.current == "zoo" and (Path(theirs.root) / "a.txt").exists()
    ours.push("origin", "zoo", delete=True)
    with ml.clone(tmp_path / "remote", tmp_path / "empty") as empty:
        assert empty.head is None and not working_files(empty)
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "again") as again:
        assert again.branches.current == "main" and heads(again)[0, "main"] == heads(ours)[0, "main"]


def test_branches_are_compared_with_origin_before_others(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    ours.remotes.add("also", tmp_path / "also")
    ours.push("also")
    assert [one.remote for one in ours.remotes.compare()] == ["origin"]


def test_a_clone_takes_the_name_of_a_bundle_without_its_end(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.remotes.bundle(tmp_path / "pets.bundle")
    monkeypatch.chdir(tmp_path)
    with ml.clone("pets.bundle") as theirs:
        assert Path(theirs.root).name == "pets"
