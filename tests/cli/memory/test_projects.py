"""Memories say which project they belong to: in the personal repo nothing crosses from one project to another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake import projects
from memlake.cli.hook import events
from tests.cli.conftest import Run
from tests.conftest import SetClock

Hook = Callable[..., str]


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def git_repo(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def two(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two git projects without a repo of memlake, of one person."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    run("config", "--user", "embedding.provider", "none")
    return git_repo(tmp_path / "p1"), git_repo(tmp_path / "p2")


@pytest.fixture
def hook(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hook:
    """`hook(folder, "prompt", prompt="...")`: the contents it puts before the agent."""

    def called(folder: Path, event: str, **given: Any) -> list[str]:
        capsys.readouterr()
        monkeypatch.chdir(folder)
        text = events.EVENTS[event]({"cwd": str(folder), **given}, "claude") or ""
        return [json.loads(line)["content"] for line in text.splitlines()[1:]]

    return called


def at(run: Run, folder: Path) -> Run:
    return lambda *args, **how: run("-C", str(folder), *args, **how)


def name(folder: Path) -> str:
    return projects.find_place(folder).project


# -- the personal repo


def test_two_projects_without_a_repo_do_not_correct_each_others_facts(run: Run, two: tuple[Path, Path]) -> None:
    one, other = (at(run, folder) for folder in two)
    assert "Remembered" in one("remember", "The dev server listens on port 1313").out
    assert "Remembered" in other("remember", "The dev server listens on port 5173").out
    hits = one("recall", "dev server port", "--json").json["hits"]
    assert [(hit["content"][-4:], hit["project"]) for hit in hits] == [("1313", name(two[0]))]
    assert other("recall", "dev server port", "--json").json["hits"][0]["content"].endswith("5173")
    assert "Corrected" in one("remember", "The dev server listens on port 1414").out
    assert "5173" in other("recall", "dev server port").out


def test_a_fact_of_no_project_is_seen_everywhere_and_corrected_by_none_of_them(
    run: Run, two: tuple[Path, Path], home: Path
) -> None:
    run("-C", str(home), "remember", "The user's phone is 1111")
    at(run, two[0])("remember", "The user's phone is 2222")
    found = at(run, two[1])("recall", "user's phone", "--json").json["hits"]
    assert [(hit["content"][-4:], hit["project"]) for hit in found] == [("1111", "")]
    assert "Known already" in at(run, two[0])("remember", "--personal", "The user's phone is 1111").out


def test_show_tells_the_project_and_recall_is_narrowed_to_one(run: Run, two: tuple[Path, Path]) -> None:
    (two[0] / "sub").mkdir()
    here = at(run, two[0] / "sub")
    done = here("remember", "The dev server listens on port 1313")
    assert f"project {two[0]}" in done.err
    assert f"project:        {name(two[0])}" in here("memory", "show", done.out.split()[-1]).lines
    at(run, two[1])("remember", "The test server listens on port 5173")
    assert "5173" not in here("recall", "server", "--project", ".").out
    assert "1313" not in here("memory", "ls", "--project", str(two[1])).out
    assert "5173" in here("memory", "ls", "--project", str(two[1])).out


def test_a_search_shows_another_projects_memory_only_when_asked(
    run: Run, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    at(run, two[0])("remember", "The SFTP host of Initech is sftp.initech.example")
    here = at(run, two[1])
    unasked = here("recall", "SFTP host of Initech")
    assert "initech.example" not in unasked.out and 'project "*" searches all' in unasked.err
    assert "initech.example" not in (listed := here("memory", "ls")).out and "--project '*'" in listed.err
    assert f"of {name(two[0])}" in here("recall", "SFTP host of Initech", "--project", "*").out
    assert "initech.example" in here("memory", "ls", "--project", "*").out
    monkeypatch.chdir(two[1])
    with ml.Agent(agent_id="planner") as agent:
        assert agent.search_memory("SFTP host of Initech") == []
        assert [hit["project"] for hit in agent.search_memory("SFTP host of Initech", project="*")] == [name(two[0])]


def test_undo_in_one_project_does_not_take_back_anothers_memory(run: Run, two: tuple[Path, Path]) -> None:
    one, other = (at(run, folder) for folder in two)
    memory = one("remember", "The dev server listens on port 1313").out.split()[-1]
    told = other("undo", code=1).err
    assert name(two[0]) in told and "'The dev server listens on port 1313'" in told and "Nothing was taken back" in told
    assert "1313" in one("memory", "ls").out
    assert other("undo", "--project", "*").out.startswith(
        f"Took back: remember {memory}: The dev server listens on port 1313 ("
    )
    assert "1313" not in one("memory", "ls").out


def test_undo_takes_back_what_this_project_or_none_wrote(run: Run, two: tuple[Path, Path], home: Path) -> None:
    one, other = (at(run, folder) for folder in two)
    one("remember", "The dev server listens on port 1313")
    assert "1313" in one("undo").out
    run("-C", str(home), "remember", "The user's phone is 1111")
    assert "1111" in other("undo").out
    one("remember", "The dev server listens on port 1414")
    assert "1414" in other("undo", "--project", str(two[0])).out


def test_redo_in_one_project_does_not_do_again_what_another_took_back(run: Run, two: tuple[Path, Path]) -> None:
    one, other = (at(run, folder) for folder in two)
    one("remember", "The dev server listens on port 1313")
    one("undo")
    told = other("redo", code=1).err
    assert name(two[0]) in told and "Nothing was done again" in told and "memlake redo --project '*'" in told
    assert "1313" not in one("memory", "ls").out
    assert "remember" in one("redo").out
    one("undo")
    assert "remember" in other("redo", "--project", "*").out and "1313" in one("memory", "ls").out


def test_log_and_diff_of_memories_leave_other_projects_out_unless_asked(
    run: Run, two: tuple[Path, Path], home: Path
) -> None:
    one, other = (at(run, folder) for folder in two)
    run("-C", str(home), "remember", "The user's phone is 1111")
    memory = one("remember", "The dev server listens on port 1313").out.split()[-1]
    own = other("remember", "The dev server listens on port 5173").out.split()[-1]
    log = other("memory", "log")
    assert memory not in log.out and own in log.out and len(log.lines) == 2 and "--project '*'" in log.err
    assert len(other("memory", "log", "-n", "2", "--json").json["commits"]) == 2
    assert memory in other("memory", "log", "--project", "*").out
    diff = other("memory", "diff", "2020-01-01")
    assert "1313" not in diff.out and "5173" in diff.out and "1111" in diff.out and "--project '*'" in diff.err
    assert "5173" not in other("memory", "diff", "2020-01-01", "--project", str(two[0])).out
    assert "1313" in other("memory", "diff", "2020-01-01", "--project", "*").out


def test_conflicts_of_memories_leave_other_projects_out_unless_asked(run: Run, two: tuple[Path, Path]) -> None:
    one, other = (at(run, folder) for folder in two)
    one("remember", "--agent", "a", "The dev server listens on port 1313")
    one("remember", "--agent", "b", "The dev server listens on port 1414")
    assert "1414" in one("memory", "conflicts").out
    told = other("memory", "conflicts")
    assert "1414" not in told.out and "--project '*'" in told.err
    assert "1414" in other("memory", "conflicts", "--project", "*").out
    assert other("memory", "stats", "--json").json["stats"]["conflicts"] == 0
    one("remember", "--agent", "a", "The dev server listens on port 1515")
    assert "1515" in one("memory", "conflicts", "--decided").out
    assert "1515" not in other("memory", "conflicts", "--decided").out
    assert "1515" in other("memory", "conflicts", "--decided", "--project", "*").out


def test_undo_in_a_linked_worktree_leaves_the_files_of_the_main_tree_alone(
    run: Run, two: tuple[Path, Path], tmp_path: Path
) -> None:
    git(two[0], "commit", "--allow-empty", "-m", "first")
    git(two[0], "worktree", "add", str(tmp_path / "tree"))
    one, tree = at(run, two[0]), at(run, tmp_path / "tree")
    one("init")
    (two[0] / "f").write_text("one")
    one("add", "f")
    one("commit", "-m", "one")
    tree("remember", "The dev server listens on port 1313")
    assert "1313" in tree("undo").out and "remember" in tree("redo").out
    tree("undo")
    told = tree("undo", code=1).err
    assert "Nothing was changed" in told and f"memlake -C {two[0]} undo" in told
    assert "one" in one("log").out
    one("undo")
    assert f"memlake -C {two[0]} redo" in tree("redo", code=1).err and "one" not in one("log", code=None).out


OLD = '{"content": "%s", "created_at": "2020-01-31T14:00:00Z", "importance": 0.1, "project": "%s"}\n'


@pytest.fixture
def old(run: Run, two: tuple[Path, Path], tmp_path: Path) -> tuple[Run, Run]:
    """A memory of each project and of none that nobody needs any more; each project's command line."""
    texts = {"tea": two[0], "coffee": two[1], "water": ""}
    (tmp_path / "old.jsonl").write_text("".join(OLD % one for one in texts.items()))
    at(run, two[0])("memory", "import", str(tmp_path / "old.jsonl"))
    return at(run, two[0]), at(run, two[1])


def test_stale_and_evict_leave_other_projects_alone_unless_asked(old: tuple[Run, Run], two: tuple[Path, Path]) -> None:
    one, other = old
    told = one("memory", "stale")
    assert "tea" in told.out and "water" in told.out and "coffee" not in told.out and "--project '*'" in told.err
    assert [m["content"] for m in other("memory", "stale", "--json", "--project", str(two[0])).json["memories"]] == [
        "tea"
    ]
    assert "--project '*'" in one("memory", "evict").err
    assert {m["content"] for m in other("memory", "ls", "--project", "*", "--json").json["memories"]} == {"coffee"}
    assert "coffee" in one("memory", "evict", "--project", "*").out


def test_evict_leaves_what_expired_in_another_project(run: Run, two: tuple[Path, Path], set_clock: SetClock) -> None:
    at(run, two[1])("remember", "The guest password is tea", "--expires", "in 1 day")
    set_clock(2 * 86_400)
    assert at(run, two[0])("memory", "evict", "--json").json["memories"] == []
    assert len(at(run, two[1])("memory", "evict", "--json").json["memories"]) == 1


def test_stats_and_export_leave_other_projects_out_unless_asked(old: tuple[Run, Run], tmp_path: Path) -> None:
    one, _ = old
    told = one("memory", "stats")
    assert told.lines[0].startswith("2 memories") and "--project '*' includes them" in told.err
    assert one("memory", "stats", "--json").json["stats"]["stale"] == 2
    assert one("memory", "stats", "--project", "*").lines[0].startswith("3 memories")
    file = tmp_path / "out.jsonl"
    assert "--project '*' includes them" in one("memory", "export", str(file)).err
    assert {json.loads(line)["content"] for line in file.read_text().splitlines()} == {"tea", "water"}
    one("memory", "export", "-f", str(file), "--project", "*")
    assert len(file.read_text().splitlines()) == 3


def test_the_packages_of_a_monorepo_keep_their_own_facts(run: Run, two: tuple[Path, Path]) -> None:
    run("init", str(two[0]))
    for root, port in ((two[0], 3000), (two[1], 4000)):  # with a repo of its own, and in the personal one
        (root / "packages" / "web" / "src").mkdir(parents=True)
        (root / "tools" / "api").mkdir(parents=True)
        (root / "tools" / "api" / "pyproject.toml").touch()
        web, api = at(run, root / "packages" / "web" / "src"), at(run, root / "tools" / "api")
        assert "Remembered" in web("remember", f"The dev server listens on port {port}").out
        assert "Remembered beside" in api("remember", f"The dev server listens on port {port}").out
        assert "Corrected" in api("remember", f"The dev server listens on port {port + 1}").out
        shown = web("recall", "dev server port").out
        assert str(port) in shown and "in packages/web" in shown and "in tools/api" in shown
        assert "Corrected" in web("remember", f"The dev server listens on port {port + 2}").out
        found = web("memory", "ls", "--json").json["memories"]
        assert {(one["content"][-4:], one["area"]) for one in found} == {
            (str(port + 1), "tools/api"),
            (str(port + 2), "packages/web/src"),
        }


def test_a_folder_of_the_root_package_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "packages" / "src").mkdir(parents=True)
    (tmp_path / "packages" / "package.json").touch()
    inner = tmp_path / "packages" / "src"
    git_repo(tmp_path / "packages" / "own")
    (tmp_path / "packages" / "own" / "src").mkdir()
    assert projects.find_place(tmp_path / "packages" / "own" / "src").package == ""
    git(tmp_path, "init", "-q")
    assert projects.find_place(inner)[2:4] == ("packages/src", "packages/src")
    assert projects.find_place(tmp_path)[2:4] == ("", "")


def test_pages_go_on_where_the_one_before_ended(run: Run, two: tuple[Path, Path]) -> None:
    for folder, port in ((two[0], 1), (two[1], 2), (two[0], 3), (two[1], 4)):
        at(run, folder)("remember", f"Service {port} listens on port {port}", "--on-conflict", "add")
    asked = ("recall", "service port", "--project", "*", "-n", "1", "--json", "--offset")
    pages = [at(run, two[0])(*asked, str(n)).json["hits"] for n in range(5)]
    assert len({hit["memory_id"] for page in pages for hit in page}) == 4


def test_an_export_and_import_keep_the_project(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    at(run, two[0])("remember", "The dev server listens on port 1313")
    at(run, two[1])("remember", "The dev server listens on port 5173")
    file = str(tmp_path / "out.jsonl")
    at(run, two[1])("memory", "export", file, "--project", str(two[0]))
    assert [json.loads(line)["project"] for line in Path(file).read_text().splitlines()] == [name(two[0])]
    run("init", str(two[0]))
    at(run, two[0])("memory", "import", file)
    assert at(run, two[0])("memory", "ls", "--json").json["memories"][0]["project"] == name(two[0])
    assert "Corrected" in at(run, two[0])("remember", "The dev server listens on port 1414").out


def test_init_says_what_the_personal_repo_holds_of_this_project(run: Run, two: tuple[Path, Path]) -> None:
    for port in (1313, 1314):
        at(run, two[0])("remember", f"Server {port} listens on port {port}")
    said = run("init", str(two[0])).err  # from elsewhere
    assert "2 memories of this project" in said
    command = next(line for line in said.splitlines() if "memory export" in line).strip()
    ours = f'memlake() {{ {sys.executable} -m memlake.cli "$@"; }}; set -e -o pipefail; '
    env = dict(os.environ)
    subprocess.run(["bash", "-c", ours + command], cwd=two[0], env=env, check=True, capture_output=True)
    assert len(at(run, two[0])("memory", "ls", "--json").json["memories"]) == 2
    assert "of this project" not in at(run, two[1])("init").err


# -- hooks


def test_no_hook_hands_one_projects_text_to_another(run: Run, two: tuple[Path, Path], hook: Hook) -> None:
    said = "From now on the payroll export uses the SFTP host sftp.initech.example."
    at(run, two[0])("remember", "Blog posts are written in Markdown", "--category", "conventions")
    hook(two[0], "prompt", session_id="h1", prompt=said)
    hook(two[0], "stop", session_id="h1", last_assistant_message="I changed the export to it.")
    run("-C", os.environ["HOME"], "remember", "User is colour blind", "--category", "preferences")
    question = "which SFTP host does the payroll export use?"
    (told,) = hook(two[0], "prompt", session_id="h2", prompt=question)
    assert "sftp.initech.example" in told
    assert hook(two[1], "prompt", session_id="h3", prompt=question) == []
    assert hook(two[1], "session-start", session_id="h3") == ["User is colour blind"]
    assert "User is colour blind" in hook(two[0], "session-start", session_id="h4")


def test_personal_preferences_stand_beside_those_of_a_repo(run: Run, two: tuple[Path, Path], hook: Hook) -> None:
    run("init", str(two[0]))
    at(run, two[0])("remember", "Names are in snake case", "--category", "conventions")
    at(run, two[0])("remember", "--personal", "User is colour blind", "--category", "preferences")
    at(run, two[0])("remember", "--personal", "User has a cat", "--category", "learnings")
    at(run, two[1])("remember", "User wants tabs in p2", "--category", "preferences")
    assert hook(two[0], "session-start", session_id="h") == ["User is colour blind", "Names are in snake case"]
    asked = {"prompt": "is the user colour blind, and does the user have a cat?"}
    assert hook(two[0], "prompt", session_id="p", **asked) == ["User is colour blind"]
    assert hook(two[0], "prompt", session_id="p", **asked) == []
    for file in (Path(os.environ["XDG_DATA_HOME"]) / "memlake/.memlake").glob("repo.db*"):
        file.write_bytes(b"not a database" * 1000)
    assert hook(two[0], "session-start", session_id="i") == ["Names are in snake case"]
    assert "session-start" in (two[0] / ".memlake/hooks.log").read_text()


# -- worktrees


def test_a_worktree_uses_the_memories_of_its_main_tree(
    run: Run, two: tuple[Path, Path], tmp_path: Path, hook: Hook
) -> None:
    git(two[0], "commit", "-q", "--allow-empty", "-m", "x")
    git(two[0], "worktree", "add", "-q", str(tmp_path / "tree"))
    tree = at(run, tmp_path / "tree")
    tree("remember", "The dev server listens on port 1313")
    assert name(tmp_path / "tree") == name(two[0])
    run("init", str(two[0]))
    done = tree("remember", "Migrations run with alembic in the staging cluster", "--category", "conventions")
    assert f"(in the repo {two[0]})" in done.err
    assert "alembic" in at(run, two[0])("recall", "migrations").out
    assert hook(tmp_path / "tree", "session-start", session_id="h") == [
        "Migrations run with alembic in the staging cluster"
    ]
    assert f"linked worktree, so this is about the repo of {two[0]}" in tree("undo").err
    assert "alembic" not in at(run, two[0])("recall", "migrations").out


def test_a_forged_git_file_opens_no_other_projects_memories(run: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    git(two[0], "commit", "-q", "--allow-empty", "-m", "x")
    git(two[0], "worktree", "add", "-q", str(tmp_path / "tree"))
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    assert projects.find_place(evil).names == (str(evil),)
    run("init", str(two[0]))
    at(run, two[0])("remember", "The safe opens with 4711")
    assert "4711" not in at(run, evil)("recall", "safe").out


@pytest.mark.parametrize("mark", ["", "gitdir: \n", "gitdir: \0\n", "nonsense", "gitdir: ../nowhere\n"])
def test_a_git_file_that_leads_nowhere_is_a_project_of_its_own(tmp_path: Path, mark: str) -> None:
    (tmp_path / ".git").write_text(mark)
    assert projects.find_place(tmp_path).names == (str(tmp_path),)


def test_a_pipe_where_git_has_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: x\n")
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "x" / "gitdir")
    find = f"from memlake import projects; print(projects.find_place({str(tmp_path)!r}).project)"
    found = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, timeout=20, check=True)
    assert found.stdout.strip() == str(tmp_path)


def test_home_and_the_personal_repo_are_no_project(home: Path, tmp_path: Path) -> None:
    git_repo(home / "dotfiles")
    assert projects.find_place(home) == projects.NOWHERE == projects.find_place("/")
    assert name(home / "dotfiles") == str(home / "dotfiles")
    assert name(tmp_path) == str(tmp_path)


# -- organisations


def test_the_command_line_and_hooks_see_one_organisation(run: Run, repo: Path, hook: Hook) -> None:
    run("config", "embedding.provider", "none")
    with ml.Agent(repo, agent_id="spy", org_id="other") as spy:
        spy.store_memory("Secret of org other: the merger with Globex closes in May", category="learnings")
    assert "Globex" not in run("recall", "merger globex").out + run("memory", "ls").out + run("memory", "export").out
    assert run("memory", "stats", "--json").json["stats"]["memories"] == 0
    assert hook(repo, "prompt", prompt="when does the merger with Globex close?") == []
    assert hook(repo, "session-start") == []
    assert "Globex" in run("recall", "merger globex", "--org", "other").out
    assert "Globex" in run("memory", "export", "--org", "*").out
    run("remember", "Globex pays in June", "--org", "other")
    with ml.Agent(repo, agent_id="spy", org_id="other") as spy:
        assert len(spy.search_memory("globex")) == 2
    run("config", "memory.org", "other")
    assert "Globex" in run("recall", "merger globex").out
    assert len(hook(repo, "prompt", prompt="when does the merger with Globex close?")) == 1
    with ml.Agent(repo, agent_id="bot") as bot:
        assert bot.org_id == "other" and len(bot.search_memory("globex")) == 2
