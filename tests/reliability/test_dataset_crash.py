"""kill -9 at every step of every verb of datasets: versions are whole or absent, and the work goes on where it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset import save
from memlake.dataset.datasets import Datasets
from memlake.dataset.parts import parquet
from memlake.errors import AlreadyExists, NotFound, Nothing
from memlake.objects.store import Objects
from memlake.rows import duckdb_connections
from tests.reliability.dataset_ground import Rows, build, leftovers, look, numbers, rows_of, slow
from tests.reliability.ground import (
    KILLED,
    TORTURE,
    NotReached,
    assert_sound,
    die_at,
    fast_folder,
    in_child,
    put,
    snapshot_of,
    steps_of,
)

KILLS = 1000 if TORTURE else 5  # of each verb; in CI at steps spread evenly, begun elsewhere for each verb


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with fast_folder() as folder:
        yield build(folder / "repo")


def _metric(data: Datasets, value: float) -> None:
    save.merge_into(data.context, data.context.find("numbers"), "metrics", {"loss": value})


@dataclass(frozen=True)
class Verb:
    do: Callable[[Datasets], object]
    done: tuple[type[Exception], ...] = ()  # what it says when it was done before


VERBS: dict[str, Verb] = {
    "save": Verb(lambda d: numbers(d, 1000).save("new")),
    "save of a map": Verb(lambda d: numbers(d, 2000).map(y=slow).save("numbers")),
    "save of a map and a filter": Verb(lambda d: numbers(d, 3000).map(y=slow).filter(ml.C("y") > 6020).save("some")),
    "save of a gen": Verb(lambda d: numbers(d, 4000).gen(z=lambda x: [x, x + 1]).save("generated")),
    "save of a listing": Verb(
        lambda d: d.read_storage(d.context.folder.parent.with_name("files"), type="text").save("listed")
    ),
    "edit": Verb(lambda d: _metric(d, 0.5)),
    "delete": Verb(lambda d: d.delete_dataset("numbers@1.0.0"), (NotFound,)),
    "restore": Verb(lambda d: d.restore_dataset("gone"), (Nothing,)),
    "move": Verb(lambda d: d.move_dataset("numbers", "figures"), (NotFound, AlreadyExists)),
}


def kill_everywhere(template: Path, name: str) -> int:
    verb = VERBS[name]
    with fast_folder() as folder:
        put(folder, "files/more.txt", "more")
        before = look(template)
        done = snapshot_of(template, folder / "done")
        with ml.open(done) as repo:
            steps = steps_of(lambda: verb.do(repo.datasets()))
        after, count = look(done), len(steps)
        every = -(-count // KILLS)
        places = range(1 + sum(name.encode()) % every, count + 1, every)
        killed = 0
        for number in places:
            copy = snapshot_of(template, folder / "copy")
            try:
                with contextlib.suppress(NotReached):  # how often rows are kept on the way depends on the clock
                    die_at(copy, number, lambda repo: verb.do(repo.datasets()))
                    killed += 1
                _is_whole(copy, verb, (before, after))
            except AssertionError as error:
                raise AssertionError(f"step {number} of {count}, {steps[number - 1]}: {error}") from error
            shutil.rmtree(copy)
    assert killed > len(places) // 2
    return killed


def _is_whole(root: Path, verb: Verb, views: tuple[Rows, Rows]) -> None:
    before, after = views
    seen = look(root)
    assert seen in (before, after), f"neither before nor after: {sorted(seen)}"
    with ml.open(root) as repo:
        try:
            verb.do(repo.datasets())
        except verb.done:
            assert seen == after
        assert rows_of(repo) == after, "the second run did not finish it"
        repo.upkeep.gc(prune=True)
        assert_sound(repo)
    assert look(root) == after
    assert leftovers(root) == []


@pytest.mark.parametrize("name", VERBS)
def test_a_kill_at_any_step_leaves_each_version_whole_or_absent(
    name: str, template: Path, tally: Callable[..., None]
) -> None:
    tally(kills=kill_everywhere(template, name))


def test_without_one_transaction_a_kill_leaves_a_version_without_its_parts(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check sees what it is for: a part that is named before it is stored."""

    def named_only(self: Objects, file: Path, *, links: object = ()) -> str:
        oid = real(self, file)
        self.parts.delete(f"{oid[:2]}/{oid}")
        return oid

    real = Objects.write_part
    monkeypatch.setattr(Objects, "write_part", named_only)
    with pytest.raises((AssertionError, ml.Error)):
        kill_everywhere(template, "save of a map")


# -- work that was done before a kill ------------------------------------------------------------------


def run_to_the_end(root: Path, log: Path) -> None:
    """A map that kills itself at row 200, once, and writes down every row it is called on."""
    calls, mark = str(log), str(log.with_name("killed"))

    def noted(x: int) -> int:
        if x == 200 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(calls, "a") as out:
            out.write(f"{x}\n")
        time.sleep(0.01)
        return x + 1

    with ml.open(root) as repo:
        data = repo.datasets()
        data.read_values(x=list(range(250))).map(y=noted).save("resumed")
        assert data.read_dataset("resumed").to_values("y") == list(range(1, 251))


def test_a_killed_run_goes_on_where_it_was(template: Path) -> None:
    with fast_folder() as folder:
        root, log = snapshot_of(template, folder / "repo"), folder / "calls"
        assert in_child(lambda: run_to_the_end(root, log)) == KILLED
        before = log.read_text().split()
        assert len(before) == 200
        assert "resumed@1.0.0" not in look(root)
        run_to_the_end(root, log)
        again = log.read_text().split()[200:]
        assert set(before) | set(again) == set(map(str, range(250)))
        assert len(again) < 250 - 50, "what was done before the kill was done again"
        with ml.open(root) as repo:
            repo.upkeep.gc(prune=True)
            assert_sound(repo)
        assert leftovers(root) == []


def test_a_kill_while_a_part_is_written_leaves_only_a_file_that_gc_collects(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(table: object, file: Path, **_: object) -> None:
        file.write_bytes(b"PAR1 and then the power went")
        os.kill(os.getpid(), signal.SIGKILL)

    with fast_folder() as folder:
        root, before = snapshot_of(template, folder / "repo"), look(template)

        def work() -> None:
            monkeypatch.setattr(parquet, "_write", half)
            with ml.open(root) as repo:
                numbers(repo.datasets(), 500).save("new")

        assert in_child(work) == KILLED
        assert len(leftovers(root)) == 1 and leftovers(root)[0].startswith("family-")
        assert look(root) == before
        with ml.open(root) as repo:
            repo.upkeep.gc()
            assert len(leftovers(root)) == 1, "young: its writer may live"
            repo.upkeep.gc(prune=True)
        assert leftovers(root) == []
        assert look(root) == before


def test_a_fork_uses_engines_of_its_own(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letting go of one that the parent started ends the child by a signal."""
    monkeypatch.setattr(duckdb_connections, "_KEPT", 1)
    assert look(template)

    def work() -> None:
        with fast_folder() as folder:
            for number in range(3):
                look(snapshot_of(template, folder / str(number)))

    assert in_child(work) == 0
