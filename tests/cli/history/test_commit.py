"""commit, log, show, cat, ls, blame, reflog on real repos."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Write

Keep = Callable[..., str]


# -- commit


def test_commit_says_where_what_and_how_much(run: Run, repo: Path, write: Write) -> None:
    write("a", "1\n")
    write("b", "2\n")
    run("add", ".")
    first = run("commit", "-m", "first", "-m", "body").lines
    oid = run("log", "--json").json["commits"][0]["oid"]
    assert first == [f"[main (root-commit) {oid[:10]}] first", " 2 files changed: 2 added"]
    write("a", "changed\n")
    assert run("commit", "-a", "-m", "second").lines[1] == " 1 file changed: 1 modified"
    assert run("log", "-1", "--skip", "1", "--json").json["commits"][0]["message"] == "first\n\nbody"


def test_commit_of_nothing_exits_with_one(run: Run, story: dict[str, str]) -> None:
    ran = run("commit", "-m", "x", code=1)
    assert "nothing to commit" in ran.err and "Traceback" not in ran.err
    run("commit", "--allow-empty", "-m", "x")
    assert len(run("log", "--json").json["commits"]) == 3


def test_commit_without_a_message_and_without_a_terminal_says_how(run: Run, story: dict[str, str]) -> None:
    ran = run("commit", code=1)
    assert ran.err.startswith("there is no message.") and "hint: Give one with -m" in ran.err


def test_commit_of_paths_keeps_only_those_as_they_are_now_and_leaves_the_stage_alone(
    run: Run, story: dict[str, str], repo: Path, write: Write
) -> None:
    write("a", "now\n")
    write("data/b", "staged\n")
    run("add", "data/b")
    write("new", "n")
    run("add", "new")
    assert run("commit", "-m", "only a", "a").lines[1] == " 1 file changed: 1 modified"
    assert run("show", "HEAD:a").out == "now\n"
    assert run("status", "--short").lines == ["M  data/b", "A  new"]
    run("undo")
    assert "M  data/b" in run("status", "--short").lines and "A  new" in run("status", "--short").lines
    run("redo")
    run("commit", "-m", "the folder", "data")
    assert run("status", "--short").lines == ["A  new"]
    run("commit", "-m", "x", "-a", "a", code=2)
    ran = run("commit", "-m", "x", "a", "nowhere", code=1)
    assert "'nowhere' matches nothing that is tracked" in ran.err
    assert run("commit", "-m", "x", "untracked", code=1).err.startswith("error: ")


def test_commit_of_paths_takes_a_removed_file_too(run: Run, story: dict[str, str], repo: Path) -> None:
    (repo / "a").unlink()
    run("commit", "-m", "gone", "a")
    assert [line.split()[-1] for line in run("ls").lines] == ["data/b"]


def test_a_waiting_merge_is_committed_whole(run: Run, story: dict[str, str], write: Write) -> None:
    run("switch", "-c", "side", "HEAD~1")
    write("a", "side\n")
    run("commit", "-am", "side")
    run("merge", "main", code=1)
    assert "is committed whole" in run("commit", "-m", "x", "a", code=128).err


def test_commit_opens_the_editor_that_memlake_was_given(
    run: Run, story: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write("editor.sh", '#!/bin/sh\ncp "$1" seen\nprintf "from the editor\\n# not this\\n\\nbody\\n" > "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("MEMLAKE_EDITOR", str(script))
    run("add", "editor.sh")
    run("commit")
    assert run("log", "-1", "--json").json["commits"][0]["message"] == "from the editor\n\nbody"
    assert "# On branch main" in Path("seen").read_text() and "new file:   editor.sh" in Path("seen").read_text()


def test_an_empty_message_from_the_editor_stops_the_commit(
    run: Run, story: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLAKE_EDITOR", "true")
    write("a", "x")
    ran = run("commit", "-a", code=1)
    assert "empty" in ran.err
    assert run("log", "-1", "--json").json["commits"][0]["oid"] == story["two"]


def test_commit_reads_its_message_from_a_file(run: Run, story: dict[str, str], write: Write) -> None:
    write("msg", "from a file\n\nmore\n")
    run("commit", "--allow-empty", "-F", "msg")
    assert run("log", "-1", "--oneline").lines[0].endswith("from a file")
    run("commit", "--allow-empty", "-F", "msg", "-m", "x", code=2)
    run("commit", "--allow-empty", "-F", "nowhere", code=128)


def test_amend_replaces_the_last_commit_and_keeps_its_message(run: Run, story: dict[str, str], write: Write) -> None:
    write("a", "better\n")
    run("commit", "-a", "--amend")
    commits = run("log", "--json").json["commits"]
    assert [commit["message"] for commit in commits] == ["second", "first"] and commits[0]["oid"] != story["two"]
    run("commit", "--amend", "-m", "reworded")
    assert run("log", "-1", "--oneline").lines[0].endswith("reworded")


def test_the_author_can_be_someone_else(run: Run, story: dict[str, str]) -> None:
    run("commit", "--allow-empty", "-m", "x", "--author", "Grace Hopper <grace@navy.mil>")
    assert run("log", "-1", "--json").json["commits"][0]["author"] == {
        "name": "Grace Hopper",
        "email": "grace@navy.mil",
    }
    assert run("commit", "--allow-empty", "-m", "x", "--author", "Grace", code=128).err.startswith("fatal: ")


@pytest.mark.parametrize("pair", ["acc=abc", "acc=", "acc=null", "acc=NaN", "acc=1e999", "acc=[1]", "acc=0,5"])
def test_a_metric_that_is_not_a_number_is_refused(run: Run, story: dict[str, str], pair: str) -> None:
    told = run("commit", "--allow-empty", "-m", "x", "--metric", pair, code=2).err
    assert f"--metric {pair} is not a number" in told
    assert run("log", "-1", "--format=%s").lines != ["x"]


def test_a_name_given_twice_is_refused(run: Run, story: dict[str, str]) -> None:
    for option in ("--metric", "--param"):
        told = run("commit", "--allow-empty", "-m", "x", option, "a=1", option, "a=2", code=2).err
        assert f"{option} gives a twice, as 1 and as 2" in told
    run("commit", "--allow-empty", "-m", "x", "--metric", "a=1", "--metric", "passed=true", "--param", "a=text")


def test_metrics_params_and_uses_are_kept_with_the_commit(run: Run, story: dict[str, str], write: Write) -> None:
    write("metrics.json", json.dumps({"loss": 0.5, "acc": 0.1}))
    write("params.toml", "lr = 0.001\noptimizer = 'adam'\n")
    write("model", "weights")
    run("add", "model")
    run(
        *("commit", "-m", "train", "--uses", "data/b", "--uses", "a@HEAD~1", "--metric", "acc=0.93"),
        *("--param", "epochs=3", "--metrics-file", "metrics.json", "--params-file", "params.toml"),
    )
    shown = run("show", "--json").json["commits"][0]
    assert shown["metrics"] == {"loss": 0.5, "acc": 0.93}
    assert shown["params"] == {"lr": 0.001, "optimizer": "adam", "epochs": 3}
    assert len(shown["uses"]) == 2
    assert run("commit", "--allow-empty", "-m", "x", "--metric", "acc", code=2).err.startswith("error: ")
    write("bad.json", "{")
    assert "not valid JSON" in run("commit", "--allow-empty", "-m", "x", "--metrics-file", "bad.json", code=128).err
    write("list.json", "[1]")
    run("commit", "--allow-empty", "-m", "x", "--metrics-file", "list.json", code=128)


# -- log


def test_the_full_log_looks_like_gits(run: Run, story: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    lines = run("log").lines
    monkeypatch.undo()
    time.tzset()
    assert lines[0] == f"commit {story['two']}"
    assert lines[1] == "Author: Ada <ada@example.org>"
    assert lines[2].startswith("Date:   ") and lines[2].endswith("+0100")
    assert lines[3:6] == ["", "    second", ""]
    assert lines[6] == f"commit {story['one']}"


def test_oneline_limits_and_skips(run: Run, story: dict[str, str]) -> None:
    assert run("log", "--oneline").lines == [f"{story['two'][:10]} second", f"{story['one'][:10]} first"]
    assert run("log", "--oneline", "-1").lines == run("log", "--oneline", "-n", "1").lines
    assert run("log", "--oneline", "-n1", "--skip", "1").lines == [f"{story['one'][:10]} first"]
    assert run("log", "--oneline", "-0").lines == []


def test_log_takes_revisions_ranges_and_paths(run: Run, story: dict[str, str]) -> None:
    assert run("log", "--oneline", "HEAD~1").lines == [f"{story['one'][:10]} first"]
    assert run("log", "--oneline", "HEAD~1..HEAD").lines == [f"{story['two'][:10]} second"]
    assert run("log", "--oneline", "--", "data").lines == [f"{story['one'][:10]} first"]
    assert run("log", "--oneline", "data/b").lines == [f"{story['one'][:10]} first"]
    assert run("log", "--oneline", "HEAD", "--", "a").lines[0].endswith("second")
    assert run("log", "--oneline", "HEAD~1", "HEAD").lines == run("log", "--oneline").lines
    assert run("log", "--oneline", "^HEAD~1", "HEAD").lines == [f"{story['two'][:10]} second"]


def test_log_follows_a_path_that_is_gone(run: Run, story: dict[str, str]) -> None:
    run("rm", "a")
    run("commit", "-m", "gone")
    assert [line.split()[1] for line in run("log", "--oneline", "--", "a").lines] == ["gone", "second", "first"]


def test_log_filters_by_author_message_and_time(run: Run, story: dict[str, str]) -> None:
    run("commit", "--allow-empty", "-m", "third", "--author", "Grace <g@x>")
    assert run("log", "--oneline", "--author", "Grace").lines[0].endswith("third")
    assert len(run("log", "--oneline", "--author", "Grace").lines) == 1
    assert len(run("log", "--oneline", "--grep", "sec").lines) == 1
    assert len(run("log", "--oneline", "--since", "1 hour ago").lines) == 3
    assert run("log", "--oneline", "--until", "1 hour ago").lines == []
    assert run("log", "--since", "gibberish", code=128).err.startswith("fatal: ")


def test_log_shows_what_each_commit_changed(run: Run, story: dict[str, str]) -> None:
    assert run("log", "--name-status", "--oneline").lines == [
        f"{story['two'][:10]} second",
        "M\ta",
        f"{story['one'][:10]} first",
        "A\ta",
        "A\tdata/b",
    ]
    assert " a | 1 +" in run("log", "--stat").out
    assert "+two" in run("log", "-p", "-1").lines and "-two" not in run("log", "-p").out
    assert run("log", "--name-only", "--oneline", "-1").lines[1:] == ["a"]


def test_the_graph_shows_a_merge(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("switch", "-c", "side")
    keep("on side", s="1")
    run("switch", "main")
    keep("on main", m="1")
    run("merge", "side", "-m", "joined")
    drawn = [line.split(" ")[0:2] for line in run("log", "--oneline", "--graph").lines]
    assert run("log", "--oneline", "--graph").lines[0].startswith("* ")
    assert ["|\\"] in drawn and ["|/"] in drawn
    filtered = run("log", "--oneline", "--graph", "--", "s", "a").lines
    assert [line for line in filtered if "|" in line] == [], "one line of history touched these"
    ranged = run("log", "--oneline", "--graph", "main~1..main").lines
    assert len([line for line in ranged if "*" in line]) == 2
    assert run("log", "--oneline", "--graph", "^main~1", "main").lines == ranged
    assert len([line for line in run("log", "--graph").lines if "commit" in line]) == 5


def test_all_reaches_every_branch(run: Run, story: dict[str, str], keep: Keep) -> None:
    run("switch", "-c", "side")
    keep("on side", s="1")
    run("switch", "main")
    assert len(run("log", "--oneline").lines) == 2
    assert len(run("log", "--oneline", "--all").lines) == 3


def test_names_are_shown_when_asked(run: Run, story: dict[str, str]) -> None:
    run("tag", "v1", "HEAD~1")
    assert run("log", "--oneline", "--decorate").lines == [
        f"{story['two'][:10]} (HEAD -> main) second",
        f"{story['one'][:10]} (tag: v1) first",
    ]


def test_the_json_log_is_one_document_with_whole_ids(run: Run, story: dict[str, str]) -> None:
    found = run("log", "--json").json
    assert found["schema_version"] == 1
    assert [commit["oid"] for commit in found["commits"]] == [story["two"], story["one"]]
    assert found["commits"][0]["parents"] == [story["one"]] and found["commits"][0]["lane"] == "work"
    assert run("log", "--json", "--name-status").json["commits"][0]["changes"][0]["path"] == "files/a"


def test_log_before_the_first_commit_is_fatal(run: Run, repo: Path) -> None:
    assert run("log", code=128).err.startswith("fatal: your current branch 'main' has no commits yet.\nhint: ")


def test_an_unknown_revision_gets_a_suggestion(run: Run, story: dict[str, str]) -> None:
    run("branch", "experiment-1")
    ran = run("log", "experimnt-1", code=128)
    assert ran.err.startswith("fatal: ") and "Did you mean 'experiment-1'?" in ran.err


def test_a_word_that_is_both_a_branch_and_a_file_must_be_told_apart(
    run: Run, story: dict[str, str], write: Write
) -> None:
    write("main", "a file")
    assert "--" in run("log", "main", code=128).err
    assert run("log", "--oneline", "main", "--").lines and run("log", "--oneline", "--", "main").lines == []


# -- show


def test_show_prints_the_commit_with_its_patch(run: Run, story: dict[str, str]) -> None:
    lines = run("show").lines
    assert lines[0] == f"commit {story['two']}" and "diff --git a/a b/a" in lines and "+two" in lines
    assert "+two" not in run("show", "--stat").lines
    assert run("show", "--name-status", "--oneline", "HEAD~1").lines[1:] == ["A\ta", "A\tdata/b"]
    assert run("show", "-s", "--oneline").lines == [f"{story['two'][:10]} second"]


def test_show_of_a_rev_and_path_prints_the_file(run: Run, story: dict[str, str]) -> None:
    assert run("show", "HEAD~1:a").out == "one\n"
    assert run("-C", "data", "show", "HEAD:a").out == "one\ntwo\n"
    assert run("-C", "data", "show", "HEAD:./b").out == "x,y\n1,2\n"
    run("show", "HEAD:nothing", code=128)


def test_show_of_an_annotated_tag_has_its_message(run: Run, story: dict[str, str]) -> None:
    run("tag", "-a", "v1", "-m", "the first release")
    out = run("show", "v1").out
    assert out.startswith("tag v1\nTagger: Ada <ada@example.org>\n") and "the first release" in out


def test_show_as_json_has_changes(run: Run, story: dict[str, str]) -> None:
    found = run("show", "HEAD~1", "--json").json
    assert [change["path"] for change in found["commits"][0]["changes"]] == ["files/a", "files/data/b"]
    assert found["files"] == []


# -- cat, ls, blame


def test_cat_prints_any_version(run: Run, story: dict[str, str]) -> None:
    assert run("cat", "a").out == "one\ntwo\n"
    assert run("cat", "a", "HEAD~1").out == "one\n"
    assert run("cat", "HEAD~1:a").out == "one\n"
    assert run("-C", "data", "cat", "b").out == "x,y\n1,2\n"
    assert run("cat", "missing", code=128).err.startswith("fatal: ")


def test_ls_lists_the_paths_of_a_commit(run: Run, story: dict[str, str], keep: Keep) -> None:
    keep("third", c="3")
    assert run("ls").lines == ["a", "c", "data/b"]
    assert run("ls", "HEAD~1").lines == ["a", "data/b"]
    assert run("ls", "data").lines == ["data/b"]
    assert run("ls", "HEAD~1", "data").lines == ["data/b"]
    assert run("-C", "data", "ls").lines == ["b"]
    assert run("ls", "HEAD~1:data").lines == ["data/b"]
    assert run("ls", "nothing", code=128).err.startswith("fatal: ")


def test_ls_in_long_form_has_size_kind_and_media(run: Run, story: dict[str, str], keep: Keep) -> None:
    keep("csv", t__x="not", table="x\n")
    long = run("ls", "-l", "a").lines[0].split()
    assert long[1] == "file" and long[2:4] == ["8", "B"] and long[-1] == "a"
    found = run("ls", "--json").json
    assert found["schema_version"] == 1
    assert {entry["path"]: entry["size"] for entry in found["entries"]}["files/a"] == 8
    assert "media" not in found["entries"][0] and "media" in run("ls", "-l", "--json").json["entries"][0]


def test_blame_names_the_commit_of_each_line(run: Run, story: dict[str, str]) -> None:
    lines = run("blame", "a").lines
    assert lines[0].startswith(f"{story['one'][:10]} (Ada ") and lines[0].endswith("1) one")
    assert lines[1].startswith(f"{story['two'][:10]} (Ada ") and lines[1].endswith("2) two")
    assert len(run("blame", "HEAD~1", "a").lines) == len(run("blame", "a", "HEAD~1").lines) == 1
    assert len(run("blame", "HEAD~1", "--", "a").lines) == 1
    found = run("blame", "a", "--json").json
    assert [line["commit"] for line in found["lines"]] == [story["one"], story["two"]]
    run("blame", "missing", code=128)
    run("blame", code=2)


# -- reflog


def test_the_reflog_shows_where_head_has_been(run: Run, story: dict[str, str]) -> None:
    run("reset", "--hard", "HEAD~1")
    lines = run("reflog").lines
    assert lines[0].startswith(f"{story['one'][:10]} HEAD@{{0}}: reset")
    assert lines[1].startswith(f"{story['two'][:10]} HEAD@{{1}}: commit")
    assert len(run("reflog", "-2").lines) == 2
    found = run("reflog", "main", "--json").json
    assert found["moves"][0]["new"] == story["one"] and found["moves"][0]["ref"] == "main"
    run("reset", "--hard", "HEAD@{1}")
    assert run("log", "--oneline").lines[0].endswith("second")


def test_two_files_of_two_commits_are_compared(run: Run, story: dict[str, str], write: Write) -> None:
    lines = run("diff", "HEAD~1:a", "HEAD:a").lines
    assert lines[0] == "diff --git a/a b/a" and lines[-1] == "+two"
    assert run("diff", "HEAD~1:a", "HEAD:data/b").lines[2:4] == ["--- a/a", "+++ b/data/b"]
    assert run("diff", "HEAD:a", "HEAD:a", "--exit-code").out == ""
    assert run("diff", "--name-status", "HEAD~1:a", "HEAD:data/b", "--exit-code", code=1).lines == ["M\tdata/b"]
    write("a", "mine\n")
    assert run("diff", "HEAD~1:a", "a").lines[-2:] == ["-one", "+mine"]
    assert "'nope'" in run("diff", "HEAD:nope", "HEAD:a", code=128).err


def test_blame_shows_some_lines_and_refuses_what_has_none(run: Run, story: dict[str, str], write: Write) -> None:
    assert [line.split(") ")[1] for line in run("blame", "-L", "2,2", "a").lines] == ["two"]
    assert [line["line"] for line in run("blame", "-L", "1,+1", "a", "--json").json["lines"]] == [1]
    assert len(run("blame", "-L", ",2", "a").lines) == len(run("blame", "-L", "1,", "a").lines) == 2
    assert "only 2 lines" in run("blame", "-L", "3,4", "a", code=128).err
    run("blame", "-L", "x", "a", code=2)
    write("pixels", b"\0\1")
    run("add", "pixels")
    run("commit", "-m", "pixels")
    ran = run("blame", "pixels", code=128)
    assert "'pixels' is not text" in ran.err and "memlake log -- pixels" in ran.err
