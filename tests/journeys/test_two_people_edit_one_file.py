"""Two branches edit one config: values that do not meet are joined, one that both changed waits by its name."""

from __future__ import annotations

import json
from pathlib import Path

import memlake as ml

BASE = {"lr": 0.1, "layers": [8, 16], "data": {"split": 0.8}}


def commit(repo: ml.Repo, config: dict[str, object], message: str) -> None:
    (repo.root / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    repo.add("config.json")
    repo.commit(message)


def test_edits_of_different_values_join_and_of_one_value_wait(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        commit(repo, BASE, "the config")
        repo.branches.create("wider")
        commit(repo, BASE | {"lr": 0.01}, "slower")
        repo.switch("wider")
        commit(repo, BASE | {"layers": [8, 16, 32]}, "wider")  # the next line but one: git would join it, too
        commit(repo, BASE | {"layers": [8, 16, 32], "seed": 1}, "a seed")
        repo.switch("main")
        assert not repo.merge("wider").conflicts
        merged = json.loads((tmp_path / "config.json").read_text())
        assert merged == BASE | {"lr": 0.01, "layers": [8, 16, 32], "seed": 1}

        repo.switch("wider")
        commit(repo, BASE | {"lr": 0.5, "seed": 1}, "faster")
        repo.switch("main")
        waiting = repo.merge("wider")
        assert [conflict.path for conflict in waiting.conflicts] == ["files/config.json"]
        waiting.abort()
        assert json.loads((tmp_path / "config.json").read_text()) == merged
