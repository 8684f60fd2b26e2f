"""Bare repos: history without a working folder. What reads history or moves refs works; the rest is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.errors import AlreadyExists, Denied, InvalidInput, NeedsCheckout, NotARepo
from memlake.repo import rescue

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def bare(tmp_path: Path) -> ml.Repo:
    """Two branches, a tag, a memory and a dataset."""
    repo = ml.init(tmp_path / "lake", bare=True)
    repo.write({"files/a.txt": b"one\n", "files/data/b.csv": b"x\n1\n"}, "first")
    repo.branches.create("dev")
    repo.write({"files/a.txt": b"one\ntwo\n"}, "second", branch="dev")
    repo.tags.create("v1")
    repo.write({"memories/bot/1": b"{}"}, "remember")
    return repo


def test_its_folder_holds_what_memlake_holds_elsewhere_and_no_checkout(bare: ml.Repo, tmp_path: Path) -> None:
    assert bare.dir == bare.root == tmp_path / "lake"
    assert {"repo.db", "packs", "parts", "tmp"} <= set(os.listdir(bare.root))
    assert not list(bare.root.glob("local.db*")) and not (bare.root / ".memlake").exists()


def test_head_is_the_first_branch_and_a_name_for_it_can_be_given(tmp_path: Path) -> None:
    with ml.init(tmp_path / "a", bare=True) as repo:
        assert repo.branches.current == "main" and repo.head is None
        made = repo.write({"files/a": b"1"}, "first")
        assert repo.head == made.oid and [c.subject for c in repo.log()] == ["first"]
    with ml.init(tmp_path / "b", branch="trunk", bare=True) as repo:
        assert repo.branches.current == "trunk"
    with ml.open(tmp_path / "b") as repo:
        assert repo.branches.current == "trunk"


def test_history_is_read_by_rev(bare: ml.Repo) -> None:
    assert [commit.subject for commit in bare.log("dev")] == ["second", "first"]
    assert bare.read("a.txt", "dev") == b"one\ntwo\n" and bare.read("data/b.csv") == b"x\n1\n"
    assert [change.path for change in bare.diff("main", "dev")] == ["files/a.txt"]
    assert bare.diff("main..dev") == bare.diff("main", "dev")
    assert [path for path, _ in bare.ls("v1", paths=["*.csv"])] == ["files/data/b.csv"]
    assert [line.commit.subject for line in bare.blame("a.txt", "dev")] == ["first", "second"]
    assert bare.show("HEAD@{0}").commit.subject == "first" and bare.show("dev~1").commit.subject == "first"
    assert [branch.name for branch in bare.branches.list(merged="dev")] == ["dev", "main"]
    assert bare.show().about("data/b.csv").media == "text/csv"


def test_memories_and_datasets_are_kept_in_it(bare: ml.Repo) -> None:
    agent = ml.Agent(bare.root, agent_id="bot")
    agent.store_memory("the port is 8080")
    assert [hit["content"] for hit in agent.search_memory("port")] == ["the port is 8080"]
    bare.datasets("dev").read_values(x=[1, 2, 3]).save("numbers")
    assert bare.datasets("dev").read_dataset("numbers").count() == 3
    with bare.transaction("both"):
        bare.write({"files/c": b"c"}, "c")
        agent.store_memory("the host is lake")
    assert next(iter(bare.log())).subject == "both"


def test_refs_are_made_moved_and_deleted(bare: ml.Repo) -> None:
    bare.branches.create("main", "dev", force=True)  # nobody's files are those of main here
    assert bare.read("a.txt") == b"one\ntwo\n"
    bare.branches.rename("main", "trunk")
    assert bare.branches.current == "trunk" and ml.open(bare.root).branches.current == "trunk"
    assert next(move.action for move in bare.reflog("trunk")) == "branch: renamed from main"
    bare.tags.delete("v1")
    bare.branches.delete("dev")
    assert [branch.name for branch in bare.branches] == ["trunk"] and bare.tags.list() == []


def test_where_heads_branch_is_gone_it_is_another_one(bare: ml.Repo) -> None:
    bare.branches.delete("main", force=True)
    assert bare.branches.current == "dev" and bare.upkeep.fsck().ok


NEEDS_FILES: dict[str, Callable[[ml.Repo], object]] = {
    "add": lambda repo: repo.add(all=True),
    "rm": lambda repo: repo.rm("a.txt"),
    "mv": lambda repo: repo.mv("a.txt", "b.txt"),
    "status": lambda repo: repo.status(),
    "commit": lambda repo: repo.commit("message", allow_empty=True),
    "restore": lambda repo: repo.restore("a.txt"),
    "switch": lambda repo: repo.switch("dev"),
    "merge": lambda repo: repo.merge("dev"),
    "abort": lambda repo: repo.pending_merge.abort(),
    "reset": lambda repo: repo.reset("dev"),
    "revert": lambda repo: repo.revert("dev"),
    "cherry-pick": lambda repo: repo.cherry_pick("dev"),
    "stash": lambda repo: repo.stash.push(),
    "undo": lambda repo: repo.undo(),
    "redo": lambda repo: repo.redo(),
    "diff of files": lambda repo: repo.diff(),
    "diff of the stage": lambda repo: repo.diff(staged=True),
    "diff of a rev and files": lambda repo: repo.diff("dev"),
    "read_worktree": lambda repo: repo.read("repo.db", None),
}


@pytest.mark.parametrize("verb", NEEDS_FILES)
def test_what_needs_a_working_folder_is_refused_with_advice_and_changes_nothing(bare: ml.Repo, verb: str) -> None:
    before = [(branch.name, branch.work, branch.memory) for branch in bare.branches]
    names = sorted(os.listdir(bare.root))
    with pytest.raises(NeedsCheckout, match=r"is a bare repo, which has none\. Nothing was changed") as raised:
        NEEDS_FILES[verb](bare)
    assert f"memlake -C {bare.root} show HEAD" in raised.value.hint
    assert [(branch.name, branch.work, branch.memory) for branch in bare.branches] == before
    assert sorted(os.listdir(bare.root)) == names and bare.upkeep.fsck().ok


# -- finding it ----------------------------------------------------------------------------------------


def test_it_is_found_by_its_path_by_the_variable_and_from_inside(
    bare: ml.Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ml.open(bare.root)._id == bare._id
    monkeypatch.chdir(bare.root / "packs")
    assert ml.open().root == bare.root
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotARepo):
        ml.open()
    monkeypatch.setenv("MEMLAKE_REPO", str(bare.root))
    assert ml.open().root == bare.root and config.find_repo() == bare.root


def test_the_memlake_folder_of_a_checkout_is_never_taken_for_a_bare_repo(tmp_path: Path) -> None:
    """It may lie on another disk under another name; gc there would not know what the checkout has staged."""
    with ml.init(tmp_path / "repo") as repo:
        assert ml.open(repo.dir).root == repo.root
    os.rename(tmp_path / "repo" / ".memlake", tmp_path / "disk")
    os.symlink(tmp_path / "disk", tmp_path / "repo" / ".memlake")
    assert not config.is_bare(tmp_path / "disk")
    with pytest.raises(NotARepo):
        ml.open(tmp_path / "disk")
    with pytest.raises(InvalidInput, match="holds other files"):
        ml.init(tmp_path / "disk", bare=True)
    assert ml.open(tmp_path / "repo").status().branch == "main"


def test_init_does_not_mix_the_two_forms(bare: ml.Repo, tmp_path: Path) -> None:
    assert ml.init(bare.root, bare=True)._id == bare._id
    with pytest.raises(AlreadyExists, match="is a bare repo"):
        ml.init(bare.root)
    ml.init(tmp_path / "work").close()
    with pytest.raises(AlreadyExists, match="belongs to a repo with a working folder"):
        ml.init(tmp_path / "work", bare=True)
    with pytest.raises(AlreadyExists, match="belongs to a repo with a working folder"):
        ml.init(tmp_path / "new" / ".memlake", bare=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    with pytest.raises(InvalidInput, match=r"thesis\.tex"):
        ml.init(tmp_path / "full", bare=True)
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]


def test_one_whose_making_was_interrupted_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "lake" / "packs").mkdir(parents=True)
    with ml.init(tmp_path / "lake", bare=True) as repo:
        assert repo.write({"files/a": b"a"}, "m").oid and repo.upkeep.fsck().ok


def test_another_users_is_refused(bare: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Denied, match="belongs to another user"):
        ml.open(bare.root)


def test_a_link_in_it_is_refused(bare: ml.Repo, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("[user]\nname = 'Eve'\n")
    (bare.root / "config.toml").symlink_to(tmp_path / "outside")
    with pytest.raises(Denied, match="is a link to"):
        ml.open(bare.root)


# -- keeping it ----------------------------------------------------------------------------------------


def test_it_is_kept_as_any_other(bare: ml.Repo, tmp_path: Path) -> None:
    gone = bare.write({"files/big": b"x" * 5000}, "big", branch="dev")
    bare.branches.create("dev", "main", force=True)
    oid = bare.objects.at("big", gone.oid).oid
    bare.upkeep.purge(oid, reason="test")
    assert bare.objects.is_purged(oid)
    bare.config["gc.reflog_expire"] = "0"
    with ml.open(bare.root) as repo:
        repo.upkeep.gc(prune=True)
        assert repo.upkeep.fsck(full=True).ok and repo.upkeep.du().total > 0
        assert [check.name for check in repo.upkeep.doctor() if not check.ok] in ([], ["space"])
        assert repo.read("a.txt") == b"one\n" and repo.operations() == []


def test_fsck_finds_damage_in_it(bare: ml.Repo) -> None:
    bare.upkeep.gc(prune=True)
    pack = next((bare.root / "packs").rglob("*.pack"), None) or next(
        path for path in (bare.root / "packs").rglob("*") if path.is_file()
    )
    os.chmod(pack, 0o644)
    pack.write_bytes(pack.read_bytes()[:-10])
    assert not bare.upkeep.fsck(full=True).ok
    assert "packs" in [check.name for check in bare.upkeep.doctor() if not check.ok]


def test_a_backup_of_it_unpacks_to_a_bare_repo(bare: ml.Repo, tmp_path: Path) -> None:
    bare.upkeep.backup(tmp_path / "copy.tar")
    with tarfile.open(tmp_path / "copy.tar") as tar:
        tar.extractall(tmp_path / "copy", filter="data")
    with ml.open(tmp_path / "copy") as copy:
        assert copy.root == copy.dir and copy._id == bare._id and copy.read("a.txt", "dev") == b"one\ntwo\n"


def test_it_can_be_rescued_from_its_packs(bare: ml.Repo, tmp_path: Path) -> None:
    bare.upkeep.gc(prune=True)
    bare.close()
    (bare.root / "repo.db").unlink()
    with pytest.raises(ml.errors.NotFound, match=r"no repo\.db"):
        ml.open(bare.root)
    rescue(bare.root, tmp_path / "again")
    assert ml.open(tmp_path / "again").read("a.txt", "dev") == b"one\ntwo\n"


def test_moved_into_a_folder_as_its_memlake_it_has_a_checkout(bare: ml.Repo, tmp_path: Path) -> None:
    bare.close()
    (tmp_path / "work").mkdir()
    os.rename(bare.root, tmp_path / "work" / ".memlake")
    with pytest.warns(UserWarning, match=r"local\.db was lost"):
        repo = ml.open(tmp_path / "work")
    repo.restore(".")
    assert (tmp_path / "work" / "a.txt").read_bytes() == b"one\n" and not repo.status().unstaged


# -- many at once ----------------------------------------------------------------------------------------


def test_threads_write_to_it_at_once_and_nothing_is_lost(bare: ml.Repo) -> None:
    def work(number: int) -> None:
        bare.branches.create(f"b{number}")
        for turn in range(5):
            bare.write({f"files/{number}/{turn}": b"x"}, f"{number}.{turn}")
            bare.write({f"memories/bot/{number}-{turn}": b"m"}, "m", branch=f"b{number}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert len([path for path, _ in bare.ls() if path[6:7].isdigit()]) == 10
    assert len(list(bare.ls("b1", "memories/"))) == 6 and bare.upkeep.fsck().ok


WRITER = """
import sys
import memlake as ml
repo = ml.open(sys.argv[1])
for number in range(1000):
    commit = repo.write({f"files/{number}": b"x" * number, f"files/last": str(number).encode()}, f"m{number}")
    print(commit.oid, flush=True)
"""


def test_what_was_acknowledged_before_a_kill_is_there(bare: ml.Repo) -> None:
    env = dict(os.environ)
    command = [sys.executable, "-c", WRITER, str(bare.root)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline().strip() for _ in range(5)]
        child.kill()
        said += [line.strip() for line in child.stdout.readlines() if len(line) == 65]
    with ml.open(bare.root) as repo:
        known = {commit.oid for commit in repo.log()}
        assert set(said) <= known and repo.upkeep.fsck(full=True).ok
        assert repo.write({"files/after": b"x"}, "after").oid
        repo.upkeep.gc(prune=True)
        assert repo.upkeep.fsck(full=True).ok
