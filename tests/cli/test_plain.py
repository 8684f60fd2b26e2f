"""Lines that run without click say what click would have said; every other line is left to click."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from memlake.cli import commands, plain

from .conftest import Run, Write

_ID = re.compile(r"[0-9a-f]{10,}")
LINES = [
    ["status"],
    ["status", "-s"],
    ["status", "-s", "-b"],
    ["status", "--short", "--branch", "--ignored"],
    ["status", "--porcelain"],
    ["status", "--json"],
    ["status", "--ignored", "--ignored"],
]


@pytest.mark.parametrize("line", LINES)
def test_status_is_the_same_without_click(
    run: Run, story: dict[str, str], write: Write, capsys: pytest.CaptureFixture[str], line: list[str]
) -> None:
    write("new", "x")
    write("left/out", "x")
    write(".memlakeignore", "left\n")
    run("add", "new")
    assert plain.run(line)
    said = capsys.readouterr()
    assert commands.run(line) == 0
    assert said == capsys.readouterr() and said.out


def test_merge_is_the_same_without_click(
    run: Run, repo: Path, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, branch in (("base", ""), ("theirs", "side"), ("ours", "")):
        run("switch", "-c", branch) if branch else None
        write(name, name)
        run("add", name)
        run("commit", "-m", name)
        run("switch", "main")
    shutil.copytree(repo, repo.with_name("twin"))
    run("status")
    assert plain.run(["merge", "side"])
    said = capsys.readouterr()
    monkeypatch.chdir(repo.with_name("twin"))
    assert commands.run(["merge", "side"]) == 0
    twin = capsys.readouterr()
    assert _ID.sub("", said.out) == _ID.sub("", twin.out) and said.err == twin.err
    assert said.out.startswith("Merge made: ") and "theirs" in said.out


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--help"],
        ["-C", ".", "status"],
        ["status", "a"],
        ["status", "--"],
        ["status", "-sb"],
        ["status", "--sho"],
        ["status", "--help"],
        ["merge"],
        ["merge", ""],
        ["merge", "--abort"],
        ["merge", "a", "b"],
        ["merge", "a", "--no-ff"],
        ["log"],
    ],
)
def test_every_other_line_is_left_to_click(run: Run, line: list[str]) -> None:
    assert not plain.run(line)
