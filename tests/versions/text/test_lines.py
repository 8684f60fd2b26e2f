"""The line matcher: right on everything, shortest on small texts, and never slow."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.versions.text.lines import _Matcher, find_text, match_lines, opcodes, split_lines

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x\ry\n", "d"]), max_size=30).map("".join)


def changed_lines(a: list[str], b: list[str]) -> int:
    return sum(i2 - i1 + j2 - j1 for tag, i1, i2, j1, j2 in opcodes(a, b) if tag != "equal")


def fewest(a: list[str], b: list[str]) -> int:
    """By the table of all prefixes: slow, and sure."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(above[j - 1] if x == y else 1 + min(above[j], row[-1]))
    return row[-1]


def test_only_a_newline_ends_a_line() -> None:
    assert split_lines("a\rb\x0cc\u2028d\ne") == ["a\rb\x0cc\u2028d\n", "e"]


def test_bytes_with_nul_or_bad_utf8_are_not_text() -> None:
    assert find_text(b"a\0b") is None
    assert find_text(b"\xff\xfe") is None
    assert find_text("größe\n".encode()) == "größe\n"
    assert find_text(b"") == ""


@given(TEXT, TEXT)
def test_opcodes_turn_the_old_lines_into_the_new(old: str, new: str) -> None:
    a, b = split_lines(old), split_lines(new)
    built: list[str] = []
    at = (0, 0)
    for tag, i1, i2, j1, j2 in opcodes(a, b):
        assert (i1, j1) == at
        assert a[i1:i2] == b[j1:j2] or tag != "equal"
        built += a[i1:i2] if tag == "equal" else b[j1:j2]
        at = (i2, j2)
    assert built == b
    assert at == (len(a), len(b))


@given(TEXT, TEXT)
def test_a_diff_of_small_texts_is_the_shortest_there_is(old: str, new: str) -> None:
    a, b = split_lines(old), split_lines(new)
    assert changed_lines(a, b) == fewest(a, b)


def test_a_repeated_line_that_was_added_is_the_last_of_its_kind() -> None:
    assert match_lines(["{\n", "a\n", "}\n"], ["{\n", "a\n", "}\n", "{\n", "a\n", "}\n"]) == [(0, 0, 3)]
    assert ("insert", 3, 3, 3, 4) in opcodes(list("pqays"), list("PqaayS"))


def make_texts(seed: int, size: int, letters: str) -> tuple[list[str], list[str]]:
    chance = random.Random(seed)
    old = [f"{chance.choice(letters)}\n" for _ in range(chance.randrange(size))]
    new = list(old)
    for _ in range(chance.randrange(12)):
        at = chance.randrange(len(new) + 1)
        new[at : at + chance.randrange(4)] = [f"{chance.choice(letters)}\n" for _ in range(chance.randrange(4))]
    return old, new


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
def test_git_finds_no_shorter_diff(tmp_path: Path) -> None:
    texts = [make_texts(seed, 60, "abcdefgh"[: 2 + seed % 7]) for seed in range(150)]
    for side, folder in enumerate(("old", "new")):
        (tmp_path / folder).mkdir()
        for number, pair in enumerate(texts):
            (tmp_path / folder / f"{number}").write_text("".join(pair[side]))
    command = ["git", "diff", "--no-index", "--minimal", "--numstat", "--no-renames", "-z", "old", "new"]
    answer = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True).stdout.split("\0")
    counts = [one.split("\t") for one in answer if one.count("\t") == 2]
    total = sum(int(added) + int(removed) for added, removed, _ in counts)
    assert total == sum(changed_lines(*pair) for pair in texts) > 0


class Counted(list[int]):
    """Lines that count how often they are looked at."""

    reads = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def,override]
        self.reads += 1
        return super().__getitem__(at)


def hard_texts(size: int) -> dict[str, tuple[list[int], list[int]]]:
    chance = random.Random(7)
    labels, others = ([chance.randrange(2) for _ in range(size)] for _ in range(2))
    return {
        "one line edited at each end": (labels, [2, *labels[1:-1], 3]),
        "rewritten": (labels, others),
        "reversed": (labels, labels[::-1]),
        "all equal against a mix": ([0] * size, others),
        "a period that drifts": (([0] * 99 + [1]) * (size // 100), ([0] * 98 + [1]) * (size // 99)),
        "two blocks that changed places": ([0] * size + [1] * size, [1] * size + [0] * size),
        "distinct lines reversed": (list(range(size)), list(range(size))[::-1]),
        "distinct lines shuffled": (list(range(size)), chance.sample(range(size), size)),
    }


@pytest.mark.parametrize("name", hard_texts(100))
def test_the_work_grows_with_the_lines_and_not_with_their_square(name: str) -> None:
    size = 20_000
    a, b = hard_texts(size)[name]
    matcher = _Matcher(a, b)
    matcher._a = lines = Counted(matcher._a)
    pairs = matcher.run()
    assert all(a[x] == b[y] for x, y in pairs)
    assert sorted(pairs) == pairs
    assert lines.reads < 60 * size


def test_labels_edited_at_both_ends_are_matched_in_full() -> None:
    a, b = hard_texts(20_000)["one line edited at each end"]
    old, new = ([f"{number}\n" for number in side] for side in (a, b))
    assert changed_lines(old, new) == 4


def test_two_long_unlike_texts_are_one_change() -> None:
    old, new = [f"{n}\n" for n in range(30_000)], [f"{n}x\n" for n in range(30_000)]
    assert opcodes(old, new) == [("replace", 0, 30_000, 0, 30_000)]


def test_a_long_text_with_much_edited_is_matched_at_the_lines_that_stand_once() -> None:
    old = [f"{line}\n" for number in range(3000) for line in (f"step {number}", "{", "}", "")]
    new = [line.replace("step", "new") if line.startswith("step") and line.endswith("7\n") else line for line in old]
    new[6000:6000] = [f"{chr(97 + n % 3)}\n" for n in range(4000)]
    assert changed_lines(old, new) == 2 * 300 + 4000


def test_a_head_that_ends_inside_a_character_is_text_and_a_whole_file_that_does_is_not() -> None:
    cut = "naïve".encode()[:3]
    assert find_text(cut, is_head=True) == "na"
    assert find_text(cut) is None
    assert find_text(b"na\xc3ve", is_head=True) is None, "the character is broken in the middle"
    assert find_text(b"na\0", is_head=True) is None
