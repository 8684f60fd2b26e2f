"""Which file of each client says that memlake serves it, and what it says there. Pure: reads and writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from memlake import dotfiles
from memlake.dotfiles import Change
from memlake.programs import Server

NAME = "memlake"
PROFILES = {  # which tools a server offers; tools.py says which those are
    "lean": "remember, recall, update, forget, restore",
    "memory": "store_memory, memory_search and the other names that agents know",
    "full": "these, history, branches and purge",
}
PROFILE = "lean"  # what a client is set up with: few tools, in one vocabulary


def command_of(server: Server, scope: str | None, root: Path | None, profile: str = PROFILE) -> list[str]:
    """How a client starts the server. A team commits a project's file, so nothing of this machine stands in it."""
    serve = ("mcp", "--profile", profile)
    if (scope or next(iter(server.files))) == "project":
        return [NAME, *(("-C", server.place) if server.place else ()), *serve]
    pinned = ("-C", str(root)) if root and "project" not in server.files else ()
    return [sys.executable, "-m", "memlake.cli", *pinned, *serve]


def entry(server: Server, command: list[str]) -> dict[str, Any]:
    """What the client's file says of the server."""
    line = {"command": command} if server.whole else {"command": command[0], "args": command[1:]}
    return {**server.more, **line}


def add_server(server: Server, command: list[str], path: Path) -> Change:
    """The change that names the server in a client's file; what else the entry says (its env) stays."""

    def change(document: Any) -> None:
        table = dotfiles.section(document, server.table, path)
        dotfiles.section(table, NAME, path).update(entry(server, command))

    return change


def remove_server(server: Server, path: Path) -> Change:
    def change(document: Any) -> None:
        table = dotfiles.section(document, server.table, path) if server.table in document else {}
        if table.pop(NAME, None) is not None and not table:
            del document[server.table]

    return change
