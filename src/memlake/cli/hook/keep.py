"""What is stored of what an agent said: at the end of its turns, its sessions and its context."""

from __future__ import annotations

import time

from memlake import memories
from memlake.cli.hook import clients
from memlake.cli.hook.clients import Given
from memlake.memories import record
from memlake.memories.record import Memory
from memlake.objects import layout
from memlake.repo import open_for_memories, open_narrow

_EPISODE = 4000  # characters of a message that are kept


def stop(given: Given, agent: str) -> None:
    """The last message of a turn becomes an episode; not when a hook already made the agent go on."""
    if not given.get("stop_hook_active"):
        deposit(given, agent)


def deposit(given: Given, agent: str) -> None:
    """Keep the agent's last message as an episode of its session, unless it was kept just before."""
    path = given.get("agent_transcript_path") or given.get("transcript_path")
    text = given.get("last_assistant_message") or clients.last_message(path)
    if not text or memories.hook_search.says_little(text):
        return
    with open_for_memories() as repo:
        narrow = open_narrow(repo)
        if narrow.settings.memory_enabled:
            episode = _episode(_hide_secrets(text, narrow.settings.memory_secrets), given, agent)
            narrow.deposit(episode._replace(uses=narrow.anchor_files(clients.list_touched(path))))


def _hide_secrets(text: str, how: str) -> str:
    """Nobody reads a warning here, so what looks like a secret is redacted even if the setting only warns."""
    short = text if len(text) <= _EPISODE else f"{text[:_EPISODE]}…"
    return memories.redact.guard(short, "redact" if how == "warn" else how)[0]


def _episode(text: str, given: Given, agent: str) -> Memory:
    now = time.time_ns() // 1000
    return Memory(
        layout.new_id(),
        record.check_content(text),
        record.check_text(agent, "agent_id"),
        record.check_text(given.get("session_id"), "session_id"),
        memory_type="episode",
        importance=0.3,
        source="agent",
        created_at=now,
        updated_at=now,
        client=record.check_text(agent, "agent_id"),
    )
