"""One suite for every file that is replaced by compare-and-set: in a folder, and in buckets on servers of clouds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

import pytest

from memlake.errors import Corrupt
from memlake.objects import swap as swaps
from memlake.objects.bucket import Bucket
from memlake.objects.places import Folder
from memlake.objects.swap import Moved, Same, Swap, open_swap
from tests.contracts.test_places import Server, cloud_bucket


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.moto.stop()


@pytest.fixture(params=["folder", "memory", "s3", "az", "gs"])
def swap(request: pytest.FixtureRequest, tmp_path: Path) -> Swap:
    if request.param == "folder":
        return open_swap(Folder(tmp_path / "remote"), "root")
    if request.param == "memory":
        return open_swap(Bucket("memory:///"), "root")
    if request.param == "s3":
        server: Server = request.getfixturevalue("server")
        return open_swap(server.bucket("pets"), "root")
    return open_swap(cloud_bucket(request, "pets"), "root")


def load(swap: Swap, known: str | None = None) -> swaps.Loaded:
    loaded = swap.load(known)
    assert loaded is not None
    return loaded


def test_there_is_none_at_first_and_then_what_was_stored(swap: Swap) -> None:
    assert swap.load() is None
    tag = swap.swap(b"one", None)
    assert load(swap) == (b"one", tag)


def test_only_the_file_that_was_read_is_replaced(swap: Swap) -> None:
    first = swap.swap(b"one", None)
    second = swap.swap(b"two", first)
    with pytest.raises(Moved):
        swap.swap(b"three", first)
    assert load(swap) == (b"two", second)


def test_a_file_is_made_only_where_there_is_none(swap: Swap) -> None:
    swap.swap(b"one", None)
    with pytest.raises(Moved):
        swap.swap(b"two", None)
    assert load(swap).data == b"one"


def test_a_file_that_is_known_is_not_read_again(swap: Swap) -> None:
    tag = swap.swap(b"one", None)
    with pytest.raises(Same):
        swap.load(tag)
    swap.swap(b"two", tag)
    assert load(swap, tag).data == b"two"


def test_a_file_that_would_fill_the_memory_is_refused(swap: Swap, monkeypatch: pytest.MonkeyPatch) -> None:
    swap.swap(b"x" * 1000, None)
    monkeypatch.setattr(swaps, "LARGEST", 999)
    with pytest.raises(Corrupt, match="1,000 bytes; at most 999"):
        swap.load()


def test_of_many_who_count_at_once_nobody_is_lost(swap: Swap) -> None:
    # The server that stands in for S3 compares and stores without a lock, which a real one does not.
    turn = Lock() if isinstance(swap, swaps.BucketSwap) and swap._bucket.scheme == "s3" else nullcontext()
    swap.swap(b"0", None)

    def count(_: int) -> None:
        while True:
            before = load(swap)
            try:
                with turn:
                    swap.swap(str(int(before.data) + 1).encode(), before.tag)
                return
            except Moved:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))
    assert load(swap).data == b"40"
