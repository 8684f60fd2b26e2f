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

from memlake.errors import AlreadyExists, Corrupt, Denied, Error, InvalidInput, NotFound, Unavailable

_SCHEMES = ("s3", "gs", "az", "file", "memory")
_CLIENT_OPTION = re.compile(r"(allow|pool|proxy|randomize|root|user)_\w+|\w*timeout|default_(headers|content_type)")
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}


class Connection:
    """One bucket, and `request` around every request to it. Options are obstore's."""

    _runtime_pid: ClassVar[int] = 0  # the process in which obstore started its threads

    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or "@" in parts.netloc or parts.query or parts.fragment:
            what = f"a bucket is named scheme://bucket/prefix and no more; the schemes are {', '.join(_SCHEMES)}."
            raise InvalidInput(what, hint="Give credentials and settings as options or in the environment.")
        self.url, self.scheme = url, parts.scheme
        self.is_anonymous = bool(options.get("skip_signature"))
        self._remote = self.scheme not in ("file", "memory")
        self.obstore = _load_obstore()
        self.store = self._connect(options)

    def _connect(self, options: dict[str, Any]) -> Any:
        """Open the store. obstore panics on a client option among the others, so those are passed apart."""
        config: dict[str, Any] = {"mkdir": True} if self.scheme == "file" else dict(options)
        if self._remote:
            # Who writes down an http endpoint consents to http. It must be said here, because with any client option
            # obstore does not look at AWS_ALLOW_HTTP.
            defaults = {"timeout": "180s", "connect_timeout": "5s", "allow_http": self.scheme == "s3"}
            client = {key: config.pop(key) for key in options if _CLIENT_OPTION.fullmatch(key)}
            config["client_options"] = defaults | client | config.get("client_options", {})
            config["retry_config"] = _RETRY | config.get("retry_config", {})
        if self.scheme == "s3":
            config.setdefault("checksum_algorithm", "sha256")  # a part damaged on the way is refused
        try:
            if not options or self._remote:
                return self.obstore.store.from_url(self.url, **config)
        except (self.obstore.exceptions.BaseError, ValueError, TypeError):
            pass
        names = ", ".join(sorted(options)) or "none"  # the values may be secrets
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
            return NotFound(f"there is no bucket {self.url}.", hint="Create it, or correct the URL.")
        if isinstance(error, FileNotFoundError):
            return NotFound(f"{self.url} has no {name}.")
        if "StartTooLarge" in text or "status code: 416" in text:
            return Corrupt(f"{name} in {self.url} is shorter than it must be.", hint="Run memlake fsck --full.")
        if isinstance(error, kinds.InvalidPathError):
            key = re.search(r'"(.*?)"', text)
            what = f"{self.url} has a key that cannot be a path: {key[1] if key else name!r}. Nothing was read."
            return InvalidInput(what, hint="Rename it (no empty part, no . or ..), or name a folder beside it.")
        if re.search(r"redirect without LOCATION|AuthorizationHeaderMalformed", text):
            hint = 'Set AWS_REGION, or give client_config={"region": ...}.'
            return InvalidInput(f"{self.url} is in another region than the one it was looked for in.", hint=hint)
        # At these addresses a cloud keeps a machine's credentials; obstore asks there when none were given.
        refused = isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError))
        if refused or re.search(r"status code: 40[13]|169\.254\.169\.254|metadata\.google", text):
            cure = "Check its credentials, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            return Denied(f"{self.url} refused access to {name}.", hint=cure)
        what = f"{self.url} is not available ({_reason(text)}); {name} was not reached."
        return Unavailable(what, hint="Check the network and the endpoint, then run it again.")

    def _check_process(self) -> None:
        """Refuse to work in a forked child: obstore's threads are not there, so a request would wait for ever."""
        if not self._remote:
            return
        Connection._runtime_pid = Connection._runtime_pid or os.getpid()
        if Connection._runtime_pid != os.getpid():
            what = f"{self.url} cannot be used in a process forked from one that used a bucket."
            raise Unavailable(what, hint="Start processes with the multiprocessing method spawn or forkserver.")


def _load_obstore() -> Any:
    try:
        importlib.import_module("obstore.store")
        return importlib.import_module("obstore")
    except ImportError:
        raise Unavailable("buckets need obstore.", hint='pip install "memlake[bucket]"') from None


def _reason(text: str) -> str:
    """Why a request failed, in words that are known to be harmless; the error itself may quote a secret."""
    words = re.search(r"status code: \d{3}|timed ?out|connection ?refused|dns error|no space left", text, re.IGNORECASE)
    return words[0].lower() if words else "the request failed"
