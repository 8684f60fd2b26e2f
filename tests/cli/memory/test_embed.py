"""embed: vectors of what waits, also of what another process has begun; it ends where there is no model."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import memlake as ml
from memlake.index import rows
from tests.cli.conftest import Run


@pytest.fixture
def repo(run: Run, tmp_path: Path) -> Path:
    run("init")
    run("config", "embedding.provider", "test")
    run("config", "embedding.flush_seconds", "30")  # the worker would wait longer than any command here lives
    run("remember", "Ada works from Lisbon", "--on-conflict", "add")
    run("remember", "The build is green", "--on-conflict", "add")
    return tmp_path


def test_what_waits_is_made(run: Run, repo: Path) -> None:
    assert run("embed").out == "Made 2 vectors.\n"
    assert run("embed").out == "Made 0 vectors.\n"
    assert run("embed", "--wait").out == "Made 0 vectors.\n"


def test_waiting_is_for_what_another_process_has_begun_too(run: Run, repo: Path) -> None:
    with ml.open(repo) as other:
        memories = other.memories()
        assert memories.count_waiting() == 2
        db = memories.shared.index.db
        taken = [row for row, _ in rows.claim_pending(db, 10)]
        assert len(taken) == 2 and "2 are still to do" in run("embed").out

        def give_back() -> None:
            time.sleep(0.5)
            rows.return_pending(db, taken, 0, failed=False)

        giving = threading.Thread(target=give_back)
        giving.start()
        assert run("embed", "--wait").out == "Made 2 vectors.\n"
        giving.join()


def test_without_a_model_it_ends_and_says_so(run: Run, repo: Path) -> None:
    run("config", "embedding.provider", "none")
    assert "there is no model" in run("embed", "--wait", code=1).err
