"""Which storage a URI names, and what in it: a folder, one file, or a pattern. Asks the disk, never the network."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from memlake.dataset.storages.patterns import divide, has_wildcard
from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple

BUCKETS = ("s3", "gs", "az")
WEB = ("http", "https")
_OTHER_NAMES = {"gcs": "gs", "s3a": "s3"}


class Location(NamedTuple):
    """A folder (`prefix` ends with a slash or is empty) or one file of `source`, and the pattern below the folder."""

    source: str
    prefix: str
    pattern: str = ""

    @property
    def scheme(self) -> str:
        return self.source.partition(":")[0]


def locate(uri: str | os.PathLike[str]) -> Location:
    text = os.fspath(uri)
    scheme, mark, rest = text.partition("://")
    if not text or "\0" in text:
        raise InvalidInput(
            f"{text!r} does not name a storage.", hint="Give a folder, a file or a URL such as s3://bucket/a/."
        )
    if not mark:
        return _local(text)
    scheme = _OTHER_NAMES.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return _local(_file_path(text))
    if scheme in BUCKETS:
        bucket, _, key = rest.partition("/")
        if not bucket or has_wildcard(bucket) or "@" in bucket:
            shown = repr(text) if "@" not in text else "an address with a user in it"  # and maybe a password
            raise InvalidInput(f"{shown} does not name a bucket.", hint=f"Write {scheme}://bucket/folder/.")
        folder, pattern = divide(key)
        return Location(f"{scheme}://{bucket}", folder, _whole(pattern))
    if scheme in WEB:
        host = urlsplit(f"{scheme}://{rest}").netloc
        if not host or "@" in host:
            hint = 'Send a password or token as client_config={"headers": {"Authorization": ...}}.'
            raise InvalidInput("a web address is scheme://host/path, without a user or password in it.", hint=hint)
        return Location(f"{scheme}://{host}", rest[len(host) :].removeprefix("/").partition("#")[0])
    known = ", ".join(f"{name}://" for name in ("file", *BUCKETS, *WEB))
    raise InvalidInput(
        f"{text!r} is not in a storage that memlake can read.", hint=f"Give a local path or one of {known}."
    )


def local_root(source: str) -> str:
    """The folder that a source of local files names."""
    return unquote(source.removeprefix("file://")).rstrip("/")


def path_of(uri: str | os.PathLike[str]) -> str:
    """The local path that a path or a file URL means."""
    text = os.fspath(uri)
    return _file_path(text) if text.lower().startswith("file://") else os.path.expanduser(text)


def _file_path(text: str) -> str:
    """A file URL as a path; a wildcard in it stays one, and `?` begins no query."""
    host, slash, path = text.partition("://")[2].partition("/")
    if host not in ("", "localhost") or not slash:
        raise InvalidInput(f"{text!r} names a file of another machine.", hint="A local file is file:///folder/name.")
    return unquote(slash + path)


def _local(text: str) -> Location:
    path = os.path.abspath(os.path.expanduser(text))
    folder, pattern = _divide_local(path)
    if pattern:
        return Location(*_parent(folder, slash="/"), _whole(pattern + "/" if text.endswith("/") else pattern))
    return Location(*_parent(path, slash="/" if text.endswith("/") or os.path.isdir(path) else ""))


def _divide_local(path: str) -> tuple[str, str]:
    """The folder and the pattern; a name that is there is meant itself, whatever is in it."""
    folder, names = "", path.split("/")
    for at, name in enumerate(names):
        if has_wildcard(name) and not os.path.lexists(folder + name):
            return folder, "/".join(names[at:])
        folder += f"{name}/"
    return path, ""


def _parent(path: str, *, slash: str) -> tuple[str, str]:
    parent, name = os.path.split(path.rstrip("/"))
    return Path(parent or "/").as_uri(), name + slash if name else ""


def _whole(pattern: str) -> str:
    """A pattern of folders means all that is in them."""
    return pattern + "**" if pattern.endswith("/") else pattern
