"""Recalls: what was told to whom, when and why. Of this machine alone, bounded, never a commit.

Every door that tells memories notes one record: the question, the candidates with what each arm of the search gave
them, and the gate that kept those back that were not told. A record holds ids and scores and no content, so `why` reads
what was said from the objects, and a purge finds nothing here but a question. Loaded by hooks, so it must stay light.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memlake.errors import Error, NotFound
from memlake.named_tuple import NamedTuple
from memlake.objects.db import Database
from memlake.objects.layout import now

FILE = "recalls.db"
_SCHEMA = (Path(__file__).with_name("recalls.sql"),)
_EACH = 64  # records after which those that are too many go
_AT_ONCE = 200
HOOKS = ("session-start", "prompt")  # the surfaces that know the session of an agent
_LISTENS = 12 * 3_600_000_000  # microseconds after which a session that was told nothing is taken for over
# Why a candidate was not told. Each is also what `why-not` names.
TOLD, RANK, BUDGET, FLOOR, KNOWN, OWN = "told", "rank", "budget", "floor", "told already", "own session"
ECHO = "echo"  # an agent's words for what a person said


class Candidate(NamedTuple):
    """A memory that a search found: the version that was found, what each arm gave it, and what became of it."""

    memory_id: str
    oid: str
    score: float = 0.0  # how near it is to the question, as it is shown
    arms: Mapping[str, float] = {}
    gate: str = TOLD


class Teller(NamedTuple):
    """Who tells, and to whom: the door, the session and the agent that asked."""

    surface: str
    session: str = ""
    agent: str = ""


class Recall(NamedTuple):
    """One answer. `surface` is the door: recall, python, mcp, session-start, prompt ..."""

    surface: str
    question: str = ""
    session: str = ""
    agent: str = ""
    project: str = ""
    branch: str = ""
    head: str = ""  # the newest memory commit that was seen
    mode: str = ""
    asked: Mapping[str, Any] = {}  # what narrowed the search, if anything did
    tokens: int = 0
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    time: int = 0
    number: int = 0

    @property
    def told(self) -> list[Candidate]:
        return [one for one in self.candidates if one.gate == TOLD]


class Audience(NamedTuple):
    """How many sessions were told a memory (what was asked in none is one together), and when last."""

    sessions: int = 0
    last: int = 0


class Recalls:
    """The records of one repo on this machine. Safe to use from many threads and processes."""

    def __init__(self, folder: Path, most: int) -> None:
        """`folder` is the `.memlake` folder; `most` records are kept, none if it is 0."""
        self._most = most
        self._path = folder / FILE
        self._opened: Database | None = None

    @property
    def _db(self) -> Database:
        if self._opened is None:
            self._opened = Database(self._path, schema=_SCHEMA, durable=False)
            self._opened.cure = f"Remove it, it holds only what was told: rm {self._path}"
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    # -- writing

    def note(self, recall: Recall) -> int:
        """Keep a record; returns its number, 0 where none is kept. An answer must not fail for it."""
        if not self._most:
            return 0
        with contextlib.suppress(Error):
            with self._db.write():
                self._db.run("INSERT INTO recall(session, record) VALUES(?, ?)", (recall.session, _encode(recall)))
                number = self._db.last_id()
                rows = {(_key(one.memory_id), number) for one in recall.told}
                self._db.run_many("INSERT INTO told VALUES(?, ?)", sorted(rows))
                if number % _EACH == 0:
                    self._drop_old(number)
            return number
        return 0

    def _drop_old(self, number: int) -> None:
        self._db.run("DELETE FROM told WHERE recall <= ?", (number - self._most,))
        self._db.run("DELETE FROM recall WHERE id <= ?", (number - self._most,))
        self._db.run("DELETE FROM session WHERE cut <= ?", (number - self._most,))

    def cut(self, session: str) -> None:
        """A session forgot what it was told: it begins, or its context was cut."""
        if session and self._most:
            with contextlib.suppress(Error), self._db.write():
                sql = "INSERT OR REPLACE INTO session SELECT ?, coalesce(max(id), 0) FROM recall"
                self._db.run(sql, (session,))

    def forget(self, memory_ids: Iterable[str]) -> None:
        """Take out what is known of memories that were purged, and the questions that found them."""
        if not self._path.exists():
            return
        for memory_id in memory_ids:
            numbers = [
                number for (number,) in self._db.rows("SELECT recall FROM told WHERE memory = ?", (_key(memory_id),))
            ]
            with self._db.write():
                for recall in self._read(numbers):
                    kept = tuple(one for one in recall.candidates if one.memory_id != memory_id)
                    blank = recall._replace(question="", candidates=kept)
                    self._db.run("UPDATE recall SET record = ? WHERE id = ?", (_encode(blank), recall.number))
                self._db.run("DELETE FROM told WHERE memory = ?", (_key(memory_id),))

    # -- reading

    def list_told(self, session: str) -> set[str]:
        """The ids of the memories that a session was told, by any surface, since its context was cut last."""
        if not session or not self._path.exists():
            return set()
        sql = (
            "SELECT DISTINCT t.memory FROM recall r JOIN told t ON t.recall = r.id WHERE r.session = ?1 "
            "AND r.id > coalesce((SELECT cut FROM session WHERE name = ?1), 0)"
        )
        return {str(uuid.UUID(bytes=bytes(key))) for (key,) in self._db.rows(sql, (session,))}

    def find_listener(self, agent: str, project: str) -> str:
        """The session of an agent in a project that a hook told something last, if that was today; empty if none was.

        Who calls without naming its session most likely does so because of the prompt that came last.
        """
        if not agent or not self._path.exists():
            return ""
        sql = "SELECT id FROM recall WHERE session <> '' ORDER BY id DESC LIMIT ?"
        newest = [number for (number,) in self._db.rows(sql, (_AT_ONCE,))]
        since = now() - _LISTENS
        found = (one for one in self._read(newest) if one.surface in HOOKS and one.time >= since)
        return next((one.session for one in found if (one.agent, one.project) == (agent, project)), "")

    def get(self, number: int) -> Recall:
        found = next(iter(self._read([number])), None)
        if found is None:
            raise NotFound(f"there is no recall {number} in the records.", hint="List them with: memlake recalls")
        return found

    def scan(self, *, session: str | None = None, memory_id: str | None = None) -> Iterator[Recall]:
        """Records, newest first; of one session, or that told one memory."""
        if not self._path.exists():
            return
        if memory_id is not None:
            sql, args = "SELECT recall FROM told WHERE memory = ? ORDER BY recall DESC", [_key(memory_id)]
        else:
            sql, args = "SELECT id FROM recall ORDER BY id DESC", list[Any]()
        numbers = [number for (number,) in self._db.rows(sql, args)]
        for at in range(0, len(numbers), _AT_ONCE):
            for recall in self._read(numbers[at : at + _AT_ONCE]):
                if session is None or recall.session == session:
                    yield recall

    def count_audiences(self, keys: Sequence[bytes]) -> dict[bytes, Audience]:
        """Who was told memories, by the keys of their ids; of those that nobody was told nothing."""
        sql = (
            "SELECT t.memory, count(DISTINCT r.session), max(json_extract(r.record, '$.time')) FROM told t "
            "JOIN recall r ON r.id = t.recall WHERE t.memory IN carray(?1) GROUP BY t.memory"
        )
        rows = self._db.rows_in(sql, keys) if self._path.exists() else []
        return {bytes(key): Audience(sessions, last) for key, sessions, last in rows}

    def read_beginning(self) -> int:
        """When the oldest record was made; 0 without one."""
        row = (
            self._db.row("SELECT json_extract(record, '$.time') FROM recall ORDER BY id LIMIT 1")
            if self._path.exists()
            else None
        )
        return int(row[0]) if row else 0

    def _read(self, numbers: Sequence[int]) -> list[Recall]:
        sql = "SELECT id, record FROM recall WHERE id IN carray(?1) ORDER BY id DESC"
        rows = self._db.rows_in(sql, numbers) if self._path.exists() else []
        return [_decode(number, text) for number, text in rows]


def describe_hits(hits: Collection[Mapping[str, Any]], kept: int | None = None) -> tuple[Candidate, ...]:
    """The candidates of hits of which the first `kept` were told, and the rest did not fit into a budget."""
    most = len(hits) if kept is None else kept
    return tuple(
        Candidate(
            hit["memory_id"],
            getattr(hit, "oid", ""),
            hit["similarity_score"],
            hit["why"],
            TOLD if at < most else BUDGET,
        )
        for at, hit in enumerate(hits)
    )


def _key(memory_id: str) -> bytes:
    return uuid.UUID(memory_id).bytes


def _encode(recall: Recall) -> str:
    fields = recall._replace(number=0, time=recall.time or now())._asdict()
    kept = {name: value for name, value in fields.items() if value}
    return json.dumps(kept, ensure_ascii=True, separators=(",", ":"), default=str)


def _decode(number: int, text: str) -> Recall:
    fields = json.loads(text)
    fields["candidates"] = tuple(Candidate(*one) for one in fields.get("candidates", ()))
    fields["notes"] = tuple(fields.get("notes", ()))
    return Recall(**{**fields, "number": number})
