"""Policy files: what a rule may say, and how a wrong one is refused."""

from __future__ import annotations

import pytest

import memlake as ml
from memlake.governance.policy import Rule, parse_preference, read_rules
from tests.versions.conftest import Keep

GOOD = """
# Who may ship.
[[rule]]
id = "good-enough"
on = "merge"
branches = ["prod*", "main"]
paths = ["models/", "*.pt", "data/**/eval.json"]
require = "metrics.accuracy >= 0.9"
message = "Ask the team."

[[rule]]
id = "better"
prefer = "-metrics.loss"
margin = 0.01
"""


def read(repo: ml.Repo, verb: str = "merge", branch: str | None = "main") -> tuple[Rule, ...]:
    return read_rules(repo._history, repo.show().commit, verb, branch)


def test_rules_are_read_from_the_files_of_a_commit(repo: ml.Repo, keep: Keep) -> None:
    keep("one", {"a": "1"})
    assert read(repo) == ()
    keep("rules", {"policy/merge.toml": GOOD})
    good, better = read(repo)
    assert (good.id, good.source, good.message) == ("good-enough", "policy/merge.toml", "Ask the team.")
    assert good.require is not None and str(good.require.comparisons[0]) == "metrics.accuracy >= 0.9"
    assert better.prefer == parse_preference("metrics.loss", margin=0.01, lower=True)
    assert [rule.id for rule in read(repo, branch="dev")] == ["better"] == [rule.id for rule in read(repo, branch=None)]
    assert read(repo, "promote") == ()


@pytest.mark.parametrize(
    ("path", "is_meant"),
    [
        ("models/a.bin", True), ("models/deep/a.bin", True), ("other/models/a.bin", True), ("x/y.pt", True),
        ("data/eval.json", True), ("data/a/b/eval.json", True), ("data/eval.jsonl", False), ("my-models/a", False),
        ("x.pt.txt", False),
    ],
)  # fmt: skip
def test_patterns_of_paths_mean_what_they_mean_in_memlakeignore(
    repo: ml.Repo, keep: Keep, path: str, is_meant: bool
) -> None:
    keep("rules", {"policy/merge.toml": GOOD})
    assert read(repo)[0].is_about_path(f"files/{path}") == is_meant


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[[rule]\n", 0, "it is not TOML"),
        ("\xff", 0, "it is not TOML"),
        ("strict = true\n", 1, "'strict' is not known"),
        ("[rule]\nid = 'x'\n", 1, "'rule' is not known; a file holds [[rule]] tables alone"),
        ("[[rule]]\nrequire = 'metrics.a > 1'\n", 1, "a rule needs a name"),
        ("\n[[rule]]\nid = 'a'\nrequires = 'metrics.a > 1'\n", 4, "'requires' is not known; a rule has id, on,"),
        ("[[rule]]\nid = 'a b'\nrequire = 'metrics.a > 1'\n", 2, "an id has letters"),
        ("[[rule]]\nid = 'a'\n", 1, "either require or prefer"),
        ("[[rule]]\nid = 'a'\nrequire = 'metrics.a > 1'\nprefer = 'metrics.a'\n", 3, "either require or prefer"),
        ("[[rule]]\nid = 'a'\non = 'promote'\nprefer = 'metrics.a'\n", 3, "are on 'merge', and this one is on"),
        ("[[rule]]\nid = 'a'\nrequire = 'metric.a > 1'\n", 3, "there is no fact 'metric'"),
        ("[[rule]]\nid = 'a'\nrequire = 'metrics.a => 1'\n", 3, "wrong at character 11"),
        ("[[rule]]\nid = 'a'\nprefer = 'metrics.a > 1'\n", 3, "the name of a fact ends here"),
        ("[[rule]]\nid = 'a'\nprefer = 'metrics.a'\nmargin = -1\n", 3, "a margin is a number of 0 or more"),
        ("[[rule]]\nid = 'a'\nprefer = 'metrics.a'\nmargin = '1'\n", 3, "margin takes a number"),
        ("[[rule]]\nid = 'a'\nrequire = 'metrics.a > 1'\nmargin = 1\n", 4, "a margin belongs to prefer"),
        ("[[rule]]\nid = 'a'\nrequire = 1\n", 3, "require takes a text"),
        ("[[rule]]\nid = 'a'\npaths = []\nrequire = 'metrics.a > 1'\n", 3, "paths takes a pattern or a list"),
        ("[[rule]]\nid = 'a'\npaths = ['[']\nrequire = 'metrics.a > 1'\n", 3, "is not a pattern"),
        ("[[rule]]\nid = 'a'\npaths = '*a*a*a*a*a'\nrequire = 'metrics.a > 1'\n", 3, "more than 4 stars"),
        ("[[rule]]\nid='a'\nprefer='metrics.a'\n[[rule]]\nid = 'a'\nprefer = 'metrics.b'\n", 5, "two rules are called"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_its_line(
    repo: ml.Repo, keep: Keep, text: str, line: int, why: str
) -> None:
    keep("rules", {"policy/merge.toml": text.encode("latin-1")})
    with pytest.raises(ml.errors.InvalidInput) as refused:
        read(repo)
    assert why in refused.value.message and "nothing was changed" in refused.value.message
    assert (f"policy/merge.toml is wrong in line {line}:" in refused.value.message) == bool(line)
    assert refused.value.hint.endswith("memlake cat main:policy/merge.toml")


def test_only_a_merge_can_prefer_a_side(repo: ml.Repo, keep: Keep) -> None:
    keep("rules", {"policy/promote.toml": "[[rule]]\nid = 'a'\nprefer = 'metrics.a'\n"})
    with pytest.raises(ml.errors.InvalidInput, match="only a merge has two sides"):
        read(repo, "promote")


def test_a_file_of_rules_has_bounds(repo: ml.Repo, keep: Keep) -> None:
    keep("rules", {"policy/merge.toml": "#" * (1 << 19)})
    with pytest.raises(ml.errors.InvalidInput, match="256 KiB"):
        read(repo)
