"""Any text in any place: contents, names, tags, keys and queries come back exactly, and none of them is an error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.memories import record
from memlake.memories.memories import Draft, Memories, prepare
from memlake.memories.record import Memory
from memlake.memories.search import Query
from tests.reliability.ground import TORTURE, assert_sound, fast_folder
from tests.reliability.memory_ground import made

TEXTS = {
    "sql": "'); DROP TABLE row; --",
    "sql quoted": '" OR 1=1; DELETE FROM memories WHERE "a"="a',
    "full text syntax": '"unbalanced AND (NOT NEAR/3 col:* ^x -y +z {a b} OR',
    "wildcards": "% _ * ? [a-z] \\ \\' \\\\",
    "emoji": "🎉 family 👨‍👩‍👧‍👦 flag 🇨🇭 e\u0301 \ufe0f",
    "chinese": "用户喜欢用中文写提交信息㐀𠀀",
    "right to left": "שלום עולם \u202eabc\u202c مرحبا بالعالم",
    "controls": "a\x01b\x02\x1b[31mred\x7f\x85 \ufeffx\u200b",
    "lines": "one\r\ntwo\n\tthree\u2028four\x0b\x0c",
    "half a pair": "broken \ud83d half \udc00",
    "json and paths": '{"a": [1, null]} ../../etc/passwd C:\\x $(rm) `x` ${y} %s {0}',
    "markup": "<script>alert(1)</script> &amp; <agent@host> [1](2)",
    "only signs": "?!… — “”",
    "zero": "0",
    "spaces inside": "  spaced   out  ",
}
LONG = {
    "a megabyte": ("needle " + "haystack " * 120_000)[: record.LONGEST],
    "a megabyte of one word": "x" * record.LONGEST,
    "a megabyte of Chinese": "记忆" * (record.LONGEST // 2),
    "many words": " ".join(f"w{n}" for n in range(100_000 if TORTURE else 10_000)),
}


@pytest.fixture(scope="module")
def memories() -> Iterator[Memories]:
    with fast_folder() as folder, ml.open(made(folder / "repo", "test")) as repo:
        yield repo.memories().as_agent("", "*")
        assert_sound(repo)


def whole_draft(text: str) -> Draft:
    """A memory with the same text in every place that takes one."""
    return Draft(
        f"content {text}",
        agent_id=text,
        session_id=text,
        org_id=text,
        memory_type=text,
        category=text,
        tags=[text, f"{text}2"],
        metadata={text: text, "deep": {text: [text, {"k": text}]}},
        source=text,
    )


def as_stored(memories: Memories, draft: Draft, found: Memory) -> Memory:
    """The memory a draft means, with the id and times it was given."""
    meant = prepare(draft, memories.context).memory
    return meant._replace(memory_id=found.memory_id, created_at=found.created_at, updated_at=found.updated_at)


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_in_every_parameter_comes_back_and_filters_by_it(name: str, memories: Memories) -> None:
    text = TEXTS[name]
    draft = whole_draft(text)
    stored = memories.store(draft)
    found = memories.get(stored.memory_id)
    assert found == as_stored(memories, draft, found)
    assert (found.content, found.agent_id, found.session_id, found.org_id) == (f"content {text}", text, text, text)
    assert found.metadata == {text: text, "deep": {text: [text, {"k": text}]}}
    assert found.tags == (text.strip(), f"{text}2".strip())
    filters: list[dict[str, object]] = [
        {"agent_id": text},
        {"agent_id": [text, "nobody"]},
        {"session_id": text},
        {"memory_type": text},
        {"category": text},
        {"tags": [text]},
        {"metadata": {text: text}},
        {"metadata": {"deep": {text: [text, {"k": text}]}}},
    ]
    for how in filters:
        asked = memories.search(Query(text, **how))  # type: ignore[arg-type]
        assert {hit["memory_id"] for hit in asked} <= {stored.memory_id}  # a text of signs alone has no words to find
        for query in ("content", ""):
            hits = memories.search(Query(query, limit=50, **how))  # type: ignore[arg-type]
            assert [hit["memory_id"] for hit in hits] == [stored.memory_id], how
            assert hits[0]["content"] == stored.content


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_a_state_key_and_value(name: str, memories: Memories) -> None:
    text = TEXTS[name]
    memories.set_state(text, text, {text: [text, None, 1.5]})
    found = memories.find_state(text, text)
    assert found is not None
    assert (found.agent_id, found.key, found.value) == (text, text, {text: [text, None, 1.5]})
    assert [(s.key, s.value) for s in memories.states(text)] == [(text, found.value)]
    assert memories.remove_state(text, text)


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_changed_remembered_forgotten_and_brought_back(name: str, memories: Memories) -> None:
    text = TEXTS[name]
    stored = memories.store(Draft(f"first {text}", agent_id=f"changes {name}"))
    memories.update(stored.memory_id, Draft(f"second {text}"), changed=["content"])
    memories.delete(stored.memory_id)
    assert memories.restore(stored.memory_id).content == f"second {text}"
    assert [v.content for v in memories.history(stored.memory_id)][:2] == [f"first {text}", f"second {text}"]
    outcome = memories.remember(Draft(f"{text} again {text}", agent_id=f"remembers {name}"))
    assert memories.get(outcome.memory_id).content == outcome.content


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_as_a_branch_a_moment_an_id_is_refused_with_a_sentence_or_works(name: str, memories: Memories) -> None:
    text = TEXTS[name]
    for attempt in (
        lambda: memories.create_branch(text, description=text),
        lambda: memories.on(text),
        lambda: memories.merge_branch(text),
        lambda: memories.discard_branch(text),
        lambda: memories.search(Query("x", as_of=text)),
        lambda: memories.get(text),
        lambda: memories.restore(text),
        lambda: memories.delete(text),
        lambda: memories.purge(text, reason=text),
        lambda: memories.store(Draft("x", expires_at=text)),
        lambda: memories.search(Query("x", since=text)),
    ):
        with contextlib.suppress(ml.Error):  # anything else is a defect
            attempt()


@pytest.mark.parametrize("name", LONG)
def test_the_longest_contents_come_back_and_are_found(name: str, memories: Memories) -> None:
    stored = memories.store(Draft(LONG[name], agent_id=f"long {name}"))
    assert memories.get(stored.memory_id).content == LONG[name]
    hits = memories.search(Query(LONG[name][:30], agent_id=f"long {name}"))
    assert [hit["memory_id"] for hit in hits] == [stored.memory_id]
    started = time.thread_time()
    memories.search(Query(LONG[name], limit=3, agent_id=f"long {name}"))
    assert time.thread_time() - started < 5, "a long question may not hold up a server"


def test_every_memory_got_its_vector_whatever_its_text(memories: Memories) -> None:
    for text in TEXTS.values():
        memories.store(Draft(f"vector {text}", agent_id="vectors"))
    assert memories.wait(60)


def test_empty_fields_stay_empty(memories: Memories) -> None:
    stored = memories.store(Draft("empty fields", org_id="", agent_id="", session_id="", importance=0.0))
    found = memories.get(stored.memory_id)
    assert found.content == stored.content
    assert (found.org_id, found.importance) == ("", 0.0)


TEXT = st.text(max_size=40)


@settings(max_examples=2000 if TORTURE else 60, suppress_health_check=list(HealthCheck), deadline=None)
@given(content=TEXT, agent=TEXT, tag=TEXT, key=TEXT, query=TEXT)
def test_generated_text_comes_back_exactly(
    memories: Memories, content: str, agent: str, tag: str, key: str, query: str
) -> None:
    draft = Draft(content, agent_id=agent, tags=[tag], metadata={key: tag})
    legal = bool(content.strip()) and agent != "*" and not any("\0" in one for one in (agent, tag))
    if not legal:
        with pytest.raises(ml.errors.InvalidInput):
            memories.store(draft)
        return
    found = memories.get(memories.store(draft).memory_id)
    assert found == as_stored(memories, draft, found)
    assert found.content == content
    assert found.memory_id in {h["memory_id"] for h in memories.search(Query("", limit=5, agent_id=agent))}
    memories.search(Query(query, agent_id=agent))


def test_content_of_a_nul_comes_back(tmp_path: Path) -> None:
    with ml.open(made(tmp_path / "repo")) as repo:
        stored = repo.memories().store(Draft("before\0after"))
        assert repo.memories().get(stored.memory_id).content == "before\0after"
        assert [hit["content"] for hit in repo.memories().search(Query("after"))] == ["before\0after"]
