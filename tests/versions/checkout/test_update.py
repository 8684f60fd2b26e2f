"""Nothing uncommitted is ever overwritten: every verb that moves files, against every form of uncommitted work."""

from __future__ import annotations

import os
import random
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Corrupt
from memlake.records import Change, Entry
from memlake.versions.checkout import update
from memlake.versions.verbs.undo import operation
from tests.versions.conftest import Keep

Write = Callable[..., None]


@pytest.fixture
def crossing(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """On main; dev changes `f`, removes `only-main`, brings `only-dev` and `dir/x`, has a file `swap` for `swap/y`."""
    keep("base", {"f": "base", "only-main": "1", "swap/y": "1", "same": "1"})
    repo.switch("dev", create=True)
    (repo.root / "swap/y").unlink()
    (repo.root / "swap").rmdir()
    keep("dev", {"f": "dev", "only-dev": "dev", "dir/x": "dev", "swap": "dev", "only-main": None})
    repo.switch("main")
    return repo


def modified(repo: ml.Repo, write: Write) -> str:
    write({"f": "precious"})
    return "f"


def staged(repo: ml.Repo, write: Write) -> str:
    write({"f": "precious"})
    repo.add("f")
    return "f"


def staged_then_modified_to_the_target(repo: ml.Repo, write: Write) -> str:
    write({"f": "precious"})
    repo.add("f")
    write({"f": "dev"})
    return "f"


def staged_as_the_target_then_modified(repo: ml.Repo, write: Write) -> str:
    write({"f": "dev"})
    repo.add("f")
    write({"f": "precious"})
    return "f"


def untracked_in_the_way(repo: ml.Repo, write: Write) -> str:
    write({"only-dev": "precious"})
    return "only-dev"


def added_in_the_way(repo: ml.Repo, write: Write) -> str:
    write({"only-dev": "precious"})
    repo.add("only-dev")
    return "only-dev"


def a_file_where_a_folder_must_be(repo: ml.Repo, write: Write) -> str:
    write({"dir": "precious"})
    return "dir"


def an_untracked_file_in_a_folder_that_must_become_a_file(repo: ml.Repo, write: Write) -> str:
    write({"swap/mine": "precious"})
    return "swap/mine"


def a_folder_where_a_file_must_be(repo: ml.Repo, write: Write) -> str:
    write({"only-dev/inner": "precious"})
    return "only-dev/inner"


def modified_and_to_be_removed(repo: ml.Repo, write: Write) -> str:
    write({"only-main": "precious"})
    return "only-main"


def no_longer_tracked_but_edited(repo: ml.Repo, write: Write) -> str:
    repo.rm("only-main", cached=True)
    write({"only-main": "precious"})
    return "only-main"


def an_ignored_file_in_the_way(repo: ml.Repo, write: Write) -> str:
    write({".memlakeignore": "only-dev\n", "only-dev": "precious"})
    return "only-dev"


FORMS = [
    modified, staged, staged_then_modified_to_the_target, staged_as_the_target_then_modified, untracked_in_the_way,
    added_in_the_way, a_file_where_a_folder_must_be, an_untracked_file_in_a_folder_that_must_become_a_file,
    a_folder_where_a_file_must_be, modified_and_to_be_removed, no_longer_tracked_but_edited, an_ignored_file_in_the_way,
]  # fmt: skip
VERBS: dict[str, Callable[[ml.Repo], object]] = {
    "switch": lambda repo: repo.switch("dev"),
    "detach": lambda repo: repo.switch("dev", detach=True),
    "switch -c": lambda repo: repo.switch("new", create=True, at="dev"),
    "merge": lambda repo: repo.merge("dev"),
    "merge --no-ff": lambda repo: repo.merge("dev", ff=False),
    "cherry-pick": lambda repo: repo.cherry_pick("dev"),
}


def picture(repo: ml.Repo) -> tuple[object, ...]:
    files = {
        p.relative_to(repo.root).as_posix(): p.read_bytes()
        for p in sorted(repo.root.rglob("*"))
        if p.is_file() and ".memlake/" not in p.relative_to(repo.root).as_posix()
    }
    return files, repo.head, repo.branches.current, repo.status(), [b.name for b in repo.branches]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_verb_that_would_overwrite_uncommitted_work_is_refused_whole(
    crossing: ml.Repo, write: Write, form: Callable[[ml.Repo, Write], str], verb: str
) -> None:
    form(crossing, write)
    before = picture(crossing)
    with pytest.raises(ml.errors.Conflict):
        VERBS[verb](crossing)
    assert picture(crossing) == before


@pytest.mark.parametrize("form", FORMS[3:], ids=lambda form: form.__name__)
def test_the_refusal_names_the_file_and_the_check_is_what_refuses(
    crossing: ml.Repo, write: Write, form: Callable[[ml.Repo, Write], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = form(crossing, write)
    with pytest.raises(ml.errors.Conflict, match=path.split("/", maxsplit=1)[0]):
        crossing.switch("dev")
    monkeypatch.setattr(update, "_examine", lambda *_: {})
    try:
        crossing.switch("dev")
    except ml.Error:
        return  # the file system itself stood in the way
    lost = not (crossing.root / path).exists() or (crossing.root / path).read_text() != "precious"
    assert lost, "with the check off the work must be gone, or the test before this one proves nothing"


@pytest.mark.parametrize("verb", ["switch", "detach", "merge", "merge --no-ff", "cherry-pick"])
def test_work_on_paths_that_do_not_change_comes_along(crossing: ml.Repo, write: Write, verb: str) -> None:
    write({"same": "work", "untracked": "work"})
    VERBS[verb](crossing)
    assert (crossing.root / "same").read_text() == (crossing.root / "untracked").read_text() == "work"
    assert (crossing.root / "f").read_text() == "dev" and (crossing.root / "swap").read_text() == "dev"
    assert [c.path for c in crossing.status().unstaged] == ["files/same"]


def test_staged_work_on_other_paths_comes_along_too(crossing: ml.Repo, write: Write) -> None:
    write({"same": "staged", "added": "staged"})
    crossing.add("same", "added")
    crossing.switch("dev")
    assert [c.path for c in crossing.status().staged] == ["files/added", "files/same"]
    crossing.switch("main")
    assert [c.path for c in crossing.status().staged] == ["files/added", "files/same"]


def test_a_file_that_is_already_as_the_target_has_it_is_no_obstacle(crossing: ml.Repo, write: Write) -> None:
    write({"f": "dev", "only-dev": "dev", "only-main": None})
    crossing.switch("dev")
    assert crossing.status().clean


def test_force_overwrites_but_undo_brings_the_work_back(crossing: ml.Repo, write: Write) -> None:
    write({"f": "precious", "only-dev": "mine", "dir": "in the way", "swap/mine": "also"})
    crossing.switch("dev", force=True)
    assert crossing.status().clean and (crossing.root / "f").read_text() == "dev"
    crossing.undo()
    texts = {name: (crossing.root / name).read_text() for name in ("f", "only-dev", "dir", "swap/mine", "swap/y")}
    assert texts == {"f": "precious", "only-dev": "mine", "dir": "in the way", "swap/mine": "also", "swap/y": "1"}
    assert crossing.branches.current == "main"


def test_switching_removes_the_folders_it_empties_but_not_the_one_we_stand_in(
    crossing: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossing.switch("dev")
    crossing.switch("main")
    assert not (crossing.root / "dir").exists()
    crossing.switch("dev")
    monkeypatch.chdir(crossing.root / "dir")
    crossing.switch("main")
    assert (crossing.root / "dir").is_dir() and os.getcwd() == str(crossing.root / "dir")


def test_switch_dash_goes_back_and_forth(crossing: ml.Repo) -> None:
    crossing.switch("dev")
    crossing.switch("-")
    assert crossing.branches.current == "main"
    crossing.switch("-")
    assert crossing.branches.current == "dev"


def test_a_commit_is_not_switched_to_without_saying_detach(crossing: ml.Repo) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="not a branch"):
        crossing.switch("HEAD~0")
    crossing.switch("HEAD", detach=True)
    assert crossing.branches.current is None and crossing.head == crossing.show("main").commit.oid


def test_commits_on_a_detached_head_move_no_branch_and_are_found_in_the_reflog(crossing: ml.Repo, write: Write) -> None:
    crossing.switch("main", detach=True)
    tip = crossing.head
    write({"lost": "not really"})
    crossing.add("lost")
    made = crossing.commit("on no branch")
    crossing.switch("main")
    assert crossing.head == tip and not (crossing.root / "lost").exists()
    crossing.upkeep.gc(prune=True)
    assert crossing.show("HEAD@{1}").commit.oid == made.oid and crossing.read("lost", made.oid) == b"not really"


def test_a_purged_file_stays_away_and_does_not_lock_its_branch(crossing: ml.Repo) -> None:
    gone = next(entry for path, entry in crossing.ls("dev") if path == "files/only-dev")
    crossing.upkeep.purge(gone.oid, reason="test")
    with pytest.warns(UserWarning, match="content was purged:\n(.*\n)*  only-dev"):
        crossing.switch("dev")
    assert crossing.branches.current == "dev" and not (crossing.root / "only-dev").exists()
    assert crossing.status().clean and crossing.diff() == ()
    crossing.rm(*(path.removeprefix("files/") for path, entry in crossing.ls() if entry == gone))
    crossing.commit("without it")
    assert (
        crossing.status().clean and crossing.upkeep.fsck(full=True).ok and ("files/only-dev", gone) not in crossing.ls()
    )


def test_a_size_that_history_records_wrongly_is_refused_before_anything_is_read(repo: ml.Repo, write: Write) -> None:
    """By it checkout decides how many contents it may hold at once."""
    write({"a.txt": "1\n"})
    repo.add(all=True)
    repo.commit("one")
    repo.branches.create("evil")
    oid = repo._history.objects.write(b"x" * 5000)
    repo.write({"files/small": Entry(oid, "file", 1)}, message="evil", branch="evil")
    with pytest.raises(Corrupt, match=r"records 1 bytes for 'small', but object .* has 5,000. The file was not"):
        repo.switch("evil")
    changes = [Change("files/small", None, Entry(oid, "file", 1))]
    with pytest.raises(Corrupt, match="records 1 bytes"):
        update.write_files(repo._history.objects, str(repo.root), changes)
    assert not (repo.root / "small").exists()


def _without_its_purged_file(repo: ml.Repo, write: Write) -> None:
    """HEAD has `s`, which was purged and is not in the folder, and `k`, which is."""
    write({"s": "SECRET", "k": "k"})
    repo.add(all=True)
    made = repo.commit("1")
    repo.switch("br", create=True)
    write({"s": "SECRET and more"})
    repo.commit("2", all=True)
    repo.switch("main")
    repo.upkeep.purge(repo.objects.at("s", made.oid).oid, reason="test")
    repo.switch("br")
    with pytest.warns(UserWarning, match="purged:\n  s$"):
        repo.switch("main")
    assert not (repo.root / "s").exists()


def test_a_purged_file_that_is_away_is_not_deleted_by_what_is_committed_next(repo: ml.Repo, write: Write) -> None:
    _without_its_purged_file(repo, write)
    assert repo.status().clean
    write({"k": "j"})
    assert [c.path for c in repo.show(repo.commit("innocent", all=True)).changes] == ["files/k"]
    repo.add(all=True)
    assert repo.status().clean and repo.objects.at("s")
    with pytest.warns(UserWarning, match="purged:\n  s$"):
        repo.reset("HEAD", "hard")
    repo.rm("s")
    assert [(c.status, c.path) for c in repo.show(repo.commit("without")).changes] == [("D", "files/s")]


def test_a_purged_file_that_was_here_and_is_deleted_can_be_dropped(repo: ml.Repo, write: Write) -> None:
    write({"s": "SECRET", "k": "k"})
    repo.add(all=True)
    repo.commit("1")
    repo.upkeep.purge(repo.objects.at("s").oid, reason="test")
    write({"s": None})
    assert [(c.status, c.path) for c in repo.status().unstaged] == [("D", "files/s")]
    repo.add(all=True)
    assert [(c.status, c.path) for c in repo.show(repo.commit("without")).changes] == [("D", "files/s")]
    assert repo.status().clean and repo.upkeep.fsck(full=True).ok


def test_what_takes_the_place_of_a_purged_file_is_committed(repo: ml.Repo, write: Write) -> None:
    _without_its_purged_file(repo, write)
    write({"s/inside": "a folder now"})
    repo.add(all=True)
    assert [c.path for c in repo.show(repo.commit("folder")).changes] == ["files/s", "files/s/inside"]
    assert repo.status().clean


def test_a_missing_pack_stops_a_checkout_before_the_first_file(crossing: ml.Repo) -> None:
    (crossing.root / "big").write_bytes(os.urandom(2 << 20))
    crossing.add("big")
    crossing.commit("big")
    name = crossing.branches.current or ""
    crossing.switch("other", create=True, at="HEAD~1")
    before = picture(crossing)
    for pack in (crossing.dir / "packs").iterdir():
        pack.unlink()
    with pytest.raises(ml.errors.Corrupt, match=r"pack \w{10} is missing or cut short.*Nothing was written"):
        crossing.switch(name)
    assert picture(crossing)[:3] == before[:3] and crossing.branches.current == "other"


def damage_big(repo: ml.Repo, keep: Keep) -> None:
    """HEAD has `big`, whose stored bytes are damaged, and `a` and `z` beside it; the files are gone."""
    keep("one", {"a": "1", "big": os.urandom(2 << 20), "z": "1"})
    pack = max((repo.dir / "packs").iterdir(), key=lambda path: path.stat().st_size)
    pack.chmod(0o644)
    with pack.open("r+b") as file:
        file.seek(pack.stat().st_size // 2)
        file.write(b"\xa5" * 64)
    for name in ("a", "big", "z"):
        (repo.root / name).unlink()


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (lambda repo: repo.restore("."), "restore"),
        (lambda repo: repo.reset("HEAD", "hard"), "reset --hard HEAD"),
        (lambda repo: repo.switch("main", force=True), "switch main"),
    ],
    ids=["restore", "reset", "switch"],
)
def test_a_verb_that_meets_a_damaged_file_writes_the_others_and_says_that_it_is_not_finished(
    repo: ml.Repo, keep: Keep, here: Path, verb: Callable[[ml.Repo], object], name: str
) -> None:
    damage_big(repo, keep)
    with pytest.raises(
        ml.errors.Corrupt, match=rf"(?s)^{name}.* could not be finished.*\n  big: object \w+ is damaged"
    ):
        verb(repo)
    assert (here / "a").read_text() == "1" == (here / "z").read_text() and not (here / "big").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [change.path for change in repo.status().unstaged] == ["files/big"]
    assert repo.operations()[0].detail.endswith("(not finished)")
    repo.undo()
    assert [change.path for change in repo.status().unstaged] == ["files/a", "files/big", "files/z"]


def test_an_interrupted_verb_that_meets_a_damaged_file_is_not_called_finished(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_big(repo, keep)
    with monkeypatch.context() as patch:
        patch.setattr(update, "write_files", stop_there)
        with pytest.raises(KeyboardInterrupt):
            repo.restore("a", "big", "z")
    with pytest.warns(UserWarning, match="interrupted") as told:
        assert [change.path for change in repo.status().unstaged] == ["files/big"]
    assert [str(one.message).partition(" is damaged")[0][:-64] for one in told] == [
        "the interrupted restore a big z could not be finished, because 1 file could not be written:\n  big: object "
    ]
    assert repo.operations()[0].detail == "a big z (not finished)"


def test_an_edit_in_the_place_of_a_damaged_file_is_kept_by_a_resume(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_big(repo, keep)
    with monkeypatch.context() as patch:
        patch.setattr(update, "write_files", stop_there)
        with pytest.raises(KeyboardInterrupt):
            repo.restore("big")
    (here / "big").write_bytes(bytes(2 << 20))
    with pytest.warns(UserWarning, match="interrupted"):
        repo.status()
    assert (here / "big").read_bytes() == bytes(2 << 20)


def test_what_lost_its_pack_is_stored_again_when_it_is_added_again(crossing: ml.Repo) -> None:
    data = os.urandom(2 << 20)
    (crossing.root / "big").write_bytes(data)
    crossing.add("big")
    crossing.commit("big")
    for pack in (crossing.dir / "packs").iterdir():
        pack.unlink()
    (crossing.root / "copy").write_bytes(data)
    crossing.add("copy")
    crossing.commit("copy")
    assert crossing.read("copy") == crossing.read("big") == data and crossing.upkeep.fsck(full=True).ok


# -- restore and reset of paths -----------------------------------------------------------------------


def test_restore_brings_back_the_staged_content_and_undo_the_edit(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("one", {"a": "1", "d/b": "1"})
    write({"a": "staged"})
    repo.add("a")
    write({"a": "edit", "d/b": None})
    repo.restore("a", "d")
    assert (here / "a").read_text() == "staged" and (here / "d/b").read_text() == "1"
    repo.undo()
    assert (here / "a").read_text() == "edit" and not (here / "d/b").exists()


def test_restore_staged_leaves_the_file_alone(repo: ml.Repo, keep: Keep, write: Write, here: Path) -> None:
    keep("one", {"a": "1"})
    write({"a": "2", "new": "1"})
    repo.add(all=True)
    repo.restore("a", "new", staged=True)
    assert (here / "a").read_text() == "2" and repo.status().staged == ()
    assert repo.status().untracked == ("new",) and [c.path for c in repo.status().unstaged] == ["files/a"]


def test_restore_from_a_rev_takes_its_content_with_or_without_the_stage(
    repo: ml.Repo, keep: Keep, write: Write, here: Path
) -> None:
    keep("one", {"a": "1"})
    keep("two", {"a": "2"})
    repo.restore("a", source="HEAD~1", staged=True, worktree=True)
    assert (here / "a").read_text() == "1" and [c.path for c in repo.status().staged] == ["files/a"]
    repo.reset("HEAD", "hard")
    repo.restore("a", source="HEAD~1", staged=True)
    assert (here / "a").read_text() == "2" and len(repo.status().staged) == len(repo.status().unstaged) == 1


def test_restore_of_an_unknown_path_or_rev_changes_nothing(repo: ml.Repo, keep: Keep, write: Write, here: Path) -> None:
    keep("one", {"a": "1", "b": "1"})
    write({"a": "edit"})
    for paths, how in ((("a", "nope"), {}), (("a",), {"source": "nope"}), (("a", "b2"), {"source": "HEAD"})):
        with pytest.raises(ml.errors.NotFound):
            repo.restore(*paths, **how)
        assert (here / "a").read_text() == "edit"


def test_reset_of_paths_sets_only_their_stage(repo: ml.Repo, keep: Keep, write: Write, here: Path) -> None:
    keep("one", {"a": "1", "b": "1"})
    keep("two", {"a": "2", "b": "2"})
    repo.restore("a", source="HEAD~1", staged=True)
    assert [c.path for c in repo.status().staged] == ["files/a"] and (here / "a").read_text() == "2"
    repo.restore("a", staged=True)
    assert repo.status().clean


@pytest.mark.parametrize(("mode", "stage", "file"), [("soft", "2", "2"), ("mixed", "1", "2"), ("hard", "1", "1")])
def test_the_three_modes_of_reset(repo: ml.Repo, keep: Keep, here: Path, mode: str, stage: str, file: str) -> None:
    one = keep("one", {"a": "1"})
    two = keep("two", {"a": "2"})
    repo.reset("HEAD~1", mode)
    assert repo.head == one.oid and (here / "a").read_text() == file
    assert bool(repo.status().staged) == (stage == "2") and bool(repo.status().unstaged) == (stage != file)
    assert repo.show("main@{1}").commit == two
    with pytest.raises(ml.errors.InvalidInput):
        repo.reset("HEAD", "harder")


def test_ctrl_c_half_way_says_that_the_next_command_goes_on_and_that_one_says_it_did(
    crossing: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(update, "finish", stop_there)
        with pytest.raises(KeyboardInterrupt, match="The next command goes on where this one stopped"):
            crossing.switch("dev")
    assert "interrupted" in {check.name: check.detail for check in crossing.upkeep.doctor()}["checkout"]
    with pytest.warns(UserWarning, match="^finished the interrupted switch to dev$"):
        assert crossing.status().branch == "dev"


def test_what_a_power_cut_leaves_of_a_file_is_written_again_and_an_edit_is_kept(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 and XFS may know the length of a file, and where its blocks will be, and not have written them."""
    names = ["cut short", "zeros", "zeros in the middle", "edited", "zeros and more", "edited among zeros"]
    new = random.Random(1).randbytes(5000)
    keep("old", dict.fromkeys(names, "old"))
    repo.switch("dev", create=True)
    keep("new", dict.fromkeys(names, new))
    repo.switch("main")
    monkeypatch.setattr(update, "finish", stop_there)
    with pytest.raises(KeyboardInterrupt):
        repo.switch("dev")
    monkeypatch.undo()
    left = {
        "cut short": new[:1000], "zeros": bytes(5000), "zeros in the middle": new[:1024] + bytes(2048) + new[3072:],
        "edited": b"mine", "zeros and more": bytes(6000), "edited among zeros": bytes(4096) + b"mine",
    }  # fmt: skip
    for name, content in left.items():
        (here / name).write_bytes(content)
    with pytest.warns(UserWarning, match="finished the interrupted switch"):
        repo.status()
    for name, content in left.items():
        kept = name in ("edited", "zeros and more", "edited among zeros")
        assert (here / name).read_bytes() == (content if kept else new), name


def stop_there(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_verb_that_waits_for_another_says_for_whom(
    crossing: ml.Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memlake.objects.locks.LONG", 0.05)
    other = ml.open(crossing.root)
    waiting = threading.Thread(target=other.tags.create, args=("x",))
    with crossing._local.verb(), operation(crossing._look(), "switch", "dev"):
        waiting.start()
        waiting.join(0.5)
        assert capsys.readouterr().err == f"memlake: waiting for process {os.getpid()} (switch dev)\n"
    waiting.join()
    assert "x" in [tag.name for tag in crossing.tags] and capsys.readouterr().err == ""


def test_while_another_is_at_work_status_and_doctor_name_it_and_do_not_wait(
    crossing: ml.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.repo.open.LONG", 0.05)
    other, holder = ml.open(crossing.root), f"process {os.getpid()} (switch dev)"
    with crossing._local.verb(), operation(crossing._look(), "switch", "dev"):
        crossing._local.set_state(journal="half done")
        assert {check.name: check.detail for check in other.upkeep.doctor()}["checkout"].startswith(holder)
        with pytest.warns(UserWarning, match=re.escape(f"{holder} is at work here")):
            assert other.status().branch == crossing.branches.current
        crossing._local.set_state(journal=None)
    assert other.upkeep.doctor() == crossing.upkeep.doctor() and other._local.holder() is None
