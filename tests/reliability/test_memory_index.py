"""The index deleted or damaged, also under running processes: made again and said so, and nothing wrong is found."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.index.index import DAMAGED, MISSING, Index
from memlake.memories import search
from memlake.memories.memories import Draft
from memlake.memories.record import indexed_text
from memlake.memories.search import Query
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, forged, python, snapshot_of
from tests.reliability.memory_ground import (
    Faulty,
    assert_equals_a_rebuilt_index,
    embedded_by,
    everything,
    found_by_own_word,
    index_folder,
    made,
    store_numbered,
    text_of,
    words,
)

COUNT = 60


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """Two segments, fresh rows, ended rows in each, vectors."""
    with fast_folder() as folder:
        root = made(folder / "repo", "test")
        with ml.open(root) as repo:
            memories = repo.memories()
            for part in range(3):
                ids = list(store_numbered(memories, range(part * COUNT // 3, (part + 1) * COUNT // 3)))
                if part < 2:
                    memories.shared.index.fold()
                memories.delete(ids[0])
            assert memories.wait(30)
        yield root


@pytest.fixture
def root(template: Path) -> Iterator[Path]:
    with fast_folder() as folder:
        yield snapshot_of(template, folder / "copy")


# -- ways to harm it ------------------------------------------------------------------------------------


def _flip(path: Path, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    for place in range(at or 0, len(data), max(1, len(data) // 200)):
        data[place] ^= 0xFF
    path.write_bytes(data)


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _segment(root: Path) -> Path:
    return sorted(index_folder(root).glob("*.seg"))[0]


def _vectors(root: Path) -> Path:
    return next(index_folder(root).glob("vectors/*/vectors.*"))


HARMS: dict[str, Callable[[Path], object]] = {
    "the folder deleted": lambda root: shutil.rmtree(root / ".memlake" / "index"),
    "the generation deleted": lambda root: shutil.rmtree(index_folder(root)),
    "CURRENT deleted": lambda root: (root / ".memlake" / "index" / "CURRENT").unlink(),
    "CURRENT of garbage": lambda root: (root / ".memlake" / "index" / "CURRENT").write_bytes(b"\xff../../etc\0"),
    "CURRENT of a generation that is not there": lambda root: (root / ".memlake/index/CURRENT").write_text("99"),
    "index.db deleted": lambda root: [f.unlink() for f in index_folder(root).glob("index.db*")],
    "index.db flipped": lambda root: _flip(index_folder(root) / "index.db", 16),
    "index.db of garbage": lambda root: (index_folder(root) / "index.db").write_bytes(b"no database " * 2000),
    "index.db cut short": lambda root: _cut(index_folder(root) / "index.db"),
    "index.db emptied": lambda root: (index_folder(root) / "index.db").write_bytes(b""),
    "a segment deleted": lambda root: _segment(root).unlink(),
    "a segment cut short": lambda root: _cut(_segment(root)),
    "a segment flipped": lambda root: _flip(_segment(root)),
    "a segment of garbage": lambda root: _segment(root).write_bytes(b"garbage" * 500),
    "vectors cut short": lambda root: _cut(_vectors(root)),
    "the header of vectors flipped": lambda root: _flip(_vectors(root).with_name("CURRENT")),
    "vectors deleted": lambda root: shutil.rmtree(index_folder(root) / "vectors"),
}


def _settled(root: Path) -> dict[str, str]:
    """Everything remembered, with index.db whole in its file."""
    with ml.open(root) as repo:
        repo.memories().shared.index.db.checkpoint()
        return everything(repo.memories())


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_index_is_made_again_when_the_repo_is_opened(harm: str, root: Path) -> None:
    expected = _settled(root)
    HARMS[harm](root)
    with ml.open(root) as repo:
        memories = repo.memories()
        memories.shared.worker.close()  # it may find the harm first, and have it said by a later search
        hits = memories.search(Query(text_of(21)))
        assert hits[0]["content"] == text_of(21)
        assert set(hits.notes) & {DAMAGED, MISSING}, hits.notes
        assert {*memories.search(Query("amberfox")).notes}.isdisjoint({DAMAGED, MISSING})
        assert everything(memories) == expected
        found_by_own_word(memories, expected)
        assert_sound(repo)


@pytest.mark.parametrize(
    "harm", [name for name in HARMS if name != "a segment flipped"]
)  # sums: only when it is opened
def test_a_process_that_has_the_index_open_recovers_at_its_next_search(harm: str, root: Path) -> None:
    expected = _settled(root)
    with ml.open(root) as first, ml.open(root) as second:
        both = [first.memories(), second.memories()]
        for memories in both:
            memories.search(Query(text_of(21)))
            memories.shared.worker.close()  # nothing but what is called touches the index
        both[0].shared.index.db.checkpoint()
        HARMS[harm](root)
        for number, memories in enumerate(both):
            stored = memories.store(Draft(f"after{number} the harm"))
            expected[stored.memory_id] = stored.content
            assert [hit["content"] for hit in words(memories, f"after{number}")] == [stored.content]
            memories.search(Query(text_of(21)))
            assert everything(memories) == expected
            found_by_own_word(memories, expected)
        assert everything(both[0]) == expected
        while both[0].embed_pending():
            pass
        assert all(both[0].has_vector(memory_id) for memory_id in expected)
        assert both[0].shared.index.generation == both[1].shared.index.generation
        assert_sound(first)
    assert_equals_a_rebuilt_index(root, [text_of(n) for n in range(COUNT)])


_ROUNDS = """
import sys
import memlake as ml
from memlake.memories.memories import Draft
from memlake.memories.search import Query
memories = ml.open(sys.argv[1]).memories()
for n, _ in enumerate(sys.stdin):
    stored = memories.store(Draft(f"{sys.argv[2]}x{n} kept"))
    hits = memories.search(Query(f"{sys.argv[2]}x{n}", mode="keyword"))
    print(stored.memory_id, [hit["memory_id"] for hit in hits] == [stored.memory_id], flush=True)
"""


def test_running_processes_go_on_while_the_index_is_deleted_and_damaged_again_and_again(root: Path) -> None:
    children = [
        python("-c", _ROUNDS, str(root), f"p{n}", stdin=subprocess.PIPE, stdout=subprocess.PIPE) for n in range(3)
    ]
    stored, names = set(_settled(root)), sorted(HARMS)
    for number in range(200 if TORTURE else 14):
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        if number:
            _harm_if_there(HARMS[names[number % len(names)]], root)
        for child in children:
            assert child.stdout is not None
            line = child.stdout.readline().split()
            assert line and line[1] == "True", f"round {number}: {line}"
            stored.add(line[0])
    for child in children:
        assert child.communicate()[1] is None and child.returncode == 0
    with ml.open(root) as repo:
        assert set(everything(repo.memories())) == stored
        assert_sound(repo)


def _harm_if_there(harm: Callable[[Path], object], root: Path) -> None:
    try:
        harm(root)
    except (OSError, IndexError, StopIteration, ValueError) as error:  # another round's harm is being mended
        print(f"no harm done: {error}", file=sys.stderr)


def test_bytes_flipped_anywhere_in_the_index_never_show_what_is_not_there(
    root: Path, tally: Callable[..., None]
) -> None:
    """One byte at a time, of the database and of a segment: hits are memories of the branch, whatever was flipped."""
    expected = _settled(root)
    chance, wrong = random.Random(7), []
    with fast_folder() as folder:
        for number in range(1500 if TORTURE else 60):
            copy = snapshot_of(root, folder / "copy")
            path = [index_folder(copy) / "index.db", _segment(copy)][number % 3 == 2]
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
            with ml.open(copy) as repo:
                memories = repo.memories()
                hits = [hit for n in (0, 21, 45) for hit in words(memories, text_of(n))] + list(words(memories, ""))
                wrong += [hit for hit in hits if expected.get(hit["memory_id"]) != hit["content"]]
            shutil.rmtree(copy)
    tally(flips=number + 1)
    assert wrong == []


def test_a_new_repo_is_not_told_that_its_index_was_missing(tmp_path: Path) -> None:
    with ml.open(made(tmp_path / "repo")) as repo:
        assert {*words(repo.memories(), "tea").notes}.isdisjoint({DAMAGED, MISSING})
        repo.memories().store(Draft("tea"))
        assert {*words(repo.memories(), "tea").notes}.isdisjoint({DAMAGED, MISSING})


# -- each safeguard switched off ----------------------------------------------------------------------------


def test_without_looking_for_another_generation_a_running_process_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Index, "refresh", lambda _self: None)
    with pytest.raises((AssertionError, ml.Error)):
        test_a_process_that_has_the_index_open_recovers_at_its_next_search("the folder deleted", root)


def test_without_holding_hits_against_the_history_a_flipped_byte_shows_a_deleted_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undelete() -> list[str]:
        _settled(root)
        with forged(index_folder(root) / "index.db") as file:
            file.execute("UPDATE row SET to_seq = 1 << 62")
            file.execute("DELETE FROM ended")
        with ml.open(root) as repo:
            return [hit["content"] for hit in words(repo.memories(), text_of(COUNT // 3 * 2))]

    gone = text_of(COUNT // 3 * 2)
    with monkeypatch.context() as patch:
        patch.setattr(search, "_find_strays", lambda *_: set())
        assert gone in undelete()
    assert gone not in undelete()


def test_rows_taken_from_a_generation_that_was_replaced_get_no_vector_in_the_new_one(root: Path) -> None:
    """Row 5 of one generation is another memory than row 5 of the next."""
    with embedded_by(test=Faulty(lambda rows: rows)), ml.open(root) as repo:
        memories = repo.memories()
        memories.shared.worker.close()
        memories.store(Draft("late one"))
        index = memories.shared.index
        good = memories.shared.embedder()
        assert good is not None

        def renewing(texts: list[str]) -> object:
            index.renew(index.edition)
            return Faulty().embed(texts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(good, "embed", renewing)
            with pytest.raises(ml.Error, match="made again"):
                memories.embed_pending()
        assert memories.search(Query("late one"))[0]["content"] == "late one"
        while memories.embed_pending():
            pass
        for memory in memories.list_memories(Query(limit=1000)):
            row = index.db.row("SELECT max(id) FROM row WHERE key = ?", (memory.key,))
            assert row is not None
            own = Faulty().embed([indexed_text(memory)])[0]
            assert index.vectors(Faulty.name, Faulty.dimension).scores(own, list(row))[0] > 0.99
