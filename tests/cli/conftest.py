"""The command line as tests run it: in this process for speed, in one of its own where the process matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memlake.cli.main import main

SOURCE = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True)
class Ran:
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("MEMLAKE_AUTHOR_EMAIL", "ada@example.org")
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`run("commit", "-m", "x")` in this process, in the current folder; any exit code unless `code` is given."""
    monkeypatch.chdir(tmp_path)

    def ran(*args: str, code: int | None = 0) -> Ran:
        here = os.getcwd()
        capsys.readouterr()
        got = main(list(args))
        os.chdir(here)
        out, err = capsys.readouterr()
        assert code is None or got == code, f"memlake {' '.join(args)} gave {got}\n{out}{err}"
        return Ran(got, out, err)

    return ran


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """`process("status")` in a process of its own, with real pipes."""

    def ran(*args: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, **how.pop("env", {})}
        command = [sys.executable, "-m", "memlake.cli", *args]
        return subprocess.run(command, env=env, capture_output=True, check=False, timeout=250, **how)

    return ran


Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a file under the repo's root."""

    def made(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return made


@pytest.fixture
def keep(run: Run, write: Write) -> Callable[..., str]:
    """Writes files, adds and commits them all, and gives the commit's id."""

    def kept(message: str, **files: str) -> str:
        for name, content in files.items():
            write(name.replace("__", "/"), content)
        run("add", "-A")
        run("commit", "-m", message)
        return str(run("log", "-1", "--json").json["commits"][0]["oid"])

    return kept


@pytest.fixture
def repo(run: Run, tmp_path: Path) -> Path:
    """An empty repo in the current folder."""
    run("init")
    return tmp_path


@pytest.fixture
def story(repo: Path, keep: Callable[..., str]) -> dict[str, str]:
    """Two commits on main: `a` and `data/b.csv`, then `a` changed. Maps "one" and "two" to their ids."""
    one = keep("first", a="one\n", data__b="x,y\n1,2\n")
    two = keep("second", a="one\ntwo\n")
    return {"one": one, "two": two}


@pytest.fixture
def memory_repo(run: Run, tmp_path: Path) -> Path:
    """A repo whose memories are found by words alone."""
    run("init")
    run("config", "embedding.provider", "none")
    return tmp_path


def stored(run: Run, text: str, *options: str) -> str:
    """The id of a new memory."""
    return run("remember", text, "-q", *options).out.strip()
