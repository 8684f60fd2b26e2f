"""Work over local files that was done on one machine is not done again on another, whatever differs there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import memlake as ml

_FUNCTIONS = """
import time
from pathlib import Path

def note():
    with open({calls!r}, "a") as file:
        file.write("x")
    time.sleep(0.002)

def by_bytes(file) -> str:
    note()
    return file.read().upper()

def by_name(file) -> str:
    note()
    return file.name + file.read()

def by_place(file) -> str:
    note()
    return Path(file.get_local_path()).read_text() + str(file.last_modified)
"""
_SCRIPT = """
import sys
import memlake as ml
import functions

chain = ml.read_storage(sys.argv[1], type="text").map(text=getattr(functions, sys.argv[2]))
print("|".join(sorted(chain.save("texts").to_values("text"))))
"""
N = 12


class Machines:
    """Folders with clones of one repo; each run is a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._calls = folder, folder / "calls"
        (folder / "functions.py").write_text(_FUNCTIONS.format(calls=str(self._calls)))
        (folder / "script.py").write_text(_SCRIPT)

    def memlake(self, where: str, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "memlake.cli", *words], cwd=self.folder / where, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def run(self, where: str, function: str = "by_bytes", data: str = "data/") -> tuple[int, list[str]]:
        """How often the function was called, and what it answered for all files."""
        self._calls.write_text("")
        done = subprocess.run(
            [sys.executable, str(self.folder / "script.py"), data, function],
            cwd=self.folder / where, capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return len(self._calls.read_text()), done.stdout.strip().split("|")


def write(folder: Path, *, time: float | None = None) -> None:
    folder.mkdir(parents=True)
    for i in range(N):
        (folder / f"{i}.txt").write_text(f"text {i}")
        os.utime(folder / f"{i}.txt", None if time is None else (time, time))


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    """One machine where the work is done and pushed, and a clone in another folder that takes results."""
    machines = Machines(tmp_path)
    ml.init(tmp_path / "first").close()
    write(tmp_path / "first/data")
    machines.memlake("first", "remote", "add", "origin", "../remote", "--results")
    return machines


def share(machines: Machines) -> None:
    machines.memlake("first", "push", "-q")
    machines.memlake(".", "clone", "-q", "--results", "remote", "second/deep")


TEXTS = sorted(f"TEXT {i}" for i in range(N))


def test_files_that_are_in_the_repo_are_the_same_in_every_clone(machines: Machines) -> None:
    machines.memlake("first", "add", "data")
    machines.memlake("first", "commit", "-q", "-m", "texts")
    assert machines.run("first") == (N, TEXTS)
    share(machines)
    assert machines.run("second/deep") == (0, TEXTS)
    (machines.folder / "second/deep/data/3.txt").write_text("TEXT three")
    assert machines.run("second/deep") == (1, sorted([*(set(TEXTS) - {"TEXT 3"}), "TEXT THREE"]))
    os.rename(machines.folder / "second/deep/data", machines.folder / "second/deep/other")
    assert machines.run("second/deep", data="other/")[0] == 0


def test_files_beside_the_repo_are_the_same_where_their_bytes_are(machines: Machines) -> None:
    assert machines.run("first") == (N, TEXTS)
    share(machines)
    write(machines.folder / "second/deep/data", time=1e9)
    assert machines.run("second/deep") == (0, TEXTS)
    os.utime(machines.folder / "second/deep/data/3.txt")
    assert machines.run("second/deep") == (0, TEXTS)


def test_what_reads_names_is_done_again_under_other_names(machines: Machines) -> None:
    calls, texts = machines.run("first", "by_name")
    assert (calls, texts[0]) == (N, "0.txttext 0")
    share(machines)
    write(machines.folder / "second/deep/data", time=1e9)
    assert machines.run("second/deep", "by_name") == (0, texts)
    os.rename(machines.folder / "second/deep/data/0.txt", machines.folder / "second/deep/data/zero.txt")
    assert machines.run("second/deep", "by_name") == (1, sorted([*texts[1:], "zero.txttext 0"]))


def test_what_reads_the_place_or_the_time_is_done_by_each_machine(machines: Machines) -> None:
    assert machines.run("first", "by_place")[0] == N
    share(machines)
    write(machines.folder / "second/deep/data", time=1e9)
    calls, texts = machines.run("second/deep", "by_place")
    assert calls == N and all("2001-09-09" in text for text in texts)


def test_another_machine_that_does_not_trust_the_remote_calls_for_every_file(machines: Machines) -> None:
    assert machines.run("first") == (N, TEXTS)
    machines.memlake("first", "push", "-q")
    machines.memlake(".", "clone", "-q", "remote", "third")
    write(machines.folder / "third/data")
    assert machines.run("third") == (N, TEXTS)
