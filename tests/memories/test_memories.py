"""Memories are versioned rows: stored, found, changed, forgotten, brought back, on branches and in the past."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.index.rank import USUAL
from memlake.memories import index_sync
from memlake.memories import search as memory_search
from memlake.memories.embedders.spans import KNOWN
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.memories.upkeep import Rule
from memlake.objects import layout
from memlake.versions.history import refs
from tests.conftest import SetClock

from .conftest import opened


def contents(memories: Memories, text: str, **how: object) -> list[str]:
    return [hit["content"] for hit in memories.search(Query(text, **how))]  # type: ignore[arg-type]


# -- storing and finding ------------------------------------------------------------------------


def test_a_memory_is_found_by_its_words_at_once(memories: Memories) -> None:
    stored = memories.store(Draft("Revenue grew 15% in Q4", importance=0.9, metadata={"quarter": "Q4"}))
    hit = memories.search(Query("revenue growth"))[0]
    assert hit["memory_id"] == stored.memory_id
    assert hit["metadata"] == {"quarter": "Q4"}
    assert hit["importance"] == 0.9
    assert 0 < hit["similarity_score"] <= 1
    assert hit["why"]["words"] > 0


def test_each_store_is_one_commit_of_the_memory_lane_by_the_agent(repo: ml.Repo, memories: Memories) -> None:
    for content in ("one", "two"):
        memories.store(Draft(content, agent_id="bot"))
    log = list(repo.log(lane="memory"))
    assert [commit.author.name for commit in log] == ["bot", "bot"]
    assert repo.head is None


def test_no_content_and_no_name_of_an_agent_is_in_a_commit_or_a_path(repo: ml.Repo, memories: Memories) -> None:
    memories.store(Draft("the safe opens with 4711", agent_id="secret-agent"))
    memories.set_state("secret-agent", "secret-key", "value")
    commits = list(repo.log(lane="memory"))
    said = " ".join(commit.message for commit in commits) + " ".join(path for path, _ in repo.ls(prefix="memories/"))
    said += " ".join(path for path, _ in repo.ls(prefix="state/"))
    assert not any(word in said for word in ("4711", "secret-agent", "secret-key", "value"))


def test_two_memories_of_the_same_words_are_two_objects(repo: ml.Repo, memories: Memories) -> None:
    memories.store_many([Draft("the same"), Draft("the same")])
    assert len({entry.oid for _, entry in repo.ls(prefix="memories/")}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        '"',
        "a AND OR NOT",
        "col:x NEAR(",
        "'; DROP TABLE row; --",
        "*",
        "(((",
        "\0",
        "🎉",
        "שלום",
        "用户",
        "x" * 5000,
    ],
)
def test_no_query_is_an_error(memories: Memories, text: str) -> None:
    memories.store(Draft("שלום עולם 🎉 用户喜欢"))
    memories.search(Query(text))


@pytest.mark.parametrize("content", ["שלום עולם", "🎉 party 🎉", "用户喜欢靠窗", "a'b\"c", "x\x01y control", "é" * 10])
def test_any_content_comes_back_as_it_was(memories: Memories, content: str) -> None:
    stored = memories.store(Draft(content))
    assert memories.get(stored.memory_id).content == content


def test_a_megabyte_is_stored_and_found(memories: Memories) -> None:
    memories.store(Draft("needle " + "hay " * 250_000))
    assert len(contents(memories, "needle")) == 1


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (Draft(""), "empty"),
        (Draft("x" * (1 << 20) + "y"), "1,048,577"),
        (Draft("x", importance=2), "from 0 to 1"),
        (Draft("x", importance="high"), "from 0 to 1"),  # type: ignore[arg-type]
        (Draft("x", metadata=["a"]), "mapping"),  # type: ignore[arg-type]
        (Draft("x", metadata={"a": object()}), "JSON"),
        (Draft("x", tags=7), "list"),  # type: ignore[arg-type]
        (Draft(5), "text"),  # type: ignore[arg-type]
        (Draft("x", expires_at="someday"), "not a time"),
    ],
)
def test_wrong_fields_store_nothing(repo: ml.Repo, memories: Memories, draft: Draft, said: str) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=said):
        memories.store(draft)
    assert [branch.memory for branch in repo.branches] == [None]


def test_filters_by_every_field(memories: Memories) -> None:
    memories.store(Draft("tea one", agent_id="a", session_id="s1", memory_type="fact", category="x", tags=["t", "u"]))
    memories.store(Draft("tea two", agent_id="b", session_id="s2", memory_type="episode", category="y", tags=["u"]))
    memories.store(Draft("tea three", agent_id="b", metadata={"n": 3, "deep": {"k": [1]}}, importance=0.9))
    assert contents(memories, "tea", agent_id="a") == ["tea one"]
    assert set(contents(memories, "tea", agent_id=["a", "b"])) == {"tea one", "tea two", "tea three"}
    assert contents(memories, "tea", session_id="s2") == ["tea two"]
    assert contents(memories, "tea", memory_type="episode") == ["tea two"]
    assert contents(memories, "tea", category="x") == ["tea one"]
    assert set(contents(memories, "tea", tags=["u"])) == {"tea one", "tea two"}
    assert contents(memories, "tea", tags=["u", "t"]) == ["tea one"]
    assert contents(memories, "tea", metadata={"n": 3}) == ["tea three"]
    assert contents(memories, "tea", metadata={"deep": {"k": [1]}}) == ["tea three"]
    assert contents(memories, "tea", min_importance=0.8) == ["tea three"]
    assert contents(memories, "tea", since="1 hour ago", agent_id="a") == ["tea one"]
    assert contents(memories, "tea", until="1 hour ago") == []
    assert len(contents(memories, "tea", limit=2)) == 2
    assert len(contents(memories, "tea", limit=2, offset=2)) == 1


def test_without_words_the_newest_come_first(memories: Memories) -> None:
    for content in ("one", "two", "three"):
        memories.store(Draft(content))
    assert contents(memories, "", limit=2) == ["three", "two"]


def test_a_skipped_memory_gives_its_filing_to_the_one_that_stands(memories: Memories) -> None:
    first = memories.remember(Draft("User prefers tabs", tags=["a"], metadata={"k": 1}, expires_at="tomorrow"))
    before = len(memories.log(100))
    new = Draft("User prefers tabs", tags=["b", "a"], metadata={"n": 2}, importance=0.9, category="preferences")
    dry = memories.remember(new, dry_run=True)
    assert len(memories.log(100)) == before
    done = memories.remember(new)
    assert done == dry and (done.decision, done.memory_id) == ("skip", first.memory_id) and not done.warnings
    assert done.why.endswith("it takes over tags: b; metadata: n; category: preferences; importance: 0.9; no end")
    stands = memories.get(first.memory_id)
    assert (stands.tags, stands.metadata, stands.importance) == (("a", "b"), {"k": 1, "n": 2}, 0.9)
    assert (stands.category, stands.expires_at, stands.history) == ("preferences", 0, ())
    assert memories.log(1)[0].subject == f"update memory {first.memory_id}" and len(memories.log(100)) == before + 1
    assert "takes over" not in memories.remember(new).why and len(memories.log(100)) == before + 1


def test_what_a_skipped_memory_could_not_give_is_told(memories: Memories) -> None:
    memories.remember(Draft("User prefers tabs", metadata={"k": 1}, importance=0.8))
    new = Draft("User prefers tabs", memory_type="preference", metadata={"k": 1}, importance=0.6, expires_at="tomorrow")
    done = memories.remember(new)
    assert done.decision == "skip" and done.warnings == (
        "known already; not kept of the new one: memory_type preference (it has fact); importance 0.6 (it has 0.8); "
        "its end (it has none).",
    )


def test_secrets_are_looked_for_in_all_that_is_stored(tmp_path: Path) -> None:
    key = "npm_" + "aB3dE5gH7j" * 3 + "kL9mN1"
    with opened(tmp_path / "repo") as repo:
        repo.config.set("memory.secrets", "redact")
    with ml.open(tmp_path / "repo") as repo:
        memories = repo.memories()
        stored = memories.store(Draft("tea", tags=[key], metadata={"k": [key]}))
        changed = memories.update(stored.memory_id, Draft("tea", metadata={"k": key}), changed=["metadata"])
        kept = memories.set_state("bot", "login", {"token": key})
        assert len(stored.warnings) == 2 and len(changed.warnings) == len(kept.warnings) == 1
        assert kept.value == {"token": "[redacted: npm token]"}
        repo.config.set("memory.secrets", "block")
    with ml.open(tmp_path / "repo") as repo, pytest.raises(ml.errors.Denied, match="the value looks like it holds"):
        repo.memories().set_state("bot", "login", key)
    files = [f for f in (tmp_path / "repo").rglob("*") if f.is_file()]
    assert files and not any(key.encode() in f.read_bytes() for f in files)


def test_what_an_update_leaves_alone_is_not_looked_at(repo: ml.Repo, memories: Memories) -> None:
    stored = memories.store(Draft("the password is hunter2!x"))
    assert stored.warnings
    assert memories.update(stored.memory_id, Draft("x", tags=["a"]), changed=["tags"]).warnings == ()


@pytest.mark.parametrize(
    "value", ["yesterday", "2 days ago", "2001-01-01", "1999", 5, datetime(2001, 1, 1, tzinfo=timezone.utc)]
)
def test_an_end_that_is_over_or_none_is_refused_and_nothing_is_stored(memories: Memories, value: Any) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=r"that is over|not a time"):
        memories.store(Draft("tea", expires_at=value))
    assert contents(memories, "tea") == []


@pytest.mark.parametrize("value", [10**40, -(10**40), 10**18, True, datetime.max, "9" * 30])
def test_a_time_that_no_calendar_has_is_refused_and_harms_no_search(memories: Memories, value: Any) -> None:
    for draft in (Draft("tea", expires_at=value), Draft("tea", created_at=value)):
        with pytest.raises(ml.errors.InvalidInput):
            memories.store(draft)
    with pytest.raises(ml.errors.InvalidInput):
        memories.search(Query("tea", since=value))
    memories.store(Draft("coffee"))
    assert contents(memories, "coffee") == ["coffee"]


def test_an_end_is_given_moved_and_taken_away(memories: Memories) -> None:
    stored = memories.store(Draft("tea", expires_at="in 3 days")).memory_id
    days = (memories.get(stored).expires_at - layout.now()) / 86_400e6
    assert 2.9 < days <= 3
    soon = datetime.now(timezone.utc) + timedelta(hours=2)
    memories.update(stored, Draft("tea", expires_at=soon), changed=["expires_at"])
    assert memories.get(stored).expires_at == int(soon.timestamp() * 1e6)
    memories.update(stored, Draft("tea", expires_at="never"), changed=["expires_at"])
    assert memories.get(stored).expires_at == 0


def test_an_expired_memory_is_not_found(memories: Memories, set_clock: SetClock) -> None:
    memories.store(Draft("short lived tea", expires_at=int(time.time() * 1e6) + 3600_000_000))
    assert contents(memories, "tea") == ["short lived tea"]
    set_clock(3601)
    assert contents(memories, "tea") == []
    assert [age.memory.content for age in memories.evict(Rule(days=10_000))] == ["short lived tea"]


# -- changing -------------------------------------------------------------------------------------


def test_an_update_keeps_what_was_said_before(memories: Memories) -> None:
    stored = memories.store(Draft("User phone: 1111", category="contacts"))
    memories.update(stored.memory_id, Draft("User phone: 2222"), changed=["content"])
    fields = memories.fields(memories.get(stored.memory_id))
    assert fields["content"] == "User phone: 2222"
    assert fields["category"] == "contacts"
    assert [past["value"] for past in fields["metadata"]["history"]] == ["User phone: 1111"]
    assert set(fields["metadata"]["history"][0]) == {"value", "updatedAt"}
    assert [version.content for version in memories.history(stored.memory_id)] == [
        "User phone: 1111",
        "User phone: 2222",
    ]
    assert contents(memories, "1111") == []


def test_what_is_used_now_finds_what_it_replaces_without_a_word_in_common(memories: Memories) -> None:
    first = memories.remember(Draft("I use VS Code"))
    memories.remember(Draft("User writes long letters to Kim"))
    second = memories.remember(Draft("I now use Neovim"))
    assert (second.decision, second.memory_id) == ("conflict", first.memory_id)


def test_a_correction_becomes_the_memory_and_the_old_value_its_history(memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    second = memories.remember(Draft("My phone is actually 2222"))
    assert (first.decision, second.decision) == ("add", "conflict")
    assert second.memory_id == first.memory_id
    fields = memories.fields(memories.get(first.memory_id))
    assert fields["content"] == "User phone: 2222"
    assert [past["value"] for past in fields["metadata"]["history"]] == ["User phone: 1111"]
    assert memories.log(1)[0].message.startswith("conflict memory")
    assert '"rule"' in memories.log(1)[0].message


@pytest.mark.parametrize("there", [True, False])
def test_what_is_written_while_it_is_decided_is_looked_at(
    repo: ml.Repo, memories: Memories, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """A search that runs into another process's write may miss the memory that is just being changed."""
    first = memories.store(Draft("User phone: 111", agent_id="one")) if there else None
    search, calls = memory_search.search, []

    def raced(ground: Any, query: Query) -> memory_search.Hits:
        calls.append(query)
        if len(calls) > 1:
            return search(ground, query)
        with ml.open(repo.root) as other:
            other.memories().remember(Draft("User phone: 222", agent_id="one"))
        return memory_search.Hits()

    with monkeypatch.context() as patch:
        patch.setattr(memory_search, "search", raced)
        done = memories.remember(Draft("User phone: 333", agent_id="one"))
    [only] = memories.search(Query("", agent_id="one"))
    assert done.decision in ("replace", "conflict") and only["content"] == "User phone: 333"
    assert first is None or only["memory_id"] == first.memory_id
    said = [version.content for version in memories.history(only["memory_id"])]
    assert {"User phone: 222", "User phone: 333"} <= set(said)


def test_a_dry_run_says_what_would_happen_and_changes_nothing(memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    would = memories.remember(Draft("User phone: 2222"), dry_run=True)
    assert (would.decision, would.memory_id) == ("conflict", first.memory_id)
    assert memories.get(first.memory_id).content == "User phone: 1111"


def test_asking_keeps_both_and_lists_them(memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    second = memories.remember(Draft("User phone: 2222"), on_conflict="ask")
    assert second.decision == "coexist"
    assert second.review
    contradiction = memories.conflicts()[0]
    assert (contradiction.new.memory_id, contradiction.old and contradiction.old.memory_id) == (
        second.memory_id,
        first.memory_id,
    )
    kept = memories.resolve(second.memory_id, "new")
    assert (kept.memory_id, kept.content) == (first.memory_id, "User phone: 2222")
    assert memories.conflicts() == []
    assert contents(memories, "phone") == ["User phone: 2222"]


def test_a_contradiction_whose_other_side_is_gone_is_none(memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    memories.remember(Draft("User phone: 2222"), on_conflict="ask")
    memories.purge(first.memory_id, "asked to")
    assert memories.conflicts() == []


@pytest.mark.parametrize(
    ("keep", "left"), [("old", {"User phone: 1111"}), ("both", {"User phone: 1111", "User phone: 2222"})]
)
def test_a_contradiction_is_settled_either_way(memories: Memories, keep: str, left: set[str]) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    second = memories.remember(Draft("User phone: 2222"), on_conflict="ask")
    memories.resolve(second.memory_id, keep)
    with pytest.raises(ml.errors.Nothing, match="in no conflict"):
        memories.resolve(second.memory_id if keep == "both" else first.memory_id, keep)
    assert set(contents(memories, "phone")) == left
    assert memories.conflicts() == []


def test_what_was_decided_alone_is_listed_and_can_be_taken_back(memories: Memories) -> None:
    memories.remember(Draft("The API runs on port 8080", "claude"))
    memories.remember(Draft("User phone: 1111"))
    memories.remember(Draft("User phone: 2222"))
    memories.remember(Draft("The API now runs on port 9090", "claude"))
    unsure, sure = memories.list_decided()
    assert (unsure.rule, unsure.unsure, unsure.new) == ("correction", True, "The API now runs on port 9090")
    assert (sure.rule, sure.unsure, sure.decision) == ("attribute-value", False, "conflict")
    assert (sure.old, sure.new) == ("User phone: 1111", "User phone: 2222")
    assert memories.list_decided("claude") == [unsure] == memories.list_decided(limit=1)
    assert memories.restore(sure.memory_id, sure.version).content == "User phone: 1111"


def test_what_was_merged_keeps_both_as_they_were_said(memories: Memories) -> None:
    first = memories.remember(Draft("The staging server is in Lyon"))
    both = memories.remember(Draft("The staging server listens on port 8443"))
    assert (both.memory_id, both.decision) == (first.memory_id, "merge")
    assert contents(memories, "staging server") == ["The staging server is in Lyon; listens on port 8443"]
    said = [past["value"] for past in memory_search.list_past_values(memories.context, memories.get(both.memory_id))]
    assert said == ["The staging server is in Lyon", "The staging server listens on port 8443"]
    assert memories.restore(both.memory_id, memories.list_decided()[0].version).content == said[0]


@pytest.mark.parametrize(
    "filed", [{"expires_at": "2099-01-01"}, {"category": "contacts"}, {"memory_type": "episode"}], ids=str
)
def test_facts_that_are_filed_apart_are_not_merged(memories: Memories, filed: dict[str, str]) -> None:
    memories.remember(Draft("The staging server is in Lyon", category="conventions"))
    apart = memories.remember(Draft("The staging server listens on port 8443", **filed))
    assert (apart.decision, apart.rule) == ("coexist", "other-filing")


@pytest.mark.parametrize(
    ("old", "new", "stands"),
    [
        ("User lives in Bern", "I moved to Zurich", ["I moved to Zurich"]),
        ("The staging port is 8080", "No, it should be 9090", ["The staging port is 9090"]),
        ("Tests run on Jenkins", "Migrated to GitHub Actions", ["Migrated to GitHub Actions", "Tests run on Jenkins"]),
    ],
)
def test_what_changed_is_found_where_no_word_is_shared(
    memories: Memories, old: str, new: str, stands: list[str]
) -> None:
    memories.remember(Draft(old, "ada", session_id="s"))
    memories.remember(Draft("Kim plays the cello", "kim", session_id="s"))
    memories.remember(Draft(new, "ada", session_id="s"))
    listed = memory_search.list_memories(memories.context, Query(agent_id="ada"))
    assert sorted(one.content for one in listed) == stands
    assert len(memories.conflicts()) == len(stands) - 1


def test_what_was_purged_or_only_looks_decided_is_not_listed(repo: ml.Repo, memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    memories.remember(Draft("User phone: 2222"))
    for content in (b"{}", b"[]"):
        repo.write({"memories/x/y": content}, f"merge memory {first.memory_id}\n\n{{}}")
    memories.purge(first.memory_id, "asked for")
    assert memories.list_decided() == []


def test_adding_as_it_is_decides_nothing(memories: Memories) -> None:
    for _ in range(2):
        assert memories.remember(Draft("User phone: 1111"), on_conflict="add").decision == "add"
    assert len(contents(memories, "phone")) == 2


def test_a_judge_is_asked_where_the_rules_are_unsure(memories: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.memories.rules.decision.Decision.is_unsure", True)
    memories.remember(Draft("The office is in Bern"), on_conflict="add")
    done = memories.remember(Draft("The office is in Zurich"), judge=lambda old, new: "coexist")
    assert (done.decision, done.rule) == ("coexist", "judge")
    with pytest.raises(ml.errors.InvalidInput, match="judge said"):
        memories.remember(Draft("The office is in Basel"), judge=lambda old, new: "maybe")


def test_the_score_of_a_hit_says_how_much_of_what_was_asked_it_has(memories: Memories) -> None:
    memories.store_many([Draft("Lena mends antique clocks"), Draft("Otto sells bread"), Draft("Kim paints")])
    score = {text: memories.search(Query(text))[0]["similarity_score"] for text in (
        "antique clocks", "antique furniture", "antique furniture from distant galaxies", "antiqe clocks",
    )}  # fmt: skip
    assert score["antique clocks"] == 1.0
    assert score["antique furniture"] == pytest.approx(0.5, abs=0.05)
    assert score["antique furniture from distant galaxies"] < 0.3
    assert 0.5 < score["antiqe clocks"] < 1.0


def test_a_long_memory_that_has_all_the_words_is_as_near_as_a_short_one(memories: Memories) -> None:
    memories.store_many([Draft("Otto sells bread"), Draft(f"Lena mends clocks {'and more of this and that ' * 40}")])
    assert memories.search(Query("Lena mends clocks"))[0]["similarity_score"] == 1.0


def test_the_score_of_a_hit_with_a_vector_is_of_its_words_and_its_cosine(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        memories.store_many([Draft("Lena mends antique clocks"), Draft("Otto sells a house")])
        assert memories.wait(20)
        all_words, none = (memories.search(Query(text, min_score=0)) for text in ("antique clocks", "autumn leaves"))
        scale = ([-1, *KNOWN["test-64"], 1], [-1, *USUAL, 1])  # cosines of this model, and as the local one has them
        meaning = np.interp(all_words[0]["why"]["vectors"], *scale)
        assert all_words[0]["similarity_score"] == pytest.approx((1 + 2 * meaning) / 2.5, abs=1e-3)
        assert all(hit["similarity_score"] < 0.2 for hit in none)
        near = memories.search(Query("Lena mends clocks", mode="semantic", min_score=0))[0]
        assert near["similarity_score"] == pytest.approx(np.interp(near["why"]["vectors"], *scale), abs=1e-3)


def test_hits_are_in_the_order_of_their_rank(memories: Memories) -> None:
    memories.store_many([Draft(f"Lena mends clock {number}", importance=number / 10) for number in range(10)])
    ranks = [hit["why"]["rank"] for hit in memories.search(Query("Lena clock"))]
    assert ranks == sorted(ranks, reverse=True) and ranks[0] > ranks[-1]


# -- memories of several agents ---------------------------------------------------------------------


def test_what_another_agent_says_otherwise_is_kept_and_listed_with_its_name(memories: Memories) -> None:
    first = memories.remember(Draft("User lives in Oslo", "cursor"))
    second = memories.remember(Draft("User lives in Lisbon", "claude"))
    assert (second.decision, second.rule, second.other_id) == ("coexist", "agent-conflict", first.memory_id)
    assert second.review and "Agent 'cursor' keeps what speaks against it" in second.why
    assert memories.get(first.memory_id).content == "User lives in Oslo"
    (contradiction,) = memories.conflicts()
    assert (contradiction.new.memory_id, contradiction.old and contradiction.old.memory_id) == (
        second.memory_id,
        first.memory_id,
    )
    assert "'cursor'" in contradiction.why


def test_what_another_agent_keeps_already_is_kept_twice_and_said(memories: Memories) -> None:
    first = memories.remember(Draft("User lives in Oslo", "cursor"))
    second = memories.remember(Draft("User lives in Oslo.", "claude"))
    assert (second.decision, second.rule) == ("coexist", "agent-same")
    assert second.why.startswith("Agent 'cursor' already keeps this.") and second.memory_id != first.memory_id
    assert [contradiction.rule for contradiction in memories.conflicts()] == ["agent-same"]
    assert memories.remember(Draft("User lives in Oslo", "claude")).decision == "skip"


def test_a_memory_of_no_agent_is_corrected_by_an_agent_which_is_the_author(memories: Memories) -> None:
    first = memories.remember(Draft("User phone: 1111"))
    done = memories.remember(Draft("My phone is actually 2222", "claude"))
    assert (done.decision, done.memory_id) == ("conflict", first.memory_id)
    found = memories.get(first.memory_id)
    assert (found.content, found.agent_id, memories.log(1)[0].author.name) == ("User phone: 2222", "", "claude")


def test_a_skipped_memory_files_what_is_nobodys_and_the_writer_is_the_author(memories: Memories) -> None:
    first = memories.remember(Draft("User prefers tabs", tags=["a"]))
    done = memories.remember(Draft("User prefers tabs", "claude", tags=["b"]))
    assert (done.decision, done.memory_id) == ("skip", first.memory_id)
    found = memories.get(first.memory_id)
    assert (found.tags, found.agent_id, memories.log(1)[0].author.name) == (("a", "b"), "", "claude")


def test_what_another_agent_keeps_already_is_not_filed_anew(memories: Memories) -> None:
    first = memories.remember(Draft("User prefers tabs", "cursor", tags=["a"]))
    second = memories.remember(Draft("User prefers tabs", "claude", tags=["b"]))
    assert (memories.get(first.memory_id).tags, memories.get(second.memory_id).tags) == (("a",), ("b",))


def test_an_agents_own_correction_lists_another_agent_that_now_speaks_against_it(memories: Memories) -> None:
    mine = memories.remember(Draft("User lives in Oslo", "claude"))
    theirs = memories.remember(Draft("User lives in Oslo", "cursor"))
    memories.resolve(theirs.memory_id, "both")
    done = memories.remember(Draft("User moved to Lisbon", "claude"))
    assert (done.decision, done.memory_id, done.review) == ("conflict", mine.memory_id, True)
    (contradiction,) = memories.conflicts()
    assert (contradiction.new.memory_id, contradiction.old and contradiction.old.memory_id) == (
        mine.memory_id,
        theirs.memory_id,
    )
    assert memories.get(theirs.memory_id).content == "User lives in Oslo"


@pytest.mark.parametrize(("keep", "stands"), [("new", "User lives in Lisbon"), ("old", "User lives in Oslo")])
def test_a_conflict_of_two_agents_is_settled_for_both(memories: Memories, keep: str, stands: str) -> None:
    memories.remember(Draft("User lives in Oslo", "cursor"))
    second = memories.remember(Draft("User lives in Lisbon", "claude"))
    memories.resolve(second.memory_id, keep)
    kept = memories.list_memories(Query())
    assert {(one.agent_id, one.content) for one in kept} == {("cursor", stands), ("claude", stands)}
    assert memories.conflicts() == []


def test_many_near_memories_of_others_do_not_hide_an_agents_own(memories: Memories) -> None:
    mine = memories.remember(Draft("User phone: 1111", "claude"))
    memories.store_many([Draft(f"User phone: {number}", f"bot{number}") for number in range(20)])
    done = memories.remember(Draft("User phone: 2222", "claude"))
    assert (done.decision, done.memory_id) == ("conflict", mine.memory_id)


def test_another_organisation_is_not_looked_at(memories: Memories) -> None:
    memories.store(Draft("User lives in Oslo", "cursor", org_id="acme"))
    memories.store(Draft("User lives in Oslo", "claude", org_id="acme"))
    assert memories.remember(Draft("User lives in Lisbon", "claude")).decision == "add"


# -- forgetting -----------------------------------------------------------------------------------


def test_a_forgotten_memory_is_gone_and_comes_back(memories: Memories) -> None:
    stored = memories.store(Draft("tea at five"))
    memories.delete(stored.memory_id)
    assert contents(memories, "tea") == []
    with pytest.raises(ml.errors.NotFound, match="deleted"):
        memories.get(stored.memory_id)
    memories.restore(stored.memory_id)
    assert contents(memories, "tea") == ["tea at five"]


def test_an_earlier_value_is_restored_by_revision_or_object(memories: Memories) -> None:
    stored = memories.store(Draft("version one"))
    memories.update(stored.memory_id, Draft("version two"), changed=["content"])
    assert memories.restore(stored.memory_id).content == "version one"
    assert memories.restore(stored.memory_id, memories.history(stored.memory_id)[1].oid).content == "version two"
    assert memories.restore(stored.memory_id, "HEAD~3").content == "version one"
    with pytest.raises(ml.errors.Nothing):
        memories.restore(stored.memory_id, "HEAD")


def test_a_purged_memory_is_in_no_byte_of_the_repo(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        stored = memories.store(Draft("the password is xyzzyplugh"))
        memories.update(stored.memory_id, Draft("the password was xyzzyplugh until May"), changed=["content"])
        memories.store(Draft("something else stays"))
        assert memories.wait(20)
        memories.purge(stored.memory_id, reason="asked for")
        assert contents(memories, "xyzzyplugh", mode="keyword") == []
        assert contents(memories, "stays", mode="keyword") == ["something else stays"]
        assert repo.upkeep.fsck(full=True).ok
    left = [f for f in (tmp_path / "repo").rglob("*") if f.is_file() and b"xyzzyplugh" in f.read_bytes()]
    assert left == []


def test_a_memory_is_purged_before_the_first_vector_is_made(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        memories.shared.worker.close()
        stored = memories.store(Draft("the password is xyzzyplugh"))
        assert contents(memories, "password") == ["the password is xyzzyplugh"]
        memories.purge(stored.memory_id, reason="asked for")
        assert contents(memories, "password") == []


@pytest.mark.parametrize(("mode", "notes"), [("semantic", 1), ("hybrid", 0), ("keyword", 0)])
def test_a_search_by_meaning_without_a_model_says_that_it_was_by_words(
    memories: Memories, mode: str, notes: int
) -> None:
    memories.store(Draft("tea is hot"))
    found = memories.search(Query("tea", mode=mode))
    assert found.mode == "keyword" and len(found) == 1 and len(found.notes) == notes
    assert all("embedding.provider is none" in note for note in found.notes)


def test_a_search_by_meaning_before_the_first_vector_is_by_words(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        memories.shared.worker.close()
        memories.store(Draft("tea is hot"))
        found = memories.search(Query("tea", mode="semantic"))
        assert [hit["content"] for hit in found] == ["tea is hot"] and found.mode == "keyword"
        assert found.notes == ("Searched by words only: no memory has its vector yet.",)


def test_an_emoji_finds_what_has_it(memories: Memories) -> None:
    memories.store_many([Draft("release day \U0001f389"), Draft("sad day \U0001f622"), Draft("a day")])
    assert contents(memories, "\U0001f389") == ["release day \U0001f389"]


# -- branches and the past ------------------------------------------------------------------------


@pytest.mark.parametrize("merged_by", ["fast-forward", "merge"])
def test_what_a_branch_changes_after_it_was_merged_is_shown_once(
    repo: ml.Repo, memories: Memories, merged_by: str
) -> None:
    memories.store(Draft("oak"))
    memories.create_branch("trial")
    trial = repo.memories("trial")
    stored = trial.store(Draft("elm"))
    assert [memory.content for memory in trial.list_memories(Query())] == ["elm", "oak"]
    if merged_by == "merge":
        memories.store(Draft("ash"))
    memories.merge_branch("trial", "branch_wins")
    memories.list_memories(Query())  # the trunk has a row of its own for it now
    trial.update(stored.memory_id, Draft("willow"), changed=["content"])
    assert sorted(memory.content for memory in trial.list_memories(Query())) == ["oak", "willow"]
    trial.update(stored.memory_id, Draft("elm"), changed=["content"])
    assert sorted(memory.content for memory in trial.list_memories(Query())) == ["elm", "oak"]


def test_a_branch_of_memory_is_its_own_until_it_is_merged(memories: Memories) -> None:
    memories.store(Draft("tea on main"))
    memories.create_branch("draft")
    draft = memories.on("draft")
    draft.store(Draft("tea on draft"))
    memories.store(Draft("tea after the fork"))
    assert set(contents(draft, "tea")) == {"tea on main", "tea on draft"}
    assert contents(draft, "tea", sees="branch-only") == ["tea on draft"]
    assert set(contents(draft, "tea", sees="main")) == {"tea on main", "tea after the fork"}
    merged = memories.merge_branch("draft")
    assert (merged.changed, merged.met) == (1, ())
    assert set(contents(memories, "tea")) == {"tea on main", "tea on draft", "tea after the fork"}
    assert memories.merge_branch("draft").changed == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "rule"),
    [
        ("Font size is 12", "Font size is 14", "attribute-value"),
        ("The backup runs nightly", "Backups run nightly", "same-meaning"),
        ("Font size is 12", "Kim sings alto", None),
    ],
)
def test_what_a_merge_brings_against_what_is_here_is_kept_as_a_contradiction(
    memories: Memories, ours: str, theirs: str, rule: str | None
) -> None:
    memories.store(Draft("a start"))
    memories.create_branch("draft")
    memories.on("draft").remember(Draft(theirs))
    memories.remember(Draft(ours))
    memories.merge_branch("draft")
    assert {memory.content for memory in memories.list_memories(Query())} == {"a start", ours, theirs}
    told = [
        (contradiction.new.content, contradiction.old.content, contradiction.rule)
        for contradiction in memories.conflicts()
    ]
    assert told == ([(theirs, ours, rule)] if rule else [])


def test_a_merge_of_files_and_memories_notes_contradictions_too_and_undo_takes_all_of_it_back(repo: ml.Repo) -> None:
    memories = repo.memories()
    memories.store(Draft("a start"))
    memories.create_branch("draft")
    memories.on("draft").remember(Draft("Font size is 12"))
    memories.remember(Draft("Font size is 14"))
    repo.merge("draft")
    told = [(contradiction.new.content, contradiction.old.content) for contradiction in repo.memories().conflicts()]
    assert told == [("Font size is 12", "Font size is 14")]
    repo.undo()
    assert {memory.content for memory in repo.memories().list_memories(Query())} == {"a start", "Font size is 14"}
    assert repo.memories().conflicts() == []


@pytest.mark.parametrize(("strategy", "left"), [("branch_wins", "tea: green"), ("main_wins", "tea: black")])
def test_a_memory_changed_on_both_sides_goes_to_whom_the_strategy_says(
    memories: Memories, strategy: str, left: str
) -> None:
    stored = memories.store(Draft("tea: any"))
    memories.create_branch("draft")
    memories.on("draft").update(stored.memory_id, Draft("tea: green"), changed=["content"])
    memories.update(stored.memory_id, Draft("tea: black"), changed=["content"])
    with pytest.raises(ml.errors.Conflict, match="both sides") as stopped:
        memories.merge_branch("draft", "ask")
    assert "ours 'tea: black'; theirs 'tea: green'" in stopped.value.message
    assert memories.merge_branch("draft", strategy).met == (stored.memory_id,)
    assert contents(memories, "tea") == [left]
    past = memories.fields(memories.get(stored.memory_id))["metadata"]["history"]
    assert [one["value"] for one in past] == ["tea: any", ({"tea: green", "tea: black"} - {left}).pop()]


def test_a_branch_whose_time_is_over_is_discarded(memories: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    memories.create_branch("brief", ttl_seconds=3600, description="a try")
    assert [branch.name for branch in memories.branches()] == ["brief", "main"]
    later = layout.now() + 3_600_000_000
    monkeypatch.setattr("memlake.memories.branches.layout.now", lambda: later)
    assert [branch.name for branch in memories.branches()] == ["main"]
    with pytest.raises(ml.errors.InvalidInput, match="in use"):
        memories.discard_branch("main")


@pytest.mark.parametrize("listed_before", [False, True])
def test_a_branch_whose_time_is_over_says_so_to_whoever_uses_it(
    memories: Memories, monkeypatch: pytest.MonkeyPatch, listed_before: bool
) -> None:
    memories.create_branch("brief", ttl_seconds=60)
    draft = memories.on("brief")
    stored = draft.store(Draft("tea is tried"))
    later = layout.now() + 61_000_000
    monkeypatch.setattr("memlake.memories.branch_expiry.layout.now", lambda: later)
    if listed_before:
        memories.branches()
    uses: list[Callable[[], object]] = [
        lambda: memories.on("brief"),
        lambda: memories.merge_branch("brief"),
        lambda: draft.store(Draft("tea again")),
        lambda: draft.search(Query("tea")),
        lambda: draft.get(stored.memory_id),
        lambda: draft.delete(stored.memory_id),
        lambda: draft.list_memories(Query()),
        draft.conflicts,
        draft.list_decided,
        lambda: draft.set_state("bot", "key", 1),
    ]
    for use in uses:
        with pytest.raises(
            ml.errors.NotFound, match=r"branch 'brief' expired at 20\d\d-\S+Z; nothing was read or written"
        ):
            use()
    with pytest.raises(ml.errors.NotFound, match="there is no branch 'never'"):
        memories.on("never")


def test_what_an_expired_branch_held_can_be_brought_back(
    repo: ml.Repo, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories.create_branch("brief", ttl_seconds=60)
    memories.on("brief").store(Draft("tea is tried"))
    later = layout.now() + 61_000_000
    monkeypatch.setattr("memlake.memories.branch_expiry.layout.now", lambda: later)
    with pytest.raises(ml.errors.NotFound) as caught:
        repo.memories("brief")
    found = re.search(r"memlake branch brief ([0-9a-f]+)", str(caught.value))
    assert found
    repo.branches.create("brief", found[1])
    assert contents(repo.memories("brief"), "tea") == ["tea is tried"]


def test_the_branch_that_is_checked_out_does_not_end(
    repo: ml.Repo, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories.create_branch("brief", ttl_seconds=60)
    repo.switch("brief")
    later = layout.now() + 61_000_000
    monkeypatch.setattr("memlake.memories.branch_expiry.layout.now", lambda: later)
    repo.memories().store(Draft("tea"))
    assert "brief" in [branch.name for branch in memories.branches()]


def test_a_switch_elsewhere_does_not_redirect_memories(repo: ml.Repo, memories: Memories) -> None:
    repo.switch("other", create=True)
    memories.store(Draft("tea on main"))
    assert contents(repo.memories("main"), "tea") == ["tea on main"]
    assert contents(repo.memories(), "tea") == []


def test_the_past_is_searched_by_revision_and_by_time(memories: Memories) -> None:
    first = memories.store(Draft("tea one"))
    memories.store(Draft("tea two"))
    memories.delete(first.memory_id)
    assert contents(memories, "tea") == ["tea two"]
    assert set(contents(memories, "tea", as_of="HEAD~1")) == {"tea one", "tea two"}
    assert contents(memories, "tea", as_of="HEAD~2") == ["tea one"]
    assert contents(memories, "tea", as_of="now") == ["tea two"]


def test_differences_between_two_moments(memories: Memories) -> None:
    first = memories.store(Draft("one"))
    second = memories.store(Draft("two"))
    memories.update(first.memory_id, Draft("one again"), changed=["content"])
    memories.delete(second.memory_id)
    told = {change.memory_id: (change.status, change.old, change.new) for change in memories.diff("HEAD~2")}
    assert told == {first.memory_id: ("M", "one", "one again"), second.memory_id: ("D", "two", None)}


def test_a_memory_lane_that_was_moved_back_is_followed(repo: ml.Repo, memories: Memories) -> None:
    memories.store(Draft("tea one"))
    memories.store(Draft("tea two"))
    assert len(contents(memories, "tea")) == 2
    history = memories.context.here.history
    with history.db.write():
        head = memories.context.head()
        assert head is not None
        refs.move(history, "main", "memory", head, history.get(head.parents[0]), action="reset", who="me")
    assert contents(memories, "tea") == ["tea one"]
    memories.store(Draft("tea three"))
    assert set(contents(memories, "tea")) == {"tea one", "tea three"}
    assert contents(memories, "tea", as_of="HEAD~1") == ["tea one"]


def test_staged_files_are_untouched_by_memories(repo: ml.Repo, memories: Memories) -> None:
    (repo.root / "notes").write_text("draft")
    repo.add("notes")
    memories.store(Draft("tea"))
    assert [change.path for change in repo.status().staged] == ["files/notes"]
    repo.commit("notes")
    assert contents(memories, "tea") == ["tea"]


# -- state ----------------------------------------------------------------------------------------


def test_state_belongs_to_an_agent_and_is_versioned(repo: ml.Repo, memories: Memories) -> None:
    memories.set_state("a", "phase", "one")
    memories.set_state("b", "phase", {"n": [1, None]})
    memories.set_state("a", "phase", "two")
    assert memories.find_state("a", "phase").value == "two"  # type: ignore[union-attr]
    assert memories.find_state("b", "phase").value == {"n": [1, None]}  # type: ignore[union-attr]
    assert memories.find_state("c", "phase") is None
    assert {(s.agent_id, s.key) for s in memories.states()} == {("a", "phase"), ("b", "phase")}
    assert memories.remove_state("a", "phase")
    assert not memories.remove_state("a", "phase")
    assert len(list(repo.log(lane="memory"))) == 4


@pytest.mark.parametrize(("key", "value"), [("", 1), ("k", object()), ("k", float("nan")), (5, 1), ("x" * 600, 1)])
def test_wrong_state_is_refused(memories: Memories, key: str, value: object) -> None:
    with pytest.raises(ml.errors.InvalidInput):
        memories.set_state("a", key, value)


# -- vectors, counters, the index ----------------------------------------------------------------


def test_vectors_follow_behind_and_has_embedding_tells_the_truth(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        stored = memories.store(Draft("customers prefer email"))
        assert memories.wait(20)
        assert memories.has_vector(stored.memory_id)
        hits = memories.search(Query("customer mail preference"))
        assert hits.mode == "hybrid"
        assert hits[0]["why"]["vectors"] > 0
        assert memories.search(Query("customer", mode="keyword")).mode == "keyword"
        assert memories.search(Query("customer", mode="semantic")).mode == "semantic"


def test_a_repo_is_closed_without_waiting_for_an_embedder_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on, came_back = threading.Event(), threading.Event(), threading.Event()
    others = set(threading.enumerate())  # of tests before this one

    def embed(_self: object, texts: Sequence[str]) -> Any:
        hangs.set()
        goes_on.wait(200)
        came_back.set()
        return np.ones((len(texts), 64), np.float32)

    monkeypatch.setattr("memlake.memories.embedders.providers.Hashed.embed", embed)
    repo = opened(tmp_path / "repo", "test")
    repo.memories().store(Draft("Lena mends clocks"))
    assert hangs.wait(200)
    repo.close()
    assert not came_back.is_set()
    goes_on.set()
    for thread in threading.enumerate():  # what it comes back to is closed, and it ends
        if thread.name == "memlake-embed" and thread not in others:
            thread.join(200)
            assert not thread.is_alive()


def test_the_queue_survives_the_process(tmp_path: Path) -> None:
    with opened(tmp_path / "repo") as repo:
        stored = repo.memories().store(Draft("embed me later"))
        assert not repo.memories().has_vector(stored.memory_id)
        repo.config.set("embedding.provider", "test")
    with ml.open(tmp_path / "repo") as repo:
        memories = repo.memories()
        assert memories.wait(20)
        assert memories.has_vector(stored.memory_id)


def test_reading_is_counted_and_never_a_commit(repo: ml.Repo, memories: Memories) -> None:
    stored = memories.store(Draft("tea"))
    before = len(list(repo.log(lane="memory")))
    for _ in range(3):
        memories.search(Query("tea"))
    fields = memories.fields(memories.get(stored.memory_id))
    assert fields["access_count"] == 3
    assert fields["last_accessed"]
    assert len(list(repo.log(lane="memory"))) == before


def test_counts_are_written_down_when_the_repo_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path / "repo") as repo:
        stored = repo.memories().store(Draft("tea"))
        repo.memories().search(Query("tea"))
    with ml.open(tmp_path / "repo") as repo:
        assert repo.memories().fields(repo.memories().get(stored.memory_id))["access_count"] == 1


def test_stale_memories_are_the_old_unimportant_unread_ones(memories: Memories) -> None:
    old = memories.store(Draft("old tea", created_at="2001-01-01", importance=0.2))
    memories.store(Draft("old but important tea", created_at="2001-01-01", importance=0.9))
    memories.store(Draft("new tea", importance=0.2))
    assert [age.memory.memory_id for age in memories.stale(Rule())] == [old.memory_id]
    assert [age.memory.content for age in memories.evict(Rule(), dry_run=True)] == ["old tea"]
    memories.evict(Rule())
    assert len(contents(memories, "tea")) == 2
    memories.restore(old.memory_id)
    assert len(contents(memories, "tea")) == 3
    assert memories.stale(Rule()) == []  # it was read just now


@pytest.mark.parametrize("harm", ["delete", "garbage", "cut", "current"])
def test_a_lost_or_damaged_index_is_made_again(tmp_path: Path, harm: str) -> None:
    with opened(tmp_path / "repo") as repo:
        for number in range(30):
            repo.memories().store(Draft(f"tea number {number}"))
        repo.memories().shared.index.fold()
    folder = tmp_path / "repo" / ".memlake" / "index"
    database = next(folder.glob("*/index.db"))
    if harm == "delete":
        subprocess.run(["rm", "-r", str(folder)], check=True)
    elif harm == "garbage":
        database.write_bytes(b"not a database, but long enough to be read as one" * 100)
    elif harm == "cut":
        segment = next(folder.glob("*/*.seg"))
        segment.write_bytes(segment.read_bytes()[:-100])
    else:
        (folder / "CURRENT").unlink()
    with ml.open(tmp_path / "repo") as repo:
        assert len(repo.memories().search(Query("tea", limit=50))) == 30


def test_two_processes_see_each_other(tmp_path: Path) -> None:
    script = (
        "import sys, memlake as ml\nfrom memlake.memories.memories import Draft\n"
        "repo = ml.open(sys.argv[1])\nrepo.memories().store(Draft('tea from elsewhere'))\nrepo.close()"
    )
    with opened(tmp_path / "repo") as repo:
        memories = repo.memories()
        memories.store(Draft("tea here"))
        subprocess.run([sys.executable, "-c", script, str(tmp_path / "repo")], check=True)
        assert set(contents(memories, "tea")) == {"tea here", "tea from elsewhere"}


def test_memories_can_be_switched_off(tmp_path: Path) -> None:
    with opened(tmp_path / "repo") as repo:
        repo.config.set("memory.enabled", "false")
    with ml.open(tmp_path / "repo") as repo, pytest.raises(ml.errors.Denied, match="switched off"):
        repo.memories().store(Draft("tea"))


def test_secrets_and_vague_contents_are_warned_of(memories: Memories) -> None:
    told = memories.store(Draft("the key is ghp_" + "a1B2" * 9)).warnings
    assert len(told) == 1
    assert "ghp_" not in told[0]
    assert memories.remember(Draft("Project convention")).warnings
    assert memories.remember(Draft("User prefers tabs over spaces in Go code")).warnings == ()


@pytest.mark.parametrize(("how", "kept"), [("redact", True), ("block", False)])
def test_secrets_are_left_out_or_refused_where_asked(tmp_path: Path, how: str, kept: bool) -> None:
    with opened(tmp_path / "repo") as repo:
        repo.config.set("memory.secrets", how)
    with ml.open(tmp_path / "repo") as repo:
        memories, draft = repo.memories(), Draft("the key is ghp_" + "a1B2" * 9)
        if kept:
            assert "ghp_" not in memories.get(memories.store(draft).memory_id).content
        else:
            with pytest.raises(ml.errors.Denied):
                memories.store(draft)


def test_a_time_finds_the_last_commit_before_it(memories: Memories) -> None:
    times = []
    for number in range(9):
        memories.store(Draft(f"tea {number}"))
        times.append(memories.context.head().time)  # type: ignore[union-attr]
        time.sleep(0.002)
    memories.search(Query("tea"))
    ground = memories.context
    for number, when in enumerate(times):
        found = index_sync.find_commit_before(ground.here.history, ground.index, ground.head(), when)
        assert found is not None
        assert found.generation == number + 1
    assert index_sync.find_commit_before(ground.here.history, ground.index, ground.head(), times[0] - 1) is None


def test_what_is_stored_after_the_newest_was_purged_is_found(tmp_path: Path) -> None:
    """Its row may not take the number of the purged one: what readers hold of that would hide it."""
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        stored = [memories.store(Draft(word)) for word in ("alpha", "beta")]
        assert memories.wait(20) and contents(memories, "beta", mode="keyword") == ["beta"]
        memories.purge(stored[1].memory_id, reason="asked for")
        new = memories.store(Draft("gamma"))
        assert contents(memories, "gamma", mode="keyword") == ["gamma"]
        assert memories.wait(20) and memories.has_vector(new.memory_id)


def test_what_was_just_stored_and_has_no_vector_yet_does_not_come_last(tmp_path: Path) -> None:
    with opened(tmp_path / "repo", "test") as repo:
        memories = repo.memories()
        memories.store_many([Draft(f"delta fox number {n}") for n in range(30)])
        assert memories.wait(20)
        memories.shared.worker.close()
        stored = memories.store(Draft("delta fox zebra"))
        hits = memories.search(Query("delta fox zebra", limit=3))
        assert (hits.mode, hits[0]["memory_id"]) == ("hybrid", stored.memory_id)
        assert "vectors" not in hits[0]["why"]


def test_other_records_below_memories_disturb_no_search(repo: ml.Repo, memories: Memories) -> None:
    repo.write({"memories/bot/0001": b"a thought"}, "remember")
    repo.write({f"memories/bot/{uuid.uuid4()}": b'{"fact": 1}'}, "remember")
    stored = memories.store(Draft("tea"))
    repo.write({"memories/bot/0001": None}, "forget")
    assert [hit["memory_id"] for hit in memories.search(Query("tea"))] == [stored.memory_id]
    assert len(memories.search(Query(""))) == 1


def test_restore_goes_back_to_the_last_value_that_said_something_else(memories: Memories) -> None:
    first = memories.remember(Draft("The API runs on port 8080"))
    memories.remember(Draft("The API now runs on port 9090"))
    memories.update(first.memory_id, Draft("x", tags=["net"]), changed=["tags"])
    assert memories.restore(first.memory_id).content == "The API runs on port 8080"


@pytest.mark.parametrize("text", [None, 5, b"x", ["a"]])
def test_a_query_that_is_no_text_is_refused(memories: Memories, text: object) -> None:
    with pytest.raises(ml.errors.InvalidInput, match="a query is text"):
        memories.search(Query(text))  # type: ignore[arg-type]


@pytest.mark.parametrize("discarded", [False, True], ids=["a branch", "a branch that is gone"])
def test_what_only_a_branch_had_for_a_while_comes_back_also_when_the_index_was_made_again(
    tmp_path: Path, discarded: bool
) -> None:
    with opened(tmp_path / "repo", "none") as repo:
        repo.memories("main").create_branch("one")
        branch = repo.memories("one")
        stored = branch.store(Draft("tea for a while")).memory_id
        at = branch.context.head().oid  # type: ignore[union-attr]
        branch.delete(stored)
        if discarded:
            repo.memories("main").discard_branch("one")
    shutil.rmtree(tmp_path / "repo/.memlake/index")
    with ml.open(tmp_path / "repo") as repo:
        there = repo.memories("main" if discarded else "one")
        assert [version.content for version in there.history(stored)] == ["tea for a while"]
        there.restore(stored, at=at)
        assert there.get(stored).content == "tea for a while"


@pytest.mark.parametrize("rule", [{"days": float("nan")}, {"days": True}, {"max_importance": float("nan")}])
def test_a_rule_that_no_memory_can_fit_is_refused(memories: Memories, rule: dict[str, Any]) -> None:
    with pytest.raises(ml.errors.InvalidInput, match=r"is a number from 0 to .* Nothing was changed"):
        memories.evict(Rule(**rule))
