"""Letta: agent files (.af) with their memory blocks, and exported passages of archival memory.

A block is one memory that its agent rewrites, so its id comes from its agent and label. Messages, tools and prompts of
an agent file are no memories and are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memlake.errors import InvalidInput
from memlake.integrations.format import Format, Raw, make_id
from memlake.integrations.given import Given, list_keys

_AGENT_FILE = ({"agents", "blocks"}, {"name", "block_ids"}, {"core_memory", "agent_type"}, {"name", "core_memory"})
_PASSAGE = ({"text", "archive_id"}, {"text", "embedding_config"})


def _fits(given: Given) -> bool:
    if given.kind == "zip":
        return len(given.names) == 1 and _fits_json(given.head(given.names[0]))
    return _fits_json(given.head())


def _fits_json(head: bytes) -> bool:
    opens, keys = list_keys(head)
    if opens == '"':  # a document inside a string, as its API gave it for some time
        opens, keys = list_keys(head.strip()[1:].replace(b'\\"', b'"').replace(b"\\n", b" "))
        return any(one <= keys for one in _AGENT_FILE) or "agents" in keys
    if opens == "{" and "agents" in keys:  # the blocks may stand far behind
        return b'"block_ids"' in head or "blocks" in keys
    return any(one <= keys for one in ((*_AGENT_FILE, *_PASSAGE) if opens == "{" else _PASSAGE))


def _read(given: Given) -> Iterator[Raw]:
    found = given.read_json(given.names[0] if given.kind == "zip" else "")
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the document inside it is not JSON: {error}. Nothing was read.") from None
    if isinstance(found, list):
        yield from _read_passages(found)
        return
    if not isinstance(found, dict):
        raise InvalidInput("it is neither an agent file nor a list of passages. Nothing was read.")
    if "core_memory" in found:  # the first form of agent files: one agent
        owners, blocks = {"": str(found.get("name") or "")}, found["core_memory"]
    else:
        owners, blocks = _find_owners(found.get("agents")), found.get("blocks")
    yield from _read_blocks(blocks, owners, found.get("created_at") or given.find_time())
    for name in ("passages", "archival_memory"):
        yield from _read_passages(found.get(name))


def _find_owners(agents: Any) -> dict[str, str]:
    """The agent of each block; a block that several share belongs to none of them."""
    held = [
        (block, str(agent.get("name") or agent.get("id") or ""))
        for agent in (agents if isinstance(agents, list) else [])
        if isinstance(agent, dict)
        for block in (agent.get("block_ids") or [])
        if isinstance(block, str)
    ]
    counts = Counter(block for block, _ in held)
    return {block: agent for block, agent in held if counts[block] == 1}


def _read_blocks(blocks: Any, owners: Mapping[str, str], when: Any) -> Iterator[Raw]:
    """`owners`: the agent of each block by its id; under "" that of all."""
    for number, block in enumerate(blocks if isinstance(blocks, list) else [], 1):
        where = f"block {number}"
        value = block.get("value") if isinstance(block, dict) else None
        if not isinstance(value, str):
            yield Raw(where, problem='a block has a "label" and a "value" that is text.')
            continue
        if not value.strip():
            continue
        label, owner = str(block.get("label") or "block"), owners.get("") or owners.get(str(block.get("id")), "")
        more = {"label": label, "description": block.get("description"), "read_only": block.get("read_only") or None}
        yield Raw(
            where,
            {
                "memory_id": make_id("letta", owner, label), "content": value.strip(), "agent_id": owner[:512],
                "memory_type": "context", "category": label[:512], "metadata": {k: v for k, v in more.items() if v},
                "created_at": block.get("created_at") or when, "updated_at": block.get("updated_at") or when,
            },
        )  # fmt: skip


def _read_passages(passages: Any) -> Iterator[Raw]:
    for number, one in enumerate(passages if isinstance(passages, list) else [], 1):
        where = f"passage {number}"
        if not isinstance(one, dict):
            yield Raw(where, problem=f"it must be a JSON object, not {type(one).__name__}.")
            continue
        if one.get("is_deleted"):
            continue
        kept = {name: one[name] for name in ("archive_id", "source_id", "file_name") if one.get(name)}
        known = {name: one.get(name) for name in ("created_at", "updated_at", "tags")}
        more = one.get("metadata") or one.get("metadata_") or {}
        own = str(one.get("id") or "").removeprefix("passage-")
        fields = {"content": one.get("text"), "agent_id": one.get("agent_id"), "id": own, **known}
        yield Raw(where, {**fields, "metadata": {**(more if isinstance(more, dict) else {}), **kept}})


LETTA = Format("letta", "a Letta agent file (.af), or exported passages", ("file", "stream", "zip"), _fits, _read)
