"""What a turn of a coding agent leaves in the memories: statements of the person, and the summary of its session.

Both in one commit, and none if there is nothing new. No numpy, no model; the rules that compare two memories are loaded
only where a statement may replace one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from memlake import memories as later
from memlake.errors import Conflict
from memlake.index.terms import query_words, says_nothing
from memlake.memories import record
from memlake.memories.anchors.anchor import Anchor
from memlake.memories.record import SUMMARY, Memory
from memlake.memories.rot.instructions import list_instruction_files
from memlake.memories.sessions import coding_session, statements
from memlake.memories.sessions.coding_session import CodingSession
from memlake.memories.sessions.cues import chinese as zh
from memlake.memories.sessions.hook_search import Narrow
from memlake.memories.sessions.statements import Statement
from memlake.named_tuple import NamedTuple
from memlake.objects import layout

_FILING = {  # kind of statement -> category, memory_type, importance
    statements.RULE: ("conventions", "fact", 0.8),
    statements.CORRECTION: ("conventions", "fact", 0.8),
    statements.DECISION: ("decisions", "fact", 0.7),
    statements.PREFERENCE: ("preferences", "preference", 0.7),
    statements.FACT: ("project-notes", "fact", 0.5),
}
_NEAR = 12  # memories that a statement is held against
_COVERED = 0.8  # of the words of a statement, from which a text says it already
_ALIKE = 0.3  # of the words of two texts together, from which one may replace the other
_INSTRUCTIONS = 64 << 10  # bytes of an instruction file that are read
_NEGATIONS = frozenset(("not", "no", "never", "don't", "dont", "avoid", "without", "stop", "nor", "cannot"))


class Turn(NamedTuple):
    """Whose turn it is, and what of it is to be kept."""

    session: str
    agent: str
    said: str = ""  # the last message of the agent
    touched: tuple[str, ...] = ()  # the files it worked on


def keep(narrow: Narrow, turn: Turn, *, better: str = "") -> None:
    """Store what a session has stated and what its summary says now. `better`: a summary that a program wrote."""
    for _ in range(2):
        with suppress(Conflict):  # another process wrote the same meanwhile
            _keep_once(narrow, turn, better)
            return


def _keep_once(narrow: Narrow, turn: Turn, better: str) -> None:
    session = narrow.read_session(turn.session)
    made = list(_make_statements(narrow, session, turn))
    summary = _make_summary(narrow, session, turn, better)
    gone = [memory for key in session.dropped if (memory := narrow.find("", key)) is not None]
    if made or summary or gone:
        many = "statement" if len(made) == 1 else "statements"
        message = f"keep {len(made)} {many} of a session" if made else "summarise a session"
        narrow.put([*made, *summary], message, agent=turn.agent, gone=gone)
    kept = tuple(memory.memory_id for memory in made if not memory.agent_id)
    if session.noted or session.dropped:
        narrow.edit_session(turn.session, lambda now: _settle(now, session, kept))


def _settle(now: CodingSession, stored: CodingSession, kept: tuple[str, ...]) -> CodingSession:
    """The session after a write: what came in meanwhile still waits."""
    noted = tuple(one for one in now.noted if one not in stored.noted)
    dropped = tuple(one for one in now.dropped if one not in stored.dropped)
    return now._replace(noted=noted, dropped=dropped, kept=(*now.kept, *kept))


# -- statements -------------------------------------------------------------------------------


def _make_statements(narrow: Narrow, session: CodingSession, turn: Turn) -> Iterator[Memory]:
    """A memory for each statement that nothing says yet: a new one, or a new value of the one that it replaces."""
    if not session.noted:
        return
    instructions = _read_instructions(narrow.place.root)
    taken = set[str]()
    for statement in session.noted:
        if any(_says(line, statement.text) for line in instructions):
            continue
        text = coding_session.complete(statement, turn.said)
        near = _find_near(narrow, statement, session)
        if any(_says(old.content, statement.text) for old in near):
            continue
        old = _find_replaced(near, statement, turn.agent)
        uses = narrow.anchor_files(turn.touched) if text != statement.text else ()
        memory = _make_memory(text, statement, turn, uses)
        if old is not None and old.memory_id not in taken:
            memory = memory._replace(
                memory_id=old.memory_id, agent_id=old.agent_id, category=old.category or memory.category,
                memory_type=old.memory_type if old.memory_type != "episode" else memory.memory_type,
                tags=old.tags, metadata=old.metadata, user_id=old.user_id,
                importance=max(old.importance, memory.importance),
            )  # fmt: skip
        if memory.memory_id not in taken:
            taken.add(memory.memory_id)
            yield memory


def _make_memory(text: str, statement: Statement, turn: Turn, uses: tuple[Anchor, ...]) -> Memory:
    """A statement belongs to no agent: the person said it, to whoever works here."""
    category, kind, importance = _FILING[statement.kind]
    now = layout.now()
    return Memory(
        _make_id(turn.session, statement.text),
        record.check_content(text),
        session_id=turn.session,
        memory_type=kind,
        category=category,
        importance=importance,
        source="person",
        created_at=now,
        updated_at=now,
        client=turn.agent,
        uses=uses,
    )


def _find_near(narrow: Narrow, statement: Statement, session: CodingSession) -> list[Memory]:
    """What is remembered of the same matter; of a correction, also of what the agent had named before it."""
    words = _content(statement.text)
    found = narrow.search(list(words), _NEAR).memories
    if statement.kind == statements.CORRECTION and (named := _content(" ".join(session.before.split("`")[1:6:2]))):
        found = [*found, *narrow.search(list(named), _NEAR).memories]
    known = {one.memory_id: one for one in found}
    return [one for one in known.values() if one.memory_type not in (SUMMARY, "episode")]


def _find_replaced(near: Sequence[Memory], statement: Statement, agent: str) -> Memory | None:
    """The memory that a statement says otherwise: one that it denies in part, or that the rules find it to change."""
    own = [old for old in near if old.agent_id in record.list_own(agent)]
    denied = set(_list_denied(statement.text))
    for old in own:
        words = _content(old.content)
        if denied and denied & words and len((words & _content(statement.text)) - denied) >= 1:
            return old
    for old in own:
        corrects = statement.kind == statements.CORRECTION
        if (corrects or _is_alike(old.content, statement.text)) and _changes(old, statement, corrects=corrects):
            return old
    return None


def _changes(old: Memory, statement: Statement, *, corrects: bool) -> bool:
    """By the rules of language. What a person calls a correction is one, where the rules are not sure."""
    text = f"No, {statement.text}" if corrects else statement.text
    decision = later.rules.decide(old.content, text)
    return decision in ("replace", "conflict") or (
        corrects and decision.rule in ("change-unsure", "correction-unsure", "uses-unsure")
    )


def _is_alike(old: str, new: str) -> bool:
    one, other = _content(old), _content(new)
    return bool(one and other) and len(one & other) >= _ALIKE * min(len(one), len(other)) and len(one & other) >= 2


def _says(known: str, text: str) -> bool:
    """Whether a text says a statement already: nearly all words, all numbers, and both forbid or neither does."""
    words, has = _content(text), _content(known)
    if not words or _forbids(known) != _forbids(text):
        return False
    numbers = {word for word in words if any(sign.isdigit() for sign in word)}
    return numbers <= has and len(words & has) >= _COVERED * len(words)


def _forbids(text: str) -> bool:
    low = text.lower().replace(chr(0x2019), "'").split()
    return not _NEGATIONS.isdisjoint(low) or any(cue in text for cue in (*zh.FORBID, "不", "禁止"))


def _content(text: str) -> set[str]:
    return {word for word in query_words(text) if not says_nothing(word)} or set(query_words(text))


def _list_denied(text: str) -> Iterator[str]:
    """The words of what a statement says is no longer so: after `not`, `instead of`, `no longer`."""
    low = f" {text.lower()} "
    for cue in (", not ", " instead of ", " rather than ", " no longer ", " not a ", "而不是", "不再", "不是"):
        after = low.partition(cue)[2]
        part = after.split(",")[0].split(";")[0].split("，")[0]  # noqa: RUF001
        yield from _content(" ".join(part.split()[:4])) if part.strip() else ()


def _read_instructions(root: str) -> list[str]:
    """The lines of the files that agents read by themselves."""
    lines: list[str] = []
    for file in list_instruction_files(root):
        with suppress(OSError), open(file, "rb") as data:
            lines += data.read(_INSTRUCTIONS).decode("utf-8", "replace").splitlines()
    return [line for line in lines if len(line.strip()) > 8]


# -- the summary ------------------------------------------------------------------------------


def _make_summary(narrow: Narrow, session: CodingSession, turn: Turn, better: str) -> list[Memory]:
    """The summary of a session as one memory; nothing where it stands as it is, or nothing happened."""
    text = better or coding_session.write_summary(session)
    if not text:
        return []
    now = layout.now()
    memory = Memory(
        _make_id(SUMMARY, turn.session),  # not the project: the first thing stored may give it its name
        record.check_content(text),
        turn.agent,
        turn.session,
        memory_type=SUMMARY,
        category="project-notes",
        importance=0.4,
        source="agent",
        created_at=now,
        updated_at=now,
        client=turn.agent,
    )
    old = narrow.find(memory.agent_id, memory.memory_id)
    return [] if old is not None and old.content == memory.content else [memory]


def _make_id(*parts: str) -> str:
    """The id of what has an identity of its own, so that two processes that store it store one memory."""
    digest = hashlib.blake2b("\0".join(map(record.whole, parts)).encode(), digest_size=16).hexdigest()
    digits = f"{digest[:12]}8{digest[13:16]}8{digest[17:]}"  # a UUID of version 8: made by its own rules
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
