"""A repo of one's own, datasets over it, and a process that has told nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

import memlake as ml
from memlake.dataset.lineage import process_facts, runs

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def _fresh() -> Iterator[None]:
    """Params and metrics belong to a process, and tests share one."""
    process_facts.forget()
    yield
    process_facts.forget()


@pytest.fixture
def repo(here: Path, monkeypatch: pytest.MonkeyPatch, _fresh: None) -> Iterator[ml.Repo]:
    """An open repo in the current folder."""
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")
    with ml.init(str(here)) as opened:
        yield opened
        runs.wait()


@pytest.fixture
def python(repo: ml.Repo) -> Python:
    """`python("s.py")`: an interpreter of its own in the folder of the repo; fails when that does, unless told."""

    def ran(*args: str, env: dict[str, str] | None = None, check: bool = True, **how: Any) -> Any:
        given = {**os.environ, **(env or {})}
        given.pop("PYTEST_CURRENT_TEST", None)
        done = subprocess.run(
            [sys.executable, *args], env=given, capture_output=True, text=True, timeout=250, check=False, **how
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return ran


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of an S3 server."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()
