"""What tests of storages stand on: a real S3 server, and files to tell them of."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import boto3
import pytest

from memlake.dataset import storages
from memlake.dataset.storages import Access

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI-example-secret"

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Named(NamedTuple):
    """A file as a row of a dataset names it."""

    source: str
    path: str
    size: int = 0
    version: str = ""
    etag: str = ""


class S3(NamedTuple):
    """One new bucket of the server, and how it is reached."""

    client: Any
    bucket: str
    endpoint: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}"

    @property
    def access(self) -> Access:
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        return Access(client_config={**keys, "endpoint_url": self.endpoint})

    def put(self, key: str, body: bytes = b"") -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)


@pytest.fixture
def s3(endpoint: str) -> S3:
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=endpoint, **keys)
    bucket = f"b{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    return S3(client, bucket, endpoint)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No access and no AWS setting outlives a test."""
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    yield
    storages.ACCESS.clear()


def rows(uri: str, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in storages.list_files(uri, **options) for row in batch.to_pylist()]


def paths(uri: str, **options: Any) -> list[str]:
    return [row["path"] for row in rows(uri, **options)]


def files(uri: str, **options: Any) -> list[Named]:
    return [Named(*(row[name] for name in Named._fields)) for row in rows(uri, **options)]
