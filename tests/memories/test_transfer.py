"""Our own export and import: everything comes back, twice is the same, and secrets are treated as set."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlake as ml
from memlake.defaults import Settings
from memlake.errors import Denied, InvalidInput
from memlake.integrations.read_memories import read_memories
from memlake.memories import record, store, transfer
from memlake.memories.anchors.anchor import Anchor
from memlake.memories.import_records import Earlier, Item, Planned
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Memory
from memlake.memories.search import Query
from memlake.memories.transfer import Report, list_items, load_items, write_items
from memlake.objects.layout import new_id
from memlake.versions.text.spans import Span
from tests.memories.exchange import ONE, TWO, export, lines, opened


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "repo") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ml.Repo]:
    with opened(tmp_path / "other") as made:
        yield made


# -- our own export ---------------------------------------------------------------------------


def full(memories: Memories) -> Memory:
    """A memory with every field set, changed twice."""
    made = Memory(
        new_id(), "用户电话: 1111", "codex", "s-1", "acme", "preference", "contacts", ("电话", "phone"),
        {"project": "x", "history": [{"value": "0000", "updatedAt": "2026-01-01"}], "deep": {"a": [1, None, 2.5]}},
        0.9, "import:chat", 1_700_000_000_123_456, 1_700_000_000_123_456, 4_000_000_000_000_001, related=(ONE,),
        review="look",
    )  # fmt: skip
    assert len(memories.import_many([Item(made)]).new) == 1
    for number in ("2222", "3333"):
        made = store.replace(memories.context, made, made._replace(content=f"用户电话: {number}"), "change it")
    return made


def test_an_export_brings_everything_back(repo: ml.Repo, other: ml.Repo) -> None:
    here, there = repo.memories(), other.memories()
    made = full(here)
    here.store_many([Draft("plain"), Draft("half a character \ud800", agent_id="b")])
    text = export(here)
    assert load_items(there, read_memories(io.BytesIO(text.encode()))) == Report(3)
    back = there.get(made.memory_id)
    assert back._replace(history=(), author="") == made._replace(history=())
    assert [past.until for past in back.history] == [past.until for past in made.history]
    assert sorted(export(there).splitlines()) == sorted(text.splitlines())


def test_what_a_memory_said_before_comes_back_as_records_that_gc_keeps(repo: ml.Repo, other: ml.Repo) -> None:
    made = full(repo.memories())
    load_items(other.memories(), read_memories(io.StringIO(export(repo.memories()))))
    other.upkeep.gc(prune=True)
    (item,) = list_items(other.memories())
    assert [one.memory.content for one in item.past] == ["用户电话: 1111", "用户电话: 2222"]
    assert item.past[0].memory.updated_at == made.created_at
    assert not other.upkeep.fsck().problems


def test_gc_during_an_import_leaves_what_was_said_before(repo: ml.Repo, other: ml.Repo) -> None:
    full(repo.memories())

    class Interrupted(Memories):
        def import_many(self, items: Sequence[Item]) -> Planned:
            other.upkeep.gc(prune=True)
            return super().import_many(items)

    load_items(
        Interrupted(other.memories().context, other.memories().shared),
        read_memories(io.StringIO(export(repo.memories()))),
    )
    assert len(next(list_items(other.memories())).past) == 2


def test_importing_again_what_has_a_history_writes_no_object(repo: ml.Repo, other: ml.Repo) -> None:
    full(repo.memories())
    text = export(repo.memories())
    there = other.memories()

    def count() -> int:
        row = there.context.here.history.db.row("SELECT count(*) FROM object")
        return int(row[0]) if row else 0

    load_items(there, read_memories(io.StringIO(text)))
    before = count()
    assert load_items(there, read_memories(io.StringIO(text))) == Report(known=1)
    assert count() == before
    assert there.context.here.history.db.row("SELECT count(*) FROM lease") == (0,)


def test_an_export_is_found_by_search_and_by_filters(repo: ml.Repo, other: ml.Repo) -> None:
    repo.memories().store(Draft("The user likes green tea", category="preferences", tags=["tea"], metadata={"k": 1}))
    load_items(other.memories(), read_memories(io.StringIO(export(repo.memories()))))
    for query in (Query("green tea"), Query(category="preferences"), Query(tags=["tea"]), Query(metadata={"k": 1})):
        assert [hit["content"] for hit in other.memories().search(query)] == ["The user likes green tea"]


def test_importing_twice_stores_nothing_new_and_keeps_what_was_changed_here(repo: ml.Repo, tmp_path: Path) -> None:
    memories = repo.memories()
    source = lines(tmp_path / "a.jsonl", {"id": ONE, "content": "a"}, {"id": 7, "text": "b"}, {"memory": "c"})
    assert load_items(memories, read_memories(source)) == Report(stored=3)
    head = memories.context.head()
    store.replace(memories.context, memories.get(ONE), memories.get(ONE)._replace(content="a2"), "here")
    assert load_items(memories, read_memories(source)) == Report(known=3)
    assert memories.get(ONE).content == "a2"
    after = memories.context.head()
    assert head and after and after.parents == (head.oid,), "importing again makes no commit"


def test_one_id_is_one_memory_also_when_its_agent_was_changed(repo: ml.Repo, tmp_path: Path) -> None:
    memories = repo.memories()
    source = lines(tmp_path / "a.jsonl", {"id": ONE, "content": "a", "agent": "x"}, {"id": ONE, "content": "b"})
    assert load_items(memories, read_memories(source)) == Report(stored=1, conflicts=1)
    again = lines(tmp_path / "b.jsonl", {"id": ONE, "content": "a", "agent": "y"})
    assert load_items(memories, read_memories(again)) == Report(known=1)
    assert memories.get(ONE).content == "a"


def test_the_same_number_in_two_files_is_not_the_same_memory(repo: ml.Repo, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert load_items(repo.memories(), read_memories(lines(tmp_path / name, {"id": 1, "content": name}))) == Report(
            stored=1
        )


def test_a_large_import_is_one_commit_for_256_memories(repo: ml.Repo) -> None:
    memories = repo.memories()
    given = [Item(Memory(new_id(), f"fact {n}", created_at=n, updated_at=n)) for n in range(600)]
    assert load_items(memories, given) == Report(stored=600)
    head = memories.context.head()
    assert head is not None and head.generation == 3


def test_an_export_holds_a_few_memories_at_a_time(repo: ml.Repo) -> None:
    memories = repo.memories()
    load_items(memories, (Item(Memory(new_id(), f"{n} " + "x" * 20_000)) for n in range(600)))

    class Nowhere(io.RawIOBase):
        size = 0

        def write(self, data: Any) -> int:
            Nowhere.size += len(data)
            return len(data)

    tracemalloc.start()
    assert write_items(list_items(memories), Nowhere()) == 600  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Nowhere.size > 12_000_000 and peak < 4_000_000


def test_only_what_can_be_written_is_written() -> None:
    with pytest.raises(InvalidInput, match="not as 'mem0'"):
        write_items([], io.StringIO(), format="mem0")


@pytest.mark.parametrize("how", ["warn", "redact", "block", "off"])
def test_secrets_are_treated_as_the_setting_says(tmp_path: Path, how: str) -> None:
    repo = ml.init(tmp_path / "repo")
    ground = repo.memories().context
    asked = replace(ground, settings=Settings(memory_secrets=how))
    memories = Memories(asked, repo.memories().shared)
    key = "npm_" + "aB3dE5gH7j" * 3 + "kL9mN1"
    told = {"content": "ok", "metadata": {"deep": [f"use {key}"]}, "id": TWO}
    source = lines(tmp_path / "a.jsonl", {"content": f"token {key}", "id": ONE}, told)
    if how == "block":
        with pytest.raises(Denied, match=rf"memory {ONE}: the text looks like it holds an npm token"):
            load_items(memories, read_memories(source))
        assert load_items(memories, read_memories(source, skip_bad=True))[:3] == (0, 0, 2)
    else:
        report = load_items(memories, read_memories(source))
        assert report.stored == 2 and len(report.warnings) == (0 if how == "off" else 2)
        assert (key in export(memories)) == (how != "redact") and key not in str(report)
        again = load_items(memories, read_memories(source))
        assert (again.known, again.warnings) == (2, ()), "of what was not stored nothing is to be told"
    repo.close()


def test_only_the_first_problems_and_warnings_are_told_in_full(repo: ml.Repo, tmp_path: Path) -> None:
    bad = [{"note": n} for n in range(50)]
    told = [{"content": f"password = hunter{n}"} for n in range(50)]
    report = load_items(repo.memories(), read_memories(lines(tmp_path / "a", told[0], *bad, *told[1:]), skip_bad=True))
    assert report.skipped == 50 and len(report.problems) == transfer.NAMED
    assert len(report.warnings) == transfer.NAMED + 1 and "30 more" in report.warnings[-1]


TEXT = st.text(st.characters(exclude_characters="\0"), max_size=30)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON_VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
MICROS = st.integers(1, 250_000_000_000_000_000)
SOURCES = st.builds("{}:{}".format, st.sampled_from(record.SOURCES), TEXT) | st.sampled_from(record.SOURCES)
NUMBERS = st.integers(0, 1 << 32)
SPANS = st.builds(Span, st.just("5d9c"), NUMBERS, st.integers(1, 9), NUMBERS, NUMBERS)
ANCHORS = st.builds(
    Anchor, st.sampled_from(("file", "tensor")), st.sampled_from(("a.py", "src/b.txt")),
    st.sampled_from(("ab" * 20, "")),
    NUMBERS, st.none() | st.integers(1, 9).map(lambda line: (line, line + 3)), TEXT, st.none() | SPANS, st.booleans(),
    st.sampled_from(("", "00c0ffee")),
)  # fmt: skip
MEMORIES = st.builds(
    Memory, st.uuids().map(str), TEXT.filter(str.strip), TEXT, TEXT, TEXT.filter(bool), TEXT.filter(bool), TEXT,
    st.lists(TEXT.map(str.strip).filter(bool), max_size=3, unique=True).map(tuple),
    st.dictionaries(TEXT, JSON_VALUES, max_size=3), st.floats(0, 1), SOURCES, MICROS, MICROS, st.just(0) | MICROS,
    st.just(()), st.lists(st.uuids().map(str), max_size=2).map(tuple), TEXT,
    st.just("") | TEXT.map(lambda text: f"/{text}"), TEXT, TEXT, own=st.just(False), user_id=TEXT, client=TEXT,
    author=TEXT,
    uses=st.lists(ANCHORS, max_size=2).map(tuple),
)  # fmt: skip


@given(st.lists(st.tuples(MEMORIES, st.lists(st.tuples(MEMORIES, MICROS), max_size=2)), max_size=4))
def test_any_memory_is_read_as_it_was_written(given_: list[tuple[Memory, list[tuple[Memory, int]]]]) -> None:
    wanted = [
        Item(memory, tuple(Earlier(old._replace(memory_id=memory.memory_id), until) for old, until in past))
        for memory, past in given_
    ]
    stream = io.BytesIO()
    assert write_items(wanted, stream) == len(wanted)
    read = read_memories(io.BytesIO(stream.getvalue()), format="jsonl")
    assert [item._replace(where="") for item in read] == wanted
