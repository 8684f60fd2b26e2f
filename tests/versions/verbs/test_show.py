"""Verbs that only look: diff in all its forms, log with its filters, blame over merges, what is noted of a file."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import memlake as ml
from memlake.records import Change
from memlake.versions.trees.nodes import Nodes
from tests.versions.conftest import Keep


def names(changes: tuple[Change, ...]) -> list[str]:
    return [f"{change.status} {change.path.removeprefix('files/')}" for change in changes]


# -- diff -----------------------------------------------------------------------------------------


def test_diff_without_revs_compares_files_with_the_stage_and_staged_the_stage_with_head(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("one", {"a": "1", "b": "1", "c": "1"})
    write({"a": "2", "b": "2"})
    repo.add("a")
    write({"a": "3", "new": "1"})
    assert names(repo.diff()) == ["M a", "M b"]
    assert names(repo.diff(staged=True)) == ["M a"]
    assert names(repo.diff("HEAD")) == ["M a", "M b"]
    assert names(repo.diff(paths=("b",))) == ["M b"]


def test_diff_of_two_revs_is_what_leads_from_the_first_to_the_second(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    both = ["M a", "M b", "A d", "D m"]
    assert names(repo.diff("main", "dev")) == names(repo.diff("main..dev")) == names(repo.diff("..dev")) == both
    assert names(repo.diff("dev", "main")) == ["M a", "M b", "D d", "A m"]
    assert names(repo.diff("main...dev")) == ["M b", "A d"], "three dots compare with where they parted"
    assert names(repo.diff("HEAD~1..HEAD")) == ["M a", "A m"]
    assert names(repo.diff("main", "dev", paths=("a", "d"))) == ["M a", "A d"]
    assert repo.diff("main", "main") == ()


def test_diff_of_commits_near_and_far_is_what_their_trees_say(repo: ml.Repo, keep: Keep) -> None:
    random = Random(7)
    for number in range(20):  # more steps than are compared by lists; names that come, go and come back as they were
        content = {name: str(random.randrange(3)) for name in random.sample("abcdef", 3)}
        keep(str(number), {**content, "last": str(number)})
        if number == 5:
            repo.switch("side", create=True)
            keep("side", {"s": "1", "a": "side"})
            repo.switch("main")
            repo.merge("side", ff=False)
        if number % 4 == 3:
            gone = random.choice(sorted(content))
            repo.rm(gone)
            repo.commit(f"without {gone}")
    commits = [*repo.log(), repo.show("side").commit]
    for old in commits:
        for new in commits:
            assert repo.diff(old.oid, new.oid) == repo._history.diff(old, new), (old, new)


def test_diff_of_neighbours_reads_no_tree(repo: ml.Repo, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("one", {f"{number:03}": "1" for number in range(300)})
    keep("two", {f"{number:03}": "2" for number in range(0, 300, 2)})

    def refuse(*_: object) -> None:
        raise AssertionError("a tree was read")

    with ml.open() as fresh:
        monkeypatch.setattr(Nodes, "get_many", refuse)
        assert len(fresh.diff("HEAD~1", "HEAD")) == len(fresh.diff("HEAD", "HEAD~1")) == 150


def test_diff_with_one_rev_compares_the_working_files_with_it(
    repo: ml.Repo, fork: dict[str, ml.Commit], write: Callable[..., None]
) -> None:
    write({"a": "work\n", "b": None})
    assert names(repo.diff("HEAD~1")) == ["M a", "D b", "A m"]
    assert names(repo.diff("dev")) == ["M a", "D b", "D d", "A m"]
    write({"a": "1\n"})
    assert names(repo.diff("HEAD~1")) == ["D b", "A m"], "changed and changed back is no difference"


def test_staged_against_a_rev(repo: ml.Repo, fork: dict[str, ml.Commit], write: Callable[..., None]) -> None:
    write({"a": "staged\n"})
    repo.add("a")
    assert names(repo.diff("HEAD~1", staged=True)) == ["M a", "A m"]


def test_diff_of_the_memory_lane_and_of_both(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.tags.create("before")
    repo.write({"memories/bot/1": b"x"}, "m")
    repo.tags.create("after")
    assert repo.diff("before", "after") == ()
    assert names(repo.diff("before", "after", lane="memory")) == ["A memories/bot/1"]
    assert names(repo.diff("before", "after", lane="all")) == ["A memories/bot/1"]
    with pytest.raises(ml.Error):
        repo.diff("before", "after", lane="dream")


def test_an_unknown_rev_or_path_in_diff_is_an_error_and_never_an_empty_answer(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    for a, b in (("nope", None), ("main", "nope"), ("nope..main", None)):
        with pytest.raises(ml.errors.NotFound):
            repo.diff(a, b)


def test_a_change_of_ten_thousand_paths_is_kept_beside_the_commit_and_reads_the_same(repo: ml.Repo) -> None:
    made = repo.write({f"files/{n:05d}": b"x" for n in range(3000)}, "many")
    assert repo.show("HEAD").commit.changes is None
    assert (
        len(repo.show(made).changes)
        == 3000
        == len(repo.diff("HEAD~1", "HEAD") if made.parents else repo.show(made).changes)
    )
    assert repo.show("HEAD").changes[7].path == "files/00007"


# -- log ------------------------------------------------------------------------------------------


def subjects(repo: ml.Repo, *args: object, **how: object) -> list[str]:
    return [commit.subject for commit in repo.log(*args, **how)]  # type: ignore[arg-type]


def test_log_filters_by_path_author_message_and_number(repo: ml.Repo, keep: Keep) -> None:
    keep("add a", {"a": "1"})
    keep("add b", {"dir/b": "1"}, author="Grace <grace@example.org>")
    keep("change a", {"a": "2"})
    assert subjects(repo) == ["change a", "add b", "add a"]
    assert subjects(repo, paths=("a",)) == ["change a", "add a"]
    assert subjects(repo, paths=("dir",)) == ["add b"]
    assert subjects(repo, author="grace") == ["add b"]
    assert subjects(repo, grep="^ch.*a$") == ["change a"]
    assert subjects(repo, limit=1) == ["change a"] and subjects(repo, skip=1, limit=1) == ["add b"]
    assert subjects(repo, since="1 hour ago") == subjects(repo) and subjects(repo, until="1 hour ago") == []


def test_log_over_a_merge_shows_both_sides_children_before_parents(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.merge("dev", message="join")
    assert subjects(repo) == ["join", "on main", "on dev", "base"]
    assert subjects(repo, first_parent=True) == ["join", "on main", "base"]
    assert subjects(repo, paths=("b",)) == ["on dev", "base"], (
        "a merge that only took one side is no change of the path"
    )


def test_log_all_shows_every_branch_and_tag(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    assert "on dev" not in subjects(repo)
    assert set(subjects(repo, all=True)) == {"base", "on dev", "on main"}


# -- blame ----------------------------------------------------------------------------------------


def blamed(repo: ml.Repo, path: str, rev: str = "HEAD") -> list[tuple[str, str]]:
    return [(line.text, line.commit.subject) for line in repo.blame(path, rev)]


def test_blame_names_the_commit_of_each_line_also_through_a_merge(repo: ml.Repo, keep: Keep) -> None:
    keep("first", {"f": "a\nb\nc\nd\ne\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"f": "a\nb\nc\nd\nE\n"})
    repo.switch("main")
    keep("ours", {"f": "A\nb\nc\nd\ne\n"})
    keep("elsewhere", {"other": "x"})
    repo.merge("dev", message="join")
    assert blamed(repo, "f") == [("A", "ours"), ("b", "first"), ("c", "first"), ("d", "first"), ("E", "theirs")]
    assert blamed(repo, "f", "dev") == [(t, "first") for t in "abcd"] + [("E", "theirs")]


def test_blame_gives_a_line_resolved_by_hand_to_the_merge(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("first", {"f": "a\nb\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"f": "x\nb\n"})
    repo.switch("main")
    keep("ours", {"f": "y\nb\n"})
    assert repo.merge("dev").conflicts
    write({"f": "both\nb\n"})
    repo.add("f")
    repo.pending_merge.conclude("join")
    assert blamed(repo, "f") == [("both", "join"), ("b", "first")]


def test_blame_of_a_line_that_both_sides_of_a_merge_have_in_another_place(
    repo: ml.Repo, keep: Keep, write: Callable[..., None]
) -> None:
    keep("first", {"f": "x\nm\n"})
    repo.switch("dev", create=True)
    keep("theirs", {"f": "theirs\nx\n"})
    repo.switch("main")
    keep("ours", {"f": "x\nours\n"})
    assert repo.merge("dev").conflicts
    write({"f": "x\nboth\nx\n"})
    repo.add("f")
    repo.pending_merge.conclude("join")
    assert blamed(repo, "f") == [("x", "first"), ("both", "join"), ("x", "first")]


def test_blame_follows_lines_that_moved_down_and_counts_from_one(repo: ml.Repo, keep: Keep) -> None:
    keep("first", {"f": "a\nb\n"})
    keep("second", {"f": "new\na\nb\n"})
    assert [(line.line, line.commit.subject) for line in repo.blame("f")] == [(1, "second"), (2, "first"), (3, "first")]


def test_blame_follows_a_rename_with_and_without_edits(repo: ml.Repo, keep: Keep) -> None:
    text = "".join(f"line {n}\n" for n in range(6))
    keep("first", {"f": text, "other": "x\n" * 20})
    repo.mv("f", "sub/g")
    repo.commit("pure")
    assert {by for _, by in blamed(repo, "sub/g")} == {"first"}
    keep("edited", {"sub/g": None, "h": text.replace("line 3", "three")})
    assert [by for _, by in blamed(repo, "h")] == ["first"] * 3 + ["edited"] + ["first"] * 2
    keep("unlike", {"h": None, "new": "quite\nanother\ntext\n" + "line 5\n"})
    assert {by for _, by in blamed(repo, "new")} == {"unlike"}


@pytest.mark.parametrize("renamed_by", ["ours", "theirs"])
def test_blame_follows_a_rename_through_a_merge(repo: ml.Repo, keep: Keep, renamed_by: str) -> None:
    keep("first", {"f": "a\nb\nc\nd\n"})
    repo.switch("dev", create=True)
    if renamed_by == "theirs":
        repo.mv("f", "g")
    else:
        keep("edit", {"f": "a\nb\nc\nD\n"})
    repo.commit("theirs", allow_empty=True)
    repo.switch("main")
    if renamed_by == "ours":
        repo.mv("f", "g")
    else:
        keep("edit", {"f": "a\nb\nc\nD\n"})
    repo.commit("ours", allow_empty=True)
    repo.merge("dev")
    assert blamed(repo, "g") == [("a", "first"), ("b", "first"), ("c", "first"), ("D", "edit")]


def test_blame_of_a_text_beyond_a_mebibyte_is_told_by_lines(repo: ml.Repo, keep: Keep) -> None:
    lines = [f"{n:06}\n" for n in range(160_000)]
    keep("first", {"f": "".join(lines)})
    keep("second", {"f": "".join([*lines[:-1], "new\n"])})
    assert [by for _, by in blamed(repo, "f")[-2:]] == ["first", "second"]


def test_blame_of_what_is_not_text_is_refused_with_another_way(repo: ml.Repo, keep: Keep) -> None:
    keep("first", {"f": b"\0\1"})
    with pytest.raises(ml.errors.InvalidInput, match="'f' is not text") as raised:
        repo.blame("f")
    assert "memlake log -- f" in raised.value.hint
    with pytest.raises(ml.errors.NotFound):
        repo.blame("missing")


# -- what is noted --------------------------------------------------------------------------------


def test_add_notes_media_size_creator_and_the_schema_of_tables(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"t.csv": "id,name\n1,ada\n2,grace\n", "t.jsonl": '{"x": 1.5}\n', "notes.md": "# hi\n"})
    about = repo.show().about("t.csv")
    assert about is not None and about.media == "text/csv" and about.size == 22 and about.rows == 2
    assert [column for column, _ in about.schema] == ["id", "name"]
    assert about.creator == "Ada <ada@example.org>" and about.time > 0
    jsonl, notes = repo.show().about("t.jsonl"), repo.show().about("notes.md")
    assert jsonl is not None and [column for column, _ in jsonl.schema] == ["x"]
    assert notes is not None and notes.schema == () and notes.media.startswith("text/")


def test_what_is_noted_belongs_to_the_content_and_follows_it_through_history(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"t.csv": "a\n1\n"})
    keep("two", {"t.csv": "a,b\n1,2\n"})
    keep("three", {"other": "x"})
    new, old = repo.show().about("t.csv"), repo.show("HEAD~2").about("t.csv")
    assert new is not None and old is not None
    assert ([c for c, _ in new.schema], [c for c, _ in old.schema]) == (["a", "b"], ["a"])
    with pytest.raises(ml.errors.NotFound):
        repo.show().about("missing")


def test_ls_shows_a_state_in_order_with_both_lanes(repo: ml.Repo, keep: Keep) -> None:
    repo.write({"memories/bot/1": b"m", "state/bot/k": b"s"}, "m")
    keep("one", {"b": "1", "a/z": "1", "a.txt": "1"})
    everything = ["files/a.txt", "files/a/z", "files/b", "memories/bot/1", "state/bot/k"]
    assert [path for path, _ in repo.ls()] == everything
    assert [path for path, _ in repo.ls(prefix="files/a")] == everything[:2]
    with pytest.raises(ml.errors.NotFound):
        list(repo.ls("nope"))
