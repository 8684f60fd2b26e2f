"""gs:// and az:// against servers: Azurite for Azure's protocol, and for Google's (its XML, without keys) moto."""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest

import memlake as ml
from memlake.dataset import storages
from memlake.dataset.storages import Access
from memlake.dataset.storages.access import bucket_options
from memlake.dataset.storages.buckets import connect
from memlake.errors import Denied, NotFound
from tests.dataset.storages.conftest import KEY, SECRET, files, paths
from tests.servers import ACCOUNT_KEY, Azurite


class Cloud(NamedTuple):
    """One new bucket, how it is reached, and what in the environment says so, too."""

    uri: str
    access: Access
    environment: dict[str, str]
    put: Callable[[str, bytes], object]


@pytest.fixture(params=["gs", "az"])
def cloud(request: pytest.FixtureRequest, endpoint: str) -> Cloud:
    name = f"b{uuid.uuid4().hex}"
    if request.param == "gs":
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=endpoint, **keys)
        client.create_bucket(Bucket=name, ACL="public-read")

        def put(key: str, body: bytes) -> None:  # moto lets nobody write without a key
            client.put_object(Bucket=name, Key=key, Body=body, ACL="public-read")

        access = Access(client_config={"endpoint_url": endpoint})
        return Cloud(f"gs://{name}", access, {"STORAGE_EMULATOR_HOST": endpoint}, put)
    azurite: Azurite = request.getfixturevalue("azurite")
    uri, access = f"az://{azurite.make_container()}", Access(client_config=dict(azurite.options))
    bucket = connect(uri, access)
    return Cloud(uri, access, azurite.environment, partial(bucket.obstore.put, bucket.store))


def test_a_bucket_is_listed_in_order_by_folder_name_and_wildcard(cloud: Cloud) -> None:
    for key in ("x/b.jpg", "x/a.jpg", "x/sub/c.jpg", "xy", "x/ü ö%20.txt"):
        cloud.put(key, b"hey")
    ordered = ["x/a.jpg", "x/b.jpg", "x/sub/c.jpg", "x/ü ö%20.txt"]
    assert paths(f"{cloud.uri}/x/", access=cloud.access) == ordered
    assert paths(f"{cloud.uri}/x/*.jpg", access=cloud.access) == ["x/a.jpg", "x/b.jpg"]
    assert paths(f"{cloud.uri}/x/a.jpg", access=cloud.access) == ["x/a.jpg"]
    assert paths(f"{cloud.uri}/x/", access=cloud.access, recursive=False) == ["x/a.jpg", "x/b.jpg", "x/ü ö%20.txt"]


def test_bytes_are_read_and_a_file_that_changed_since_is_told(cloud: Cloud) -> None:
    cloud.put("x/a", b"first")
    (file,) = files(f"{cloud.uri}/x/", access=cloud.access)
    storages.ACCESS[cloud.uri] = cloud.access
    assert file.etag and file.size == 5
    with storages.open_file(file) as stream:
        assert stream.read() == b"first"
    cloud.put("x/a", b"other bytes")
    with pytest.raises(ml.Error, match="is not what it was when it was listed"), storages.open_file(file) as stream:
        stream.read()


def test_a_bucket_or_folder_that_is_not_there_is_named(cloud: Cloud) -> None:
    cloud.put("x/a", b"1")
    with pytest.raises(NotFound, match="has nothing under 'X/'"):
        paths(f"{cloud.uri}/X/", access=cloud.access)
    with pytest.raises(NotFound, match="there is no bucket"):
        paths(f"{cloud.uri[:5]}no-such-bucket-{uuid.uuid4().hex[:8]}/x/", access=cloud.access)


def test_a_wrong_key_is_refused_and_not_quoted(azurite: Azurite) -> None:
    wrong = base64.b64encode(b"wrong").decode()
    given = {**azurite.options, "account_key": wrong}
    with pytest.raises(Denied) as told:
        paths(f"az://{azurite.make_container()}/x/", access=Access(client_config=given))
    assert wrong not in str(told.value) and "AZURE_STORAGE_ACCOUNT_KEY" in told.value.hint


def test_a_chain_runs_over_it_by_the_environment_alone_and_is_recalled(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        cloud.put(f"x/{n:02}.txt", b"word " * n)
    for name, value in cloud.environment.items():
        monkeypatch.setenv(name, value)
    calls = tmp_path / "calls"

    def count(file: ml.TextFile) -> int:
        with calls.open("a") as log:
            log.write(".")
        return len(file.read().split())

    with ml.init(tmp_path / "repo") as repo:
        data = repo.datasets()
        for _ in range(2):
            chain = data.read_storage(f"{cloud.uri}/x/", type="text").map(words=count)
            assert sorted(chain.save("counted").to_values("words")) == list(range(20))
        assert calls.read_text() == "." * 20
        cloud.put("x/07.txt", b"one two")
        data.read_storage(f"{cloud.uri}/x/", type="text", update=True).map(words=count).save("counted")
        assert calls.read_text() == "." * 21
        if cloud.uri.startswith("az"):
            data.read_dataset("counted").limit(1).to_storage(f"{cloud.uri}/copied/")
            assert len(paths(f"{cloud.uri}/copied/", access=cloud.access)) == 1
    assert ACCOUNT_KEY not in _everything_below(tmp_path / "repo")


def _everything_below(root: Path) -> str:
    names = (Path(folder) / name for folder, _, found in os.walk(root) for name in found)
    return "".join(path.read_bytes().decode("latin-1") for path in names)


def test_what_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "here:9000")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;AccountKey=a2V5;BlobEndpoint=https://here")
    ours = bucket_options("gs", Access())
    assert json.loads(ours["service_account_key"])["disable_oauth"] is True, "no server of Google's is asked"
    assert ours["base_url"] == "http://here:9000" and ours["skip_signature"] and ours["allow_http"]
    assert bucket_options("gs", Access(client_config={"endpoint_url": "https://there"}))["base_url"] == "https://there"
    keyed = Access(client_config={"token": "/keys/me.json", "endpoint_url": "https://there"})
    assert bucket_options("gs", keyed) == {"base_url": "https://there", "service_account_path": "/keys/me.json"}
    assert bucket_options("az", Access()) == {"account_name": "a", "account_key": "a2V5", "endpoint": "https://here"}
    assert bucket_options("az", Access(client_config={"account_name": "b"}))["account_name"] == "b"
    assert "account_key" not in bucket_options("az", Access(anon=True))
