"""Which paths are allowed, and every kind that is not: refused with the reason, nothing staged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlake as ml
from memlake.versions import paths
from memlake.versions.verbs import stage, write
from tests.versions.conftest import Keep

GOOD = [
    "a",
    "a/b.txt",
    "data/train set.csv",
    "ünïcode/文件.md",
    ".env",
    "a" * 255,
    "com10",
    "console",
    "x.memlake",
    "..a",
    ".gitignore",
    ".github/x",
    ".git-x",
    ".gitx:y",
    "git~2",
    "git",
    "memlake",
    "memlak~x",
    ".memlakeignore",
    "👩\u200d💻.md",
]
BAD = {
    "": "empty",
    "/etc/passwd": "absolute",
    "../up": "'..'",
    "a/../b": "'..'",
    "a/./b": "'.'",
    "a//b": "empty part",
    "a/": "empty part",
    "nul\0byte": "NUL",
    "line\nbreak": "control",
    "bell\x07": "control",
    "del\x7f": "control",
    "back\\slash": "backslash",
    "C:/windows": "drive letter",
    "c:relative": "drive letter",
    "a" * 256: "longer than 255",
    "/".join(["a" * 200] * 30): "longer than 4096",
    ".memlake/repo.db": ".memlake",
    "sub/.memlake/x": ".memlake",
    ".MemLake/x": ".memlake",
    ".git": ".git",
    "sub/.Git/hooks/post-checkout": ".git",
    "git~1/config": ".git",
    ".memlake~1/x": ".memlake",
    # What macOS or Windows would make of these is .git or .memlake.
    ".git./hooks/x": ".git",
    "sub/.GIT . ./config": ".git",
    "git~1 /config": ".git",
    ".git::$INDEX_ALLOCATION/config": ".git",
    ".git:stream": ".git",
    "GIT~1:x/config": ".git",
    ".g\u200cit/config": ".git",
    "\ufeff.git\u206f/config": ".git",
    ".memlake. /repo.db": ".memlake",
    ".Memlake::$INDEX_ALLOCATION/repo.db": ".memlake",
    ".mem\u200dlake/repo.db": ".memlake",
    ".memla\u212ae/repo.db": ".memlake",
    "MEMLAK~1/repo.db": ".memlake",
    "memlak~2.:x/repo.db": ".memlake",
    "con": "reserved",
    "aux.txt": "reserved",
    "dir/LPT1": "reserved",
    "bad\udcff": "UTF-8",
}


@pytest.mark.parametrize("path", GOOD)
def test_ordinary_paths_are_kept_as_they_are(path: str) -> None:
    assert paths.check_file(path) == path


@pytest.mark.parametrize(("path", "reason"), BAD.items(), ids=lambda value: repr(value)[:30])
def test_a_bad_path_is_refused_with_its_reason(path: str, reason: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was changed") as raised:
        paths.check_file(path)
    assert reason in str(raised.value)


@pytest.mark.parametrize("path", [path for path in BAD if path])
def test_no_door_lets_a_bad_path_into_history(path: str, tmp_path: Path) -> None:
    repo = ml.init(tmp_path)
    with pytest.raises(ml.errors.InvalidInput):
        repo.write({f"files/{path}": b"x"}, "sneak")
    with pytest.raises(ml.errors.InvalidInput):
        repo.write({f"memories/{path}": b"x"}, "sneak")
    assert repo.head is None and repo.branches.list()[0].memory is None


@pytest.mark.parametrize("path", ["a", "unknown/a", "", "files", "FILES/a", "/files/a"])
def test_a_tree_path_starts_with_a_known_room(path: str) -> None:
    with pytest.raises(ml.errors.InvalidInput):
        paths.check(path)


@given(st.text(max_size=30))
def test_a_path_that_is_accepted_stays_inside_the_root(text: str) -> None:
    try:
        paths.check_file(text)
    except ml.errors.InvalidInput:
        return
    joined = os.path.normpath(os.path.join("/root/of/repo", text))
    assert joined.startswith("/root/of/repo/") and joined == "/root/of/repo/" + text
    assert "\0" not in text and not text.lower().startswith(".memlake/")


PIECE = st.sampled_from(
    ["C:", "c:x", "12:30.log", "a", "b.txt", "", ".", "..", "con", ".memlake", "é", "\\", "\n", "z" * 256]
)
ANY_PATH = st.lists(PIECE, max_size=4).map("/".join)


@given(st.lists(ANY_PATH, max_size=12))
def test_many_paths_are_judged_as_each_one_is_in_any_order(many: list[str]) -> None:
    alone = [(path, problem) for path in many if (problem := paths.file_problem(path))]
    assert list(paths.file_problems(many)) == alone


def test_a_drive_letter_is_refused_also_after_a_sound_name(repo: ml.Repo, here: Path) -> None:
    (here / "12:30.log").write_text("1")
    (here / "C:drive").write_text("1")
    with pytest.raises(ml.errors.InvalidInput, match="drive letter"):
        repo.add(all=True)
    assert repo.status().staged == ()


# -- names in history that would not be taken today ------------------------------------------------


def test_a_tracked_name_that_is_bad_elsewhere_stops_no_verb(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = keep("first", {"a": "1"})
    with monkeypatch.context() as patch:
        patch.setattr(stage, "file_problems", lambda _: ())
        keep("bad", {"C:drive": "old", "aux.txt": "old", "b": "old"})
    (here / "C:drive").write_text("new")
    repo.add("C:drive")
    repo.restore("C:drive", staged=True)
    repo.restore("C:drive")
    assert (here / "C:drive").read_text() == "old"
    repo.switch(first.oid, detach=True)
    assert sorted(os.listdir(here)) == [".memlake", "a"]
    repo.undo()
    assert (here / "aux.txt").read_text() == (here / "b").read_text() == "old" and repo.status().clean


def test_a_path_that_must_never_be_written_is_left_out_with_a_warning(
    repo: ml.Repo, keep: Keep, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("first", {"a": "1"})
    repo.branches.create("dev")
    with monkeypatch.context() as patch:
        patch.setattr(write, "check", lambda path: path)
        repo.write(
            {"files/.memlake/evil": b"x", "files/../up": b"x", "files/.git/x": b"x", "files/b": b"2"},
            "sneak",
            branch="dev",
        )
    with pytest.warns(UserWarning, match="was not written"):
        repo.switch("dev")
    assert (here / "b").read_text() == "2"
    assert not (here / ".memlake/evil").exists() and not (here / ".git").exists() and not (here.parent / "up").exists()
    (here.parent / "up").write_text("mine")
    repo.switch("main")
    assert not (here / "b").exists() and (here.parent / "up").read_text() == "mine"


# -- paths that cannot live together ------------------------------------------------------------

TWINS = [
    ("readme.md", "README.md"),
    ("caf\u00e9", "cafe\u0301"),
    ("stra\u00dfe", "strasse"),
    ("Data/a", "data/b"),
    ("folder", "folder/file"),
    ("FOLDER", "folder/file"),
]


@pytest.mark.parametrize(("one", "two"), TWINS)
def test_twins_are_refused_whichever_came_first(one: str, two: str) -> None:
    for old, new in ((one, two), (two, one)):
        with pytest.raises(ml.errors.InvalidInput, match="Nothing was changed"):
            paths.check_together([new], [old])
        with pytest.raises(ml.errors.InvalidInput):
            paths.check_together([old, new], [])


def test_a_path_may_be_added_again_and_neighbours_do_not_disturb() -> None:
    paths.check_together(["a/b", "a/c"], ["a/b", "a/d", "ab"])


@pytest.mark.parametrize(("one", "two"), TWINS[:3])
def test_adding_a_twin_stages_nothing(one: str, two: str, here: Path) -> None:
    repo = ml.init()
    (here / one).write_text("1")
    repo.add(one)
    repo.commit("one")
    (here / two).write_text("2")
    (here / "also").write_text("3")
    if len(list(here.iterdir())) < 4:  # a file system that folds names has only one of them: then there is no twin
        return
    with pytest.raises(ml.errors.InvalidInput):
        repo.add(all=True)
    assert repo.status().staged == ()
    (here / one).unlink()
    repo.add(all=True)  # renaming to the twin is allowed
    assert {c.path for c in repo.status().staged} == {f"files/{one}", f"files/{two}", "files/also"}


@pytest.mark.parametrize(("one", "two"), TWINS)
def test_writing_a_twin_is_refused_until_the_other_goes_in_the_same_write(one: str, two: str, tmp_path: Path) -> None:
    repo = ml.init(tmp_path)
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was changed"):
        repo.write({f"files/{one}": b"1", f"files/{two}": b"2"}, "both")
    kept = repo.write({f"files/{one}": b"1"}, "one")
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was changed"):
        repo.write({f"files/{two}": b"2"}, "its twin")
    with pytest.raises(ml.errors.InvalidInput, match="Nothing was changed"), repo.transaction("twin"):
        repo.write({f"files/{two}": b"2"}, "its twin")
    assert repo.head == kept.oid
    repo.write({f"files/{one}": b"2"}, "the same path again")
    repo.write({f"files/{one}": None, f"files/{two}": b"2"}, "renamed")
    repo.write({f"memories/bot/{one}": b"1"}, "no file")


def test_git_s_own_folder_is_never_tracked_even_by_force(repo: ml.Repo, here: Path) -> None:
    (here / "sub/.git").mkdir(parents=True)
    (here / "sub/.git/config").write_text("x")
    for path in ("sub/.git/config", "sub/.git"):
        with pytest.raises(ml.errors.InvalidInput, match=r"inside \.git"):
            repo.add(path, force=True)
    assert repo.status().staged == ()


def test_writing_a_file_where_history_has_a_folder_is_refused(tmp_path: Path) -> None:
    repo = ml.init(tmp_path)
    repo.write({"files/a/b": b"1"}, "folder")
    with pytest.raises(ml.errors.InvalidInput):
        repo.write({"files/a": b"2"}, "file in its place")
    with pytest.raises(ml.errors.InvalidInput):
        repo.write({"files/a/b/c": b"2"}, "below a file")
    repo.write({"files/a": b"2", "files/a/b": None}, "both at once is fine")
    assert repo.read("a") == b"2"


# -- what a user types --------------------------------------------------------------------------


def test_paths_are_relative_to_the_folder_one_stands_in(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = ml.init()
    (here / "sub").mkdir()
    (here / "sub/f").write_text("x")
    (here / "g").write_text("y")
    monkeypatch.chdir(here / "sub")
    assert [c.path for c in repo.add("f", "../g").changes] == ["files/g", "files/sub/f"]
    repo.commit("both")
    assert repo.read("f") == b"x" and repo.read("../g") == b"y" and repo.read(here / "g") == b"y"


@pytest.mark.parametrize("path", ["..", "../other", "/etc/passwd", "sub/../../other", "nul\0"])
def test_a_path_outside_of_the_repo_is_refused_by_every_verb(path: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "repo/sub").mkdir(parents=True)
    (tmp_path / "other").write_text("not yours")
    monkeypatch.chdir(tmp_path / "repo")
    repo = ml.init()
    (tmp_path / "repo/a").write_text("1")
    repo.add("a")
    repo.commit("one")
    for verb in (repo.add, repo.rm, repo.restore, repo.read, repo.blame, lambda p: repo.mv("a", p)):
        with pytest.raises(ml.errors.InvalidInput):
            verb(path)
    assert repo.status().clean and (tmp_path / "other").read_text() == "not yours"


@pytest.mark.parametrize("path", [".memlake", ".memlake/repo.db", ".memlake/new"])
def test_the_repo_itself_cannot_be_added(path: str, here: Path) -> None:
    repo = ml.init()
    (here / ".memlake/new").write_text("x")
    with pytest.raises(ml.errors.InvalidInput):
        repo.add(path, force=True)
    assert repo.add(all=True).changes == ()


@pytest.mark.parametrize(
    "name", ["", "HEAD", "@", "-", "-x", "/a", ".a", "a/", "a.", "a.lock", "a..b", "a@{1}", "a//b", "a/.b", "a b",
             "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a\x01", "a\u200bb", "x" * 201, "0" * 40, "ab" * 32],
)  # fmt: skip
def test_bad_branch_and_tag_names_are_refused_and_nothing_is_made(name: str, here: Path) -> None:
    repo = ml.init()
    (here / "a").write_text("1")
    repo.add("a")
    repo.commit("one")
    for verb in (
        repo.branches.create,
        repo.tags.create,
        lambda name: repo.switch(name, create=True) if name != "-" else repo.branches.create(name),
    ):
        with pytest.raises(ml.errors.InvalidInput):
            verb(name)
    assert [b.name for b in repo.branches] == ["main"] and repo.tags.list() == [] and repo.branches.current == "main"
