"""Agent: how an agent remembers in Python, under its own name. A door, so it only calls and shapes.

agent = Agent(agent_id="research-agent")
agent.store_memory("Revenue grew 15% in Q4", importance=0.9)
agent.search_memory("revenue growth", top_k=5)
"""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from memlake import config, integrations
from memlake.calls import refuse_unknown
from memlake.errors import NotFound, Unavailable
from memlake.memories.answers.recalls import Teller
from memlake.memories.memories import Draft
from memlake.memories.record import Caller, check_agent, check_text
from memlake.memories.revert import Choice
from memlake.memories.search import Query, build_query, list_users
from memlake.objects.layout import new_id
from memlake.repo import Repo, init, open_for_memories

if TYPE_CHECKING:
    from memlake.memories.anchors.doubt import Doubt, Settled
    from memlake.memories.check_rot import RotReport
    from memlake.memories.record import Outcome
    from memlake.memories.revert import Taken
    from memlake.memories.search import Hits
    from memlake.memories.timeline import Version
    from memlake.memories.verdicts import Judge

# What a client of a server gives beside what an agent of a folder takes.
SERVER_NAMES = ("port", "framework", "database", "user", "priority", "connect_timeout", "cloud_key", "cloud_endpoint")
_AGENT = ("host", "agent_id", "password", "session_id", "org_id", "branch", "user_id")
_SEARCH = ("query", "top_k", "scope", *(name for name in Query._fields if name not in ("text", "limit")))
_MEANT = {"limit": "top_k", "k": "top_k", "n": "top_k", "text": "query", "q": "query"}
_PORT = 5439
_REACH = 3.0  # seconds


class Agent:
    """One agent's memory and state in a repo.

    `host` is an existing folder, which becomes a repo on first use. None means the repo found from here, or else the
    personal one. `branch` is fixed when the agent is made, so a switch of branches elsewhere never redirects it.
    `org_id` defaults to the setting `memory.org`; memories of other organisations are not seen unless a search names
    them ("*" for all). `user_id` is whom this agent serves: what it stores is about that user, and what it finds is
    about that user or about nobody. `password` and the names in `SERVER_NAMES` are accepted for code that was written
    for a server, and ignored.
    """

    def __init__(  # noqa: PLR0917  the order that code for a server knows
        self,
        host: str | Path | None = None,
        agent_id: str = "",
        password: str | None = None,  # noqa: ARG002
        session_id: str | None = None,
        org_id: str | None = None,
        branch: str | None = None,
        user_id: str | None = None,
        **server: Any,
    ) -> None:
        refuse_unknown("Agent", server, (*_AGENT, *SERVER_NAMES))
        self.agent_id, self.session_id = check_agent(agent_id), check_text(session_id, "session_id") or None
        self.user_id = check_text(user_id, "user_id") or None
        self.repo = _open(host)
        caller = Caller("python", self.session_id or f"run:{new_id()}")
        self.memories = (
            self.repo.memories(branch).as_agent(self.agent_id, check_text(org_id, "org_id") or None).called_by(caller)
        )

    @property
    def org_id(self) -> str:
        return self.memories.context.org or "local"

    @property
    def branch(self) -> str:
        return self.memories.context.branch

    # -- memories -----------------------------------------------------------------------------

    def store_memory(
        self,
        content: str,
        memory_type: str = "fact",
        metadata: Mapping[str, Any] | None = None,
        importance: float = 0.5,
        *,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        expires_at: str | int | datetime | None = None,
        uses: Sequence[str] | None = None,
        on_conflict: str = "add",
    ) -> str:
        """Store one memory and return its id. A search finds it by its words at once; its vector follows.

        `uses` names what it rests on, such as `src/api.py:10-40` or `pets@1.0.2`: a hit says when that has changed.
        """
        draft = self._draft(
            content,
            memory_type=memory_type,
            metadata=metadata,
            importance=importance,
            category=category,
            tags=tags,
            session_id=session_id or self.session_id,
            user_id=user_id or self.user_id,
            expires_at=expires_at,
            uses=uses,
        )
        done = self.memories.store(draft) if on_conflict == "add" else self.memories.remember(draft, on_conflict)
        _warn(done.warnings)
        return done.memory_id

    def remember(
        self,
        content: str,
        *,
        on_conflict: str = "decide",
        dry_run: bool = False,
        judge: Judge | None = None,
        **fields: Any,
    ) -> Outcome:
        """Store a memory, or let it skip, replace, correct or join an existing one. The result says which, and why."""
        return self.memories.remember(self._draft(content, **fields), on_conflict, dry_run=dry_run, judge=judge)

    def search_memory(
        self,
        query: str,
        top_k: int = 10,
        memory_type: str | None = None,
        min_importance: float | None = None,
        *,
        agent_id: str | Sequence[str] | None = None,
        **how: Any,
    ) -> Hits:
        """The best memories of this project for a query, whichever agent stored them.

        `agent_id` narrows it to some agents, `scope="own"` to this agent's own and nobody's. With a `user_id` (given
        here or to `Agent`) it is what is about that user or about none.

        Further filters: session_id, category, tags, metadata, since, until, mode, as_of, offset, sees, min_score,
        project, org_id.
        """
        refuse_unknown("search_memory", how, _SEARCH, _MEANT)
        how = {"user_id": list_users(self.user_id), **how}
        narrowed = {"memory_type": memory_type, "min_importance": min_importance, **how}
        asked = build_query(self.agent_id, query, top_k=top_k, agent_id=agent_id, **narrowed)
        hits = self.memories.search(asked)
        self.memories.note_told(asked, hits, Teller("python", self.session_id or "", self.agent_id))
        return hits

    def get_memory(self, memory_id: str) -> dict[str, Any]:
        """One memory with all its fields."""
        return self.memories.fields(self.memories.get(memory_id))

    def update_memory(self, memory_id: str, content: str | None = None, **fields: Any) -> dict[str, Any]:
        """Change a memory; its earlier content stays in its history."""
        refuse_unknown("update_memory", fields, Draft._fields)
        old = self.memories.get(memory_id)
        changed = {**({"content": content} if content is not None else {}), **fields}
        draft = Draft(**{"content": old.content, "agent_id": old.agent_id, **changed})
        made = self.memories.update(memory_id, draft, changed=changed)
        _warn(made.warnings)
        return self.memories.fields(made)

    def delete_memory(self, memory_id: str, purge: bool | None = None, reason: str = "asked for") -> bool:
        """Forget a memory, so that it can be restored, or erase it for good with `purge`. False if there is none.

        Unless given, `purge` is what the setting memory.delete says: forget, because agents err.
        """
        try:
            self.memories.delete(memory_id, purge=purge, reason=reason)
        except NotFound:
            self.memories.on(self.branch)  # a branch that is gone is an error of its own
            return False
        return True

    def revert(self, *, dry_run: bool = False, **written: Any) -> Taken:
        """Take back what was written by a session_id, an agent_id, a source, or since a time, in one step.

        What it replaced stands again, what it forgot is there again, what it added is forgotten. With `derived` also
        what was made from it. The result names who was told of it.
        """
        refuse_unknown("revert", written, Choice._fields)
        return self.memories.revert(Choice(**written), dry_run=dry_run)

    def check(self, path: str | Path | None = None, *, format: str = "auto") -> RotReport:  # noqa: A002
        """What is rotten in the memories here, or in what another program keeps at `path`. Changes nothing.

        Duplicates, contradictions, loops, what instruction files say too, secrets, orders to the reader, dead paths.
        """
        items = None if path is None else integrations.read_memories.read_memories(path, format=format, skip_bad=True)
        is_instructions = items is not None and items.format == "instructions"
        root = self.memories.context.place.root
        return self.memories.check(items, () if is_instructions else integrations.read_memories.read_instructions(root))

    def doubts(self) -> list[Doubt]:
        """Memories that rest, through however many others, on something that changed."""
        return self.memories.doubts()

    def settle(self, *memory_ids: str) -> list[Settled]:
        """Say of memories in doubt that they are true all the same."""
        return self.memories.settle(*memory_ids)

    def restore_memory(self, memory_id: str, at: str | None = None) -> dict[str, Any]:
        """Bring back a deleted memory, or the value it had at a rev or time."""
        return self.memories.fields(self.memories.restore(memory_id, at))

    def memory_history(self, memory_id: str) -> list[Version]:
        """All values a memory had, oldest first."""
        return self.memories.history(memory_id)

    # -- state --------------------------------------------------------------------------------

    def set_state(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key of this agent."""
        _warn(self.memories.set_state(self.agent_id, key, value).warnings)

    def get_state(self, key: str) -> Any:
        """The value under a key, or None."""
        state = self.memories.find_state(self.agent_id, key)
        return None if state is None else state.value

    def delete_state(self, key: str) -> bool:
        return self.memories.remove_state(self.agent_id, key)

    def list_state(self) -> dict[str, Any]:
        return {state.key: state.value for state in self.memories.states(self.agent_id)}

    # -- keeping ------------------------------------------------------------------------------

    def wait(self, seconds: float = 60) -> bool:
        """Wait until every memory has its vector."""
        return self.memories.wait(seconds)

    def close(self) -> None:
        self.repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Agent({self.agent_id!r}, {str(self.repo.root)!r}, {self.branch})"

    def _draft(self, content: str, **fields: Any) -> Draft:
        given = {"agent_id": self.agent_id, "session_id": self.session_id, "user_id": self.user_id, **fields}
        refuse_unknown("remember", given, Draft._fields)
        return Draft(content=content, **given)


def _warn(texts: Sequence[str]) -> None:
    for warning in texts:
        warnings.warn(warning, stacklevel=3)


def _open(host: str | Path | None) -> Repo:
    if host is None or str(host) in ("", "local", "localhost"):
        return open_for_memories()
    text = str(host)
    if "://" in text or _is_host_name(text):
        raise _unreachable(text)
    folder = Path(text).expanduser()
    if folder.is_dir() and folder.name != config.FOLDER and not config.repo_folder(folder).is_dir():
        sys.stderr.write(f"memlake: {folder} was not a repo yet, so one was made there for the memories\n")
        return init(folder)
    return open_for_memories(text)


def _is_host_name(text: str) -> bool:
    return not Path(text).exists() and "/" not in text and "\\" not in text and "." in text.strip(".")


def _unreachable(host: str) -> Unavailable:
    """Why a server cannot be used. It is really asked, so that the sentence is true."""
    parts = urlsplit(host if "://" in host else f"//{host}")
    name, port = parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme, _PORT)
    cure = "Leave host out to use the repo here, or pass a folder."
    try:
        socket.create_connection((name, port), _REACH).close()
    except (OSError, UnicodeError) as error:
        return Unavailable(f"{host} cannot be reached: {error}. Nothing was stored.", hint=cure)
    return Unavailable(f"{host} answers, but memlake works with folders only. Nothing was stored.", hint=cure)
