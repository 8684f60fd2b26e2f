"""Credentials in the keyring: used for their address if the environment has none, and written nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import memlake as ml
from memlake.errors import Error
from memlake.repo import credentials

keyring = pytest.importorskip("keyring")
_BACKEND = """
import json, os, pathlib
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

FILE = pathlib.Path(os.environ["TEST_KEYRING"])

class InFile(KeyringBackend):
    priority = 1

    def _read(self):
        with open(f"{FILE}.used", "a") as file:
            file.write("x")
        return json.loads(FILE.read_text()) if FILE.exists() else {}

    def get_password(self, service, username):
        return self._read().get(service)

    def set_password(self, service, username, password):
        FILE.write_text(json.dumps({**self._read(), service: password}))

    def delete_password(self, service, username):
        kept = self._read()
        if kept.pop(service, None) is None:
            raise PasswordDeleteError(service)
        FILE.write_text(json.dumps(kept))
"""


class Bucket:
    """What stands for a bucket: it refuses everybody, and notes by which key they came."""

    def __init__(self) -> None:
        self.keys = keys = set[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = re.search(r"Credential=([^/]*)/", self.headers.get("Authorization", ""))
                keys.add(found[1] if found else "nobody")
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_HEAD = do_GET  # noqa: N815 -- the names that http.server calls

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket()
    yield made
    made.close()


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder / "keyring.json"
        (folder / "in_file.py").write_text(_BACKEND)
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "PYTHONPATH": str(folder),
            "AWS_REGION": "eu-north-1", "PYTHON_KEYRING_BACKEND": "in_file.InFile", "TEST_KEYRING": str(self.kept),
        }  # fmt: skip
        (folder / "home").mkdir()
        ml.init(folder / "repo").close()

    def __call__(self, *words: str, given: str = "", **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "memlake.cli", *words], cwd=self.folder / "repo", input=given, text=True,
            env=self.environment | environment, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def uses(self) -> int:
        """How often the keyring was asked since this was last."""
        file = Path(f"{self.kept}.used")
        count = file.stat().st_size if file.exists() else 0
        file.unlink(missing_ok=True)
        return count


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_key_in_the_keyring_is_used_unless_the_environment_has_one(shell: Shell, bucket: Bucket) -> None:
    assert shell("remote", "add", "origin", "s3://team/pets", "--endpoint", bucket.endpoint)[0] == 0
    code, text = shell("remote", "login", "origin", given="AKIAOURS\nvery-secret\n")
    assert (code, "very-secret" in text) == (0, False)
    assert shell("fetch")[0] != 0
    assert bucket.keys == {"AKIAOURS"}
    bucket.keys.clear()
    shell("fetch", AWS_ACCESS_KEY_ID="AKIAENV", AWS_SECRET_ACCESS_KEY="other")
    assert bucket.keys == {"AKIAENV"}
    written = [file for file in shell.folder.rglob("*") if file.is_file() and b"very-secret" in file.read_bytes()]
    assert written == [shell.kept]


def test_logout_removes_the_key_and_says_if_there_is_none(shell: Shell, bucket: Bucket) -> None:
    shell("remote", "add", "origin", "s3://team/pets", "--endpoint", bucket.endpoint)
    shell("remote", "login", "origin", given="AKIAOURS\nvery-secret\n")
    assert shell("remote", "logout", "origin")[0] == 0
    assert "secret" not in shell.kept.read_text()
    code, text = shell("remote", "logout", "origin")
    assert code != 0 and "the keyring has no credentials for s3://team/pets" in text


def test_who_does_not_ask_the_bucket_does_not_ask_the_keyring(shell: Shell, bucket: Bucket) -> None:
    shell("remote", "add", "origin", "s3://team/pets", "--endpoint", bucket.endpoint)
    shell.uses()
    for command in ("status", "remote"):
        assert shell(command)[0] == 0
    assert shell.uses() == 0
    shell("fetch")
    assert shell.uses() == 1


def test_an_address_without_a_key_in_the_keyring_uses_the_files_of_the_cloud(shell: Shell, bucket: Bucket) -> None:
    (shell.folder / "home/.aws").mkdir()
    text = "[default]\naws_access_key_id=AKIAFILE\naws_secret_access_key=x\n"
    (shell.folder / "home/.aws/credentials").write_text(text)
    shell("remote", "add", "origin", "s3://team/pets", "--endpoint", "http://127.0.0.1:9")
    shell("remote", "login", "origin", given="AKIAOURS\nvery-secret\n")
    shell("remote", "add", "other", "s3://team/pets", "--endpoint", bucket.endpoint)
    shell("fetch", "other")
    assert bucket.keys == {"AKIAFILE"}
    bucket.keys.clear()
    shell("remote", "login", "other", given="AKIAOTHER\nvery-secret\n")
    shell("fetch", "other")
    assert bucket.keys == {"AKIAOTHER"}


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system without a keyring, and nobody's own credentials."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    yield
    keyring.set_keyring(before)


@pytest.mark.usefixtures("no_keyring")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://team/pets", "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=..."),
        ("az://team/pets", "export AZURE_STORAGE_ACCOUNT_NAME=... AZURE_STORAGE_ACCOUNT_KEY=..."),
        ("gs://team/pets", "export GOOGLE_APPLICATION_CREDENTIALS=FILE"),
        ("/folder", "is a folder, so it takes no credentials"),
    ],
)
def test_where_no_key_can_be_kept_the_message_says_what_to_do(url: str, said: str) -> None:
    with pytest.raises(Error) as caught:
        credentials.keep(url, "", "AKIAOURS", "very-secret")
    text = str(caught.value)
    assert said in text and "very-secret" not in text and caught.value.__cause__ is None
    if url.startswith("s3"):  # a push goes on as if there were no keyring
        assert "access_key_id" not in credentials.open_options(url, "", "")


def test_half_of_a_key_is_not_kept(shell: Shell, bucket: Bucket) -> None:
    shell("remote", "add", "origin", "s3://team/pets", "--endpoint", bucket.endpoint)
    code, text = shell("remote", "login", "origin", given="AKIAOURS\n")
    assert code != 0 and "one of them is empty" in text
    assert not shell.kept.exists()
