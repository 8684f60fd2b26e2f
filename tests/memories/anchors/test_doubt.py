"""Doubt spreads to all that rests on a change, however far, and ends where somebody settles it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import InvalidInput, Nothing
from memlake.memories.anchors import doubt, standing
from memlake.memories.anchors.anchor import IN_DOUBT, MEMORY, Anchor
from memlake.memories.memories import Draft, Memories
from memlake.memories.record import Memory
from memlake.records import Entry
from memlake.repo import Repo


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def repo(root: Path) -> Iterator[Repo]:
    with ml.init(root) as repo:
        repo.config.set("embedding.provider", "none")
        (root / "api.py").write_text("".join(f"line {number}\n" for number in range(1, 31)))
        repo.add("api.py")
        repo.commit("first")
        yield repo


@pytest.fixture
def memories(repo: Repo) -> Memories:
    return repo.memories()


def remember(memories: Memories, text: str, *uses: str) -> str:
    return memories.store(Draft(text, uses=uses)).memory_id


def edit(root: Path, old: str, new: str) -> None:
    file = root / "api.py"
    file.write_text(file.read_text().replace(old, new))


def doubted(memories: Memories) -> dict[str, tuple[str, ...]]:
    return {one.memory.content: one.causes for one in memories.doubts()}


def test_a_change_puts_all_in_doubt_that_rests_on_it_and_says_why(memories: Memories, root: Path) -> None:
    first = remember(memories, "Ports stand in api.py", "api.py:10-12")
    second = remember(memories, "So port 80 is taken", first)
    remember(memories, "So we use 81", second)
    remember(memories, "Line 20 is long", "api.py:20")
    assert doubted(memories) == {}
    edit(root, "line 11\n", "line eleven\n")
    said = doubted(memories)
    assert list(said) == ["Ports stand in api.py", "So we use 81", "So port 80 is taken"]
    assert said["Ports stand in api.py"] == ("api.py:10-12 changed",)
    assert said["So we use 81"] == (f"memory {second[-6:]} is in doubt, because api.py:10-12 changed",)


def test_a_memory_that_says_something_else_or_is_gone_is_a_change(memories: Memories) -> None:
    first = remember(memories, "The port is 80")
    remember(memories, "So 80 is open", first)
    memories.update(first, Draft("The port is 80", tags=["net"]), changed=["tags"])
    assert doubted(memories) == {}
    memories.update(first, Draft("The port is 81"), changed=["content"])
    assert doubted(memories) == {"So 80 is open": (f"memory {first[-6:]} says something else now",)}
    memories.delete(first)
    assert doubted(memories) == {"So 80 is open": (f"memory {first[-6:]} was forgotten",)}


def test_a_settled_doubt_stays_settled_until_what_it_rests_on_says_something_else(
    memories: Memories, root: Path
) -> None:
    first = remember(memories, "Ports stand in api.py", "api.py:10-12")
    second = remember(memories, "So port 80 is taken", first)
    edit(root, "line 11\n", "line eleven\n")
    memories.settle(second)
    assert list(doubted(memories)) == ["Ports stand in api.py"]
    memories.settle(first)
    assert doubted(memories) == {}
    edit(root, "line eleven\n", "line 12 at last\n")
    assert list(doubted(memories)) == ["Ports stand in api.py", "So port 80 is taken"]


def test_settling_follows_lines_that_were_edited_and_drops_what_is_gone(memories: Memories, root: Path) -> None:
    (root / "notes.md").write_text("A note of some length that nobody has anywhere else.\n")
    kept = remember(memories, "Ports stand in api.py", "api.py:10-12", "notes.md")
    edit(root, "line 1\n", "line 0\nline 1\n")
    edit(root, "line 11\n", "line eleven\nline eleven and a half\n")
    (root / "notes.md").unlink()
    (settled,) = memories.settle(kept)
    assert settled.dropped == ("notes.md",)
    assert [anchor.name for anchor in settled.memory.uses] == ["api.py:11-14"]
    assert memories.fields(memories.get(kept))["standing"] == "fresh"


def test_what_is_not_in_doubt_is_not_settled(memories: Memories) -> None:
    known = remember(memories, "Ports stand in api.py", "api.py:10-12")
    with pytest.raises(Nothing, match="is not in doubt"):
        memories.settle(known)


def test_a_text_that_is_said_anew_rests_on_what_there_is_now(memories: Memories, root: Path) -> None:
    first = remember(memories, "The limit is ten", "api.py:10-12")
    second = remember(memories, "Another of the same lines", "api.py:10-12")
    edit(root, "line 11\n", "line eleven\n")
    memories.update(first, Draft("The limit is eleven"), changed=["content"])
    memories.update(second, Draft("x", uses=["api.py:20-21"]), changed=["uses"])
    assert doubted(memories) == {}
    assert [anchor.name for anchor in memories.get(second).uses] == ["api.py:20-21"]


def test_a_repeated_fact_takes_over_newer_anchors_and_a_correction_has_its_own(memories: Memories, root: Path) -> None:
    first = memories.remember(Draft("The staging port is 8080", uses=["api.py:10-12"])).memory_id
    edit(root, "line 11\n", "line eleven\n")
    assert memories.remember(Draft("The staging port is 8080", uses=["api.py:10-12"])).decision == "skip"
    assert doubted(memories) == {}
    assert memories.remember(Draft("The staging port is 9090", uses=["api.py:20"])).memory_id == first
    assert [anchor.name for anchor in memories.get(first).uses] == ["api.py:20"]


def test_a_diff_shows_the_passage_as_it_was_and_is(memories: Memories, root: Path) -> None:
    remember(memories, "Ports stand in api.py", "api.py:10-12")
    edit(root, "line 11\n", "line eleven\n")
    ((change,),) = (memories.list_changes(one) for one in memories.doubts())
    assert [line for line in change.lines if line[0] in "+-"] == ["-line 11", "+line eleven"]


def test_what_cannot_be_found_is_refused_and_nothing_is_stored(memories: Memories, root: Path) -> None:
    (root.parent / "outside.txt").write_text("secret")
    for wrong, problem in (
        ("nothing.py", "is not a file below"), ("../outside.txt", "is not a file below"),
        ("api.py:40-50", "has 30 lines"),
        ("api.py#layer", "is not a file of tensors"), (".memlake/config.toml", "cannot be used"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=problem):
            remember(memories, "x", wrong)
    assert memories.stats().memories == 0


def test_lineage_and_taking_back_follow_what_memories_rest_on(repo: Repo) -> None:
    memories = repo.memories()
    first = remember(memories, "Ports stand in api.py", "api.py:10-12")
    second = remember(memories, "So port 80 is taken", first)
    edges = {(edge.source, edge.target) for edge in repo.lineage("api.py").edges}
    assert {target for _, target in edges} >= {f"memory:{first}", f"memory:{second}"}
    assert (f"memory:{first}", f"memory:{second}") in edges


# -- closures over graphs ---------------------------------------------------------------------


def find_closure(uses: dict[int, list[int]], changed: set[int]) -> set[int]:
    """What rests on something that changed, by asking again and again until nothing is added."""
    doubtful = {number for number, ons in uses.items() if changed & set(ons)}
    while more := {number for number, ons in uses.items() if number not in doubtful and doubtful & set(ons)}:
        doubtful |= more
    return doubtful


def spread(uses: dict[int, list[int]], changed: set[int], settled: set[tuple[int, int]]) -> set[int]:
    """What memlake says of such a graph, without any repo."""
    heads: dict[str, Entry | None] = {f"memories/a/{number}": Entry(f"{number:064x}", "memory", 1) for number in uses}
    judged = {
        str(number): [
            standing.Standing(
                "changed" if on in changed else "fresh",
                Anchor(MEMORY, f"memories/a/{on}", f"{on:064x}", settled=(number, on) in settled),
            )
            for on in ons
        ]
        for number, ons in uses.items()
    }
    standing.spread(judged, heads)
    return {int(number) for number, one in judged.items() if any(each.word in IN_DOUBT for each in one)}


@pytest.mark.parametrize(("nodes", "seed"), [(30, seed) for seed in range(20)] + [(10_000, 1), (10_000, 2)])
def test_doubt_over_random_graphs_is_the_closure(nodes: int, seed: int) -> None:
    chance = random.Random(seed)
    degree = 1 if nodes > 100 else 2
    uses = {number: chance.choices(range(nodes), k=chance.randint(0, 2 * degree)) for number in range(nodes)}
    changed = set(chance.sample(range(nodes), max(nodes // 1000, 1)))
    edges = [(number, on) for number, ons in uses.items() for on in ons if on not in changed]
    settled = set(chance.sample(edges, len(edges) // 10))
    left = {number: [on for on in ons if (number, on) not in settled] for number, ons in uses.items()}
    expected = find_closure(left, changed)
    assert spread(uses, changed, settled) == expected
    assert nodes < 100 or 0 < len(expected) < nodes


def test_doubt_of_a_hit_is_that_of_the_list_also_in_a_circle(memories: Memories, root: Path) -> None:
    """A hit looks up from itself, the list looks down from the changes."""
    chance, ids = random.Random(7), list[str]()
    for number in range(60):
        uses = chance.sample(ids, k=min(len(ids), chance.randint(0, 2)))
        uses += [f"api.py:{number % 30 + 1}"] if chance.random() < 0.5 else []
        ids.append(remember(memories, f"Fact number {number}", *uses))
    memories.update(ids[0], Draft("x", uses=[ids[-1]]), changed=["uses"])
    edit(root, "line 1", "row 1")  # 1 and 10 to 19
    listed = {one.memory.memory_id for one in memories.doubts()}
    one_by_one = {id for id in ids if memories.fields(memories.get(id))["standing"] in IN_DOUBT}
    assert listed == one_by_one and 5 < len(listed) < 60


def test_a_thousand_dependents_are_flagged_whole(memories: Memories, root: Path) -> None:
    first = remember(memories, "Ports stand in api.py", "api.py:10-12")
    (anchor,) = doubt.take(memories.context, [first])
    made = [
        Memory(f"{number:08x}-0000-7000-8000-000000000001", f"d {number}", uses=(anchor,)) for number in range(1000)
    ]
    edit(root, "line 11\n", "line eleven\n")
    base = memories.get(first)
    judged = doubt.judge(memories.context, [base, *made])
    assert sum(any(one.word in IN_DOUBT for one in each) for each in judged.values()) == 1001
