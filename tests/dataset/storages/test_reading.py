"""The bytes of files: local in place, remote by ranges or through the cache, and never other bytes than were listed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlake.dataset import storages
from memlake.dataset.storages import Access, remote_file
from memlake.dataset.storages import cache as storage_cache
from memlake.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable
from tests.dataset.storages.conftest import S3, Named, files
from tests.dataset.storages.faults import Server, before

BIG = os.urandom(3 << 20)


@pytest.fixture
def bucket(s3: S3) -> S3:
    storages.ACCESS[s3.uri] = s3.access
    return s3


@pytest.fixture
def proxy(s3: S3) -> Iterator[Server]:
    server = Server(before(s3.endpoint))
    storages.ACCESS[s3.uri] = Access(client_config={**s3.access.client_config, "endpoint_url": server.url})
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    storages.use(tmp_path / "cache")
    yield tmp_path / "cache"
    storages.use(None)


def kept(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def read(file: Named) -> bytes:
    with storages.open_file(file) as found:
        return found.read()


# -- local


def test_a_local_file_is_read_in_place_and_never_copied(here: Path, cache: Path) -> None:
    (here / "a b%").mkdir()
    (here / "a b%/x").write_bytes(b"hello")
    (file,) = files("a b%")
    with storages.open_file(file) as found:
        assert found.seek(1) == 1 and found.read(2) == b"el"
        assert os.path.samestat(os.fstat(found.fileno()), os.stat(here / "a b%/x"))
        assert isinstance(found.name, int)  # a path would be an answer that differs from machine to machine
    assert kept(cache) == [] and storages.exists(file)


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "a\0b"])
def test_a_path_out_of_its_source_is_refused(here: Path, path: str) -> None:
    (here / "a").mkdir()
    for ask in (storages.open_file, storages.exists):
        with pytest.raises(InvalidInput, match="leads out of"):
            ask(Named(here.as_uri(), path))


def test_a_local_file_that_changed_or_went_is_told_so(here: Path) -> None:
    (here / "a").write_bytes(b"one")
    (file,) = files("a")
    os.utime("a", ns=(7, 7))
    with pytest.raises(Conflict, match=r"not what it was when it was listed(.|\n)*update=True"):
        read(file)
    assert read(file._replace(etag="")) == b"one"
    os.unlink("a")
    with pytest.raises(NotFound, match="there is no file://"):
        read(file)
    assert not storages.exists(file)


def test_a_copy_that_kept_its_time_is_the_same_file(here: Path) -> None:
    (here / "a").write_bytes(b"one")
    (file,) = files("a")
    (here / "b").write_bytes(b"one")
    os.utime("b", ns=(os.stat("a").st_mtime_ns,) * 2)
    os.replace("b", "a")
    assert read(file) == b"one"


# -- buckets


def test_a_key_is_read_whole_when_small_and_by_windows_when_large(bucket: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "WHOLE", 1 << 20)
    bucket.put("small", b"hello")
    bucket.put("big", BIG)
    bucket.put("empty")
    small, big, empty = (Named(bucket.uri, name) for name in ("small", "big", "empty"))
    assert read(small) == b"hello" and read(empty) == b""
    with storages.open_file(big) as found:
        assert found.seekable() and found.read(10) == BIG[:10]
        assert found.seek(-5, io.SEEK_END) == len(BIG) - 5 and found.read() == BIG[-5:]
        assert found.seek(1 << 20) == 1 << 20 and found.read(1000) == BIG[1 << 20 : (1 << 20) + 1000]
        assert found.seek(len(BIG) + 9) and found.read(1) == b""
        found.seek(0)
        assert found.read() == BIG


def test_windows_grow_while_reading_on_and_are_small_after_a_seek(
    bucket: S3, proxy: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_file, "WHOLE", 0)
    bucket.put("big", BIG)
    (file,) = files(f"{bucket.uri}/big", access=bucket.access)
    with storages.open_file(file) as found:
        while found.read(1000):
            pass
        found.seek(0)
        found.read(1000)
    spans = [headers["range"] for command, _, headers in proxy.seen if command == "GET"]
    lengths = [int(end) - int(start) + 1 for start, end in (span.removeprefix("bytes=").split("-") for span in spans)]
    assert lengths == [256 << 10, 512 << 10, 1 << 20, len(BIG) - (1792 << 10), 256 << 10]


def test_a_key_that_changed_since_it_was_listed_is_never_read_as_the_old_one(bucket: S3) -> None:
    bucket.put("a", b"one")
    (file,) = files(f"{bucket.uri}/a", access=bucket.access)
    assert read(file) == b"one"
    for size in (2, 4):
        with pytest.raises(Conflict):
            read(file._replace(size=size))
    bucket.put("a", b"two")
    with pytest.raises(Conflict, match=r"not what it was when it was listed(.|\n)*update=True"):
        read(file)
    bucket.client.delete_object(Bucket=bucket.bucket, Key="a")
    with pytest.raises(NotFound, match=r"there is no s3://.*/a"):
        read(file)
    assert not storages.exists(file)


def test_a_key_that_changes_while_it_is_read_stops_the_reading(bucket: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "WHOLE", 0)
    bucket.put("big", BIG)
    with storages.open_file(Named(bucket.uri, "big")) as found:
        found.read(10)
        bucket.put("big", BIG[:-1000])
        found.seek(len(BIG) - 10)
        with pytest.raises(Conflict, match="not what it was"):
            found.read(10)


def test_a_busy_server_and_a_broken_answer_are_asked_again(bucket: S3, proxy: Server) -> None:
    bucket.put("a", BIG)
    proxy.fail = [503, 500]
    (file,) = files(f"{bucket.uri}/a")
    proxy.fail, proxy.cut = [503], 2
    assert read(file) == BIG and not proxy.fail and not proxy.cut


def test_a_listing_is_asked_again_when_the_server_is_busy(bucket: S3, proxy: Server) -> None:
    bucket.put("x/a", b"1")
    proxy.fail = [503, 503]
    assert [file.path for file in files(f"{bucket.uri}/x/")] == ["x/a"]


def test_a_refusal_names_the_bucket_and_what_to_do(bucket: S3, proxy: Server) -> None:
    proxy.fail = [403] * 9
    with pytest.raises(Denied, match=rf"s3://{bucket.bucket} refused(.|\n)*anon=True"):
        files(f"{bucket.uri}/x/")


def test_a_refusal_does_not_ask_for_what_was_given(bucket: S3, proxy: Server) -> None:
    proxy.fail = [403] * 9
    with pytest.raises(Denied) as error:
        files(f"{bucket.uri}/x/", access=Access(True, {"endpoint_url": proxy.url, "region": "us-east-1"}))
    assert "give anon=True" not in error.value.hint and "anon=False" in error.value.hint


def test_anonymous_requests_are_not_signed(bucket: S3, proxy: Server) -> None:
    bucket.put("x/a", b"1")
    config = {"endpoint_url": proxy.url, "region": "us-east-1"}
    proxy.respond = lambda request: (200, {}, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    assert files(bucket.uri, access=Access(True, config)) == []
    assert [headers for _, _, headers in proxy.seen if "authorization" in headers] == []


def test_a_key_that_no_path_can_be_is_named(bucket: S3) -> None:
    bucket.put("x//a", b"1")
    with pytest.raises(InvalidInput, match="cannot be a path: 'x//a'"):
        files(f"{bucket.uri}/x/")


@pytest.mark.parametrize("answer", [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")])
def test_a_bucket_of_another_region_says_so(bucket: S3, proxy: Server, answer: tuple[int, str]) -> None:
    status, code = answer
    proxy.respond = lambda request: (status, {}, f"<Error><Code>{code}</Code></Error>".encode())
    with pytest.raises(InvalidInput, match=r"in another region(.|\n)*AWS_REGION"):
        files(f"{bucket.uri}/x/")


# -- writing


def test_writing_a_local_file_replaces_it_whole(here: Path) -> None:
    storages.write_file("out/deep/x.bin", b"one")
    storages.write_file((here / "out/deep/x.bin").as_uri(), io.BytesIO(b"two"))
    assert (here / "out/deep/x.bin").read_bytes() == b"two" and os.listdir("out/deep") == ["x.bin"]

    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise Unavailable("gone")

    with pytest.raises(Unavailable):
        storages.write_file("out/deep/x.bin", Broken())
    assert (here / "out/deep/x.bin").read_bytes() == b"two" and os.listdir("out/deep") == ["x.bin"]


def test_writing_to_a_bucket(bucket: S3) -> None:
    storages.write_file(f"{bucket.uri}/out/x y", b"one")
    storages.write_file(f"{bucket.uri}/out/z", io.BytesIO(BIG * 3))
    assert read(Named(bucket.uri, "out/x y")) == b"one" and read(Named(bucket.uri, "out/z")) == BIG * 3


@pytest.mark.parametrize("uri", ["s3://b", "s3://b/x/", "s3://b/*.jpg", "https://host/x", "folder/"])
def test_what_is_not_the_name_of_a_file_is_not_written(here: Path, uri: str) -> None:
    with pytest.raises(InvalidInput):
        storages.write_file(uri, b"x")


# -- the cache


def test_a_remote_file_is_fetched_once_and_read_from_the_cache_after(bucket: S3, proxy: Server, cache: Path) -> None:
    bucket.put("a", BIG)
    (file,) = files(f"{bucket.uri}/a", access=bucket.access)
    assert read(file) == BIG
    asked = len(proxy.seen)
    assert read(file) == BIG and len(proxy.seen) == asked
    (one,) = kept(cache)
    assert one.parent.name == one.name[:2] and one.stat().st_size == len(BIG)


def test_another_etag_is_another_file_in_the_cache(bucket: S3, cache: Path) -> None:
    bucket.put("a", b"one")
    (old,) = files(f"{bucket.uri}/a", access=bucket.access)
    assert read(old) == b"one"
    bucket.put("a", b"two")
    (new,) = files(f"{bucket.uri}/a", access=bucket.access)
    assert (read(old), read(new), read(Named(bucket.uri, "a"))) == (b"one", b"two", b"two")
    assert len(kept(cache)) == 2


def test_a_kept_file_that_was_cut_short_is_fetched_again(bucket: S3, cache: Path) -> None:
    bucket.put("a", BIG)
    (file,) = files(f"{bucket.uri}/a", access=bucket.access)
    read(file)
    os.truncate(kept(cache)[0], 100)
    assert read(file) == BIG and kept(cache)[0].stat().st_size == len(BIG)


def test_a_fetch_that_fails_leaves_nothing_in_the_cache(bucket: S3, cache: Path) -> None:
    bucket.put("a", b"one")
    (file,) = files(f"{bucket.uri}/a", access=bucket.access)
    bucket.put("a", b"two")
    with pytest.raises(Conflict):
        read(file)
    assert kept(cache) == []


def test_the_least_recently_used_go_when_the_limit_is_reached(bucket: S3, cache: Path) -> None:
    storages.use(cache, limit=250)
    for name in "abc":
        bucket.put(f"x/{name}", name.encode() * 100)
    a, b, c = files(f"{bucket.uri}/x/", access=bucket.access)
    read(a), read(b)
    for place, when in zip((storage_cache._place(a, cache), storage_cache._place(b, cache)), (10, 20), strict=True):
        os.utime(place, (when, when))
    read(a)  # used just now, so b is the oldest
    read(c)
    assert sorted(path.read_bytes()[:1] for path in kept(cache)) == [b"a", b"c"]


def test_what_a_crash_left_half_written_is_removed_in_time(bucket: S3, cache: Path) -> None:
    storages.use(cache, limit=10)
    (cache / "ab").mkdir(parents=True)
    for name, age in (("old.part", 2 * 86400), ("new.part", 60)):
        (cache / "ab" / name).write_bytes(b"x" * 100)
        os.utime(cache / "ab" / name, (time.time() - age,) * 2)
    bucket.put("a", b"one")
    assert read(Named(bucket.uri, "a")) == b"one"
    assert sorted(path.name for path in (cache / "ab").iterdir() if path.suffix) == ["new.part"]


def test_many_processes_may_fill_one_cache(bucket: S3, cache: Path) -> None:
    for number in range(10):
        bucket.put(f"x/{number}", str(number).encode() * 5000)
    code = f"""
from memlake.dataset import storages
from tests.dataset.storages.conftest import Named, files
access = storages.Access(client_config={dict(bucket.access.client_config)!r})
storages.ACCESS[{bucket.uri!r}] = access
storages.use({str(cache)!r}, limit=120_000)
for _ in range(3):
    for file in files({bucket.uri!r} + "/x/", access=access):
        with storages.open_file(file) as found:
            assert found.read() == file.path[-1].encode() * 5000, file
"""
    running = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(3)]
    assert [(one.communicate(timeout=280)[1], one.returncode) for one in running] == [(b"", 0)] * 3
    assert not [path for path in kept(cache) if path.suffix == ".part"]


# -- reading ahead


def test_files_are_read_ahead_into_the_cache_in_order(bucket: S3, proxy: Server, cache: Path) -> None:
    for number in range(6):
        bucket.put(f"x/{number}", b"%d" % number)
    listed = files(f"{bucket.uri}/x/")
    taken: list[Named] = []
    seen = [(file, len(taken)) for file in storages.prefetch((taken.append(file) or file for file in listed), 2)]
    assert seen == list(zip(listed, [3, 4, 5, 6, 6, 6], strict=True)), "not more ahead than was asked for"
    assert len(kept(cache)) == 6
    asked = len(proxy.seen)
    assert [read(file) for file in listed] == [b"%d" % number for number in range(6)] and len(proxy.seen) == asked


def test_reading_ahead_without_a_cache_leaves_nothing_behind(bucket: S3, proxy: Server) -> None:
    for number in range(4):
        bucket.put(f"x/{number}", b"%d" % number)
    listed = files(f"{bucket.uri}/x/")
    before_it = len(proxy.seen)
    assert [read(file) for file in storages.prefetch(listed, 3)] == [b"0", b"1", b"2", b"3"]
    assert len(proxy.seen) - before_it == 4 and storage_cache.in_use() is None


def test_reading_ahead_without_a_cache_holds_only_what_is_ahead(bucket: S3) -> None:
    for number in range(8):
        bucket.put(f"x/{number}", b"1")
    most = 0
    for _ in storages.prefetch(files(f"{bucket.uri}/x/", access=bucket.access), 1):
        folder = storage_cache.in_use()
        assert folder
        most = max(most, len(kept(folder)))
    assert 1 <= most <= 2


def test_a_file_larger_than_the_limit_is_kept_until_the_next(bucket: S3, proxy: Server, cache: Path) -> None:
    storages.use(cache, limit=10)
    for name in "ab":
        bucket.put(f"x/{name}", name.encode() * 100)
    a, b = files(f"{bucket.uri}/x/")
    read(a)
    asked = len(proxy.seen)
    assert read(a) == b"a" * 100 and len(proxy.seen) == asked
    assert read(b) == b"b" * 100 and len(kept(cache)) == 1


def test_a_file_that_cannot_be_read_ahead_says_why_when_opened(bucket: S3, here: Path) -> None:
    bucket.put("a", b"one")
    (file,) = files(f"{bucket.uri}/a", access=bucket.access)
    bucket.put("a", b"two")
    (ahead,) = storages.prefetch([file], 1)
    with pytest.raises(Conflict):
        read(ahead)


def test_reading_ahead_that_is_given_up_stops(bucket: S3) -> None:
    for number in range(5):
        bucket.put(f"x/{number}", b"1")
    ahead = storages.prefetch(files(f"{bucket.uri}/x/", access=bucket.access), 2)
    next(ahead)
    ahead.close()
    assert storage_cache.in_use() is None and threading.active_count() < 50
