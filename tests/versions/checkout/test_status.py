"""Status, and what it stands on: the stat cache, the racy-clean rule, the executable bit, files that make trouble."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.objects import disk
from memlake.records import Change
from memlake.versions.checkout import worktree
from memlake.versions.checkout.local import is_racy, pack_stat
from tests.versions.conftest import Keep


def names(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return [(change.status, change.path.removeprefix("files/")) for change in changes]


def test_status_tells_staged_unstaged_and_untracked_apart(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"staged": "1", "both": "1", "changed": "1", "gone": "1", "left": "1"})
    write({"staged": "2", "both": "2", "added": "1"})
    repo.add("staged", "both", "added")
    repo.rm("gone")
    write({"both": "3", "changed": "2", "new": "1", "left": None})
    status = repo.status()
    assert names(status.staged) == [("A", "added"), ("M", "both"), ("D", "gone"), ("M", "staged")]
    assert names(status.unstaged) == [("M", "both"), ("M", "changed"), ("D", "left")]
    assert status.untracked == ("new",)
    assert not status.clean and status.branch == "main" and status.head == repo.head


def test_a_folder_with_nothing_tracked_is_shown_once_and_ignored_ones_not_at_all(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"src/a": "1", ".memlakeignore": "*.log\nbuild/\n!keep.log\n"})
    write({
        "src/new": "1", "src/deep/er/x": "1", "other/x": "1", "other/y/z": "1", "logs/a.log": "1", "logs/keep.log": "1",
        "build/out": "1", "node_modules/m/i.js": "1", ".venv/x": "1", ".git/HEAD": "1", "a.log": "1", "only/b.log": "1",
    })  # fmt: skip
    (here / "empty").mkdir()
    assert repo.status().untracked == ("logs/", "other/", "src/deep/", "src/new")


def test_a_tracked_file_that_came_to_be_ignored_is_still_looked_at(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"build/a": "1"})
    write({".memlakeignore": "build/\n", "build/a": "2", "build/b": "1"})
    assert names(repo.status().unstaged) == [("M", "build/a")]
    repo.add(all=True)
    assert names(repo.status().staged) == [("A", ".memlakeignore"), ("M", "build/a")]


def test_an_ignored_file_is_added_only_by_force(repo: ml.Repo, write: Callable[..., None]) -> None:
    write({".memlakeignore": "*.log\n", "a.log": "1"})
    with pytest.raises(ml.errors.InvalidInput, match=r"ignored.*Nothing was staged"):
        repo.add("a.log")
    assert names(repo.add("a.log", force=True).changes) == [("A", "a.log")]


def test_a_file_replaced_by_a_folder_a_link_and_back_is_followed(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "1", "b": "2"})
    (here / "a").unlink()
    write({"a/inner": "1"})
    assert (names(repo.status().unstaged), repo.status().untracked) == ([("D", "a")], ("a/",))
    keep("folder", {})
    assert [path for path, _ in repo.ls()] == ["files/a/inner", "files/b"]
    (here / "b").unlink()
    (here / "b").symlink_to("a/inner")
    assert names(repo.status().unstaged) == [("T", "b")]
    keep("link", {})
    assert repo.read("b") == b"a/inner"
    repo.reset("HEAD~2", "hard")
    assert (here / "a").read_text() == "1" and (here / "b").read_text() == "2" and not (here / "b").is_symlink()


# -- the stat cache -----------------------------------------------------------------------------


def test_an_unchanged_file_is_not_read_again(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("one", {"a": "1"})
    os.utime(here / "a", ns=(10**18, 10**18 + 123))
    time.sleep(0.1)
    repo.status()  # looks at the young file and notes its stat
    monkeypatch.setattr(worktree, "read", None)
    assert repo.status().clean


def test_a_file_touched_but_not_changed_is_clean(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "1"})
    os.utime(here / "a", ns=(5 * 10**18 // 10, 10**18))
    assert repo.status().clean


def same_stat(repo: ml.Repo, file: Path, *, racy: bool) -> None:
    """As if the file had changed so soon after being looked at that its stat stayed the same."""
    repo._local.set_stats({file.name: (pack_stat(os.lstat(file)), racy)})


def test_a_change_that_leaves_the_same_size_and_time_is_found_while_the_file_is_young(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    keep("one", {"a": "one"})
    write({"a": "two"})
    same_stat(repo, here / "a", racy=True)
    assert names(repo.status().unstaged) == [("M", "a")]
    with pytest.raises(ml.errors.Conflict):
        repo.rm("a")


def test_the_racy_rule_is_what_finds_it(repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path) -> None:
    keep("one", {"a": "one"})
    write({"a": "two"})
    same_stat(repo, here / "a", racy=False)
    assert repo.status().clean, "without the rule the stat decides; so the test before this one can fail"


def test_files_are_young_for_a_moment_and_longer_where_clocks_are_coarse(here: Path) -> None:
    (here / "f").write_text("x")

    def racy(mtime: int, later: int) -> bool:
        os.utime(here / "f", ns=(mtime, mtime))
        found = os.stat(here / "f")
        return is_racy(found, max(mtime, found.st_ctime_ns) + later)

    fine = 1_700_000_000_123_456_789
    assert racy(fine, 0) and racy(fine, 10_000_000)
    assert not racy(fine, 3_000_000_000)
    assert racy(2_000_000_000 * 10**9, 1_000_000_000), "a whole second may be all the file system can say"


def test_the_executable_bit_is_kept_and_its_change_is_a_change(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], here: Path
) -> None:
    write({"run": "#!/bin/sh\n"})
    (here / "run").chmod(0o755)
    keep("executable", {"plain": "x"})
    assert {path: entry.mode for path, entry in repo.ls()} == {"files/plain": 0, "files/run": 1}
    (here / "run").chmod(0o644)
    assert names(repo.status().unstaged) == [("M", "run")]
    keep("not any more", {})
    repo.reset("HEAD~1", "hard")
    assert os.access(here / "run", os.X_OK) and not (here / "plain").stat().st_mode & 0o111
    (here / "run").chmod(0o750)
    assert repo.status().clean, "only the owner's bit counts"


# -- files that make trouble ----------------------------------------------------------------------


def test_a_file_that_cannot_be_read_stops_add_and_nothing_is_staged(
    repo: ml.Repo, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"good": "1", "secret": "2"})
    real = os.open

    def denied(path: object, *args: object, **more: object) -> int:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(ml.errors.Unavailable, match=r"secret.*permission denied.*Nothing was changed"):
        repo.add(all=True)
    monkeypatch.undo()
    assert repo.status().staged == () and repo.upkeep.fsck().ok
    assert not list((repo.dir / "tmp").iterdir())


def test_a_file_that_never_stops_changing_is_refused(
    repo: ml.Repo, write: Callable[..., None], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"live.log": "0"})
    real, count = worktree._read_all, iter(range(10**6))

    def growing(fd: int, size: int) -> bytes:
        data = real(fd, size)
        (here / "live.log").write_text("x" * (2 + next(count)))
        return data

    monkeypatch.setattr(worktree, "_read_all", growing)
    with pytest.raises(ml.errors.Unavailable, match="changed while it was being read"):
        repo.add("live.log")
    assert repo.status().staged == ()


def test_a_file_that_changes_once_while_being_read_is_read_again(
    repo: ml.Repo, write: Callable[..., None], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"live": "before"})
    real, once = worktree._read_all, [1]

    def changing(fd: int, size: int) -> bytes:
        data = real(fd, size)
        if once:
            once.pop()
            (here / "live").write_text("after, whole")
        return data

    monkeypatch.setattr(worktree, "_read_all", changing)
    repo.add("live")
    repo.commit("stable")
    assert repo.read("live") == b"after, whole"


def test_a_large_file_that_grows_while_it_is_cut_is_refused_and_its_bytes_are_taken_back(
    repo: ml.Repo, write: Callable[..., None], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"big": os.urandom(3 << 20)})
    real = worktree._read_stream

    def growing(*args: object) -> tuple[str, int]:
        with (here / "big").open("ab") as file:
            file.write(b"more")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(worktree, "_read_stream", growing)
    with pytest.raises(ml.errors.Unavailable):
        repo.add("big")
    monkeypatch.undo()
    assert repo.status().staged == () and not list((repo.dir / "packs").iterdir())


def test_a_file_that_disappears_is_named(
    repo: ml.Repo, write: Callable[..., None], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"a": "1"})
    monkeypatch.setattr(worktree, "_read_once", lambda *_: (_ for _ in ()).throw(FileNotFoundError()))
    with pytest.raises(ml.errors.NotFound, match="'a' disappeared"):
        repo.add("a")


def test_a_full_disk_while_adding_fails_whole(
    repo: ml.Repo, keep: Keep, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("one", {"a": "1"})
    write({"big": os.urandom(2 << 20)})
    monkeypatch.setattr(disk, "write_all", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ml.errors.Unavailable, match="No space left"):
        repo.add("big")
    monkeypatch.undo()
    assert repo.status().staged == () and repo.upkeep.fsck().ok
    repo.add("big")


def test_sockets_and_pipes_are_passed_over_and_refused_by_name(repo: ml.Repo, here: Path) -> None:
    (here / "run").mkdir()
    os.mkfifo(here / "pipe")
    os.mkfifo(here / "run/pipe")
    assert repo.status().untracked == ()
    (here / "a").write_text("1")
    staged = repo.add(all=True)
    assert names(staged.changes) == [("A", "a")] and staged.warnings == ()
    assert repo.status().untracked == ()
    with pytest.raises(ml.errors.InvalidInput, match="pipe"):
        repo.add("pipe")


def test_a_nested_repo_is_named_once_when_its_files_come_in(repo: ml.Repo, write: Callable[..., None]) -> None:
    write(
        {
            "plain/x": "1",
            "lib/.git/HEAD": "ref",
            "lib/src/a": "1",
            "lib/b": "2",
            "other/.git": "gitdir: x",
            "other/c": "3",
        }
    )
    ml.init("deep/lake").close()
    write({"deep/lake/d": "4"})
    assert sorted(text.split(";")[0] for text in repo.add(all=True).warnings) == [
        "deep/lake/ is a memlake repo of its own", "lib/ is a git repo of its own", "other/ is a git repo of its own",
    ]  # fmt: skip
    assert "files/lib/src/a" in {change.path for change in repo.status().staged}
    write({"lib/more": "5"})
    assert repo.add(all=True).warnings == ()


# -- links ----------------------------------------------------------------------------------------


def test_links_inside_the_root_are_kept_also_when_they_lead_nowhere(repo: ml.Repo, keep: Keep, here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub/up").symlink_to("../a")
    (here / "nowhere").symlink_to("missing")
    (here / "folder").symlink_to("sub")
    keep("links", {"a": "1"})
    assert {p.removeprefix("files/"): e.kind for p, e in repo.ls()} == {
        "a": "file", "folder": "link", "nowhere": "link", "sub/up": "link",
    }  # fmt: skip
    for name in ("sub/up", "nowhere", "folder"):
        (here / name).unlink()
    repo.restore(".")
    assert os.readlink(here / "sub/up") == "../a" and os.readlink(here / "folder") == "sub"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside", ".memlake/repo.db", "out/inner"])
def test_a_link_out_of_the_root_or_into_the_repo_is_refused(
    repo: ml.Repo, write: Callable[..., None], here: Path, tmp_path_factory: pytest.TempPathFactory, target: str
) -> None:
    if target == "out/inner":  # each step is inside, but one of them is a link that leaves
        (here / "out").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    write({"good": "1", ".memlakeignore": "out\n"})
    (here / "bad").symlink_to(target)
    with pytest.raises(ml.errors.InvalidInput, match=r"'bad' is refused: the link points"):
        repo.add("good", "bad")
    assert repo.status().staged == ()
    repo.add(all=True)  # one that is only met on the way is left out
    assert "files/bad" not in [change.path for change in repo.status().staged]


def test_a_file_is_never_written_through_a_link(
    repo: ml.Repo, keep: Keep, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keep("one", {"data/a": "1"})
    keep("two", {"data/a": "2"})
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a").write_text("precious")
    (here / "data/a").unlink()
    (here / "data").rmdir()
    (here / "data").symlink_to(outside)
    for verb in (lambda: repo.switch("HEAD~1", detach=True), lambda: repo.restore("data/a")):
        with pytest.raises(ml.Error):
            verb()
        assert (outside / "a").read_text() == "precious" and sorted(p.name for p in outside.iterdir()) == ["a"]
    assert repo.branches.current == "main"


def test_every_refused_path_is_named_up_to_ten(repo: ml.Repo, write: Callable[..., None], here: Path) -> None:
    write({"good": "1", "con.txt": "1", "back\\slash": "1"})
    (here / "out").symlink_to("/etc/passwd")
    with pytest.raises(ml.errors.InvalidInput) as raised:
        repo.add(".")
    assert all(f"  {name!r}: " in raised.value.message for name in ("con.txt", "back\\slash"))
    assert "Rename them" in raised.value.hint and "link" not in raised.value.hint  # that one is left out
    assert "good" not in raised.value.message and repo.status().staged == ()
    write({f"aux.{number}": "1" for number in range(12)})
    with pytest.raises(ml.errors.InvalidInput, match=r"14 paths are refused(.|\n)*and 4 more"):
        repo.add(".")


def test_every_pair_of_twins_is_named(repo: ml.Repo, write: Callable[..., None]) -> None:
    write({"a": "1", "A": "1", "b": "1", "B": "1"})
    with pytest.raises(ml.errors.InvalidInput) as raised:
        repo.add(".")
    assert "beside 'A'" in raised.value.message and "beside 'B'" in raised.value.message


def test_an_absolute_link_inside_the_repo_is_refused_as_absolute(
    repo: ml.Repo, write: Callable[..., None], here: Path
) -> None:
    write({"a": "1"})
    (here / "link").symlink_to(here / "a")
    with pytest.raises(ml.errors.InvalidInput, match="the link is absolute") as raised:
        repo.add("link")
    assert "relative" in raised.value.hint and "outside" not in raised.value.message
