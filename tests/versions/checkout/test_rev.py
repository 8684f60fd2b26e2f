"""The grammar of revs: what each form names, and what is said when it names nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import memlake as ml


def oid(repo: ml.Repo, rev: str) -> str:
    return repo.show(rev).commit.oid


@pytest.fixture
def line(repo: ml.Repo, keep: Callable[..., ml.Commit]) -> list[str]:
    """Four commits on main, oldest first."""
    return [keep(f"c{n}", {"a": f"{n}\n"}).oid for n in range(4)]


def test_head_has_several_names(repo: ml.Repo, line: list[str]) -> None:
    assert {oid(repo, rev) for rev in ("HEAD", "@", "main", "HEAD~0", "HEAD^0", "refs/heads/main", line[3])} == {
        line[3]
    }


@pytest.mark.parametrize(
    ("rev", "back"),
    [
        ("HEAD~", 1),
        ("HEAD^", 1),
        ("HEAD~1", 1),
        ("@~2", 2),
        ("HEAD^^", 2),
        ("main~3", 3),
        ("HEAD~1^", 2),
        ("HEAD^~2", 3),
    ],
)
def test_tildes_and_carets_step_back(repo: ml.Repo, line: list[str], rev: str, back: int) -> None:
    assert oid(repo, rev) == line[3 - back]


def test_the_second_parent_of_a_merge_is_caret_two(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    repo.merge("dev")
    assert oid(repo, "HEAD^1") == fork["main"].oid
    assert oid(repo, "HEAD^2") == fork["dev"].oid
    assert oid(repo, "HEAD^2~1") == fork["base"].oid
    assert oid(repo, "HEAD~2") == fork["base"].oid
    with pytest.raises(ml.errors.NotFound, match=r"has 2 parent"):
        repo.show("HEAD^3")


@pytest.mark.parametrize("rev", ["HEAD~9", "main~4", "HEAD^2", "HEAD@{99}", "main@{99}"])
def test_stepping_past_the_beginning_says_how_far_it_goes(repo: ml.Repo, line: list[str], rev: str) -> None:
    with pytest.raises(ml.errors.NotFound) as raised:
        repo.show(rev)
    assert raised.value.hint


def test_short_ids_of_four_and_more_characters_work_in_any_case(repo: ml.Repo, line: list[str]) -> None:
    for length in (10, 40, 64):
        assert oid(repo, line[1][:length]) == line[1]
    assert oid(repo, line[1][:12].upper()) == line[1]
    assert oid(repo, line[1][:10] + "~1") == line[0]
    with pytest.raises(ml.errors.NotFound):
        repo.show(line[1][:3])


def test_an_ambiguous_short_id_lists_what_it_could_be(repo: ml.Repo, keep: Callable[..., ml.Commit]) -> None:
    keep("first", {"a": "x"})
    seen: dict[str, str] = {}
    for n in range(3000):  # two of about 300 ids share four digits; look until some do
        made = repo.write({"memories/bot/a": str(n).encode()}, "m").oid
        if made[:4] in seen:
            break
        seen[made[:4]] = made
    with pytest.raises(ml.errors.InvalidInput, match="ambiguous") as raised:
        repo.show(made[:4])
    assert made[:8] in str(raised.value) and seen[made[:4]][:8] in str(raised.value)
    assert oid(repo, made[:16]) == made


def test_a_branch_wins_over_a_tag_and_both_over_an_id(repo: ml.Repo, line: list[str]) -> None:
    repo.branches.create("cafe", "HEAD~1")
    repo.tags.create("cafe", "HEAD~2")
    repo.tags.create(line[0][:6], "HEAD~1")
    assert oid(repo, "cafe") == line[2]
    assert oid(repo, "refs/tags/cafe") == line[1]
    assert oid(repo, line[0][:6]) == line[2]


def test_at_braces_count_the_moves_of_head_and_of_a_branch(repo: ml.Repo, line: list[str]) -> None:
    repo.reset("HEAD~2", "hard")
    assert oid(repo, "@{0}") == oid(repo, "HEAD@{0}") == line[1]
    assert oid(repo, "@{1}") == oid(repo, "main@{1}") == line[3]
    assert oid(repo, "main@{2}") == line[2]
    assert oid(repo, "main@{1}~1") == line[2]
    repo.switch("dev", create=True)
    assert oid(repo, "main@{1}") == line[3], "the log of a branch does not move with HEAD"


def test_a_time_in_braces_asks_where_the_branch_was_then(
    repo: ml.Repo, keep: Callable[..., ml.Commit], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, hours = time.time_ns, 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: real() - 50 * hours)
    old = keep("two days ago", {"a": "1"}).oid
    monkeypatch.setattr(time, "time_ns", lambda: real() - 10 * hours)
    keep("today", {"a": "2"})
    monkeypatch.setattr(time, "time_ns", real)
    new = keep("now", {"a": "3"}).oid
    assert oid(repo, "main@{yesterday}") == oid(repo, "@{1 day ago}") == old
    assert oid(repo, "main@{2 hours ago}") == oid(repo, "HEAD~1")
    assert oid(repo, "main@{now}") == new
    with pytest.warns(UserWarning, match="'main' only goes back to"):
        assert oid(repo, "main@{1 week ago}") == old


def test_minus_n_names_the_branch_before(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    assert oid(repo, "@{-1}") == fork["dev"].oid


def test_stashes_are_revs(repo: ml.Repo, line: list[str], write: Callable[..., None]) -> None:
    for n in (1, 2):
        write({"a": f"work {n}\n"})
        repo.stash.push()
    assert repo.read("a", "stash@{0}") == repo.read("a", "stash") == b"work 2\n"
    assert repo.read("a", "stash@{1}") == b"work 1\n"
    with pytest.raises(ml.errors.NotFound):
        repo.show("stash@{2}")


def test_merge_head_and_orig_head_name_the_other_side_and_where_one_was(
    repo: ml.Repo, fork: dict[str, ml.Commit], keep: Callable[..., ml.Commit]
) -> None:
    mine = keep("clash", {"b": "main\n"}).oid
    assert repo.merge("dev").conflicts
    assert oid(repo, "MERGE_HEAD") == fork["dev"].oid
    repo.pending_merge.abort()
    with pytest.raises(ml.errors.NotFound):
        repo.show("MERGE_HEAD")
    repo.reset("HEAD~1", "hard")
    assert oid(repo, "ORIG_HEAD") == mine


def test_an_unknown_name_suggests_what_is_near(repo: ml.Repo, line: list[str]) -> None:
    repo.branches.create("experiment-1")
    with pytest.raises(ml.errors.NotFound, match="experimnt-1") as raised:
        repo.show("experimnt-1")
    assert "experiment-1" in raised.value.hint
    with pytest.raises(ml.errors.NotFound) as raised:
        repo.switch("mian")
    assert "main" in raised.value.hint


@pytest.mark.parametrize("rev", ["HEAD~x", "HEAD^2x", "HEAD@{soon}", "main~1junk", "HEAD~1@{1}"])
def test_what_cannot_be_read_is_said_so(repo: ml.Repo, line: list[str], rev: str) -> None:
    with pytest.raises((ml.errors.InvalidInput, ml.errors.NotFound)):
        repo.show(rev)


def test_before_the_first_commit_head_is_explained(repo: ml.Repo) -> None:
    for rev in ("HEAD", "main", "@"):
        with pytest.raises(ml.errors.NotFound, match="no commit"):
            repo.show(rev)


def test_ranges_in_log_hide_what_the_left_side_has(repo: ml.Repo, fork: dict[str, ml.Commit]) -> None:
    def shown(rev: str) -> set[str]:
        return {commit.message for commit in repo.log(rev)}

    assert shown("main..dev") == {"on dev"}
    assert shown("dev..") == shown("dev..main") == {"on main"}
    assert shown("main...dev") == {"on dev", "on main"}
    assert shown("HEAD~1..HEAD") == {"on main"}
    assert shown("dev~1..dev") == {"on dev"}
    assert shown("HEAD..HEAD") == set()


def test_a_rev_of_the_memory_lane_names_its_own_line(repo: ml.Repo, line: list[str]) -> None:
    memories = [repo.write({f"memories/bot/{n}": b"x"}, f"m{n}").oid for n in range(3)]
    assert repo.show("HEAD", lane="memory").commit.oid == memories[2]
    assert repo.show("main~2", lane="memory").commit.oid == memories[0]
    assert repo.show("main@{1}", lane="memory").commit.oid == memories[1]
    assert repo.show("HEAD~1").commit.oid == line[2]


@pytest.mark.parametrize("rev", ["HEAD", "@", "@~1", "HEAD^", "main~2", "main@{1}", "main@{yesterday}"])
def test_a_rev_of_a_branch_without_commits_says_so(repo: ml.Repo, rev: str) -> None:
    with pytest.raises(ml.errors.NotFound, match="branch 'main' has no commits"):
        repo.show(rev)


def test_a_lane_without_a_log_is_no_obstacle_to_listing_the_other(
    repo: ml.Repo, keep: Callable[..., ml.Commit]
) -> None:
    keep("one", {"a": "1"})
    keep("two", {"b": "2"})
    assert [path for path, _ in repo.ls("main@{1}")] == ["files/a"]
    with pytest.warns(UserWarning, match="only goes back"):
        assert [path for path, _ in repo.ls("main@{1 year ago}")] == ["files/a"]
