"""Merges that metrics decide, and rules that refuse one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlake as ml
from tests.versions.conftest import Keep

Sides = Callable[..., None]
RULE = "[[rule]]\nid = 'gate'\nrequire = 'metrics.f1 >= 0.9'\nmessage = 'Ask Bo.'\n"


@pytest.fixture
def sides(repo: ml.Repo, keep: Keep) -> Sides:
    """main and dev both changed `p`; each with a score, if it is given one. HEAD is on main."""

    def made(ours: object, theirs: object, files: dict[str, str] | None = None) -> None:
        keep("base", {"p": "base\n", **(files or {})}, metrics={"f1": 0.1})
        repo.switch("dev", create=True)
        keep("theirs", {"p": "theirs\n"}, metrics={} if theirs is None else {"f1": theirs})
        repo.switch("main")
        keep("ours", {"p": "ours\n"}, metrics={} if ours is None else {"f1": ours})

    return made


@pytest.mark.parametrize(
    ("ours", "theirs", "how", "taken"),
    [
        (0.91, 0.93, {}, "theirs"),
        (0.93, 0.91, {}, "ours"),
        (0.93, 0.91, {"lower_is_better": True}, "theirs"),
        (0.91, 0.93, {"prefer": "-metrics.f1"}, "ours"),
        (0.91, 0.93, {"margin": 0.01}, "theirs"),
    ],
)
def test_the_better_side_is_taken_and_the_commit_says_why(
    repo: ml.Repo, sides: Sides, here: Path, ours: float, theirs: float, how: dict[str, float], taken: str
) -> None:
    sides(ours, theirs)
    merged = repo.merge("dev", **{"prefer": "metrics.f1", **how})  # type: ignore[arg-type]
    assert (here / "p").read_text() == f"{taken}\n"
    message = repo.show().commit.message
    assert message.startswith(f"Merge branch 'dev'\n\np: {taken}, because metrics.f1 is {ours} in ours (")
    assert f"and {theirs} in theirs (" in message and merged.reasons == tuple(message.split("\n")[2:])
    repo.undo()
    assert (here / "p").read_text() == "ours\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "how", "why"),
    [
        (None, 0.93, {}, "ours does not record metrics.f1 since it last changed"),
        (0.93, None, {}, "theirs does not record metrics.f1 since it last changed"),
        (0.91, 0.92, {"margin": 0.01}, "within the margin of 0.01"),
        (0.91, 0.91, {}, "which is the same"),
        ("high", 0.91, {}, "metrics.f1 of ours is 'high', which is not a number"),
        (True, 0.91, {}, "which is not a number"),
    ],
)
def test_what_cannot_be_compared_stays_a_conflict(
    repo: ml.Repo, sides: Sides, ours: object, theirs: object, how: dict[str, float], why: str
) -> None:
    sides(ours, theirs)
    merged = repo.merge("dev", prefer="metrics.f1", **how)  # type: ignore[arg-type]
    assert merged.commit is None and [one.choice for one in merged.conflicts] == [None]
    assert why in merged.reasons[0] and merged.reasons[0].startswith("p: undecided, because ")
    merged.choose("theirs", "p")
    assert "because" not in repo.show(merged.conclude().commit or "").commit.message


def test_a_score_counts_only_from_the_last_change_of_the_path_on(repo: ml.Repo, keep: Keep, sides: Sides) -> None:
    sides(0.5, 0.9)
    keep("later", {"p": "ours again\n"})
    assert "ours does not record" in repo.merge("dev", prefer="metrics.f1").reasons[0]
    repo.pending_merge.abort()
    keep("of another model", {"q": "1"}, metrics={"f1": 0.6})  # counts, because the commit of `p` has none
    repo.commit("measured", metrics={"f1": 0.95}, allow_empty=True)
    keep("of one more", {"q": "2"}, metrics={"f1": 0.1})
    assert "ours, because metrics.f1 is 0.1 in ours" not in (
        reason := repo.merge("dev", prefer="metrics.f1").reasons[0]
    )
    assert "p: ours, because metrics.f1 is 0.95 in ours" in reason


def test_the_score_of_another_commit_does_not_replace_that_of_the_path(repo: ml.Repo, keep: Keep, sides: Sides) -> None:
    sides(0.95, 0.9)
    keep("another model", {"q": "1"}, metrics={"f1": 0.1})
    assert "0.95 in ours" in repo.merge("dev", prefer="metrics.f1").reasons[0]


def test_what_metrics_decide_is_in_the_files_while_the_rest_waits(
    repo: ml.Repo, keep: Keep, here: Path, write: Callable[[dict[str, str]], None]
) -> None:
    keep("base", {"a": "0\n", "b": "0\n"})
    repo.switch("dev", create=True)
    keep("a of dev", {"a": "dev\n"}, metrics={"f1": 0.9})
    keep("b of dev", {"b": "dev\n"})
    repo.switch("main")
    keep("a and b of main", {"a": "main\n", "b": "main\n"}, metrics={"f1": 0.5})
    merged = repo.merge("dev", prefer="metrics.f1")
    assert {one.path: one.choice for one in merged.conflicts} == {"files/a": "theirs", "files/b": None}
    assert (here / "a").read_text() == "dev\n" and "<<<<<<<" in (here / "b").read_text()
    repo.pending_merge.choose("ours", "b")
    done = repo.commit("both", metrics={"f1": 0.7})
    assert done.message.startswith("both\n\na: theirs, because") and "b:" not in done.message
    assert repo.read("a") == b"dev\n" and repo.read("b") == b"main\n"


def test_a_person_may_choose_otherwise_and_the_reason_goes(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"a": "0\n", "b": "0\n"})
    repo.switch("dev", create=True)
    keep("dev", {"a": "dev\n"}, metrics={"f1": 0.9})
    keep("dev", {"b": "dev\n"})
    repo.switch("main")
    keep("main", {"a": "main\n", "b": "main\n"}, metrics={"f1": 0.5})
    merged = repo.merge("dev", prefer="metrics.f1")
    merged.choose("ours", "a", "b")
    repo.pending_merge.conclude()
    assert repo.read("a") == b"main\n" and "because" not in repo.show().commit.message


def test_a_side_that_removed_the_path_is_never_preferred(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"a": "0\n"})
    repo.switch("dev", create=True)
    repo.rm("a")
    repo.commit("gone", metrics={"f1": 0.9})
    repo.switch("main")
    keep("main", {"a": "main\n"}, metrics={"f1": 0.5})
    assert "one side does not have it" in repo.merge("dev", prefer="metrics.f1").reasons[0]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"prefer": "accuracy"}, "character 1"),
        ({"prefer": "metrics.f1", "margin": -1.0}, "0 or more"),
        ({"prefer": "metrics.f1", "margin": float("nan")}, "0 or more"),
        ({"margin": 0.1}, "belong to prefer"),
        ({"prefer": "metrics.f1", "strategy": "ours"}, "leaves nothing to prefer"),
    ],
)
def test_a_wrong_preference_is_refused_before_anything_is_done(
    repo: ml.Repo, sides: Sides, how: dict[str, float], why: str
) -> None:
    sides(0.5, 0.9)
    with pytest.raises(ml.errors.InvalidInput, match=why):
        repo.merge("dev", **how)  # type: ignore[arg-type]
    assert repo.status().doing is None


# -- rules of the branch --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "prefer", "said"),
    [
        ("margin = 0.1", {}, "within the margin of 0.1 (the margin is that of rule best)"),
        ("margin = 0.001", {"margin": 0.1}, "within the margin of 0.1"),
        ("margin = 0.001", {}, "theirs"),
        ("margin = 0.1", {"lower_is_better": True}, "lower is better (--prefer, instead of rule best)"),
        (
            "margin = 0.1",
            {"prefer": "metrics.recall"},
            "does not record metrics.recall since it last changed (--prefer, inst",
        ),
    ],
)
def test_what_is_typed_goes_before_a_rule_but_not_below_its_margin(
    repo: ml.Repo, sides: Sides, keep: Keep, rule: str, prefer: dict[str, Any], said: str
) -> None:
    sides(0.91, 0.93)
    keep("rules", {"policy/merge.toml": f"[[rule]]\nid = 'best'\nprefer = 'metrics.f1'\n{rule}\n"})
    (reason,) = repo.merge("dev", **{"prefer": "metrics.f1", **prefer}).reasons
    assert said in reason


def test_a_rule_prefers_for_the_paths_it_names(repo: ml.Repo, sides: Sides, keep: Keep) -> None:
    sides(0.5, 0.9)
    keep("rules", {"policy/merge.toml": "[[rule]]\nid = 'best'\npaths = 'p'\nprefer = 'metrics.f1'\n"})
    assert repo.merge("dev").reasons[0].endswith("(rule best)") and repo.read("p") == b"theirs\n"


def test_a_rule_for_other_paths_or_branches_decides_nothing(repo: ml.Repo, sides: Sides, keep: Keep) -> None:
    sides(0.5, 0.9)
    rules = "[[rule]]\nid = 'a'\npaths = 'q'\nprefer = 'metrics.f1'\n" + (
        "[[rule]]\nid = 'b'\nbranches = 'prod'\nprefer = 'metrics.f1'\n"
    )
    keep("rules", {"policy/merge.toml": rules})
    merged = repo.merge("dev")
    assert merged.conflicts and not merged.reasons


def test_two_edits_of_a_text_that_a_rule_names_are_not_joined_but_chosen(repo: ml.Repo, keep: Keep) -> None:
    rule = "[[rule]]\nid = 'best'\npaths = 'prompts/'\nprefer = 'metrics.f1'\n"
    keep("base", {"prompts/a": "1\n2\n3\n4\n5\n", "notes": "1\n2\n3\n4\n5\n", "policy/merge.toml": rule})
    repo.switch("dev", create=True)
    keep("dev", {"prompts/a": "one\n2\n3\n4\n5\n", "notes": "one\n2\n3\n4\n5\n"}, metrics={"f1": 0.9})
    repo.switch("main")
    keep("main", {"prompts/a": "1\n2\n3\n4\nfive\n", "notes": "1\n2\n3\n4\nfive\n"}, metrics={"f1": 0.5})
    assert "prompts/a: theirs" in repo.merge("dev").reasons[0]
    assert repo.read("prompts/a") == b"one\n2\n3\n4\n5\n" and repo.read("notes") == b"one\n2\n3\n4\nfive\n"
    repo.undo()
    repo.commit("worse than I thought", metrics={"f1": "?"}, allow_empty=True)
    merged = repo.merge("dev")
    assert [one.path for one in merged.conflicts] == ["files/prompts/a"]
    merged.choose("ours", "prompts/a")
    repo.pending_merge.conclude()
    assert repo.read("prompts/a") == b"1\n2\n3\n4\nfive\n"


@pytest.mark.parametrize("rule", [RULE, RULE + "paths = ['p']\n"])
def test_a_rule_that_requires_refuses_the_merge_by_its_name(
    repo: ml.Repo, keep: Keep, sides: Sides, rule: str, here: Path
) -> None:
    keep("rules", {"policy/merge.toml": rule})
    repo.switch("dev", create=True)
    keep("model", {"p": "1\n"}, metrics={"f1": 0.85})
    repo.switch("main")
    with pytest.raises(ml.errors.Denied, match=r"rule 'gate' of policy/merge\.toml refuses this merge") as refused:
        repo.merge("dev")
    assert "is 0.85, and it requires metrics.f1 >= 0.9. Ask Bo." in refused.value.message
    assert not (here / "p").exists() and repo.status().doing is None
    assert repo.merge("dev", metrics={"f1": 0.92}).commit  # measured on the merge itself


def test_a_rule_that_requires_holds_when_a_waiting_merge_is_concluded(repo: ml.Repo, keep: Keep, sides: Sides) -> None:
    sides(0.5, 0.6)
    keep("rules", {"policy/merge.toml": RULE + "paths = ['p']\n"})
    merged = repo.merge("dev")
    assert merged.conflicts
    merged.choose("theirs", "p")
    with pytest.raises(ml.errors.Denied, match=r"of p is 0\.6"):
        repo.pending_merge.conclude()
    repo.pending_merge.choose("ours", "p")  # then nothing comes that the rule is about
    assert repo.pending_merge.conclude().commit


def test_a_branch_is_not_judged_by_rules_that_it_brings_itself(repo: ml.Repo, keep: Keep) -> None:
    keep("rules", {"policy/merge.toml": RULE})
    repo.switch("dev", create=True)
    keep("weaker", {"policy/merge.toml": RULE.replace("0.9", "0.1")}, metrics={"f1": 0.5})
    repo.switch("main")
    with pytest.raises(ml.errors.Denied, match=r">= 0\.9"):
        repo.merge("dev")


def test_a_broken_file_refuses_the_merge(repo: ml.Repo, keep: Keep, sides: Sides) -> None:
    sides(0.5, 0.9)
    keep("rules", {"policy/merge.toml": "[[rule]]\nid = 'a'\nrequire = 'metrics.f1 >= high'\n"})
    with pytest.raises(ml.errors.InvalidInput, match=r"policy/merge\.toml is wrong in line 3"):
        repo.merge("dev")
    assert repo.status().doing is None


def test_a_strategy_that_is_typed_comes_before_a_rule_that_prefers(repo: ml.Repo, sides: Sides, keep: Keep) -> None:
    sides(0.5, 0.9)
    keep("rules", {"policy/merge.toml": "[[rule]]\nid = 'best'\npaths = 'p'\nprefer = 'metrics.f1'\n"})
    repo.merge("dev", strategy="ours")
    assert repo.read("p") == b"ours\n"


@pytest.fixture
def tables(repo: ml.Repo, keep: Keep) -> Sides:
    """main and dev both changed row 1 of `d.csv`, main also row 2 and added row 4, dev row 3. HEAD is on main."""

    def made(ours: float, theirs: float, files: dict[str, str] | None = None) -> None:
        keep("base", {"d.csv": "id,v\n1,a\n2,b\n3,c\n", **(files or {})})
        repo.switch("dev", create=True)
        keep("theirs", {"d.csv": "id,v\n1,x\n2,b\n3,cc\n"}, metrics={"f1": theirs})
        repo.switch("main")
        keep("ours", {"d.csv": "id,v\n1,m\n2,bb\n3,c\n4,new\n"}, metrics={"f1": ours})

    return made


BY_PLACE = "[[rule]]\nid = 'best'\nprefer = 'metrics.f1'\n"


@pytest.mark.parametrize(("ours", "theirs", "taken", "value"), [(0.8, 0.9, "theirs", "x"), (0.9, 0.8, "ours", "m")])
@pytest.mark.parametrize("policy", ["", BY_PLACE])
def test_of_a_table_metrics_decide_only_the_places_that_both_changed(
    repo: ml.Repo, tables: Sides, here: Path, ours: float, theirs: float, taken: str, value: str, policy: str
) -> None:
    tables(ours, theirs, {"policy/merge.toml": policy} if policy else {})
    merged = repo.merge("dev", prefer=None if policy else "metrics.f1")
    assert (here / "d.csv").read_text() == f"id,v\n1,{value}\n2,bb\n3,cc\n4,new\n"
    assert repo.read("d.csv") == (here / "d.csv").read_bytes() and repo.status().clean
    assert merged.reasons[0].startswith(f"d.csv: {taken} at 1 place that both changed, because metrics.f1 is {ours} in")
    assert merged.reasons[0] in repo.show().commit.message


def test_a_document_keeps_what_only_one_side_changed_when_metrics_decide(repo: ml.Repo, keep: Keep) -> None:
    keep("base", {"c.json": '{\n  "a": 0,\n  "b": 0,\n  "c": 0\n}\n'})
    repo.switch("dev", create=True)
    keep("theirs", {"c.json": '{\n  "a": 1,\n  "b": 1,\n  "c": 0\n}\n'}, metrics={"f1": 0.9})
    repo.switch("main")
    keep("ours", {"c.json": '{\n  "a": 2,\n  "b": 0,\n  "c": 2\n}\n'}, metrics={"f1": 0.5})
    repo.merge("dev", prefer="metrics.f1")
    assert json.loads(repo.read("c.json")) == {"a": 1, "b": 1, "c": 2}


def test_a_rule_that_names_a_table_takes_the_whole_file_that_was_scored(repo: ml.Repo, tables: Sides) -> None:
    tables(0.8, 0.9, {"policy/merge.toml": BY_PLACE + "paths = ['*.csv']\n"})
    assert "place" not in repo.merge("dev").reasons[0]
    assert repo.read("d.csv") == b"id,v\n1,x\n2,b\n3,cc\n"


def test_places_that_metrics_decide_are_in_the_file_while_the_rest_waits(
    repo: ml.Repo, keep: Keep, tables: Sides, here: Path
) -> None:
    tables(0.8, 0.9, {"b": "0\n"})
    keep("main", {"b": "main\n"})
    repo.switch("dev")
    keep("dev", {"b": "dev\n"})
    repo.switch("main")
    merged = repo.merge("dev", prefer="metrics.f1")
    joined = "id,v\n1,x\n2,bb\n3,cc\n4,new\n"
    assert {one.path: one.choice for one in merged.conflicts} == {"files/b": None, "files/d.csv": "file"}
    assert (here / "d.csv").read_text() == joined
    repo.pending_merge.choose("ours", "b")
    repo.pending_merge.resolve("ours", "d.csv")
    repo.pending_merge.resolve("theirs", "d.csv")
    done = repo.commit("both")
    assert done.message.startswith("both\n\nd.csv: theirs at 1 place") and repo.read("d.csv") == joined.encode()
    repo.undo()
    repo.pending_merge.resolve("ours", "d.csv")
    assert "because" not in repo.commit("otherwise").message
    assert repo.read("d.csv") == joined.replace("x", "m").encode()
    repo.undo()
    repo.pending_merge.choose("theirs", "d.csv")  # whole, which metrics did not say
    assert "because" not in repo.commit("whole").message and repo.read("d.csv") == b"id,v\n1,x\n2,b\n3,cc\n"


def test_a_required_score_is_asked_of_a_table_whose_open_places_stay_ours(repo: ml.Repo, tables: Sides) -> None:
    tables(0.8, 0.5, {"policy/merge.toml": RULE + "paths = ['*.csv']\n"})
    with pytest.raises(ml.errors.Denied, match=r"metrics\.f1 of d\.csv is 0\.5"):
        repo.merge("dev", prefer="metrics.f1")
