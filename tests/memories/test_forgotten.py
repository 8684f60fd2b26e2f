"""What was forgotten and agents' state, as they travel from one repo to another."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import InvalidInput
from memlake.integrations.read_memories import read_memories
from memlake.memories.forgotten import list_beside, list_forgotten
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.memories.transfer import Report, list_items, load_items, write_beside, write_items
from tests.memories.exchange import ONE, opened


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Memories]:
    with opened(tmp_path / "repo") as made:
        yield made.memories()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Memories]:
    with opened(tmp_path / "other") as made:
        yield made.memories()


def export(memories: Memories) -> bytes:
    stream = io.BytesIO()
    write_items(list_items(memories), stream)
    write_beside(list_beside(memories.context, None, states=True), stream)
    return stream.getvalue()


def bring(data: bytes, memories: Memories, *, dry_run: bool = False) -> Report:
    return load_items(memories, read_memories(io.BytesIO(data)), dry_run=dry_run)


def contents(memories: Memories) -> set[str]:
    return {one.content for one in memories.list_memories(Query())}


def store(memories: Memories, *texts: str) -> list[str]:
    return [done.memory_id for done in memories.store_many([Draft(text, "bot") for text in texts])]


def test_what_was_forgotten_is_forgotten_there_and_its_text_does_not_travel(here: Memories, there: Memories) -> None:
    (tea, _) = store(here, "Tea is at four", "Money is stored in cents")
    bring(export(here), there)
    here.delete(tea)
    data = export(here)
    assert b"Tea" not in data
    assert bring(data, there, dry_run=True).forgotten == 1
    assert len(contents(there)) == 2
    assert bring(data, there) == Report(0, 1, forgotten=1)
    assert contents(there) == {"Money is stored in cents"}
    assert bring(data, there) == Report(0, 1)


def test_what_changed_there_since_is_not_forgotten(here: Memories, there: Memories) -> None:
    (tea,) = store(here, "Tea is at four")
    bring(export(here), there)
    there.update(tea, Draft("Tea is at five"), changed=["content"])
    here.delete(tea)
    assert bring(export(here), there).forgotten == 0
    assert contents(there) == {"Tea is at five"}


def test_what_was_forgotten_here_is_not_brought_back_unless_it_says_something_newer(
    here: Memories, there: Memories
) -> None:
    (tea,) = store(here, "Tea is at four")
    old = export(here)
    bring(old, there)
    here.delete(tea)
    assert bring(old, here) == Report(kept_out=1)
    there.update(tea, Draft("Tea is at five"), changed=["content"])
    assert bring(export(there), here).stored == 1
    assert contents(here) == {"Tea is at five"}


def test_what_was_restored_is_no_longer_forgotten(here: Memories) -> None:
    (tea,) = store(here, "Tea is at four")
    here.delete(tea)
    assert [one.memory_id for one in list_forgotten(here.context)] == [tea]
    here.restore(tea)
    assert list_forgotten(here.context) == []


def test_what_was_purged_travels_as_an_id_and_stays_out(here: Memories, there: Memories) -> None:
    (tea,) = store(here, "Tea is at four")
    old = export(here)
    bring(old, there)
    here.purge(tea, "asked")
    assert bring(old, here).kept_out == 1
    assert bring(export(here), there).forgotten == 1


def test_state_travels_and_the_newer_value_stands(here: Memories, there: Memories) -> None:
    here.set_state("bot", "mode", {"deep": [1, None]})
    here.set_state("bot", "old", 1)
    first = export(here)
    assert bring(first, there).states == 2
    assert sorted(there.states()) == sorted(here.states())
    there.set_state("bot", "mode", "theirs")
    here.remove_state("bot", "old")
    second = export(here)
    assert bring(second, there).states == 1
    assert {state.key: state.value for state in there.states()} == {"mode": "theirs"}
    assert bring(export(there), here).states == 1
    found = here.find_state("bot", "mode")
    assert found is not None and found.value == "theirs"
    assert bring(first, here).states == 0, "what was removed here does not come back"


def test_state_of_organisations_stays_apart(here: Memories, there: Memories) -> None:
    here.as_agent("", "acme").set_state("bot", "mode", "a")
    here.as_agent("", "local").set_state("bot", "mode", "b")
    bring(export(here), there)
    assert {one.org_id: one.value for one in there.states()} == {"acme": "a", "local": "b"}


def test_secrets_in_state_are_treated_as_set(tmp_path: Path, here: Memories) -> None:
    here.set_state("bot", "login", "password: Blue7Whale!x")
    with opened(tmp_path / "careful") as repo:
        repo.config.set("memory.secrets", "redact")
    with ml.open(tmp_path / "careful") as repo:
        bring(export(here), repo.memories())
        assert [one.value for one in repo.memories().states()] == ["password: [redacted: password]"]


@pytest.mark.parametrize(
    "line",
    [
        {"forgotten": "no id"},
        {"forgotten": 3},
        {"state": "", "value": 1},
        {"state": "mode", "value": 1, "updated_at": "yesterday"},
        {"state": "mode", "value": 1, "agent_id": "*" * 600},
        {"state": "mode", "forgotten": ONE, "more": 1},
    ],
)
def test_a_line_that_says_nothing_sensible_is_refused(here: Memories, line: dict[str, object]) -> None:
    data = json.dumps({"content": "x", "memory_type": "fact"}).encode() + b"\n" + json.dumps(line).encode()
    with pytest.raises(InvalidInput):
        bring(data, here)


def test_who_wrote_each_value_and_when_travels_and_later_values_are_ours(here: Memories, there: Memories) -> None:
    tea = here.as_agent("Ada").store(Draft("Tea is at four")).memory_id
    here.as_agent("Bob").update(tea, Draft("Tea is at five"), changed=["content"])
    bring(export(here), there.as_agent("Cid"))
    was = [(one.content, one.author) for one in here.history(tea)]
    assert was == [("Tea is at four", "Ada"), ("Tea is at five", "Bob")]
    past, present = there.history(tea)
    assert [(one.content, one.author) for one in (past, present)] == was
    assert past.time == here.get(tea).created_at and past.ended == "replaced"
    assert {origin.author for origin in there.blame(tea) if origin.field == "content"} == {"Bob"}
    assert export(there) == export(here), "and they travel on"
    there.as_agent("Cid").update(tea, Draft("Tea is at six"), changed=["content"])
    assert [one.author for one in there.history(tea)] == ["Ada", "Bob", "Cid"]


def test_an_agent_is_the_author_of_what_it_stored_without_being_named_twice(here: Memories) -> None:
    here.as_agent("bot").store(Draft("Tea is at four", "bot"))
    assert b'"author"' not in export(here)
