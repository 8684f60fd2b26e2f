"""HEAD found again where local.db was lost, is older than the branches, or is of another repo."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import memlake as ml
from memlake.errors import Unavailable
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.objects import db, layout
from memlake.objects.db import Database
from memlake.objects.locks import FileLock
from memlake.repo import open, open_narrow
from memlake.versions.upkeep import rebuild
from tests.reliability.ground import hooked
from tests.versions.conftest import Keep

Verb = Callable[[ml.Repo], object]
Write = Callable[[dict[str, str]], None]


@pytest.fixture
def repo(here: Path) -> ml.Repo:
    with ml.init() as made:
        made.config.set("embedding.provider", "none")
    return ml.open(here)


def _copy_local(root: Path, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for file in (root / ".memlake").glob("local.db*"):
        shutil.copy(file, to / file.name)


def _put_local_back(root: Path, from_: Path) -> None:
    _lose_local(root)
    for file in from_.iterdir():
        shutil.copy(file, root / ".memlake" / file.name)


def _lose_local(root: Path) -> None:
    for file in (root / ".memlake").glob("local.db*"):
        file.unlink()


@pytest.fixture
def cut(repo: ml.Repo, keep: Keep, here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a power cut leaves it: side was left and deleted, which is durable, but local.db is the one from before."""
    keep("base", {"a": "1\n"})
    repo.memories().store(Draft("the office is in Lisbon"))
    repo.switch("side", create=True)
    repo.upkeep.checkpoint()
    kept = tmp_path_factory.mktemp("kept")
    _copy_local(here, kept)
    repo.switch("main")
    repo.branches.delete("side")
    repo.close()
    _put_local_back(here, kept)
    return here


def test_after_a_cut_head_is_on_the_branch_it_was_on_and_that_is_said(cut: Path) -> None:
    with pytest.warns(UserWarning, match="HEAD was on branch 'side', which is gone.*branch 'main'"):
        opened = ml.open(cut)
    with opened as repo:
        assert repo.branches.current == "main" and repo.status().clean
        assert next(repo.reflog()).action == "found again: HEAD was on branch 'side', which is gone"
        assert repo.upkeep.fsck(full=True).ok
    with ml.open(cut) as repo:  # said once
        assert repo.branches.current == "main"


class CountingFile(apsw.VFSFile):
    def __init__(self, name: apsw.URIFilename | str | None, flags: list[int], syncs: list[str]) -> None:
        super().__init__(db.with_checksums(), name, flags)
        self._name, self._syncs = (
            Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "").name,
            syncs,
        )

    def xSync(self, flags: int) -> None:
        self._syncs.append(self._name)
        super().xSync(flags)


class CountingVFS(apsw.VFS):
    def __init__(self, syncs: list[str]) -> None:
        self._syncs = syncs
        super().__init__("counting", db.with_checksums())

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(name, flags, self._syncs)


def test_a_switch_syncs_its_plan_alone_and_what_follows_syncs_where_head_was_left(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("base", {"a": "1\n"})
    repo.switch("side", create=True)
    keep("other", {"a": "2\n"})
    repo.close()
    syncs: list[str] = []
    vfs = CountingVFS(syncs)
    monkeypatch.setattr(open, "Database", functools.partial(db.Database, vfs="counting"))
    monkeypatch.setattr(layout, "RepoDatabase", functools.partial(layout.RepoDatabase, vfs="counting"))
    with ml.open(here) as counted:
        counted.switch("main")
        syncs.clear()
        counted.switch("side")
        assert syncs == ["local.db-wal"], "before the first file is written"
        counted.branches.delete("main", force=True)
        assert syncs.count("repo.db-wal") == 1
    vfs.unregister()


VERBS: dict[str, Verb] = {
    "status": lambda repo: repo.status(),
    "log": lambda repo: list(repo.log()),
    "commit": lambda repo: repo.commit("more", allow_empty=True),
    "recall": lambda repo: repo.memories().search(Query("office"))[0]["content"] == "the office is in Lisbon" or 1 / 0,
    "remember": lambda repo: repo.memories().store(Draft("tea")),
    "narrow": lambda repo: open_narrow(repo).search(("offic", "lisbon"), 3).memories[0],
    "branch": lambda repo: repo.branches.create("other"),
    "switch": lambda repo: repo.switch("main"),
    "add": lambda repo: repo.add("a"),
    "write": lambda repo: repo.write({"state/bot/k": "1"}, "k", branch="main"),
    "stash": lambda repo: repo.stash.entries(),
    "merge": lambda repo: repo.merge("main"),
    "gc": lambda repo: repo.upkeep.gc(),
    "undo": lambda repo: (repo.commit("more", allow_empty=True), repo.undo()),
    "restore": lambda repo: repo.restore("a"),
    "reset": lambda repo: repo.reset(),
    "doctor": lambda repo: repo.upkeep.doctor(),
}
STATES: dict[str, dict[str, str | None]] = {
    "a branch that is gone": {"head": "gone"},
    "a commit that is not here": {"head": "@" + "ab" * 32},
    "no commit at all": {"head": "@nonsense"},
    "files of a commit that is not here": {"base": "cd" * 32},
    "nothing": {"head": None},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whatever_local_db_says_of_head_every_verb_works(state: str, repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1\n"})
    repo.memories().store(Draft("the office is in Lisbon"))
    # Every verb where a branch is gone, as a power cut leaves it; where local.db says nonsense, the few that differ.
    names = VERBS if "gone" in STATES[state].values() else ("status", "commit", "recall", "switch")
    for do in map(VERBS.__getitem__, names):
        with ml.open(here) as broken:
            broken._local.set_state(**STATES[state])
        with ml.open(here) as opened:
            do(opened)
    with ml.open(here) as opened:
        assert opened.upkeep.fsck().ok and (here / "a").read_text() == "1\n"


def test_files_of_a_deleted_branch_are_stood_on_detached_with_their_stage(
    repo: ml.Repo, keep: Keep, here: Path, write: Callable[..., None]
) -> None:
    keep("base", {"a": "1\n"})
    keep("ahead", {"a": "2\n"})
    write({"new": "staged\n"})
    repo.add("new")
    repo._local.set_state(head="gone")
    with repo._history.db.write():
        repo._history.db.run("UPDATE ref SET name = 'trunk' WHERE name = 'main'")
    repo.close()
    with pytest.warns(UserWarning, match="on no branch. Nothing was lost"):
        opened = ml.open(here)
    with opened:
        assert opened.branches.current is None and opened.show().commit.subject == "ahead"
        assert [change.path for change in opened.status().staged] == ["files/new"]


@pytest.mark.parametrize("where", ["a branch", "a new branch", "no branch"])
def test_commits_that_local_db_never_heard_of_are_stood_on_and_gone_on_from(
    where: str, repo: ml.Repo, keep: Keep, write: Write, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keep("base", {"a": "1\n"})
    if where == "no branch":
        repo.switch("HEAD", detach=True)
    repo.upkeep.checkpoint()
    (here / "a").write_text("2\n")
    (here / "c").write_text("staged\n")
    repo.add("a", "c")
    _copy_local(here, kept := tmp_path_factory.mktemp("kept"))  # a stage that is history a moment later
    repo.commit("second", paths=["a"])
    if where == "a new branch":
        repo.switch("new", create=True)
    write({"a": "3\n", "b": "1\n"})
    repo.add("a", "b")
    repo.commit("third", paths=["a", "b"])
    repo.close()
    _put_local_back(here, kept)
    (here / "a").write_text("4\n")
    with pytest.warns(UserWarning, match="local.db is older than .* What you staged last may be lost"):
        opened = ml.open(here)
    with opened as repo:
        assert repo.branches.current == {"a branch": "main", "a new branch": "new", "no branch": None}[where]
        assert repo.show().commit.subject == "third"
        assert [change.path for change in repo.status().staged] == ["files/c"]  # no later commit has that path
        assert [change.path for change in repo.status().unstaged] == ["files/a"]
        repo.add("a")
        assert repo.read("a", rev=repo.commit("fourth").oid) == b"4\n"
        assert repo.upkeep.fsck(full=True).ok
    with ml.open(here) as repo:  # said once
        assert repo.status().clean


def test_a_merge_whose_files_were_never_written_is_not_undone_by_the_next_commit(
    repo: ml.Repo, keep: Keep, write: Write, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keep("base", {"a": "1\n", "b": "1\n"})
    repo.switch("side", create=True)
    keep("on side", {"b": "theirs\n"})
    repo.switch("main")
    keep("on main", {"a": "ours\n"})
    repo.upkeep.checkpoint()
    _copy_local(here, kept := tmp_path_factory.mktemp("kept"))
    repo.merge("side")
    repo.close()
    _put_local_back(here, kept)
    write({"b": "1\n"})  # the cut came after the branch moved, and before the files did
    with pytest.warns(UserWarning, match="local.db is older"):
        opened = ml.open(here)
    with opened as repo:
        assert repo.branches.current == "main" and not repo.status().unstaged
        write({"c": "new\n"})
        repo.add("c")
        repo.commit("after the cut")
        assert (repo.read("b"), (here / "b").read_text()) == (b"theirs\n", "theirs\n")


def test_a_verb_that_was_taken_back_does_not_make_local_db_older(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1\n"})
    (here / "a").write_text("2\n")
    repo.add("a")
    for _ in range(2):  # each leaves a token in local.db that repo.db never has
        tokens = repo._local.state("tokens")
        with hooked(fail_second_commit()), pytest.raises(Unavailable):
            repo.commit("fails")
        assert repo._local.state("tokens") != tokens
    repo.close()
    with ml.open(here) as repo:
        assert [change.path for change in repo.status().staged] == ["files/a"]


def fail_second_commit() -> Callable[[str], None]:
    """The first is of local.db, which notes the plan; the second of repo.db, which carries it out."""
    commits = iter(range(1, 100))

    def hook(step: str) -> None:
        if step == "commit" and next(commits) == 2:
            raise apsw.FullError("injected")

    return hook


def test_a_lost_local_db_is_said_and_its_branch_found_again(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("base", {"a": "1\n"})
    repo.switch("a-branch", create=True)
    keep("on a", {"b": "1\n"})
    repo.close()
    _lose_local(here)
    with pytest.warns(UserWarning, match=r"local.db was lost.*on branch 'a-branch'.*list for undo.*lost"):
        opened = ml.open(here)
    with opened:
        assert opened.branches.current == "a-branch" and opened.status().clean
        assert opened.operations()[0].verb == "lost" and "local.db was lost" in next(opened.reflog()).action
        with pytest.raises(ml.errors.Nothing):
            opened.undo()
        assert opened.upkeep.fsck(full=True).ok


def test_a_lost_local_db_is_found_again_where_it_was_only_switched_to(repo: ml.Repo, keep: Keep, here: Path) -> None:
    first = keep("base", {"a": "1\n"})
    keep("second", {"a": "2\n"})
    for place, branch in ((first.oid, None), ("main", "main")):
        repo.switch(place, detach=branch is None)
        repo.close()
        _lose_local(here)
        with pytest.warns(UserWarning, match="local.db was lost"):
            repo = ml.open(here)
        assert (repo.branches.current, repo.status().clean) == (branch, True)


def test_without_the_note_in_repo_db_a_lost_local_db_is_on_the_wrong_branch(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.repo.open.write_head", lambda *_: None)
    keep("base", {"a": "1\n"})
    repo.switch("a-branch", create=True)
    repo.close()
    _lose_local(here)
    with pytest.warns(UserWarning, match="on branch 'main'"):
        assert ml.open(here).branches.current == "main"


def test_a_renamed_branch_is_followed_when_the_crash_came_before_head_was_set(
    repo: ml.Repo, keep: Keep, here: Path
) -> None:
    keep("base", {"a": "1\n"})
    repo.branches.rename("main", "trunk")
    repo._local.set_state(head="main")
    repo.close()
    with pytest.warns(UserWarning, match="on branch 'trunk'"):
        assert ml.open(here).branches.current == "trunk"


def test_memories_work_with_a_detached_head_and_no_branch_of_the_usual_name(repo: ml.Repo, keep: Keep) -> None:
    first = keep("base", {"a": "1\n"})
    repo.branches.rename("main", "trunk")
    repo.switch(first.oid, detach=True)
    repo.memories().store(Draft("tea"))
    assert repo.branches.list()[0].name == "trunk" and repo.branches.list()[0].memory


def test_what_cannot_be_mended_is_assumed(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("base", {"a": "1\n"})
    repo._local.set_state(head="gone")
    repo.close()
    monkeypatch.setattr("memlake.versions.upkeep.rebuild.LONG", 0.05)
    with FileLock(here / ".memlake" / "checkout.lock").held(), ml.open(here) as opened:
        assert opened.head is not None and next(iter(opened.log())).subject == "base"


def test_an_assumed_head_ends_when_head_is_written(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("base", {"a": "1\n"})
    repo._local.set_state(head="gone")
    repo.close()
    monkeypatch.setattr("memlake.versions.upkeep.rebuild.LONG", 0.05)
    with FileLock(here / ".memlake" / "checkout.lock").held():
        opened = ml.open(here)
    with opened:
        opened.switch("side", create=True)
        assert opened.branches.current == "side"


def test_processes_that_begin_one_repo_at_once_both_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, others = rebuild.read_head, [lambda: ml.init(tmp_path).close()]

    def look(db: Database) -> str | None:
        """Another process makes the repo once this one has seen that there is none."""
        found = read(db)
        if others:
            others.pop()()
        return found

    monkeypatch.setattr(rebuild, "read_head", look)
    with ml.init(tmp_path) as repo:
        assert [branch.name for branch in repo.branches] == ["main"]
