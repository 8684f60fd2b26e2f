"""Advice is tried: each hint is raised by a real command line, the command it names is run as printed, and works.

`tests/hints.py` lists every command that the source names. Each has a situation, or a reason in `EXCUSED`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import hints
from tests.cli.conftest import Ran, Run
from tests.cli.situations import EXCUSED, SITUATIONS, Situation, Step
from tests.test_hints import HINTS

Keep = Callable[..., str]
Write = Callable[..., Path]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_the_command_that_a_hint_names_works_where_it_is_given(
    situation: Situation, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if situation.repo:
        run("init")
    for step in situation.setup if isinstance(situation.setup, tuple) else (situation.setup,):
        do(step, run, tmp_path)
    for name, value in situation.env.items():
        monkeypatch.setenv(name, value)
    told = type_line(situation.command, run)
    assert (told.code == 0) == situation.works, told
    advised = find_advised(told.out + told.err, situation)
    for word, known in situation.fill.items():
        advised = advised.replace(word, known)
    do(situation.first, run, tmp_path)
    there = "-C d " if situation.command.startswith("-C d ") else ""
    done = type_line(there + advised.removeprefix("memlake "), run)
    assert done.code == situation.code and situation.shows in done.out + done.err, f"{advised}: {done}"
    if situation.again:
        again = type_line(situation.command, run)
        assert again.code == 0, f"after {advised}: {again}"
    do(situation.then, run, tmp_path)


def test_every_hint_is_tried_or_there_is_a_reason_why_not() -> None:
    tried = {find_hint(situation.line, situation.advised).key for situation in SITUATIONS}
    excused = {find_hint(*line).key if isinstance(line, tuple) else find_hint(line).key for line in EXCUSED}
    known = {hint.key for hint in HINTS if hint.module != hints.EXAMPLES}
    untried = sorted(known - tried - excused)
    assert not untried, "neither tried nor excused:\n" + "\n".join(
        f"{line!r}, {advised!r}" for line, advised in untried
    )
    assert not tried & excused, f"tried, so not to be excused: {sorted(tried & excused)}"


def test_memories_of_a_project_are_brought_by_the_pipe_that_init_prints(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my data"))
    project = tmp_path / "p 1"
    (project / ".git").mkdir(parents=True)
    run("config", "--user", "embedding.provider", "none")
    run("-C", str(project), "remember", "The port is 1313")
    pipe = run("init", str(project)).err.splitlines()[-1]
    typed = pipe.replace("memlake -C", f"{shlex.quote(sys.executable)} -m memlake.cli -C")
    subprocess.run(["sh", "-ec", typed], check=True, capture_output=True, cwd=tmp_path)
    assert "1313" in run("-C", str(project), "recall", "port").out


# -- how a situation is played --------------------------------------------------------------------


def do(step: Step, run: Run, root: Path) -> None:
    if callable(step):
        step(root)
        return
    for line in filter(None, map(str.strip, step.split(";"))):
        if found := re.match(r"([^\s=-][^\s=]*)=", line):
            path = root / found[1].replace("+", " ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(line[found.end() :].replace("|", "\n") + "\n")
        elif line.startswith("keep "):
            run("add", "-A")
            run("commit", "-m", line.removeprefix("keep "))
        elif line.startswith("!"):
            assert type_line(line[1:], run).code, f"{line[1:]} was to fail"
        else:
            told = type_line(line, run)
            assert told.code == 0, f"memlake {line}: {told}"


def type_line(line: str, run: Run) -> Ran:
    """As a user types it; `$MEMORY` is the id of the first memory, `$COMMIT` the last commit of memories, `$SHARED` a
    folder outside the repo.
    """
    line = line.replace("$SHARED", f"{Path.cwd()}.shared")
    if "$" in line:
        log = run("memory", "log").out.splitlines()
        line = line.replace("$MEMORY", log[-1].split()[-1]).replace("$COMMIT", log[0].split()[0])
        line = line.replace("$OTHER", log[-2].split()[-1]) if "$OTHER" in line else line
    return run(*shlex.split(line), code=None)


def find_advised(printed: str, situation: Situation) -> str:
    """The command that a printed line advises, as printed."""
    hint = find_hint(situation.line, situation.advised)
    before, _, after = hint.line.partition(hint.command)
    is_quoted, is_alone = before[-1:] in ("`", '"'), hint.line == hint.command
    end = "" if is_quoted else ".*$" if is_alone else r"[\s.)]*$"
    line = rf"{_pattern(before)}(?P<it>{_pattern(hint.command)}{end * is_alone}){_pattern(after)}{end}"
    found = re.search(line, printed, re.MULTILINE)
    assert found, f"no line like {hint.line!r} in\n{printed}"
    return found["it"].strip()


def _pattern(template: str) -> str:
    """What a template prints: a value is anything in one line."""
    return ".*?".join(map(re.escape, hints.VALUE.split(template)[::2]))


def find_hint(line: str, advised: str = "") -> hints.Hint:
    found = [hint for hint in HINTS if hint.key[0] == line and advised in ("", hint.key[1])]
    assert len({hint.key for hint in found}) == 1, f"{len(found)} hints of the source are {line!r}, {advised!r}"
    return found[0]


# -- what else messages promise -------------------------------------------------------------------


def test_a_pick_that_was_declined_says_that_it_no_longer_waits(run: Run, repo: Path, keep: Keep) -> None:
    keep("base", a="1\n")
    run("switch", "-c", "dev")
    picked = keep("dev", a="2\n")
    run("switch", "main")
    keep("main", a="3\n")
    run("cherry-pick", picked, code=1)
    run("merge", "--ours", "a")
    told = run("cherry-pick", "--continue", code=1).err
    assert "No commit was made" in told
    assert run("status", "--json").json["doing"] is None


def test_amend_to_an_empty_commit_is_refused_unless_asked_for(run: Run, repo: Path, keep: Keep, write: Write) -> None:
    keep("one", a="1\n")
    keep("two", a="2\n")
    write("a", "1\n")
    run("add", "a")
    assert "would change nothing" in run("commit", "--amend", "-m", "none", code=1).err
    run("commit", "--amend", "-m", "none", "--allow-empty")


def test_log_as_json_has_the_values_of_metrics_and_params(run: Run, repo: Path, write: Write) -> None:
    write("a", "1")
    run("add", "a")
    write("m.json", '{"per": {"a": 1}, "acc": 0.5}')
    run("commit", "-m", "one", "--metrics-file", "m.json", "--param", "lr=1")
    commit = run("log", "--json").json["commits"][0]
    assert commit["metrics"] == {"acc": 0.5, "per": {"a": 1}} and commit["params"] == {"lr": 1}
    assert 'per={"a": 1}' in run("log").out


def test_the_help_of_purge_says_that_messages_and_names_stay_and_they_do(run: Run, repo: Path, keep: Keep) -> None:
    keep("message-zq7", name__zq8="content-zq9\n")
    run("purge", "--all-versions", "name/zq8", "--reason", "test", "-y")
    kept = b"".join(file.read_bytes() for file in (repo / ".memlake").glob("repo.db*"))
    assert b"message-zq7" in kept and b"zq8" in kept and b"content-zq9" not in kept
    assert "A purge cannot erase names" in run("purge", "--help").out


def test_small_words(run: Run, repo: Path, keep: Keep, tmp_path: Path) -> None:
    keep("one", a="1\n")
    assert "only 0 commits can be counted back" in run("show", "HEAD~1", code=None).err
    told = run("backup", str(tmp_path / "no" / "x.tar"), code=128).err
    assert f"there is no folder {tmp_path / 'no'}" in told and f"mkdir -p {tmp_path / 'no'}" in told
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "a:b\n").write_text("x")
    told = run("add", ".", code=None).err  # the link is left out
    assert "Rename it" in told and "Make the link relative" not in told
    assert "Make the link relative" in run("add", "link", code=None).err
