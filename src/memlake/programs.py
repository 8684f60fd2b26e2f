"""Programs that memlake is set up in, coding agents and editors: what each calls its files, its events and its fields.

One list for the MCP server and for hooks. Pure data; knows neither memories nor how a file is edited.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

SCOPES = ("project", "user")


class Server(NamedTuple):
    """How a program is told of the MCP server: its files by scope (`~` is home), the table in them, what is next.

    `place` is how its files name the project, for one that does not start a server there; `whole` is whether a command
    is one list, and `more` what an entry must say beside it.
    """

    table: str
    files: Mapping[str, str]
    then: str
    place: str = ""
    whole: bool = False
    more: Mapping[str, Any] = {}


class Hooks(NamedTuple):
    """How a program is told of hooks, and what it calls our events and the fields of its input.

    `form` is how its file lists them: groups of hooks, plain commands, or a plugin that calls us by itself.
    """

    files: Mapping[str, str]
    events: Mapping[str, str]
    then: str
    form: str = "groups"
    timeout: Mapping[str, int] = {"timeout": 10}
    matchers: Mapping[str, str] = {}  # by our event: of which kind alone it is to be told
    fields: Mapping[str, str] = {}  # its name -> ours, where they differ


class Program(NamedTuple):
    """`name` is what --client takes, and `agent` who signs what its hooks store."""

    name: str
    agent: str
    server: Server | None = None
    hooks: Hooks | None = None


_EVENTS = {  # ours, and what Claude Code and those who follow it call them
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
    "session-end": "SessionEnd",
    "subagent-start": "SubagentStart",
}
_APP = "~/Library/Application Support" if sys.platform == "darwin" else "~/.config"
PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "claude",
            "claude-code",
            Server(
                "mcpServers", {"project": ".mcp.json", "user": "~/.claude.json"},
                "Start `claude` in this folder and approve the server; `claude mcp list` shows it.",
                more={"type": "stdio"},
            ),
            Hooks(
                {"project": ".claude/settings.json", "user": "~/.claude/settings.json"}, _EVENTS,
                "Start `claude` here; /hooks shows them.",
            ),
        ),
        Program(
            "codex",
            "codex",
            Server(
                "mcp_servers", {"project": ".codex/config.toml", "user": "~/.codex/config.toml"},
                "Start `codex`; `codex mcp list` shows it. A project's file counts once the folder is trusted.",
            ),
            Hooks(
                {"project": ".codex/hooks.json", "user": "~/.codex/hooks.json"}, _EVENTS,
                "Start `codex` here, trust the folder and the hooks; /hooks shows them.",
                timeout={"timeout": 3},  # it warns of more at the end of a session
            ),
        ),
        Program(
            "gemini",
            "gemini-cli",
            Server(
                "mcpServers", {"project": ".gemini/settings.json", "user": "~/.gemini/settings.json"},
                "Start `gemini` and trust the folder; `gemini mcp list` shows it.",
            ),
            Hooks(
                {"project": ".gemini/settings.json", "user": "~/.gemini/settings.json"},
                {
                    "session-start": "SessionStart", "prompt": "BeforeAgent", "pre-compact": "PreCompress",
                    "stop": "AfterAgent", "session-end": "SessionEnd",
                },
                "Start `gemini` here and trust the folder; /hooks shows them.",
                timeout={"timeout": 10_000},
                matchers={"pre-compact": "manual"},  # the other kind comes with every turn, compressed or not
                fields={"prompt_response": "last_assistant_message"},
            ),
        ),
        Program(
            "copilot",
            "copilot-cli",
            Server(
                "mcpServers", {"project": ".github/mcp.json", "user": "~/.copilot/mcp-config.json"},
                "Start `copilot` and trust the folder; `copilot mcp list` shows it.",
                more={"type": "local", "tools": ["*"]},
            ),
            Hooks(
                {"project": ".github/hooks/memlake.json", "user": "~/.copilot/hooks/memlake.json"},
                {
                    "session-start": "sessionStart", "prompt": "userPromptSubmitted", "pre-compact": "preCompact",
                    "stop": "agentStop", "session-end": "sessionEnd", "subagent-start": "subagentStart",
                },
                "Start `copilot` here and trust the folder; /env shows them.",
                form="commands",
                timeout={"timeoutSec": 10},
                fields={
                    "sessionId": "session_id", "transcriptPath": "transcript_path", "agentId": "agent_id",
                    "agentName": "agent_type",
                },
            ),
        ),
        Program(
            "opencode",
            "opencode",
            Server(
                "mcp", {"project": "opencode.json", "user": "~/.config/opencode/opencode.json"},
                "Start `opencode`; `opencode mcp list` shows it.",
                whole=True, more={"type": "local", "enabled": True},
            ),
            Hooks(
                {
                    "project": ".opencode/plugins/memlake.js",
                    "user": "~/.config/opencode/plugins/memlake.js",
                },
                {event: event for event in _EVENTS},
                "Start `opencode` here.",
                form="plugin",
            ),
        ),
        Program(
            "cursor",
            "cursor",
            Server(
                "mcpServers", {"project": ".cursor/mcp.json", "user": "~/.cursor/mcp.json"},
                "Switch it on under Settings, MCP.", place="${workspaceFolder}",
            ),
        ),
        Program(
            "vscode",
            "vscode",
            Server(
                "servers", {"project": ".vscode/mcp.json", "user": f"{_APP}/Code/User/mcp.json"},
                "Run the command `MCP: List Servers` and start it.", "${workspaceFolder}",
                more={"type": "stdio"},
            ),
        ),
        Program(
            "desktop",
            "claude-desktop",
            Server(
                "mcpServers", {"user": f"{_APP}/Claude/claude_desktop_config.json"},
                "Quit Claude Desktop and start it again.",
            ),
        ),
    )
}  # fmt: skip
SERVED = {name: program.server for name, program in PROGRAMS.items() if program.server}
HOOKED = {name: program.hooks for name, program in PROGRAMS.items() if program.hooks}


def name_agent(client: str) -> str:
    """Who signs what a client of MCP stores, as its hooks do: Codex and Gemini add to their names what they are."""
    return client.split("-mcp-client", maxsplit=1)[0]


def find_file(name: str, files: Mapping[str, str], scope: str | None, root: Path) -> Path:
    """Where a program looks in a scope; in the project where it does so at all and nothing else is asked for."""
    wanted = scope or next(iter(files))
    if wanted not in files:
        raise InvalidInput(
            f"{name} does not have settings for a {wanted}. Nothing was changed.",
            hint=f"Use --scope {next(iter(files))}.",
        )
    file = files[wanted]
    return Path.home() / file[2:] if file.startswith("~/") else root / file
