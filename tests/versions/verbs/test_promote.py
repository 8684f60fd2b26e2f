"""promote: exactly these paths as the source has them, one commit on the target, and what runs there since."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake import versions
from memlake.records import Change
from tests.versions.conftest import Keep

RULE = "[[rule]]\nid = 'gate'\nbranches = 'production'\npaths = 'models/'\nrequire = 'metrics.f1 >= 0.9'\n"


@pytest.fixture
def shop(repo: ml.Repo, keep: Keep) -> ml.Repo:
    """production has a first model; staging, where we are, has a better one and notes."""
    keep("base", {"models/a": "1", "models/old": "x", "readme": "1"})
    repo.branches.create("production")
    repo.switch("staging", create=True)
    keep("better", {"models/a": "2"}, metrics={"f1": 0.93}, params={"lr": 0.1})
    keep("notes", {"readme": "2"})
    return repo


def test_the_target_gets_exactly_these_paths_and_the_commit_says_what_came(shop: ml.Repo, here: Path) -> None:
    before = shop.show("production").commit
    done = shop.promotions.create("models/a", source="staging", to="production", message="Ship it")
    made = shop.show("production").commit
    assert (done.commit, made.parents) == (made.oid, (before.oid,))
    assert [change.path for change in shop.show(made).changes] == ["files/models/a"]
    assert shop.read("models/a", "production") == b"2" and shop.read("readme", "production") == b"1"
    with shop.open("models/a", rev="production") as file:
        assert file.read() == b"2"
    assert made.message == "Promote models/a from staging\n\nShip it\n\nmodels/a: f1=0.93"
    assert shop.show(made).metrics == {"f1": 0.93} and shop.show(made).params == {"lr": 0.1}
    (use,) = shop.show(made).uses
    assert (use["path"], use["commit"]) == ("files/models/a", shop.head) and made.author.name == "Ada"
    assert shop.branches.current == "staging" and shop.status().clean and (here / "models/a").read_text() == "2"


def test_a_folder_is_taken_whole_and_what_only_the_target_has_there_goes(shop: ml.Repo) -> None:
    shop.rm("models/old")
    shop.commit("less")
    done = shop.promotions.create("models", source="staging", to="production")
    assert sorted(change.status for change in done.changes) == ["D", "M"]
    assert [path for path, _ in shop.ls("production")] == ["files/models/a", "files/readme"]
    assert "models/old: removed" in shop.show("production").commit.message
    with pytest.raises(ml.errors.Nothing, match="already has models"):
        shop.promotions.create("models", source="staging", to="production")


def test_a_target_that_is_checked_out_takes_its_files_along(shop: ml.Repo, here: Path) -> None:
    shop.switch("production")
    (here / "readme").write_text("mine")
    shop.promotions.create("models/a", source="staging", to="production")
    assert (here / "models/a").read_text() == "2" and (here / "readme").read_text() == "mine"
    assert [change.path for change in shop.status().unstaged] == ["files/readme"]
    shop.undo()
    assert (here / "models/a").read_text() == "1" and (here / "readme").read_text() == "mine"
    (here / "models/a").write_text("mine, too")
    with pytest.raises(ml.errors.Conflict, match="uncommitted work"):
        shop.promotions.create("models/a", source="staging", to="production")
    assert (here / "models/a").read_text() == "mine, too" and shop.read("models/a", "production") == b"1"
    shop.add("models/a")
    with pytest.raises(ml.errors.Conflict, match="needs an empty stage"):
        shop.promotions.create("models/a", source="staging", to="production")


def test_undo_redo_and_revert_take_a_promotion_back(shop: ml.Repo) -> None:
    shop.promotions.create("models/a", source="staging", to="production")
    assert shop.undo().verb == "promote" and shop.read("models/a", "production") == b"1"
    shop.redo()
    assert shop.read("models/a", "production") == b"2"
    shop.switch("production")
    shop.revert("HEAD")
    assert shop.read("models/a") == b"1"


def test_a_rule_of_the_target_refuses_by_its_name(shop: ml.Repo, keep: Keep) -> None:
    shop.switch("production")
    keep("rules", {"policy/promote.toml": RULE})
    shop.switch("staging")
    keep("worse", {"models/a": "3"}, metrics={"f1": 0.5})
    with pytest.raises(ml.errors.Denied, match=r"rule 'gate'.*metrics\.f1 of models/a is 0\.5, and it requires"):
        shop.promotions.create("models/a", source="staging", to="production")
    keep("not measured", {"models/a": "4"})
    with pytest.raises(ml.errors.Denied, match="is not recorded for models/a since it last changed"):
        shop.promotions.create("models/a", source="staging", to="production")
    assert shop.read("models/a", "production") == b"1"
    shop.promotions.create("readme", source="staging", to="production")  # no rule is about it
    shop.commit("measured", metrics={"f1": 0.95}, allow_empty=True)
    shop.promotions.create("models/a", source="staging", to="production")
    assert shop.show("production").metrics == {"f1": 0.95}


def test_datasets_are_promoted_by_name_and_versions_of_the_target_stay(shop: ml.Repo) -> None:
    shop.datasets("production").read_values(x=[0]).save("cats")
    for rows in ([1], [1, 2]):
        shop.datasets("staging").read_values(x=rows).save("pets")
    shop.promotions.create("pets@1.0.0", source="staging", to="production")
    assert [one.version for one in shop.datasets("production").versions("pets")] == ["1.0.0"]
    shop.promotions.create("pets", source="staging", to="production")
    datasets = shop.datasets("production")
    assert [one.version for one in datasets.versions("pets")] == ["1.0.0", "1.0.1"] and datasets.versions("cats")
    assert datasets.read_dataset("pets").to_values("x") == [1, 2]


def test_what_runs_is_listed_with_what_the_source_has_since(shop: ml.Repo, keep: Keep) -> None:
    assert shop.promotions.list() == []
    shop.promotions.create("models/a", "readme", source="staging", to="production")
    model, notes = shop.promotions.list("production")
    assert (model.path, model.source, model.other) == ("files/models/a", "staging", None)
    assert model.commit == notes.commit == shop.show("production").commit.oid
    keep("best", {"models/a": "3"}, metrics={"f1": 0.97})
    model, notes = shop.promotions.list()
    assert model.other is not None and (model.other.rev, dict(model.other.metrics)) == ("staging", {"f1": 0.97})
    assert model.has_newer and notes.other is None
    shop.write({"files/models/a": "hot fix"}, "hot fix", branch="production")
    model, _ = shop.promotions.list("production")
    assert (model.source, model.subject) == ("", "hot fix")
    with pytest.raises(ml.errors.NotFound):
        shop.promotions.list("nope")


def test_promotions_are_taken_back_one_after_the_other(shop: ml.Repo, keep: Keep) -> None:
    shop.promotions.create("models/a", source="staging", to="production")
    keep("best", {"models/a": "3", "models/new": "1"}, metrics={"f1": 0.97})
    shop.promotions.create("models", source="staging", to="production")
    second = shop.promotions.undo("production", message="It was slow")
    assert second.back and shop.read("models/a", "production") == b"2"
    assert [path for path, _ in shop.ls("production", "files/models/")] == ["files/models/a", "files/models/old"]
    assert "It was slow" in shop.show("production").commit.message
    assert shop.promotions.list()[0].metrics == {"f1": 0.93}
    shop.promotions.undo()
    assert shop.read("models/a", "production") == b"1"
    with pytest.raises(ml.errors.Nothing, match="nothing was promoted to production"):
        shop.promotions.undo("production")


def test_a_path_that_changed_since_is_not_taken_back(shop: ml.Repo) -> None:
    shop.promotions.create("models/a", source="staging", to="production")
    shop.write({"files/models/a": "hot fix"}, "hot fix", branch="production")
    with pytest.raises(ml.errors.Conflict, match="changed on production since"):
        shop.promotions.undo()
    assert shop.read("models/a", "production") == b"hot fix"


@pytest.mark.parametrize(
    ("paths", "how", "error", "why"),
    [
        ((), {}, ml.errors.InvalidInput, "nothing was named"),
        (("nope",), {}, ml.errors.NotFound, "staging does not have 'nope'"),
        (("models/*.pt",), {}, ml.errors.NotFound, "does not have"),
        (("memories/a/b",), {}, ml.errors.InvalidInput, "memory lane"),
        (("models",), {"source": "nope"}, ml.errors.NotFound, "unknown rev"),
        (("models",), {"to": "nope"}, ml.errors.NotFound, "no branch 'nope'"),
    ],
)
def test_wrong_promotions_are_refused(
    shop: ml.Repo, paths: tuple[str, ...], how: dict[str, str], error: type[ml.Error], why: str
) -> None:
    with pytest.raises(error, match=why):
        shop.promotions.create(*paths, **{"source": "staging", "to": "production", **how})
    assert shop.promotions.list() == []


def test_a_file_takes_the_place_of_a_folder_but_a_folder_not_that_of_a_file_which_stays(
    shop: ml.Repo, keep: Keep, here: Path
) -> None:
    shop.write({"files/readme": None, "files/readme/deep": "x"}, "folder", branch="production")
    shop.promotions.create("readme", source="staging", to="production")
    assert shop.read("readme", "production") == b"2"
    (here / "readme").unlink()
    keep("folder", {"readme/deep": "x"})
    with pytest.raises(ml.errors.InvalidInput, match="cannot both exist"):
        shop.promotions.create("readme/deep", source="staging", to="production")


def test_metrics_on_which_the_paths_differ_are_not_those_of_the_commit(shop: ml.Repo, keep: Keep) -> None:
    keep("b", {"models/b": "1"}, metrics={"f1": 0.5, "size": 3})
    done = shop.promotions.create("models", source="staging", to="production")
    assert done.metrics == {"size": 3}
    assert "models/a: f1=0.93\nmodels/b: f1=0.5, size=3" in shop.show("production").commit.message


def test_another_commit_on_the_target_meanwhile_is_built_upon(shop: ml.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    promoting = versions.promote
    tell = promoting._tell_path
    written: list[Change] = []

    def meanwhile(*given: object) -> str:
        if not written:
            written.extend(shop.show(shop.write({"files/other": "x"}, "meanwhile", branch="production")).changes)
        return str(tell(*given))

    monkeypatch.setattr(promoting, "_tell_path", meanwhile)
    shop.promotions.create("models/a", source="staging", to="production")
    assert shop.read("other", "production") == b"x" and shop.read("models/a", "production") == b"2"
