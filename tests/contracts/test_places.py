"""One suite for each place that keeps sealed files: a folder, and buckets in memory, in files, on servers of clouds."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import http.server
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from moto.server import ThreadedMotoServer

from memlake.dataset.storages.access import Access, bucket_options
from memlake.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, Unavailable
from memlake.objects import disk
from memlake.objects.bucket import WHOLE, Bucket, open_place
from memlake.objects.places import Folder, Place
from tests.servers import Azurite, Google

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI-example-secret"
FEW = {"max_retries": 1, "retry_timeout": timedelta(seconds=5)}
MakeFile = Callable[[bytes], Path]

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Server:
    """A real S3 protocol server on a free loopback port."""

    def __init__(self) -> None:
        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        host, port = self.moto.get_host_and_port()
        self.port, self.endpoint = port, f"http://{host}:{port}"

    def client(self) -> Any:
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=self.endpoint, **keys)

    def bucket(self, prefix: str = "packs", **options: Any) -> Bucket:
        name = f"b{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return s3(f"s3://{name}/{prefix}", self.endpoint, **options)


def s3(url: str, endpoint: str, **options: Any) -> Bucket:
    keys = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}
    return Bucket(url, **{"endpoint": endpoint, **keys, **options})


class Proxy:
    """Stands before the server, counts requests, loses answers or whole requests, or answers by itself."""

    def __init__(self, server: Server) -> None:
        self.lose_answers = self.lose_requests = self.status = 0
        self.seen: list[str] = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline()
                if self.raw_requestline and self.parse_request():
                    proxy.answer(self, server.port)
                else:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.httpd.server_port}"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def answer(self, request: http.server.BaseHTTPRequestHandler, port: int) -> None:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        self.seen.append(request.command)
        if request.command == "PUT" and self.lose_requests:
            self.lose_requests -= 1
            request.close_connection = True
            return
        status, headers, data = self.forward(request, port, body)
        if request.command == "PUT" and self.lose_answers:
            self.lose_answers -= 1
            request.close_connection = True
            return
        request.send_response(status)
        for key, value in headers:
            if key.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                request.send_header(key, value)
        length = dict(headers).get("Content-Length", len(data)) if request.command == "HEAD" else len(data)
        request.send_header("Content-Length", str(length))
        request.end_headers()
        request.wfile.write(data)

    def forward(self, request: Any, port: int, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.status:
            return self.status, [], b""
        upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        upstream.request(request.command, request.path, body, dict(request.headers))
        response = upstream.getresponse()
        data = response.read()
        upstream.close()
        return response.status, response.getheaders(), data

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.moto.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    started = Proxy(server)
    yield started
    started.close()


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def make(data: bytes) -> Path:
        file = incoming / uuid.uuid4().hex
        file.write_bytes(data)
        return file

    return make


def cloud_bucket(request: pytest.FixtureRequest, prefix: str) -> Bucket:
    """A new bucket of Azure's or Google's protocol, reached as by a remote that names its endpoint."""
    if request.param == "az":
        azurite: Azurite = request.getfixturevalue("azurite")
        return open_bucket(f"az://{azurite.make_container()}/{prefix}", azurite.options)
    google: Google = request.getfixturevalue("google")
    return open_bucket(f"gs://{google.make_bucket()}/{prefix}", {"endpoint_url": google.endpoint})


def open_bucket(url: str, config: dict[str, str]) -> Bucket:
    return Bucket(url, **bucket_options(url[:2], Access(client_config=dict(config))))


@pytest.fixture(params=["folder", "memory", "file", "s3", "az", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Folder(tmp_path / "földer" / "packs")
    if request.param == "memory":
        return Bucket("memory:///")
    if request.param == "file":
        return Bucket(f"file://{tmp_path}/földer/packs")
    if request.param == "s3":
        server: Server = request.getfixturevalue("server")
        return server.bucket("prä fix/包")
    return cloud_bucket(request, "prä fix/包")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "packs")


def names(place: Place, prefix: str = "") -> list[str]:
    return sorted(name for name, _, _ in place.list(prefix))


# What every place promises


def test_a_file_put_is_read_back_whole_and_in_ranges(place: Place, make_file: MakeFile) -> None:
    data = os.urandom(300_000)
    place.put("ab/one.pack", make_file(data))
    assert place.size("ab/one.pack") == len(data)
    assert place.get("ab/one.pack", 0, len(data)) == data
    assert place.get("ab/one.pack", 299_990, 10) == data[-10:]
    assert place.get("ab/one.pack", 5, 0) == b""


def test_ranges_come_back_in_the_order_asked_even_when_they_overlap_or_are_empty(
    place: Place, make_file: MakeFile
) -> None:
    data = os.urandom(4_000_000)
    place.put("one", make_file(data))
    ranges = [(3_999_000, 1000), (0, 10), (5, 10), (5, 0), (2_000_000, 70_000), (0, 10), (2_070_000, 1)]
    assert place.get_ranges("one", ranges) == [data[start : start + length] for start, length in ranges]
    assert place.get_ranges("one", []) == []
    assert place.get_ranges("one", [(0, 0), (7, 0)]) == [b"", b""]


def test_an_empty_file_can_be_stored(place: Place, make_file: MakeFile) -> None:
    place.put("empty", make_file(b""))
    assert place.size("empty") == 0
    assert place.get("empty", 0, 0) == b""


def test_list_gives_name_size_and_time_under_any_prefix(place: Place, make_file: MakeFile) -> None:
    before = time.time()
    for name in ("ab/1", "ab/22", "abc/3", "b", "ab-x"):
        place.put(name, make_file(name.encode()))
    assert names(place) == ["ab-x", "ab/1", "ab/22", "abc/3", "b"]
    assert names(place, "ab") == ["ab-x", "ab/1", "ab/22", "abc/3"]
    assert names(place, "ab/") == ["ab/1", "ab/22"]
    assert names(place, "ab/2") == ["ab/22"]
    assert names(place, "zz/") == []
    assert {(name, size) for name, size, _ in place.list("abc")} == {("abc/3", 5)}
    assert all(before - 60 < stored < time.time() + 60 for _, _, stored in place.list())


def test_a_place_nobody_has_written_to_is_empty(place: Place) -> None:
    assert names(place) == []
    place.delete("one")


def test_delete_removes_a_name_and_forgives_a_missing_one(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"1234"))
    assert place.get("one", 0, 4) == b"1234"
    place.delete("one")
    place.delete("one")
    assert names(place) == []
    with pytest.raises(NotFound):
        place.get("one", 0, 4)


def test_a_deleted_name_can_be_stored_again_with_other_content(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"1234"))
    assert place.get("one", 0, 4) == b"1234"
    place.delete("one")
    place.put("one", make_file(b"56789"))
    assert place.get("one", 0, 5) == b"56789"


def test_putting_the_same_file_twice_is_success(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"same"))
    place.put("one", make_file(b"same"))
    assert place.get("one", 0, 4) == b"same"


def test_another_size_under_a_taken_name_is_a_conflict_and_changes_nothing(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"first"))
    file = make_file(b"another")
    with pytest.raises(Conflict, match="7"):
        place.put("one", file)
    assert place.get("one", 0, 5) == b"first"
    assert file.read_bytes() == b"another"


def test_a_large_file_under_a_taken_name_is_a_conflict_and_changes_nothing(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"first"))
    with pytest.raises(Conflict):
        place.put("one", make_file(bytes(WHOLE + 1)))
    assert place.get("one", 0, 5) == b"first"


def test_eight_threads_putting_one_name_all_succeed(place: Place, make_file: MakeFile) -> None:
    data = os.urandom(200_000)
    files = [make_file(data) for _ in range(8)]
    gate = threading.Barrier(8)

    def put(file: Path) -> None:
        gate.wait()
        place.put("ab/one", file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, files))
    assert names(place) == ["ab/one"]
    assert place.get("ab/one", 0, len(data)) == data


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "..", "../a", "a/../b", ".", "a/.", "A", "a b", "ä", "a\n", "~a"]
)
def test_a_name_that_could_leave_the_place_is_refused(place: Place, make_file: MakeFile, name: str) -> None:
    file = make_file(b"1")
    for call in (
        lambda: place.put(name, file),
        lambda: place.get(name, 0, 1),
        lambda: place.get_ranges(name, [(0, 1)]),
        lambda: place.size(name),
        lambda: place.delete(name),
        lambda: place.local_path(name),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert file.exists()


@pytest.mark.parametrize("prefix", ["/", "../", "a//", "A"])
def test_a_prefix_that_no_name_can_have_is_refused_at_once(place: Place, prefix: str) -> None:
    with pytest.raises(InvalidInput):
        place.list(prefix)


def test_a_missing_name_is_not_found_and_named(place: Place, make_file: MakeFile) -> None:
    place.put("ab/one", make_file(b"1"))
    for call in (
        lambda: place.get("ab/two", 0, 1),
        lambda: place.get("ab/two", 0, 0),
        lambda: place.get_ranges("ab/two", [(0, 1)]),
        lambda: place.size("ab/two"),
    ):
        with pytest.raises(NotFound, match="ab/two"):
            call()
    with pytest.raises(NotFound):
        place.size("ab")
    assert place.local_path("ab/two") is None


def test_a_missing_source_file_is_not_found(place: Place, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="gone"):
        place.put("one", tmp_path / "gone")
    assert names(place) == []


@pytest.mark.parametrize(
    "wanted", [[(0, 11)], [(8, 5)], [(10, 1)], [(0, 2), (18, 5)], [(0, 2), ((1 << 20) + 3, 1)], [(0, 1), (1 << 30, 1)]]
)
def test_a_range_past_the_end_is_corrupt(place: Place, make_file: MakeFile, wanted: list[tuple[int, int]]) -> None:
    place.put("one", make_file(b"0123456789"))
    with pytest.raises(Corrupt, match="one"):
        place.get_ranges("one", wanted)
    with pytest.raises(Corrupt, match="one"):
        place.get("one", *wanted[-1])


def test_a_negative_range_is_refused(place: Place, make_file: MakeFile) -> None:
    place.put("one", make_file(b"0123456789"))
    for start, length in ((-1, 2), (0, -1)):
        with pytest.raises(InvalidInput):
            place.get("one", start, length)


def test_seventy_megabytes_pass_through_unchanged(place: Place, make_file: MakeFile) -> None:
    data = os.urandom(70 << 20)
    assert len(data) > WHOLE
    for _ in range(2):
        place.put("big", make_file(data))
    assert place.size("big") == len(data)
    read = b"".join(place.get_ranges("big", [(start, 10 << 20) for start in range(0, 70 << 20, 10 << 20)]))
    assert hashlib.sha256(read).digest() == hashlib.sha256(data).digest()


def test_many_threads_read_and_write_at_once(place: Place, make_file: MakeFile) -> None:
    contents = {f"{n % 3}/{n}": os.urandom(2000 + n) for n in range(40)}

    def journey(name: str) -> bool:
        place.put(name, make_file(contents[name]))
        return place.get_ranges(name, [(1000, 1000), (0, 10)]) == [contents[name][1000:2000], contents[name][:10]]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(journey, contents))
    assert names(place) == sorted(contents)


# The folder


def open_under(folder: Folder) -> list[str]:
    return [file.path for file in psutil.Process().open_files() if file.path.startswith(str(folder.root))]


@contextlib.contextmanager
def failing(step: str, code: int, *, times: int = 1, after: int = 0) -> Iterator[list[str]]:
    """Let a step of the disk fail; gives the steps seen."""
    seen: list[str] = []

    def hook(name: str) -> None:
        seen.append(name)
        if name == step and after < seen.count(step) <= after + times:
            raise OSError(code, os.strerror(code))

    disk.hook = hook
    try:
        yield seen
    finally:
        disk.hook = None


def test_a_folder_moves_the_file_in_and_gives_its_path(folder: Folder, make_file: MakeFile) -> None:
    file = make_file(b"1234")
    inode = file.stat().st_ino
    folder.put("ab/one", file)
    path = folder.local_path("ab/one")
    assert path is not None and path.read_bytes() == b"1234" and path.stat().st_ino == inode
    assert not file.exists()


def test_a_folder_removes_the_source_of_a_name_it_already_has(folder: Folder, make_file: MakeFile) -> None:
    folder.put("one", make_file(b"1234"))
    file = make_file(b"1234")
    folder.put("one", file)
    assert not file.exists()


def test_a_name_is_durable_before_the_source_goes(folder: Folder, make_file: MakeFile) -> None:
    folder.put("ab/one", make_file(b"1"))
    with failing("never", 0) as seen:
        folder.put("ab/two", make_file(b"2"))
    assert seen == ["fsync", "link", "fsync-dir", "fsync-dir", "unlink"]


def test_a_put_that_finds_its_name_still_makes_it_durable(folder: Folder, make_file: MakeFile) -> None:
    folder.put("one", make_file(b"1"))
    with failing("never", 0) as seen:
        folder.put("one", make_file(b"1"))
    assert seen.count("fsync-dir") == 1 and seen.index("fsync-dir") < seen.index("unlink")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("step", ["mkdir", "fsync", "link", "fsync-dir"])
def test_a_put_that_fails_is_named_and_can_be_run_again(
    folder: Folder, make_file: MakeFile, step: str, code: int
) -> None:
    file = make_file(b"1234")
    with failing(step, code), pytest.raises(Unavailable, match="ab/one") as caught:
        folder.put("ab/one", file)
    assert caught.value.hint and os.strerror(code) in caught.value.message
    assert file.read_bytes() == b"1234"
    folder.put("ab/one", file)
    assert folder.get("ab/one", 0, 4) == b"1234"


@pytest.mark.parametrize("racers", [2, 8])
def test_writers_of_different_content_under_one_name_never_overwrite(
    folder: Folder, make_file: MakeFile, racers: int
) -> None:
    files = [make_file(bytes([n]) * (n + 1)) for n in range(racers)]
    gate = threading.Barrier(racers)

    def put(file: Path) -> int:
        gate.wait()
        with contextlib.suppress(Conflict):
            size = file.stat().st_size
            folder.put("one", file)
            return size
        return 0

    with ThreadPoolExecutor(racers) as pool:
        won = [size for size in pool.map(put, files) if size]
    assert len(won) == 1
    assert folder.get("one", 0, won[0]) == bytes([won[0] - 1]) * won[0]


def test_a_file_from_another_file_system_is_copied(folder: Folder, make_file: MakeFile) -> None:
    data = os.urandom(3_000_000)
    file = make_file(data)
    folder.root.mkdir()
    old, young = f"~{'0' * 32}", f"~{'1' * 32}"
    for left, age in ((old, 2 * 86400), (young, 60), ("~$letter.docx", 2 * 86400)):
        (folder.root / left).write_bytes(b"half a copy")
        os.utime(folder.root / left, (time.time() - age,) * 2)
    with failing("link", errno.EXDEV) as seen:
        folder.put("one", file)
    assert folder.get("one", 0, len(data)) == data
    assert not file.exists()
    assert seen.count("fsync") == 2, "the source and the copy"
    assert names(folder) == ["one"]
    assert sorted(os.listdir(folder.root)) == ["one", "~$letter.docx", young]


def test_a_copy_under_way_stays_where_our_clock_is_ahead_of_the_places(
    folder: Folder, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ours = make_file(b"x" * 1000), time.time() + 365 * 86400
    folder.root.mkdir()
    young = f"~{'1' * 32}"
    (folder.root / young).write_bytes(b"half a copy")
    monkeypatch.setattr(time, "time", lambda: ours)
    with failing("link", errno.EXDEV):
        folder.put("one", file)
    assert sorted(os.listdir(folder.root)) == ["one", young]


def test_a_copy_that_meets_a_full_disk_leaves_nothing_but_the_source(folder: Folder, make_file: MakeFile) -> None:
    file = make_file(os.urandom(3_000_000))
    folder.root.mkdir()

    def hook(name: str) -> None:
        if name in ("link", "write"):
            raise OSError(errno.EXDEV if name == "link" else errno.ENOSPC, name)

    disk.hook = hook
    try:
        with pytest.raises(Unavailable):
            folder.put("one", file)
    finally:
        disk.hook = None
    assert file.exists() and os.listdir(folder.root) == []


def test_a_file_system_without_links_gets_a_rename(folder: Folder, make_file: MakeFile) -> None:
    with failing("link", errno.EPERM, times=9):
        folder.put("one", make_file(b"1234"))
        folder.put("one", make_file(b"5678"))
        with pytest.raises(Conflict):
            folder.put("one", make_file(b"12345"))
    assert folder.get("one", 0, 4) == b"1234"


def test_no_more_files_are_open_than_the_limit(tmp_path: Path, make_file: MakeFile) -> None:
    folder = Folder(tmp_path / "packs", open_files=4)
    for n in range(20):
        folder.put(str(n), make_file(b"%d" % n))
    for _ in range(2):
        assert [folder.get(str(n), 0, len(str(n))) for n in range(20)] == [b"%d" % n for n in range(20)]
        assert len(open_under(folder)) == 4


def test_delete_closes_the_file(folder: Folder, make_file: MakeFile) -> None:
    folder.put("one", make_file(b"1234"))
    folder.get("one", 0, 4)
    (held,) = folder._open_files._files.values()
    fd, identity = held.fd, held.identity
    del held
    assert os.path.samestat(os.fstat(fd), os.stat(folder.root / "one"))
    folder.delete("one")
    with contextlib.suppress(OSError):  # another thread may have been given the number since
        found = os.fstat(fd)
        assert (found.st_dev, found.st_ino) != identity


def test_a_name_replaced_behind_our_back_is_not_served_stale(folder: Folder, make_file: MakeFile) -> None:
    folder.put("one", make_file(b"1234"))
    assert folder.get("one", 0, 4) == b"1234"
    other = Folder(folder.root)
    other.delete("one")
    with pytest.raises(NotFound):
        folder.get("one", 0, 4)
    other.put("one", make_file(b"5678"))
    assert folder.get("one", 0, 4) == b"5678"


def test_readers_get_right_bytes_or_not_found_while_names_come_and_go(folder: Folder, make_file: MakeFile) -> None:
    contents = {str(n): bytes([n]) * 50_000 for n in range(6)}
    for name, data in contents.items():
        folder.put(name, make_file(data))
    folder._open_files.limit = 3
    replaced = {name: threading.Event() for name in contents}

    def read(name: str) -> int:
        right = 0
        while not (replaced[name].is_set() and right):
            with contextlib.suppress(NotFound):
                assert folder.get(name, 0, 50_000) == contents[name]
                right += 1
        return right

    def replace(name: str) -> int:
        for _ in range(60):
            folder.delete(name)
            folder.put(name, make_file(contents[name]))
        replaced[name].set()
        return 1

    with ThreadPoolExecutor(18) as pool:
        running = [pool.submit(work, name) for name in contents for work in (read, read, replace)]
        assert all(task.result() > 0 for task in running)


def wait_for(pid: int, seconds: float = 200) -> int:
    """The exit code of a child, which is killed when it hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_fork_reads_even_if_a_thread_of_its_parent_held_the_lock(
    folder: Folder, make_file: MakeFile
) -> None:
    folder.put("one", make_file(b"1234"))
    assert folder.get("one", 0, 4) == b"1234"
    with folder._open_files._lock:
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                os._exit(0 if folder.get("one", 0, 4) == b"1234" else 1)
            os._exit(2)
    assert wait_for(pid) == 0
    assert folder.get("one", 0, 4) == b"1234"


def test_too_many_open_files_is_named_and_passes(folder: Folder, make_file: MakeFile) -> None:
    folder.put("one", make_file(b"1234"))
    result = subprocess.run(
        [sys.executable, "-c", CROWDED, str(folder.root)], capture_output=True, text=True, check=True
    )
    assert "reading one" in result.stdout and "ulimit" in result.stdout
    assert result.stdout.endswith("then b'1234'\n")


CROWDED = """
import os, pathlib, resource, sys
from memlake.errors import Unavailable
from memlake.objects.places import Folder
folder, taken = Folder(pathlib.Path(sys.argv[1])), []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
try:
    folder.get("one", 0, 4)
except Unavailable as error:
    print(error)
os.close(taken.pop())
print("then", folder.get("one", 0, 4))
"""


# The bucket


def test_a_bucket_keeps_the_source_and_has_no_local_path(server: Server, make_file: MakeFile) -> None:
    bucket, file = server.bucket(), make_file(b"1234")
    bucket.put("one", file)
    assert file.exists() and bucket.local_path("one") is None


def test_a_bucket_of_local_files_is_durable_too(tmp_path: Path, make_file: MakeFile) -> None:
    bucket = Bucket(f"file://{tmp_path}/packs")
    for _ in range(2):
        with failing("never", 0) as seen:
            bucket.put("ab/one", make_file(b"1"))
        assert seen == ["fsync", "fsync-dir", "fsync-dir"]
    assert bucket.local_path("ab/one") == tmp_path / "packs/ab/one"


def test_what_is_too_large_for_one_request_goes_in_parts(server: Server, make_file: MakeFile) -> None:
    bucket = server.bucket()
    bucket.put("big", make_file(bytes(WHOLE + 1)))
    bucket.put("small", make_file(b"1"))
    held, client = bucket.url.split("/")[2], server.client()
    parts = {key: client.head_object(Bucket=held, Key=f"packs/{key}")["ETag"].strip('"') for key in ("big", "small")}
    assert parts["big"].endswith("-3") and "-" not in parts["small"]


def test_neighbouring_ranges_are_one_request(server: Server, proxy: Proxy, make_file: MakeFile) -> None:
    bucket, data = server.bucket(), os.urandom(5_000_000)
    bucket.put("one", make_file(data))
    through = s3(bucket.url, proxy.endpoint)
    ranges = [(start, 4096) for start in range(0, 400_000, 5000)] + [(4_000_000, 10)]
    assert through.get_ranges("one", ranges) == [data[start : start + length] for start, length in ranges]
    assert proxy.seen == ["GET", "GET"]


def test_a_put_that_was_answered_is_one_request_and_one_of_a_taken_name_looks(
    server: Server, proxy: Proxy, make_file: MakeFile
) -> None:
    bucket = s3(server.bucket().url, proxy.endpoint)
    bucket.put("one", make_file(b"1234"))
    assert proxy.seen == ["PUT"]
    bucket.put("one", make_file(b"1234"))
    assert proxy.seen == ["PUT", "PUT", "HEAD"]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_put_whose_answer_is_lost_is_found_to_be_done(
    server: Server, proxy: Proxy, make_file: MakeFile, retries: int
) -> None:
    bucket = s3(server.bucket().url, proxy.endpoint, retry_config={"max_retries": retries})
    proxy.lose_answers = 1
    bucket.put("one", make_file(b"1234"))
    assert bucket.get("one", 0, 4) == b"1234"
    assert proxy.lose_answers == 0
    assert proxy.seen.count("PUT") == (1 if retries == 0 else 2)


def test_a_put_that_never_arrived_is_sent_again(server: Server, proxy: Proxy, make_file: MakeFile) -> None:
    bucket = s3(server.bucket().url, proxy.endpoint, retry_config={"max_retries": 0})
    proxy.lose_requests = 2
    bucket.put("one", make_file(b"1234"))
    assert bucket.get("one", 0, 4) == b"1234"
    proxy.lose_requests = 99
    with pytest.raises(Unavailable):
        bucket.put("two", make_file(b"1234"))


def calls(bucket: Bucket, file: Path) -> list[Callable[[], Any]]:
    return [
        lambda: bucket.put("two", file),
        lambda: bucket.get("one", 0, 1),
        lambda: bucket.get_ranges("one", [(0, 1)]),
        lambda: bucket.size("one"),
        lambda: list(bucket.list()),
        lambda: bucket.delete("one"),
    ]


def assert_no_secret(error: BaseException) -> None:
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert SECRET not in text and KEY not in text and "Debug source" not in text


@pytest.mark.parametrize(("status", "kind"), [(403, Denied), (401, Denied), (500, Unavailable), (503, Unavailable)])
def test_an_answer_of_refusal_or_trouble_is_named(
    server: Server, proxy: Proxy, make_file: MakeFile, status: int, kind: type[Exception]
) -> None:
    bucket = s3(server.bucket().url, proxy.endpoint, retry_config=FEW)
    proxy.status = status
    for call in calls(bucket, make_file(b"1")):
        with pytest.raises(kind, match=bucket.url) as caught:
            call()
        assert_no_secret(caught.value)


@pytest.mark.timeout(150)  # a client that goes on for its usual three minutes is ended
@pytest.mark.parametrize("options", [{}, {"retry_config": FEW}])
def test_a_stopped_server_is_unavailable_in_bounded_time(make_file: MakeFile, options: dict[str, Any]) -> None:
    server = Server()
    bucket = server.bucket(**options)
    bucket.put("one", make_file(b"1"))
    server.moto.stop()
    for call in calls(bucket, make_file(b"1"))[: None if options else 1]:
        with pytest.raises(Unavailable, match="run it again") as caught:
            call()
        assert_no_secret(caught.value)


@pytest.mark.timeout(150)
def test_a_server_that_never_answers_is_unavailable_in_bounded_time(make_file: MakeFile) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as deaf:
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        bucket = s3("s3://bucket/packs", endpoint, timeout="500ms", retry_config={"max_retries": 1})
        for call in calls(bucket, make_file(b"1")):
            with pytest.raises(Unavailable, match=r"timed ?out") as caught:
                call()
            assert_no_secret(caught.value)


def test_a_missing_bucket_is_not_found_for_what_needs_one(server: Server, make_file: MakeFile) -> None:
    bucket = s3("s3://nobody-made-this/packs", server.endpoint)
    for call in (lambda: bucket.put("one", make_file(b"1")), lambda: list(bucket.list())):
        with pytest.raises(NotFound, match="no bucket s3://nobody-made-this/packs"):
            call()


@pytest.mark.parametrize(
    "url", [f"s3://{KEY}:{SECRET}@b/p", f"az://a/b?sig={SECRET}", f"s3://b#{SECRET}", "ftp://b", "b"]
)
def test_a_url_that_is_more_than_bucket_and_prefix_is_refused_unquoted(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Bucket(url)
    assert_no_secret(caught.value)


@pytest.mark.parametrize("url", ["s3://b/p", "file:///tmp", "memory:///"])
def test_an_unknown_option_is_refused_by_name_and_not_by_value(url: str) -> None:
    with pytest.raises(InvalidInput, match="secret_acess_key") as caught:
        Bucket(url, secret_acess_key=SECRET)
    assert_no_secret(caught.value)


def test_the_usual_environment_names_open_a_bucket(
    server: Server, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.bucket().url
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    place = open_place(url)
    place.put("one", make_file(b"1"))
    assert names(place) == ["one"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_bucket_in_a_child_of_fork_is_refused_instead_of_hanging(server: Server, make_file: MakeFile) -> None:
    bucket = server.bucket()
    bucket.put("one", make_file(b"1234"))
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            try:
                bucket.size("one")
            except Unavailable:
                os._exit(0)
        os._exit(2)
    assert wait_for(pid) == 0
    assert bucket.get("one", 0, 4) == b"1234"


def test_without_obstore_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(Unavailable, match=r'pip install "memlake\[bucket\]"'):
        Bucket("memory:///")


def test_obstore_is_not_imported_until_a_bucket_is_opened() -> None:
    code = "import sys, memlake.objects.bucket as p; p.open_place('.'); sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_the_connection_loads_obstore() -> None:
    files = (Path(disk.__file__).parents[1]).rglob("*.py")
    assert [file.name for file in files if 'import_module("obstore' in file.read_text()] == ["object_store.py"]


def test_a_location_opens_the_place_it_names(tmp_path: Path) -> None:
    for location in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"file://{tmp_path}".replace("tmp", "%74mp")):
        place = open_place(location)
        assert isinstance(place, Folder) and place.root == tmp_path
    assert isinstance(open_place("memory:///"), Bucket)
