"""A repo whose packs lie in a bucket: the same verbs, the same promises, against a real S3 protocol server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

import memlake as ml

SIZE = 3 << 20


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="lake")
    yield "s3://lake/packs"
    server.stop()


def stored(prefix: str) -> list[str]:
    found = boto3.client("s3").list_objects_v2(Bucket="lake", Prefix=prefix)
    return [item["Key"] for item in found.get("Contents", ())]


def test_files_are_added_read_collected_and_purged_in_a_bucket(tmp_path: Path, bucket: str) -> None:
    with ml.init(tmp_path) as repo:
        repo.config.set("core.packs", bucket)
    data = random.Random(1).randbytes(SIZE)
    (tmp_path / "big.bin").write_bytes(data)
    with ml.open(tmp_path) as repo:
        repo.add(tmp_path / "big.bin")
        first = repo.commit("first")
        assert len(stored("packs/")) == 2  # a pack and the mark of its owner
        assert not list((tmp_path / ".memlake" / "packs").iterdir())
        assert not list((tmp_path / ".memlake" / "tmp").iterdir())

        (tmp_path / "big.bin").write_bytes(data[:1000] + b"inserted" + data[1000:])
        repo.commit("second", all=True)
        assert repo.read("big.bin", first.oid) == data
        with repo.open("big.bin") as stream:
            stream.seek(1000)
            assert stream.read(8) == b"inserted"

        repo.switch(first.oid, detach=True)
        assert (tmp_path / "big.bin").read_bytes() == data
        repo.switch("main")

        old = dict(repo.ls(first.oid))["files/big.bin"].oid
        repo.upkeep.purge(old, reason="test")
        repo.upkeep.gc(prune=True)
        with pytest.raises(ml.errors.Purged):
            repo.read("big.bin", first.oid)
        assert repo.upkeep.fsck(full=True).ok


def test_a_bucket_that_is_gone_is_said_and_nothing_is_staged(tmp_path: Path, bucket: str) -> None:
    with ml.init(tmp_path) as repo:
        repo.config.set("core.packs", bucket.replace("lake", "nowhere"))
    (tmp_path / "big.bin").write_bytes(random.Random(2).randbytes(SIZE))
    with ml.open(tmp_path) as repo:
        with pytest.raises(ml.Error):
            repo.add(tmp_path / "big.bin")
        assert repo.status().staged == ()
