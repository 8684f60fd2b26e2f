"""kill -9 just before every step of every verb of memories: what was acknowledged is there and found."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import memlake as ml
from memlake.index import segments
from memlake.memories import store
from memlake.memories.embedders.providers import Hashed
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import indexed_text
from memlake.memories.search import Query
from memlake.repo import Repo
from tests.reliability.ground import (
    KILLED,
    TORTURE,
    assert_sound,
    fast_folder,
    hooked,
    in_child,
    kill_at,
    python,
    snapshot_of,
    steps_of,
)
from tests.reliability.memory_ground import (
    assert_equals_a_rebuilt_index,
    everything,
    found_by_own_word,
    in_history,
    made,
    store_numbered,
    text_of,
    words,
)

KILLS = 1000 if TORTURE else 6  # of each verb; in CI at steps spread evenly, begun elsewhere for each verb
COUNT = 24
SECRET = "xyzzyplugh"


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A segment, fresh rows, rows with and without vectors, a branch, something to correct and something to purge."""
    with fast_folder() as folder:
        root = made(folder / "repo", "test")
        with ml.open(root) as repo:
            memories = quiet(repo)
            store_numbered(memories, range(COUNT))
            memories.embed_pending()
            memories.shared.index.fold()
            memories.create_branch("draft")
            memories.on("draft").store(Draft("note900 on the draft"))
            memories.store(Draft("User phone: 1111", agent_id="bot"))
            memories.store(Draft(f"note800 {SECRET}"))
            memories.embed_pending()
            store_numbered(memories, range(COUNT, COUNT + 4))
        yield root


def quiet(repo: Repo) -> Memories:
    """Memories without a worker: the steps are counted, and all must be those of the verb."""
    memories = repo.memories()
    memories.shared.worker.close()
    return memories


def _behind(memories: Memories) -> None:
    """History ahead of the index, as a process that died between the two leaves it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "update_index", lambda *_: None)
        memories.delete(_named(memories, "note0"))
        store_numbered(memories, range(500, 512))


def _small_segments(memories: Memories) -> None:
    """One segment less than are merged, some of their rows ended since."""
    for number in range(segments.GROWTH - 2):
        store_numbered(memories, range(600 + 2 * number, 602 + 2 * number))
        memories.shared.index.fold()
    memories.delete(_named(memories, "note2"))
    memories.delete(_named(memories, "note600"))
    store_numbered(memories, [700])
    assert len(list(memories.shared.index.generation.glob("*.seg"))) == segments.GROWTH - 1


def _named(memories: Memories, word: str) -> str:
    return next(m_id for m_id, content in everything(memories).items() if word in content.split())


@dataclass(frozen=True)
class Verb:
    do: Callable[[Memories], object]
    prepare: Callable[[Memories], object] = lambda _memories: None


VERBS: dict[str, Verb] = {
    "store": Verb(lambda m: m.store(Draft("note901 new"))),
    "store many": Verb(lambda m: store_numbered(m, range(910, 915))),
    "replace by a decision": Verb(lambda m: m.remember(Draft("User phone: 2222", agent_id="bot"))),
    "update": Verb(lambda m: m.update(_named(m, "note3"), Draft("note902 instead"), changed=["content"])),
    "delete": Verb(lambda m: m.delete(_named(m, "note5"))),
    "restore": Verb(
        lambda m: m.restore(next(c.message.split()[-1] for c in m.log() if c.message.startswith("forget"))),
        lambda m: m.delete(_named(m, "note5")),
    ),
    "follow": Verb(lambda m: m.search(Query("note1", mode="keyword")), _behind),
    "fold": Verb(lambda m: m.shared.index.fold()),
    "fold and merge": Verb(lambda m: m.shared.index.fold(), _small_segments),
    "embed": Verb(lambda m: m.embed_pending()),
    "search a branch": Verb(lambda m: words(m.on("draft"), "note900")),
    "merge a branch": Verb(lambda m: m.merge_branch("draft")),
    "make the index again": Verb(lambda m: m.shared.index.renew(m.shared.index.edition)),
    "purge": Verb(lambda m: m.purge(_named(m, SECRET), reason="asked to")),
}


def crash_everywhere(template: Path, name: str, most: int = 1000) -> int:
    """Kill before each step, or before so many of them; returns how many crashes were survived."""
    verb = VERBS[name]
    with fast_folder() as folder:
        ready = snapshot_of(template, folder / "ready")
        with ml.open(ready) as repo:
            verb.prepare(quiet(repo))
        done = snapshot_of(ready, folder / "done")
        with ml.open(done) as repo:
            memories = quiet(repo)
            before = sorted(everything(memories).values()) if name != "follow" else []
            count = len(steps_of(lambda: verb.do(memories)))
            after = sorted(everything(memories).values())
        every = -(-count // most)
        numbers = range(1 + sum(name.encode()) % every, count + 1, every)
        for number in numbers:
            copy = snapshot_of(ready, folder / "copy")
            assert _die_at(copy, verb, number) == KILLED, f"step {number} was not reached"
            try:
                _check(copy, (before or after, after), rebuild=number == numbers[-1] or most > count)
                if name == "purge":
                    _purge_again(copy)
            except Exception as error:
                raise AssertionError(f"killed before step {number} of {count}: {error!r}") from error
            shutil.rmtree(copy)
        return len(numbers)


def _die_at(root: Path, verb: Verb, number: int) -> int:
    def work() -> None:
        with ml.open(root) as repo:
            memories = quiet(repo)
            with hooked(kill_at(number)):
                verb.do(memories)

    return in_child(work)


def _check(root: Path, states: tuple[list[str], list[str]], *, rebuild: bool) -> None:
    with ml.open(root) as repo:
        memories = quiet(repo)
        seen = everything(memories)
        assert sorted(seen.values()) in states
        assert set(seen) == in_history(repo)
        found_by_own_word(memories, {i: content for i, content in seen.items() if content.startswith("note")})
        _vectors_are_right(memories)
        assert_sound(repo)
    if rebuild:
        assert_equals_a_rebuilt_index(root, [text_of(n) for n in range(COUNT)])


def _vectors_are_right(memories: Memories) -> None:
    """Every row gets its vector, and it is the one of its text."""
    index = memories.shared.index
    with index.db.write():
        index.db.run("UPDATE pending SET claimed = 0")  # the dead held them for a minute
    while memories.embed_pending():
        pass
    vectors = index.vectors(Hashed.name, Hashed.dimension)
    for memory in memories.list_memories(Query(limit=1000)):
        row = index.db.row("SELECT max(id) FROM row WHERE key = ?", (memory.key,))
        assert row is not None
        cosine = vectors.scores(Hashed().embed([indexed_text(memory)])[0], np.array(row))
        assert cosine[0] > 0.99, f"the vector of {memory.content!r} is another's: {cosine[0]}"


def _purge_again(root: Path) -> None:
    with ml.open(root) as repo:
        memories = quiet(repo)
        named = [v for v in repo.log(lane="memory") if v.message.startswith("forget")]
        ids = [v.message.split()[-1] for v in named] or [_named(memories, SECRET)]
        for memory_id in ids:
            with contextlib.suppress(ml.errors.NotFound):
                memories.purge(memory_id, reason="asked to")
        assert_sound(repo)
        kept = memories.shared.embeddings._db.row("SELECT count(*) FROM vector")
        rows = memories.shared.index.db.row("SELECT count(DISTINCT oid) FROM row")
        assert kept is not None and rows is not None and kept[0] <= rows[0], "a vector of a purged text is kept"
    left = [f.name for f in root.rglob("*") if f.is_file() and SECRET.encode() in f.read_bytes()]
    assert left == []


@pytest.mark.parametrize("name", VERBS)
def test_a_kill_before_any_step_loses_nothing_that_was_acknowledged(
    name: str, template: Path, tally: Callable[..., None]
) -> None:
    survived = crash_everywhere(template, name, KILLS)
    tally(kills=survived)
    assert survived > 1


# -- at any moment, with a worker and folds beside ----------------------------------------------------------

_SAYER = """
import sys, random
import memlake as ml
from memlake.index import segments
from memlake.memories.memories import Draft
segments.FRESH = 16
memories = ml.open(sys.argv[1]).memories()
for n in range(100000):
    stored = memories.store(Draft(f"p{sys.argv[2]}n{n} {n % 7}"))
    sys.stdout.write(f"{stored.memory_id} {stored.content}\\n"); sys.stdout.flush()
    if n % 5 == 4:
        memories.update(stored.memory_id, Draft(f"p{sys.argv[2]}u{n}"), changed=["content"])
        sys.stdout.write(f"{stored.memory_id} p{sys.argv[2]}u{n}\\n"); sys.stdout.flush()
"""


def test_memories_acknowledged_before_a_kill_are_there_and_found(template: Path, tally: Callable[..., None]) -> None:
    """Three processes store, embed and fold; each is killed at a random moment, again and again."""
    chance, acknowledged, lines = random.Random(3), {}, 0
    with fast_folder() as folder:
        root = snapshot_of(template, folder / "repo")
        for turn in range(60 if TORTURE else 2):
            children = [python("-c", _SAYER, str(root), f"{turn}x{n}", stdout=subprocess.PIPE) for n in range(3)]
            for child in children:
                assert child.stdout is not None
                told = [child.stdout.readline() for _ in range(chance.randrange(3, 25))]
                time.sleep(chance.random() / 50)
                os.kill(child.pid, signal.SIGKILL)
                told += child.stdout.readlines()
                child.wait()
                whole = [line.rstrip("\n").split(" ", 1) for line in told if line.endswith("\n")]
                acknowledged.update(dict(whole))  # type: ignore[arg-type]
                lines += len(whole)
        with ml.open(root) as repo:
            memories = repo.memories()
            seen = everything(memories)
            lost = {i: content for i, content in acknowledged.items() if not _is_there(seen.get(i), content)}
            assert lost == {}
            assert set(seen) == in_history(repo)
            found_by_own_word(memories, {i: content for i, content in seen.items() if content.startswith("p")})
            assert_sound(repo)
        assert_equals_a_rebuilt_index(root, [text_of(n) for n in range(COUNT)])
    tally(kills=3 * (turn + 1), acknowledged_memory_writes=lines)
    assert lines > 20


def _is_there(seen: str | None, acknowledged: str) -> bool:
    """As it was acknowledged, or as the update has it that was under way."""
    return seen == acknowledged or (seen is not None and "u" in seen and "n" in acknowledged)


# -- each safeguard switched off ----------------------------------------------------------------------------


def test_without_following_before_reading_a_crash_hides_an_acknowledged_memory(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.memories.index_sync.follow", lambda *_: None)
    with pytest.raises(AssertionError):
        crash_everywhere(template, "store")


def test_without_following_purges_one_that_died_leaves_words_and_vectors(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlake.memories.index_sync._erase_purged", lambda *_: None)
    with pytest.raises(AssertionError):
        crash_everywhere(template, "purge")
