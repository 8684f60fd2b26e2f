"""Requests to an object store: its options, and its errors without secrets. The only module that loads obstore."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from memlake import config
from memlake.errors import AlreadyExists, Corrupt, Denied, Error, InvalidInput, NotFound, Unavailable, pasted

_SCHEMES = ("s3", "gs", "az", "file", "memory")
_CLIENT_OPTION = re.compile(r"(allow|pool|proxy|randomize|root|user)_\w+|\w*timeout|default_(headers|content_type)")
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_ENDPOINT = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", re.IGNORECASE)
_ENDPOINT_WORDS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class NoBucket(NotFound):
    """There is no such bucket, and so nothing that could be in it."""


def check_endpoint(endpoint: str, what: str = "the endpoint") -> str:
    """An address of a server as it was given. What is none, or may hold a secret, is refused and not shown."""
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        cure = f"Give credentials in the environment, such as {_CREDENTIALS['s3']}."
        if re.fullmatch(r"[\w.-]+(:\d+)?/?", endpoint):
            cure = f"Write it as http://{endpoint}"
        raise InvalidInput(
            f"{what} is not an address of the form http://HOST:PORT or https://HOST, without user, password and query. "
            "It was not kept.",
            hint=cure,
        )
    return endpoint


class Connection:
    """One bucket, and `request` around every request to it. Options are obstore's."""

    _runtime_pid: ClassVar[int] = 0  # the process in which obstore started its threads

    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or "@" in parts.netloc or parts.query or parts.fragment:
            what = f"a bucket is named scheme://bucket/prefix and no more; the schemes are {', '.join(_SCHEMES)}."
            raise InvalidInput(what, hint="Give credentials and settings as options or in the environment.")
        self.url, self.scheme = url, parts.scheme
        given = (options.get(word) for word in _ENDPOINT_WORDS)
        self._endpoint = next((str(value) for value in given if value), "") if self.scheme == "s3" else ""
        self.is_anonymous = bool(options.get("skip_signature"))
        self._remote = self.scheme not in ("file", "memory")
        self.obstore = _load_obstore()
        self.store = self._connect(options)

    def _connect(self, options: dict[str, Any]) -> Any:
        """Open the store. obstore panics on a client option among the others, so those are passed apart."""
        if self.scheme == "s3":  # obstore panics at an address without http://
            for name in (word.upper() for word in _ENDPOINT_WORDS if word.startswith("aws")):
                check_endpoint(config.outside(name), name)
            for word in _ENDPOINT_WORDS:
                check_endpoint(str(options.get(word) or ""))
        settings: dict[str, Any] = {"mkdir": True} if self.scheme == "file" else dict(options)
        if self._remote:
            # Who writes down an http endpoint consents to http. It must be said here, because with any client option
            # obstore does not look at AWS_ALLOW_HTTP.
            defaults = {"timeout": "180s", "connect_timeout": "5s", "allow_http": self.scheme == "s3"}
            client = {key: settings.pop(key) for key in options if _CLIENT_OPTION.fullmatch(key)}
            settings["client_options"] = defaults | client | settings.get("client_options", {})
            settings["retry_config"] = _RETRY | settings.get("retry_config", {})
        if self.scheme == "s3":
            settings.setdefault("checksum_algorithm", "sha256")  # a part damaged on the way is refused
        try:
            if not options or self._remote:
                return self.obstore.store.from_url(self.url, **settings)
        except (self.obstore.exceptions.BaseError, ValueError, TypeError):
            pass
        names = ", ".join(sorted(options)) or "none"  # the values may be secrets
        if self.scheme == "az" and not _is_told_account(options):
            raise Denied(
                f"{self.url} cannot be opened, because no account is named. Nothing was changed.",
                hint="Name it in the environment: export AZURE_STORAGE_ACCOUNT_NAME=... AZURE_STORAGE_ACCOUNT_KEY=...\n"
                "Or keep it with its key in the keyring: memlake remote login NAME",
            )
        raise InvalidInput(f"{self.url} cannot be opened with these options: {names}.")

    @contextlib.contextmanager
    def request(self, name: str, *, missing: str = "name") -> Iterator[None]:
        """One request. Its errors become ours without their text and cause, because those may quote a secret."""
        self._check_process()
        try:
            yield
        except (FileNotFoundError, self.obstore.exceptions.BaseError) as error:
            raise self._translate(error, name, missing) from None

    def _translate(self, error: Exception, name: str, missing: str) -> Error:
        text, kinds = str(error), self.obstore.exceptions
        if isinstance(error, (kinds.AlreadyExistsError, kinds.PreconditionError)):
            return AlreadyExists(f"{self.url} has {name} already.")
        absent = isinstance(error, FileNotFoundError) or "status code: 404" in text  # Azure's way to say it of a bucket
        if re.search("NoSuchBucket|ContainerNotFound", text) or (absent and missing == "bucket"):
            return NoBucket(f"there is no bucket {self.url}. Nothing was changed.", hint=self._advise_bucket())
        if isinstance(error, FileNotFoundError):
            return NotFound(f"{self.url} has no {name}.")
        if "StartTooLarge" in text or "status code: 416" in text:
            return Corrupt(f"{name} in {self.url} is shorter than it must be.", hint="Run memlake fsck --full.")
        if isinstance(error, kinds.InvalidPathError):
            key = re.search(r'"(.*?)"', text)
            what = f"{self.url} has a key that cannot be a path: {key[1] if key else name!r}. Nothing was read."
            return InvalidInput(what, hint="Rename it (no empty part, no . or ..), or name a folder beside it.")
        if re.search(r"redirect without LOCATION|AuthorizationHeaderMalformed", text):
            hint = 'Set AWS_REGION. A remote also takes --region, and Python client_config={"region": ...}.'
            return InvalidInput(f"{self.url} is in another region than the one it was looked for in.", hint=hint)
        # At these addresses a cloud keeps a machine's credentials; obstore asks there when none were given.
        if re.search("RequestTimeTooSkewed|Request date header too old", text):
            what = (
                f"{self.url} refused the request, because the clock of this machine is wrong. {name} was not reached."
            )
            return Denied(what, hint="Set the clock (date says what it is now), then run it again.")
        refused = isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError))
        if refused or re.search(r"status code: 40[13]|169\.254\.169\.254|metadata\.google", text):
            kinds_of_key = _CREDENTIALS.get(self.scheme, _CREDENTIALS["s3"])
            if re.search(r"AccessDenied|AuthorizationPermissionMismatch", text):
                cure = (
                    f"Ask its owner to let you read, write, list and delete there, or use other keys: {kinds_of_key}."
                )
                return Denied(f"{self.url} does not let these credentials reach {name}.", hint=cure)
            return Denied(f"{self.url} refused access to {name}.", hint=f"Check the credentials in {kinds_of_key}.")
        what = f"{self.url} is not available ({_reason(text)}); {name} was not reached."
        return Unavailable(what, hint="Check the network and the endpoint, then run it again.")

    def _advise_bucket(self) -> str:
        bucket = urlsplit(self.url).netloc
        make = {"s3": "aws s3 mb", "gs": "gcloud storage buckets create"}.get(self.scheme)
        if self.scheme == "az":
            return f"Correct the address, or create it: az storage container create --name {pasted(bucket)}"
        other = f" --endpoint-url {pasted(self._endpoint)}" if self._endpoint else ""
        return f"Correct the address, or create it: {make} {pasted(f'{self.scheme}://{bucket}')}{other}"

    def _check_process(self) -> None:
        """Refuse to work in a forked child: obstore's threads are not there, so a request would wait for ever."""
        if not self._remote:
            return
        Connection._runtime_pid = Connection._runtime_pid or os.getpid()
        if Connection._runtime_pid != os.getpid():
            what = f"{self.url} cannot be used in a process forked from one that used a bucket."
            raise Unavailable(what, hint="Start processes with the multiprocessing method spawn or forkserver.")


def _is_told_account(options: dict[str, Any]) -> bool:
    return any("account" in name for name in options) or bool(
        config.outside("AZURE_STORAGE_ACCOUNT_NAME") or config.outside("AZURE_STORAGE_CONNECTION_STRING")
    )


def _load_obstore() -> Any:
    try:
        importlib.import_module("obstore.store")
        return importlib.import_module("obstore")
    except ImportError:
        raise Unavailable("buckets need obstore.", hint='pip install "memlake[bucket]"') from None


def _reason(text: str) -> str:
    """Why a request failed, in words that are known to be harmless; the error itself may quote a secret."""
    words = re.search(r"status code: \d{3}|timed ?out|connection ?refused|dns error|no space left", text, re.IGNORECASE)
    return words[0].lower().replace("connectionr", "connection r") if words else "the request failed"
