"""Plays written sessions through the real hook commands, in folders and a home of their own. Scores nothing.

A hook runs in this process, through the entry of the command line; `time_hooks` runs some in processes of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooks_sessions import Project, fold, list_turns

from memlake.cli.main import main as memlake

CASES = ("project", "personal")  # each project has a repo of its own; all memories go to the personal repo
_LEAD = 40  # characters by which a memory is known in what is told, where no id names it
Memory = dict[str, Any]


class Failed(RuntimeError):
    """A command of memlake did not do what was asked; the message has its output."""


@dataclass(frozen=True)
class Told:
    """What one event put before the agent: `turn` 0 is the start of the session."""

    project: str
    session: str
    turn: int
    text: str
    memories: tuple[Memory, ...]  # those that the text names


@dataclass(frozen=True)
class Ended:
    """All memories that stand at the end of a session."""

    project: str
    session: str
    memories: tuple[Memory, ...]


@dataclass
class Played:
    seeded: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # memory id -> project, label, content
    told: list[Told] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@contextlib.contextmanager
def own_home(folder: Path) -> Iterator[None]:
    """The environment of somebody who uses memlake for the first time, and the folder we stood in afterwards."""
    before, here = dict(os.environ), os.getcwd()
    for name in [name for name in os.environ if name.startswith(("MEMLAKE_", "GIT_")) or name == "XDG_DATA_HOME"]:
        del os.environ[name]
    home = folder / "home"
    (home / ".config/memlake").mkdir(parents=True)
    (home / ".config/memlake/config.toml").write_text('[embedding]\nprovider = "none"\n')  # a hook makes no vectors
    os.environ.update(HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"), MEMLAKE_HOOK_SECONDS="600")
    os.environ.update(MEMLAKE_AUTHOR_NAME="Ada", MEMLAKE_AUTHOR_EMAIL="ada@example.org")
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def play(projects: Sequence[Project], person: Sequence[dict[str, Any]], case: str, folder: Path) -> Played:
    """All sessions of all projects, day by day: on one day those of one project come before those of the next."""
    played = Played()
    for project in projects:
        _begin(project, case, folder)
    for one in person:
        played.seeded[_remember(folder / "home", one, "--personal")] = ("", one["id"], one["content"])
    for project in projects:
        for one in project["before"]:
            made = _remember(folder / project["project"], one)
            played.seeded[made] = (project["project"], one["id"], one["content"])
    sessions = [(session["day"], project, session) for project in projects for session in project["sessions"]]
    for _, project, session in sorted(sessions, key=lambda one: one[0]):
        _play_session(project, session, folder, case, played)
    return played


def _begin(project: Project, case: str, folder: Path) -> None:
    root = folder / project["project"]
    root.mkdir()
    for command in (["init", "-q", "-b", "main"], ["remote", "add", "origin", project["remote"]]):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    for name, text in project["instructions"].items():
        (root / name).write_text(text, encoding="utf-8")
    if case == "project":
        call(root, "init")


def _remember(root: Path, one: dict[str, Any], *options: str) -> str:
    agent = ["--agent", "claude-code"] if one["by"] == "agent" else []
    filing = ["--category", one["category"], "--on-conflict", "add", "--quiet"]
    return call(root, "remember", one["content"], *filing, *agent, *options).split()[-1]


def _play_session(project: Project, session: dict[str, Any], folder: Path, case: str, played: Played) -> None:
    root = folder / project["project"]
    name, key = project["project"], session_key(project["project"], session["id"])
    transcript = folder / f"{key}.jsonl"
    given = {"session_id": key, "transcript_path": str(transcript), "cwd": str(root)}

    def event(what: str, turn: int, **more: Any) -> None:
        text = read_context(hook(what, session["client"], given | more))
        if text:
            memories = tuple(find_named(text, list_memories(root, case)))
            played.told.append(Told(name, session["id"], turn, text, memories))

    event("session-start", 0, source="startup")
    for number, turn in enumerate(list_turns(session), 1):
        event("prompt", number, prompt=turn["user"])
        _write_turn(transcript, root, turn)
        answer = {"last_assistant_message": turn["assistant"], "prompt_response": turn["assistant"]}
        event("stop", number, stop_hook_active=False, **answer)
    event("session-end", len(list_turns(session)), reason="exit")
    played.ended.append(Ended(name, session["id"], tuple(list_memories(root, case))))
    log = (root if case == "project" else _personal()) / ".memlake/hooks.log"
    if log.exists():
        played.troubles += [f"{key}: {line}" for line in log.read_text(encoding="utf-8").splitlines()]
        log.unlink()


def session_key(project: str, session: str) -> str:
    """The session id that a hook is given; also how it is told from another project's."""
    return f"{project}-{session}"


def _write_turn(transcript: Path, root: Path, turn: dict[str, Any]) -> None:
    """The lines of a transcript as Claude Code writes them, and the files that the turn touched."""
    rows: list[tuple[str, Any]] = [("user", turn["user"])]
    for number, name in enumerate(turn.get("files", ())):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{fold(turn['user'])[:60]}\n")
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Edit", "input": {"file_path": str(path)}}
        rows += [
            ("assistant", [use]),
            ("user", [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "ok"}]),
        ]
    rows.append(("assistant", [{"type": "text", "text": turn["assistant"]}]))
    with open(transcript, "a", encoding="utf-8") as file:
        for role, content in rows:
            row = {"type": role, "cwd": str(root), "message": {"role": role, "content": content}}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


# -- the commands


_EVENTS = {
    "session-start": "SessionStart", "prompt": "UserPromptSubmit", "stop": "Stop", "session-end": "SessionEnd",
}  # fmt: skip


def hook(event: str, client: str, given: dict[str, Any]) -> str:
    """What a hook prints for this input, which has the names that Claude Code uses."""
    text = json.dumps({**given, "hook_event_name": _EVENTS[event]}, ensure_ascii=False).encode()
    return call(Path(given["cwd"]), "hook", event, "--client", client, given=text)


def call(root: Path, *args: str, given: bytes = b"") -> str:
    """Run memlake in this process and in this folder; what it printed."""
    os.chdir(root)
    out, err, was = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = memlake(list(args))
    finally:
        sys.stdin = was
    if code:
        raise Failed(f"memlake {' '.join(args)} ended with {code}\n{out.getvalue()}{err.getvalue()}")
    return out.getvalue()


def list_memories(root: Path, case: str) -> list[Memory]:
    """Every memory that stands, oldest first: of the project's repo and of the personal one."""
    found = [] if case == "personal" else _list_repo(root)
    if (_personal() / ".memlake").is_dir():
        found += _list_repo(_personal())
    return sorted(found, key=lambda memory: (memory["created_at"], memory["memory_id"]))


def _list_repo(root: Path) -> list[Memory]:
    printed = call(root, "-C", str(root), "memory", "ls", "--json", "--limit", "1000000", "--project", "*")
    return list(json.loads(printed)["memories"])


def _personal() -> Path:
    return Path(os.environ["HOME"]) / ".local/share/memlake"


# -- what was told


def read_context(printed: str) -> str:
    """The text put before the agent: each `additionalContext` of the JSON, or all that is printed if it is none."""
    try:
        return "\n".join(_find_contexts(json.loads(printed)))
    except ValueError:
        return printed.strip()


def _find_contexts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "additionalContext" and isinstance(one, str):
                yield one
            else:
                yield from _find_contexts(one)


def find_named(text: str, memories: Sequence[Memory]) -> list[Memory]:
    """The memories that a text tells, by their ids (12 characters from an end are enough) or by how they begin."""
    shown = set(re.findall(r"[0-9a-f][0-9a-f-]{10,}[0-9a-f]", text))
    ids = [one["memory_id"] for one in memories]
    named = {one for one in ids if any(one.startswith(part) or one.endswith(part) for part in shown)}
    if named:
        return [one for one in memories if one["memory_id"] in named]
    plain = fold(text)
    return [one for one in memories if fold(one["content"])[:_LEAD] in plain]


# -- what it costs


def time_hooks(project: Project, folder: Path, rounds: int) -> dict[str, float]:
    """CPU seconds of each event in a process of its own, start-up included: the least of the rounds."""
    root = folder / project["project"]
    turn = max(project["sessions"][-1]["turns"], key=lambda one: len(one["assistant"]))
    more: dict[str, dict[str, Any]] = {
        "session-start": {"source": "startup"},
        "prompt": {"prompt": project["before"][0]["content"]},
        "stop": {"last_assistant_message": turn["assistant"], "stop_hook_active": False},
        "session-end": {"reason": "exit"},
    }
    least: dict[str, float] = {}
    for number in range(rounds):
        for event, fields in more.items():
            given = {"session_id": f"timed-{number}", "cwd": str(root), "hook_event_name": _EVENTS[event], **fields}
            command = [sys.executable, "-m", "memlake.cli", "hook", event, "--client", "claude"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, input=json.dumps(given).encode(), cwd=root, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least[event] = min(spent, least.get(event, spent))
    return least


def clear(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
