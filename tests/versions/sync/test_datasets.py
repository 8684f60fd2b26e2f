"""Datasets that several people save: a number that was pushed stays what it is for everybody."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.repo import Repo
from tests.versions.sync.conftest import Team, heads


def save(repo: Repo, *values: int, name: str = "pets", **how: Any) -> str:
    version = repo.datasets().read_values(x=list(values)).save(name, **how).version
    assert version is not None
    return version


def rows(repo: Repo, name: str = "pets") -> dict[str, list[int]]:
    datasets = repo.datasets()
    with contextlib.suppress(ml.errors.NotFound):
        return {one.version: datasets.of(one).to_values("x") for one in datasets.versions(name)}
    return {}


@pytest.fixture
def pair(ours: Repo, team: Team) -> tuple[Repo, Repo]:
    """Two who have pets@1.0.0 and each saved another pets@1.0.1; the first one pushed."""
    save(ours, 0)
    ours.push()
    theirs = team("theirs")
    save(ours, 1)
    save(theirs, 2)
    ours.push()
    return ours, theirs


def test_a_version_that_was_pushed_keeps_its_number_and_ours_gets_the_next(pair: tuple[Repo, Repo]) -> None:
    ours, theirs = pair
    merged = theirs.pull().merged
    assert merged is not None and not merged.moved and not merged.conflicts
    assert merged.yielded == {"datasets/pets/1.0.1": "datasets/pets/1.0.2"}
    assert rows(theirs) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    assert theirs.status().clean and theirs.upkeep.fsck(full=True).ok
    theirs.push()
    ours.pull()
    assert rows(ours) == rows(theirs) and heads(ours)[0, "main"] == heads(theirs)[0, "main"]


def test_the_pull_says_which_number_of_ours_changed(
    pair: tuple[Repo, Repo], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair[1].root)
    assert main(["pull"]) == 0
    said = capsys.readouterr().out
    assert "Your pets@1.0.1 is pets@1.0.2 now: remote-tracking branch origin/main has another pets@1.0.1." in said


def test_what_was_made_of_a_version_of_ours_names_its_new_number(pair: tuple[Repo, Repo]) -> None:
    _, theirs = pair
    datasets = theirs.datasets()
    datasets.read_dataset("pets@1.0.1").filter(ml.C("x") > 0).save("some")
    theirs.pull()
    (parent,) = theirs.datasets().get("some").provenance["parents"]
    assert parent["spec"] == "pets@1.0.2" and parent["version"] == "1.0.2"
    assert theirs.datasets().read_dataset("pets@1.0.2").to_values("x") == [2]


def test_only_what_was_pushed_to_the_same_branch_keeps_its_number(ours: Repo, team: Team) -> None:
    save(ours, 0)
    ours.push()
    theirs = team("theirs")
    ours.switch("trial", create=True)
    save(ours, 1)
    ours.push()
    save(theirs, 2)
    theirs.fetch()
    assert theirs.merge("origin/trial").moved == {"datasets/pets/1.0.1": "datasets/pets/1.0.2"}
    assert rows(theirs) == {"1.0.0": [0], "1.0.1": [2], "1.0.2": [1]}


def test_files_that_both_changed_wait_and_the_numbers_are_as_pushed_when_it_is_settled(
    pair: tuple[Repo, Repo],
) -> None:
    ours, theirs = pair
    for repo in pair:
        Path(repo.root, "a.txt").write_text(f"by {Path(repo.root).name}\n")
        repo.add("a.txt")
        repo.commit("a")
    ours.push()
    merged = theirs.pull().merged
    assert merged is not None and [one.path for one in merged.conflicts] == ["files/a.txt"]
    pending = theirs.pending_merge
    assert pending is not None
    pending.choose("theirs", "a.txt")
    assert pending.conclude().yielded == {"datasets/pets/1.0.1": "datasets/pets/1.0.2"}
    assert rows(theirs) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    assert Path(theirs.root, "a.txt").read_text() == "by ours\n"


@pytest.mark.parametrize("seed", range(2))
def test_no_number_changes_once_it_was_pushed(ours: Repo, team: Team, seed: int) -> None:
    """Whoever saves, pulls and pushes in any order: a number means the same rows for ever, and nobody loses a save."""
    rng, counter, known, saved = random.Random(seed), iter(range(1000)), dict[tuple[str, str], list[int]](), set[int]()
    ours.push()
    people = [ours, team("b"), team("c")]
    for _ in range(24):
        repo = rng.choice(people)
        if rng.random() < 0.5:
            value = next(counter)
            save(repo, value, name=rng.choice(["pets", "toys"]), update_version=rng.choice(["patch", "minor"]))
            saved.add(value)
            continue
        pulled = repo.pull().merged
        assert pulled is None or not pulled.conflicts
        repo.push()
        for name in ("pets", "toys"):
            for version, values in rows(repo, name).items():
                assert known.setdefault((name, version), values) == values
    for repo in [*people, *people]:
        repo.pull()
        repo.push()
    assert len({heads(repo)[0, "main"] for repo in people}) == 1
    here = {value for name in ("pets", "toys") for values in rows(ours, name).values() for value in values}
    assert here == saved
