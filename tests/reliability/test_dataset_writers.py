"""Many processes save, edit, switch, commit and collect at once: every version is there, in order, with its rows."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset import save
from memlake.objects.leases import Keeping
from memlake.objects.store import Objects
from memlake.repo import Repo
from tests.reliability.dataset_ground import numbers
from tests.reliability.ground import TORTURE, assert_sound, fast_folder, init, put, python

WRITERS, SAVES = (8, 40) if TORTURE else (3, 4)

_BEGIN = """
import sys, time
import memlake as ml
root, me, begin, count = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
repo = ml.open(root)
data = repo.datasets()
data.read_values(x=[0]).map(y=lambda x: x).to_list()
time.sleep(max(0, begin - time.time()))
"""
_SAVE = """
for number in range(count):
    data.read_values(writer=[me] * 3, number=[number] * 3, row=[0, 1, 2]).save({name!r}.format(me=me))
repo.close()
"""
_METRIC = """
from memlake.dataset import save as saving
version = data.context.find("numbers")
for number in range(count):
    saving.merge_into(data.context, version, "metrics", {f"m{me}_{number}": number})
repo.close()
"""
_SLOW_SAVE = """
import os
def slow(x: int) -> int:
    time.sleep(0.002)
    return x + os.getpid() * 0
for number in range(count):
    first = 1000 * (me * 100 + number)
    data.read_values(x=list(range(first, first + 60))).map(y=slow).gen(z=lambda y: [y, y]).save(f"slow{me}")
repo.close()
"""


def run(root: Path, *scripts: str) -> None:
    """Each script in a process of its own, all at once."""
    begin = time.time() + 2.0 + len(scripts) * 0.25
    children = [
        python("-c", _BEGIN + script, str(root), str(n), str(begin), str(SAVES), stderr=subprocess.PIPE)
        for n, script in enumerate(scripts)
    ]
    for child in children:
        _, error = child.communicate(timeout=300)
        assert child.returncode == 0, error


def saved(repo: Repo, name: str) -> list[tuple[int, int]]:
    """(writer, number) of every version in the order of their numbers; each has its three rows."""
    data, found = repo.datasets(), []
    for number, version in enumerate(data.versions(name)):
        assert version.version == f"1.0.{number}"
        rows = data.read_dataset(version.spec).to_records()
        assert [row["row"] for row in rows] == [0, 1, 2]
        found.append((rows[0]["writer"], rows[0]["number"]))
    return found


def test_every_save_of_one_name_is_a_version_of_its_own_in_order() -> None:
    with fast_folder() as folder:
        init(folder / "repo").close()
        run(folder / "repo", *[_SAVE.format(name="one")] * WRITERS)
        with ml.open(folder / "repo") as repo:
            found = saved(repo, "one")
            assert sorted(found) == [(w, n) for w in range(WRITERS) for n in range(SAVES)]
            for writer in range(WRITERS):
                assert [n for w, n in found if w == writer] == list(range(SAVES)), "its own saves, in its own order"
            made = [c.message.split(":")[0] for c in repo.log() if c.message.startswith("save")]
            assert made == [f"save one@1.0.{n}" for n in reversed(range(len(found)))], "one commit each"
            assert_sound(repo)


def test_saves_of_many_names_do_not_lose_each_other() -> None:
    with fast_folder() as folder:
        init(folder / "repo").close()
        run(folder / "repo", *[_SAVE.format(name="name{me}")] * WRITERS)
        with ml.open(folder / "repo") as repo:
            for writer in range(WRITERS):
                assert saved(repo, f"name{writer}") == [(writer, n) for n in range(SAVES)]
            assert_sound(repo)


def test_no_metric_is_lost_when_many_edit_one_version() -> None:
    with fast_folder() as folder:
        with init(folder / "repo") as repo:
            numbers(repo.datasets()).save("numbers")
        run(folder / "repo", *[_METRIC] * WRITERS)
        with ml.open(folder / "repo") as repo:
            wanted = {f"m{w}_{n}": n for w in range(WRITERS) for n in range(SAVES)}
            assert repo.datasets().context.find("numbers").metrics == wanted


_SWITCH = """
for number in range(count):
    for branch in ("side", "main"):
        repo.switch(branch)
        time.sleep(0.05)
repo.close()
"""
_COMMIT = """
import pathlib
for number in range(count * 3):
    file = pathlib.Path(root, f"file{number}.txt")
    file.write_text(str(number))
    repo.add(file)
    repo.commit(f"file {number}")
repo.close()
"""
_GC = """
end = time.monotonic() + max(2.0, count * 0.5)
while time.monotonic() < end:
    repo.upkeep.gc(prune=True)
repo.close()
"""


def test_saves_survive_commits_and_a_gc_that_spares_nothing() -> None:
    with fast_folder() as folder:
        init(folder / "repo").close()
        run(folder / "repo", _SLOW_SAVE, _SLOW_SAVE, _SAVE.format(name="one"), _COMMIT, _GC)
        with ml.open(folder / "repo") as repo:
            data = repo.datasets()
            assert saved(repo, "one") == [(2, n) for n in range(SAVES)]
            for writer in (0, 1):
                for number in range(SAVES):
                    first = 1000 * (writer * 100 + number)
                    wanted = [x for x in range(first, first + 60) for _ in range(2)]
                    assert data.read_dataset(f"slow{writer}@1.0.{number}").to_values("z") == wanted
            assert len([c for c in repo.log() if c.message.startswith("file ")]) == SAVES * 3
            assert_sound(repo)


def test_each_save_is_on_the_branch_that_was_checked_out_then() -> None:
    with fast_folder() as folder:
        with init(folder / "repo") as repo:
            put(folder / "repo", "a.txt", "a")
            repo.add(all=True)
            repo.commit("base")
            repo.branches.create("side")
        run(folder / "repo", _SAVE.format(name="one"), _SAVE.format(name="two"), _SWITCH)
        with ml.open(folder / "repo") as repo:
            for name, writer in (("one", 0), ("two", 1)):
                found: list[tuple[int, int]] = []
                for branch in ("main", "side"):
                    there = repo.datasets(branch).context.all()
                    for version in (v for v in there if v.name == name):
                        rows = repo.datasets(branch).read_dataset(version.spec).to_records()
                        found.append((rows[0]["writer"], rows[0]["number"]))
                assert sorted(found) == [(writer, n) for n in range(SAVES)], json.dumps(found)
            assert_sound(repo)


# -- each safeguard switched off ------------------------------------------------------------------------


def test_a_gc_in_the_middle_of_a_run_leaves_what_it_sealed(tmp_path: Path) -> None:
    with init(tmp_path / "repo") as repo:
        _save_with_a_gc_before_the_commit(repo)
        assert repo.datasets().read_dataset("new").to_values("x") == list(range(40))
        assert_sound(repo)


def test_without_a_lease_what_was_sealed_is_collected_and_the_save_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeping, "take", lambda self: _NoLease())
    with init(tmp_path / "repo") as repo, monkeypatch.context() as patch:
        told, real = [], save.Collected.__init__
        patch.setattr(save.Collected, "__init__", lambda self, *a, **k: told.append(a) or real(self, *a, **k))
        _save_with_a_gc_before_the_commit(repo)
        assert told, "the lease is not what keeps it"
        assert repo.datasets().read_dataset("new").count() == 40
        assert_sound(repo)


class _NoLease:
    def renew(self) -> None:
        pass


def _save_with_a_gc_before_the_commit(repo: Repo) -> None:
    def written(self: Objects, file: Path, *, links: tuple[str, ...] = ()) -> str:
        oid = real(self, file, links=links)
        with ml.open(repo.root) as other:
            other.upkeep.gc(prune=True)
        return oid

    real = Objects.write_part
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objects, "write_part", written)
        numbers(repo.datasets()).save("new")


def test_what_was_remembered_and_then_collected_is_done_again(tmp_path: Path) -> None:
    with init(tmp_path / "repo") as repo:
        data = repo.datasets()
        numbers(data).persist()
        repo.upkeep.gc(prune=True)
        numbers(data).save("again")
        assert data.read_dataset("again").count() == 40
        assert_sound(repo)
