"""Which file of each client says that memlake serves it, and what it says there. Pure: reads and writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memlake import dotfiles
from memlake.dotfiles import Change
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

NAME = "memlake"
SCOPES = ("project", "user")
PROFILES = {  # which tools a server offers; tools.py says which those are
    "lean": "remember, recall, update, forget, restore",
    "memory": "store_memory, memory_search and the other names that agents know",
    "full": "these, history, branches and purge",
}
PROFILE = "lean"  # what a client is set up with: few tools, in one vocabulary


class Client(NamedTuple):
    """A program that speaks MCP: its files by scope (`~` is home), the table in them, what is next, its type of us.

    `place` is how its files name the project, for a client that does not start a server there.
    """

    name: str
    table: str
    files: Mapping[str, str]
    then: str
    type: str = ""
    place: str = ""


_APP = "~/Library/Application Support" if sys.platform == "darwin" else "~/.config"
CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude", "mcpServers", {"project": ".mcp.json", "user": "~/.claude.json"},
            "Start `claude` in this folder and approve the server; `claude mcp list` shows it.", "stdio",
        ),
        Client(
            "codex", "mcp_servers", {"project": ".codex/config.toml", "user": "~/.codex/config.toml"},
            "Start `codex`; `codex mcp list` shows it. A project's file counts once the folder is trusted.",
        ),
        Client(
            "cursor", "mcpServers", {"project": ".cursor/mcp.json", "user": "~/.cursor/mcp.json"},
            "Switch it on under Settings, MCP.", place="${workspaceFolder}",
        ),
        Client(
            "vscode", "servers", {"project": ".vscode/mcp.json", "user": f"{_APP}/Code/User/mcp.json"},
            "Run the command `MCP: List Servers` and start it.", "stdio", "${workspaceFolder}",
        ),
        Client(
            "gemini", "mcpServers", {"project": ".gemini/settings.json", "user": "~/.gemini/settings.json"},
            "Start `gemini` and trust the folder; `gemini mcp list` shows it.",
        ),
        Client(
            "opencode", "mcp", {"project": "opencode.json", "user": "~/.config/opencode/opencode.json"},
            "Start `opencode`; `opencode mcp list` shows it.", "local",
        ),
        Client(
            "desktop", "mcpServers", {"user": f"{_APP}/Claude/claude_desktop_config.json"},
            "Quit Claude Desktop and start it again.",
        ),
    )
}  # fmt: skip


def file_of(client: Client, scope: str | None, root: Path, home: Path) -> Path:
    """The file of a client; the project's where there is one and nothing else is asked for."""
    wanted = scope or next(iter(client.files))
    if wanted not in client.files:
        raise InvalidInput(
            f"{client.name} does not have settings for a {wanted}. Nothing was changed.",
            hint=f"Use --scope {next(iter(client.files))}.",
        )
    name = client.files[wanted]
    return home / name[2:] if name.startswith("~/") else root / name


def command_of(client: Client, scope: str | None, root: Path | None, profile: str = PROFILE) -> list[str]:
    """How a client starts the server. A team commits a project's file, so nothing of this machine stands in it."""
    serve = ("mcp", "--profile", profile)
    if (scope or next(iter(client.files))) == "project":
        return [NAME, *(("-C", client.place) if client.place else ()), *serve]
    pinned = ("-C", str(root)) if root and "project" not in client.files else ()
    return [sys.executable, "-m", "memlake.cli", *pinned, *serve]


def entry(client: Client, command: list[str]) -> dict[str, Any]:
    """What the client's file says of the server."""
    kind = {"type": client.type} if client.type else {}
    if client.type == "local":
        return {**kind, "command": command, "enabled": True}
    return {**kind, "command": command[0], "args": command[1:]}


def add_server(client: Client, command: list[str], path: Path) -> Change:
    """The change that names the server in a client's file; what else the entry says (its env) stays."""

    def change(document: Any) -> None:
        table = dotfiles.section(document, client.table, path)
        dotfiles.section(table, NAME, path).update(entry(client, command))

    return change


def remove_server(client: Client, path: Path) -> Change:
    def change(document: Any) -> None:
        table = dotfiles.section(document, client.table, path) if client.table in document else {}
        if table.pop(NAME, None) is not None and not table:
            del document[client.table]

    return change
