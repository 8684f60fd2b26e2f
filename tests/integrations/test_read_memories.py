"""Memories of other programs: every format from real files, twice the same, errors that name the place."""

from __future__ import annotations

import io
import json
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlake as ml
from memlake.errors import InvalidInput, NotFound, Unavailable
from memlake.integrations import formats
from memlake.integrations.fields import build_item, parse_moment
from memlake.integrations.read_memories import read_memories
from memlake.memories.search import iso
from memlake.memories.transfer import Report, load_items
from tests.memories.exchange import ONE, TWO, contents, lines

# -- plain JSONL ------------------------------------------------------------------------------


def test_other_names_and_unknown_fields_are_understood(tmp_path: Path) -> None:
    source = lines(
        tmp_path / "a.jsonl",
        {"text": "a", "agentId": "codex", "sessionId": "s", "createdAt": 1_700_000_000, "colour": "red",
         "metadata": {"k": 1}, "has_embedding": True, "tags": ["x"], "nothing": None, "history": "long"},
    )  # fmt: skip
    (item,) = read_memories(source)
    made = item.memory
    assert (made.content, made.agent_id, made.session_id, made.tags) == ("a", "codex", "s", ("x",))
    assert made.created_at == made.updated_at == 1_700_000_000_000_000
    assert made.metadata == {"colour": "red", "k": 1, "history": "long"} and made.source == "import:jsonl"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"content": "b"', "it is not JSON: Expecting ',' delimiter at column 1[67]"),
        (b'{"content": "\xff"}', r"byte 14 is not UTF-8 \(0xff\)"),
        (b'{"note": "b"}', 'it has no "content"'),
        (b'{"content": "  "}', "content is empty"),
        (b'{"content": 5}', "content must be text, not int"),
        (b"[1]", "it must be a JSON object, not list"),
        (b'{"content": "b", "created_at": "soon"}', "created_at is not a time: 'soon'"),
        (b'{"content": "b", "importance": 7}', "importance is a number from 0 to 1, not 7"),
        (b'{"content": "b", "tags": [1]}', "tags is a list of texts"),
        (b'{"content": "b", "metadata": {"x": NaN}}', "metadata must be a JSON value"),
        (b'{"content": "b", "related": ["x"]}', "'x' is not a memory id"),
        (b"[" * 100_000, "it is not JSON that can be read"),
    ],
)
def test_a_bad_line_is_named_or_skipped_and_counted(repo: ml.Repo, tmp_path: Path, line: bytes, what: str) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(b'{"content": "a"}\n\n' + line + b'\n{"content": "c"}\n')
    with pytest.raises(InvalidInput, match=rf"a\.jsonl, line 3: {what}"):
        load_items(repo.memories(), read_memories(source))
    report = load_items(repo.memories(), read_memories(source, skip_bad=True))
    assert (report.stored, report.known, report.skipped) == (2, 0, 1)
    assert "line 3" in report.problems[0]


def test_a_stream_is_read_like_a_file() -> None:
    assert contents(io.StringIO('{"content": "é"}\n')) == contents(io.BytesIO('{"content": "é"}\n'.encode())) == ["é"]
    assert contents(io.BytesIO(b'\xef\xbb\xbf\n{"content": "a"}\n')) == ["a"]
    assert contents(io.BytesIO(b"")) == []


# -- times ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2024-07-20T01:30:36.275141-07:00", "2024-07-20T08:30:36.275141Z"),
        ("2024-07-20 08:30:36", "2024-07-20T08:30:36Z"),
        ("2024-07-20T08:30:36.275Z", "2024-07-20T08:30:36.275000Z"),
        ("2024-07-20T08:30:36.275141999Z", "2024-07-20T08:30:36.275141Z"),
        ("20240720T083036Z", "2024-07-20T08:30:36Z"),
        ("2024-07-20 08:30:36 +0200", "2024-07-20T06:30:36Z"),
        ("2024-07-20 08:30:36 UTC", "2024-07-20T08:30:36Z"),
        ("2024-07-20", "2024-07-20T00:00:00Z"),
        ("20240720", "2024-07-20T00:00:00Z"),
        ("2024-W29-6", "2024-07-20T00:00:00Z"),
        ("2024-202", "2024-07-20T00:00:00Z"),
        ("2024-07", "2024-07-01T00:00:00Z"),
        ("2024", "2024-01-01T00:00:00Z"),
        (1721464236, "2024-07-20T08:30:36Z"),
        (1721464236.275, "2024-07-20T08:30:36.275000Z"),
        ("1721464236", "2024-07-20T08:30:36Z"),
        ("1721464236.5", "2024-07-20T08:30:36.500000Z"),
        (1721464236275, "2024-07-20T08:30:36.275000Z"),
        (1721464236275141, "2024-07-20T08:30:36.275141Z"),
        (1721464236275141999, "2024-07-20T08:30:36.275141Z"),
        (datetime(2024, 7, 20, 8, 30, 36), "2024-07-20T08:30:36Z"),
        (datetime(2024, 7, 20).date(), "2024-07-20T00:00:00Z"),
    ],
)
def test_a_time_is_read_in_every_form(given: object, expected: str) -> None:
    found = parse_moment(given, "created_at")
    assert found is not None and iso(found) == expected


@pytest.mark.parametrize(
    "given", ["soon", "2024-13-01", True, float("nan"), float("inf"), [1], "12", 10**40, -(10**30)]
)
def test_what_is_no_time_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="created_at is not a time"):
        parse_moment(given, "created_at")


@given(st.integers(0, 250_000_000_000_000_000))
def test_a_time_comes_back_to_the_microsecond(micros: int) -> None:
    when = (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)).isoformat()
    assert parse_moment(when, "t") == micros


def test_no_time_is_none() -> None:
    assert parse_moment(None, "t") is None and parse_moment("", "t") is None


# -- mem0 -------------------------------------------------------------------------------------

MEM0 = {
    "id": ONE, "memory": "Likes to play cricket on weekends", "hash": "285d07801ae42054732314853e9eadd7", "score": 0.4,
    "metadata": {"category": "hobbies"}, "created_at": "2024-07-20T01:30:36.275141-07:00", "updated_at": None,
    "user_id": "alice", "agent_id": "coach", "run_id": "trip-1", "categories": ["sports", "weekend"],
}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", [lambda one: [one], lambda one: {"results": [one]}, lambda one: {"memories": [one]}])
def test_mem0_documents_are_read(tmp_path: Path, wrap: Any, indent: int | None) -> None:
    source = tmp_path / "mem0.json"
    source.write_text(json.dumps(wrap(MEM0), indent=indent))
    reading = read_memories(source)
    (item,) = reading
    made = item.memory
    assert reading.format == "mem0" and made.source == "import:mem0" and made.memory_id == ONE
    assert made.content == "Likes to play cricket on weekends"
    assert (made.agent_id, made.session_id, made.category, made.tags) == ("coach", "trip-1", "sports", ("weekend",))
    assert (made.metadata, made.user_id) == ({"category": "hobbies"}, "alice")
    assert iso(made.created_at) == "2024-07-20T08:30:36.275141Z" and made.updated_at == made.created_at


def test_mem0_relations_and_bad_items(repo: ml.Repo, tmp_path: Path) -> None:
    source = tmp_path / "mem0.json"
    relations = [{"source": "alice", "relationship": "works_at", "destination": "acme"}]
    source.write_text(json.dumps({"results": [MEM0, {"id": TWO}, 5], "relations": relations}))
    with pytest.raises(InvalidInput, match=r"mem0\.json, item 2: it has no \"content\""):
        list(read_memories(source))
    assert contents(source, skip_bad=True) == [MEM0["memory"], "alice works at acme"]
    assert load_items(repo.memories(), read_memories(source, skip_bad=True))[:3] == (2, 0, 2)
    assert load_items(repo.memories(), read_memories(source, skip_bad=True))[:3] == (0, 2, 2)


def test_a_broken_document_is_named_with_its_line(tmp_path: Path) -> None:
    source = tmp_path / "mem0.json"
    source.write_text('{\n "results": [\n  {"memory": }\n]}')
    with pytest.raises(InvalidInput, match=r"mem0\.json: it is not JSON: .* at line 3, column 14"):
        list(read_memories(source))
    source.write_bytes(b'[\n"\xfe"]')
    with pytest.raises(InvalidInput, match=r"mem0\.json: line 2 is not UTF-8"):
        list(read_memories(source))
    source.write_text('{"a": 1}')
    with pytest.raises(InvalidInput, match="neither a list of memories"):
        list(read_memories(source, format="mem0"))


# -- server-memory ----------------------------------------------------------------------------


def test_server_memory_entities_and_relations_become_memories(repo: ml.Repo, tmp_path: Path) -> None:
    source = lines(
        tmp_path / "memory.jsonl",
        {"type": "entity", "name": "John_Smith", "entityType": "person",
         "observations": ["Speaks fluent Spanish", "john_smith graduated in 2019"]},
        {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
        {"type": "relation", "from": "John_Smith", "to": "Acme", "relationType": "works_at"},
    )  # fmt: skip
    reading = read_memories(source)
    found = [item.memory for item in reading]
    assert reading.format == "server-memory"
    assert [memory.content for memory in found] == [
        "John_Smith: Speaks fluent Spanish",
        "john_smith graduated in 2019",
        "Acme is a company",
        "John_Smith works at Acme",
    ]
    assert found[0].category == "person" and found[0].metadata == {"entity": "John_Smith", "entity_type": "person"}
    assert found[3].metadata == {"entity": "John_Smith", "relation": "works_at", "to": "Acme"}
    assert load_items(repo.memories(), read_memories(source)) == Report(stored=4)
    assert load_items(repo.memories(), read_memories(source)) == Report(known=4)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ({"type": "entity", "observations": []}, 'an entity has a "name"'),
        ({"type": "entity", "name": "a", "observations": "b"}, 'an entity has a "name"'),
        ({"type": "entity", "name": "a", "observations": [5]}, "content must be text"),
        ({"type": "relation", "from": "a", "to": "b"}, 'a relation has a "from"'),
        ({"type": "thing"}, "its \"type\" is 'thing'"),
    ],
)
def test_a_bad_line_of_server_memory_is_named(tmp_path: Path, record: Any, what: str) -> None:
    source = lines(tmp_path / "m", {"type": "entity", "name": "a", "entityType": "b", "observations": ["c"]}, record)
    with pytest.raises(InvalidInput, match=rf"line 2: {what}"):
        list(read_memories(source))


# -- basic-memory -----------------------------------------------------------------------------

NOTE = """---
title: Coffee Brewing
type: note
permalink: drinks/coffee-brewing
tags:
- coffee
- '#drinks'
created: 2024-07-20T08:30:36Z
---

# Coffee Brewing

Notes from the course in May.

## Observations
- [method] Pour over gives more clarity #brewing #filter (from the course)
- [tip] Coffee brewing wants soft water
- [ ] buy a kettle
- [a link](https://example.com)
- [00:12:31] and then he said
- I met [[Bob]] there
- once more [[Tea]]

## Relations
- relates_to [[Tea]]
- requires [[Proper Grinding]] (before all)
- "goes well with" [[Cake]]
- [[Plain Link]]

```
- [code] not an observation
```
"""


def test_notes_of_basic_memory_become_memories(repo: ml.Repo, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "drinks").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "x.md").write_text("hidden")
    (folder / "drinks" / "coffee.md").write_text(NOTE)
    (folder / "plain.md").write_text("Just a thought about milk")
    reading = read_memories(folder)
    found = [item.memory for item in reading]
    assert reading.format == "basic-memory"
    by = {memory.content: memory for memory in found}
    method = by["Coffee Brewing: Pour over gives more clarity"]
    assert method.category == "method" and method.tags == ("brewing", "filter", "coffee", "drinks")
    assert method.metadata == {
        "type": "note", "title": "Coffee Brewing", "permalink": "drinks/coffee-brewing", "context": "from the course",
    }  # fmt: skip
    assert (
        iso(method.created_at) == "2024-07-20T08:30:36Z"
        and method.source == "import:basic-memory:drinks/coffee-brewing"
    )
    assert {"Coffee brewing wants soft water", "Coffee Brewing relates to Tea"} <= by.keys()
    assert by["Coffee Brewing requires Proper Grinding"].metadata["context"] == "before all"
    assert {"Coffee Brewing goes well with Cake", "Coffee Brewing links to Plain Link"} <= by.keys()
    assert "plain: Just a thought about milk" in by
    (prose,) = [text for text in by if "Notes from the course" in text]
    for said in ("buy a kettle", "a link", "not an observation", "and then he said", "I met [[Bob]]", "once more"):
        assert said in prose
    assert "Pour over" not in prose and "requires" not in prose
    assert len(found) == 8 and "hidden" not in str(found)
    assert load_items(repo.memories(), read_memories(folder)) == Report(stored=8)
    (folder / "drinks" / "coffee.md").touch()
    assert load_items(repo.memories(), read_memories(folder)) == Report(known=8)


def test_a_bad_note_is_left_out_and_named_and_the_others_are_read(repo: ml.Repo, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"abc\xff")
    (tmp_path / "b.md").write_text("long " * 300_000)
    (tmp_path / "c.md").write_bytes(b" " * ((16 << 20) + 1))
    (tmp_path / "d.md").write_text("Tea is at four")
    report = load_items(repo.memories(), read_memories(tmp_path))
    assert (report.stored, report.skipped) == (1, 3)
    said = ("a.md: byte 4 is not UTF-8", "b.md, line 1: content has 1,5", "c.md: has more than 16 MiB")
    assert all(what in problem for what, problem in zip(said, report.problems, strict=True)), report.problems
    assert not any("Nothing was" in problem for problem in report.problems)


@pytest.mark.parametrize(
    ("before", "dry_run", "says"),
    [(0, False, "Nothing was stored."), (256, False, "The 256 memories before it were stored."), (256, True, "")],
)
def test_an_import_that_stops_says_what_it_stored(
    repo: ml.Repo, tmp_path: Path, before: int, dry_run: bool, says: str
) -> None:
    lines = [json.dumps({"content": f"The door {number} is open"}) for number in range(before)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{broken"]))
    with pytest.raises(InvalidInput) as caught:
        load_items(repo.memories(), read_memories(tmp_path / "a.jsonl"), dry_run=dry_run)
    assert caught.value.message.endswith(
        f"is not JSON: Expecting property name enclosed in double quotes at column 2. {says}".strip()
    )
    assert "--skip-bad" in caught.value.hint


def test_frontmatter_that_never_ends_is_prose(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntitle: x\nand so on")
    assert contents(tmp_path) == ["a: ---\ntitle: x\nand so on".removeprefix("a: ")]


# -- HatiData ---------------------------------------------------------------------------------

HATIDATA = {
    "memory_id": uuid.UUID(ONE), "org_id": "acme", "agent_id": "a", "session_id": None, "memory_type": "preference",
    "content": "The customer prefers email", "metadata": '{"customer_id": "cust-42"}', "importance": 0.8,
    "has_embedding": False, "access_count": 3, "last_accessed": None, "created_at": datetime(2025, 1, 15, 10, 30),
    "updated_at": datetime(2025, 1, 16), "source_event_id": uuid.UUID(TWO), "tags": '["mail"]',
}  # fmt: skip


def test_a_row_of_hatidata_is_a_memory() -> None:
    made = build_item(formats.parse_row(HATIDATA.keys(), HATIDATA.values(), "row 1").fields, "hatidata").memory
    assert (made.memory_id, made.org_id, made.agent_id, made.memory_type) == (ONE, "acme", "a", "preference")
    assert made.content == "The customer prefers email" and made.importance == 0.8 and made.tags == ("mail",)
    assert made.metadata == {"customer_id": "cust-42", "source_event_id": TWO}
    assert (iso(made.created_at), iso(made.updated_at)) == ("2025-01-15T10:30:00Z", "2025-01-16T00:00:00Z")
    assert formats.parse_row(["metadata"], ["{"], "row 1").problem == "its metadata is not JSON."


def test_without_duckdb_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    source = tmp_path / "local.duckdb"
    source.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 100)
    reading = read_memories(source)
    assert reading.format == "hatidata"
    with pytest.raises(Unavailable, match="takes the package duckdb"):
        list(reading)


@pytest.mark.parametrize("table", ["_hatidata_memory_local.agent_memories", "main._hatidata_agent_memory"])
def test_a_duckdb_file_of_hatidata_is_read(repo: ml.Repo, tmp_path: Path, table: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    source = tmp_path / "local.duckdb"
    with duckdb.connect(str(source)) as db:
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {table.split('.')[0]}")
        db.execute(
            f"CREATE TABLE {table}(memory_id UUID, org_id VARCHAR, agent_id VARCHAR, session_id VARCHAR, "
            "memory_type VARCHAR, content TEXT, metadata JSON, importance FLOAT, has_embedding BOOLEAN, "
            "access_count BIGINT, last_accessed TIMESTAMP, created_at TIMESTAMP, updated_at TIMESTAMP, "
            "source_event_id UUID, tags VARCHAR)"
        )
        db.execute(f"INSERT INTO {table} VALUES({', '.join('?' * len(HATIDATA))})", list(HATIDATA.values()))
    assert load_items(repo.memories(), read_memories(source)) == Report(stored=1)
    assert load_items(repo.memories(), read_memories(source)) == Report(known=1)
    made = repo.memories().get(ONE)
    assert made.metadata["customer_id"] == "cust-42" and made.tags == ("mail",) and made.source == "import:hatidata"
    assert iso(made.created_at) == "2025-01-15T10:30:00Z" and made.importance == pytest.approx(0.8)


def test_a_duckdb_file_without_memories_says_so(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    duckdb.connect(str(tmp_path / "x.duckdb")).close()
    with pytest.raises(InvalidInput, match="has no memories of HatiData"):
        list(read_memories(tmp_path / "x.duckdb"))


# -- which format ----------------------------------------------------------------------------


def test_what_is_in_no_known_format_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello there")
    (tmp_path / "empty").mkdir()
    for source, what in ((tmp_path / "a.txt", "starts with 'hello there'"), (tmp_path / "empty", "without Markdown")):
        with pytest.raises(InvalidInput, match=what):
            read_memories(source)
    with pytest.raises(NotFound, match="does not exist"):
        read_memories(tmp_path / "gone")
    with pytest.raises(InvalidInput, match="'yaml' is not a format"):
        read_memories(tmp_path / "a.txt", format="yaml")
    for form in ("jsonl", "hatidata"):
        with pytest.raises(InvalidInput, match=r"is read from a file( or standard input)?; .* is a folder"):
            read_memories(tmp_path, format=form)
    for form in ("basic-memory", "hatidata"):
        with pytest.raises(InvalidInput, match="is standard input"):
            read_memories(io.BytesIO(b""), format=form)


@pytest.mark.parametrize("form", ["auto", "mem0"])
@pytest.mark.parametrize("count", [1, 2])
def test_mem0_as_lines_of_json(tmp_path: Path, form: str, count: int) -> None:
    rows = [
        {"id": one, "memory": text, "hash": "x", "user_id": "ada", "categories": ["food", "home"], "score": 0.5}
        for one, text in ((ONE, "Likes tea"), (TWO, "Likes rice"))
    ][:count]
    found = list(read_memories(lines(tmp_path / "a.jsonl", *rows), format=form))
    assert [item.memory.content for item in found] == ["Likes tea", "Likes rice"][:count]
    first = found[0].memory
    assert (first.memory_id, first.category, first.tags, first.source) == (ONE, "food", ("home",), "import:mem0")
    assert (first.metadata, first.user_id) == ({}, "ada")


def test_a_bad_line_of_mem0_is_named_with_the_way_to_skip_it(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"memory": "Likes tea", "user_id": "ada"}\n{broken\n')
    with pytest.raises(InvalidInput, match=r"line 2: it is not JSON.*\s.*--skip-bad") as caught:
        list(read_memories(source))
    assert "skip_bad=True" in str(caught.value)
    assert len(list(read_memories(source, skip_bad=True))) == 1


@pytest.mark.parametrize("first", ['{"results":[', '{ "memories" : [', '{"results":', "{"])
def test_a_document_of_mem0_is_known_by_its_first_line_wherever_that_ends(tmp_path: Path, first: str) -> None:
    whole = '{"results":[{"memory":"Likes tea","user_id":"bob"}]}' if "r" in first or first == "{" else ""
    whole = whole or '{ "memories" : [{"memory":"Likes tea","user_id":"bob"}]}'
    file = tmp_path / "mem0.json"
    file.write_text(whole.replace(first, first + "\n", 1))
    assert [item.memory.content for item in read_memories(file)] == ["Likes tea"]


def test_an_entity_without_observations_is_told_with_its_article(tmp_path: Path) -> None:
    file = tmp_path / "graph.jsonl"
    file.write_text(
        '{"type":"entity","name":"Acme","entityType":"organization"}\n{"type":"entity","name":"Ada","entityType":"person"}'
    )
    assert [one.memory.content for one in read_memories(file)] == ["Acme is an organization", "Ada is a person"]


def test_a_view_in_a_duckdb_file_reads_no_other_file(repo: ml.Repo, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    secret, file = tmp_path / "secret.csv", tmp_path / "m.duckdb"
    secret.write_text("memory_id,content\n1,the secret\n")
    with duckdb.connect(str(file)) as db:
        db.execute(f"CREATE VIEW main._hatidata_agent_memory AS SELECT * FROM read_csv('{secret}')")
    with pytest.raises(ml.Error, match="cannot be read as a DuckDB file"):
        load_items(repo.memories(), read_memories(file))
