"""Which repos may use settings that act, as the user granted it. Stored outside of every repo. Knows no setting.

A grant is a file whose name is the hash of the repo's id and the hash of its settings file, so that nothing a stranger
wrote becomes part of a path, two processes need no lock, and a settings file that changed is not granted any more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from memlake.errors import Unavailable
from memlake.named_tuple import NamedTuple


class Grant(NamedTuple):
    """The repo of `folder` may use these settings, as its file said when the user granted it."""

    folder: str
    keys: tuple[str, ...]


def is_granted(home: Path, repo_id: str, text: str) -> bool:
    """Whether the user granted this very text to the repo with this id."""
    return bool(repo_id) and (home / _name(repo_id, text)).is_file()


def grant(home: Path, repo_id: str, text: str, allowed: Grant) -> None:
    """Let what `text` asks for count in the repo with this id."""
    new = home / f"{os.urandom(8).hex()}.new"  # threads grant at once, too
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join((_one_line(allowed.folder), *allowed.keys)))
        os.replace(new, home / _name(repo_id, text))
    except OSError as error:
        raise Unavailable(
            f"your trust in {allowed.folder} could not be stored in {home}: {error.strerror}. Nothing was changed.",
            hint=f"Check who owns it: ls -ld {home}",
        ) from error


def revoke(home: Path, repo_id: str, folder: str) -> bool:
    """Take back what was granted to the repo of a folder; False when nothing was. Copies of the repo keep theirs."""
    files = home.glob(f"{_digest(repo_id)[:32]}-*")
    granted = [file for file in files if _read_grant(file).folder == _one_line(folder)]
    for file in granted:
        file.unlink(missing_ok=True)
    return bool(granted)


def list_grants(home: Path) -> list[Grant]:
    """Everything granted, in the order of folders."""
    grants = map(_read_grant, home.glob("*-*"))
    return sorted(grant for grant in grants if grant.folder)


def _read_grant(file: Path) -> Grant:
    """What a file grants; nothing where it has gone or cannot be read."""
    with suppress(OSError):
        folder, *keys = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        return Grant(folder, tuple(keys))
    return Grant("", ())


def _one_line(folder: str) -> str:
    return folder.replace("\n", " ")


def _name(repo_id: str, text: str) -> str:
    return f"{_digest(repo_id)[:32]}-{_digest(text)}"


def _digest(text: str) -> str:
    import hashlib  # 2 ms that only a repo whose settings act needs

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
