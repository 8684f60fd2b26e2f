"""cat of what is damaged: no byte of it, or as many as the error says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.files import browse

Keep = Callable[..., str]
Process = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def damaged(repo: Path, keep: Keep) -> bytes:
    """The content of `big`, which is damaged near its end."""
    data = os.urandom(5_000_000)
    (repo / "big").write_bytes(data)
    keep("one")
    pack = max((repo / ".memlake/packs").iterdir(), key=lambda path: path.stat().st_size)
    pack.chmod(0o644)
    with pack.open("r+b") as file:
        file.seek(4_500_000)
        file.write(b"\xa5" * 64)
    return data


def test_nothing_of_a_damaged_file_is_written(damaged: bytes, repo: Path, process: Process) -> None:
    told = process("cat", "big", cwd=repo)
    assert told.returncode == 128 and told.stdout == b"" and b"It was not served." in told.stderr


def test_of_a_damaged_file_too_large_to_be_held_the_error_says_how_much_was_written(
    damaged: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_HELD", 1 << 20)
    with (
        (tmp_path / "out").open("wb") as out,
        ml.open(tmp_path) as repo,
        pytest.raises(ml.errors.Corrupt, match="is damaged") as raised,
    ):
        browse.copy_file(repo, "big", "HEAD", out)
    written = (tmp_path / "out").read_bytes()
    assert f"The first {len(written)} bytes were written." in str(raised.value)
    assert written and damaged.startswith(written) and "not served" not in str(raised.value)


def test_a_file_too_large_to_be_held_is_written_whole(
    repo: Path, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_HELD", 1 << 20)
    data = os.urandom(3_000_000)
    (repo / "big").write_bytes(data)
    keep("one")
    with (tmp_path / "out").open("wb") as out, ml.open(tmp_path) as opened:
        browse.copy_file(opened, "big", "HEAD", out)
    assert (tmp_path / "out").read_bytes() == data
