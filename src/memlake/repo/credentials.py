"""Credentials of remotes: in the keyring of the system, by address. The only module that loads keyring, and on use.

They count if the environment has none for that cloud. For their address they say more than the files of the cloud do,
which are looked at last.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from memlake import config
from memlake.dataset.storages.access import Access, bucket_options
from memlake.errors import InvalidInput, NotFound, Unavailable

_USER = "memlake"
_OPTIONS = {"s3": ("access_key_id", "secret_access_key"), "az": ("account_name", "account_key")}
_OUTSIDE = {
    "s3": (
        "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE",
    ),
}  # fmt: skip
_EXPORTS = {
    "s3": "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...",
    "gs": "export GOOGLE_APPLICATION_CREDENTIALS=FILE",
    "az": "export AZURE_STORAGE_ACCOUNT_NAME=... AZURE_STORAGE_ACCOUNT_KEY=...",
}


def open_options(url: str, endpoint: str, region: str) -> dict[str, Any]:
    """Options of obstore for a bucket: what its settings say, and credentials that obstore does not find itself."""
    scheme = url.partition("://")[0]
    given = {name: value for name, value in (("endpoint", endpoint), ("region", region)) if value}
    if scheme in _OPTIONS and not any(map(config.outside, _OUTSIDE[scheme])):
        given |= _find(url, endpoint)
    return bucket_options(scheme, Access(client_config=given))


def keep(url: str, endpoint: str, key: str, secret: str) -> None:
    """Keep a key and its secret in the keyring."""
    scheme = _check(url)
    keyring, text = _load(scheme), json.dumps({"key": key, "secret": secret})
    if not key or not secret:
        raise InvalidInput("a key and a secret are needed, and one of them is empty. Nothing was kept.")
    try:
        keyring.set_password(_name_service(url, endpoint), _USER, text)
    except (keyring.errors.KeyringError, RuntimeError, OSError) as error:
        raise _unusable(scheme, error) from None


def remove(url: str, endpoint: str) -> None:
    scheme = _check(url)
    keyring = _load(scheme)
    try:
        keyring.delete_password(_name_service(url, endpoint), _USER)
    except keyring.errors.PasswordDeleteError:
        raise NotFound(f"the keyring has no credentials for {url}. Nothing was changed.") from None
    except (keyring.errors.KeyringError, RuntimeError, OSError) as error:
        raise _unusable(scheme, error) from None


def _find(url: str, endpoint: str) -> dict[str, str]:
    """What the keyring has for an address. One that cannot be read has nothing: most people use none."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return {}
    try:
        text = keyring.get_password(_name_service(url, endpoint), _USER)
        kept = json.loads(text) if text else {}
        return dict(zip(_OPTIONS[url.partition("://")[0]], (kept["key"], kept["secret"]), strict=True)) if kept else {}
    except (keyring.errors.KeyringError, RuntimeError, OSError, ValueError, KeyError, TypeError):
        return {}


def _name_service(url: str, endpoint: str) -> str:
    """Keys go to the address they were given for, and a bucket elsewhere of the same name is another."""
    return " ".join(("memlake", url.rstrip("/"), *(("at", endpoint.rstrip("/")) if endpoint else ())))


def _check(url: str) -> str:
    scheme = url.partition("://")[0] if "://" in url else "file"
    if scheme == "gs":
        raise InvalidInput(
            "Google's buckets take a file of credentials, which the keyring does not hold. Nothing was kept.",
            hint=_EXPORTS["gs"],
        )
    if scheme not in _OPTIONS:
        raise InvalidInput(f"{url} is a folder, so it takes no credentials. Nothing was kept.")
    return scheme


def _load(scheme: str) -> Any:
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise Unavailable(
            "keeping credentials needs keyring, which is not installed. Nothing was kept.",
            hint=f"pip install 'memlake[keyring]'\nOr give them in the environment: {_EXPORTS[scheme]}",
        ) from None


def _unusable(scheme: str, error: Exception) -> Unavailable:
    """Without the text of the error, which may hold what was to be kept."""
    return Unavailable(
        f"this system has no keyring that can be used ({type(error).__name__}). Nothing was changed.",
        hint=f"Give credentials in the environment instead: {_EXPORTS[scheme]}",
    )
