"""`.memlakeignore` means what `.gitignore` means: by example, and against git itself on random trees."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.errors import Unavailable
from memlake.versions.checkout.ignore import FILE, Ignore

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def ignore(root: Path, **files: str) -> Ignore:
    """An Ignore over `root` with rules: the keyword is the folder ("top" for the root), the value the lines."""
    for folder, lines in files.items():
        place = root if folder == "top" else root / folder.replace("__", "/")
        place.mkdir(parents=True, exist_ok=True)
        (place / FILE).write_text(lines)
    return Ignore(root)


def walk(scope: Ignore, folder: Path, rel: str = "") -> set[str]:
    """Every path a walk sees, as `add` would walk."""
    seen = set()
    for entry in os.scandir(folder):
        is_dir = entry.is_dir(follow_symlinks=False)
        if scope.ignores(entry.name, is_dir):
            continue
        seen.add(rel + entry.name)
        if is_dir:
            seen |= walk(scope.enter(entry.name), Path(entry.path), f"{rel}{entry.name}/")
    return seen


# -- by example


@pytest.mark.parametrize(
    ("lines", "path", "is_dir", "expected"),
    [
        ("*.log", "a.log", False, True),
        ("*.log", "deep/er/a.log", False, True),
        ("*.log", "a.log.txt", False, False),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("!keep.log\n*.log", "keep.log", False, True),
        ("/only-top", "only-top", False, True),
        ("/only-top", "sub/only-top", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("build/", "build", True, True),
        ("build/", "build", False, False),
        ("build/", "x/build", True, True),
        ("build/", "build/out/o.bin", False, True),
        ("a/**/z", "a/z", False, True),
        ("a/**/z", "a/b/c/z", False, True),
        ("**/z", "z", False, True),
        ("**/z", "a/b/z", False, True),
        ("a/**", "a", True, False),
        ("a/**", "a/b/c", False, True),
        ("a/**/*", "a", True, False),
        ("*/**", "a", True, False),
        ("a/*", "a/b", False, True),
        ("a/*", "a/b/c", False, True),
        ("a/*\n!a/b", "a/b/c", False, False),
        ("?.txt", "a.txt", False, True),
        ("?.txt", "ab.txt", False, False),
        ("?.txt", "é.txt", False, True),
        ("[a-c]x", "bx", False, True),
        ("[!a-c]x", "bx", False, False),
        ("[^a-c]x", "dx", False, True),
        ("[]-]x", "]x", False, True),
        ("[]-]x", "-x", False, True),
        ("[[:digit:]]x", "7x", False, True),
        ("[[:nonsense:]]x", "7x", False, False),
        ("[z-a]x", "bx", False, False),
        ("[abc", "[abc", False, False),
        ("[\\]]x", "]x", False, True),
        ("# comment", "# comment", False, False),
        ("\\# name", "# name", False, True),
        ("\\!name", "!name", False, True),
        ("name   ", "name", False, True),
        ("name\\  ", "name ", False, True),
        ("name\\", "name\\", False, False),
        ("name\r\nother\r\n", "name", False, True),
        ("\ufeffname", "name", False, True),
        ("", "name", False, False),
        ("/\n//\n!\n", "name", True, False),
        ("a.c", "abc", False, False),
        ("x" * 200 + "*", "x" * 201, False, True),
    ],
)
def test_a_pattern_means_what_git_says(tmp_path: Path, lines: str, path: str, is_dir: bool, expected: bool) -> None:
    assert (ignore(tmp_path, top=lines).why(path, is_dir) is not None) is expected


def test_a_deeper_file_wins_over_one_above(tmp_path: Path) -> None:
    rules = ignore(tmp_path, top="*.csv\n", data="!*.csv\n", data__raw="*.csv\n")
    assert rules.why("x.csv", False)
    assert not rules.why("data/x.csv", False)
    assert rules.why("data/raw/x.csv", False)


def test_a_file_inside_an_ignored_folder_cannot_be_re_included(tmp_path: Path) -> None:
    rules = ignore(tmp_path, top="out/\n!out/keep.txt\n", out="!keep.txt\n")
    assert rules.why("out/keep.txt", False)


def test_everything_but_one_kind_can_be_ignored(tmp_path: Path) -> None:
    rules = ignore(tmp_path, top="*\n!*/\n!*.csv\n")
    assert not rules.why("data", True)
    assert not rules.why("data/x.csv", False)
    assert rules.why("data/x.bin", False)


def test_a_rule_in_a_folder_is_anchored_to_that_folder(tmp_path: Path) -> None:
    rules = ignore(tmp_path, sub="/x\ny/z\n")
    assert rules.why("sub/x", False) and rules.why("sub/y/z", False)
    assert not rules.why("x", False) and not rules.why("sub/deep/x", False)


@pytest.mark.parametrize("name", [".git", ".venv", "node_modules", "__pycache__", ".memlake"])
def test_built_in_names_are_ignored_anywhere_without_any_file(tmp_path: Path, name: str) -> None:
    rules = Ignore(tmp_path)
    for path, is_dir in ((name, True), (f"a/b/{name}", True), (f"a/{name}/c", False), (name, False)):
        assert rules.why(path, is_dir), path
    assert not rules.why(f"{name}x", True)


@pytest.mark.parametrize("name", [".venv", "node_modules", "__pycache__"])
@pytest.mark.parametrize("line", ["!{}/", "!{}", "!/{}/", "!**/{}/"])
def test_a_default_is_taken_back_by_its_own_name(tmp_path: Path, name: str, line: str) -> None:
    rules = ignore(tmp_path, top=line.format(name))
    assert not rules.why(name, True)
    assert not rules.why(f"{name}/x", False)


def test_a_sweeping_negation_does_not_take_a_default_back(tmp_path: Path) -> None:
    assert ignore(tmp_path, top="*\n!*/\n!*.js\n").why("node_modules/x.js", False)


@pytest.mark.parametrize("name", [".git", ".memlake"])
def test_the_repos_own_folders_are_never_taken_back(tmp_path: Path, name: str) -> None:
    assert ignore(tmp_path, top=f"!{name}/\n!{name}\n").why(f"{name}/config", False)


def test_why_names_the_file_the_line_and_the_pattern(tmp_path: Path) -> None:
    rules = ignore(tmp_path, top="\n# logs\n*.log\n", sub="tmp/\n")
    assert rules.why("x.log", False) == ".memlakeignore:3: *.log"
    assert rules.why("sub/tmp/deep/x", False) == "sub/.memlakeignore:1: tmp/"
    assert rules.why(".git/config", False) == "built in: .git"
    assert rules.why("x.txt", False) is None


def test_a_symlink_to_a_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert walk(ignore(tmp_path, top="link/\n"), tmp_path) == {FILE, "real", "link"}


def test_a_name_that_is_not_utf8_matches_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"caf\xe9*\n")
    rules = Ignore(tmp_path)
    assert rules.why(os.fsdecode(b"caf\xe9.txt"), False)
    assert not rules.why("café.txt", False)


def test_a_name_with_a_newline_in_it_is_matched(tmp_path: Path) -> None:
    assert ignore(tmp_path, top="a*b\n").why("a\nb", False)


def test_a_folder_called_like_the_ignore_file_is_only_a_folder(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert not Ignore(tmp_path).why("x", False)


def test_an_ignore_file_that_cannot_be_opened_is_an_error_and_not_no_rules(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(FILE)
    with pytest.raises(Unavailable, match=FILE):
        Ignore(tmp_path)


def test_many_rules_and_an_ordinary_name_are_fast_enough_to_ask_of_every_file(tmp_path: Path) -> None:
    rules = ignore(tmp_path, top="".join(f"*.ext{i}\n/dir{i}/**/x\n" for i in range(300)))
    assert not any(rules.ignores(f"file{i}.csv", False) for i in range(100))
    assert rules.why("a.ext299", False) and rules.why("dir7/q/x", False)


# -- against git

NAMES = ["a", "b", "ab", "a.b", ".a", "a b", "x-y", "[", "!a", "#b", "aab", "B", "a\\b"]
PIECES = [
    "a",
    "b",
    "*",
    "?",
    ".",
    "[ab]",
    "[!a]",
    "[a-b]",
    "[^b]",
    "[[:alpha:]]",
    "[",
    "]",
    "\\a",
    "\\[",
    "\\*",
    "-",
    " ",
    "!",
    "#",
]

part = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join) | st.sampled_from(["**", "*", *NAMES])
# Two stars beside other characters are left out: git reads `a/b**/c` as `a/b` and then `**/c`, against its own manual.
pattern = st.builds(
    lambda bang, lead, parts, tail, spaces: bang + lead + "/".join(parts) + tail + spaces,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(part, min_size=1, max_size=3).filter(lambda parts: all("**" not in p or p == "**" for p in parts)),
    st.sampled_from(["", "", "/", "/**", "/*"]),
    st.sampled_from(["", "", " ", "\\ "]),
)
paths = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=10)
lists = st.dictionaries(st.sampled_from(["", "a", "b", "a/b"]), st.lists(pattern, max_size=6), max_size=3)


def plant(root: Path, files: list[str], rules: dict[str, list[str]]) -> None:
    """Make the tree; a path that would need a file as a folder is left out."""
    for path in files:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    for folder, lines in rules.items():
        if (root / folder).is_dir():
            for name in (FILE, ".gitignore"):
                (root / folder / name).write_text("\n".join(lines) + "\n")


def everything(root: Path) -> list[str]:
    found = (str(path.relative_to(root)) for path in root.rglob("*"))
    return sorted(path for path in found if path.partition("/")[0] != ".git" and not path.endswith("ignore"))


def git_ignores(root: Path, asked: list[str]) -> set[str]:
    told = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        input="\0".join(asked) + "\0",
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode in (0, 1), told.stderr
    return set(told.stdout.split("\0")) - {""}


@needs_git
@given(files=paths, rules=lists)
def test_random_trees_and_patterns_are_ignored_exactly_as_by_git(files: list[str], rules: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        subprocess.run(["git", "init", "-q", "--template=", root], check=True)
        plant(root, files, rules)
        asked = everything(root)
        expected = git_ignores(root, asked)
        rules_of_ours = Ignore(root)
        ours = {path for path in asked if rules_of_ours.why(path, (root / path).is_dir())}
        assert ours == expected
        seen = {path for path in walk(rules_of_ours, root) if not path.endswith("ignore")}
        assert seen == set(asked) - expected, "a walk must agree with asking for each path"
