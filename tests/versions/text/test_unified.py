"""Unified diffs: the same lines git would apply."""

from __future__ import annotations

import subprocess
from pathlib import Path

from memlake.versions.text.lines import split_lines
from memlake.versions.text.unified import count_changes, format_hunks


def changed(old: str, new: str) -> list[str]:
    return list(format_hunks(split_lines(old), split_lines(new)))


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


def test_added_and_removed_lines_are_counted() -> None:
    assert count_changes(["a\n", "b\n"], ["a\n", "c\n", "d\n"]) == (2, 1)


def test_git_applies_our_hunks(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(50))
    new = old.replace("line 3\n", "").replace("line 30\n", "line thirty\nand more\n") + "end"
    (tmp_path / "f").write_text(old)
    patch = "\n".join(["diff --git a/f b/f", "--- a/f", "+++ b/f", *changed(old, new)]) + "\n"
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_text() == new
