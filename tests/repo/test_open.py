"""Opening a repo: where it is found, what is refused, and what an opened one looks like."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import apsw
import psutil
import pytest

import memlake as ml
from memlake.objects.layout import FORMAT
from memlake.versions.checkout import journal
from memlake.versions.checkout.journal import Goal, Plan


def kept(folder: Path) -> ml.Repo:
    repo = ml.init(folder)
    (folder / "a").write_text("1")
    repo.add(folder / "a")
    repo.commit("one")
    return repo


def set_format(folder: Path, value: object) -> None:
    connection = apsw.Connection(str(folder / ".memlake/repo.db"))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (value,))
    connection.close()


def test_init_makes_a_repo_that_git_ignores_and_is_safe_to_repeat(here: Path) -> None:
    repo = kept(here)
    assert (here / ".memlake/.gitignore").read_text() == "*\n" and repo.branches.current == "main"
    again = ml.init()
    assert again.head == repo.head and again.status().clean


def test_the_first_branch_may_have_another_name(tmp_path: Path) -> None:
    assert ml.init(tmp_path / "x", branch="trunk").branches.current == "trunk"
    assert [b.name for b in ml.open(tmp_path / "x").branches] == ["trunk"]
    with pytest.raises(ml.errors.InvalidInput):
        ml.init(tmp_path / "y", branch="bad name")


def test_a_repo_is_found_here_above_by_path_and_by_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept(here)
    (here / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(here / "deep/er")
    assert ml.open().root == here.resolve()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(ml.errors.NotARepo) as raised:
        ml.open()
    assert "memlake init" in raised.value.hint
    assert ml.open(here).head and ml.open(str(here)).head
    monkeypatch.setenv("MEMLAKE_REPO", str(here))
    assert ml.open().root == here.resolve()


def test_a_folder_without_a_repo_is_not_made_one_by_looking(tmp_path: Path) -> None:
    with pytest.raises(ml.errors.NotARepo):
        ml.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_emptied_repo_folder_is_not_taken_for_a_new_repo(here: Path) -> None:
    kept(here).close()
    for name in ("repo.db", "repo.db-wal", "repo.db-shm"):
        (here / ".memlake" / name).unlink(missing_ok=True)
    with pytest.raises(ml.errors.NotFound, match=r"repo\.db"):
        ml.open(here)
    assert not (here / ".memlake/repo.db").exists()


@pytest.mark.parametrize("value", [FORMAT + 1, 99])
def test_a_repo_of_a_newer_format_is_refused_with_the_cure_and_not_touched(here: Path, value: int) -> None:
    kept(here).close()
    set_format(here, value)
    before = (here / ".memlake/repo.db").read_bytes()
    with pytest.raises(ml.errors.InvalidInput, match=rf"format {value}.*up to format {FORMAT}") as raised:
        ml.open(here)
    assert "newer memlake" in raised.value.hint
    with pytest.raises(ml.errors.InvalidInput):
        ml.init(here)
    assert (here / ".memlake/repo.db").read_bytes() == before


@pytest.mark.parametrize("value", [None, "one"])
def test_a_repo_without_a_readable_format_is_corrupt(here: Path, value: object) -> None:
    kept(here).close()
    set_format(here, value)
    with pytest.raises(ml.errors.Corrupt):
        ml.open(here)


@pytest.mark.parametrize("garbage", [b"", b"not a database at all, but long enough to be looked at" * 100])
def test_a_database_that_is_none_is_an_error_and_never_replaced(here: Path, garbage: bytes) -> None:
    kept(here).close()
    for name in ("repo.db-wal", "repo.db-shm"):
        (here / ".memlake" / name).unlink(missing_ok=True)
    (here / ".memlake/repo.db").write_bytes(garbage)
    with pytest.raises((ml.errors.Corrupt, ml.errors.NotFound)):
        ml.open(here).status()
    assert (here / ".memlake/repo.db").read_bytes()[:50] == garbage[:50]


def test_losing_the_checkout_state_costs_no_history(here: Path) -> None:
    head = kept(here).head
    for file in (here / ".memlake").glob("local.db*"):
        file.unlink()
    repo = ml.init(here)
    assert repo.branches.current == "main" and repo.head == head and repo.read("a") == b"1"


def test_damaged_content_is_never_served(here: Path) -> None:
    repo = kept(here)
    oid = next(e.oid for _, e in repo.ls())
    repo._history.db.run("UPDATE object SET data = ? WHERE oid = ?", (b"2", bytes.fromhex(oid)))
    with pytest.raises(ml.errors.Corrupt, match=oid):
        repo.read("a")
    report = repo.upkeep.fsck()
    assert not report.ok and report.problems[0].oid == oid and report.problems[0].path == "files/a"
    (here / "a").unlink()
    with pytest.raises(ml.errors.Corrupt):
        repo.restore(here / "a")
    assert not (here / "a").exists()


def test_a_repo_is_a_context_and_says_what_it_is(here: Path) -> None:
    with kept(here) as repo:
        assert repr(repo) == f"Repo({str(here)!r}, main)"
    assert ml.open(here).head


def test_a_closed_repo_leaves_no_write_ahead_log_behind(here: Path) -> None:
    repo = kept(here)
    repo.upkeep.checkpoint()
    repo.close()
    assert not [p for p in (here / ".memlake").glob("*-wal") if p.stat().st_size]


def test_a_repo_that_was_closed_and_let_go_has_no_pack_open(here: Path) -> None:
    repo = kept(here)
    (here / "big").write_bytes(os.urandom(100_000))
    repo.add(all=True)
    repo.commit("big")
    gc.collect()
    gc.disable()  # a cycle would keep its files open until Python happens to look for cycles
    try:
        assert repo.upkeep.fsck(full=True).ok
        assert [file for file in psutil.Process().open_files() if "/packs/" in file.path]
        repo.close()
        del repo
        assert not [file for file in psutil.Process().open_files() if str(here) in file.path]
    finally:
        gc.enable()


def test_records_print_what_a_person_wants_to_know(here: Path) -> None:
    repo = kept(here)
    commit = repo.show("HEAD").commit
    assert commit.oid[:10] in repr(commit) and "'one'" in repr(commit)
    assert repr(repo.show(commit).changes[0]) == "Change(A files/a)"
    assert repr(repo.branches.list()[0]).startswith("Branch(*main ")
    assert "0 staged" in repr(repo.status()) and "main" in repr(repo.status())


def test_threads_share_one_repo(here: Path) -> None:
    repo = kept(here)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(10):
                repo.write({f"memories/bot/{number}-{n}": b"x"}, "m")
                assert repo.read("a") == b"1"
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(list(repo.log(lane="memory"))) == 40 == len(list(repo.ls(prefix="memories/")))


def test_a_repo_opened_before_a_fork_works_in_the_child(here: Path) -> None:
    repo = kept(here)
    pid = os.fork()
    if pid == 0:
        try:
            repo.write({"memories/bot/child": b"x"}, "m")
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert repo.read("memories/bot/child") == b"x"


def test_an_interrupted_checkout_whose_file_was_purged_meanwhile_does_not_lock_the_repo(here: Path) -> None:
    repo = kept(here)
    (here / "secret").write_text("secret")
    (here / "b").write_text("2")
    repo.add(all=True)
    repo.commit("two")
    secret = next(e.oid for p, e in repo.ls() if p == "files/secret")
    repo.switch("HEAD~1", detach=True)
    repo.upkeep.purge(secret, reason="it was a secret")
    main = repo.show("main").commit.oid
    journal.begin(repo._local, Plan(Goal(main, "main", "switch: moving to main", "")))
    repo.close()
    again = ml.open(here)
    status = again.status()
    assert again.branches.current == "main" and (here / "b").read_text() == "2" and not (here / "secret").exists()
    assert status.unstaged == ()  # it cannot be here, so nobody removed it
