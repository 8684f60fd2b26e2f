"""Remotes of Azure's and Google's protocols: what a folder or S3 does for a team, they do too."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import NamedTuple

import pytest

import memlake as ml
from memlake.errors import Conflict, Denied, NotFound
from memlake.repo import Repo
from memlake.versions.sync import push as pushing
from tests.servers import ACCOUNT, ACCOUNT_KEY, Azurite, Google
from tests.versions.sync.conftest import commit, fill, heads, remember, snapshot

PUSHERS, PUSHES = 4, 3


class Cloud(NamedTuple):
    """An empty bucket of a server, and how the missing one beside it is made."""

    url: str
    endpoint: str
    cure: str

    def clone(self, folder: Path, **options: object) -> Repo:
        return ml.clone(self.url, folder, endpoint=self.endpoint, **options)


@pytest.fixture(params=["az", "gs"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    if request.param == "gs":
        google: Google = request.getfixturevalue("google")
        google.forget()
        return Cloud(f"gs://{google.make_bucket()}/team/pets", google.endpoint, "gcloud storage buckets create")
    azurite: Azurite = request.getfixturevalue("azurite")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    return Cloud(f"az://{azurite.make_container()}/team/pets", azurite.endpoint, "az storage container create")


@pytest.fixture
def ours(tmp_path: Path, cloud: Cloud) -> Iterator[Repo]:
    with ml.init(tmp_path / "ours") as repo:
        fill(repo)
        repo.remotes.add("origin", cloud.url, endpoint=cloud.endpoint)
        yield repo


def test_what_is_pushed_is_cloned_fetched_pulled_and_nothing_of_it_asks_twice(
    cloud: Cloud, ours: Repo, tmp_path: Path
) -> None:
    assert ours.push().is_first and ours.push().up_to_date
    with cloud.clone(tmp_path / "theirs") as theirs:
        assert heads(theirs) == heads(ours) and not theirs.status().unstaged
        assert (theirs.root / "big.bin").read_bytes() == (ours.root / "big.bin").read_bytes()
        remember(theirs, "The build takes nine minutes")
        commit(theirs, "theirs.txt", b"1\n")
        theirs.push()
        commit(ours, "ours.txt", b"2\n")
        with pytest.raises(Conflict, match="commits that you do not have"):
            ours.push()
        fetched = ours.fetch()
        assert fetched.commits == 2 and not (ours.root / "theirs.txt").exists() and ours.fetch().up_to_date
        assert ours.pull().merged is not None and (ours.root / "theirs.txt").exists()
        ours.push()
        theirs.pull()
        assert heads(theirs) == heads(ours) and theirs.upkeep.fsck(full=True).ok
        with ml.Agent(ours.root, agent_id="bot") as agent:
            assert "nine" in agent.search_memory("build minutes")[0]["content"]


def test_content_that_stays_there_is_read_in_ranges(cloud: Cloud, ours: Repo, tmp_path: Path) -> None:
    ours.push()
    with cloud.clone(tmp_path / "theirs", filter="size<1kB") as theirs:
        assert not (theirs.root / "big.bin").exists() and (theirs.root / "a.txt").exists()
        theirs.restore("big.bin", "many")
        for path in ("big.bin", "many/39.txt"):
            assert (theirs.root / path).read_bytes() == (ours.root / path).read_bytes()
        theirs.remotes.drop("big.bin")
        assert not (theirs.root / "big.bin").exists() and theirs.upkeep.fsck().ok


def test_a_root_that_somebody_else_swapped_first_is_joined(
    cloud: Cloud, ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    with cloud.clone(tmp_path / "theirs") as theirs:
        theirs.switch("dev", create=True)
        commit(theirs, "theirs.txt", b"1\n")
        commit(ours, "ours.txt", b"2\n")
        real, raced = pushing._swap, []

        def swap(*args: object) -> object:
            if not raced:  # somebody else is faster, once
                raced.append(1)
                theirs.push()
            return real(*args)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(pushing, "_swap", swap)
            assert not ours.push().up_to_date
        ours.fetch()
        theirs.fetch()
        assert [one.name for one in ours.remotes.branches()] == ["origin/dev", "origin/main"]
        assert ours.remotes.branches() == theirs.remotes.branches()


def test_of_many_who_push_at_once_none_is_lost_and_none_sees_an_error(cloud: Cloud, ours: Repo, tmp_path: Path) -> None:
    ours.push(memories=False)
    gate = Barrier(PUSHERS)

    def push_often(number: int) -> None:
        with cloud.clone(tmp_path / f"pusher{number}") as repo:
            repo.switch(f"b{number}", create=True)
            gate.wait()
            for at in range(PUSHES):
                commit(repo, f"{number}.txt", b"%d" % at, f"{number} {at}")
                repo.push()

    with ThreadPoolExecutor(PUSHERS) as pool:
        list(pool.map(push_often, range(PUSHERS)))
    ours.fetch()
    for number in range(PUSHERS):
        told = [commit.message for commit in ours.log(f"origin/b{number}")]
        assert told[:PUSHES] == [f"{number} {at}" for at in reversed(range(PUSHES))]


def test_a_purge_and_a_gc_delete_there_what_nobody_may_have(cloud: Cloud, ours: Repo, tmp_path: Path) -> None:
    ours.push()
    ours.switch("old", create=True)
    commit(ours, "old.bin", os.urandom(50_000))
    ours.push()
    ours.switch("main")
    ours.push("origin", "old", delete=True)
    done = ours.remotes.gc(prune=True)
    assert done.deleted, done
    with cloud.clone(tmp_path / "theirs") as theirs:
        ours.upkeep.purge(dict(ours.ls())["files/big.bin"].oid, reason="leaked")
        assert len(ours.push().erased.records) == 1
        assert len(theirs.pull().fetched.purged) == 1 and theirs.upkeep.fsck(full=True).ok
    with cloud.clone(tmp_path / "third") as third:
        assert heads(third)[0, "main"] == heads(ours)[0, "main"] and third.upkeep.fsck(full=True).ok


def test_a_missing_bucket_is_named_with_how_to_make_it(cloud: Cloud, ours: Repo, tmp_path: Path) -> None:
    url, before = f"{cloud.url[:2]}://nobody-made-this/p", snapshot(ours)
    ours.remotes.add("x", url, endpoint=cloud.endpoint)
    for call in (
        lambda: ours.push("x"),
        lambda: ours.fetch("x"),
        lambda: ml.clone(url, tmp_path / "c", endpoint=cloud.endpoint),
    ):
        with pytest.raises(NotFound, match=f"there is no bucket {url}") as caught:
            call()
        assert cloud.cure in caught.value.hint
    assert snapshot(ours) == before and not (tmp_path / "c").exists()


def test_a_wrong_key_is_refused_and_shown_nowhere(
    azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = base64.b64encode(b"wrong").decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", wrong)
    with ml.init(tmp_path / "mine") as mine:
        commit(mine, "a.txt", b"1\n")
        mine.remotes.add("x", f"az://{azurite.make_container()}/p", endpoint=azurite.endpoint)
        before = snapshot(mine)
        with pytest.raises(Denied, match="refused access") as caught:
            mine.push("x")
        assert "AZURE_STORAGE_ACCOUNT_KEY" in caught.value.hint and wrong not in str(caught.value)
        assert snapshot(mine) == before
    found = (Path(folder) / name for folder, _, names in os.walk(tmp_path) for name in names)
    assert not [file for file in found if wrong.encode() in file.read_bytes()]
