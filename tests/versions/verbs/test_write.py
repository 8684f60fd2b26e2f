"""Writing records without files: one commit of one lane each, grouped by a transaction, decided by what was read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.versions.history import append, commits
from memlake.versions.trees import nodes, tree
from tests.versions.conftest import Keep


def test_every_room_is_written_to_its_lane_with_its_kind(repo: ml.Repo) -> None:
    for path, lane, kind in (
        ("files/a", "work", "file"), ("datasets/x/1", "work", "dataset"), ("policy/p", "work", "policy"),
        ("memories/b/1", "memory", "memory"), ("state/b/k", "memory", "state"), ("ledger/s/1", "memory", "step"),
        ("conversations/s/1", "memory", "turn"),
    ):  # fmt: skip
        made = repo.write({path: path.encode()}, "w")
        assert made.lane == lane and repo.show(made).changes[0].new.kind == kind  # type: ignore[union-attr]
        if kind != "policy":  # typed, that is a file in the folder `policy`
            assert repo.read(path) == path.encode()


def test_one_write_is_one_lane(repo: ml.Repo) -> None:
    for changes in ({"files/a": b"1", "memories/b/1": b"1"}, {}):
        with pytest.raises(ml.errors.InvalidInput):
            repo.write(changes, "both")
    assert repo.branches.list()[0].work is None


def test_writing_what_is_there_already_is_nothing(repo: ml.Repo) -> None:
    repo.write({"memories/b/1": b"x"}, "w")
    with pytest.raises(ml.errors.Nothing):
        repo.write({"memories/b/1": b"x"}, "again")
    with pytest.raises(ml.errors.Nothing):
        repo.write({"memories/b/2": None}, "remove what is not there")
    assert repo.write({"memories/b/1": None}, "forget").parents


def test_writing_touches_neither_stage_nor_files(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "1"})
    (here / "a").write_text("staged")
    repo.add("a")
    repo.write({"memories/b/1": b"x"}, "w")
    assert [c.path for c in repo.status().staged] == ["files/a"]


def test_a_write_may_go_to_another_branch_and_needs_one_when_head_is_detached(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    repo.branches.create("dev")
    repo.write({"memories/b/1": b"dev"}, "w", branch="dev")
    assert {b.name: bool(b.memory) for b in repo.branches} == {"dev": True, "main": False}
    repo.switch("HEAD", detach=True)
    with pytest.raises(ml.errors.InvalidInput, match="detached"):
        repo.write({"memories/b/1": b"x"}, "w")
    repo.write({"memories/b/1": b"x"}, "w", branch="main")
    with pytest.raises(ml.errors.NotFound):
        repo.write({"memories/b/1": b"x"}, "w", branch="nope")


def test_a_large_record_is_kept_and_read_back(repo: ml.Repo) -> None:
    data = bytes(range(256)) * 40_000
    repo.write({"datasets/x/1": data}, "w")
    assert repo.read("datasets/x/1") == data


# -- expects --------------------------------------------------------------------------------------


def test_a_write_that_names_what_it_read_is_refused_when_that_changed(repo: ml.Repo) -> None:
    repo.write({"state/bot/count": b"1"}, "w")
    seen = dict(repo.ls(prefix="state/"))
    ml.open(repo.root).write({"state/bot/count": b"2"}, "someone else")
    with pytest.raises(ml.errors.Conflict, match="state/bot/count"):
        repo.write({"state/bot/count": b"1+1"}, "w", expects=seen)
    assert repo.read("state/bot/count") == b"2"
    fresh = dict(repo.ls(prefix="state/"))
    repo.write({"state/bot/count": b"3"}, "w", expects=fresh)
    assert repo.read("state/bot/count") == b"3"


def test_expecting_nothing_at_a_path_makes_writing_it_a_claim_only_one_can_win(repo: ml.Repo) -> None:
    other = ml.open(repo.root)
    repo.write({"state/lock": b"mine"}, "w", expects={"state/lock": None})
    with pytest.raises(ml.errors.Conflict):
        other.write({"state/lock": b"theirs"}, "w", expects={"state/lock": None})
    assert other.read("state/lock") == b"mine"


def test_changes_elsewhere_are_built_upon(repo: ml.Repo) -> None:
    repo.write({"state/a": b"1"}, "w")
    seen = dict(repo.ls(prefix="state/a"))
    ml.open(repo.root).write({"state/b": b"1"}, "someone else")
    repo.write({"state/a": b"2"}, "w", expects=seen)
    assert {p for p, _ in repo.ls()} == {"state/a", "state/b"}


# -- transactions ---------------------------------------------------------------------------------


def test_a_transaction_is_one_commit_a_lane_with_its_message(repo: ml.Repo) -> None:
    with repo.transaction("all of it"):
        repo.write({"memories/b/1": b"1"}, "ignored")
        repo.write({"memories/b/2": b"2", "state/b/k": b"v"}, "ignored")
        repo.write({"datasets/x/1": b"d"}, "ignored")
        repo.write({"memories/b/1": b"changed my mind"}, "ignored")
    assert [c.message for c in repo.log(lane="memory")] == [c.message for c in repo.log()] == ["all of it"]
    assert repo.read("memories/b/1") == b"changed my mind" and repo.read("datasets/x/1") == b"d"


def test_an_exception_drops_all_of_a_transaction(repo: ml.Repo) -> None:
    def failing() -> None:
        with repo.transaction("never"):
            repo.write({"memories/b/1": b"1"}, "w")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert repo.branches.list()[0].memory is None
    repo.write({"memories/b/1": b"1"}, "afterwards writes are their own commits again")
    assert len(list(repo.log(lane="memory"))) == 1


def test_a_conflict_in_one_lane_drops_the_other_too(repo: ml.Repo) -> None:
    repo.write({"state/k": b"1"}, "w")

    def conflicting() -> None:
        with repo.transaction("never"):
            repo.write({"datasets/x/1": b"d"}, "w")
            repo.write({"state/k": b"2"}, "w", expects={"state/k": None})

    with pytest.raises(ml.errors.Conflict):
        conflicting()
    assert repo.head is None and repo.read("state/k") == b"1"


def test_transactions_do_not_nest_and_an_empty_one_makes_no_commit(repo: ml.Repo) -> None:
    with repo.transaction("empty"):
        pass
    assert repo.branches.list()[0].memory is None
    with repo.transaction("outer"), pytest.raises(ml.errors.AlreadyExists), repo.transaction("inner"):
        pass


# -- thinning -------------------------------------------------------------------------------------


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(commits, "WINDOW", 8)
    return 8


def remembered(repo: ml.Repo, count: int) -> list[tuple[str, dict[str, bytes]]]:
    """(commit, what it holds) of many memory writes: new, changed and forgotten ones."""
    state: dict[str, bytes] = {}
    made = []
    for n in range(count):
        path = f"memories/bot/{n * 7 % 40:03d}"
        if n % 5 == 4 and state:
            path = sorted(state)[n % len(state)]
            del state[path]
            commit = repo.write({path: None}, f"m{n}")
        else:
            state[path] = str(n).encode()
            commit = repo.write({path: state[path]}, f"m{n}")
        made.append((commit.oid, dict(state)))
    return made


def held(repo: ml.Repo, rev: str) -> dict[str, bytes]:
    return {path: repo.objects.read(entry.oid) for path, entry in repo.ls(rev)}


@pytest.mark.usefixtures("short_windows")
def test_every_memory_commit_reads_the_same_after_its_nodes_were_dropped(repo: ml.Repo) -> None:
    made = remembered(repo, 60)
    repo.upkeep.gc(prune=True)
    repo.close()
    again = ml.open(repo.root)
    stored = again._history.nodes
    roots = [bytes.fromhex(again.show(oid).commit.root) for oid, _ in made]
    assert sum(not stored.has(root) for root in roots) > 30, "thinning must have dropped most trees"
    for oid, state in made[::-1]:
        assert held(again, oid) == state
    assert again.upkeep.fsck().ok


@pytest.mark.usefixtures("short_windows")
@pytest.mark.parametrize("read_first", [None, 0, 1])
def test_a_tag_on_a_dropped_commit_stores_all_of_its_tree_also_when_its_neighbour_was_read(
    repo: ml.Repo, read_first: int | None
) -> None:
    made = remembered(repo, 60)
    repo.upkeep.gc(prune=True)
    repo.close()
    again = ml.open(repo.root)
    at = next(n for n in range(11, 50) if not any(again._history.nodes.has(
        bytes.fromhex(again.show(made[n - k][0]).commit.root)) for k in (0, 1)))  # fmt: skip
    if read_first is not None:
        assert held(again, made[at - read_first][0]) == made[at - read_first][1]
    again.tags.create("kept", made[at][0])
    again.branches.create("line", made[at][0])
    assert again.upkeep.fsck().ok
    again.write({"memories/bot/new": b"x"}, "w", branch="line")
    again.close()
    fresh = ml.open(repo.root)
    assert held(fresh, made[at][0]) == made[at][1] == {p: fresh.read(p, "kept") for p in made[at][1]}
    assert fresh.upkeep.fsck().ok


@pytest.mark.usefixtures("short_windows")
def test_merged_memory_lines_stay_whole_through_thinning(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    repo.branches.create("dev")
    for n in range(30):
        repo.write({f"memories/bot/main-{n}": b"x"}, "m")
        repo.write({f"memories/bot/dev-{n}": b"x"}, "m", branch="dev")
        if n % 10 == 9:
            repo.merge("dev")
    repo.upkeep.gc(prune=True)
    assert len(list(repo.ls(prefix="memories/"))) == 60 and repo.upkeep.fsck().ok
    for commit in repo.log(lane="memory"):
        assert len(list(repo.ls(commit.oid))) >= 1


@pytest.mark.usefixtures("short_windows")
def test_reading_more_rebuilt_trees_than_the_cache_holds_still_works(
    repo: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = remembered(repo, 60)
    repo.upkeep.gc(prune=True)
    repo.close()
    monkeypatch.setattr(nodes, "_CACHE", 3)
    again = ml.open(repo.root)
    for one, two in pairwise(made):
        changes = again.diff(one[0], two[0], lane="memory")
        assert {c.path for c in changes} == {p for p in one[1].keys() | two[1].keys() if one[1].get(p) != two[1].get(p)}


@pytest.mark.parametrize("way", ["write", "transaction", "commit"])
def test_a_large_tree_is_planned_once_and_before_the_lock_is_taken(
    repo: ml.Repo, here: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    given = {path: repo.show(repo.write({path: b"x"}, path)).changes[0].new for path in ("files/a", "files/b")}
    locked: list[bool] = []
    edit = tree.edit

    def noted(*args: Any) -> Any:
        locked.append(repo._history.db.is_writing)
        return edit(*args)

    (here / "c").write_text("c")
    (here / "d").write_text("d")
    repo.add("c", "d")
    monkeypatch.setattr(append, "LARGE", 1)
    monkeypatch.setattr(tree, "edit", noted)
    if way == "commit":
        repo.commit("both")
    elif way == "write":
        repo.write({f"{path}-again": entry for path, entry in given.items()}, "again")
    else:
        with repo.transaction("again"):
            repo.write({f"{path}-again": entry for path, entry in given.items()}, "again")
    assert locked == [False]
