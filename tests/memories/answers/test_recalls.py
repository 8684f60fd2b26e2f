"""Records of what was told: noted by every door, read back word for word, bounded, and empty of what was purged."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from random import Random

import pytest

import memlake as ml
from memlake.memories.answers import why
from memlake.memories.answers.recalls import Candidate, Recall, Recalls, Teller
from memlake.memories.memories import Draft, Memories
from memlake.memories.search import Query
from memlake.objects import layout
from tests.memories.conftest import opened

WORDS = (
    "port", "server", "deploy", "stripe", "invoice", "lint", "branch", "review",
    "cache", "token", "budget", "queue", "worker", "parser", "index",
)  # fmt: skip
PYTHON = Teller("python")


def told(memories: Memories, text: str, teller: Teller = PYTHON, **how: object) -> list[str]:
    query = Query(text, **how)  # type: ignore[arg-type]
    hits = memories.search(query)
    memories.note_told(query, hits, teller)
    return [hit["content"] for hit in hits]


def test_what_was_told_is_read_back_word_for_word_whatever_became_of_it(memories: Memories) -> None:
    random, said = Random(7), list[list[str]]()
    ids = [memories.store(Draft(" ".join(random.sample(WORDS, 5)))).memory_id for _ in range(60)]
    for turn in range(200):
        said.append(told(memories, " ".join(random.sample(WORDS, 2)), limit=random.randint(1, 8)))
        if turn % 5 == 0:
            memories.update(random.choice(ids), Draft(" ".join(random.sample(WORDS, 6))), changed=["content"])
        if turn % 17 == 0 and len(ids) > 30:
            memories.delete(ids.pop(random.randrange(len(ids))))
    records = list(memories.shared.recalls.scan())
    assert len(records) == 200
    read = [[one.content for one in why.read_told(memories.context, record)] for record in reversed(records)]
    assert read == said


def test_a_record_says_who_asked_what_was_next_and_what_each_arm_gave(memories: Memories) -> None:
    for number in range(5):
        memories.store(Draft(f"Worker {number} reads from the queue"))
    told(memories, "which worker reads the queue", Teller("mcp", "s1", "codex"), limit=2)
    (record,) = memories.shared.recalls.scan()
    assert (record.surface, record.session, record.agent, record.branch) == ("mcp", "s1", "codex", "main")
    assert [one.gate for one in record.candidates] == ["told", "told", "rank", "rank", "rank"]
    assert all(one.arms["words"] > 0 for one in record.candidates)
    assert record.asked == {"limit": 2}
    assert record.head == memories.log()[0].oid


def test_what_is_below_the_least_score_is_in_the_record(memories: Memories) -> None:
    memories.store(Draft("The parser reads tokens one by one and keeps a budget of them for every branch"))
    told(memories, "parser zebra giraffe elephant", min_score=0.9)
    (record,) = memories.shared.recalls.scan()
    assert [one.gate for one in record.candidates] == ["floor"]


def test_a_session_knows_what_any_door_told_it_until_its_context_is_cut(repo: ml.Repo, memories: Memories) -> None:
    records = memories.shared.recalls
    first = memories.store(Draft("Deploys happen on Mondays")).memory_id
    second = memories.store(Draft("The queue is drained at night")).memory_id
    told(memories, "deploys", Teller("session-start", "s1"))
    told(memories, "queue", Teller("mcp", "s1"))
    told(memories, "queue", Teller("mcp", "s2"))
    with ml.open(repo.root) as other:  # another process sees it, too
        assert other.memories().shared.recalls.list_told("s1") == {first, second}
    records.cut("s1")
    assert records.list_told("s1") == set()
    assert records.list_told("s2") == {second}
    told(memories, "deploys", Teller("prompt", "s1"))
    assert records.list_told("s1") == {first}


def test_only_the_newest_records_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".memlake").mkdir()
    records = Recalls(tmp_path / ".memlake", 100)
    for number in range(256):
        records.note(Recall("python", f"question {number}", "s", candidates=(Candidate(layout.new_id(), "00"),)))
    kept = [record.question for record in records.scan()]
    assert kept == [f"question {number}" for number in range(255, 155, -1)]
    assert len(records.list_told("s")) == 100
    records.close()


def test_none_is_kept_where_the_setting_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "repo") as repo:
        repo.config.set("memory.recalls", "0")
    with ml.open(tmp_path / "repo") as repo, ml.Agent(repo.root, agent_id="a") as agent:
        agent.store_memory("Deploys happen on Mondays")
        assert agent.search_memory("deploys")
        assert list(agent.memories.why(agent.search_memory("deploys")[0]["memory_id"])) == []
        assert not (repo.dir / "recalls.db").exists()


def test_a_purge_leaves_no_question_that_found_the_memory(repo: ml.Repo, memories: Memories) -> None:
    gone = memories.store(Draft("Ada Lovelace lives at Rosewood Lane 7")).memory_id
    kept = memories.store(Draft("Deploys happen on Mondays")).memory_id
    told(memories, "who lives at Rosewood Lane")
    told(memories, "when do deploys happen")
    memories.purge(gone, "asked")
    records = list(memories.shared.recalls.scan())
    assert [record.question for record in records] == ["when do deploys happen", ""]
    assert memories.why(gone) == []
    assert [one.recall.question for one in memories.why(kept)] == ["when do deploys happen"]
    repo.close()
    data = b"".join(file.read_bytes() for file in (repo.root / ".memlake").glob("recalls.db*"))
    assert b"Rosewood" not in data


def test_threads_that_ask_at_once_lose_no_record(memories: Memories) -> None:
    memories.store(Draft("Deploys happen on Mondays"))
    threads = [
        threading.Thread(target=lambda n=n: [told(memories, f"deploys {n} {m}") for m in range(10)]) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({record.question for record in memories.shared.recalls.scan()}) == 60


def test_a_damaged_file_of_records_costs_no_answer(repo: ml.Repo, memories: Memories) -> None:
    memories.store(Draft("Deploys happen on Mondays"))
    told(memories, "deploys")
    repo.close()
    file = repo.root / ".memlake" / "recalls.db"
    file.write_bytes(b"no database at all" * 1000)
    with ml.open(repo.root) as again:
        assert told(again.memories(), "deploys") == ["Deploys happen on Mondays"]
        with pytest.raises(ml.errors.Corrupt) as refused:
            list(again.memories().shared.recalls.scan())
        assert f"rm {file}" in refused.value.hint


def test_every_door_keeps_a_record(tmp_path: Path) -> None:
    with opened(tmp_path / "repo") as repo, ml.Agent(repo.root, agent_id="a", session_id="s") as agent:
        agent.store_memory("Deploys happen on Mondays")
        agent.search_memory("deploys")
        (record,) = agent.memories.shared.recalls.scan()
        assert (record.surface, record.session, record.agent) == ("python", "s", "a")
    with sqlite3.connect(tmp_path / "repo" / ".memlake" / "recalls.db") as db:
        assert db.execute("SELECT count(*) FROM told").fetchone() == (1,)
