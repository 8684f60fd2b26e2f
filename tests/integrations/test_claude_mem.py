"""claude-mem's database as its migrations leave it, and the JSON of its export script."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.errors import InvalidInput
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import iso
from memlake.memories.transfer import Report, load_items

SCHEMA = """
CREATE TABLE sdk_sessions(id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL,
  memory_session_id TEXT UNIQUE, project TEXT NOT NULL, platform_source TEXT NOT NULL DEFAULT 'claude');
CREATE TABLE observations(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
  text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
  files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL, content_hash TEXT, metadata TEXT);
CREATE TABLE session_summaries(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
  files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts(id INTEGER PRIMARY KEY AUTOINCREMENT, prompt_text TEXT NOT NULL);
INSERT INTO user_prompts(prompt_text) VALUES('not read');
"""
OBSERVATION = {
    "id": 7, "memory_session_id": "s-1", "project": "shop", "text": None, "type": "bugfix",
    "title": "Retry of webhooks", "subtitle": "They were lost", "facts": '["Webhooks are retried 5 times"]',
    "narrative": "The queue dropped them.",
    "concepts": '["gotcha", "queue"]', "files_read": '["src/queue.py"]', "files_modified": "[]", "prompt_number": 3,
    "created_at": "2026-03-02T10:00:00.000Z", "created_at_epoch": 1772445600000,
}  # fmt: skip
SUMMARY = {
    "id": 2, "memory_session_id": "s-1", "project": "shop", "request": "Fix the webhooks", "learned": "It is lossy",
    "next_steps": "Add a test", "files_edited": '["src/queue.py"]', "created_at": "2026-03-02T11:00:00.000Z",
    "created_at_epoch": 1772449200000,
}  # fmt: skip


def database(path: Path, *rows: tuple[str, dict[str, Any]], schema: str = SCHEMA) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(schema)
        for table, row in rows:
            db.execute(f"INSERT INTO {table}({','.join(row)}) VALUES({','.join('?' * len(row))})", list(row.values()))
    return path


def test_observations_and_summaries_become_memories_and_prompts_do_not(repo: ml.Repo, tmp_path: Path) -> None:
    facts = {**OBSERVATION, "id": 8, "title": "Only facts", "narrative": None, "facts": '["One", "Two"]'}
    source = database(
        tmp_path / "claude-mem.db",
        ("observations", OBSERVATION),
        ("observations", facts),
        ("session_summaries", SUMMARY),
    )
    reading = read_memories(source)
    first, second, summary = (item.memory for item in reading)
    assert reading.format == "claude-mem"
    assert first.content == "Retry of webhooks: The queue dropped them." and second.content == "Only facts: One\nTwo"
    assert (first.category, first.tags, first.session_id) == ("bugfix", ("gotcha", "queue"), "s-1")
    assert (first.agent_id, first.source, first.project) == ("claude-code", "import:claude-mem:shop", "")
    assert first.metadata["facts"] == ["Webhooks are retried 5 times"] and "facts" not in second.metadata
    assert iso(first.created_at) == "2026-03-02T10:00:00Z"
    assert summary.content == "Request: Fix the webhooks\nLearned: It is lossy\nNext steps: Add a test"
    assert (summary.memory_type, summary.category) == ("episode", "summary")
    before = source.read_bytes()
    assert load_items(repo.memories(), read_memories(source)) == Report(stored=3)
    assert load_items(repo.memories(), read_memories(source)) == Report(known=3)
    assert source.read_bytes() == before and [path.name for path in tmp_path.glob("claude-mem.db*")] == [source.name]


def test_what_another_program_has_written_and_not_yet_folded_in_is_read_too(tmp_path: Path) -> None:
    source = database(tmp_path / "claude-mem.db")
    with closing(sqlite3.connect(source)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        with db:
            db.execute(f"INSERT INTO observations({','.join(OBSERVATION)}) VALUES({','.join('?' * len(OBSERVATION))})",
                       list(OBSERVATION.values()))  # fmt: skip
        assert len(list(read_memories(source))) == 1


def test_projects_of_one_database_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop" / ".memlake").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "shop")
    other = {**OBSERVATION, "id": 9, "project": "blog"}
    found = list(read_memories(database(tmp_path / "m.db", ("observations", OBSERVATION), ("observations", other))))
    assert [(item.memory.project, item.is_placed) for item in found] == [("", False), ("claude-mem/blog", True)]


def test_the_json_of_the_export_script_gives_the_same_memories(tmp_path: Path) -> None:
    source = database(tmp_path / "m.db", ("observations", OBSERVATION), ("session_summaries", SUMMARY))
    export = {
        "exportedAt": "2026-03-03T00:00:00Z", "exportedAtEpoch": 1, "query": "", "totalObservations": 1,
        "observations": [OBSERVATION], "sessions": [], "summaries": [SUMMARY], "prompts": [{"prompt_text": "not read"}],
    }  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps(export))
    reading = read_memories(tmp_path / "m.json")
    assert reading.format == "claude-mem"
    assert [i.memory for i in reading] == [i.memory for i in read_memories(source)]


def test_the_first_schema_and_the_newest_are_read_too(tmp_path: Path) -> None:
    first = (
        "CREATE TABLE observations(id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT NOT NULL, "
        "type TEXT, created_at TEXT, created_at_epoch INTEGER)"
    )
    row = {"id": 1, "sdk_session_id": "s", "project": "p", "text": "The port is 80", "type": "decision",
           "created_at_epoch": 1772445600000}  # fmt: skip
    (old,) = read_memories(database(tmp_path / "old.db", ("observations", row), schema=first))
    assert (old.memory.content, old.memory.session_id) == ("The port is 80", "s")
    newest = (
        "CREATE TABLE projects(id TEXT PRIMARY KEY, name TEXT);"
        "CREATE TABLE memory_items(id TEXT PRIMARY KEY, project_id TEXT, server_session_id TEXT, "
        "legacy_observation_id INTEGER, kind TEXT, type TEXT, title TEXT, text TEXT, narrative TEXT, facts TEXT, "
        "concepts TEXT, files_read TEXT, files_modified TEXT, created_at_epoch INTEGER, updated_at_epoch INTEGER)"
    )
    item = {"id": "a", "project_id": "p", "kind": "manual", "type": "note", "text": "The port is 81", "facts": "[]",
            "concepts": "[]", "created_at_epoch": 1772445600000, "updated_at_epoch": 1772445700000}  # fmt: skip
    rows = [("projects", {"id": "p", "name": "shop"}), ("memory_items", item),
            ("memory_items", {**item, "id": "b", "kind": "prompt"})]  # fmt: skip
    (new,) = read_memories(database(tmp_path / "new.db", *rows, schema=newest))
    assert (new.memory.content, iso(new.memory.updated_at)) == ("The port is 81", "2026-03-02T10:01:40Z")


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("CREATE TABLE other(x)", "none of the tables of claude-mem"),
        ("CREATE VIEW observations AS SELECT 1 AS id, 'x' AS text", "none of the tables of claude-mem"),
        ("CREATE VIRTUAL TABLE observations USING fts5(id, text)", "none of the tables of claude-mem"),
    ],
)
def test_a_database_of_another_kind_says_so_and_its_code_never_runs(tmp_path: Path, schema: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=rf"x\.db: it has {what}"):
        list(read_memories(database(tmp_path / "x.db", schema=schema)))


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    whole = database(tmp_path / "m.db", *[("observations", {**OBSERVATION, "id": n}) for n in range(200)]).read_bytes()
    (tmp_path / "bad.db").write_bytes(whole[:9000] + b"\xff" * 9000 + whole[18000:])
    with pytest.raises(InvalidInput, match=r"bad\.db: it is a damaged SQLite database"):
        list(read_memories(tmp_path / "bad.db"))
    (tmp_path / "cut.db").write_bytes(whole[:50])
    with pytest.raises(InvalidInput, match=r"cut\.db: it is a damaged SQLite database"):
        list(read_memories(tmp_path / "cut.db"))
