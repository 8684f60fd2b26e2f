"""What is kept of a session: what the person states to be obeyed later, and one summary of what was done.

A prompt is only noted, in this checkout. The end of its turn stores what it stated, because only then is known what the
agent made of it, in one commit with the summary; if that never comes, the next event that may write does it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memlake import config, memories, projects
from memlake.cli.hook import clients
from memlake.cli.hook.clients import Given
from memlake.errors import Unavailable
from memlake.memories import record
from memlake.repo import open_for_memories, open_narrow, open_repo

if TYPE_CHECKING:
    from memlake.memories.sessions.coding_session import CodingSession
    from memlake.memories.sessions.hook_search import Narrow

_READ = 20_000  # characters of a prompt that are looked at
_MESSAGE = 100_000  # ... and of a message
WRITING = 8.0  # seconds that a program has to write a summary: agents give a hook ten
_LATE, _PAUSE = 0.8, 0.05  # seconds to wait for a message that is not in the transcript yet
_WRITTEN = 4000  # characters of what it writes that are kept


def note_prompt(given: Given) -> None:
    """Note what a prompt asks and states, if there is a repo: making one is left to the end of the turn."""
    text = str(given.get("prompt") or "")[:_READ]
    if not text.strip() or not memories.coding_session.says_something(text):
        return
    root = projects.find_memory_repo() or config.personal_folder()
    if not config.repo_folder(root).is_dir():  # its transcript tells the end of the turn
        return
    with open_repo(root) as repo:
        narrow = open_narrow(repo)
        if narrow.settings.memory_enabled:
            safe = _hide_secrets(text, narrow.settings.memory_secrets)
            narrow.edit_session(_read_session(given), lambda one: memories.coding_session.note_prompt(one, safe))


def stop(given: Given, agent: str) -> None:
    """Keep what a turn stated and did; not when a hook already made the agent go on."""
    if not given.get("stop_hook_active"):
        _keep(given, agent, late=_LATE)


def subagent_stop(given: Given, _agent: str) -> None:
    """What a sub-agent reports belongs to the summary of the session that sent it."""
    said = _read_message(given)
    if not said or given.get("stop_hook_active"):
        return
    with open_for_memories() as repo:
        narrow = open_narrow(repo)
        if narrow.settings.memory_enabled:
            safe = _hide_secrets(said, narrow.settings.memory_secrets)
            narrow.edit_session(_read_session(given), lambda one: memories.coding_session.add_report(one, safe))


def session_end(given: Given, agent: str) -> None:
    """Keep what is left of a session."""
    _keep(given, agent)


def improve_summary(given: Given, agent: str) -> None:
    """Let the program that the user configured write the summary of a session; without its answer ours stays."""
    with open_for_memories() as repo:
        narrow = open_narrow(repo)
        command = narrow.settings.hook_summary_command
        session = narrow.read_session(_read_session(given))
        ours = memories.coding_session.write_summary(session)
        if not command or not ours or not narrow.settings.memory_enabled:
            return
        text = _ask_program(command, memories.coding_session.describe(session) | {"summary": ours})
        better = _hide_secrets(text[:_WRITTEN], narrow.settings.memory_secrets).strip()
        if better:
            turn = memories.keep_turn.Turn(_read_session(given), record.check_text(agent, "agent_id"))
            memories.keep_turn.keep(narrow, turn, better=better)


def _ask_program(command: str, told: Mapping[str, object]) -> str:
    """What a program prints that is given a session as JSON. One that fails or is late is an error, which is logged."""
    import shlex  # 20 ms with subprocess, which no other hook pays
    import subprocess

    asked = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    try:
        done = subprocess.run(shlex.split(command), input=asked, capture_output=True, timeout=WRITING, check=True)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"hook.summary_command did not answer within {WRITING:g} s; our own summary stays.") from None
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        raise Unavailable(f"hook.summary_command failed, so our own summary stays: {error}") from error
    return done.stdout.decode("utf-8", "replace")


def keep_left(agent: str) -> None:
    """Keep what was stated in sessions of this project whose program died."""
    root = projects.find_memory_repo() or config.personal_folder()
    if not config.repo_folder(root).is_dir():
        return
    with open_repo(root) as repo:
        narrow = open_narrow(repo)
        for session in narrow.list_left() if narrow.settings.memory_enabled else ():
            memories.keep_turn.keep(narrow, memories.keep_turn.Turn(session, record.check_text(agent, "agent_id")))


def _keep(given: Given, agent: str, late: float = 0.0) -> None:
    session = _read_session(given)
    with open_for_memories() as repo:
        narrow = open_narrow(repo)
        if not narrow.settings.memory_enabled:
            return
        touched = tuple(clients.list_touched(given.get("transcript_path")))
        known = narrow.read_session(session)
        safe = _hide_secrets(_read_message(given), narrow.settings.memory_secrets)
        until = time.monotonic() + late * ("last_assistant_message" not in given and "transcript_path" in given)
        while (not safe or known.last.endswith(safe[-200:])) and time.monotonic() < until:
            time.sleep(_PAUSE)  # Copilot writes its transcript a moment after it calls
            safe = _hide_secrets(_read_message(given), narrow.settings.memory_secrets)
        if safe and not known.last.endswith(safe[-200:]):
            prompt = _find_prompt(known, given, narrow)
            narrow.edit_session(session, lambda one: _end_turn(one, prompt, safe, touched=bool(touched)))
        memories.keep_turn.keep(
            narrow, memories.keep_turn.Turn(session, record.check_text(agent, "agent_id"), safe, touched)
        )


def _end_turn(session: CodingSession, prompt: str, said: str, *, touched: bool) -> CodingSession:
    session = memories.coding_session.note_prompt(session, prompt) if prompt else session
    return memories.coding_session.end_turn(session, said, touched=touched)


def _find_prompt(known: CodingSession, given: Given, narrow: Narrow) -> str:
    """The prompt of a turn that no event told of, as its transcript has it."""
    if known.prompt or known.noted:
        return ""
    rows = clients.list_backwards(given.get("transcript_path"))
    text = next((text for speaker, text in rows if speaker == "user"), "")
    return _hide_secrets(text[:_READ], narrow.settings.memory_secrets)


def _read_session(given: Given) -> str:
    return record.check_text(given.get("session_id"), "session_id")


def _read_message(given: Given) -> str:
    path = given.get("agent_transcript_path") or given.get("transcript_path")
    return str(given.get("last_assistant_message") or clients.last_message(path) or "")[:_MESSAGE]


def _hide_secrets(text: str, how: str) -> str:
    """A text as it may be noted. Nobody reads a warning here, so only `off` lets through what looks like a secret."""
    return text if how == "off" else memories.redact.guard(text, "redact")[0]
