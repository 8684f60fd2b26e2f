"""claude-mem: its SQLite database (`~/.claude-mem/claude-mem.db`), or the JSON that its export script writes.

Observations and summaries of sessions become memories; the prompts that it also keeps do not. The file is copied before
it is opened, because SQLite writes beside a database that another program has open; the copy's own code never runs.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from memlake.errors import InvalidInput
from memlake.integrations.format import Format, Raw, make_id, place
from memlake.integrations.given import Given, list_keys

_LARGEST = 4 << 30  # bytes of a database
_STEPS = 10_000_000_000  # of SQLite's machine: a database can hold code that never ends
_MAGIC = b"SQLite format 3\0"
_QUERIES = {
    "observations": "SELECT * FROM observations ORDER BY id",
    "session_summaries": "SELECT * FROM session_summaries ORDER BY id",
    "memory_items": "SELECT m.*, p.name AS project FROM memory_items m LEFT JOIN projects p ON p.id = m.project_id "
    "WHERE m.kind IN ('observation', 'summary', 'manual') AND m.legacy_observation_id IS NULL "
    "ORDER BY m.created_at_epoch",
}
_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_EXPORT = {"observations": "observations", "summaries": "session_summaries"}


def _fits(given: Given) -> bool:
    head = given.head()
    if head.startswith(_MAGIC):
        return True
    opens, keys = list_keys(head)
    return opens == "{" and "observations" in keys and not keys.isdisjoint(("totalObservations", "exportedAtEpoch"))


def _read(given: Given) -> Iterator[Raw]:
    if given.head().startswith(_MAGIC) and given.path is not None:
        rows = _read_database(given.path)
    else:
        rows = _list_exported(given.read_json())
    named, projects = list[tuple[str, int, dict[str, Any]]](), set[str]()
    for one in rows:
        named.append(one)
        projects.add(str(one[2].get("project") or ""))
    homes = {name: place("claude-mem", name, alone=len(projects) == 1) for name in projects}
    for table, number, row in named:
        raw = _read_row(table, number, row)
        yield raw if raw.problem else raw._replace(fields={**raw.fields, **homes[str(row.get("project") or "")]})


def _list_exported(found: Any) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for key, table in _EXPORT.items():
        listed = found.get(key) if isinstance(found, dict) else None
        for number, row in enumerate(listed if isinstance(listed, list) else [], 1):
            yield table, number, row if isinstance(row, dict) else {}


def _read_database(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="memlake-") as folder:
        copy = Path(folder, "claude-mem.db")
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.is_file() and not (suffix and source.is_symlink()):
                if source.stat().st_size > _LARGEST:
                    raise InvalidInput(f"it has more than {_LARGEST >> 30} GiB. Nothing was read.")
                shutil.copyfile(source, copy.with_name(copy.name + suffix))
        try:
            with contextlib.closing(_open(copy)) as db:
                yield from _list_rows(db)
        except apsw.Error as error:
            raise InvalidInput(f"it is a damaged SQLite database, or none: {error}. Nothing was read.") from None


def _open(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    db.limit(apsw.SQLITE_LIMIT_LENGTH, 16 << 20)
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1_000_000
        return steps > _STEPS

    db.set_progress_handler(stop, 1_000_000)
    return db


def _list_rows(db: apsw.Connection) -> Iterator[tuple[str, int, dict[str, Any]]]:
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")}
    tables = [table for table in _QUERIES if table in there and (table != "memory_items" or "projects" in there)]
    if not tables:
        raise InvalidInput(
            "it has none of the tables of claude-mem (observations, session_summaries). Nothing was read."
        )
    for table in tables:
        cursor = db.execute(_QUERIES[table])
        names: list[str] = []
        for number, row in enumerate(cursor, 1):
            names = names or [column[0] for column in cursor.get_description()]
            yield table, number, dict(zip(names, row, strict=True))


def _read_row(table: str, number: int, row: Mapping[str, Any]) -> Raw:
    where = f"{table} row {row.get('id', number)}"
    summary = table == "session_summaries"
    content = _join_summary(row) if summary else _join_observation(row)
    if not content:
        return Raw(where, problem="it says nothing: it has neither a text nor a narrative, facts or a title.")
    when = row.get("created_at_epoch") or row.get("created_at")
    session = row.get("memory_session_id") or row.get("sdk_session_id") or row.get("server_session_id")
    lists = {name: _read_list(row.get(name)) for name in ("facts", "files_read", "files_modified", "files_edited")}
    if not summary and not row.get("narrative") and not row.get("text"):
        lists.pop("facts")  # they are the content
    more = {name: row[name] for name in ("title", "subtitle", "prompt_number") if row.get(name)}
    project = str(row.get("project") or "")
    kind = str(row.get("type") or ("summary" if summary else ""))
    fields = {
        "memory_id": make_id("claude-mem", table, row.get("id"), session, when), "content": content,
        "memory_type": "episode" if summary else "fact", "category": kind[:512],
        "tags": [tag[:200] for tag in _read_list(row.get("concepts"))], "agent_id": "claude-code",
        "session_id": str(session or "")[:512], "created_at": when, "updated_at": row.get("updated_at_epoch") or when,
        "source": f"claude-mem:{project}"[:512] if project else "claude-mem",
        "metadata": {**{name: value for name, value in lists.items() if value}, **more},
    }  # fmt: skip
    return Raw(where, fields)


def _join_observation(row: Mapping[str, Any]) -> str:
    title, said = _clean(row.get("title")), _clean(row.get("narrative")) or _clean(row.get("text"))
    said = said or "\n".join(_read_list(row.get("facts")))
    return f"{title}: {said}" if title and said and not said.startswith(title) else said or title


def _join_summary(row: Mapping[str, Any]) -> str:
    parts = ((name, _clean(row.get(name))) for name in _PARTS)
    return "\n".join(f"{name.replace('_', ' ').capitalize()}: {text}" for name, text in parts if text)


def _clean(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _read_list(value: Any) -> list[str]:
    """A list that is kept as JSON; a text that is none is its only member."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    members: Iterable[Any] = value if isinstance(value, list) else ()
    return [one.strip() for one in members if isinstance(one, str) and one.strip()]


CLAUDE_MEM = Format(
    "claude-mem", "the database of claude-mem, or the JSON of its export script", ("file", "stream"), _fits, _read
)
