"""Agent state: a value by agent and key, each write one commit of the memory lane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlake import memories as later  # rules of secrets: only writing pays for them
from memlake.errors import InvalidInput, NotFound
from memlake.memories import record, store
from memlake.memories.context import MemoryContext
from memlake.memories.kind import STATE, state_path, state_room
from memlake.memories.record import State
from memlake.named_tuple import NamedTuple
from memlake.objects import layout
from memlake.records import Entry
from memlake.reports import PurgeReport
from memlake.versions.upkeep import purge
from memlake.versions.verbs import show


class SetState(State):
    """A value as it was set, and what its author should know about it."""

    warnings: tuple[str, ...] = ()


class Kept(NamedTuple):
    """The path of a value, and what is there."""

    path: str
    entry: Entry | None
    state: State | None


def set_state(context: MemoryContext, agent_id: str, key: str, value: Any) -> SetState:
    """Keep a value; secrets in it are warned of, left out or refused, as in memories."""
    who, name = record.check_text(agent_id, "agent_id"), _check_key(key)
    plain = record.check_json(value, "a state value")
    kept, warnings = later.redact.guard_value(plain, context.settings.memory_secrets, what="the value", name=name)
    state = SetState(who, name, kept, layout.now(), _org(context))
    path = _path(context, state.agent_id, state.key)
    context.write(
        {path: record.encode_state(state)},
        store.describe_write(context, "set state"),
        store.choose_author(state.agent_id, context),
    )
    state.warnings = warnings
    return state


def find_state(context: MemoryContext, agent_id: str, key: str) -> State | None:
    entry = context.entry(_path(context, agent_id, key))
    return None if entry is None else record.decode_state(context.here.history.objects.read(entry.oid))


def list_states(context: MemoryContext, agent_id: str | None = None) -> Iterator[State]:
    """All values of one agent, or of everybody."""
    history = context.here.history
    room = STATE.folder if agent_id is None else state_room(history, _owner(context, agent_id))
    for _, entry in history.scan(context.head(), room):
        found = record.decode_state(history.objects.read(entry.oid))
        if context.sees(found.org_id):
            yield found


def remove_state(context: MemoryContext, agent_id: str, key: str) -> bool:
    """Forget a value; False when there was none."""
    path = _path(context, agent_id, key)
    if context.entry(path) is None:
        return False
    context.write({path: None}, store.describe_write(context, "remove state"), store.choose_author(agent_id, context))
    return True


def purge_state(context: MemoryContext, agent_id: str, key: str, reason: str) -> PurgeReport:
    """Forget a value and erase all that ever stood under its key, on every branch."""
    oids = show.versions_of(context.here, _path(context, agent_id, key))
    if not oids:
        raise NotFound(f"nothing was ever kept under {key!r}, or it was purged already. Nothing was changed.")
    remove_state(context, agent_id, key)
    return context.note_holders(purge.purge(context.sign_checkout(), tuple(sorted(oids)), reason))


def find_by_org(context: MemoryContext, org_id: str, agent_id: str, key: str) -> Kept:
    """Where a value of some organisation is, and what is there."""
    owner = agent_id if org_id == "local" else f"{org_id}\0{agent_id}"
    path = state_path(context.here.history, owner, _check_key(key))
    entry = context.entry(path)
    return Kept(
        path, entry, None if entry is None else record.decode_state(context.here.history.objects.read(entry.oid))
    )


def _org(context: MemoryContext) -> str:
    return "local" if context.org is None else context.org


def _owner(context: MemoryContext, agent_id: str) -> str:
    """Whose a value is: agents of one name in two organisations are two."""
    return agent_id if _org(context) == "local" else f"{_org(context)}\0{agent_id}"


def _path(context: MemoryContext, agent_id: str, key: str) -> str:
    return state_path(context.here.history, _owner(context, agent_id), _check_key(key))


def _check_key(key: object) -> str:
    if not isinstance(key, str) or not key or len(key) > 512:
        raise InvalidInput(f"a state key is text of 1 to 512 characters, not {str(key)[:40]!r}. Nothing was stored.")
    return key
