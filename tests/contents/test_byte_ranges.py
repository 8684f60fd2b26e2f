"""Ranges of bytes that differ: they rebuild the new file from the old one, and stored files are hardly read."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.contents import byte_ranges
from memlake.contents.byte_ranges import ByteDiff, ByteRange
from memlake.contents.content import Content
from memlake.contents.explain import How


def wrap(data: bytes) -> Content:
    return Content("w.dat", len(data), lambda: io.BytesIO(data))


def diff(old: bytes, new: bytes) -> ByteDiff:
    return byte_ranges.diff(wrap(old), wrap(new), How(limit=None))


def rebuild(old: bytes, new: bytes, found: ByteDiff) -> bytes:
    """The new file from the old one and the ranges of the new one alone."""
    parts, at = [], 0
    for one in found.ranges:
        parts += [old[at : one.old_start], new[one.new_start : one.new_start + one.new_length]]
        at = one.old_start + one.old_length
    return b"".join([*parts, old[at:]])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_the_ranges_lead_from_one_file_to_the_other(old: bytes, new: bytes) -> None:
    found = diff(old, new)
    assert rebuild(old, new, found) == new
    assert found.is_empty == (old == new)
    assert found.new_size - found.same == sum(one.new_length for one in found.ranges)


def test_edits_of_a_large_file_are_found_where_they_are() -> None:
    old = np.random.default_rng(0).bytes(3_000_000)
    new = bytearray(old)
    new[100:104] = b"abcd"
    new[1_000_000:1_000_000] = b"inserted"
    del new[2_000_000:2_000_010]
    found = diff(old, bytes(new))
    assert found.range_count == 3 and rebuild(old, bytes(new), found) == bytes(new)
    assert found.ranges[0] == ByteRange(100, 4, 100, 4) and sum(one.new_length for one in found.ranges) < 20
    assert found.new_hash == hashlib.sha256(new).hexdigest()


def test_only_chunks_that_differ_are_read_of_what_is_stored(tmp_path: Path) -> None:
    old = bytearray(np.random.default_rng(1).bytes(4_000_000))
    with ml.init(tmp_path) as repo:
        for name in ("one", "two"):
            (tmp_path / "w.dat").write_bytes(old)
            repo.add("w.dat")
            repo.commit(name)
            old[2_000_000] ^= 1
        (change,) = changes = repo.diff("HEAD~1", "HEAD")
        found = changes.explain("w.dat", as_bytes=True)
        assert found is not None and found.record.ranges == (ByteRange(2_000_000, 1, 2_000_000, 1),)
        sides = [ml_open(repo, entry) for entry in (change.old, change.new)]
        byte_ranges.diff(*sides, How())
        assert all(0 < side.bytes_read < 1_000_000 for side in sides)


def ml_open(repo: ml.Repo, entry: object) -> Content:
    from memlake.contents.content import open_stored

    return open_stored(repo._history.objects, "w.dat", entry)  # type: ignore[arg-type]


def test_a_huge_working_file_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_ranges, "_LARGEST", 10)
    found = byte_ranges.diff(wrap(b"a" * 11), wrap(b"b"), How())
    assert found.ranges == () and "once it is added" in found.notes[0]


def test_chunks_that_are_too_many_to_read_are_told_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_ranges, "_READ", 10)
    assert diff(b"a" * 20 + b"x", b"a" * 20 + b"y").ranges == (ByteRange(0, 21, 0, 21),)
