"""Results of functions that travel: done once is done everywhere, and only who is trusted is believed."""

from __future__ import annotations

import hashlib
import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import zstandard

import memlake as ml
from memlake.dataset.parts import frames, parquet, sums
from memlake.errors import Corrupt, Denied, Unavailable
from memlake.objects import disk
from memlake.repo import Repo
from memlake.repo import results as sharing
from memlake.versions.sync.remote import Remote
from memlake.versions.sync.root import ResultFile, Root, decode_root, encode_root

_FUNCTION = """
import time

def double(x) -> int:
    with open({calls!r}, "a") as file:
        file.write("x")
    time.sleep(0.0005)
    return x * {factor}
"""
_SCRIPT = """
import memlake as ml
from function import double

ml.read_values(x=list(range(40))).map(y=double).save("doubled")
"""


class Machines:
    """Repos that stand for machines, each with a script that notes every call of its function."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote, self._calls = folder, folder / "remote", folder / "calls"
        self.opened: list[Repo] = []

    def first(self, *, results: bool) -> Repo:
        repo = ml.init(self.folder / "first")
        self.opened.append(repo)
        repo.remotes.add("origin", self.remote, results=results)
        return repo

    def clone(self, name: str, *, results: bool, **how: Any) -> Repo:
        self.opened.append(ml.clone(self.remote, self.folder / name, results=results, **how))
        return self.opened[-1]

    def run(self, repo: Repo, *, rows: int = 40, factor: int = 2, expect: list[int] | None = None) -> int:
        """Map a function there and save; returns how often it was called. What was saved must be right."""
        script = self.folder / "function.py"
        script.write_text(_FUNCTION.format(calls=str(self._calls), factor=factor))
        self._calls.write_text("")
        double = runpy.run_path(str(script))["double"]
        chain = repo.datasets().read_values(x=list(range(rows))).map(y=double).settings(parallel=1)
        values = chain.save("doubled").to_values("y")
        assert values == ([x * factor for x in range(rows)] if expect is None else expect)
        return len(self._calls.read_text())

    def run_script(self, folder: Path) -> int:
        """The same in a process of its own, which knows nothing of this one."""
        (self.folder / "function.py").write_text(_FUNCTION.format(calls=str(self._calls), factor=2))
        (self.folder / "script.py").write_text(_SCRIPT)
        self._calls.write_text("")
        subprocess.run([sys.executable, str(self.folder / "script.py")], cwd=folder, check=True, capture_output=True)
        return len(self._calls.read_text())

    def root(self) -> Root:
        return decode_root((self.remote / "root").read_bytes(), "remote")

    def plant(self, values: list[int], *, key_of: Callable[[bytes], bytes] = lambda key: key, **change: Any) -> None:
        """Put answers of our own in the place of those at the remote: all hashes are right, the values are not."""
        (file,) = self.root().results
        data = (self.remote / "results" / file.name).read_bytes()
        (shard,), _ = sharing.decode_head(data[: file.head], self.opened[0]._id)
        path = self.folder / "planted.parquet"
        table = pa.table({"y": pa.array(values, pa.int64())}, pa.ipc.read_schema(pa.py_buffer(shard.fields)))
        family = parquet.make_family(table)
        repo = self.opened[0]
        part = repo._rows()._parts._write_file(table)
        path.write_bytes(part.read_bytes())
        part.unlink()
        oid = hashlib.sha256(path.read_bytes()).hexdigest()
        family = family._replace(oid=oid, size=path.stat().st_size, footer=sums.footer(str(path)), table=None)
        told = json.dumps(frames.encode_family(family)).encode()
        row = shard._replace(**{"family": told, "key": key_of(shard.key), **change})
        head = sharing.encode_head(repo._id, [row], [sharing.Part(bytes.fromhex(oid), family.size, True)])
        self.store(head, head + path.read_bytes())

    def store(self, head: bytes, data: bytes) -> None:
        name = hashlib.sha256(head).hexdigest()
        (self.remote / "results").mkdir(exist_ok=True)
        (self.remote / "results" / name).write_bytes(data)
        root = self.root()
        new = root._replace(generation=root.generation + 1, results=(ResultFile(name, len(data), len(head)),))
        (self.remote / "root").write_bytes(encode_root(new))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    for repo in made.opened:
        repo.close()


def test_work_done_on_one_machine_is_not_done_on_another(machines: Machines) -> None:
    first = machines.first(results=True)
    assert machines.run_script(Path(first.root)) == 40
    assert first.push().results == 1
    second = machines.clone("second", results=True)
    assert machines.run_script(Path(second.root)) == 0
    assert second.datasets().get("doubled").spec == "doubled@1.0.0"  # the same rows make no other version


def test_rows_that_are_new_elsewhere_are_the_only_ones_that_run(machines: Machines) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    second = machines.clone("second", results=True)
    assert machines.run(second, rows=50) == 10
    second.push()
    assert first.fetch().results == 1
    assert machines.run(first, rows=50) == 0


def test_a_trial_of_a_push_says_how_many_answers_would_leave(machines: Machines) -> None:
    first = machines.first(results=True)
    assert machines.run(first) == 40
    assert first.push(dry_run=True).results == 1
    assert not (machines.remote / "root").exists()
    assert (first.push().results, first.push(dry_run=True).results) == (1, 0)
    first.remotes.trust_results("origin", False)
    assert first.push(dry_run=True).results == 0


def test_a_push_of_answers_alone_says_so(machines: Machines) -> None:
    first = machines.first(results=False)
    assert machines.run(first) == 40
    first.push()
    first.remotes.trust_results("origin", True)
    command = [sys.executable, "-m", "memlake.cli", "push"]
    done = subprocess.run(command, cwd=machines.folder / "first", check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"To {machines.remote}", "Sent 1 result of functions."]


def test_nothing_of_it_travels_unless_a_person_says_so(machines: Machines) -> None:
    first = machines.first(results=False)
    machines.run(first)
    first.push()
    assert not machines.root().results and not (machines.remote / "results").exists()
    first.remotes.trust_results("origin", True)
    pushed = first.push()
    assert pushed.results == 1 and not pushed.changes and not pushed.up_to_date
    assert first.push().up_to_date
    second = machines.clone("second", results=False)
    assert machines.run(second) == 40
    second.remotes.trust_results("origin", True)
    second.remotes.trust_results("origin", False)
    assert second.fetch().results == 0


def test_a_wrong_result_of_a_remote_that_is_not_trusted_is_neither_read_nor_believed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    machines.plant([x * 1000 for x in range(40)])
    asked = list[str]()
    get = Remote.get_bytes
    monkeypatch.setattr(Remote, "get_bytes", lambda self, name, size: (asked.append(name), get(self, name, size))[1])
    second = machines.clone("second", results=False)
    assert not [name for name in asked if name.startswith("results/")]
    assert machines.run(second) == 40  # and the values are right
    trusting = machines.clone("third", results=True)  # what trust means: this shows that the plant is well made
    assert machines.run(trusting, expect=[x * 1000 for x in range(40)]) == 0


def test_an_answer_of_ours_is_not_replaced_by_one_of_a_remote(machines: Machines) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    machines.plant([x * 1000 for x in range(40)])
    assert first.fetch().results == 0
    assert machines.run(first) == 0


@pytest.mark.parametrize("place", ["head", "part", "cut"])
def test_a_damaged_result_is_left_out_and_the_function_called(machines: Machines, place: str) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push(memories=False)
    machines.plant(list(range(40)))
    (file,) = machines.root().results
    path = machines.remote / "results" / file.name
    data = bytearray(path.read_bytes())
    data[10 if place == "head" else file.head + 20] ^= 1
    path.write_bytes(data[: file.head + 3] if place == "cut" else data)
    with pytest.warns(UserWarning, match="called again"):
        second = machines.clone("second", results=True)
    assert machines.run(second) == 40


_LIES: dict[str, dict[str, Any]] = {
    "row keys of other rows": {"row_keys": b"1" * 16 * 39},
    "a count that is not theirs": {"rows": 7},
    "fields of other columns": {"fields": bytes(pa.schema([("z", pa.int64())]).serialize())},
    "fields of another type": {"fields": bytes(pa.schema([("y", pa.string())]).serialize())},
    "fields that are none": {"fields": b"\xff" * 40},
    "no function": {"function": b""},
}


@pytest.mark.parametrize("lie", _LIES)
def test_a_row_that_does_not_fit_its_part_is_left_out(machines: Machines, lie: str) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    machines.plant([x * 1000 for x in range(40)], **_LIES[lie])
    with pytest.warns(UserWarning, match="not what it says"):
        second = machines.clone("second", results=True)
    assert machines.run(second) == 40


def test_marks_that_are_not_of_the_values_are_left_out(machines: Machines) -> None:
    """Later work is keyed by the marks, so they may not claim to be of other rows."""
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    machines.plant([x * 1000 for x in range(40)])
    (file,) = machines.root().results
    data = (machines.remote / "results" / file.name).read_bytes()
    (shard,), parts = sharing.decode_head(data[: file.head], first._id)
    family = json.loads(shard.family)
    family["columns"]["y"] = "0" * 32
    head = sharing.encode_head(first._id, [shard._replace(family=json.dumps(family).encode())], parts)
    machines.store(head, head + data[file.head :])
    with pytest.warns(UserWarning, match="not what it says"):
        second = machines.clone("second", results=True)
    assert machines.run(second) == 40


def test_a_push_that_dies_before_the_root_is_swapped_leaves_nothing_that_anybody_sees(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines.first(results=True)
    machines.run(first)

    def die(name: str) -> None:
        if name == "results are stored and not listed":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(disk, "step", die)
        with pytest.raises(KeyboardInterrupt):
            first.push()
    assert len(list((machines.remote / "results").iterdir())) == 1 and not machines.root().results
    assert machines.clone("second", results=True).fetch().results == 0
    assert first.push().results == 1
    assert len(list((machines.remote / "results").iterdir())) == 1  # the same file
    assert machines.run(machines.clone("third", results=True)) == 0


def test_a_lost_race_joins_the_lists(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    second = machines.clone("second", results=True)
    machines.run(second, factor=3)
    machines.run(first, factor=5)
    swap, raced = Remote.swap, list[int]()

    def race(self: Remote, root: Root, before: Any) -> Any:
        if root.results and not raced:
            raced.append(1)
            assert first.push().results == 1
        return swap(self, root, before)

    monkeypatch.setattr(Remote, "swap", race)
    second.remotes.set_url("origin", machines.remote)
    second.push("origin", "main", force=True)
    assert len(machines.root().results) == 3
    third = machines.clone("third", results=True)
    assert [machines.run(third, factor=factor) for factor in (2, 3, 5)] == [0, 0, 0]


def test_a_remote_that_cannot_be_reached_for_results_does_not_undo_the_push(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines.first(results=True)
    machines.run(first)

    def fail(*_: object) -> None:
        raise Unavailable("the network is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(sharing, "_store", fail)
        with pytest.warns(UserWarning, match="not shared with origin: the network is gone"):
            pushed = first.push()
    assert pushed.changes and pushed.results == 0
    assert first.push().results == 1


def test_trust_that_came_with_a_folder_is_not_kept_with_a_new_address(machines: Machines, tmp_path: Path) -> None:
    """A stranger's settings say that results are trusted: only what this user said counts."""
    first = machines.first(results=True)
    path = first.dir / "remotes" / "origin" / "remote.json"
    path.write_text(path.read_text().replace(str(machines.remote), str(tmp_path / "evil")))
    with pytest.raises(Denied):
        first.push()
    assert not first.remotes.set_url("origin", machines.remote).results
    assert first.remotes.trust_results("origin", True).results
    assert first.remotes.set_url("origin", tmp_path / "other").results  # our own trust stays


def test_a_filter_leaves_large_results_there(machines: Machines) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    machines.plant([x * 1000 for x in range(40)])
    assert machines.run(machines.clone("second", results=True, filter="size<100B")) == 40


def test_a_part_that_was_purged_is_not_even_asked_for(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    second = machines.clone("second", results=False)
    second.datasets().purge("doubled", "a mistake")
    second.remotes.trust_results("origin", True)
    asked = list[object]()
    monkeypatch.setattr(sharing, "_bring", lambda *part: asked.append(part))
    assert second.fetch().results == 0 and not second._rows().recall.list_shards() and not asked


def test_a_purge_drops_the_results_of_a_remote(machines: Machines) -> None:
    first = machines.first(results=True)
    machines.run(first)
    first.push()
    second = machines.clone("second", results=True)
    (old,) = machines.root().results
    (machines.remote / "results" / ("0" * 64)).write_bytes(b"left by a push that died")
    first.datasets().purge("doubled", "a mistake")
    first.push()
    assert not machines.root().results and not list((machines.remote / "results").iterdir())
    assert second.fetch().purged and not second._rows().recall.list_shards()
    assert machines.run(second, rows=30) == 30 and second.push().results == 1
    assert old not in machines.root().results and first.fetch().results == 1


_BAD_HEADS: dict[str, Any] = {
    "nothing": b"",
    "another file": b"PK" * 20,
    "no frame": sharing.MAGIC + b"x" * 30,
    "a bomb": sharing.MAGIC + zstandard.ZstdCompressor().compress(bytes(65 << 20)),
    "a number": 7,
    "another format": [9, None, [], []],
    "a part of no size": [1, None, [], [[b"1" * 32, -1, True]]],
    "a part that is a text": [1, None, [], [["1" * 32, 1, True]]],
    "a part with a short name": [1, None, [], [[b"1", 1, True]]],
    "a size that is true": [1, None, [], [[b"1" * 32, True, True]]],
    "a shard of one value": [1, None, [[b"1" * 16]], []],
    "a shard with a long key": [1, None, [[b"1" * 17, b"", b'{"part": "%s"}' % (b"a" * 64), 0, 0.0, b"", None]], []],
    "a shard of no part": [1, None, [[b"1" * 16, b"", b"{}", 0, 0.0, b"", None]], []],
    "a family that is no JSON": [1, None, [[b"1" * 16, b"", b"{", 0, 0.0, b"", None]], []],
    "deep JSON": [1, None, [[b"1" * 16, b"", b"[" * 100_000, 0, 0.0, b"", None]], []],
    "a map": {"a": 1},
}


@pytest.mark.parametrize("bad", _BAD_HEADS)
def test_a_head_that_is_none_is_corrupt(bad: str) -> None:
    repo_id, value = "00000000-0000-0000-0000-000000000001", _BAD_HEADS[bad]
    if not isinstance(value, bytes):
        if isinstance(value, list):
            value = [value[0], bytes(15) + b"\1", *value[2:]]
        value = sharing.MAGIC + zstandard.ZstdCompressor().compress(msgpack.packb(value))
    with pytest.raises(Corrupt):
        sharing.decode_head(value, repo_id)


def test_results_of_another_repo_are_refused() -> None:
    head = sharing.encode_head("00000000-0000-0000-0000-000000000001", [], [])
    with pytest.raises(Corrupt, match="another repo"):
        sharing.decode_head(head, "00000000-0000-0000-0000-000000000002")
