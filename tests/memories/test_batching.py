"""The background batcher: when it embeds, what it does when embedding fails, and that it never holds a process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from memlake.errors import Denied, Error, InvalidInput, Unavailable
from memlake.memories.batching import Batcher

LONG = 600.0  # seconds no test waits


class Embedding:
    """Records batches and deliveries; fails as told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.delivered: list[tuple[int, str]] = []
        self.given_up: list[tuple[int, str]] = []
        self.errors: list[Exception] = []
        self.poison = ""

    def embed(self, texts: Sequence[str]) -> list[str]:
        self.batches.append(list(texts))
        if self.errors:
            raise self.errors.pop(0)
        if self.poison in texts:
            raise InvalidInput("too long")
        return [text.upper() for text in texts]

    def deliver(self, keys: Sequence[int], vectors: list[str]) -> None:
        self.delivered += zip(keys, vectors, strict=True)

    def failed(self, key: int, error: Exception) -> None:
        self.given_up.append((key, str(error)))


@pytest.fixture
def embedding() -> Embedding:
    return Embedding()


@pytest.fixture
def batcher(embedding: Embedding) -> Iterator[Batcher[int]]:
    made = Batcher[int](embedding.embed, embedding.deliver, size=3, seconds=LONG, failed=embedding.failed)
    yield made
    made.close(0)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.memories.batching.delay", lambda attempt, luck: 0.001)


def fill(batcher: Batcher[int], count: int) -> None:
    for number in range(count):
        batcher.add(number, f"text {number}")


def all_of(count: int) -> list[tuple[int, str]]:
    return [(number, f"TEXT {number}") for number in range(count)]


def until(said: Any, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(said())


def threads() -> int:
    return sum(thread.name == "memlake-embedding" for thread in threading.enumerate())


def test_no_thread_starts_before_the_first_text(batcher: Batcher[int]) -> None:
    before = threads()
    assert batcher.flush(0) and threads() == before
    batcher.add(1, "x")
    assert threads() == before + 1


def test_a_full_batch_is_embedded_at_once_and_a_part_of_one_waits(batcher: Batcher[int], embedding: Embedding) -> None:
    fill(batcher, 4)
    assert until(lambda: len(embedding.delivered) == 3)
    time.sleep(0.05)
    assert embedding.delivered == all_of(3) and batcher.pending == 1


def test_a_part_of_a_batch_is_embedded_after_its_seconds(embedding: Embedding) -> None:
    batcher = Batcher[int](embedding.embed, embedding.deliver, size=100, seconds=0.2)
    start = time.monotonic()
    fill(batcher, 2)
    assert until(lambda: len(embedding.delivered) == 2) and time.monotonic() - start >= 0.2
    assert len(embedding.batches) == 1
    batcher.close()


def test_flush_embeds_what_waits_in_batches_and_in_order(batcher: Batcher[int], embedding: Embedding) -> None:
    fill(batcher, 8)
    assert batcher.flush(10) and batcher.pending == 0
    assert embedding.delivered == all_of(8) and max(map(len, embedding.batches)) == 3


@pytest.mark.parametrize("error", [Unavailable("down"), Denied("key")])
def test_an_unavailable_embedder_is_tried_again_and_order_is_kept(
    error: Error, batcher: Batcher[int], embedding: Embedding
) -> None:
    embedding.errors = [error] * 5
    fill(batcher, 7)
    assert until(lambda: batcher.problem is error or len(embedding.batches) > 5)
    assert batcher.flush(10)
    assert embedding.delivered == all_of(7) and embedding.batches[:6] == [embedding.batches[0]] * 6
    assert batcher.problem is None and embedding.given_up == []


def test_a_delivery_that_is_unavailable_is_repeated_without_embedding_again(embedding: Embedding) -> None:
    errors = [Unavailable("the database is busy")]

    def deliver(keys: Sequence[int], vectors: list[str]) -> None:
        if errors:
            raise errors.pop()
        embedding.deliver(keys, vectors)

    batcher = Batcher[int](embedding.embed, deliver, size=3, seconds=LONG)
    fill(batcher, 3)
    assert batcher.flush(10) and embedding.delivered == all_of(3) and len(embedding.batches) == 1
    batcher.close()


def test_one_bad_text_costs_only_itself(batcher: Batcher[int], embedding: Embedding, caplog: Any) -> None:
    embedding.poison = "text 1"
    fill(batcher, 6)
    assert batcher.flush(10)
    assert embedding.delivered == [one for one in all_of(6) if one[0] != 1]
    assert embedding.given_up == [(1, "too long")] and "too long" in caplog.text


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), MemoryError("large")])
def test_the_thread_survives_any_error(error: Exception, batcher: Batcher[int], embedding: Embedding) -> None:
    embedding.errors = [error, error]
    fill(batcher, 3)
    assert batcher.flush(10)
    batcher.add(9, "after")
    assert batcher.flush(10)
    assert embedding.given_up == [(0, str(error))] and embedding.delivered == [*all_of(3)[1:], (9, "AFTER")]


def test_flush_says_when_it_could_not(batcher: Batcher[int], embedding: Embedding, monkeypatch: Any) -> None:
    monkeypatch.setattr("memlake.memories.batching.delay", lambda attempt, luck: LONG)
    embedding.errors = [Unavailable("down")]
    fill(batcher, 2)
    start = time.monotonic()
    assert not batcher.flush(0.1) and batcher.pending == 2
    assert not batcher.close(0.1) and time.monotonic() - start < 5
    assert until(lambda: threads() == 0)


def test_closing_delivers_what_is_left_and_takes_no_more(batcher: Batcher[int], embedding: Embedding) -> None:
    fill(batcher, 2)
    assert batcher.close(10) and batcher.close(10)
    assert embedding.delivered == all_of(2) and until(lambda: threads() == 0)
    with pytest.raises(Unavailable, match="closed"):
        batcher.add(3, "late")


def test_many_threads_may_add(embedding: Embedding) -> None:
    batcher = Batcher[int](embedding.embed, embedding.deliver, size=32, seconds=0.01)
    adders = [threading.Thread(target=fill, args=(batcher, 200)) for _ in range(4)]
    for thread in adders:
        thread.start()
    for thread in adders:
        thread.join()
    assert batcher.flush(10) and sorted(embedding.delivered) == sorted(all_of(200) * 4)
    batcher.close()


SCRIPT = """
import time
from memlake.memories.batching import Batcher
def embed(texts):
    {embed}
    return texts
batcher = Batcher(embed, lambda keys, vectors: print(*vectors, flush=True), seconds=600)
batcher.add(1, "kept")
"""


@pytest.mark.parametrize(("embed", "printed"), [("pass", "kept\n"), ("time.sleep(60)", "")])
def test_a_process_that_ends_waits_a_moment_and_no_longer(embed: str, printed: str) -> None:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(embed=embed)], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.stdout == printed and done.returncode == 0 and done.stderr == ""
    assert time.monotonic() - start < 30
