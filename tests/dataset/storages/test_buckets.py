"""Buckets: listed and read from a real S3 server; those of Google and Azure as far as their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlake.dataset import storages
from memlake.dataset.storages import Access
from memlake.dataset.storages.access import bucket_options
from memlake.dataset.storages.buckets import connect
from memlake.errors import Denied, InvalidInput, NotFound
from tests.dataset.storages.conftest import KEY, S3, SECRET, paths, rows


def test_a_bucket_lists_its_keys_in_order(s3: S3) -> None:
    for key in ("x/b.jpg", "x/a.jpg", "x/sub/c.jpg", "xy", "x/ü ö%20.txt"):
        s3.put(key, b"hey")
    found = rows(f"{s3.uri}/x/", access=s3.access)
    assert [row["path"] for row in found] == ["x/a.jpg", "x/b.jpg", "x/sub/c.jpg", "x/ü ö%20.txt"]
    assert found[0]["source"] == s3.uri and found[0]["size"] == 3 and found[0]["last_modified"] is not None
    assert found[0]["etag"] == s3.client.head_object(Bucket=s3.bucket, Key="x/a.jpg")["ETag"].strip('"')
    assert paths(s3.uri, access=s3.access) == [row["path"] for row in found] + ["xy"]


def test_a_prefix_without_a_slash_is_a_folder_or_one_file(s3: S3) -> None:
    s3.put("x/a.jpg", b"hey")
    assert paths(f"{s3.uri}/x", access=s3.access) == paths(f"{s3.uri}/x/a.jpg", access=s3.access) == ["x/a.jpg"]


def test_markers_of_folders_are_left_out_and_empty_files_are_not(s3: S3) -> None:
    for key in ("x/", "x/folder/", "x/sub/", "x/sub/b", "x/empty"):
        s3.put(key)
    assert paths(f"{s3.uri}/x/", access=s3.access) == ["x/empty", "x/sub/b"]
    assert paths(f"{s3.uri}/x/folder/", access=s3.access) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("x/*.jpg", ["x/1.jpg"]),
        ("x/**/*.jpg", ["x/1.jpg", "x/a/2.jpg"]),
        ("x/{a,b}/*", ["x/a/2.jpg"]),
        ("x/{1..3}.*", ["x/1.jpg", "x/3.png"]),
        ("x/*", ["x/1.jpg", "x/3.png"]),
        ("*/*.png", ["x/3.png"]),
    ],
)
def test_wildcards_choose_keys(s3: S3, pattern: str, expected: list[str]) -> None:
    for key in ("x/1.jpg", "x/a/2.jpg", "x/3.png", "y"):
        s3.put(key, b"1")
    assert paths(f"{s3.uri}/{pattern}", access=s3.access) == expected


def test_a_listing_that_is_not_recursive_stays_in_its_folder(s3: S3) -> None:
    for key in ("x/1.jpg", "x/a/2.jpg"):
        s3.put(key, b"1")
    assert paths(f"{s3.uri}/x/", access=s3.access, recursive=False) == ["x/1.jpg"]


def test_a_bucket_that_is_not_there_is_named(s3: S3) -> None:
    with pytest.raises(NotFound, match="there is no bucket s3://no-such-bucket"):
        paths("s3://no-such-bucket/x/", access=s3.access)


def test_a_prefix_with_nothing_under_it_is_named(s3: S3) -> None:
    s3.put("images/a", b"1")
    with pytest.raises(NotFound, match="has nothing under 'Images/'"):
        paths(f"{s3.uri}/Images/", access=s3.access)
    assert paths(f"{s3.uri}/images/*.jpg", access=s3.access) == []


def test_many_keys_come_in_batches(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlake.dataset.storages.buckets._PAGE", 10)
    for number in range(25):
        s3.put(f"x/{number:02}", b"1")
    sizes = [batch.num_rows for batch in storages.list_files(f"{s3.uri}/x/", access=s3.access)]
    assert sizes == [10, 10, 5]


@pytest.mark.parametrize(
    "given",
    [
        {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "eu-west-1"},
        {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"},
        {"key": KEY, "secret": SECRET, "client_kwargs": {"region_name": "eu-west-1"}},
        {"access_key_id": KEY, "secret_access_key": SECRET, "region": "eu-west-1"},
    ],
)
def test_keys_are_understood_however_they_are_spelled(given: dict[str, Any]) -> None:
    expected = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "eu-west-1"}
    assert bucket_options("s3", Access(client_config=given)) == expected


def test_an_endpoint_comes_from_the_environment_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://here:9000")
    assert bucket_options("s3", Access(anon=True)) == {
        "skip_signature": True, "endpoint": "http://here:9000", "allow_http": True
    }  # fmt: skip
    assert bucket_options("s3", Access(client_config={"endpoint_url": "https://there"})) == {
        "endpoint": "https://there"
    }


def test_settings_of_google_and_azure_are_translated() -> None:
    google = Access(client_config={"token": "/keys/me.json"})
    azure = Access(client_config={"account_name": "acme", "account_key": "a2V5", "sas_token": "s"})
    assert bucket_options("gs", google) == {"service_account_path": "/keys/me.json"}
    assert bucket_options("az", azure) == {"account_name": "acme", "account_key": "a2V5", "sas_key": "s"}


def test_buckets_of_google_and_azure_can_be_opened_with_what_is_translated() -> None:
    """As far as it goes without a server of theirs: obstore refuses a setting that it does not know."""
    azure = {"account_name": "acme", "account_key": "a2V5", "endpoint_url": "http://127.0.0.1:10000/acme"}
    assert connect("gs://b", Access(anon=True)).scheme == "gs"
    assert connect("az://b", Access(client_config=azure)).scheme == "az"
    assert connect("az://b", Access(True, {"account_name": "acme"})).scheme == "az"
    with pytest.raises(InvalidInput, match="cannot be opened with these options: account_name, acount_key"):
        connect("az://b", Access(client_config={"account_name": "acme", "acount_key": "a2V5"}))
    with pytest.raises(Denied, match="no account is named"):
        connect("az://b", Access(client_config={"acount": "acme"}))


def test_a_bucket_is_reached_by_the_environment_alone(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("x/a", b"1")
    names = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": "us-east-1"}
    for name, value in {**names, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}.items():
        monkeypatch.setenv(name, value)
    assert paths(f"{s3.uri}/x/") == ["x/a"]


def test_keys_are_found_where_the_tools_of_aws_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    aws = tmp_path / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
                                     "[other]\naws_access_key_id = O\naws_secret_access_key = P%\n")  # fmt: skip
    (aws / "config").write_text("[default]\nregion = eu-west-1\n[profile other]\nregion = us-west-2\n")
    keys = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "eu-west-1"}
    assert bucket_options("s3", Access()) == keys
    assert bucket_options("s3", Access(anon=True)) == {"skip_signature": True, "region": "eu-west-1"}
    assert bucket_options("s3", Access(client_config={"key": "K", "secret": "S", "region": "r"})) == {
        "access_key_id": "K", "secret_access_key": "S", "region": "r"
    }  # fmt: skip
    other = {"access_key_id": "O", "secret_access_key": "P%", "region": "us-west-2"}
    assert bucket_options("s3", Access(client_config={"profile": "other"})) == other
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert bucket_options("s3", Access()) == other
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    monkeypatch.setenv("AWS_REGION", "e")
    assert bucket_options("s3", Access()) == {}, "obstore reads the environment itself"
    (aws / "credentials").write_text("no section")
    with pytest.raises(InvalidInput, match="credentials cannot be read"):
        bucket_options("s3", Access(client_config={"profile": "other"}))


def test_what_may_be_kept_of_an_access_has_no_secret(s3: S3) -> None:
    given = {**s3.access.client_config, "aws_session_token": "tok", "headers": {"Authorization": "x"}}
    kept = storages.describe(Access(anon=False, client_config=given))
    assert kept == {"anon": False, "client_config": {"endpoint_url": s3.endpoint, "region": "us-east-1"}}
    assert storages.describe(Access(**kept)) == kept
    hidden = Access(client_config={"endpoint_url": "http://me:hush@here:9000"})
    assert storages.describe(hidden) == {"anon": None, "client_config": {}}
    assert SECRET not in repr(s3.access) and SECRET not in str(s3.access)
