"""Laws of conflicts inside files: the listed are the planted, choices mean what strategies mean, abort undoes all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.records import Entry, MergeHow
from memlake.versions.history.merge_trees import Making, join_path
from memlake.versions.kinds import Joined
from tests.torture import examples

Values = Mapping[int, int]  # a number for each place, by the number of the place
FATES = ("kept", "ours", "theirs", "alike", "apart")  # who changed it, and whether both did so alike
FAR = "same\n" * 4  # lines that keep two edits of a text apart


def as_notebook(values: Values) -> str:
    cells = [
        {"cell_type": "code", "id": f"c{n}", "source": [f"x = {value}"], "outputs": [], "metadata": {}}
        for n, value in values.items()
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


# How a file holds the values, and what the place of one is called.
TYPES: dict[str, tuple[Callable[[Values], str], Callable[[int], str]]] = {
    "a.json": (lambda values: json.dumps({f"k{n}": value for n, value in values.items()}), lambda n: f"k{n}"),
    "list.json": (
        lambda values: json.dumps([{"id": n, "v": value} for n, value in values.items()]),
        lambda n: f"[id={n}].v",
    ),
    "a.ipynb": (as_notebook, lambda n: f"cell {n + 1}"),
    "a.csv": (
        lambda values: "id,v,w\n" + "".join(f"{n},{value},x\n" for n, value in values.items()),
        lambda n: f"id={n}: v",
    ),
    "a.jsonl": (
        lambda values: "".join(json.dumps({"id": n, "v": value}) + "\n" for n, value in values.items()),
        lambda n: f"id={n}: v",
    ),
    "a.txt": (
        lambda values: "".join(f"k{n} {value}\n{FAR}" for n, value in values.items()),
        lambda n: f"line {n * 5 + 1}",
    ),
}
fates = st.lists(st.sampled_from(FATES), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Repo]:
    with ml.init(tmp_path_factory.mktemp("laws")) as repo:
        yield repo


def plant(chosen: list[str]) -> tuple[Values, Values, Values]:
    """What base, ours and theirs hold at each place."""
    ours = {n: 2 if fate in ("ours", "alike", "apart") else 1 for n, fate in enumerate(chosen)}
    theirs = {n: {"theirs": 3, "alike": 2, "apart": 3}.get(fate, 1) for n, fate in enumerate(chosen)}
    return dict.fromkeys(ours, 1), ours, theirs


def expect(chosen: list[str], sides: Mapping[int, str]) -> Values:
    """What holds both edits, and the side taken where they are apart; ours without one."""
    _, ours, theirs = plant(chosen)
    taken = {n: sides.get(n, "ours") if fate == "apart" else fate for n, fate in enumerate(chosen)}
    return {n: theirs[n] if taken[n] == "theirs" else ours[n] for n in ours}


class Ground:
    """One file of a type, and what a merge makes of it."""

    def __init__(self, repo: ml.Repo, name: str, chosen: list[str]) -> None:
        self.making, self.path = Making(repo._history), f"files/{name}"
        self.write, self.name_place = TYPES[name]
        self.entries = tuple(self._add(values) for values in plant(chosen))

    def _add(self, values: Values) -> Entry:
        data = self.write(values).encode()
        return Entry(self.making.add(data), "file", len(data))

    def merge(self, how: MergeHow, *, swapped: bool = False) -> Joined:
        base, ours, theirs = self.entries
        joined = join_path(self.making, self.path, (base, theirs, ours) if swapped else self.entries, lambda _: how)
        if joined is None:  # nothing differs
            assert ours == theirs
            return Joined(ours)
        return joined

    def read(self, joined: Joined) -> str:
        assert joined.entry is not None
        return self.making.read(joined.entry.oid).decode()


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(10, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=fates, data=st.data())
def test_what_is_listed_was_planted_and_choices_mean_what_strategies_mean(
    repo: ml.Repo, name: str, chosen: list[str], data: st.DataObject
) -> None:
    ground = Ground(repo, name, chosen)
    planted = {ground.name_place(n): n for n, fate in enumerate(chosen) if fate == "apart"}
    found = ground.merge(MergeHow())
    assert [one.place for one in found.conflicts] == list(planted)
    if found.entry is not None:
        assert ground.read(found) == ground.write(expect(chosen, {}))
    for side in ("ours", "theirs"):
        by_strategy = ground.merge(MergeHow(strategy=side))
        by_choices = ground.merge(MergeHow(choices=dict.fromkeys(planted, side)))
        assert not by_strategy.conflicts and not by_choices.conflicts
        expected = ground.write(expect(chosen, dict.fromkeys(planted.values(), side)))
        assert ground.read(by_strategy) == ground.read(by_choices) == expected
    some = {place: data.draw(st.sampled_from(["ours", "theirs", ""])) for place in planted}
    picked = {place: side for place, side in some.items() if side}
    part = ground.merge(MergeHow(choices=picked))
    assert [one.place for one in part.conflicts] == [place for place in planted if place not in picked]
    if part.entry is not None:
        sides = {planted[place]: side for place, side in picked.items()}
        assert ground.read(part) == ground.write(expect(chosen, sides))
    back = ground.merge(MergeHow(), swapped=True)
    assert [(one.place, one.theirs, one.ours) for one in back.conflicts] == [
        (one.place, one.ours, one.theirs) for one in found.conflicts
    ]


@settings(max_examples=examples(6, 200), deadline=None)
@given(data=st.data())
def test_whatever_is_chosen_and_taken_back_abort_brings_every_byte_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("abort")
    names = ["a.json", "a.csv", "a.txt", "a.ipynb"]

    def keep(repo: ml.Repo, values: Values) -> None:
        for name in names:
            (root / name).write_text(TYPES[name][0](values))
        repo.add(*(root / name for name in names))
        repo.commit("values")

    with ml.init(root) as repo:
        base, ours, theirs = plant(["apart", "theirs", "apart"])
        keep(repo, base)
        repo.switch("theirs", create=True)
        keep(repo, theirs)
        repo.switch("main")
        keep(repo, ours)
        before = {name: (root / name).read_bytes() for name in names}
        repo.merge("theirs")
        for _ in range(data.draw(st.integers(0, 4))):
            take_a_step(repo, root, data)
        repo.pending_merge.abort()
        assert {name: (root / name).read_bytes() for name in names} == before
        assert repo.status().clean and repo.upkeep.fsck(full=True).ok


def take_a_step(repo: ml.Repo, root: Path, data: st.DataObject) -> None:
    """Choose for a place, for all, or take back; what is listed as open shrinks by what was chosen."""
    places = repo.pending_merge.places()
    step = data.draw(st.sampled_from(["place", "all", "undo", "mark"]))
    side = data.draw(st.sampled_from(["ours", "theirs", "latest"]))
    if step == "place":
        place = data.draw(st.sampled_from(places))
        repo.pending_merge.resolve(side, place.path, place=place.place)
        chosen = {(one.path, one.place): one.choice for one in repo.pending_merge.places()}
        assert chosen.pop((place.path, place.place)) == side
        others = {(one.path, one.place): one.choice for one in places if one[:3] != place[:3]}
        assert chosen == others
    elif step == "all":
        assert repo.pending_merge.resolve(side) == ()
    elif step == "mark":
        repo.pending_merge.mark(root / "a.json")
        assert {one.choice for one in repo.pending_merge.places(root / "a.json")} == {None}
    elif any(one.choice for one in places):
        repo.undo()
