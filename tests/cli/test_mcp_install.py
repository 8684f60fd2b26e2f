"""`mcp install` and `hook install` on the files clients really have, and the server that a client then starts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memlake.programs import HOOKED
from tests.cli.conftest import Run

Process = Callable[..., "subprocess.CompletedProcess[bytes]"]
FILES = {
    "claude": (".mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "opencode": ("opencode.json", "mcp"),
    "copilot": (".github/mcp.json", "mcpServers"),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "own-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def _env() -> dict[str, str]:
    return dict(os.environ)


def read(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return found


def started(entry: dict[str, Any]) -> list[str]:
    command = entry["command"]
    return [*command] if isinstance(command, list) else [command, *entry["args"]]


@pytest.mark.parametrize("client", FILES)
def test_each_client_gets_an_entry_that_names_nothing_of_this_machine(run: Run, repo: Path, client: str) -> None:
    done = run("mcp", "install", "--client", client)
    name, table = FILES[client]
    entry = read(repo / name)[table]["memlake"]
    place = ["-C", "${workspaceFolder}"] if client in ("cursor", "vscode") else []  # the others start it in the project
    assert started(entry) == ["memlake", *place, "mcp", "--profile", "lean"]
    assert str(repo) not in (text := (repo / name).read_text()) and sys.prefix not in text
    assert done.lines[0] == f"Added memlake to {repo / name}" and done.lines[1].startswith("Next: ")
    types = {"claude": "stdio", "vscode": "stdio", "opencode": "local", "copilot": "local"}
    assert entry.get("type") == types.get(client)


@pytest.mark.parametrize("client", FILES)
def test_installing_again_changes_nothing(run: Run, repo: Path, client: str) -> None:
    run("mcp", "install", "--client", client)
    path = repo / FILES[client][0]
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert "already" in run("mcp", "install", "--client", client).out
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(path.parent.glob("*backup*")) == []


def test_other_entries_and_the_shape_of_a_json_file_stay(run: Run, repo: Path) -> None:
    old = '{\n    "theme": "dark",\n    "mcpServers": {\n        "other": {"command": "x", "args": []}\n    }\n}\n'
    (repo / ".gemini").mkdir()
    (path := repo / ".gemini/settings.json").write_text(old)
    done = run("mcp", "install", "--client", "gemini")
    found = read(path)
    assert list(found) == ["theme", "mcpServers"] and found["mcpServers"]["other"] == {"command": "x", "args": []}
    assert '\n    "theme"' in path.read_text()
    kept = path.with_name("settings.json.memlake-backup")
    assert kept.read_text() == old and kept.name in done.out


def test_comments_of_a_toml_file_stay(run: Run, repo: Path) -> None:
    old = '# mine\nmodel = "o9"  # the best\n\n[mcp_servers.other]\ncommand = "x"\n'
    (repo / ".codex").mkdir()
    (path := repo / ".codex/config.toml").write_text(old)
    run("mcp", "install", "--client", "codex")
    assert path.read_text().startswith(old) and read(path)["mcp_servers"]["other"] == {"command": "x"}
    run("mcp", "uninstall", "--client", "codex")
    assert path.read_text().strip() == old.strip()


def test_an_older_entry_is_renewed_and_what_a_person_added_to_it_stays(run: Run, repo: Path) -> None:
    entry = {"type": "stdio", "command": "/old/python", "args": ["mcp"], "env": {"MEMLAKE_DEBUG": "1"}}
    (repo / ".mcp.json").write_text(json.dumps({"mcpServers": {"memlake": entry}}))
    run("mcp", "install", "--client", "claude")
    found = read(repo / ".mcp.json")["mcpServers"]["memlake"]
    assert found["command"] == "memlake" and found["env"] == {"MEMLAKE_DEBUG": "1"}
    assert json.loads((repo / ".mcp.json.memlake-backup").read_text())["mcpServers"]["memlake"] == entry


@pytest.mark.parametrize(
    ("client", "broken"),
    [("claude", '{"mcpServers": '), ("claude", "[1]"), ("claude", '{"mcpServers": 3}'), ("vscode", "// hi\n{}"),
     ("claude", '{"mcpServers": {"memlake": 3}}'), ("codex", "a = = 1"), ("codex", "mcp_servers = 3"),
     ("claude", "\xff\xfe")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_an_error_and_stays(run: Run, repo: Path, client: str, broken: str) -> None:
    path = repo / FILES[client][0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(broken.encode("latin-1"))
    err = run("mcp", "install", "--client", client, code=128).err
    assert str(path) in err and "It was not changed." in err
    assert path.read_bytes() == broken.encode("latin-1") and list(path.parent.glob("*backup*")) == []


def test_a_dry_run_prints_the_file_and_writes_none(run: Run, repo: Path) -> None:
    done = run("mcp", "install", "--client", "claude", "--dry-run")
    assert f"{repo / '.mcp.json'} would be:" in done.lines[0] and '"memlake"' in done.out
    assert not (repo / ".mcp.json").exists()


def test_setting_up_where_there_is_no_repo_says_where_memories_go(
    run: Run, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = str(tmp_path_factory.mktemp("outside"))
    for group in ("mcp", "hook"):
        assert "your personal one" in run("-C", outside, group, "install", "--client", "claude").out
        assert "personal" not in run("-C", str(repo), group, "install", "--client", "claude").out


def test_settings_of_the_user_name_no_repo_but_those_of_the_desktop_do(run: Run, repo: Path, home: Path) -> None:
    run("mcp", "install", "--client", "claude", "--scope", "user")
    entry = read(home / ".claude.json")["mcpServers"]["memlake"]
    assert entry["args"] == ["-m", "memlake.cli", "mcp", "--profile", "lean"] and not (repo / ".mcp.json").exists()
    out = run("mcp", "install", "--client", "desktop").out
    desktop = Path(out.splitlines()[0].removeprefix("Added memlake to "))
    assert home in desktop.parents and read(desktop)["mcpServers"]["memlake"]["args"][2:4] == ["-C", str(repo)]
    assert "--scope user" in run("mcp", "install", "--client", "desktop", "--scope", "project", code=128).err


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(run: Run, repo: Path, home: Path) -> None:
    (real := home / "dot-claude.json").write_text('{"key": "secret"}')
    real.chmod(0o600)
    (home / ".claude.json").symlink_to(real)
    run("mcp", "install", "--client", "claude", "--scope", "user")
    assert (home / ".claude.json").is_symlink() and read(real)["key"] == "secret"
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.glob("dot-claude*")} == {0o600}


def test_uninstall_takes_out_its_own_entry_alone(run: Run, repo: Path) -> None:
    (repo / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    run("mcp", "install", "--client", "claude")
    run("mcp", "uninstall", "--client", "claude")
    assert read(repo / ".mcp.json") == {"mcpServers": {"other": {"command": "x"}}}
    assert "does not have memlake" in run("mcp", "uninstall", "--client", "claude", code=1).err
    assert "does not have memlake" in run("mcp", "uninstall", "--client", "cursor", code=1).err
    assert not (repo / ".cursor").exists()


@pytest.mark.parametrize(("client", "file"), [("claude", ".mcp.json"), ("codex", ".codex/config.toml")])
def test_uninstall_leaves_no_empty_table_of_its_own(run: Run, repo: Path, client: str, file: str) -> None:
    run("mcp", "install", "--client", client)
    run("mcp", "uninstall", "--client", client)
    assert (repo / file).read_text().strip() in ("", "{}")


def test_uninstalling_hooks_leaves_no_empty_lists(run: Run, repo: Path) -> None:
    path = repo / ".claude/settings.json"
    path.parent.mkdir()
    for before in ({"model": "x"}, {"hooks": {"Stop": []}}, {"hooks": {"Stop": [{"hooks": [{"command": "echo hi"}]}]}}):
        path.write_text(json.dumps(before))
        run("hook", "install")
        run("hook", "uninstall")
        assert read(path) == (before if before != {"hooks": {"Stop": []}} else {})


def test_without_the_sdk_the_server_says_how_to_install_it(process: Process, repo: Path, tmp_path: Path) -> None:
    for name in ("mcp", "mcp_types", "anyio"):
        (tmp_path / "missing").mkdir(exist_ok=True)
        (tmp_path / "missing" / f"{name}.py").write_text(f"raise ModuleNotFoundError({name!r}, name={name!r})")
    before = f"import sys; sys.path.insert(0, {str(tmp_path / 'missing')!r})"
    script = f"{before}; from memlake.cli.main import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=_env())
    assert done.returncode == 128 and done.stdout == ""
    assert "needs the package `mcp`" in done.stderr and "pip install 'memlake[mcp]'" in done.stderr


def test_the_installed_command_answers_initialize_with_nothing_but_protocol(run: Run, repo: Path) -> None:
    pytest.importorskip("mcp.server.lowlevel")
    run("mcp", "install", "--client", "claude")
    repo = repo.rename(repo.with_name("renamed"))  # or cloned by a colleague
    command = started(read(repo / ".mcp.json")["mcpServers"]["memlake"])
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    env = {**_env(), "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=repo)
    assert server.stdin and server.stdout
    answers = []
    for line in lines:
        server.stdin.write(json.dumps(line) + "\n")
        server.stdin.flush()
        if "id" in line:
            answers.append(json.loads(server.stdout.readline()))
    rest = server.communicate(timeout=250)[0]
    assert [answer["id"] for answer in answers] == [1, 2] and rest == ""
    assert answers[0]["result"]["serverInfo"]["name"] == "memlake" and len(answers[1]["result"]["tools"]) == 5


# -- the block of hooks


def test_the_hooks_are_added_once_beside_those_of_others(run: Run, repo: Path) -> None:
    theirs = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo hi"}]}
    (repo / ".claude").mkdir()
    (path := repo / ".claude/settings.json").write_text(json.dumps({"model": "x", "hooks": {"Stop": [theirs]}}))
    run("hook", "install", "--client", "claude")
    found = read(path)
    assert found["model"] == "x" and found["hooks"]["Stop"][0] == theirs and len(found["hooks"]["Stop"]) == 2
    assert set(found["hooks"]) == set(HOOKED["claude"].events.values())
    assert found["hooks"]["Stop"][1]["hooks"][0]["command"] == "memlake hook stop --client claude"
    found["hooks"]["Stop"].append({**theirs, "matcher": "Edit"})
    path.write_text(json.dumps(found))
    assert "already" in run("hook", "install", "--client", "claude").out
    assert read(path) == found


def test_hooks_of_an_older_interpreter_are_replaced(run: Run, repo: Path) -> None:
    old = {"type": "command", "command": "/old/python -m memlake.cli hook stop --client claude"}
    other = {"type": "command", "command": "echo hi"}
    (repo / ".claude").mkdir()
    (path := repo / ".claude/settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [old, other]}]}}))
    run("hook", "install")
    groups = read(path)["hooks"]["Stop"]
    assert groups[0] == {"hooks": [other]} and len(groups) == 2
    assert groups[1]["hooks"][0]["command"] == "memlake hook stop --client claude"
    run("hook", "uninstall")
    assert read(path)["hooks"]["Stop"] == [{"hooks": [other]}]
    assert "does not have the hooks" in run("hook", "uninstall", code=1).err


def test_a_program_that_is_not_on_the_path_is_warned_of(run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for args in (("mcp", "install", "--client", "claude"), ("hook", "install")):
        assert f'export PATH="{os.path.dirname(sys.executable)}:$PATH"' in run(*args).err
        assert run(*args, "--scope", "user").err == ""
    assert "-m memlake.cli hook stop" in (Path.home() / ".claude/settings.json").read_text()


@pytest.mark.parametrize("client", HOOKED)
def test_each_client_gets_its_hooks_once_and_loses_them_alone(run: Run, repo: Path, client: str, home: Path) -> None:
    hooks = HOOKED[client]
    for scope, folder in (("project", repo), ("user", home)):
        command = ("hook", "install", "--client", client, "--scope", scope)
        path = folder / hooks.files[scope].removeprefix("~/")
        if path.suffix == ".json":
            path.parent.mkdir(parents=True)
            path.write_text('{"theme": "dark"}')
        assert str(path) in run(*command, "--dry-run").lines[0] and (
            "theme" in path.read_text() if path.exists() else 1
        )
        run(*command)
        text = path.read_text()
        assert all(f"hook {event} --client {client}" in text for event in hooks.events) or hooks.form == "plugin"
        assert (sys.prefix in text or str(repo) in text) == (scope == "user")
        assert "already" in run(*command).out and path.read_text() == text
        run("hook", "uninstall", "--client", client, "--scope", scope)
        assert path.exists() == (path.suffix == ".json") and (not path.exists() or read(path)["theme"] == "dark")
        assert "does not have the hooks" in run("hook", "uninstall", "--client", client, "--scope", scope, code=1).err


def test_hooks_are_listed_as_each_client_lists_them(run: Run, repo: Path) -> None:
    for client in HOOKED:
        run("hook", "install", "--client", client)
    codex = read(repo / ".codex/hooks.json")["hooks"]["SessionEnd"]
    assert codex == [
        {"hooks": [{"type": "command", "command": "memlake hook session-end --client codex", "timeout": 3}]}
    ]
    gemini = read(repo / ".gemini/settings.json")["hooks"]
    assert gemini["PreCompress"][0]["matcher"] == "manual" and gemini["AfterAgent"][0]["hooks"][0]["timeout"] == 10_000
    copilot = read(repo / ".github/hooks/memlake.json")
    entry = {"type": "command", "command": "memlake hook stop --client copilot", "timeoutSec": 10}
    assert copilot["version"] == 1 and copilot["hooks"]["agentStop"] == [entry]
    assert 'const PROGRAM = ["memlake"]\n' in (repo / ".opencode/plugins/memlake.js").read_text()


def test_a_file_of_ours_goes_when_nothing_else_is_in_it(run: Run, repo: Path) -> None:
    path = repo / ".github/hooks/memlake.json"
    run("hook", "install", "--client", "copilot")
    run("hook", "uninstall", "--client", "copilot")
    assert not path.exists()
    theirs = {"type": "command", "bash": "echo hi"}
    path.write_text(json.dumps({"version": 1, "hooks": {"agentStop": [theirs]}}))
    run("hook", "install", "--client", "copilot")
    assert len(read(path)["hooks"]["agentStop"]) == 2
    run("hook", "uninstall", "--client", "copilot")
    assert read(path) == {"version": 1, "hooks": {"agentStop": [theirs]}}


def test_a_plugin_that_is_not_ours_stays(run: Run, repo: Path) -> None:
    path = repo / ".opencode/plugins/memlake.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = async () => ({})\n")
    for verb in ("install", "uninstall"):
        assert "is not the plugin of memlake" in run("hook", verb, "--client", "opencode", code=128).err
    assert path.read_text().startswith("export const Mine")


@pytest.mark.parametrize("broken", ["{", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_settings_that_cannot_be_read_get_no_hooks(run: Run, repo: Path, broken: str) -> None:
    (repo / ".claude").mkdir()
    (path := repo / ".claude/settings.json").write_text(broken)
    assert "It was not changed." in run("hook", "install", code=128).err
    assert path.read_text() == broken
