"""How verbs about memories take their arguments: the open memories, shared options, completion. Shows nothing."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import click

from memlake import config, memories, projects
from memlake.cli.arguments import Completer, completing, screen
from memlake.cli.screen import Screen
from memlake.errors import Error, Unavailable, Usage
from memlake.memories.record import CATEGORIES, TYPES, Memory
from memlake.repo import note_written, open_for_memories, open_narrow, open_personal, open_repo
from memlake.views import words

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memlake.memories.memories import Memories

P = ParamSpec("P")
R = TypeVar("R")
_KNOWN = 500  # memories whose names a shell's line is completed from


def pass_memories(verb: Callable[Concatenate[Memories, Screen, P], R]) -> Callable[P, R]:
    """Calls `verb` with the memories of the branch asked for, of the repo here or the personal one, and the screen."""

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        branch, org, personal = (cast(Any, kwargs.pop(name, None)) for name in ("branch", "org", "personal"))
        config.one_thread_of_algebra()
        with open_personal() if personal else open_for_memories() as repo:
            written: list[tuple[str, str]] = []
            found = repo.memories(branch).recording_to(written).as_agent("", org)
            found = found.of_no_project() if personal else found
            try:
                return verb(found, screen(repo.settings), *args, **kwargs)
            finally:  # also of a verb that failed half way; what is remembered stands even where it cannot be noted
                with contextlib.suppress(Unavailable):
                    note_written(repo, *_named(kwargs), written)

    return call


def repo_of(memories: Memories) -> str:
    """The folder of the repo that memories are in."""
    return str(config.repo_root(memories.ground.here.history.db.path.parent))


def tell_repo(memories: Memories, screen: Screen) -> None:
    """Name the repo where one does not stand in it: it may not be the one that is meant."""
    root, here = repo_of(memories), os.getcwd()
    if os.path.commonpath((root, here)) != root:
        whose, project = "the repo", memories.ground.project
        if root == str(config.personal_folder()):
            whose = "your personal repo"
        screen.note(f"(in {whose} {words.clean(root)}{f', for project {words.clean(project)}' if project else ''})")


def tell_bounds(memories: Memories, screen: Screen, project: str | None, *, verbed: str, verbs: str) -> None:
    """Say what a verb leaves out in a repo of many projects, unless its user named one."""
    if project is None and memories.ground.project is not None:
        screen.note(f"Those of other projects are not {verbed}: --project '*' {verbs} all.")


def _named(given: dict[str, Any]) -> tuple[str, str]:
    """The verb as it was typed and the key it was about; of memories the ids are noted, never what they say."""
    return click.get_current_context().command_path.split(" ", 1)[-1], str(given.get("key") or "")


# -- completion


def _recent() -> list[Memory]:
    found = projects.find_memory_repo() or config.personal_folder()
    with open_repo(found) as repo:
        return open_narrow(repo).newest(_KNOWN)


def _names_of(kind: str) -> Iterable[tuple[str, str]]:
    if kind == "category":
        yield from ((name, "") for name in CATEGORIES)
    if kind == "type":
        yield from ((name, "") for name in TYPES)
    for memory in _recent():
        if kind == "id":
            yield memory.memory_id, " ".join(memory.content[:60].split())
        elif kind == "tag":
            yield from ((tag, "") for tag in memory.tags)
        else:
            yield {"category": memory.category, "type": memory.memory_type, "agent": memory.agent_id}[kind], ""


def completing_memories(kind: str) -> Completer:
    """A completer of what the newest memories have: "category", "tag", "type", "agent" or "id"."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found: dict[str, str] = {}
        try:
            for folder in ctx.find_root().params.get("folders") or ():
                os.chdir(folder)
            for name, about in _names_of(kind):
                found.setdefault(name, about)
        except (Error, OSError):  # a shell's line is no place for a message
            pass
        fitting = sorted(name for name in found if name and name.startswith(incomplete))
        return [CompletionItem(name, help=found[name] or None) for name in fitting]

    return complete


# -- options


_branch_option = click.option(
    "--branch", metavar="NAME", shell_complete=completing("branch"), help="On this branch, not the one checked out."
)
_org_option = click.option(
    "--org", metavar="NAME", help="Of this organisation (* for all), not the one of the setting memory.org."
)
personal_option = click.option(
    "--personal", is_flag=True, help="In your personal repo, for every project; not in the repo here."
)


def scope_options(verb: Callable[P, R]) -> Callable[P, R]:
    """--branch and --org: which memories a verb is about."""
    return _branch_option(_org_option(verb))


agent_option = click.option("--agent", metavar="NAME", shell_complete=completing_memories("agent"), help="Whose.")
id_argument = click.argument("memory_id", metavar="ID", shell_complete=completing_memories("id"))
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print the id and nothing else.")


def _metadata(_ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`k=v` pairs; a value that is JSON is that value, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Usage(f"'{pair}' is not of the form name=value. Nothing was done.")
        found[name] = json_or_text(value)
    return found


def json_or_text(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=str)
    except (ValueError, RecursionError):
        return value


metadata_option = click.option(
    "--metadata", multiple=True, metavar="NAME=VALUE", callback=_metadata, help="A fact beside it; VALUE may be JSON."
)
_FILING = (
    click.option(
        "--category", metavar="NAME", shell_complete=completing_memories("category"),
        help=f"Where it is filed: {', '.join(CATEGORIES)}, or your own.",
    ),
    click.option(
        "--tag", "tags", multiple=True, metavar="TAG", shell_complete=completing_memories("tag"),
        help="A tag; again for more.",
    ),
    click.option(
        "--type", "memory_type", metavar="TYPE", shell_complete=completing_memories("type"),
        help=f"{', '.join(TYPES)}, or your own.",
    ),
    click.option("--session", "session_id", metavar="NAME", help="The session it belongs to."),
    metadata_option,
)  # fmt: skip


def filing_options(verb: Callable[P, R]) -> Callable[P, R]:
    """--category, --tag, --type, --session and --metadata, to file a memory by or to look for it."""
    for option in reversed(_FILING):
        verb = option(verb)
    return verb


def draft(content: str, **given: Any) -> Any:
    """A memory to be stored, of what was given on the command line."""
    return memories.memories.Draft(content, **{name: value for name, value in given.items() if value is not None})
