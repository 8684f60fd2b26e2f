"""An id that is known with another text: the text that follows from the other wins, else both are kept."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.integrations.fields import build_item
from memlake.integrations.read_memories import read_memories
from memlake.memories import import_records
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.memories.transfer import Report, list_items, load_items, write_items
from memlake.objects.db import Database

from .conftest import opened

ONE = "7d3f0e4c-93a5-4c93-9f7a-2f1f0c4d5e6f"


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Memories]:
    with opened(tmp_path / "bob") as repo:
        yield repo.memories()


def sent(memories: Memories) -> str:
    stream = io.StringIO()
    write_items(list_items(memories), stream)
    return stream.getvalue()


def load(memories: Memories, *given: str | dict[str, Any]) -> Report:
    text = "".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in given)
    return load_items(memories, read_memories(io.StringIO(text)))


def contents(memories: Memories) -> list[str]:
    return sorted(hit["content"] for hit in memories.search(Query("")))


def change(memories: Memories, memory_id: str, content: str) -> None:
    memories.update(memory_id, Draft(content), changed=["content"])


def test_a_text_that_was_changed_only_there_is_taken_over_with_its_history(memories: Memories, bob: Memories) -> None:
    known = memories.store(Draft("Deploy target is fly.io")).memory_id
    load(bob, sent(memories))
    change(bob, known, "Deploy target is Render")
    change(bob, known, "Deploy target is Hetzner")
    assert load(memories, sent(bob)) == Report(updated=1)
    assert memories.get(known).content == "Deploy target is Hetzner"
    said = [past["value"] for past in memories.fields(memories.get(known))["metadata"]["history"]]
    assert said == ["Deploy target is fly.io", "Deploy target is Render"]
    assert load(memories, sent(bob)) == Report(known=1)


def test_a_text_that_was_changed_only_here_stays(memories: Memories, bob: Memories) -> None:
    known = memories.store(Draft("Deploy target is fly.io")).memory_id
    load(bob, sent(memories))
    change(memories, known, "Deploy target is Hetzner")
    assert load(memories, sent(bob)) == Report(known=1)
    assert contents(memories) == ["Deploy target is Hetzner"]


@pytest.mark.parametrize(
    ("keep", "left"), [("new", ["Deploy target is Hetzner"]), ("old", ["Deploy target is Render"]), ("both", None)]
)
def test_a_text_that_was_changed_on_both_sides_is_a_contradiction_until_somebody_settles_it(
    memories: Memories, bob: Memories, keep: str, left: list[str] | None
) -> None:
    known = memories.store(Draft("Deploy target is fly.io")).memory_id
    load(bob, sent(memories))
    change(memories, known, "Deploy target is Render")
    change(bob, known, "Deploy target is Hetzner")
    assert load(memories, sent(bob)) == Report(conflicts=1)
    (contradiction,) = memories.conflicts()
    assert (
        contradiction.new
        and contradiction.old
        and (contradiction.new.content, contradiction.old.memory_id) == ("Deploy target is Hetzner", known)
    )
    assert load(memories, sent(bob)) == Report(known=1) and len(memories.conflicts()) == 1
    memories.resolve(contradiction.new.memory_id, keep)
    both = ["Deploy target is Hetzner", "Deploy target is Render"]
    assert contents(memories) == (both if left is None else left)
    assert load(memories, sent(bob)) == Report(known=1) and memories.conflicts() == []


def test_without_a_history_the_newer_text_wins_over_one_that_never_changed_here(memories: Memories) -> None:
    first = {"id": ONE, "content": "Likes tea", "updated_at": "2026-01-01T00:00:00Z"}
    newer = {"id": ONE, "content": "Likes coffee", "updated_at": "2026-02-01T00:00:00Z"}
    assert load(memories, first) == Report(stored=1)
    assert load(memories, newer) == Report(updated=1) and contents(memories) == ["Likes coffee"]
    assert load(memories, first) == Report(known=1) and contents(memories) == ["Likes coffee"]
    change(memories, ONE, "Likes water")
    assert load(memories, {**newer, "content": "Likes milk", "updated_at": "2099-01-01T00:00:00Z"}).conflicts == 1
    assert contents(memories) == ["Likes milk", "Likes water"]


def test_one_id_with_two_texts_in_one_file_keeps_both(memories: Memories) -> None:
    when = "2026-01-01T00:00:00Z"
    given = [{"id": ONE, "content": text, "updated_at": when} for text in ("Likes tea", "Likes coffee", "Likes tea")]
    assert load(memories, *given) == Report(stored=1, conflicts=1, known=1)
    assert contents(memories) == ["Likes coffee", "Likes tea"] and len(memories.conflicts()) == 1


def test_another_agents_memory_of_the_same_id_is_not_moved(memories: Memories) -> None:
    load(memories, {"id": ONE, "content": "Likes tea", "agent": "a", "updated_at": "2026-01-01T00:00:00Z"})
    report = load(memories, {"id": ONE, "content": "Likes coffee", "agent": "b", "updated_at": "2026-02-01T00:00:00Z"})
    assert report == Report(updated=1)
    assert (memories.get(ONE).agent_id, contents(memories)) == ("a", ["Likes coffee"])


def test_users_of_mem0_are_told_kept_apart_and_looked_for(repo: ml.Repo, memories: Memories) -> None:
    said = [("bob", "Prefers tea over coffee"), ("alex", "Prefers coffee over tea")]
    text = json.dumps({"results": [{"memory": content, "user_id": user} for user, content in said]})
    assert load(memories, text).users == ("alex", "bob")
    hits = memories.search(Query("what to drink, tea or coffee", user_id="alex"))
    assert [hit["content"] for hit in hits] == ["Prefers coffee over tea"]
    new = memories.remember(Draft("Prefers water over tea", user_id="alex"), dry_run=True)
    assert new.other_id is None or memories.get(new.other_id).user_id == "alex"
    same = memories.remember(Draft("Prefers tea over coffee", user_id="carol"))
    nobodys = memories.remember(Draft("Prefers tea over coffee"))
    assert (same.decision, nobodys.decision) == ("add", "add")
    assert [one.user_id for one in memories.list_memories(Query())][:2] == ["", "carol"]


def test_two_users_of_mem0_who_say_the_same_are_two_memories(memories: Memories) -> None:
    said = [{"memory": "Prefers tea", "user_id": user} for user in ("bob", "alex", "bob")]
    assert load(memories, json.dumps({"results": said})) == Report(stored=2, known=1, users=("alex", "bob"))


def test_the_same_file_again_does_not_take_back_what_was_decided_here_since(memories: Memories) -> None:
    past = {"content": "The port is 9090", "until": "2026-01-02T00:00:00Z"}
    given = {"id": ONE, "content": "The port is 8080", "updated_at": "2026-01-02T00:00:00Z", "history": [past]}
    assert load(memories, given) == Report(stored=1)
    change(memories, ONE, "The port is 9090")
    assert load(memories, given) == Report(known=1)
    assert contents(memories) == ["The port is 9090"]


def test_a_text_that_was_taken_back_only_there_is_taken_over(memories: Memories, bob: Memories) -> None:
    known = memories.store(Draft("The port is 9090")).memory_id
    change(memories, known, "The port is 8080")
    load(bob, sent(memories))
    change(bob, known, "The port is 9090")
    assert load(memories, sent(bob)) == Report(updated=1)
    assert contents(memories) == ["The port is 9090"]
    assert load(memories, sent(bob)) == Report(known=1)


def test_two_imports_at_once_keep_both_texts_of_one_id(memories: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    tea, coffee = (
        {"id": ONE, "content": f"Likes {drink}", "updated_at": "2026-01-01T00:00:00Z"} for drink in ("tea", "coffee")
    )
    plan = import_records.plan

    def plan_and_wait(ground: Any, given: Any) -> import_records.Planned:
        """Another process imports the other text once this one has looked."""
        planned = plan(ground, given)
        monkeypatch.setattr(import_records, "plan", plan)
        load(memories, tea)
        return planned

    monkeypatch.setattr(import_records, "plan", plan_and_wait)
    assert load(memories, coffee) == Report(conflicts=1)
    assert contents(memories) == ["Likes coffee", "Likes tea"]


def test_what_names_no_organisation_is_imported_into_ours_with_its_history(repo: ml.Repo) -> None:
    repo.config.set("memory.org", "acme")
    repo.close()
    past = {"content": "The sky is blue", "until": "2026-01-02T00:00:00Z"}
    with ml.open(repo.root) as again:
        load(
            again.memories(), {"id": ONE, "content": "The sky is green", "history": [past]}, {"content": "Grass grows"}
        )
        assert contents(again.memories()) == ["Grass grows", "The sky is green"]
        assert {item.memory.org_id for item in list_items(again.memories())} == {"acme"}
        assert {one.memory.org_id for item in list_items(again.memories()) for one in item.past} == {"acme"}


def test_one_that_names_its_organisation_keeps_it(memories: Memories) -> None:
    load(memories, {"id": ONE, "content": "The sky is green", "org_id": "elsewhere"})
    assert build_item({"content": "Grass grows"}, "jsonl").memory.org_id == ""
    assert [item.memory.org_id for item in list_items(memories.as_agent("", "*"))] == ["elsewhere"]


def test_a_long_history_costs_no_transaction_for_each_value(
    memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, begin = list[Path](), Database._begin

    def count(db: Database) -> Any:
        begun.append(db.path)
        return begin(db)

    monkeypatch.setattr(Database, "_begin", count)

    def transactions(values: int) -> int:
        begun.clear()
        past = [{"content": f"It is {n}", "until": f"2026-01-{n + 1:02}T00:00:00Z"} for n in range(values)]
        load(memories, {"content": f"It is {values} now", "history": past})
        return len([path for path in begun if path.name == "repo.db"])

    assert transactions(20) == transactions(2)
