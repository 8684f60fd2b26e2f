"""A lake on a server: agents and jobs write to one bare repo, and a person looks at it without ever checking it out."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import NeedsCheckout


def test_a_lake_that_nobody_checks_out(tmp_path: Path) -> None:
    lake = tmp_path / "srv" / "lake"
    ml.init(lake, bare=True).close()

    # A job saves rows on a branch of its own; an agent remembers what it learned, on the main one.
    with ml.open(lake) as job:
        job.write({"files/params.toml": b"rate = 1\n"}, "begin")
        job.branches.create("nightly")
        job.datasets("nightly").read_values(x=[1, 2, 3]).save("scores")
    agent = ml.Agent(lake, agent_id="bot")
    agent.store_memory("scores below 2 are noise")

    # A person who looks sees both, by rev, and cannot break anything that needs files.
    with ml.open(lake) as repo:
        assert repo.datasets("nightly").read_dataset("scores").to_values("x") == [1, 2, 3]
        assert [commit.subject for commit in repo.log("main..nightly")] == ["save scores@1.0.0: 3 rows"]
        assert [hit["content"] for hit in agent.search_memory("noise")] == ["scores below 2 are noise"]
        with pytest.raises(NeedsCheckout):
            repo.merge("nightly")
        # What is simply ahead needs no merge: the branch is moved.
        repo.branches.create("main", "nightly", force=True)
        assert repo.datasets().read_dataset("scores").count() == 3
        repo.branches.delete("nightly")
        repo.upkeep.gc(prune=True)
        assert repo.upkeep.fsck(full=True).ok
        repo.upkeep.backup(tmp_path / "lake.tar")
    assert not list(lake.glob("local.db*"))
