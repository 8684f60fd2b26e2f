"""Unified diffs: the same lines git would apply."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memlake.cli.textdiff import counts, find_text, hunks, opcodes, split_lines

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x\ry\n"]), max_size=30).map("".join)


def changed(old: str, new: str) -> list[str]:
    return list(hunks(split_lines(old), split_lines(new)))


def test_a_changed_line_has_three_lines_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    assert changed(old, old.replace("10\n", "ten\n")) == [
        "@@ -7,7 +7,7 @@",
        " 7",
        " 8",
        " 9",
        "-10",
        "+ten",
        " 11",
        " 12",
        " 13",
    ]


def test_changes_far_apart_are_two_hunks_and_close_ones_share_one() -> None:
    old = "".join(f"{number}\n" for number in range(1, 31))
    assert sum(line.startswith("@@") for line in changed(old, old.replace("3\n", "x\n", 1).replace("27\n", "y\n"))) == 2
    assert (
        sum(line.startswith("@@") for line in changed(old, old.replace("\n5\n", "\nx\n").replace("10\n", "y\n"))) == 1
    )


def test_new_and_emptied_files_start_at_line_zero() -> None:
    assert changed("", "a\nb\n") == ["@@ -0,0 +1,2 @@", "+a", "+b"]
    assert changed("a\n", "") == ["@@ -1 +0,0 @@", "-a"]


def test_a_missing_last_newline_is_said() -> None:
    assert changed("a\n", "a") == ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]


def test_equal_texts_have_no_hunk() -> None:
    assert changed("a\nb\n", "a\nb\n") == []


def test_only_a_newline_ends_a_line() -> None:
    assert split_lines("a\rb\x0cc\u2028d\ne") == ["a\rb\x0cc\u2028d\n", "e"]


def test_bytes_with_nul_or_bad_utf8_are_not_text() -> None:
    assert find_text(b"a\0b") is None
    assert find_text(b"\xff\xfe") is None
    assert find_text("größe\n".encode()) == "größe\n"
    assert find_text(b"") == ""


def test_added_and_removed_lines_are_counted() -> None:
    assert counts(["a\n", "b\n"], ["a\n", "c\n", "d\n"]) == (2, 1)


def test_two_long_unlike_texts_are_compared_in_no_time() -> None:
    old, new = [f"{n}\n" for n in range(30_000)], [f"{n}x\n" for n in range(30_000)]
    assert opcodes(old, new) == [("replace", 0, 30_000, 0, 30_000)]


@given(TEXT, TEXT)
def test_opcodes_turn_the_old_lines_into_the_new(old: str, new: str) -> None:
    a, b = split_lines(old), split_lines(new)
    built: list[str] = []
    for tag, i1, i2, j1, j2 in opcodes(a, b):
        built += a[i1:i2] if tag == "equal" else b[j1:j2]
    assert built == b
    assert "".join(difflib.restore(difflib.ndiff(a, b), 2)) == new


def test_git_applies_our_hunks(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(50))
    new = old.replace("line 3\n", "").replace("line 30\n", "line thirty\nand more\n") + "end"
    (tmp_path / "f").write_text(old)
    patch = "\n".join(["diff --git a/f b/f", "--- a/f", "+++ b/f", *changed(old, new)]) + "\n"
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_text() == new
