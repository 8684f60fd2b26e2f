"""The options that diff, log and show share, beside what git prints for the same files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Write

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
OLD = {
    "notes.md": "# Title\n\nThe quick  brown fox\njumps over\nthe lazy dog.\n\nlast\n",
    "code.py": "def add(a, b):\n    return a + b\n\n\ndef keep():\n    pass\n",
    "gone.txt": "one two\n",
    "dir/x/same.txt": "moved as it is\n",
    "end.txt": "no newline here",
    'b "b".txt': "odd name\n",
    "ä.txt": "umlaut\n",
    "pixels.bin": b"\0\1\2",
}
NEW = {
    "notes.md": "# A Title\n\nThe slow brown fox\njumped over\nthe lazy dog.\n\nadded a line\nlast\n",
    "code.py": "def add(a, b, c=0):\n    return a + b + c\n\n\ndef keep():\n    pass\n",
    "new.txt": "brand new\n\nfile\n",
    "dir/y/same.txt": "moved as it is\n",
    "end.txt": "a newline here\n",
    'b "b".txt': "odder name\n",
    "ä.txt": "Umlaut\n",
    "pixels.bin": b"\0\1\3\4",
}


@pytest.fixture
def git(repo: Path, run: Run, write: Write) -> Callable[..., bytes]:
    """The same two commits in memlake and in git; `git("diff", ...)` is what git prints."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(repo)}
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "core.quotePath=false")

    def ran(*args: str) -> bytes:
        return subprocess.run(["git", *who, *args], cwd=repo, env=env, capture_output=True, check=False).stdout

    ran("init", "-q")
    (repo / ".git/info/exclude").write_text(".memlake\n")
    for number, files in enumerate((OLD, NEW)):
        for name in {**OLD, **NEW}:
            if name in files:
                write(name, files[name])
            else:
                (repo / name).unlink(missing_ok=True)
        run("add", "-A")
        run("commit", "-m", f"commit {number}")
        ran("add", "-A")
        ran("commit", "-qm", f"commit {number}")
    return ran


def _comparable(text: str) -> list[str]:
    """A patch without object ids, and without the tab that git puts behind names with blanks."""
    lines = [re.sub(r" @@ .*$", " @@", line) for line in text.splitlines()]
    return [line.rstrip("\t") for line in lines if not re.match(r"index |Binary file", line)]


@needs_git
def test_names_and_counts_are_those_of_git(git: Callable[..., bytes], run: Run) -> None:
    for form in ("--name-only", "--name-status", "--numstat", "--shortstat"):
        theirs = git("diff", "-M100%", form, "HEAD~1", "HEAD").decode()
        assert run("diff", form, "HEAD~1..HEAD").out == theirs, form
        assert run("show", form, "--format=%s").out == f"commit 1\n\n{theirs}"
        if form != "--shortstat":
            theirs = git("diff", "-M100%", "-z", form, "HEAD~1", "HEAD").decode()
            assert run("diff", "-z", form, "HEAD~1..HEAD").out == theirs, form
            theirs = git("log", "-M100%", "-z", form, "--format=%s").decode()
            assert run("log", "-z", form, "--format=%s").out == theirs, form


@needs_git
@pytest.mark.parametrize("mode", ["plain", "porcelain", "color"])
def test_words_are_marked_as_git_marks_them(git: Callable[..., bytes], run: Run, mode: str) -> None:
    theirs = git("diff", "-M100%", "--no-color", f"--word-diff={mode}", "HEAD~1", "HEAD").decode()
    ours = run("diff", f"--word-diff={mode}", "HEAD~1..HEAD").out
    if mode == "color":  # git paints and resets a little differently, so only the words are compared
        assert "\x1b[31mquick  brown\x1b" not in ours and "\x1b[31mquick\x1b[0m\x1b[32mslow\x1b[0m" in ours
        ours, theirs = re.sub(r"\x1b\[[0-9;]*m", "", ours), re.sub(r"\x1b\[[0-9;]*m", "", theirs)
    assert _comparable(ours) == _comparable(theirs)


def test_word_diff_takes_its_value_only_behind_an_equals_sign(repo: Path, run: Run, keep: Callable[..., str]) -> None:
    keep("one", **{"a.txt": "x y\n"})
    keep("two", **{"a.txt": "x z\n"})
    assert run("diff", "--word-diff", "HEAD~1").lines[-1] == "x [-y-]{+z+}"
    assert run("log", "-1", "--word-diff", "HEAD").lines[-1] == "x [-y-]{+z+}"
    assert run("show", "--word-diff=none", "HEAD").lines[-1] == "+x z"
    assert run("show", "--format=", "--shortstat").out == " 1 file changed, 1 insertion(+), 1 deletion(-)\n"
    assert "x [-y-]" not in run("show", "--word-diff", "HEAD", "--", "b.txt").out
    assert "'loud' is not one of" in run("diff", "--word-diff=loud", code=2).err


def test_exit_codes_are_those_of_git(repo: Path, run: Run, keep: Callable[..., str], write: Write) -> None:
    keep("one", **{"a.txt": "x\n"})
    assert [run("diff", option).code for option in ("--exit-code", "-q", "--quiet")] == [0, 0, 0]
    write("a.txt", "y\n")
    for options in (["--exit-code"], ["-q"], ["--exit-code", "--numstat"], ["--json", "--exit-code"]):
        assert run("diff", *options, code=1).out == "" or options != ["-q"]
    assert run("diff", "--numstat").out == "1\t1\ta.txt\n"


def test_json_of_names_and_counts_looks_inside_nothing(repo: Path, run: Run, keep: Callable[..., str]) -> None:
    keep("one", **{"a.csv": "id,n\n1,2\n2,3\n"})
    keep("two", **{"a.csv": "id,n\n1,2\n2,4\n"})
    for form in ("--name-only", "--name-status"):
        assert set(run("diff", form, "HEAD~1", "--json").json["changes"][0]) == {"status", "path", "old", "new"}
    counted = run("diff", "--numstat", "HEAD~1", "--json").json["changes"][0]
    assert (counted["lines_added"], counted["lines_removed"], "inside" in counted) == (1, 1, False)
    inside = json.loads(run("diff", "HEAD~1", "--json").out)["changes"][0]["inside"]
    assert inside["record"]["cells"] == {"n": 1}
    for shown in (run("show", "--json").json, run("log", "-p", "--json").json):
        assert shown["commits"][0]["changes"][0]["inside"] == inside
