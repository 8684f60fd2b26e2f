"""Cutting by content: the same bytes are cut at the same places, for ever and however they arrive."""

from __future__ import annotations

import hashlib
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.errors import Corrupt
from memlake.objects import chunks

MB = 1 << 20


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def lengths(data: bytes, size: int | None = None) -> list[int]:
    return [len(piece) for piece in chunks.cut(io.BytesIO(data), len(data) if size is None else size)]


def pieces(data: bytes, size: int | None = None) -> list[bytes]:
    return [bytes(piece) for piece in chunks.cut(io.BytesIO(data), len(data) if size is None else size)]


def test_cut_points_are_the_ones_every_release_made() -> None:
    """Other cut points would not break a repo, but every large file would be stored once more."""
    fine = lengths(noise(3 * MB))
    assert fine[:8] == [33258, 78308, 80973, 39403, 28737, 67810, 159371, 71728] and len(fine) == 39
    coarse = lengths(noise(10 * MB, 2), size=chunks.COARSE_FROM)
    assert coarse[:6] == [591632, 281317, 465903, 490761, 244384, 318383]
    assert hashlib.sha256(repr((fine, coarse)).encode()).hexdigest()[:16] == "2067bb903c7149b0"


@pytest.mark.parametrize("size", [0, 1, 1000, MB, 3 * MB + 17, chunks.BUFFER, chunks.BUFFER + 1, 2 * chunks.BUFFER])
def test_the_pieces_are_the_whole_in_order(size: int) -> None:
    data = noise(size)
    assert b"".join(pieces(data)) == data
    assert all(length > 0 for length in lengths(data))


class Trickle(io.RawIOBase):
    """A stream that gives as much as it likes at a time, as pipes and sockets do."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._stream, self._sizes, self._turn = io.BytesIO(data), sizes, 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._turn += 1
        step = self._sizes[self._turn % len(self._sizes)]
        return self._stream.readinto(memoryview(buffer)[: max(1, step)])


@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=5), st.integers(0, 2 * MB))
def test_how_the_bytes_arrive_does_not_move_a_cut(sizes: list[int], length: int) -> None:
    data = noise(2 * MB)[:length]
    assert [len(piece) for piece in chunks.cut(Trickle(data, sizes), len(data))] == lengths(data)


def test_where_a_buffer_ends_does_not_move_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise(20 * MB)
    wanted = lengths(data)
    for buffer in (2 * MB, 3 * MB + 12345, 32 * MB):
        monkeypatch.setattr(chunks, "BUFFER", buffer)
        assert lengths(data) == wanted


def test_chunks_are_about_as_long_as_they_should_be() -> None:
    fine, coarse = lengths(noise(16 * MB)), lengths(noise(32 * MB), size=chunks.COARSE_FROM)
    assert chunks.FINE / 2 < sum(fine) / len(fine) < chunks.FINE * 2
    assert chunks.COARSE / 2 < sum(coarse) / len(coarse) < chunks.COARSE * 2
    assert max(coarse) <= chunks.BUFFER // 2, "a chunk must fit the buffer with room for the next"


@pytest.mark.parametrize("at", [0, 5 * MB, 16 * MB])
def test_an_insertion_changes_a_few_chunks_around_it(at: int) -> None:
    data = noise(16 * MB)
    before = {hashlib.sha256(piece).digest() for piece in pieces(data)}
    after = pieces(data[:at] + noise(1000, 9) + data[at:])
    new = [piece for piece in after if hashlib.sha256(piece).digest() not in before]
    assert len(new) <= 3 and len(after) > 100


def test_runs_of_one_byte_do_not_stop_the_cutting() -> None:
    assert b"".join(pieces(bytes(9 * MB))) == bytes(9 * MB)
    assert len({hashlib.sha256(piece).digest() for piece in pieces(bytes(9 * MB))}) <= 2


# -- the list of chunks ---------------------------------------------------------------------------

ITEMS = st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1)), max_size=5)


@given(st.binary(min_size=32, max_size=32), ITEMS)
def test_a_chunk_list_reads_back_as_it_was_written(oid: bytes, items: list[tuple[bytes, int]]) -> None:
    assert chunks.decode_list(oid, chunks.encode_list(oid, items)) == items


@given(st.binary(min_size=32, max_size=32), ITEMS, st.data())
def test_a_chunk_list_with_any_bit_flipped_or_cut_short_is_refused(
    oid: bytes, items: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    good = chunks.encode_list(oid, items)
    bit = data.draw(st.integers(0, len(good) * 8 - 1))
    flipped = bytearray(good)
    flipped[bit // 8] ^= 1 << bit % 8
    for bad in (bytes(flipped), good[:-1], good + bytes(36)):
        with pytest.raises(Corrupt):
            chunks.decode_list(oid, bad)
    with pytest.raises(Corrupt):
        chunks.decode_list(bytes(b ^ 1 for b in oid), good)
