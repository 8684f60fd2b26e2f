"""Clones whose content is at the remote until it is read: what they do without it, and how little they bring."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.objects import tables
from memlake.repo import Repo
from memlake.versions.sync import partial
from tests.versions.sync.conftest import commit, heads, put

Partly = Callable[..., Repo]


@pytest.fixture
def partly(ours: Repo, tmp_path: Path) -> Iterator[Partly]:
    """Makes clones without content, or with that under a size."""
    made: list[Repo] = []
    rng = random.Random(3)
    for number in range(40):
        put(ours, f"many/{number}.bin", rng.randbytes(20_000))
    put(ours, "lines.txt", b"".join(b"line %d\n" % number for number in range(5000)))
    ours.add(all=True)
    ours.commit("larger")

    def join(name: str = "part", only: str = "none") -> Repo:
        if not made:
            ours.push()
        made.append(ml.clone(tmp_path / "remote", tmp_path / name, filter=only))
        return made[-1]

    yield join
    for repo in made:
        repo.close()


class Brought:
    """The objects that were brought, a list for each time somebody asked; refuses once it is told to."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.refuses = False


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Brought:
    seen, real = Brought(), partial.bring

    def bring(objects: object, links: object, oids: Sequence[bytes], progress: object = None) -> None:
        seen.calls.append(list(oids))
        assert not seen.refuses, "content was asked for"
        real(objects, links, oids, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(partial, "bring", bring)
    return seen


def _is_here(repo: Repo, path: str) -> bool:
    return os.path.lexists(Path(repo.root) / path)


def test_to_ask_which_of_some_objects_are_away_does_not_read_all_that_are(
    partly: Partly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of a million paths asks for a few thousand at a time: each would read the million."""
    db, asked = partly()._history.db, list[tuple[str, tuple[object, ...]]]()
    some = [row[0] for row in db.rows("SELECT oid FROM object WHERE form = 7 LIMIT 3")]
    assert len(some) == 3
    rows = db.rows
    monkeypatch.setattr(db, "rows", lambda sql, args=(): asked.append((sql, args)) or rows(sql, args))
    assert {row[0] for row in tables.list_away(db, some)} == set(some)
    ((sql, args),) = asked
    assert "object_away" not in str(rows(f"EXPLAIN QUERY PLAN {sql}", args))


def test_a_clone_without_content_is_clean_and_says_how_many_files_are_away(partly: Partly, brought: Brought) -> None:
    theirs = partly()
    found = theirs.status()
    assert found.clean and found.away >= 42 and not _is_here(theirs, "big.bin") and not brought.calls
    assert theirs.status("many").away == 40 and not theirs.status("a.txt").away


def test_a_diff_of_a_working_file_that_is_away_shows_what_it_would_hold(
    partly: Partly, ours: Repo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = partly()
    put(ours, "lines.txt", b"line 0\n")
    put(ours, "deep/er/b.csv", b"id,v\n1,1\n")
    ours.commit("shorter", all=True)
    ours.push()
    theirs.fetch()
    monkeypatch.chdir(theirs.root)
    assert main(["diff", "origin/main"]) == 0
    shown = capfd.readouterr().out
    assert "+line 4999" in shown and "1 -> 500 rows" in shown and not _is_here(theirs, "lines.txt")
    assert theirs.status().clean


def test_bringing_tells_of_each_step_and_comes_to_its_end(partly: Partly) -> None:
    theirs, steps = partly(), list[tuple[int, int]]()
    oids = [entry.oid for _, entry in theirs.ls(prefix="files/")]
    theirs.objects.bring(oids, progress=lambda done, total, _: steps.append((done, total)))
    done, total = zip(*steps, strict=True)
    assert len(set(total)) == 1 and total[0] > 3_000_000 and list(done) == sorted(done) and done[-1] == total[0]
    assert len(steps) > 1 and not any(map(theirs.objects.is_away, oids))


def test_a_filter_by_size_brings_what_is_smaller(partly: Partly, ours: Repo, brought: Brought) -> None:
    theirs = partly(only="size<1MB")
    assert theirs.status().away == 1 and not _is_here(theirs, "big.bin") and not brought.calls
    assert (Path(theirs.root) / "many/7.bin").read_bytes() == (Path(ours.root) / "many/7.bin").read_bytes()


def test_what_needs_no_content_works_before_any_is_here(partly: Partly, brought: Brought) -> None:
    theirs = partly()
    brought.refuses = True
    assert len(list(theirs.ls())) > 80 and len(list(theirs.log())) == 3
    away = theirs.status().away
    theirs.add(all=True)
    theirs.switch("dev", create=True)
    theirs.switch("main")
    theirs.reset("HEAD~1", "mixed")
    theirs.undo()
    assert theirs.status().clean and theirs.status().away == away
    theirs.switch("HEAD~1", detach=True)
    theirs.switch("main")
    theirs.reset("HEAD", "hard")
    put(theirs, "a.txt", b"work\n")
    theirs.stash.push()
    theirs.stash.pop()
    theirs.commit("work", all=True)
    assert theirs.status().clean and theirs.status().away == away
    with ml.Agent(theirs.root, agent_id="bot") as agent:
        assert "Rex" in agent.search_memory("which cat")[0]["content"]


def test_restore_brings_files_in_one_go_and_they_stay_when_it_is_undone(
    partly: Partly, ours: Repo, brought: Brought
) -> None:
    theirs = partly()
    theirs.restore("many", "big.bin")
    assert len(brought.calls) == 1 and theirs.status().clean
    for path in ("big.bin", "many/39.bin"):
        assert (Path(theirs.root) / path).read_bytes() == (Path(ours.root) / path).read_bytes()
    theirs.undo()
    assert _is_here(theirs, "big.bin") and theirs.status().clean
    assert theirs.upkeep.fsck(full=True).ok


def test_a_file_that_was_brought_and_removed_by_hand_counts_as_deleted(partly: Partly) -> None:
    theirs = partly()
    theirs.restore("big.bin")
    (Path(theirs.root) / "big.bin").unlink()
    assert [change.path for change in theirs.status().unstaged] == ["files/big.bin"]


def test_reading_content_brings_it_without_writing_the_file_and_the_file_stays_away(partly: Partly, ours: Repo) -> None:
    theirs = partly()
    assert theirs.read("big.bin") == (Path(ours.root) / "big.bin").read_bytes()
    found = theirs.status()
    assert found.clean and found.away >= 42 and not _is_here(theirs, "big.bin")
    theirs.add(all=True)
    assert theirs.status().clean


def test_a_file_put_in_the_place_of_one_that_is_away_is_a_change_and_may_go_again(partly: Partly) -> None:
    theirs = partly()
    put(theirs, "big.bin", b"mine\n")
    assert [change.status for change in theirs.status().unstaged] == ["M"]
    theirs.add("big.bin")
    theirs.commit("mine")
    assert theirs.status().clean
    (Path(theirs.root) / "big.bin").unlink()
    assert [change.status for change in theirs.status().unstaged] == ["D"]


def test_adding_content_that_is_away_stores_it_here(partly: Partly, ours: Repo, brought: Brought) -> None:
    theirs = partly()
    brought.refuses = True
    for path in ("big.bin", "many/3.bin"):
        put(theirs, f"copy/{path}", (Path(ours.root) / path).read_bytes())
    theirs.add("copy")
    theirs.commit("copies")
    assert theirs.read("big.bin") == (Path(ours.root) / "big.bin").read_bytes()
    theirs.restore("big.bin", "many/3.bin")
    assert theirs.upkeep.fsck(full=True).ok


def test_removing_and_moving_what_is_away_needs_no_content(partly: Partly, ours: Repo, brought: Brought) -> None:
    theirs = partly()
    brought.refuses = True
    theirs.rm("many/1.bin")
    theirs.mv("many/2.bin", "elsewhere.bin")
    theirs.mv("many", "more")
    theirs.commit("moved")
    found = theirs.status()
    assert found.clean and not _is_here(theirs, "elsewhere.bin")
    brought.refuses = False
    theirs.restore("elsewhere.bin", "more")
    assert (Path(theirs.root) / "elsewhere.bin").read_bytes() == (Path(ours.root) / "many/2.bin").read_bytes()


def test_a_pull_that_is_a_fast_forward_brings_only_what_replaces_a_file(
    partly: Partly, ours: Repo, brought: Brought
) -> None:
    theirs = partly()
    theirs.restore("many/5.bin")
    brought.calls.clear()
    for number in (5, 6):
        put(ours, f"many/{number}.bin", bytes([number]) * 30_000)
    put(ours, "fresh.txt", b"fresh\n" * 90_000)
    ours.add(all=True)
    ours.commit("changed")
    ours.push()
    theirs.pull()
    assert sum(map(len, brought.calls)) <= 1 and heads(theirs) == heads(ours)
    assert (Path(theirs.root) / "many/5.bin").read_bytes() == bytes([5]) * 30_000
    assert not _is_here(theirs, "many/6.bin") and not _is_here(theirs, "fresh.txt") and theirs.status().clean


def test_a_merge_brings_only_what_both_changed(partly: Partly, ours: Repo, brought: Brought) -> None:
    theirs, lines = partly(), (Path(ours.root) / "lines.txt").read_bytes()
    put(theirs, "mine.txt", b"mine\n")
    put(theirs, "lines.txt", b"start\n" + lines)
    theirs.add("mine.txt", "lines.txt")
    theirs.commit("mine")
    put(ours, "lines.txt", lines + b"end\n")
    put(ours, "many/9.bin", b"other\n" * 9000)
    ours.add(all=True)
    ours.commit("theirs")
    ours.push()
    brought.calls.clear()
    theirs.pull()
    assert sum(map(len, brought.calls)) <= 2 and theirs.status().clean
    assert (Path(theirs.root) / "lines.txt").read_bytes() == b"start\n" + lines + b"end\n"


def test_a_push_from_a_clone_without_content_sends_what_is_new_and_brings_nothing(
    partly: Partly, ours: Repo, brought: Brought
) -> None:
    theirs = partly()
    brought.refuses = True
    commit(theirs, "new.txt", b"new\n")
    assert theirs.push().objects <= 2
    ours.pull()
    assert heads(theirs) == heads(ours) and (Path(ours.root) / "new.txt").read_bytes() == b"new\n"


def test_what_is_away_is_brought_to_be_pushed_to_another_remote(partly: Partly, ours: Repo, tmp_path: Path) -> None:
    part = partly()
    part.remotes.add("second", tmp_path / "second")
    part.push("second")
    with ml.clone(tmp_path / "second", tmp_path / "other") as other:
        assert other.read("big.bin") == ours.read("big.bin")
        assert other.upkeep.fsck(full=True).ok


def test_a_lost_local_database_does_not_make_files_that_are_away_deleted(partly: Partly, tmp_path: Path) -> None:
    theirs = partly()
    away = theirs.status().away
    theirs.close()
    for file in (tmp_path / "part/.memlake").glob("local.db*"):
        file.unlink()
    with pytest.warns(UserWarning, match="local.db"), ml.open(tmp_path / "part") as again:
        assert again.status().clean and again.status().away == away


def test_fsck_names_what_is_away_and_finds_no_fault(partly: Partly) -> None:
    report = partly().upkeep.fsck(full=True)
    assert report.ok and report.checked["objects at a remote only"] >= 42


def test_views_of_a_clone_without_content_need_none(
    partly: Partly, brought: Brought, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(partly().root)
    brought.refuses = True
    seen = {}
    for line in ("ls -l", "log --stat", "diff --stat HEAD~2", "recall cat", "du", "fsck", "status", "doctor", "gc -n"):
        capsys.readouterr()
        assert main(line.split()) == 0, line
        seen[line] = capsys.readouterr().out
    assert re.search(r"many/3.bin +\| at a remote, 0 -> 20000 bytes", seen["diff --stat HEAD~2"])
    assert "42 files are not here but at a remote." in seen["status"] and "objects at a remote only" in seen["du"]


def test_a_patch_brings_all_it_shows_in_one_go(
    partly: Partly, brought: Brought, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(partly().root)
    assert main(["show", "HEAD"]) == 0
    assert len(brought.calls) == 1 and "+line 4999" in capsys.readouterr().out


def test_gc_keeps_what_is_away_and_a_backup_names_it(partly: Partly, tmp_path: Path) -> None:
    theirs = partly()
    theirs.upkeep.gc(prune=True)
    assert theirs.upkeep.fsck().ok
    with pytest.warns(UserWarning, match="does not hold the content of 42 objects"):
        theirs.upkeep.backup(tmp_path / "copy.tar")
    theirs.restore("many")
    theirs.upkeep.gc(prune=True)
    assert theirs.upkeep.fsck(full=True).ok


@pytest.mark.parametrize(("way", "path"), [("gc", "many/7.bin"), ("gc", "big.bin"), ("purge", "many/7.bin")])
def test_content_is_found_where_somebody_elses_gc_or_purge_of_the_remote_put_it(
    ours: Repo, partly: Partly, tmp_path: Path, way: str, path: str
) -> None:
    theirs, oid = partly(), ours.objects.at("many/3.bin").oid
    before = set(os.listdir(tmp_path / "remote/packs"))
    if way == "gc":
        _send_again(ours)
    else:
        ours.upkeep.purge(oid, reason="leaked")
        ours.push()
    assert before - set(os.listdir(tmp_path / "remote/packs"))
    assert theirs.read(path) == ours.read(path)
    if way == "purge":
        with pytest.raises(ml.errors.NotFound, match="no remote that is known here has object"):
            theirs.read("many/3.bin")
        theirs.fetch()
        with pytest.raises(ml.errors.Purged):
            theirs.read("many/3.bin")
    theirs.fetch()
    assert theirs.upkeep.fsck(full=True).ok


def test_content_that_lay_in_a_pack_is_found_in_a_batch(ours: Repo, partly: Partly) -> None:
    """A difference goes whole, and into a batch, if what it rests on does not go."""
    lines = [os.urandom(30).hex() for _ in range(3000)]
    ours.switch("dev", create=True)
    commit(ours, "log.txt", "\n".join(lines).encode())
    old = ours.read("log.txt")
    theirs = partly()
    ours.push("origin", "dev")
    theirs.fetch()
    ours.push("origin", "dev", delete=True)
    ours.remotes.gc(prune=True)
    ours.switch("longer", create=True)
    lines[7] = "changed"
    commit(ours, "log.txt", "\n".join(lines).encode())
    ours.upkeep.gc(prune=True)  # now the first rests on the second
    ours.push("origin", "dev")
    assert theirs.read("log.txt", "origin/dev") == old and theirs.upkeep.fsck(full=True).ok


def _send_again(repo: Repo) -> None:
    """Delete the branch there with all its files, and push it anew."""
    repo.push("origin", "main", delete=True)
    repo.remotes.gc(prune=True)
    repo.push("origin", "main")


def _disk(repo: Repo) -> int:
    return sum(file.stat().st_size for file in (Path(repo.root) / ".memlake/packs").rglob("*") if file.is_file())


def test_what_was_dropped_leaves_the_disk_and_comes_back_by_restore(ours: Repo, partly: Partly) -> None:
    partly()
    whole, before = (Path(ours.root) / "big.bin").read_bytes(), _disk(ours)
    trial = ours.remotes.drop("big.bin", "many", dry_run=True)
    assert trial.size > 3_000_000 and (Path(ours.root) / "big.bin").exists()
    dropped = ours.remotes.drop("big.bin", "many")
    assert dropped == trial and "files/big.bin" in dropped.paths and not (Path(ours.root) / "big.bin").exists()
    found = ours.status()
    assert found.clean and found.away == len(dropped.paths) == 41
    assert ours.upkeep.fsck(full=True).ok
    ours.upkeep.gc(prune=True)
    assert _disk(ours) < before - 3_000_000 and ours.upkeep.fsck(full=True).ok
    ours.restore("big.bin")
    assert (Path(ours.root) / "big.bin").read_bytes() == whole and ours.upkeep.fsck(full=True).ok


def test_what_no_remote_has_is_not_dropped(ours: Repo, partly: Partly, tmp_path: Path) -> None:
    partly()
    commit(ours, "new.bin", os.urandom(50_000))
    with pytest.raises(ml.errors.Conflict, match="no remote has all versions of 1 file"):
        ours.remotes.drop("new.bin", "big.bin")
    assert (Path(ours.root) / "big.bin").exists() and not ours.status().away
    put(ours, "big.bin", b"edited")
    with pytest.raises(ml.errors.Conflict, match="changes that no remote has"):
        ours.remotes.drop("big.bin")
    assert (Path(ours.root) / "big.bin").read_bytes() == b"edited"


def test_what_a_remote_had_once_and_lost_is_not_dropped(ours: Repo, partly: Partly, tmp_path: Path) -> None:
    partly()
    root = tmp_path / "remote" / "root"
    told = json.loads(root.read_bytes())
    root.write_text(json.dumps({**told, "packs": [], "generation": told["generation"] + 1}))
    with pytest.raises(ml.errors.Conflict, match="no remote has all versions"):
        ours.remotes.drop("big.bin")


def test_content_that_something_else_needs_stays(ours: Repo, partly: Partly) -> None:
    half = (Path(ours.root) / "big.bin").read_bytes()
    put(ours, "longer.bin", half + b"more" * 1000)
    ours.add("longer.bin")
    ours.commit("longer")
    partly()
    ours.remotes.drop("big.bin")
    ours.upkeep.gc(prune=True)
    ours.remotes.remove("origin")
    assert ours.read("longer.bin") == half + b"more" * 1000 and ours.upkeep.fsck(full=True).ok


def test_a_depth_brings_the_content_of_the_last_commits_alone(ours: Repo, partly: Partly, tmp_path: Path) -> None:
    partly()
    old = (Path(ours.root) / "big.bin").read_bytes()
    for number in range(2):
        commit(ours, "big.bin", bytes([number]) + os.urandom(2_000_000))
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "shallow", depth=1) as theirs:
        assert theirs.status().clean and not theirs.status().away
        assert (Path(theirs.root) / "big.bin").read_bytes() == (Path(ours.root) / "big.bin").read_bytes()
        assert _disk(theirs) < 4_000_000 and len(list(theirs.log())) == 5
        assert theirs.read("big.bin", "HEAD~2") == old and theirs.upkeep.fsck(full=True).ok
    with pytest.raises(ml.errors.InvalidInput, match="counts commits"):
        ml.clone(tmp_path / "remote", tmp_path / "none", depth=0)


def test_one_file_more_among_twenty_thousand_brings_and_sends_next_to_nothing(tmp_path: Path, brought: Brought) -> None:
    with ml.init(tmp_path / "wide") as wide:
        for number in range(20_000):
            put(wide, f"{number % 100}/{number}.txt", b"%d\n" % number * 5)
        wide.add(all=True)
        wide.commit("wide")
        wide.remotes.add("origin", tmp_path / "remote")
        wide.push()
    brought.refuses = True
    with ml.clone(tmp_path / "remote", tmp_path / "light", filter="none") as light:
        assert light.status().away == 20_000 and light.status().clean
        commit(light, "7/one.txt", b"one\n")
        pushed = light.push()
        assert pushed.objects <= 2 and pushed.size < 4000 and pushed.files <= 3
