"""Merges of branches that hold datasets: every version of both sides is there, and what is said of one is merged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from memlake.dataset import save as save_rows
from memlake.records import Entry
from memlake.repo import Repo

C = ml.C


def save(repo: Repo, branch: str, rows: list[int], name: str = "pets", **how: Any) -> str:
    version = repo.datasets(branch).read_values(x=rows).save(name, **how).version
    assert version is not None
    return version


def edit(repo: Repo, branch: str, spec: str, **changes: Any) -> None:
    datasets = repo.datasets(branch)
    save_rows.edit(datasets.context, datasets.get(spec), changes)


def rows(repo: Repo, branch: str = "main", name: str = "pets") -> dict[str, list[int]]:
    datasets = repo.datasets(branch)
    return {one.version: datasets.of(one).to_values("x") for one in datasets.versions(name)}


@pytest.fixture
def fork(repo: Repo) -> Repo:
    """main and x both have pets@1.0.0; HEAD is on main."""
    save(repo, "main", [0])
    repo.branches.create("x")
    return repo


# -- numbers ---------------------------------------------------------------------------------------


def test_a_number_both_sides_gave_is_ours_and_theirs_counts_on(fork: Repo) -> None:
    save(fork, "main", [1], update_version="minor")
    save(fork, "x", [2], update_version="minor")
    merged = fork.merge("x")
    assert rows(fork) == {"1.0.0": [0], "1.1.0": [1], "1.2.0": [2]} and not merged.conflicts
    assert merged.moved == {"datasets/pets/1.1.0": "datasets/pets/1.2.0"} and merged.name == "branch x"
    assert (
        fork.datasets().get("pets@1.2.0").spec == "pets@1.2.0"
        and fork.status().clean
        and fork.upkeep.fsck(full=True).ok
    )


def test_later_versions_of_their_side_stay_later_and_keep_their_steps(fork: Repo) -> None:
    save(fork, "main", [1])
    for number, step in enumerate(("patch", "patch", "minor", "patch", "major"), 2):
        save(fork, "x", [number], update_version=step)
    assert list(rows(fork, "x")) == ["1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1", "2.0.0"]
    moved = fork.merge("x").moved
    assert rows(fork) == {
        "1.0.0": [0], "1.0.1": [1], "1.0.2": [2], "1.0.3": [3], "1.1.0": [4], "1.1.1": [5], "2.0.0": [6],
    }  # fmt: skip
    assert moved == {"datasets/pets/1.0.1": "datasets/pets/1.0.2", "datasets/pets/1.0.2": "datasets/pets/1.0.3"}


def test_theirs_counts_on_behind_the_highest_of_ours(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "main", [2], update_version="major")
    save(fork, "x", [3])
    save(fork, "x", [4])
    fork.merge("x")
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1], "2.0.0": [2], "2.0.1": [3], "2.0.2": [4]}


def test_a_dataset_that_began_on_both_sides_holds_both(fork: Repo) -> None:
    save(fork, "main", [1], "cats")
    save(fork, "x", [2], "cats")
    fork.merge("x")
    assert rows(fork, name="cats") == {"1.0.0": [1], "1.0.1": [2]}


@pytest.mark.parametrize("branch", ["main", "x"])
def test_the_number_of_a_purged_version_is_not_given_again(fork: Repo, branch: str) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    save(fork, branch, [3])
    purged = fork.objects.at("datasets/pets/1.0.2", branch)
    fork.upkeep.purge(purged.oid, reason="gdpr")
    fork.merge("x")
    assert fork.objects.at("datasets/pets/1.0.2") == purged
    found = {one.version: fork.datasets().of(one).to_values("x") for one in fork.datasets().all()}
    assert found == {"1.0.0": [0], "1.0.1": [1], "1.0.3": [2]}


def test_a_record_that_cannot_be_read_is_left_to_people(fork: Repo) -> None:
    save(fork, "main", [1])
    fork.write({"datasets/pets/1.0.1": b"no record"}, "odd", branch="x")
    assert [one.path for one in fork.merge("x").conflicts] == ["datasets/pets/1.0.1"]


# -- what refers to them ---------------------------------------------------------------------------


def test_what_was_made_of_a_version_of_theirs_names_it_as_it_is_called_here(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    theirs = fork.datasets("x")
    theirs.read_dataset("pets@1.0.1").mutate(y=C("x") + 1).save("tall")
    theirs.read_dataset("pets@1.0.1").filter(C("x") > 0).union(theirs.read_values(x=[9])).save("pets")
    fork.merge("x")
    ours = fork.datasets()
    for spec in ("tall", "pets@1.0.3"):
        told = ours.get(spec).provenance
        assert [(one["spec"], one["version"]) for one in told["parents"]] == [("pets@1.0.2", "1.0.2")]
        assert ["pets@1.0.2", "x"] in told["columns"]["x"]
    assert ["pets@1.0.2", "x"] in ours.get("tall").provenance["columns"]["y"]
    edges = {(one.source, one.target) for one in ours.lineage("tall").edges}
    assert ("dataset:pets@1.0.2", "dataset:tall@1.0.0") in edges
    assert ("dataset:pets@1.0.1", "dataset:tall@1.0.0") not in edges


def test_files_made_of_a_version_of_theirs_stay_made_of_it(fork: Repo, here: Path) -> None:
    save(fork, "main", [1])
    fork.switch("x")
    save(fork, "x", [2])
    (here / "model").write_text("m")
    fork.add("model")
    fork.commit("trained", uses=["pets@1.0.1"])
    fork.switch("main")
    fork.merge("x")
    used = [one.source for one in fork.datasets().lineage("pets@1.0.2").edges if "model" in one.target]
    assert used == ["dataset:pets@1.0.2"]


# -- what is said of the same rows -----------------------------------------------------------------


def test_the_same_rows_under_one_number_are_one_version_with_what_both_say(fork: Repo) -> None:
    save(fork, "main", [1], description="ours", tags=["a"])
    save(fork, "x", [1], tags=["b"], attrs=["team:x"])
    edit(fork, "x", "pets", metrics={"acc": 0.5})
    merged = fork.merge("x")
    found = fork.datasets().get("pets")
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1]} and not merged.moved and not merged.conflicts
    assert (found.description, found.tags, found.attrs) == ("ours", ("a", "b"), ("team:x",))
    assert found.metrics == {"acc": 0.5}


def test_edits_of_one_version_on_both_sides_are_merged_field_by_field(fork: Repo) -> None:
    edit(fork, "main", "pets", tags=("old", "both"), metrics={"acc": 1, "f1": 1})
    fork.branches.create("x", force=True)
    edit(fork, "main", "pets", description="words", metrics={"acc": 2}, tags=("both", "ours"))
    edit(fork, "x", "pets", attrs=("k:v",), metrics={"f1": 2, "auc": 3}, tags=("old", "both", "theirs"))
    assert not fork.merge("x").conflicts
    found = fork.datasets().get("pets")
    assert found.metrics == {"acc": 2, "f1": 2, "auc": 3} and found.tags == ("both", "ours", "theirs")
    assert found.description == "words" and found.attrs == ("k:v",)


@pytest.mark.parametrize(("side", "described"), [("ours", "one"), ("theirs", "two")])
def test_a_field_both_changed_is_chosen_and_the_others_are_merged_all_the_same(
    fork: Repo, side: str, described: str
) -> None:
    edit(fork, "main", "pets", description="one", metrics={"acc": 1})
    edit(fork, "x", "pets", description="two", metrics={"f1": 2})
    [met] = fork.merge("x").conflicts
    assert met.path == "datasets/pets/1.0.0" and fork.status().merged == 0
    told = fork.pending_merge.sides(met)
    assert told is not None and told.name.endswith("(description)")
    assert (told.ours, told.theirs) == ('{"description": "one"}', '{"description": "two"}')
    assert fork.upkeep.gc(prune=True).objects == 0
    fork.pending_merge.choose(side, met.path)
    fork.pending_merge.conclude()
    found = fork.datasets().get("pets")
    assert found.description == described and found.metrics == {"acc": 1, "f1": 2}


@pytest.mark.parametrize(("side", "described"), [("ours", "one"), ("theirs", "two"), ("latest", "two")])
def test_a_field_is_settled_by_resolve_and_by_a_strategy_alike(fork: Repo, side: str, described: str) -> None:
    edit(fork, "main", "pets", description="one", metrics={"acc": 1})
    edit(fork, "x", "pets", description="two", metrics={"f1": 2})
    [place] = fork.merge("x").places()
    assert (place.kind, place.ours, place.theirs) == ("dataset", '{"description": "one"}', '{"description": "two"}')
    assert fork.pending_merge.resolve(side, place.path) == ()
    fork.pending_merge.abort()
    assert not fork.merge("x", strategy=side).conflicts
    found = fork.datasets().get("pets")
    assert found.description == described and found.metrics == {"acc": 1, "f1": 2}


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_param_is_chosen_with_all_that_is_known_of_it(fork: Repo, side: str) -> None:
    for branch, value in (("main", 1), ("x", 2)):
        save(fork, branch, [5])
        told = {"params": {"lr": {"value": value, "type": "int", "from": branch}, branch: {"value": 0}}}
        edit(fork, branch, "pets", params={"lr": value, branch: 0}, provenance=told)
    assert len(fork.merge("x").conflicts) == 1
    fork.pending_merge.choose(side), fork.pending_merge.conclude()
    found, chosen = fork.datasets().get("pets@1.0.1"), {"ours": 1, "theirs": 2}[side]
    assert found.params == {"lr": chosen, "main": 0, "x": 0}
    assert {name: one["value"] for name, one in found.provenance["params"].items()} == found.params


def test_the_same_rows_made_another_way_are_no_conflict(fork: Repo) -> None:
    save(fork, "main", [5])
    fork.datasets("x").read_records([{"x": 5}]).save("pets")
    ours = fork.datasets().get("pets").provenance
    assert not fork.merge("x").conflicts and fork.datasets().get("pets@1.0.1").provenance == ours


def test_a_version_one_side_deleted_and_the_other_edited_is_deleted_and_edited(fork: Repo) -> None:
    fork.datasets("x").delete_dataset("pets", "1.0.0")
    edit(fork, "main", "pets", description="words")
    fork.merge("x")
    assert rows(fork) == {}
    fork.datasets().restore_dataset("pets")
    assert fork.datasets().get("pets").description == "words"


def test_rows_that_both_saved_and_one_deleted_are_kept(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [1])
    fork.datasets("x").delete_dataset("pets", "1.0.1")
    fork.merge("x")
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1]}


# -- other verbs -----------------------------------------------------------------------------------


def test_such_a_merge_is_undone_redone_and_reverted(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    before = rows(fork)
    fork.merge("x")
    after = rows(fork)
    fork.undo()
    assert rows(fork) == before
    fork.redo()
    assert rows(fork) == after
    fork.revert("HEAD", mainline=1)
    assert rows(fork) == before and rows(fork, "x") == {"1.0.0": [0], "1.0.1": [2]}


def test_a_cherry_pick_of_a_save_counts_on_as_a_merge_does(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    picked = fork.cherry_pick("x")
    assert picked.moved == {"datasets/pets/1.0.1": "datasets/pets/1.0.2"} and picked.name == "branch x"
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    fork.revert("HEAD")
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1]}


@pytest.mark.parametrize("verb", ["cherry_pick", "revert"])
def test_a_save_cannot_be_picked_or_reverted_into_the_stage_which_holds_files_alone(fork: Repo, verb: str) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    with pytest.raises(ml.errors.InvalidInput, match=r"would stage 'datasets/pets/1.0.\d'.*Nothing was changed"):
        getattr(fork, verb)("x" if verb == "cherry_pick" else "HEAD", no_commit=True)
    assert fork.status().clean and fork.pending_merge.conflicts == ()


def test_a_cherry_pick_of_what_is_here_already_says_so(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    fork.cherry_pick("x")
    with pytest.raises(ml.errors.Nothing, match="done already"):
        fork.cherry_pick("x")


def test_a_save_that_comes_while_a_merge_counts_is_not_overwritten(fork: Repo, here: Path) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    kinds, late = fork._history.kinds, [[3]]
    join = kinds["dataset"].join
    assert join is not None

    def meanwhile(*given: Any) -> Any:
        done = join(*given)
        while late:
            with ml.open(here) as other:
                assert save(other, "main", late.pop()) == "1.0.2"  # the number that was free
        return done

    kinds["dataset"] = kinds["dataset"]._replace(join=meanwhile)
    fork.merge("x")
    assert rows(fork) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [3], "1.0.3": [2]}


# -- again and back --------------------------------------------------------------------------------


@pytest.fixture
def met(fork: Repo) -> Repo:
    """x was merged into main: its 1.0.1 is 1.0.2 there; x goes on."""
    save(fork, "main", [1])
    save(fork, "x", [2])
    fork.merge("x")
    return fork


def test_what_is_said_later_of_a_version_reaches_it_under_its_number_here(met: Repo) -> None:
    edit(met, "main", "pets@1.0.2", metrics={"acc": 1})
    edit(met, "x", "pets@1.0.1", description="more", metrics={"f1": 2})
    met.merge("x")
    assert rows(met) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    found = met.datasets().get("pets@1.0.2")
    assert (found.description, found.metrics) == ("more", {"acc": 1, "f1": 2})


def test_a_field_both_changed_of_a_renumbered_version_does_not_touch_the_one_with_its_old_number(met: Repo) -> None:
    edit(met, "main", "pets@1.0.2", description="ours")
    edit(met, "x", "pets@1.0.1", description="theirs")
    [conflict] = met.merge("x").conflicts
    assert conflict.path == "datasets/pets/1.0.2"
    met.pending_merge.choose("theirs"), met.pending_merge.conclude()
    assert rows(met) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    assert [met.datasets().get(f"pets@1.0.{n}").description for n in (1, 2)] == ["", "theirs"]


def test_a_merge_back_takes_the_numbers_the_other_side_gave(met: Repo) -> None:
    edit(met, "x", "pets@1.0.1", description="edited meanwhile")
    met.switch("x")
    met.merge("main")
    assert rows(met, "x") == rows(met) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}
    assert met.datasets().get("pets@1.0.2").description == "edited meanwhile"
    met.switch("main")
    met.merge("x")
    assert rows(met) == {"1.0.0": [0], "1.0.1": [1], "1.0.2": [2]}


def test_branches_merged_into_each_other_at_once_agree_in_the_end(fork: Repo) -> None:
    save(fork, "main", [1])
    save(fork, "x", [2])
    fork.branches.create("old")
    fork.merge("x")
    fork.switch("x")
    fork.merge("old")
    assert rows(fork, "x") == {"1.0.0": [0], "1.0.1": [2], "1.0.2": [1]}
    assert not fork.merge("main").conflicts
    assert sorted(rows(fork, "x").values()) == [[0], [1], [2]]
    fork.switch("main")
    fork.merge("x")
    assert rows(fork) == rows(fork, "x")


@pytest.mark.parametrize("seed", [1, 2, 36, 37])
def test_no_version_of_either_side_is_ever_lost_or_doubled(fork: Repo, seed: int) -> None:
    """Saves, edits and merges in any order: a branch has what it saved and what was merged into it, each once."""
    chance, made = random.Random(seed), {"main": {0}, "x": {0}}
    for number in range(1, 16):
        branch, other = chance.sample(["main", "x"], 2)
        act = chance.choice(["save", "save", "edit", "merge"])
        if act == "save":
            save(fork, branch, [number], update_version=chance.choice(["patch", "minor", "major"]))
            made[branch].add(number)
        elif act == "edit":
            spec = chance.choice(fork.datasets(branch).versions("pets")).spec
            edit(fork, branch, spec, metrics={f"m{number}": number})
        else:
            fork.switch(branch)
            assert not fork.merge(other).conflicts
            made[branch] |= made[other]
        assert sorted(value for [value] in rows(fork, branch).values()) == sorted(made[branch])


def test_an_entry_written_by_a_merge_keeps_its_rows_from_gc(met: Repo) -> None:
    met.branches.delete("x", force=True)
    met.upkeep.gc(prune=True)
    assert rows(met)["1.0.2"] == [2] and isinstance(met.objects.at("datasets/pets/1.0.2"), Entry)
