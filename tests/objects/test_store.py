"""Objects in and out: whole, checked, once a content; large ones streamed, read at any place, kept by their chunks."""

from __future__ import annotations

import concurrent.futures
import hashlib
import io
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import msgpack
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memlake as ml
from memlake.errors import Corrupt
from memlake.objects import packs, tables
from memlake.objects.chunks import encode_list
from memlake.objects.copy_out import copy_out
from memlake.objects.packs import CHUNKED, INLINE, INLINE_ZSTD, PACKED, PACKED_ZSTD, PART
from memlake.objects.store import Objects
from memlake.objects.writer import Writer
from memlake.records import Entry

MB = 1 << 20


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    repo = ml.init(tmp_path)
    yield repo._history.objects
    repo.close()


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def stored(objects: Objects, *contents: bytes) -> list[str]:
    with Writer(objects, "test") as writer:
        oids = [writer.add_stream(io.BytesIO(c), len(c))[0] if len(c) >= MB else writer.add(c) for c in contents]
        writer.finish()
    return oids


def form(objects: Objects, oid: str) -> int:
    row = objects.db.row("SELECT form FROM object WHERE oid = ?", (bytes.fromhex(oid),))
    assert row is not None
    return int(row[0])


def bytes_in(objects: Objects) -> int:
    return sum(size for _, size, _ in objects.packs.list())


# -- each form ------------------------------------------------------------------------------------

CONTENTS = {
    "empty": (b"", INLINE),
    "small": (b"hello", INLINE),
    "small that packs well": (b"a" * 5000, INLINE_ZSTD),
    "middling": (noise(200_000), PACKED),
    "middling that packs well": (b"row,of,numbers\n" * 20_000, PACKED_ZSTD),
    "large": (noise(3 * MB), CHUNKED),
    "large that packs well": (b"row,of,numbers\n" * 200_000, CHUNKED),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_comes_back_as_it_went_in_under_the_hash_of_the_whole(objects: Objects, name: str) -> None:
    content, kind = CONTENTS[name]
    (oid,) = stored(objects, content)
    assert oid == hashlib.sha256(content).hexdigest()
    assert form(objects, oid) == kind and objects.size(oid) == len(content)
    assert objects.read(oid) == content == objects.open(oid).read()
    assert dict(objects.read_many([oid])) == {oid: content}


def test_an_object_of_exactly_one_chunk_and_one_that_is_also_a_chunk_of_another(objects: Objects) -> None:
    whole = noise(4 * MB)
    (oid,) = stored(objects, whole)
    first, length = objects.pieces(oid)[0]
    (again,) = stored(objects, whole[:length])
    assert again == first.hex() and objects.read(again) == whole[:length] and objects.read(oid) == whole


def test_many_small_objects_go_to_one_pack_and_are_read_in_few_calls(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [noise(4000, seed) for seed in range(400)]
    oids = stored(objects, *contents)
    assert len(list(objects.packs.list())) == 1 and form(objects, oids[0]) == PACKED
    calls = []
    real = objects.packs.get
    monkeypatch.setattr(objects.packs, "get", lambda *args: (calls.append(args), real(*args))[1])
    assert dict(objects.read_many(oids)) == dict(zip(oids, contents, strict=True))
    assert len(calls) <= 3


def test_content_that_is_there_is_not_stored_again(objects: Objects) -> None:
    contents = [noise(3 * MB), noise(100_000), b"small"]
    first = stored(objects, *contents)
    before = bytes_in(objects), objects.db.row("SELECT count(*) FROM object")
    assert stored(objects, *contents) == first
    assert (bytes_in(objects), objects.db.row("SELECT count(*) FROM object")) == before


def test_a_writer_that_is_left_without_finish_stores_nothing(objects: Objects) -> None:
    with Writer(objects, "test") as writer:
        writer.add_stream(io.BytesIO(noise(3 * MB)), 3 * MB)
        writer.add(b"x")
    assert objects.db.row("SELECT count(*) FROM object") == (0,)
    assert list(objects.packs.list()) == [] and list(objects.tmp.iterdir()) == []
    assert objects.db.row("SELECT count(*) FROM lease") == (0,)


def test_a_missing_object_is_an_error_that_names_it_and_never_empty(objects: Objects) -> None:
    ghost = hashlib.sha256(b"ghost").hexdigest()
    for read in (objects.read, objects.open, objects.size, objects.pieces, lambda o: list(objects.read_many([o]))):
        with pytest.raises(ml.errors.NotFound, match=ghost[:10]):
            read(ghost)
    assert objects.find_missing([ghost]) == {ghost}


def test_links_must_be_named_in_the_content(objects: Objects) -> None:
    target = objects.write(b"target")
    objects.write(b'{"needs": "' + target.encode() + b'"}', links=[target])
    with pytest.raises(ml.errors.InvalidInput):
        objects.write(b"says nothing of it", links=[target])


# -- large ones -----------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3 * MB + 10), st.integers(0, 200_000)), min_size=1, max_size=6))
def test_any_range_of_a_large_object_reads_as_of_a_file(objects: Objects, ranges: list[tuple[int, int]]) -> None:
    content = noise(3 * MB)
    (oid,) = stored(objects, content)
    with objects.open(oid) as stream:
        for start, length in ranges:
            assert stream.seek(start) == start
            assert stream.read(length) == content[start : start + length]
        assert stream.seek(-10, os.SEEK_END) == len(content) - 10 and stream.read() == content[-10:]


def test_reading_a_little_of_a_large_object_fetches_a_few_chunks(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = noise(16 * MB)
    (oid,) = stored(objects, content)
    fetched = []
    real = objects.packs.get
    monkeypatch.setattr(objects.packs, "get", lambda n, s, size: (fetched.append(size), real(n, s, size))[1])
    with objects.open(oid) as stream:
        stream.seek(9 * MB)
        assert stream.read(1000) == content[9 * MB : 9 * MB + 1000]
    assert sum(fetched) < MB


def test_a_kilobyte_put_into_64_mb_adds_a_few_chunks(objects: Objects) -> None:
    content = noise(64 * MB)
    stored(objects, content)
    before = bytes_in(objects)
    stored(objects, content[:1000] + b"x" * 1024 + content[1000:])
    assert bytes_in(objects) - before < 3 * MB
    assert bytes_in(objects) < 64 * MB * 1.05, "random bytes cost themselves and a few per cent"


class Peak:
    """The most memory this process used beyond what it had at the start."""

    def __enter__(self) -> Peak:
        self._me, self._stop, self.bytes = psutil.Process(), threading.Event(), 0
        self._start = self._me.memory_info().rss
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.005):
            self.bytes = max(self.bytes, self._me.memory_info().rss - self._start)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()


class Noise(io.RawIOBase):
    """Random bytes that are never all in memory."""

    def __init__(self, size: int) -> None:
        self._left, self._random = size, random.Random(3)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = min(len(buffer), self._left, MB)
        buffer[:size] = self._random.randbytes(size)
        self._left -= size
        return size


def test_a_large_stream_goes_in_and_out_without_being_in_memory(objects: Objects) -> None:
    size = 256 * MB
    with Peak() as peak:
        with Writer(objects, "test") as writer:
            oid, read = writer.add_stream(Noise(size), size)
            writer.finish()
        whole = hashlib.sha256()
        with objects.open(oid) as stream:
            while block := stream.read(MB):
                whole.update(block)
    assert read == size and whole.hexdigest() == oid
    assert peak.bytes < 100 * MB, f"{peak.bytes / MB:.0f} MB"


def test_the_memory_check_would_notice_a_whole_object_in_memory(objects: Objects) -> None:
    with Peak() as peak:
        data = noise(128 * MB)
        hashlib.sha256(data).hexdigest()
    assert peak.bytes > 100 * MB


# -- packs ----------------------------------------------------------------------------------------


def test_a_pack_describes_itself_and_is_named_by_what_it_says(objects: Objects) -> None:
    contents = [noise(100_000, seed) for seed in range(5)]
    oids = stored(objects, *contents)
    ((name, size, _),) = list(objects.packs.list())
    footer = packs.read_footer(objects.packs, name)
    assert footer.repo == objects.repo
    records = footer.records
    assert {record[0].hex() for record in records} == set(oids)
    for oid, kind, start, length, *_ in records:
        assert kind == PACKED and hashlib.sha256(objects.packs.get(name, start, length)).digest() == oid
    assert objects.packs.get(name, 0, 8) == packs.MAGIC and objects.packs.get(name, size - 8, 8) == packs.END


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap"])
def test_a_damaged_pack_is_noticed_and_its_content_is_not_served(objects: Objects, damage: str) -> None:
    one, two = stored(objects, noise(100_000, 1), noise(100_000, 2))
    ((name, size, _),) = list(objects.packs.list())
    path = objects.packs.local_path(name)
    assert path is not None
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[5000] ^= 1
    elif damage == "cut":
        del data[size // 2 :]
    elif damage == "empty":
        data.clear()
    else:
        half = 8 + 100_000
        data[8:half], data[half : half + 100_000] = data[half : half + 100_000], data[8:half]
    path.chmod(0o644)
    path.write_bytes(data)
    failed = 0
    for oid in (one, two):
        try:
            assert hashlib.sha256(objects.read(oid)).hexdigest() == oid
        except ml.Error:
            failed += 1
    assert failed


def test_an_uncompressed_chunk_stands_at_the_place_of_its_block_so_that_blocks_can_be_shared(objects: Objects) -> None:
    (oid,) = stored(objects, noise(3 * MB))
    at = 0
    for digest, length in objects.pieces(oid):
        ((_, start, _),) = objects.locate([digest]).values()
        assert (start - at) % packs.BLOCK == 0
        at += length


def test_a_reader_whose_pack_was_joined_into_another_looks_again(objects: Objects, tmp_path: Path) -> None:
    content = [noise(50_000, seed) for seed in range(12)]
    oids = [stored(objects, c)[0] for c in content]
    reader = ml.open(tmp_path)._history.objects
    assert reader.read(oids[0]) == content[0]
    repo = ml.open(tmp_path)
    repo.write({f"datasets/x/{n}": Entry(oid, "dataset", 50_000) for n, oid in enumerate(oids)}, "keep")
    assert repo.upkeep.gc(prune=True).packs == 12
    assert dict(reader.read_many(oids)) == dict(zip(oids, content, strict=True))


# -- parts ----------------------------------------------------------------------------------------


def test_a_part_is_one_whole_file_that_engines_read_in_place(objects: Objects, tmp_path: Path) -> None:
    content = noise(2 * MB)
    (tmp_path / "made.parquet").write_bytes(content)
    oid = objects.write_part(tmp_path / "made.parquet")
    path = objects.part_path(oid)
    assert form(objects, oid) == PART and path is not None and path.read_bytes() == content
    assert not (tmp_path / "made.parquet").exists() and path.name == oid
    assert objects.read(oid) == content and objects.open(oid).read(10) == content[:10]


def test_the_same_part_twice_is_one_file_and_a_damaged_one_is_not_served(objects: Objects, tmp_path: Path) -> None:
    oids = set()
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"p" * 1000)
        oids.add(objects.write_part(tmp_path / name))
    (oid,) = oids
    assert len(list(objects.parts.list())) == 1
    path = objects.part_path(oid)
    assert path is not None
    path.chmod(0o644)
    path.write_bytes(b"q" * 1000)
    with pytest.raises(ml.errors.Corrupt, match=oid[:10]):
        objects.read(oid)


# -- rows that a stranger wrote ------------------------------------------------------------------------


def insert(objects: Objects, size: int, form: int, data: bytes | None = None, place: tuple[int, int, int] = (0, 0, 0),
           oid: bytes | None = None) -> bytes:  # fmt: skip
    oid = oid or hashlib.sha256(data or b"").digest()
    columns = "oid, size, form, role, pack, start, length, touched, data"
    sql = f"INSERT INTO object({columns}) VALUES(?, ?, ?, 1, ?, ?, ?, 0, ?)"
    with objects.db.write():
        objects.db.run(sql, (oid, size, form, *place, data))
    return oid


def insert_chunked(objects: Objects, content: bytes, pieces: list[tuple[bytes, int]]) -> bytes:
    oid = hashlib.sha256(content).digest()
    return insert(objects, sum(length for _, length in pieces), packs.CHUNKED, encode_list(oid, pieces), oid=oid)


def insert_delta(objects: Objects, content: bytes, base: bytes, base_content: bytes) -> bytes:
    oid = hashlib.sha256(content).digest()
    with packs.PackWriter(objects.tmp, objects.repo) as writer:
        payload = base + packs.squeeze_against(content, base_content)
        record = writer.copy(packs.Record(oid, packs.DELTA, 0, 0, len(content), 1), payload)
        sealed = writer.deliver(objects.packs)
    with objects.db.write():
        pack = tables.add_pack(objects.db, sealed.name, sealed.size)
    return insert(objects, len(content), packs.DELTA, base, (pack, record.start, record.length), oid)


def test_a_delta_does_not_rest_on_a_large_object_or_on_one_in_chunks(objects: Objects) -> None:
    large = noise(packs.LARGEST + 1)
    halves = [(insert(objects, len(half), packs.INLINE, half), len(half)) for half in (large[:10], large[10:])]
    few = [(insert(objects, len(half), packs.INLINE, half), len(half)) for half in (b"one", b"other")]
    for base, content in (
        (insert_chunked(objects, large, halves), large),
        (insert_chunked(objects, b"oneother", few), b"oneother"),
    ):
        delta = insert_delta(objects, b"x" * 600 + content[:5], base, content)
        with pytest.raises(Corrupt, match=r"a delta rests on it\. It was not read"):
            objects.read(delta.hex())


def test_a_chunk_that_is_longer_than_its_list_says_is_not_read(objects: Objects) -> None:
    base = noise(5000)
    whole = insert(objects, len(base), packs.INLINE, base)
    chunks = [insert_delta(objects, b"%d" % n + base, whole, base) for n in range(3)]
    oid = insert_chunked(objects, b"abc", [(chunk, 1) for chunk in chunks])
    target = objects.tmp / "out"
    for read in (
        lambda: objects.read(oid.hex()),
        lambda: dict(objects.read_many([oid.hex()])),
        lambda: objects.open(oid.hex()).read(1),
        lambda: copy_out(objects, oid.hex(), os.open(target, os.O_RDWR | os.O_CREAT)),
    ):
        with pytest.raises(Corrupt, match=r"is not the chunk of 1 bytes that a list names\. It was not read"):
            read()


def test_a_chunk_list_may_be_empty_and_is_not_nested_deeply(objects: Objects) -> None:
    assert objects.read(insert_chunked(objects, b"", []).hex()) == b""
    letter = insert(objects, 1, packs.INLINE, b"a")
    below = letter
    for length in range(2, 1200):
        below = insert_chunked(objects, b"a" * length, [(below, length - 1), (letter, 1)])
    with pytest.raises(Corrupt, match=r"that a list names\. It was not read"):
        objects.read(below.hex())


@pytest.mark.parametrize("form", [packs.PACKED, packs.PACKED_ZSTD, packs.DELTA])
def test_a_sparse_pack_is_not_read_into_memory(objects: Objects, form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size = packs.LIMIT + 1
    name = "ab" * 32
    with (objects.tmp.parent / "packs" / name).open("wb") as file:
        file.truncate(size)
    with objects.db.write():
        objects.db.run("INSERT INTO pack(name, size) VALUES(?, ?)", (name, size))
        pack = objects.db.last_id()
    oid = insert(objects, 5, form, b"x" * 32, (pack, 0, size))
    monkeypatch.setattr(objects.packs, "get", lambda *given: pytest.fail(f"{given} was read"))
    for read in (lambda: objects.read(oid.hex()), lambda: dict(objects.read_many([oid.hex()]))):
        with pytest.raises(Corrupt, match="its row makes no sense"):
            read()


def test_the_footer_of_a_sparse_pack_is_not_read(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    name, length = "ab" * 32, 1 << 31
    with (objects.tmp.parent / "packs" / name).open("wb") as file:
        file.write(packs.MAGIC)
        file.seek(len(packs.MAGIC) + length)
        file.write(length.to_bytes(8, "little") + packs.END)
    get = objects.packs.get
    few = lambda name, start, length: get(name, start, length) if length < 100 else pytest.fail("it was read")  # noqa: E731
    monkeypatch.setattr(objects.packs, "get", few)
    with pytest.raises(Corrupt, match="is not complete"):
        packs.read_footer(objects.packs, name)


@pytest.mark.parametrize(
    ("repo", "record"),
    [
        ("a" * 16, None),
        (b"a" * 16, ["x" * 32, packs.PACKED, 8, 1, 1, 1, None]),
        (b"a" * 16, [b"x" * 32, packs.PACKED, "8", 1, 1, 1, None]),
        (b"a" * 16, [b"x" * 32, packs.PACKED, 8, packs.LIMIT + 1, 1, 1, None]),
        (b"a" * 16, [b"x" * 32, packs.PACKED, 8, 1, 1, 1, 5]),
    ],
)
def test_a_footer_of_other_types_is_refused(objects: Objects, repo: object, record: list[object] | None) -> None:
    footer = msgpack.packb([repo, b"n" * 16, [record] if record else []])
    name = hashlib.sha256(footer).hexdigest()
    (objects.tmp.parent / "packs" / name).write_bytes(
        packs.MAGIC + footer + len(footer).to_bytes(8, "little") + packs.END
    )
    with pytest.raises(Corrupt, match="makes no sense"):
        packs.read_footer(objects.packs, name)


def test_many_tiny_records_fill_a_pack_before_its_footer_is_too_long(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "LIMIT", 10_000)
    with packs.PackWriter(objects.tmp, objects.repo) as writer:
        while not writer.is_full:
            writer.append(os.urandom(32), b"x", 1)
        sealed = writer.deliver(objects.packs)
    assert 5_000 < sealed.size < 10_000


def test_threads_that_compress_at_once_do_not_mix_their_bytes() -> None:
    """With one pair of contexts for all threads this gave other bytes, or ended the process."""

    def work(seed: int) -> int:
        chance, wrong = random.Random(seed), 0
        for _ in range(1500):
            data = str(chance.random()).encode() * 40
            packed = packs.squeeze(data)
            wrong += packed is None or packs.expand(packed, len(data)) != data
        return wrong

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 0
