"""Archives: the data of old commits leaves for a remote, is read there by everything, comes back, survives kills."""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
import warnings
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.errors import Conflict, Corrupt, Unavailable
from memlake.objects import disk
from memlake.repo import Repo, rescue
from memlake.versions import tables
from memlake.versions.history import archive
from tests.reliability.ground import TORTURE
from tests.versions.sync.conftest import commit, files_of, heads, remember

OLD = 17  # commits of both lanes that `old` has beside the four that refs name


@pytest.fixture
def old(ours: Repo, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repo of many commits that were pushed. A frame has few of them, so that there are many frames."""
    monkeypatch.setattr(archive, "WINDOW", 3)
    for number in range(12):
        commit(ours, "log.txt", b"".join(b"line %d\n" % i for i in range(number)), f"number {number}")
    ours.switch("side", create=True)
    commit(ours, "side.txt", b"1\n")
    ours.switch("main")
    commit(ours, "main.txt", b"1\n")
    ours.merge("side")
    remember(ours, "Rex must not get fish", "The build takes nine minutes")
    ours.push(None, "main", "side")
    return ours


def describe(repo: Repo) -> dict[str, object]:
    """All that verbs say of history, which must be the same wherever its data lies."""
    log = list(repo.log(lane="all", all=True))
    return {
        "log": log,
        "touched": [one.oid for one in repo.log(paths=["log.txt"])],
        "added": [one.oid for one in repo.log(text="line 7")],
        "blame": repo.blame("log.txt"),
        "shown": [repo.show(one).changes for one in log],
        "files": [sorted(repo.objects.versions_of("log.txt")), repo.read("log.txt", "HEAD~5")],
        "faults": repo.upkeep.fsck(full=True).problems,
        "memories": list(repo.ls(prefix="memories/")),
        "holding": list(tables.scan_first_parents(repo._history.db, repo._history.seq(repo.head), b"number 3")),
        "rows": [row[1:] for row in tables.scan_commit_rows(repo._history.db)],
    }


def copies(repo: Repo) -> list[str]:
    return sorted(os.listdir(repo.dir / "archives")) if (repo.dir / "archives").exists() else []


def count_archived(repo: Repo) -> int:
    return len(tables.list_archived(repo._history.db))


def holds(folder: Path, data: bytes) -> list[str]:
    files = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return [file.name for file in files if data in file.read_bytes()]


def test_everything_reads_archived_commits_as_before_and_says_once_from_where(old: Repo, tmp_path: Path) -> None:
    before = describe(old)
    assert old.remotes.archive("0d").commits == count_archived(old) == OLD and not copies(old)
    old.close()
    assert b"number 3" not in (old.dir / "repo.db").read_bytes()
    with ml.open(old.root) as again, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert next(iter(again.log())).message and not copies(again)  # what is new is read without it
        assert describe(again) == before and copies(again)
        said = [str(one.message) for one in told if "reading" in str(one.message)]
        assert len(said) == 1 and said[0].startswith(f"reading {OLD} archived commits from origin")
        shutil.rmtree(again.dir / "index")  # it is made from all commits of memories
        with ml.Agent(again.root, agent_id="bot") as agent:
            assert "fish" in str(agent.search_memory("fish", top_k=1))
        again.upkeep.gc(prune=True)
        assert describe(again) == before
        again.remotes.add("other", tmp_path / "other")
        again.push("other", "main", "side")
        again.remotes.bundle(tmp_path / "all.bundle", "main", "side")
        for url in (tmp_path / "other", tmp_path / "all.bundle", tmp_path / "remote"):
            with ml.clone(url, tmp_path / f"{url.stem}-clone") as theirs:  # a clone has all, also of this remote
                assert heads(theirs)[0, "main"] == heads(again)[0, "main"] and not count_archived(theirs)
                assert list(map(str, theirs.blame("log.txt"))) == list(map(str, again.blame("log.txt")))
                assert theirs.upkeep.fsck().ok


def test_what_is_new_what_a_ref_names_and_what_no_remote_has_stays(old: Repo) -> None:
    commit(old, "mine.txt", b"not pushed\n")
    commit(old, "mine.txt", b"nor this\n")
    assert not old.remotes.archive("1d").commits
    assert old.remotes.archive("0d", dry_run=True).commits == OLD and not count_archived(old)
    assert old.remotes.archive("0d").commits == OLD
    named = {bytes.fromhex(branch.work) for branch in old.branches if branch.work}
    assert named.isdisjoint(row[1] for row in tables.list_archived(old._history.db))
    assert not old.remotes.archive("0d").commits  # nothing is left to move
    old.push()
    assert old.remotes.archive("0d").commits == 2  # what origin/main named, and the first of the new ones


def test_without_the_remote_it_is_an_error_with_what_helps_and_nothing_is_lost(
    old: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = describe(old)
    old.remotes.archive("0d")
    os.rename(tmp_path / "remote", tmp_path / "elsewhere")
    commit(old, "new.txt", b"1\n")
    old.merge("side")
    assert old.status().clean
    old.close()
    old = ml.open(old.root)  # what was read just now is remembered
    for verb in (lambda: list(old.log()), old.upkeep.gc, old.remotes.unarchive):
        with pytest.raises(Unavailable, match=f"the data of {OLD} old commits lies in an archive") as caught:
            verb()
        assert "memlake archive --back" in caught.value.hint and "memlake rescue" in caught.value.hint
    assert "could not be read" in old.upkeep.fsck().problems[0].detail
    with pytest.raises(Conflict, match="old commits lies in an archive at"):
        old.remotes.remove("origin")
    packs = rescue(old.dir, tmp_path / "rescued")
    assert packs.commits >= OLD and not packs.lost
    os.rename(tmp_path / "elsewhere", tmp_path / "remote")
    assert old.remotes.unarchive().commits == OLD and not count_archived(old) and not copies(old)
    old.reset("HEAD~1", mode="hard")
    assert describe(old)["log"] == before["log"]
    monkeypatch.chdir(old.root)
    assert main(["archive", "--older-than", "0d"]) == 0 and main(["log"]) == 0
    shown = capfd.readouterr()
    assert (
        f"Moved the data of {OLD} commits" in shown.out and f"reading {OLD} archived commits from origin" in shown.err
    )
    assert main(["archive", "--drop"]) == 0 and not copies(old) and main(["archive", "--back"]) == 0
    assert main(["archive"]) == 2 and main(["archive", "--drop", "--back"]) == 2
    old.remotes.remove("origin")


def test_a_copy_that_is_kept_needs_no_remote_and_only_one_that_a_remote_has_is_dropped(
    old: Repo, tmp_path: Path
) -> None:
    old.remotes.archive("0d", keep=True)
    os.rename(tmp_path / "remote", tmp_path / "elsewhere")
    assert len(copies(old)) == 1 and len(list(old.log(lane="all", all=True))) == OLD + 4
    with pytest.raises(Conflict, match="no remote has archive"):
        old.remotes.drop_archives()
    assert len(copies(old)) == 1
    os.rename(tmp_path / "elsewhere", tmp_path / "remote")
    old.remotes.drop_archives()
    assert not copies(old)


def test_a_purge_finds_what_only_archived_commits_name_and_no_archive_ever_held_it(old: Repo, tmp_path: Path) -> None:
    secret = b"the phone of Ada is 030 12345"
    commit(old, "secret.txt", secret)
    oid = old.objects.at("secret.txt").oid
    (old.root / "secret.txt").unlink()
    old.commit("without", all=True)
    commit(old, "last.txt", b"1\n")
    old.push()
    old.remotes.archive("0d")
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        theirs.remotes.archive("0d")
        assert old.upkeep.purge(oid, reason="gdpr").paths == ("files/secret.txt",)
        assert old.push().erased.records
        theirs.pull()
        for folder in (tmp_path / "remote", old.dir, theirs.dir):
            assert not holds(folder, secret), folder
        assert len(list((tmp_path / "remote" / "archives").iterdir())) >= 1
        assert theirs.upkeep.fsck().ok and len(list(theirs.log())) == len(list(old.log()))


def test_a_gc_of_the_remote_and_pushes_keep_archives_and_remove_what_is_in_no_root(old: Repo, tmp_path: Path) -> None:
    old.remotes.archive("0d")
    stray = tmp_path / "remote" / "archives" / ("a" * 64)
    stray.write_bytes(b"left by somebody who was killed")
    with ml.clone(tmp_path / "remote", tmp_path / "theirs") as theirs:
        theirs.push("origin", "side", delete=True)
        commit(theirs, "more.txt", b"1\n")
        theirs.push()
        theirs.remotes.gc(prune=True)
    assert not stray.exists() and len(list(stray.parent.iterdir())) == 1
    assert len(list(old.log(lane="all", all=True))) == OLD + 4


@pytest.mark.parametrize("where", ["remote/archives", "ours/.memlake/archives"])
def test_a_file_that_was_changed_is_refused_and_another_copy_helps(old: Repo, tmp_path: Path, where: str) -> None:
    before = describe(old)
    old.remotes.archive("0d", keep=where.startswith("ours"))
    (file,) = (tmp_path / where).iterdir()
    data = file.read_bytes()
    file.write_bytes(bytes(byte ^ (at % 40 == 20) for at, byte in enumerate(data)))
    refs = heads(old)
    with pytest.raises(Corrupt, match=r"does not match its name|is damaged") as caught:
        list(old.log())
    assert heads(old) == refs
    if where.startswith("ours"):
        assert "memlake archive --drop" in caught.value.hint
        old.remotes.drop_archives()
    else:
        assert not copies(old)
        file.write_bytes(data)
    assert describe(old) == before


def test_no_row_lets_go_of_what_was_not_read_back(old: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damage(step: str) -> None:
        if step == "archive listed":
            (file,) = (tmp_path / "remote" / "archives").iterdir()
            file.write_bytes(bytes(file.stat().st_size))

    monkeypatch.setattr(disk, "hook", damage)
    with pytest.raises(Corrupt, match="does not match its name"):
        old.remotes.archive("0d")
    assert not count_archived(old) and not copies(old)


def test_a_backup_has_what_was_archived(old: Repo, tmp_path: Path) -> None:
    before = describe(old)
    old.remotes.archive("0d")
    old.upkeep.backup(tmp_path / "copy.tar")
    shutil.rmtree(tmp_path / "remote")
    (tmp_path / "restored").mkdir()
    with tarfile.open(tmp_path / "copy.tar") as tar:
        tar.extractall(tmp_path / "restored", filter="data")
    with ml.open(tmp_path / "restored") as restored:
        assert list(restored.log(lane="all", all=True)) == before["log"]
    shutil.rmtree(old.dir / "archives")
    with pytest.warns(UserWarning, match="the backup does not hold all commits"):
        old.upkeep.backup(tmp_path / "lacking.tar")


def test_whoever_is_killed_at_any_step_loses_nothing_and_the_next_run_ends_it(old: Repo, tmp_path: Path) -> None:
    before, steps = describe(old), list[str]()
    disk.hook = steps.append
    try:
        copy = _copy(tmp_path, "all")
        with ml.open(copy) as repo:
            steps.clear()
            repo.remotes.archive("0d")
            ended = len(steps)
    finally:
        disk.hook = None
    assert {"archive stored", "archive listed", "archive noted"} <= set(steps[:ended])
    for number in range(0, ended, 1 if TORTURE else 9):
        copy = _copy(tmp_path, str(number))
        assert _archive_killed_at(copy, number)
        with ml.open(copy) as repo:
            assert count_archived(repo) in (0, OLD)
            assert len(list(repo.log(lane="all", all=True))) == OLD + 4
            repo.remotes.archive("0d")
            assert count_archived(repo) == OLD and repo.upkeep.fsck().ok
            assert len(files_of(copy.parent / "remote" / "archives")) == 1
        shutil.rmtree(copy.parent)
    assert describe(old) == before


def _copy(tmp_path: Path, name: str) -> Path:
    """The repo and its remote, beside each other as they were."""
    folder = tmp_path / f"trial-{name}"
    for part in ("ours", "remote"):
        shutil.copytree(tmp_path / part, folder / part)
    with ml.open(folder / "ours") as repo:
        repo.remotes.set_url("origin", folder / "remote")
    return folder / "ours"


def _archive_killed_at(root: Path, number: int) -> bool:
    pid = os.fork()
    if pid == 0:
        left = [number]

        def kill(_step: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with ml.open(root) as repo:
                disk.hook = kill
                repo.remotes.archive("0d")
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
