"""What verbs about memories share: the open memories, their options, completion. Shows nothing but where it looked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlake import config, memories, projects
from memlake.cli.arguments import Completer, complete_with, screen, verb
from memlake.cli.screen import Screen
from memlake.errors import Error, Unavailable, Usage
from memlake.memories.record import CATEGORIES, SCOPES, TYPES, Caller
from memlake.repo import merge_finished, note_written, open_for_memories, open_narrow, open_personal, open_repo
from memlake.views import words

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memlake.memories.memories import Memories

F = TypeVar("F", bound=Callable[..., Any])
_KNOWN = 500  # memories whose names a shell's line is completed from


@contextmanager
def open_memories(given: dict[str, Any]) -> Iterator[tuple[Memories, Screen]]:
    """The memories of the branch asked for, of the repo here or of the personal one."""
    branch, org, personal = (given.pop(name, None) for name in ("branch", "org", "personal"))
    config.one_thread_of_algebra()
    with open_personal() if personal else open_for_memories() as repo:
        if not branch:
            for name in merge_finished(repo):
                screen(repo.config.in_force).note(
                    f"git has merged {words.clean(name)}, so its memories were merged too."
                )
        written: list[tuple[str, str]] = []
        opened = repo.memories(branch).recording_to(written).as_agent("", org).called_by(_find_caller())
        try:
            yield opened.of_no_project() if personal else opened, screen(repo.config.in_force)
        finally:  # also for a verb that failed half way; what was stored stays stored even if it cannot be noted
            with suppress(Unavailable):
                # The verb as it was typed and its key; of memories the ids are noted, never the contents.
                typed = click.get_current_context().command_path.split(" ", 1)[-1]
                note_written(repo, typed, str(given.get("key") or ""), written)


def _find_caller() -> Caller:
    """Who types: the person at a terminal, or a coding agent that says so in the environment."""
    client, session = config.find_session()
    return Caller(client, session, "person" if client == "cli" else "agent")


def repo_of(memories: Memories) -> str:
    """The folder of the repo that memories are in."""
    return str(config.repo_root(memories.context.here.history.db.path.parent))


def tell_repo(memories: Memories, screen: Screen) -> None:
    """Name the repo if the current folder is not inside it, because it may not be the one that is meant."""
    root, here = repo_of(memories), os.getcwd()
    if os.path.commonpath((root, here)) != root:
        whose, place = "the repo", memories.context.found
        project = place.root if not place.own else ""
        if root == str(config.personal_folder()):
            whose = "your personal repo"
        screen.note(f"(in {whose} {words.clean(root)}{f', for project {words.clean(project)}' if project else ''})")


def tell_bounds(memories: Memories, screen: Screen, project: str | None, *, done: str) -> None:
    """Say what a verb leaves out in a repo of many projects, unless the user named one."""
    if project is None and not memories.context.found.own and not screen.as_json:
        screen.note(f"Memories of other projects are not {done}; --project '*' includes them.")


# -- completion


def _names_of(kind: str) -> Iterable[tuple[str, str]]:
    if kind == "category":
        yield from ((name, "") for name in CATEGORIES)
    if kind == "type":
        yield from ((name, "") for name in TYPES)
    with open_repo(projects.find_memory_repo() or config.personal_folder()) as repo:
        newest = open_narrow(repo).newest(_KNOWN)
    for memory in newest:
        if kind == "id":
            yield memory.memory_id, " ".join(memory.content[:60].split())
        elif kind == "tag":
            yield from ((tag, "") for tag in memory.tags)
        else:
            yield {"category": memory.category, "type": memory.memory_type, "agent": memory.agent_id}[kind], ""


def complete_memories(kind: str) -> Completer:
    """A completer of what the newest memories have: "category", "tag", "type", "agent" or "id"."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names: dict[str, str] = {}
        with suppress(Error, OSError):  # a shell's line is no place for a message
            for folder in ctx.find_root().params.get("folders") or ():
                os.chdir(folder)
            for name, about in _names_of(kind):
                names.setdefault(name, about)
        matches = sorted(name for name in names if name and name.startswith(incomplete))
        return [CompletionItem(name, help=names[name] or None) for name in matches]

    return complete


# -- options


_SCOPE = (
    click.Option(
        ["--branch"], metavar="NAME", shell_complete=complete_with("branch"),
        help="Use this branch instead of the one checked out.",
    ),
    click.Option(["--org"], metavar="NAME", help="Use this organisation (* for all) instead of memory.org."),
)  # fmt: skip


def memory_verb(
    name: str | None = None, *, group: click.Group | None = None, shared: Sequence[click.Option] = ()
) -> Callable[[Callable[..., Any]], click.Command]:
    """A verb about memories: it has --branch and --org, and is called with the memories they mean."""
    return verb(name, opens=open_memories, group=group, shared=(*_SCOPE, *shared))


agent_option = click.option(
    "--agent", metavar="NAME", shell_complete=complete_memories("agent"), help="Only this agent's."
)
agents_option = click.option(
    "--agent", "agents", multiple=True, metavar="NAME", shell_complete=complete_memories("agent"),
    help="Only this agent's. Repeat it for more.",
)  # fmt: skip
scope_option = click.option(
    "--scope", type=click.Choice(SCOPES), default="project", show_default=True,
    help="Everybody's of the project, or only your own: what --agent and no agent stored.",
)  # fmt: skip
id_argument = click.argument("memory_id", metavar="ID", shell_complete=complete_memories("id"))


def _metadata(_ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`k=v` pairs; a value that is JSON is that value, any other is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Usage(f"'{pair}' is not of the form NAME=VALUE. Nothing was done.")
        values[name] = json_or_text(value)
    return values


def json_or_text(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=str)
    except (ValueError, RecursionError):
        return value


importance_option = click.option("--importance", type=click.FloatRange(0, 1), help="0 to 1; a new memory has 0.5.")
expires_option = click.option(
    "--expires", "expires_at", metavar="TIME", help='When it ends: "tomorrow", "in 3 days", 2h, 2030-01-31, or never.'
)
uses_option = click.option(
    "--uses",
    multiple=True,
    metavar="THING",
    help="What it rests on: PATH, PATH:10-40, MODEL#TENSOR, DATASET@VERSION, a memory or a commit. Repeat it for more.",
)
metadata_option = click.option(
    "--metadata",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_metadata,
    help="An extra field. VALUE may be JSON. Repeat it for more.",
)
_FILING = (
    click.option(
        "--category", metavar="NAME", shell_complete=complete_memories("category"),
        help=f"{', '.join(CATEGORIES)}, or your own.",
    ),
    click.option(
        "--tag", "tags", multiple=True, metavar="TAG", shell_complete=complete_memories("tag"),
        help="A tag. Repeat it for more.",
    ),
    click.option(
        "--type", "memory_type", metavar="TYPE", shell_complete=complete_memories("type"),
        help=f"{', '.join(TYPES)}, or your own.",
    ),
    click.option("--session", "session_id", metavar="NAME", help="The session it belongs to."),
    click.option(
        "--source", metavar="KIND[:WHAT]", help="person, agent, tool, web or import, and what: web:https://example.org"
    ),
    click.option("--user", "user_id", metavar="NAME", help="The user it is about, where an agent serves many."),
    metadata_option,
)  # fmt: skip


def filing_options(function: F) -> F:
    """--category, --tag, --type, --session and --metadata, to file a memory by or to look for it."""
    for option in reversed(_FILING):
        function = option(function)
    return function


def choose_agents(agents: tuple[str, ...], scope: str) -> str | tuple[str, ...]:
    """Whose memories are meant: those of the agents that are named, with the scope "own" also those of no agent."""
    if scope == "own":
        return tuple(dict.fromkeys(name for agent in agents or ("",) for name in memories.record.list_own(agent)))
    return agents or "*"


def draft(content: str, **given: Any) -> Any:
    """A memory to be stored, of what was given on the command line."""
    return memories.memories.Draft(content, **{name: value for name, value in given.items() if value is not None})
