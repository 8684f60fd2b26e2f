"""Joined texts and their markers, beside git's own."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from memlake.versions.text.merge3 import Clash, Names, Piece, Sure, _join_near, find_marker, mark_text, merge_text

NAMES = Names("o", "t")


def edit(lines: list[str], chance: random.Random, who: str) -> list[str]:
    """Some lines replaced, removed and added; no line stands twice, so there is one way to align them."""
    new = list(lines)
    for number in range(chance.randrange(1, 4)):
        at = chance.randrange(len(new) + 1)
        common = [f"both {number}.{n}\n" for n in range(chance.choice((0, 0, 2, 5)))]
        own = [f"{who} {number}.{n}\n" for n in range(chance.randrange(3))]
        new[at : at + chance.randrange(3)] = [*own, *common] if chance.random() < 0.5 else [*common, *own]
    return list(dict.fromkeys(new))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
@pytest.mark.parametrize("style", ["merge", "diff3"])
def test_texts_are_joined_and_marked_as_git_does(style: str, tmp_path: Path) -> None:
    clashes = 0
    for seed in range(60):
        chance = random.Random(seed)
        base = [f"line {n}\n" for n in range(chance.randrange(1, 25))]
        texts = ["".join(one) for one in (edit(base, chance, "ours"), base, edit(base, chance, "theirs"))]
        for name, text in zip(("o", "base", "t"), texts, strict=True):
            (tmp_path / name).write_text(text)
        command = ["git", "merge-file", "-p", "-L", "o", "-L", "base", "-L", "t", "-q"]
        command += ["--diff3"] * (style == "diff3")
        git = subprocess.run([*command, "o", "base", "t"], check=False, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        ours, old, theirs = texts
        joined = merge_text(old, ours, theirs)
        assert mark_text(old, ours, theirs, NAMES._replace(base=style == "diff3")) == git.stdout, seed
        assert joined == (git.stdout if git.returncode == 0 else None)
        clashes += joined is None
    assert 10 < clashes < 55


def test_markers_end_as_the_lines_of_the_file_do() -> None:
    marked = mark_text("a\r\n", "b\r\n", "c\r\n", NAMES)
    assert marked == "<<<<<<< o\r\nb\r\n=======\r\nc\r\n>>>>>>> t\r\n"
    assert mark_text("a", "b", "c", NAMES) == "<<<<<<< o\nb\n=======\nc\n>>>>>>> t\n"


def test_a_marker_that_is_left_is_found_by_its_line_and_other_text_is_not() -> None:
    assert find_marker("1\n<<<<<<< o\n2\n", NAMES) == 2
    assert find_marker("1\r\n>>>>>>> t\r\n", NAMES) == 2
    assert find_marker("=======\n<<<<<<< other\n >>>>>>> t\n", NAMES) is None


def test_texts_of_labels_are_joined_however_many_lines_they_have() -> None:
    chance = random.Random(1)
    base = [chance.choice("01") + "\n" for _ in range(100_000)]
    joined = merge_text("".join(base), "".join(["2\n", *base[1:]]), "".join([*base[:-1], "3\n"]))
    assert joined == "".join(["2\n", *base[1:-1], "3\n"])


def test_near_clashes_are_joined_without_copying_those_before_them() -> None:
    first = Clash(["o0\n"], [], ["t0\n"])
    pieces: list[Piece] = [first]
    for number in range(1, 5):
        pieces += [Sure([f"s{number}\n"]), Clash([f"o{number}\n"], [], [f"t{number}\n"])]
    joined = _join_near(pieces)
    assert joined == [first] and first.ours == ["o0\n", *(f"{s}{n}\n" for n in range(1, 5) for s in "so")]
    assert isinstance(joined[0], Clash) and joined[0].ours is first.ours and joined[0].theirs is first.theirs
