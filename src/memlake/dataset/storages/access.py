"""How a storage may be reached: what the user gave, the options it means, and the part of it that may be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from memlake import config
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple


class Access(NamedTuple):
    """`client_config` may hold secrets: it is never stored, and never shown."""

    anon: bool | None = None
    client_config: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"Access(anon={self.anon}, client_config={sorted(self.client_config)})"


USUAL = Access()
ACCESS: dict[str, Access] = {}  # by source, of this process; workers are sent a copy

# What a key or a region may be called: by boto3, by fsspec's stores, by obstore.
_SPELLINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "s3": {
        "access_key_id": ("aws_access_key_id", "access_key_id", "access_key", "key"),
        "secret_access_key": ("aws_secret_access_key", "secret_access_key", "secret_key", "secret"),
        "session_token": ("aws_session_token", "session_token", "aws_token", "token"),
        "region": ("region_name", "aws_region", "aws_default_region", "region"),
        "endpoint": ("endpoint_url", "aws_endpoint_url", "aws_endpoint", "endpoint"),
        "profile": ("aws_profile", "profile_name", "profile"),
    },
    "gs": {
        "service_account_path": ("google_service_account", "service_account_path", "service_account", "token"),
        "service_account_key": ("google_service_account_key", "service_account_key"),
        "base_url": ("google_base_url", "endpoint_url", "base_url", "endpoint"),
    },
    "az": {
        "connection_string": ("azure_storage_connection_string", "connection_string"),
        "account_name": ("azure_storage_account_name", "account_name"),
        "account_key": ("azure_storage_account_key", "account_key", "credential"),
        "sas_key": ("azure_storage_sas_token", "sas_token", "sas_key"),
        "endpoint": ("endpoint_url", "account_url", "azure_storage_endpoint", "endpoint"),
        "tenant_id": ("azure_tenant_id", "tenant_id"),
        "client_id": ("azure_client_id", "client_id"),
        "client_secret": ("azure_client_secret", "client_secret"),
    },
}
_KEYS_OF_S3 = ("access_key_id", "secret_access_key", "session_token")
_NESTED = ("client_kwargs", "config_kwargs")
_OPEN_WORDS = {  # never secret
    "endpoint": "endpoint_url",
    "base_url": "endpoint_url",
    "region": "region",
    "account_name": "account_name",
}


def access_of(source: str, given: Access = USUAL) -> Access:
    return given if given != USUAL else ACCESS.get(source, USUAL)


def bucket_options(scheme: str, access: Access) -> dict[str, Any]:
    """What obstore calls the things of an Access, and of the environment where obstore does not look itself."""
    ours = {word: name for name, words in _SPELLINGS[scheme].items() for word in words}
    given = _flat(access)
    anon = given.pop("anon", access.anon) if access.anon is None else access.anon
    options = {ours.get(key, key): value for key, value in given.items() if key != "anon" and value is not None}
    if anon:
        options["skip_signature"] = True
    options = _OUTSIDE[scheme](options, bool(anon)) | options
    for name in ("profile", "connection_string"):
        options.pop(name, None)
    if any(str(options.get(name, "")).startswith("http://") for name in ("endpoint", "base_url")):
        options.setdefault("allow_http", True)
    return options


def _of_amazon(given: Mapping[str, Any], anon: bool) -> dict[str, Any]:
    """What boto3 would find and obstore does not look for: the endpoint, and a profile's keys and region."""
    profile = config.aws_profile(given.get("profile", ""))
    options = {name: profile.get(f"aws_{name}", "") for name in _KEYS_OF_S3}
    if anon or "access_key_id" in given or (config.outside("AWS_ACCESS_KEY_ID") and "profile" not in given):
        options = {}
    if not config.outside("AWS_REGION") and not config.outside("AWS_DEFAULT_REGION"):
        options["region"] = profile.get("region", "")
    options["endpoint"] = config.outside("AWS_ENDPOINT_URL") or profile.get("endpoint_url", "")
    return {name: value for name, value in options.items() if value}


def _of_google(given: Mapping[str, Any], _: bool) -> dict[str, Any]:
    """The server that Google's own tools are pointed at for tests; one's own server knows no key of Google's."""
    host = str(given.get("base_url") or config.outside("STORAGE_EMULATOR_HOST"))
    keys = ("service_account_path", "service_account_key", "application_credentials", "bearer_token")
    if not host or any(name in given for name in keys):
        return {"base_url": host} if host else {}
    host = host if "://" in host else f"http://{host}"
    key = {"gcs_base_url": host, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {"base_url": host, "service_account_key": json.dumps(key), "skip_signature": True}


def _of_azure(given: Mapping[str, Any], anon: bool) -> dict[str, Any]:
    """What a connection string says, the way Azure's portal hands it out."""
    text = str(given.get("connection_string") or config.outside("AZURE_STORAGE_CONNECTION_STRING"))
    settings = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    names = {
        "AccountName": "account_name",
        "AccountKey": "account_key",
        "SharedAccessSignature": "sas_key",
        "BlobEndpoint": "endpoint",
    }
    secret = ("account_key", "sas_key")
    return {ours: settings[name] for name, ours in names.items() if name in settings and not (anon and ours in secret)}


_OUTSIDE = {"s3": _of_amazon, "gs": _of_google, "az": _of_azure}


def describe(access: Access) -> dict[str, Any]:
    """What a repo may keep, so that `Access(**kept)` reads the same place later: no key, no token."""
    words = {word: name for spelled in _SPELLINGS.values() for name, all in spelled.items() for word in all}
    options = {words.get(key, key): value for key, value in _flat(access).items()}
    kept = {shown: options[name] for name, shown in _OPEN_WORDS.items() if isinstance(options.get(name), str)}
    if "@" in urlsplit(kept.get("endpoint_url", "")).netloc:
        del kept["endpoint_url"]
    return {"anon": access.anon, "client_config": kept}


def _flat(access: Access) -> dict[str, Any]:
    """Names in lower case, with what stands in client_kwargs beside the rest."""
    given: object = access.client_config
    if not isinstance(given, Mapping):
        what = f"client_config is a dict of settings, not {type(given).__name__}."
        raise InvalidInput(what, hint='For example {"endpoint_url": "http://localhost:9000", "region": "us-east-1"}.')
    flat = {key.lower(): value for key, value in access.client_config.items() if key not in _NESTED}
    for name in _NESTED:
        flat |= {key.lower(): value for key, value in (access.client_config.get(name) or {}).items()}
    return flat
