"""A repo that somebody sent: its settings run nothing and reach nothing until the user trusts them."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from tests.cli.conftest import Run, Write

BIG = os.urandom(40_000)  # more than stays in repo.db


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test trusts, no other does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))


@pytest.fixture
def sent(repo: Path, run: Run, write: Write) -> Path:
    """A repo of a stranger with a commit, whose pager and editor leave a file behind."""
    run("config", "embedding.provider", "none")
    write("a", "one\n")
    run("add", "a")
    run("commit", "-m", "first")
    ask(repo, core={"pager": f"sh -c 'touch {repo}/PAGER; cat'", "editor": f"touch {repo}/EDITOR"})
    return repo


def ask(repo: Path, **sections: dict[str, str]) -> None:
    """Write settings as a stranger does: into the file, past `memlake config`."""
    text = "".join(
        f"[{section}]\n" + "".join(f'{name} = "{value}"\n' for name, value in names.items())
        for section, names in sections.items()
    )
    (repo / ".memlake/config.toml").write_text(text)


def on_terminal(*args: str) -> str:
    """What a person sees who runs a command at a terminal; nothing is typed."""
    person, program = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-m", "memlake.cli", *args]
    with subprocess.Popen(command, stdin=program, stdout=program, stderr=program, env=env) as process:
        os.close(program)
        seen = b""
        while piece := _read(person):
            seen += piece
        process.wait(60)
    os.close(person)
    return seen.decode()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # how Linux says that nobody has the terminal open any more
        return b""


def left_behind(repo: Path) -> set[str]:
    return {path.name for path in repo.iterdir()} & {"PAGER", "EDITOR"}


def test_a_sent_repo_runs_no_pager_and_no_editor_until_it_is_trusted(sent: Path, run: Run, write: Write) -> None:
    write("b", "two\n")
    run("add", "b")
    shown = on_terminal("--pager", "log")
    assert "first" in shown and left_behind(sent) == set()
    assert "core.editor and core.pager" in shown and shown.count("memlake trust") == 1
    on_terminal("commit", "--allow-empty", "-m", "by hand")
    assert left_behind(sent) == set()

    run("trust", "--yes")
    assert "memlake trust" not in on_terminal("log")
    on_terminal("commit", "--allow-empty")
    assert left_behind(sent) == {"PAGER", "EDITOR"}


def test_trusting_shows_what_each_setting_does_and_asks(sent: Path, run: Run) -> None:
    refused = run("trust", code=2)
    assert f"runs this program to show output:\n    core.pager = sh -c 'touch {sent}/PAGER; cat'" in refused.out
    assert "there is no terminal to ask" in refused.err and "memlake trust --yes" in refused.err
    assert run("trust", "--list").out == ""
    assert "Trusted 2 settings" in run("trust", "--yes").out
    assert run("trust", "--list").out == f"{sent}  (core.editor, core.pager)\n"
    assert run("trust", "--list", "--json").json["trusted"][0]["folder"] == str(sent)
    assert "already" in run("trust").out
    assert "no longer" in run("trust", "--revoke").out
    assert run("trust", "--revoke", code=1).out == ""
    assert "core.pager" in run("log").err


def test_a_value_cannot_forge_the_lines_that_are_asked_about(repo: Path, run: Run) -> None:
    (repo / ".memlake" / "config.toml").write_text('[core]\npager = "evil\\n  editor = vi\\u001b[2J"\n')
    shown = run("trust", code=2).lines
    assert shown[2:] == [r'    core.pager = "evil\n  editor = vi\033[2J"'], "one line, and nothing a terminal acts on"


def test_trust_ends_when_the_file_changes_or_the_repo_is_another(sent: Path, run: Run, tmp_path: Path) -> None:
    run("trust", "--yes")
    assert run("log").err == ""
    text = (sent / ".memlake/config.toml").read_text()
    (sent / ".memlake/config.toml").write_text(text + "# a word more\n")
    assert "core.pager" in run("log").err
    (sent / ".memlake/config.toml").write_text(text)
    assert run("log").err == ""
    with ml.init(tmp_path / "other") as other:
        (other.dir / "config.toml").write_text(text)
    assert "core.pager" in run("-C", "other", "log", code=None).err


def test_what_the_user_sets_is_trusted_unless_the_file_asks_already_for_more(repo: Path, run: Run) -> None:
    run("config", "core.pager", "most")
    run("config", "gc.grace_hours", "12")
    assert run("config", "core.pager").out == "most\n" and run("status").err == ""
    ask(repo, core={"pager": "evil"})
    said = run("config", "core.editor", "nano").err
    assert "core.editor and core.pager" in said and "memlake trust" in said
    assert run("config", "core.editor", code=1).out == ""


def test_a_value_that_does_nothing_and_one_of_the_users_own_need_no_trust(repo: Path, run: Run) -> None:
    run("config", "--user", "core.editor", "nano")
    ask(repo, core={"pager": "cat", "editor": "nano", "packs": ""}, embedding={"provider": "none"})
    assert run("status").err == ""
    assert run("config", "embedding.provider").out == "none\n"


def test_an_empty_value_does_not_take_the_place_of_the_users_own_until_it_is_trusted(repo: Path, run: Run) -> None:
    run("config", "--user", "embedding.url", "http://localhost:8000/v1")
    (repo / ".memlake/config.toml").write_text('[embedding]\nurl = ""\n')
    assert run("config", "embedding.url").out.strip() == "http://localhost:8000/v1"
    assert 'embedding.url = ""' in run("trust", "--yes").out
    assert run("config", "embedding.url", code=1).out == ""


def test_the_list_of_settings_shows_what_is_ignored(sent: Path, run: Run) -> None:
    shown = run("config", "--list").out
    assert re.search(
        r"^core\.editor=\n  ignored: touch .*EDITOR  \(from the repo, which you do not trust: memlake trust\)",
        shown,
        re.M,
    )
    rows = {row["key"]: row for row in run("config", "--list", "--json").json["settings"]}
    assert rows["core.pager"]["ignored"].startswith("sh -c") and rows["core.pager"]["origin"] == "default"
    assert rows["color.ui"]["ignored"] == ""


def test_a_grant_names_no_path_that_a_stranger_chose(tmp_path: Path, run: Run, repo: Path) -> None:
    ask(repo, core={"pager": "evil"})
    with pytest.warns(UserWarning, match="core.pager"), ml.open(repo) as opened:
        opened._history.db.run("UPDATE meta SET value = '../../../../evil' WHERE key = 'id'")
    assert "no repository id" in run("trust", "--yes", code=128).err
    assert not list(tmp_path.rglob("evil*"))


def test_the_note_on_ignored_settings_takes_two_lines_of_a_terminal_at_most(sent: Path, run: Run) -> None:
    said = run("log").err
    assert said.startswith("warning: until you trust this repo, memlake ignores its core.editor and core.pager.")
    assert len(said) <= 2 * 80 and said.endswith(": memlake trust\n")
    names = ("core.editor", "core.packs", "core.pager", "embedding.model", "embedding.provider", "embedding.url")
    assert "core.editor and 5 more" in config.describe_ignored(sent, dict.fromkeys(names, ""))


def test_in_python_the_same_settings_are_ignored_with_one_warning(sent: Path) -> None:
    with pytest.warns(UserWarning, match=r"core\.editor and core\.pager.*memlake trust") as noted:
        repo = ml.open(sent)
    with repo:
        assert repo.config.in_force.core_pager == "" and repo.config.get("core.editor") is None
        assert repo.config.items()["core.pager"] == ""
    assert len(noted) == 1


# -- packs elsewhere


@pytest.fixture
def far(repo: Path, run: Run, write: Write, tmp_path: Path) -> Path:
    """A repo whose packs lie in another folder, with one file in them, as it comes to somebody else."""
    run("config", "core.packs", str(tmp_path / "disk"))
    write("big", BIG)
    run("add", "big")
    run("commit", "-m", "big")
    run("trust", "--revoke")
    return repo


def test_packs_in_a_place_nobody_trusted_are_neither_read_nor_started_anew(far: Path, run: Run, write: Write) -> None:
    assert "big" in run("log").out and "big" in run("ls").out
    for args in (("cat", "big"), ("add", "-A"), ("remember", "tea"), ("gc",), ("backup", "b.tar")):
        write("big", os.urandom(40_000))
        refused = run(*args, code=128).err
        assert f"keeps its packs in {far}/disk" in refused and "memlake trust" in refused, args
    assert list((far / ".memlake/packs").iterdir()) == []
    run("trust", "--yes")
    run("restore", "big")
    assert (far / "big").read_bytes() == BIG


def test_the_users_own_packs_are_not_taken_for_those_of_the_repo(far: Path, run: Run, tmp_path: Path) -> None:
    run("config", "--user", "core.packs", str(tmp_path / "mine"))
    assert "keeps its packs in" in run("cat", "big", code=128).err
    assert not (tmp_path / "mine").exists()


# -- backups


def test_a_setting_under_a_quoted_key_is_unknown_and_keeps_no_backup_from_being_made(tmp_path: Path) -> None:
    with ml.init(tmp_path / "repo") as repo:
        file = repo.dir / "config.toml"
        quoted = '"core.pager" = "evil"\n'
        for text, kept in ((quoted, {}), (quoted + '[core]\npager = "y"\n', {"core.pager": "y"})):
            file.write_text(text)
            with pytest.warns(UserWarning, match="unknown setting \"'core.pager'\", which memlake ignores"):
                assert config.read_in_force(repo.dir).ignored == kept
            assert config.without_acting(repo.dir)[1] == kept
        file.write_text(quoted)
        repo.upkeep.backup(tmp_path / "b.tar")


def test_a_backup_carries_no_setting_that_acts_and_says_so(far: Path, run: Run, tmp_path: Path) -> None:
    run("trust", "--yes")
    run("config", "gc.grace_hours", "12")
    run("config", "core.pager", "sh -c 'less; touch x'")
    told = run("backup", "b.tar").err
    assert "core.packs, core.pager" in told and "packs are not in the backup" in told
    (tmp_path / "restored").mkdir()
    subprocess.run(["tar", "-xf", "b.tar", "-C", "restored"], check=True)
    assert (tmp_path / "restored/.memlake/config.toml").read_text().split() == [
        "[core]",
        "[gc]",
        "grace_hours",
        "=",
        "12.0",
    ]
    os.chdir("restored")
    again = [shlex.split(line)[1:] for line in told.partition("run: ")[2].split(" && ")]
    for command in again:
        run(*command)
    run("reset", "--hard")
    assert (tmp_path / "restored/big").read_bytes() == BIG and run(
        "config", "core.pager"
    ).out == "sh -c 'less; touch x'\n"
