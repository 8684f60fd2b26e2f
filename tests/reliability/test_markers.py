"""A marker is planted in every kind of place that content can lie in, and purged: no file of the repo has it any more.

Files are searched as they lie there, and what they hold compressed is unpacked first.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

import memlake as ml
from memlake.memories.memories import Draft
from memlake.repo import Repo
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, init, noise, put

ROUNDS = 30 if TORTURE else 1
WHY = "asked for"
Erase = Callable[[], object]
PLACES: dict[str, Callable[[Repo, str], Erase]] = {}


def place(plant: Callable[[Repo, str], Erase]) -> Callable[[Repo, str], Erase]:
    """A way to plant a marker; it returns what erases it."""
    PLACES[plant.__name__] = plant
    return plant


def _committed(repo: Repo, name: str, content: bytes) -> str:
    repo.add(put(repo.root, name, content))
    repo.commit(f"add {name}")
    oid = dict(repo.ls())[f"files/{name}"].oid
    (repo.root / name).unlink()  # the working file is the owner's, and not what is searched
    return oid


@place
def a_small_file(repo: Repo, marker: str) -> Erase:
    oid = _committed(repo, "small.txt", marker.encode())
    return lambda: repo.upkeep.purge(oid, reason=WHY)


@place
def a_file_that_compresses(repo: Repo, marker: str) -> Erase:
    oid = _committed(repo, "dense.txt", f"{marker} again\n".encode() * 900)
    return lambda: repo.upkeep.purge(oid, reason=WHY)


@place
def a_file_of_a_pack(repo: Repo, marker: str) -> Erase:
    oid = _committed(repo, "packed.bin", noise(60_000, marker) + marker.encode() + noise(60_000, marker + "b"))
    return lambda: repo.upkeep.purge(oid, reason=WHY)


@place
def a_large_file(repo: Repo, marker: str) -> Erase:
    oid = _committed(repo, "large.bin", noise(1_400_000, marker) + marker.encode() + noise(1_000_000, marker + "b"))
    return lambda: repo.upkeep.purge(oid, reason=WHY)


@place
def a_version_in_the_middle_of_many(repo: Repo, marker: str) -> Erase:
    """After gc, older versions of a path rest on newer ones."""
    lines, oids = [f"line {n} {random.Random(n).random()}" for n in range(2000)], []
    for number in range(6):
        lines[number * 30] = marker if number == 3 else f"edit {number}"
        oids.append(_committed(repo, "edited.txt", "\n".join(lines).encode()))
        if number == 3:
            lines[number * 30] = "gone again"
    repo.upkeep.gc()
    return lambda: repo.upkeep.purge(oids[3], reason=WHY)


@place
def a_staged_file(repo: Repo, marker: str) -> Erase:
    repo.add(put(repo.root, "staged.txt", f"{marker} staged"))
    (oid,) = [change.new.oid for change in repo.status().staged if change.new]
    repo.restore(repo.root / "staged.txt", staged=True)
    (repo.root / "staged.txt").unlink()
    return lambda: repo.upkeep.purge(oid, reason=WHY)


@place
def a_stashed_file(repo: Repo, marker: str) -> Erase:
    put(repo.root, "stashed.txt", f"{marker} stashed")
    stash = repo.stash.push(include_untracked=True)
    return lambda: repo.upkeep.purge(*_objects_with(repo, marker), reason=WHY) and stash


@place
def a_parameter_of_a_commit(repo: Repo, marker: str) -> Erase:
    repo.add(put(repo.root, "params.txt", f"{_number(marker)}"))
    commit = repo.commit("with a parameter", params={"note": marker})
    return lambda: repo.upkeep.purge(commit.meta["params"], reason=WHY)


def _number(marker: str) -> int:
    """Content that is another in each round: what was purged with a marker may not be stored again."""
    return zlib.crc32(marker.encode())


def _memory(field: str) -> Callable[[Repo, str], Erase]:
    def plant(repo: Repo, marker: str) -> Erase:
        given = {"content": "nothing to hide", "agent_id": "bot"} | {
            "content": {"content": marker},
            "category": {"category": marker},
            "tag": {"tags": [marker]},
            "metadata": {"metadata": {"note": marker}},
            "session": {"session_id": marker},
        }[field]
        stored = repo.memories().store(Draft(**given))  # type: ignore[arg-type]
        return lambda: repo.memories().purge(stored.memory_id, WHY)

    plant.__name__ = f"the_{field}_of_a_memory"
    return place(plant)


for _field in ("content", "category", "tag", "metadata", "session"):
    _memory(_field)


@place
def an_earlier_value_of_a_memory(repo: Repo, marker: str) -> Erase:
    memories = repo.memories()
    stored = memories.store(Draft(marker))
    memories.update(stored.memory_id, Draft("something else"), changed=["content"])
    return lambda: memories.purge(stored.memory_id, WHY)


@place
def a_state(repo: Repo, marker: str) -> Erase:
    repo.memories().set_state("bot", "where", {"place": marker})
    return lambda: repo.memories().purge_state("bot", "where", WHY)


@place
def rows_of_a_dataset(repo: Repo, marker: str) -> Erase:
    repo.datasets().read_values(text=[marker, "other"] * 40).save("rows")
    return lambda: repo.datasets().purge("rows", WHY)


@place
def what_a_function_answered(repo: Repo, marker: str) -> Erase:
    chain = repo.datasets().read_values(n=[_number(marker) + n for n in range(400)]).map(text=lambda n: f"{marker} {n}")
    chain.save("answers")
    return lambda: repo.datasets().purge("answers", WHY)


@place
def what_is_said_of_a_dataset(repo: Repo, marker: str) -> Erase:
    repo.datasets().read_values(n=[_number(marker)]).save("described", description=marker, attrs=[f"note:{marker}"])
    return lambda: repo.datasets().purge("described", WHY)


@place
def rows_of_an_answer_that_was_not_saved(repo: Repo, marker: str) -> Erase:
    repo.datasets().read_values(text=[marker] * 30).save("seen")
    repo.datasets().read_dataset("seen").mutate(again=ml.C("text")).to_list()
    return lambda: repo.datasets().purge("seen", WHY)


# -- looking for them -------------------------------------------------------------------------------


def _objects_with(repo: Repo, marker: str) -> list[str]:
    """Every object whose content has the marker."""
    oids = [row[0].hex() for row in repo._history.db.rows("SELECT oid FROM object")]
    return [oid for oid in oids if marker.encode() in repo.objects.read(oid)]


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The data, and every zstd frame in it."""
    yield data
    for found in re.finditer(re.escape(b"\x28\xb5\x2f\xfd"), data):
        try:
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[found.start() :])
        except zstandard.ZstdError:
            continue


def files_with(folder: Path, marker: str) -> list[str]:
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(marker.encode() in part for part in _unpacked(path.read_bytes()))
    ]


@pytest.mark.parametrize("name", list(PLACES))
def test_a_purged_marker_is_in_no_file_of_the_repo(name: str, tally: Callable[..., None]) -> None:
    with fast_folder() as folder, init(folder / "repo") as repo:
        put(repo.root, "begin.txt", "begin")
        repo.add(all=True)
        repo.commit("begin")
        for turn in range(ROUNDS):
            marker = f"marker{random.Random(f'{name}{turn}').randrange(10**15)}end"
            erase = PLACES[name](repo, marker)
            repo.memories().wait(30)
            repo.upkeep.checkpoint()
            assert files_with(repo.dir, marker) or _objects_with(repo, marker), "else there is nothing to erase"
            erase()
            repo.upkeep.checkpoint()
            assert files_with(repo.dir, marker) == []
            assert _objects_with(repo, marker) == []  # also of those stored as differences, which no search sees
        tally(purged_markers=ROUNDS)
        assert_sound(repo)
