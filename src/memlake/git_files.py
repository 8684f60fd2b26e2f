"""What the small files of git say: working trees, remotes, the branch that is checked out. Never runs git.

A folder may come from a stranger, so links between folders count only where both sides name each other, nothing waits
for a pipe, and what is read has a bound. Knows nothing of memories or projects.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from memlake.named_tuple import NamedTuple

_LARGEST = 1 << 20  # bytes of a file that are read
_LONGEST = 512  # characters of a name
_SECTION = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]\s*')
_URL = re.compile(
    r"([a-z][a-z0-9+.-]*)://(?:[^/@]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(?:/(.*))?", re.IGNORECASE | re.DOTALL
)
_SCP = re.compile(r"(?:[^/@:]*@)?(\[[^\]]*\]|[^/:@]+):(?!//)(.*)", re.DOTALL)
_SAME_HOST = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
_CASELESS = ("github.com", "gitlab.com", "bitbucket.org")  # whose paths are one however they are written


class GitTree(NamedTuple):
    """A git working tree, the main one (the same, unless this is linked to it), and git's folders.

    `common` holds what all trees of one repo share, `folder` what is this tree's own; both are empty where a `.git`
    file leads to a folder that does not know of it.
    """

    root: str
    main: str
    common: str = ""
    folder: str = ""


def find_tree(here: str, home: str) -> GitTree | None:
    """The git working tree that a folder (a real path) is in; looking ends below home, as it does for repos."""
    while here not in (home, os.path.dirname(here)):
        mark = os.path.join(here, ".git")
        if os.path.isdir(mark):
            return GitTree(here, here, mark, mark)
        if os.path.isfile(mark):
            return _follow_link(here, mark)
        here = os.path.dirname(here)
    return None


def _follow_link(root: str, mark: str) -> GitTree:
    """The tree of a `.git` file: linked to a main tree, or a submodule.

    Git notes it on both sides, and both must agree: a `.git` file that came in an archive must not open the memories of
    another project.
    """
    folder = read_path(mark, "gitdir: ")
    common = read_path(os.path.join(folder, "commondir")) if folder else ""
    if common and read_path(os.path.join(folder, "gitdir")) == os.path.realpath(mark):
        main = os.path.dirname(common) if os.path.basename(common) == ".git" else common
        return GitTree(root, main, common, folder)
    worktree = next(read_values(folder, "core", "worktree"), "") if folder and not common else ""
    if worktree and os.path.realpath(os.path.join(folder, worktree)) == root:
        return GitTree(root, root, folder, folder)
    return GitTree(root, root)


def read_path(file: str, before: str = "") -> str:
    """The path that one of git's small files holds, made absolute from where it lies; "" when there is none."""
    line = read_text(file, 4096).rstrip("\n")
    if not line.startswith(before) or "\0" in line or not line.removeprefix(before):
        return ""
    return os.path.realpath(os.path.join(os.path.dirname(file), line.removeprefix(before)))


def read_text(file: str, most: int = _LARGEST) -> str:
    """The text of a plain file; "" when there is none."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not wait for its writer
        with open(fd, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except (OSError, ValueError):
        return ""


# -- settings of git


def read_values(common: str, section: str, key: str, *, named: bool = False) -> Iterator[str]:
    """The values of a key in git's own settings of a repo, in their order; `named`: of all sections with a name."""
    is_meant = False
    for line in read_text(os.path.join(common, "config")).splitlines():
        rest = line.strip()
        if begun := _SECTION.match(rest):
            is_meant = begun[1].lower() == section and (begun[2] is not None) == named
            rest = rest[begun.end() :]
        name, equals, value = rest.partition("=")
        if is_meant and equals and name.strip().lower() == key:
            yield _plain_value(value.strip())


def _plain_value(text: str) -> str:
    """A value without quotes and the comment after it."""
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else re.split(r"\s[#;]", text, maxsplit=1)[0].strip()


def read_remote(common: str) -> str:
    """The address of the first remote; "" when there is none."""
    return next((value for value in read_values(common, "remote", "url", named=True) if value), "")


def name_remote(address: str) -> str:
    """An address as a name, `github.com/ada/shop`, the same however it is written; "" for a folder of this machine.

    Who connects, with which password and on which port are left out.
    """
    found = _URL.fullmatch(address)
    if found is not None and found[1].lower() == "file":
        return ""
    found_host, path = (found[2], unquote(found[3] or "")) if found is not None else _split_scp(address)
    host = _SAME_HOST.get(found_host.lower(), found_host.lower())
    path = path.strip("/").removesuffix(".git").strip("/")
    path = path.lower() if host in _CASELESS else path
    name = f"{host}/{path}" if host and path else ""
    return name if len(name) <= _LONGEST and name.isprintable() else ""


def _split_scp(address: str) -> tuple[str, str]:
    """The host and the path of `git@host:ada/shop.git`; nothing of a path on this machine."""
    found = _SCP.fullmatch(address)
    return (found[1], found[2]) if found is not None and "://" not in address else ("", "")


def find_remote_folder(address: str, root: str) -> str:
    """The folder of this machine that an address names; "" for any other address."""
    if address.lower().startswith("file://"):
        address = unquote(address[7:])
        return os.path.realpath(address) if address.startswith("/") else ""
    if (
        "://" in address
        or "\0" in address
        or (not address.startswith(("/", "./", "../", "~")) and _SCP.fullmatch(address))
    ):
        return ""
    return os.path.realpath(os.path.join(root, os.path.expanduser(address))) if address else ""


def is_common(folder: str) -> bool:
    """Whether a folder is one where git keeps a repo."""
    return os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects"))


# -- a small file of our own


def write_once(file: Path, text: str) -> None:
    """Write a file that is not there yet, whole or not at all; OSError where that may not be."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        os.link(new, file)
    except FileExistsError:
        pass
    finally:
        new.unlink(missing_ok=True)
