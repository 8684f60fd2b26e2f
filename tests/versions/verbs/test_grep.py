"""grep over working files, commits and memories: which lines it finds, and that size and bytes do not matter."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlake as ml
from memlake.memories.memories import Draft
from memlake.reports import Match
from memlake.versions.verbs import grep

Keep = Callable[..., ml.Commit]


def found(repo: ml.Repo, *args: str, **how: object) -> list[tuple[str, int]]:
    return [(match.path, match.line) for match in repo.grep(*args, **how)]  # type: ignore[arg-type]


def test_working_files_are_searched_and_only_tracked_ones(repo: ml.Repo, keep: Keep, here: Path) -> None:
    keep("one", {"a": "x\nneedle\n", "sub/b": "no\n"})
    (here / "sub/b").write_text("now a needle\n")
    (here / "untracked").write_text("needle\n")
    assert found(repo, "needle") == [("files/a", 2), ("files/sub/b", 1)]
    assert found(repo, "needle", "HEAD") == [("files/a", 2)]
    assert found(repo, "needle", paths=["sub"]) == [("files/sub/b", 1)]


def test_a_deleted_file_and_a_link_are_passed_over(repo: ml.Repo, keep: Keep, here: Path) -> None:
    (here / "link").symlink_to("a")
    keep("one", {"a": "needle\n", "b": "needle\n"})
    (here / "b").unlink()
    assert found(repo, "needle") == [("files/a", 1)]
    assert found(repo, "needle", "HEAD") == [("files/a", 1), ("files/b", 1)]


def test_of_a_binary_file_it_is_only_said_that_it_matches(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"bin": b"\x00\xff needle\nneedle\n", "latin": b"caf\xe9 needle\n"})
    assert list(repo.grep("needle", "HEAD")) == [Match("files/bin", 0, ""), Match("files/latin", 1, "caf\udce9 needle")]


def test_memories_and_state_are_searched_by_what_was_said(repo: ml.Repo, keep: Keep) -> None:
    repo.config["embedding.provider"] = "none"
    keep("one", {"a": "port\n"})
    memory_id = repo.memories().store(Draft('The "port" is 8080')).memory_id
    repo.memories().set_state("bot", "phase", {"port": [1]})
    assert [m.text for m in repo.grep("port", lane="memory")] == ['The "port" is 8080', 'phase: {"port": [1]}']
    assert [m.path.rsplit("/", 1)[1] for m in repo.grep('"port" is', paths=["memories/"])] == [memory_id]
    assert len(list(repo.grep("port", lane="all"))) == 3
    assert not list(repo.grep("salt", lane="memory")), "the record's own words are not what anyone said"


def test_words_case_and_plain_text(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "foo(1)\nFood\n über Ärger\nx_foo\n"})
    assert found(repo, "foo(1)", fixed=True) == [("files/a", 1)]
    assert found(repo, "foo", word=True) == [("files/a", 1)]
    assert found(repo, "ärger", ignore_case=True) == [("files/a", 3)]
    assert found(repo, "a|foo", word=True, ignore_case=True) == [("files/a", 1)]
    with pytest.raises(ml.errors.InvalidInput, match="not a regular expression"):
        found(repo, "(")


def test_an_unknown_rev_and_lane_are_refused(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    with pytest.raises(ml.errors.NotFound, match="nosuch"):
        found(repo, "x", "nosuch")
    with pytest.raises(ml.errors.InvalidInput, match="no lane"):
        found(repo, "x", lane="fast")


class _Source:
    """Bytes that are handed out as a file would be."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        piece, self._data = self._data[:size], self._data[size:]
        return piece


@given(st.lists(st.sampled_from(["", "ab", "b", "aab", "ba" * 5])), st.integers(1, 9), st.booleans(), st.booleans())
def test_blocks_of_any_size_give_the_lines_that_the_whole_text_gives(
    lines: list[str], size: int, ended: bool, fixed: bool
) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grep, "_BLOCK", size)
        finder = grep._compile(grep.Sought("ab", fixed=fixed))
        matches = list(grep._search(finder, "p", _Source(text.encode())))  # type: ignore[arg-type]
    assert [m.line for m in matches] == [n for n, line in enumerate(text.split("\n"), 1) if re.search("ab", line)]


def test_a_line_without_end_is_cut_and_not_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "_BLOCK", 10)
    monkeypatch.setattr(grep, "_LONGEST", 50)
    longest = max(map(len, grep._read_blocks(_Source(b"x" * 1000))))  # type: ignore[arg-type]
    assert longest <= 60
