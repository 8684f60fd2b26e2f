"""The index follows purges made elsewhere: what they erased is in no file of a repo that has seen them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlake as ml
from memlake.index import rows, segments
from memlake.index.index import Index
from memlake.memories import index_sync
from memlake.memories.embedders.providers import Hashed
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import indexed_text
from memlake.memories.search import Query
from memlake.versions.history import refs
from tests.reliability.ground import fast_folder, python
from tests.reliability.memory_ground import Faulty, embedded_by, made
from tests.reliability.test_markers import files_with

MARKER = "xyzzyplugh4711"
WHY = "asked for"
DERIVED = ("index", "vectors.db", "vectors.db-wal", "vectors.db-shm")


@pytest.fixture
def root() -> Iterator[Path]:
    with fast_folder() as folder:
        yield made(folder / "repo", "test")


def plant(repo: ml.Repo, *, folded: bool = False) -> tuple[str, bytes]:
    """A memory with the marker and its vector, among others; returns its id and its vector as it lies on disk."""
    memories = repo.memories()
    memories.store(Draft("something else stays"))
    stored = memories.store(Draft(f"the password is {MARKER}"))
    memories.store(Draft("tea is hot"))
    assert memories.wait(30)
    if folded:
        memories.shared.index.fold()
    text = indexed_text(memories.get(stored.memory_id))
    vector = Hashed().embed([text])[0].astype(np.float16).tobytes()
    for db in (memories.shared.index.db, memories.shared.embeddings._db):
        assert db.checkpoint()
    (held,) = memories.shared.index.generation.glob("vectors/*/vectors.*")
    assert _places(repo.dir, vector) == {"index.db", "vectors.db", held.name}, "else there is nothing to erase"
    return stored.memory_id, vector


def _places(folder: Path, vector: bytes) -> set[str]:
    """The names of files that hold the marker or the vector."""
    held = {f.name for f in folder.rglob("*") if f.is_file() and vector in f.read_bytes()}
    return held | set(files_with(folder, MARKER)) - {"repo.db", "repo.db-wal"}


def set_aside(root: Path, aside: Path) -> None:
    """Keep a copy of what is derived, as another checkout of the same history would have it."""
    aside.mkdir()
    for name in DERIVED:
        found = root / ".memlake" / name
        if found.is_dir():
            shutil.copytree(found, aside / name)
        elif found.exists():
            shutil.copy2(found, aside / name)


def put_back(root: Path, aside: Path) -> None:
    for name in DERIVED:
        found = root / ".memlake" / name
        shutil.rmtree(found) if found.is_dir() else found.unlink(missing_ok=True)
        if (aside / name).exists():
            shutil.move(aside / name, found)


def assert_erased(root: Path, vector: bytes) -> None:
    """A search sees the purge: nothing is left, and the rest is as it was."""
    with ml.open(root) as repo:
        assert [hit["content"] for hit in words(repo.memories(), "password")] == []
        assert [hit["content"] for hit in words(repo.memories(), "stays")] == ["something else stays"]
        repo.upkeep.checkpoint()
        assert _places(repo.dir, vector) == set()
        assert repo.upkeep.fsck().ok


def words(memories: Memories, text: str) -> list[dict[str, Any]]:
    return list(memories.search(Query(text, mode="keyword")))


def _no_cursor(memories: Memories) -> None:
    memories.shared.index.db.run("DELETE FROM meta WHERE key = 'purged'")
    memories.shared.embeddings._db.run("DELETE FROM meta WHERE key = 'purged'")


def _cursor_of_another_repo(memories: Memories) -> None:
    """As when the repo is a backup from before: the cursor names a purge that it does not have."""
    rows.set_meta(memories.shared.index.db, purged=b"\xff" * 32)
    memories.shared.embeddings._db.run("INSERT OR REPLACE INTO meta VALUES('purged', ?)", (b"\xff" * 32,))


@pytest.mark.parametrize("folded", [False, True], ids=["fresh", "folded"])
@pytest.mark.parametrize("spoil", [None, _no_cursor, _cursor_of_another_repo], ids=["behind", "none", "ahead"])
def test_what_a_purge_elsewhere_erased_is_erased_here(
    root: Path, tmp_path: Path, folded: bool, spoil: Callable[[Memories], None] | None
) -> None:
    with ml.open(root) as repo:
        first = repo.memories().store(Draft("an earlier purge")).memory_id
        repo.memories().purge(first, WHY)
        memory_id, vector = plant(repo, folded=folded)
        if spoil is not None:
            spoil(repo.memories())
            repo.upkeep.checkpoint()
    set_aside(root, tmp_path / "aside")
    with ml.open(root) as repo:
        repo.memories().purge(memory_id, WHY)
    put_back(root, tmp_path / "aside")
    assert _places(root / ".memlake", vector)
    assert_erased(root, vector)


def test_kept_vectors_that_are_older_than_the_index_follow_by_themselves(root: Path, tmp_path: Path) -> None:
    with ml.open(root) as repo:
        memory_id, vector = plant(repo)
    shutil.copy2(root / ".memlake" / "vectors.db", tmp_path / "vectors.db")
    with ml.open(root) as repo:
        repo.memories().purge(memory_id, WHY)
    shutil.move(tmp_path / "vectors.db", root / ".memlake" / "vectors.db")
    assert _places(root / ".memlake", vector) == {"vectors.db"}
    assert_erased(root, vector)


def test_a_vector_that_was_known_already_is_found_by_the_object_too(root: Path) -> None:
    """Two memories of one text have one vector. The one that it was made for is collected, the other purged."""
    with ml.open(root) as repo:
        memories = repo.memories()
        again, vector = plant(repo)
        embeddings = memories.shared.embeddings
        embeddings._db.run("DELETE FROM source")  # as of an object that is gone
    shutil.rmtree(root / ".memlake" / "index")
    with ml.open(root) as repo:
        repo.memories().search(Query("password"))
        assert repo.memories().wait(30)
        repo.memories().purge(again, WHY)
    assert_erased(root, vector)


def test_a_purge_by_object_erases_the_words_and_the_vector_at_once(root: Path) -> None:
    with ml.open(root) as repo:
        memory_id, vector = plant(repo)
        repo.upkeep.purge(repo.memories().history(memory_id)[0].oid, reason=WHY)
        assert _places(repo.dir, vector) == set()
    assert_erased(root, vector)


_PURGE = """
import sys
import memlake as ml
with ml.open(sys.argv[1]) as repo:
    repo.memories().purge(sys.argv[2], "asked for")
"""


def test_a_purge_while_another_process_has_the_index_open_leaves_nothing_there(root: Path) -> None:
    with ml.open(root) as repo:
        memories = repo.memories()
        memory_id, vector = plant(repo, folded=True)
        assert len(words(memories, "password")) == 1
        memories.search(Query("password"))  # maps the vectors
        assert python("-c", _PURGE, str(root), memory_id).wait() == 0
        assert _places(repo.dir, vector) == set()
        assert words(memories, "password") == [] and memories.search(Query("stays"))
        memories.store(Draft("written after it"))
        assert len(words(memories, "written")) == 1
    assert_erased(root, vector)


def test_a_log_that_a_reader_still_needs_is_emptied_by_a_later_search(root: Path, tmp_path: Path) -> None:
    """The log of a database holds pages as they were: a purge is followed once nothing of it is left there either."""
    with ml.open(root) as repo:
        memory_id, vector = plant(repo)
    set_aside(root, tmp_path / "aside")
    with ml.open(root) as repo:
        repo.memories().purge(memory_id, WHY)
    put_back(root, tmp_path / "aside")
    with ml.open(root) as reader, ml.open(root) as repo:
        reading = reader.memories().shared.index.db
        with reading.snapshot():
            reading.row("SELECT count(*) FROM row")
            assert words(repo.memories(), "password") == []
            assert "index.db" in _places(repo.dir, vector), "else the reader holds nothing back"
        assert words(repo.memories(), "password") == []
        assert _places(repo.dir, vector) == set()
    assert_erased(root, vector)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another"])
def test_a_memory_purged_while_it_is_embedded_leaves_no_vector(root: Path, others: int) -> None:
    stored: list[str] = []

    def purges(answer: Any) -> Any:
        with ml.open(root) as other:
            for memory_id in stored:
                other.memories().purge(memory_id, WHY)
            stored.clear()
        return answer

    with embedded_by(test=Faulty(purges)), ml.open(root) as repo:
        memories = repo.memories()
        memories.shared.worker.close()
        memories.store_many([Draft("something else stays")] * others)
        stored.append(memories.store(Draft(f"the password is {MARKER}")).memory_id)
        text = indexed_text(memories.get(stored[0]))
        while memories.embed_pending():
            pass
        vector = Hashed().embed([text])[0].astype(np.float16).tobytes()
        memories.store(Draft("and something more"))
        assert memories.embed_pending() == 1 and len(words(memories, "something")) == others + 1
        assert memories.shared.index.notice == "", "the index did not have to be made again"
        repo.upkeep.checkpoint()
        assert stored == [] and _places(repo.dir, vector) == set()


def test_what_a_fold_or_a_renewal_that_died_left_behind_goes_with_a_purge(root: Path) -> None:
    with ml.open(root) as repo:
        memory_id, vector = plant(repo)
        index = repo.memories().shared.index
        shutil.copytree(index.generation, index.folder / "0")
        (index.generation / "1-3-00000000.seg").write_bytes(MARKER.encode())
        repo.memories().purge(memory_id, WHY)
        repo.upkeep.checkpoint()
        assert _places(repo.dir, vector) == set()


def test_purges_of_files_alone_leave_the_index_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ml.open(root) as repo:
        memories = repo.memories()
        memories.store(Draft("something stays"))
        (repo.root / "a.txt").write_text("a secret")
        repo.add("a.txt")
        repo.commit("a file")
        repo.upkeep.purge(dict(repo.ls())["files/a.txt"].oid, reason=WHY)
        monkeypatch.setattr(segments, "_sweep", lambda *_: pytest.fail("nothing was to be erased"))
        assert len(words(memories, "stays")) == 1
        looked: list[object] = []
        monkeypatch.setattr(index_sync.purge, "read_since", lambda *given: looked.append(given) or [])
        assert len(words(memories, "stays")) == 1
        assert looked == [], "a purge is followed once"


@pytest.mark.parametrize("seen", [0, 1], ids=["made again", "far behind"])
def test_an_index_that_comes_up_in_groups_shows_every_moment_in_the_order_of_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """Of a hundred rows that are equally good the newest are ranked, and not those of one agent or another."""
    aside = tmp_path / "aside"
    with ml.open(made(tmp_path / "repo")) as repo:
        memories, stored = repo.memories(), list[str]()
        for number in range(26):
            if number == seen and seen:
                shutil.copytree(repo.dir / "index", aside)
            drafts = [Draft(f"amber n{5 * number + n}", agent_id=f"agent{number % 5}") for n in range(5)]
            stored += [one.memory_id for one in memories.store_many(drafts)]
        memories.update(stored[40], Draft("amber again"), changed=["content"])
        heads = [commit.oid for commit in repo.log(lane="memory")]
        grown = [_order_of(memories, head) for head in heads]
    assert set(grown[0]) == set(stored[-50:]), "the newest, or there is nothing to see"
    shutil.rmtree(tmp_path / "repo" / ".memlake" / "index")
    if seen:
        shutil.copytree(aside, tmp_path / "repo" / ".memlake" / "index")
    _in_groups(monkeypatch)
    with ml.open(tmp_path / "repo") as repo:
        index = repo.memories().shared.index
        assert [_order_of(repo.memories(), head) for head in heads] == grown
        assert index.db.row("SELECT count(*) FROM step") == (len(heads),), "each commit is a moment of the trunk"
        assert index.db.row("SELECT count(*) FROM fresh") == (0,) and repo.upkeep.fsck().ok


def _in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_sync, "FAR", 0)
    monkeypatch.setattr(index_sync, "GROUP", 4)


def _order_of(memories: Memories, at: str | None = None) -> list[str]:
    return [hit["memory_id"] for hit in memories.search(Query("amber", mode="keyword", limit=50, as_of=at))]


def test_an_index_that_died_between_two_groups_goes_on_where_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ml.open(root) as repo:
        stored = [repo.memories().store(Draft(f"amber {number}")).memory_id for number in range(14)]
    shutil.rmtree(root / ".memlake" / "index")
    _in_groups(monkeypatch)
    take, taken = index_sync._take_steps, list[int]()

    def dies(*given: Any) -> None:
        if len(taken) == 2:
            raise KeyboardInterrupt
        taken.append(len(given[2]))
        take(*given)

    with monkeypatch.context() as patch, ml.open(root) as repo:
        patch.setattr(index_sync, "_take_steps", dies)
        with pytest.raises(KeyboardInterrupt):
            repo.memories().search(Query("amber"))
        assert repo.memories().shared.index.db.row("SELECT count(*) FROM row") == (8,)
    with ml.open(root) as repo:
        assert _order_of(repo.memories()) == stored[::-1]
        assert repo.memories().shared.index.db.row("SELECT count(*), max(id) FROM row") == (14, 14)


def test_two_processes_that_bring_an_index_up_share_the_work(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ml.open(root) as repo:
        stored = [repo.memories().store(Draft(f"amber {number}")).memory_id for number in range(14)]
    shutil.rmtree(root / ".memlake" / "index")
    _in_groups(monkeypatch)
    fold, others = Index.fold, list[list[str]]()

    def meets_another(index: Index) -> bool:
        if not others:
            others.append([])
            with ml.open(root) as other:
                others[0] = _order_of(other.memories())
        return fold(index)

    monkeypatch.setattr(Index, "fold", meets_another)
    with ml.open(root) as repo:
        assert _order_of(repo.memories()) == stored[::-1] == others[0]
        assert repo.memories().shared.index.db.row("SELECT count(*), max(id) FROM row") == (14, 14)


def test_a_branch_that_was_moved_elsewhere_far_away_is_compared_by_its_trees(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ml.open(root) as repo:
        memories, history = repo.memories(), repo._history
        first = memories.store(Draft("amber first"))
        old = memories.context.head()
        lost = [memories.store(Draft(f"amber {number}")).memory_id for number in range(9)]
        assert _order_of(memories) == [*lost[::-1], first.memory_id]
        _in_groups(monkeypatch)
        with history.db.write():
            refs.move(history, "main", "memory", memories.context.head(), old, action="test", who="test")
        assert _order_of(memories) == [first.memory_id]
        again = memories.store(Draft("amber again"))
        assert _order_of(memories) == [again.memory_id, first.memory_id]


def test_an_index_that_compared_trees_shows_each_moment_as_it_was(root: Path) -> None:
    """Commits of files that came later have higher numbers than the memories that came before them."""
    remote, other = root.parent / "remote", root.parent / "other"
    with ml.open(root) as ours:
        ours.remotes.add("origin", remote)
        ours.write({"files/a": b"a"}, "one")
        ours.push()
        with ml.clone(remote, other) as theirs:
            kept = theirs.memories().store(Draft("kept by them"))
            theirs.push()
            lost = ours.memories().store(Draft("of ours"))
            ours.pull()  # their memory is behind the second parent of a merge now
            ours.push()
            ours.write({"files/a": b"b"}, "two")
            ours.push()
            theirs.pull()
            moment = theirs.memories().context.head()
            assert moment is not None and theirs.upkeep.fsck().ok
            assert len(theirs.memories().search(Query())) == 2
            theirs.memories().delete(lost.memory_id)
            assert [hit["memory_id"] for hit in theirs.memories().search(Query())] == [kept.memory_id]
            assert len(theirs.memories().search(Query(as_of=moment.oid))) == 2
