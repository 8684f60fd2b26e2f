"""A new kind is one record: from it alone come its paths on disk, its patch, its merge, its place in status and log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.dataset import save
from memlake.records import Conflict, Entry, MergeHow
from memlake.repo import open as opening
from memlake.versions import kinds
from memlake.versions.history.commits import History
from memlake.versions.history.merge_trees import Making
from memlake.versions.kinds import Joined, Kind, Sides
from tests.cli.conftest import Run


def merge(making: Making, path: str, three: tuple[Entry | None, Entry, Entry], _how: MergeHow) -> Joined | None:
    """What both sides list, if it is a list: the driver is given the path, and decides by it."""
    if not path.endswith(".list"):
        return None
    lines = {line for entry in (three[1], three[2]) for line in making.read(entry.oid).split(b",")}
    data = b",".join(sorted(lines))
    return Joined(Entry(making.add(data), "recipe", len(data)))


def sides(history: History, met: Conflict) -> Sides:
    said = [entry and history.objects.read(entry.oid).decode() for entry in (met.ours, met.theirs)]
    return Sides(f"recipe {met.path}", said[0], said[1])


def settle(_history: History, met: Conflict) -> dict[str, Entry | None]:
    kept, other = (met.ours, met.theirs) if met.choice == "ours" else (met.theirs, met.ours)
    return {met.path: kept, f"{met.path}-other": other}


RECIPE = Kind(
    "recipe", "recipes", "work", 200, ("recipe", "recipes"),
    label=lambda path: path.removeprefix("recipes/").replace("/", ":"),
    text=lambda data: data.replace(b",", b"\n") + b"\n",
    brief=lambda data: f"{data.count(b',') + 1} parts",
    sides=sides, merge=merge, settle=settle,
    to_list='use "memlake cook" to taste both',
)  # fmt: skip


@pytest.fixture
def cook(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repo that knows recipes, with a soup on main."""
    kinds.define(RECIPE)
    monkeypatch.setattr(opening, "KINDS", (*opening.KINDS, RECIPE))
    run("init")
    put(tmp_path, "soup", soup="water,salt", shop__a="x")
    yield tmp_path
    del kinds.CODES["recipe"], kinds.NAMES[200], kinds.ROOMS["recipes"]


def put(root: Path, message: str, **recipes: str) -> None:
    with ml.open(root) as repo:
        repo.write({f"recipes/{name.replace('__', '/')}": text.encode() for name, text in recipes.items()}, message)


def fork(root: Path, run: Run, path: str, ours: str, theirs: str) -> None:
    run("switch", "-c", "x")
    with ml.open(root) as repo:
        repo.write({f"recipes/{path}": theirs.encode()}, "theirs")
    run("switch", "main")
    with ml.open(root) as repo:
        repo.write({f"recipes/{path}": ours.encode()}, "ours")


def test_a_new_kind_is_stored_logged_listed_and_shown_by_its_record(run: Run, cook: Path) -> None:
    put(cook, "more salt", soup="water,salt,salt")
    assert run("log", "--oneline", "recipes/soup").out.count("\n") == 2
    assert "recipes/soup | 3 parts" in run("log", "--stat", "-n1").out
    patch = run("diff", "HEAD~1", "HEAD").out
    assert "recipes/soup changed: 3 parts" in patch and "\n+salt\n" in patch
    assert run("cat", "recipes/soup").out == "water\nsalt\nsalt\n"
    with ml.open(cook) as repo:
        assert {entry.kind for _, entry in repo.ls(prefix="recipes/")} == {"recipe"} and repo.upkeep.fsck().ok


def test_a_new_kind_is_merged_by_its_driver_which_is_given_the_path(run: Run, cook: Path) -> None:
    fork(cook, run, "buy.list", "milk,rice", "milk,tea")
    run("merge", "x")
    assert run("cat", "recipes/buy.list").out == "milk\nrice\ntea\n"


def test_a_conflict_of_a_new_kind_is_told_in_its_words_and_settled_by_it(run: Run, cook: Path) -> None:
    fork(cook, run, "shop/a", "red", "blue")
    told = run("merge", "x", code=None)
    assert told.code != 0 and "recipe recipes/shop/a" in told.err and "theirs: blue" in told.err
    assert "--ours shop:a`" in told.err
    status = run("status").out
    assert "both modified:   recipe shop:a" in status and 'use "memlake cook" to taste both' in status
    run("merge", "--theirs", "shop:a")
    run("merge", "--continue")
    assert run("cat", "recipes/shop/a").out == "blue\n" and run("cat", "recipes/shop/a-other").out == "red\n"


def test_a_version_in_conflict_is_chosen_by_the_name_that_merge_and_status_show(run: Run, repo: Path) -> None:
    with ml.open(repo) as opened:
        opened.datasets("main").read_values(x=[1]).save("pets")
        opened.branches.create("x")
        for branch in ("main", "x"):
            datasets = opened.datasets(branch)
            save.edit(datasets.context, datasets.get("pets"), {"description": branch})
    assert "`memlake merge --ours pets@1.0.0`" in run("merge", "x", code=None).err
    assert "both modified:   dataset pets@1.0.0" in run("status").out
    run("merge", "--theirs", "pets@1.0.0")
    run("merge", "--continue")
    assert "description: x" in run("cat", "datasets/pets/1.0.0").out


@pytest.mark.parametrize("taken", [{"name": "soup", "code": 4}, {"name": "memory", "code": 201}])
def test_a_name_or_code_of_another_kind_is_refused(taken: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match="defined already"):
        kinds.define(Kind(str(taken["name"]), "soups", "work", int(taken["code"]), ("soup", "soups")))
    assert "soups" not in kinds.ROOMS


def test_the_codes_on_disk_are_what_they_were() -> None:
    order = ["file", "link", "dataset", "policy", "memory", "state", "step", "turn"]
    assert {name: code for name, code in kinds.CODES.items() if name in order} == dict(
        zip(order, range(8), strict=True)
    )
    rooms = ["files", "datasets", "policy", "memories", "state", "ledger", "conversations"]
    assert kinds.list_rooms() == rooms
    assert [room for room in rooms if kinds.ROOMS[room].lane == "memory"] == rooms[3:]
