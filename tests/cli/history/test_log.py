"""log, reflog, show and cat: formats, which commits, and their JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from tests.cli.conftest import Run, Write

Keep = Callable[..., str]


@pytest.fixture
def renamed(repo: Path, run: Run, keep: Keep) -> list[str]:
    """a written, changed, renamed to z, changed again: the four commits, oldest first."""
    found = [keep("one", a="first\n"), keep("two\n\nwhy it was\ndone", a="first\nsecond\n")]
    run("mv", "a", "z")
    found.append(keep("three"))
    return [*found, keep("four", z="first\n", other="x\n")]


# -- formats


def test_a_format_of_ones_own_has_gits_placeholders(renamed: list[str], run: Run) -> None:
    run("tag", "v1")
    four, three, two, one = (f"commit {oid}" for oid in reversed(renamed))
    assert run("log", "--format=commit %H").lines == [four, three, two, one]
    line = run("log", "-1", "--format=%h|%an|%ae|%s|%p|%D|%d|%%|%zz|%x41").lines
    short = [oid[:10] for oid in renamed]
    names = "HEAD -> main, tag: v1"
    assert line == [f"{short[3]}|Ada|ada@example.org|four|{short[2]}|{names}| ({names})|%|%zz|A"]
    assert run("log", "-1", "--format=%T %P").out == run("log", "-1", "--pretty=format:%T %P").out
    assert run("show", "-s", "--format=%s%n[%b]", renamed[1]).lines == ["two", "[why it was", "done", "]"]


def test_times_come_in_the_styles_asked_for(renamed: list[str], run: Run) -> None:
    times = run("log", "-1", "--format=%aI %ar %at %as %ad", "--date=iso").lines[0]
    day = r"\d{4}-\d\d-\d\d"
    assert re.fullmatch(
        rf"{day}T[\d:]{{8}}[+-]\d\d:\d\d \d+ seconds? ago \d{{10}} {day} {day} [\d:]{{8}} [+-]\d{{4}}", times
    )
    assert re.fullmatch(rf"Date:   {day}", run("log", "-1", "--date=short").lines[2])
    assert run("log", "-1", "--date=relative").lines[2].endswith(" ago")
    assert "'bogus'" in run("log", "--date=bogus", code=2).err


def test_formats_have_names(renamed: list[str], run: Run) -> None:
    assert run("log", "-1", "--format=oneline").lines == [f"{renamed[3]} four"]
    assert run("log", "--format=short", renamed[1]).lines[:4] == [
        f"commit {renamed[1]}", "Author: Ada <ada@example.org>", "", "    two",
    ]  # fmt: skip
    assert "Commit: Ada <ada@example.org>" in run("log", "-1", "--format=full").lines
    assert run("log", "--format=medium").out == run("log").out
    assert "no format 'nonsense'" in run("log", "--format=nonsense", code=2).err


# -- which commits


def test_reverse_shows_the_same_commits_oldest_first(renamed: list[str], run: Run) -> None:
    assert run("log", "--reverse", "-2", "--format=%H").lines == renamed[2:]
    assert "cannot be used together" in run("log", "--reverse", "--graph", code=2).err


def test_follow_goes_on_before_an_exact_rename(renamed: list[str], run: Run) -> None:
    assert run("log", "--format=%s", "z").lines == ["four", "three"]
    assert run("log", "--format=%s", "--follow", "z").lines == ["four", "three", "two", "one"]
    assert run("log", "--format=%s", "--follow", "--grep=o", "z").lines == ["four", "two", "one"]
    assert "exactly one path" in run("log", "--follow", code=128).err


def test_a_text_finds_the_commits_that_add_or_remove_it_and_not_a_rename(renamed: list[str], run: Run) -> None:
    assert run("log", "-S", "second", "--format=%s").lines == ["four", "two"]
    assert run("log", "-S", "second", "--format=%s", "--", "other").lines == []


def test_a_text_is_found_across_the_pieces_an_object_is_read_in(
    repo: Path, run: Run, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("one", a="aaneedleaaneedle")
    keep("two", a="needle needle")
    keep("three", a="need")
    for piece in (1, 3, 7, 100):
        monkeypatch.setattr("memlake.versions.history.log._PIECE", piece)
        assert run("log", "-S", "needle", "--format=%s").lines == ["three", "one"]


def test_log_walks_a_reflog(renamed: list[str], run: Run) -> None:
    run("reset", "-q", "--hard", "HEAD~2")
    assert run("log", "-g", "-2", "--oneline").lines == [
        f"{renamed[1][:10]} HEAD@{{0}}: reset: moving to HEAD~2", f"{renamed[3][:10]} HEAD@{{1}}: commit: four",
    ]  # fmt: skip
    assert run("log", "-g", "-1", "main").lines[1:3] == [
        "Reflog: main@{0} (Ada)",
        "Reflog message: reset: moving to HEAD~2",
    ]
    assert run("log", "-g", "-1", "--json").json["commits"][0]["move"]["number"] == 0
    assert run("log", "-g", "a", code=2).err


def test_reflog_takes_show_and_all(renamed: list[str], run: Run) -> None:
    assert run("reflog", "show", "main").out == run("reflog", "main").out != ""
    assert run("reflog", "show").out == run("reflog").out
    run("branch", "dev")
    refs = {line.split()[1].split("@")[0] for line in run("reflog", "--all").lines}
    assert refs == {"HEAD", "main", "dev"}


def test_python_has_the_same_ways_of_choosing(renamed: list[str]) -> None:
    with ml.open() as repo:
        assert [c.oid for c in repo.log(paths=["z"], follow=True, reverse=True)] == renamed
        assert [c.subject for c in repo.log(text="second")] == ["four", "two"]


# -- show and cat


def test_cat_and_show_give_a_file_as_json(repo: Path, run: Run, write: Write, keep: Keep) -> None:
    write("pixels.bin", b"\0\1\xff")
    keep("one", note="text\n")
    text, binary = run("cat", "note", "--json").json, run("show", "HEAD:pixels.bin", "--json").json["files"][0]
    assert (text["encoding"], text["content"], text["media"], text["size"]) == ("utf-8", "text\n", "text/plain", 5)
    assert binary["encoding"] == "base64" and base64.b64decode(binary["content"]) == b"\0\1\xff"
    assert binary["path"] == "files/pixels.bin" and len(binary["oid"]) == 64 and binary["media"]
    write("note", "staged")
    run("add", "note")
    assert run("cat", ":note", "--json").json["content"] == "staged"
    run("mv", "note", "moved.csv")
    assert run("cat", ":moved.csv", "--json").json["media"]


def test_show_takes_the_memory_lane(renamed: list[str], run: Run) -> None:
    assert "memory lane of branch 'main' is empty" in run("show", "--memory", code=128).err
    with ml.open() as repo:
        repo.write({"memories/bot/1": b"x"}, "remembered")
    assert run("show", "--memory", "-s", "--format=%s").lines == ["remembered"]
    assert run("show", "--memory", "--json").json["commits"][0]["lane"] == "memory"


def test_details_are_of_the_paths_asked_for(renamed: list[str], run: Run) -> None:
    assert run("log", "-1", "--name-only", "--format=%s", "--", "z").lines == ["four", "", "z"]
    assert run("log", "-1", "--name-only", "--format=%s", "--", "o*").lines == ["four", "", "other"]
    assert run("log", "-1", "--name-only", "--format=%s").lines == ["four", "", "other", "z"]
    found = run("log", "-1", "--stat", "--json", "--", "z").json["commits"][0]["changes"]
    assert [change["path"] for change in found] == ["files/z"]


def test_a_message_and_an_author_are_found_by_a_regular_expression(run: Run, repo: Path, keep: Keep) -> None:
    keep("Tune lr=0.1\n\nbatch 32", a="1\n")
    keep("tune lr[0]", a="2\n")

    def found(*options: str) -> list[str]:
        return run("log", "--format=%s", *options).lines

    assert found("--grep", r"lr=0\.\d") == ["Tune lr=0.1"] and found("--grep", "lr.0") == ["tune lr[0]", "Tune lr=0.1"]
    assert found("--grep", "^batch") == ["Tune lr=0.1"], "by lines"
    assert found("--grep", "Tune") == ["Tune lr=0.1"] and len(found("-i", "--grep", "TUNE")) == 2
    assert found("-F", "--grep", "lr[0]") == ["tune lr[0]"] == found("-F", "-i", "--grep", "LR[0]")
    assert len(found("--author", "^Ada <ada@")) == 2 and found("--author", "ada <") == []
    assert len(found("-i", "--author", "ADA")) == 2 and found("-F", "--author", "A.a") == []


def test_a_pattern_that_is_none_is_refused_with_what_to_do(run: Run, story: dict[str, str]) -> None:
    ran = run("log", "--grep", "lr[", code=128)
    assert "'lr[' is not a regular expression" in ran.err and "-F" in ran.err
    run("log", "-F", "--grep", "lr[")


@pytest.mark.parametrize("verb", ["log", "reflog", "ops"])
@pytest.mark.parametrize("number", ["-5", "five"])
def test_a_number_that_cannot_be_is_named_as_it_was_typed(
    run: Run, story: dict[str, str], verb: str, number: str
) -> None:
    told = run(verb, "-n", number, code=2).err.splitlines()[0]
    least = 1 if verb == "ops" else 0
    assert told.endswith(f"'{number}' is not possible; give a whole number, {least} or more.")


def test_a_count_without_its_letter_still_follows_a_revision(run: Run, story: dict[str, str]) -> None:
    assert len(run("log", "--oneline", "HEAD", "-1").lines) == 1
