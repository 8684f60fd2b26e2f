"""rev-parse and describe, as scripts use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run

Keep = Callable[..., str]


def test_rev_parse_prints_whole_ids(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "a").write_text("1")
    first = keep("one")[:10]
    (repo / "a").write_text("2")
    second = keep("two")[:10]
    head = run("rev-parse", "HEAD").lines[0]
    assert len(head) == 64 and head.startswith(second)
    assert run("rev-parse", "--short", "HEAD~1..HEAD").lines == [second, f"^{first}"]
    assert run("rev-parse", "^HEAD").lines == [f"^{head}"]
    assert run("rev-parse", "--abbrev-ref", "HEAD").lines == ["main"]
    assert run("rev-parse", "HEAD:a").lines == run("ls-files", "-s").out.split()[1:2]
    assert run("rev-parse", "--show-toplevel", "--repo-dir").lines == [str(repo), str(repo / ".memlake")]


def test_rev_parse_tells_by_its_exit_code(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "a").write_text("1")
    keep("one")
    quiet = run("rev-parse", "--verify", "-q", "nope", code=1)
    assert quiet.out == quiet.err == ""
    assert "unknown rev 'nope'" in run("rev-parse", "nope", code=128).err
    run("rev-parse", "--verify", code=2)


def test_describe_counts_from_the_nearest_tag(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "a").write_text("1")
    first = keep("one")[:10]
    assert "no tag is at or before it" in run("describe", code=128).err
    assert run("describe", "--always").lines == [first]
    run("tag", "v1")
    assert run("describe").lines == ["v1"] and run("describe", "--long").lines == [f"v1-0-{first}"]
    (repo / "a").write_text("2")
    assert run("describe", "--dirty").lines == ["v1-dirty"]
    second = keep("two")[:10]
    assert run("describe", "--tags").lines == [f"v1-1-{second}"] and run("describe", "--abbrev", "0").lines == ["v1"]
    assert run("describe", "--exact-match", code=128).err
    run("tag", "nightly")
    assert run("describe", "--match", "v*", "--json").json["ahead"] == 1
    assert "no tag matches" in run("describe", "--match", "x*", code=128).err


def test_describe_takes_the_tag_with_the_fewest_commits_between(run: Run, repo: Path, keep: Keep) -> None:
    (repo / "a").write_text("1")
    keep("one")
    run("tag", "far")
    run("switch", "-c", "dev")
    for number in range(3):
        (repo / "d").write_text(str(number))
        keep(f"dev {number}")
    run("switch", "main")
    (repo / "m").write_text("m")
    keep("main")
    run("tag", "near")
    run("merge", "dev", "-m", "join")
    assert run("describe").lines[0].startswith("near-4-")
