"""Two people branch a prompt, score both, and the better one ships to production; the worse one cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml

RULES = """
[[rule]]
id = "better-prompt"
paths = ["prompts/"]
prefer = "metrics.accuracy"
margin = 0.01

[[rule]]
id = "good-enough"
require = "metrics.accuracy >= 0.9"
message = "Score it on the whole test set."
"""


def write_prompt(repo: ml.Repo, text: str) -> None:
    (repo.root / "prompts").mkdir(exist_ok=True)
    (repo.root / "prompts/answer.txt").write_text(text + "\n")
    repo.add("prompts")


def score(repo: ml.Repo, accuracy: float) -> None:
    """An evaluation that runs after the prompt was committed: a commit without changes says what it measured."""
    repo.commit("Score on the test set", metrics={"accuracy": accuracy}, allow_empty=True)


def test_the_better_of_two_prompts_is_merged_to_production(tmp_path: Path) -> None:
    with ml.init(tmp_path, branch="production") as repo:
        # Production runs a prompt, and says what may replace it.
        write_prompt(repo, "Answer the question.")
        (tmp_path / "policy").mkdir()
        (tmp_path / "policy/merge.toml").write_text(RULES)
        repo.add("policy")
        repo.commit("The first prompt", metrics={"accuracy": 0.85})

        # Two branches try to do better, each with a score of its own.
        repo.switch("brief", create=True)
        write_prompt(repo, "Answer the question in one sentence.")
        repo.commit("Be brief")
        score(repo, 0.91)
        repo.switch("stepwise", create=True, at="production")
        write_prompt(repo, "Think step by step, then answer the question.")
        repo.commit("Think first")
        score(repo, 0.94)
        rows = repo.metrics("production", "brief", "stepwise", sort="accuracy")
        assert [(row.rev, row.deltas.get("accuracy")) for row in rows] == [
            ("stepwise", 0.09), ("brief", 0.06), ("production", None),
        ]  # fmt: skip

        # The brief one ships first: it alone changed the prompt, so nothing has to be decided.
        repo.switch("production")
        assert repo.merge("brief").fast_forward

        # The stepwise one changed the same line. It scored better, so it is taken, and the commit says why.
        merged = repo.merge("stepwise")
        assert merged.commit and not merged.conflicts
        assert repo.read("prompts/answer.txt", "production") == b"Think step by step, then answer the question.\n"
        message = repo.show("production").commit.message
        assert "prompts/answer.txt: theirs, because metrics.accuracy is 0.91 in ours" in message
        assert "and 0.94 in theirs" in message and message.endswith("(rule better-prompt)")

        # One that was never scored does not ship, and one that is hardly better is for a person to decide.
        repo.switch("polite", create=True, at="brief")
        write_prompt(repo, "Please answer the question in one sentence.")
        repo.commit("Be polite")
        repo.switch("production")
        with pytest.raises(
            ml.errors.Denied, match=r"rule 'good-enough'.*is not recorded.*Score it on the whole test set"
        ):
            repo.merge("polite")
        repo.switch("polite")
        score(repo, 0.945)
        repo.switch("production")
        waiting = repo.merge("polite")
        assert "within the margin of 0.01" in waiting.reasons[0]
        waiting.abort()
        assert repo.read("prompts/answer.txt", None).startswith(b"Think step by step")
