"""grep, clean and ls-files on the command line: output, quoting, NUL and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run

Keep = Callable[..., str]


def test_grep_prints_as_git_does(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "sub").mkdir()
    (repo / "sub/a b").write_text("one needle\nneedle\n")
    (repo / "bin").write_bytes(b"\0needle")
    keep("one")
    assert run("grep", "needle").lines == ["Binary file bin matches", "sub/a b:one needle", "sub/a b:needle"]
    assert run("grep", "-n", "needle", "HEAD", "--", "sub").lines == [
        "HEAD:sub/a b:1:one needle",
        "HEAD:sub/a b:2:needle",
    ]
    assert run("grep", "-c", "needle").lines == ["bin:1", "sub/a b:2"]
    assert run("grep", "-l", "-z", "needle").out == "bin\0sub/a b\0"
    assert run("grep", "-e", "-x", code=1).out == "" and run("grep", "-q", "needle").out == ""
    assert [m["line"] for m in run("grep", "--json", "^needle", "HEAD").json["matches"]] == [2]
    assert run("grep", "nothing", "--json", code=1).json["matches"] == []
    assert run("-C", "sub", "grep", "-l", "needle").lines == ["../bin", "a b"]
    run("grep", code=2)
    assert "-F" in run("grep", "(", code=128).err


def test_clean_does_nothing_until_it_is_told_to(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "a").write_text("1")
    (repo / ".memlakeignore").write_text("*.log\n")
    keep("one")
    (repo / "b\tc").write_text("2")
    (repo / "x").write_text("2")
    (repo / "z.log").write_text("2")
    assert "Nothing was removed" in run("clean", code=2).err and (repo / "x").exists()
    told = run("clean", "-n", "-x")
    assert (
        told.lines == ["Would remove x", "Would remove z.log (ignored)"]
        and r"Left alone: \"b\tc\"".replace('\\"', '"') in told.err
    )
    assert run("clean", "-f", "--json").json["removed"] == ["x"]
    assert run("clean", "-f", "-x", "-q").out == "" and not (repo / "z.log").exists()


def test_ls_files_lists_the_checkout(run: Run, repo: Path, keep: Keep) -> None:
    for name in ("a", "b", "d é"):
        (repo / name).write_text(name)
    keep("one")
    (repo / "a").write_text("changed")
    (repo / "b").unlink()
    (repo / "new").mkdir()
    (repo / "new/n").write_text("n")
    assert run("ls-files", "-z").out == "a\0b\0d é\0"
    assert run("ls-files", "-m").lines == ["a", "b"] and run("ls-files", "-d").lines == ["b"]
    assert run("ls-files", "-o").lines == ["new/n"]
    assert run("ls-files", "-c", "-o", "--json").json["files"][-1] == {"path": "files/new/n"}
    assert run("ls-files", "-s", "a").out.startswith("100644 ") and run("ls-files", "-u").out == ""
    run("ls-files", "--error-unmatch", "a", "nope", code=1)
    run("add", "new/n")
    assert run("-C", "new", "ls-files").lines == ["n"]
