"""The tools: plain typed functions. Their signatures are the schemas, their docstrings what agents read.

`store_memory`, `search_memory`, `get_agent_state`, `set_agent_state`, `delete_memory` and the `memory_*` family are
named, and take and give what clients of either already know; the rest are memlake's own. A profile says which of them
are listed. An agent that knows another family may call it all the same, but what erases for good only in `full`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from memlake.errors import InvalidInput, NotFound
from memlake.mcp.workspace import Desk, Who, Wish, answer, within
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Outcome
from memlake.memories.search import Query, build_query, choose_agents, iso, list_users
from memlake.named_tuple import NamedTuple

Result = dict[str, Any]
_TASK = "task-"


_RARE = frozenset({  # parameters that are taken always and listed in `full` alone: an agent pays for each it reads
    "agentId", "as_of", "branch", "dry_run", "endTime", "expiresAt", "max_tokens", "metadata", "min_score", "mode",
    "on_conflict", "project", "sees", "startTime", "userId", "user_id", "uses",
})  # fmt: skip
_GRAVE = frozenset({"purge"})  # parameters that only `full` takes


class Tool(NamedTuple):
    """A function with what a client may assume of it, and its parameters that are always listed though rarely used."""

    run: Callable[..., Result]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    lists: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.run.__name__

    def refused_in(self, profile: str) -> frozenset[str]:
        return frozenset() if profile == "full" else _GRAVE

    def hidden_in(self, profile: str) -> frozenset[str]:
        return frozenset() if profile == "full" else (_RARE - self.lists) | _GRAVE


# -- tools of agents that store and search ----------------------------------------------------------


def store_memory(
    desk: Desk,
    who: Who,
    content: str,
    memory_type: str = "fact",
    metadata: dict[str, Any] | None = None,
    importance: float = 0.5,
    expires_at: str | None = None,
    user_id: str | None = None,
    uses: list[str] | None = None,
    branch: str | None = None,
) -> Result:
    """Store one fact, preference, episode or context for later sessions, as it is."""
    given: Result = {"memory_type": memory_type, "metadata": metadata, "importance": importance}
    given |= {"expires_at": expires_at, "user_id": user_id or who.user_id, "uses": uses}
    draft = Draft(content, who.agent_id, **given)
    stored = desk.on(who, branch).store(draft)
    return {
        "memory_id": stored.memory_id,
        "status": "stored",
        "has_embedding": False,
        **_warnings(stored.warnings),
    }


def _warnings(warnings: Sequence[str]) -> Result:
    return {"warnings": list(warnings)} if warnings else {}


def search_memory(
    desk: Desk,
    who: Who,
    query: str,
    top_k: int = 10,
    memory_type: str | None = None,
    min_importance: float | None = None,
    agent_id: str | None = None,
    user_id: str | None = None,
    scope: str | None = None,
    branch: str | None = None,
    sees: str = "branch",
    min_score: float | None = None,
    metadata: dict[str, Any] | None = None,
    project: str | None = None,
    max_tokens: int | None = None,
) -> Result:
    """Find stored memories of this project by meaning and words, whichever agent stored them."""
    narrowed: Result = {"memory_type": memory_type, "min_importance": min_importance, "sees": sees}
    narrowed |= {"min_score": min_score, "metadata": metadata or {}, "project": project}
    narrowed |= {"user_id": user_id or list_users(who.user_id)}
    asked = build_query(who.agent_id, query, top_k=top_k, agent_id=agent_id, scope=scope, **narrowed)
    return answer(desk.on(who, branch), who, asked, Wish("memory_id", scope, max_tokens))


def get_agent_state(desk: Desk, who: Who, key: str, branch: str | None = None) -> Result:
    """Read a value this agent keeps under a key; null when there is none."""
    found = desk.on(who, branch).find_state(who.agent_id, key)
    if found is None:
        return {"key": key, "value": None, "updated_at": None}
    return {"key": key, "value": found.value, "updated_at": iso(found.updated_at)}


def set_agent_state(desk: Desk, who: Who, key: str, value: Any, branch: str | None = None) -> Result:
    """Keep a JSON value under a key of this agent, such as the task it is on."""
    found = desk.on(who, branch).set_state(who.agent_id, key, value)
    told = {"key": key, "value": found.value, "updated_at": iso(found.updated_at)}
    return {**told, **_warnings(found.warnings)}


def delete_memory(desk: Desk, who: Who, memory_id: str, purge: bool | None = None, branch: str | None = None) -> Result:
    """Delete a memory. It is forgotten and can be restored, because agents err; a setting may make it final."""
    return {"memory_id": memory_id, **_delete(desk.on(who, branch), memory_id, purge)}


def _delete(memories: Memories, memory_id: str, purge: bool | None) -> Result:
    """Deleting twice is not a failure, because agents try again. Deleting what was never stored is one."""
    try:
        report = memories.delete(memory_id, purge=purge)
    except NotFound:
        memories.history(memory_id)
        return _gone(memories)
    if report is None:
        return {"status": "deleted"}
    return {"status": "purged", **({"notes": list(report.notes)} if report.notes else {})}


def _gone(memories: Memories) -> Result:
    memories.on(memories.context.branch)  # a branch that is gone is an error of its own
    note = f"It was not on branch {memories.context.branch!r}. Nothing was changed."
    return {"status": "already gone", "note": note}


# -- tools of agents that keep one memory a topic ---------------------------------------------------


def memory_add(
    desk: Desk,
    who: Who,
    content: str,
    category: str | None = None,
    tags: list[str] | None = None,
    agentId: str | None = None,
    metadata: dict[str, Any] | None = None,
    expiresAt: str | None = None,
    userId: str | None = None,
    uses: list[str] | None = None,
    on_conflict: str = "decide",
    dry_run: bool = False,
    branch: str | None = None,
) -> Result:
    """Remember one atomic fact. A duplicate is skipped; a correction replaces the old value and keeps it as history."""
    owner = agentId or who.agent_id
    given = {"category": category, "tags": tags, "metadata": metadata, "expires_at": expiresAt}
    given |= {"user_id": userId or who.user_id, "uses": uses}
    draft = Draft(content, owner, **given)  # type: ignore[arg-type]
    done = desk.on(who, branch).remember(draft, on_conflict, dry_run=dry_run)
    return {
        **_describe(done, content),
        "taskId": _task(done.memory_id, branch),
        "status": "dry run" if dry_run else "accepted",
    }


def _task(memory_id: str, branch: str | None) -> str:
    """What memory_task_wait is given: the memory, and its branch when it is not the server's."""
    return f"{_TASK}{memory_id}" + (f"@{branch}" if branch else "")


def _describe(done: Outcome, content: str) -> Result:
    """What became of it; its content only where that is not what was given, for the agent knows that."""
    result = {"id": done.memory_id, "decision": done.decision, "why": done.why}
    result |= {"content": done.content} if done.content != content else {}
    return {**result, **({"review": True} if done.review else {}), **_warnings(done.warnings)}


def memory_search(
    desk: Desk,
    who: Who,
    search: str,
    limit: int = 10,
    offset: int = 0,
    category: str | None = None,
    tags: list[str] | None = None,
    agentId: str | None = None,
    sessionId: str | None = None,
    userId: str | None = None,
    scope: str | None = None,
    startTime: str | None = None,
    endTime: str | None = None,
    mode: str = "hybrid",
    as_of: str | None = None,
    branch: str | None = None,
    sees: str = "branch",
    min_score: float | None = None,
    metadata: dict[str, Any] | None = None,
    project: str | None = None,
    max_tokens: int | None = None,
) -> Result:
    """Search memories by describing what you want, or by exact words; before adding, too. Empty: the newest."""
    asked = Query(
        search,
        limit=limit,
        offset=offset,
        category=category,
        tags=tags or (),
        agent_id=choose_agents(who.agent_id, agentId, scope),
        user_id=userId or list_users(who.user_id),
        session_id=sessionId,
        since=startTime,
        until=endTime,
        mode=mode,
        as_of=as_of,
        sees=sees,
        min_score=min_score,
        metadata=metadata or {},
        project=project,
    )
    return answer(desk.on(who, branch), who, asked, Wish("id", scope, max_tokens))


def memory_update(
    desk: Desk,
    who: Who,
    id: str,
    content: str,
    tags: list[str] | None = None,
    category: str | None = None,
    agentId: str | None = None,
    metadata: dict[str, Any] | None = None,
    expiresAt: str | None = None,
    uses: list[str] | None = None,
    branch: str | None = None,
) -> Result:
    """Replace what a memory says; its earlier content is kept in metadata.history."""
    given = {"tags": tags, "category": category, "metadata": metadata, "expires_at": expiresAt, "uses": uses}
    draft = Draft(content, who.agent_id, **given)  # type: ignore[arg-type]
    memories = desk.on(who, branch)
    if agentId and (owner := memories.get(id).agent_id) != agentId:
        raise InvalidInput(f"memory {id} belongs to agent {owner!r}, not to {agentId!r}. Nothing was changed.")
    changed = [name for name, value in given.items() if value is not None]
    made = memories.update(id, draft, changed=["content", *changed])
    told = {"id": id, "taskId": _task(made.memory_id, branch), "status": "accepted"}
    return {**told, **_warnings(made.warnings)}


def memory_delete(desk: Desk, who: Who, id: str, purge: bool | None = None, branch: str | None = None) -> Result:
    """Delete an outdated memory. It can be restored."""
    return {"id": id, **_delete(desk.on(who, branch), id, purge)}


def memory_task_wait(desk: Desk, who: Who, taskId: str, timeout: float = 60) -> Result:
    """Wait until a memory that was added or updated is fully indexed. Text search finds it without waiting."""
    if not taskId.startswith(_TASK):
        raise InvalidInput(
            f"there is no task {taskId!r}.", hint="Give the taskId that memory_add or memory_update gave."
        )
    memory_id, _, branch = taskId.removeprefix(_TASK).partition("@")
    memories = desk.on(who, branch)
    memories.get(memory_id)
    seconds = min(max(timeout, 0), 600) if math.isfinite(timeout) else 60
    done = memories.wait_for(memory_id, seconds)
    return {"taskId": taskId, "status": "completed" if done else "pending", "id": memory_id}


# -- history and branches ----------------------------------------------------------------------------


def memory_history(desk: Desk, who: Who, id: str) -> Result:
    """All values a memory had, oldest first, with who wrote them, when and why."""
    versions = [
        {
            "content": version.content, "version": version.oid[:12], "author": version.author,
            "time": iso(version.time), "message": version.message,
            "until": iso(version.until) if version.until else None, "ended": version.ended or None,
            "ended_by": version.ended_by or None, "reason": version.reason or None,
        }
        for version in desk.on(who).history(id)
    ]  # fmt: skip
    return within(versions, None)


def memory_diff(desk: Desk, who: Who, since: str, until: str | None = None, branch: str | None = None) -> Result:
    """Memories that differ between two moments: revisions such as HEAD~3, or times such as "yesterday"."""
    found = desk.on(who, branch).diff(since, until)
    return within([{"id": d.memory_id, "status": d.status, "old": d.old, "new": d.new} for d in found], None)


def memory_restore(desk: Desk, who: Who, id: str, at: str | None = None, branch: str | None = None) -> Result:
    """Bring back a deleted memory, or the value it had at a revision, a time or a version."""
    made = desk.on(who, branch).restore(id, at)
    return {"id": made.memory_id, "content": made.content, "status": "restored"}


def memory_log(desk: Desk, who: Who, limit: int = 20, branch: str | None = None) -> Result:
    """The newest changes of memory: who, when, what."""
    commits = desk.on(who, branch).log(limit)
    return within(
        [{"commit": c.oid[:12], "author": c.author.name, "time": iso(c.time), "message": c.subject} for c in commits],
        None,
    )


def memory_doubt(desk: Desk, who: Who, settle: list[str] | None = None, branch: str | None = None) -> Result:
    """Memories that rest on something that changed, and why. Ids in `settle` are true all the same."""
    memories = desk.on(who, branch)
    if settle:
        return {"settled": [one.memory.memory_id for one in memories.settle(*settle)]}
    doubts = memories.doubts()
    listed = [
        {"id": one.memory.memory_id, "content": one.memory.content, "because": list(one.causes)} for one in doubts
    ]
    return within(listed, None)


def branch_create(
    desk: Desk,
    who: Who,
    name: str,
    description: str = "",
    ttl_seconds: float | None = None,
) -> Result:
    """Make a branch of memory to try things on: name it in other tools. Discarded after ttl_seconds, if given."""
    made = desk.on(who).create_branch(name, ttl_seconds=ttl_seconds, description=description)
    return {
        "branch_id": made.name,
        "status": "created",
        "expires_at": iso(made.expires_at) if made.expires_at else None,
    }


def branch_list(desk: Desk, who: Who) -> Result:
    """All branches of memory."""
    return within(
        [
            {"branch_id": b.name, "head": b.head and b.head[:12], "description": b.description,
             "expires_at": iso(b.expires_at) if b.expires_at else None}
            for b in desk.on(who).branches()
        ],
        None,
    )  # fmt: skip


def branch_merge(desk: Desk, who: Who, branch_id: str, strategy: str = "branch_wins") -> Result:
    """Bring a branch's memories into this one. Where both changed one: branch_wins, main_wins, or ask (nothing)."""
    merged = desk.on(who).merge_branch(branch_id, strategy)
    return {"branch_id": branch_id, "status": "merged", "changed": merged.changed, "changed_on_both": list(merged.met)}


def branch_discard(desk: Desk, who: Who, branch_id: str) -> Result:
    """Remove a branch of memory and what only it holds."""
    desk.on(who).discard_branch(branch_id)
    return {"branch_id": branch_id, "status": "discarded"}


# -- one word for each thing an agent does with its memory --------------------------------------------


def remember(
    desk: Desk,
    who: Who,
    content: str,
    category: str | None = None,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    expires_at: str | None = None,
    user_id: str | None = None,
    uses: list[str] | None = None,
    branch: str | None = None,
) -> Result:
    """Remember one fact in one sentence. A duplicate is skipped; a correction replaces the old value, which is kept."""
    done = memory_add(
        desk, who, content, category, tags, metadata=metadata, expiresAt=expires_at, userId=user_id, uses=uses,
        branch=branch,
    )  # fmt: skip
    return {name: value for name, value in done.items() if name not in ("taskId", "status")}


def recall(
    desk: Desk,
    who: Who,
    query: str,
    limit: int = 10,
    category: str | None = None,
    tags: list[str] | None = None,
    scope: str | None = None,
    since: str | None = None,
    until: str | None = None,
    as_of: str | None = None,
    user_id: str | None = None,
    project: str | None = None,
    max_tokens: int | None = None,
    branch: str | None = None,
) -> Result:
    """Search what this project's agents remember: describe what you want, or give exact words. Empty: the newest."""
    return memory_search(
        desk, who, query, limit, category=category, tags=tags, scope=scope, startTime=since, endTime=until,
        as_of=as_of, userId=user_id, project=project, max_tokens=max_tokens, branch=branch,
    )  # fmt: skip


def update(
    desk: Desk,
    who: Who,
    id: str,
    content: str,
    category: str | None = None,
    tags: list[str] | None = None,
    expires_at: str | None = None,
    uses: list[str] | None = None,
    branch: str | None = None,
) -> Result:
    """Replace what a memory says; its earlier content is kept."""
    done = memory_update(desk, who, id, content, tags, category, expiresAt=expires_at, uses=uses, branch=branch)
    return {name: value for name, value in done.items() if name != "taskId"} | {"status": "updated"}


def forget(desk: Desk, who: Who, id: str, purge: bool | None = None, branch: str | None = None) -> Result:
    """Forget a memory that is wrong or outdated. It can be restored."""
    return memory_delete(desk, who, id, purge, branch)


def restore(desk: Desk, who: Who, id: str, at: str | None = None, branch: str | None = None) -> Result:
    """Bring back a forgotten memory, or the value it had at a time or version."""
    return memory_restore(desk, who, id, at, branch)


_LEAN = (
    Tool(remember, idempotent=True, lists=frozenset({"uses"})),
    Tool(recall, reads_only=True, idempotent=True),
    Tool(update, idempotent=True),
    Tool(forget, destructive=True, idempotent=True),
    Tool(restore, idempotent=True),
)
_MEMORY = (
    Tool(store_memory, lists=frozenset({"metadata"})),
    Tool(search_memory, reads_only=True, idempotent=True),
    Tool(get_agent_state, reads_only=True, idempotent=True),
    Tool(set_agent_state, idempotent=True),
    Tool(delete_memory, destructive=True, idempotent=True),
    Tool(memory_add, idempotent=True, lists=frozenset({"metadata", "agentId", "uses"})),
    Tool(memory_search, reads_only=True, idempotent=True, lists=frozenset({"agentId", "startTime", "endTime"})),
    Tool(memory_update, idempotent=True, lists=frozenset({"metadata", "agentId"})),
    Tool(memory_delete, destructive=True, idempotent=True),
    Tool(memory_restore, idempotent=True),
    Tool(memory_task_wait, reads_only=True, idempotent=True),
)
_MORE = (
    Tool(memory_history, reads_only=True, idempotent=True),
    Tool(memory_diff, reads_only=True, idempotent=True),
    Tool(memory_log, reads_only=True, idempotent=True),
    Tool(memory_doubt),
    Tool(branch_create),
    Tool(branch_list, reads_only=True, idempotent=True),
    Tool(branch_merge, idempotent=True),
    Tool(branch_discard, destructive=True),
)
PROFILES = {"lean": _LEAN, "memory": _MEMORY, "full": (*_MEMORY, *_MORE)}
TOOLS = (*_LEAN, *_MEMORY, *_MORE)


def list_tools(profile: str) -> dict[str, Tool]:
    """The tools that a profile offers, by name."""
    if profile not in PROFILES:
        raise InvalidInput(f"a profile is one of {', '.join(PROFILES)}, not {profile!r}.")
    return {tool.name: tool for tool in PROFILES[profile]}


def list_callable(profile: str) -> dict[str, Tool]:
    """What may be called: what is offered, and every family's names for the same."""
    return list_tools(profile) | {tool.name: tool for tool in (*_LEAN, *_MEMORY)}
