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


# -- branches of git


def find_branch(tree: GitTree) -> str:
    """The branch that is checked out in a tree; of a detached HEAD the one it was detached from a commit of, or "".

    A rebase detaches HEAD and notes the branch that it works on.
    """
    head = read_text(os.path.join(tree.folder, "HEAD"), 4096).strip()
    if head.startswith("ref: "):
        return head.removeprefix("ref: ").removeprefix("refs/heads/")
    for name in ("rebase-merge", "rebase-apply"):
        if found := read_text(os.path.join(tree.folder, name, "head-name"), 4096).strip():
            return found.removeprefix("refs/heads/")
    heads = [name for name, oid in read_branches(tree.common).items() if oid == head]
    default = find_default(tree.common)
    return default if default in heads else heads[0] if len(heads) == 1 else ""


def find_default(common: str) -> str:
    """The branch that others are merged into: what the first remote names, else main or master."""
    named = read_text(os.path.join(common, "refs", "remotes", "origin", "HEAD"), 4096).strip()
    if named.startswith("ref: refs/remotes/origin/"):
        return named.removeprefix("ref: refs/remotes/origin/")
    branches = read_branches(common)
    return next((name for name in ("main", "master", "trunk") if name in branches), "main")


def read_branches(common: str) -> dict[str, str]:
    """The branches of a repo and the commits they name."""
    found = dict[str, str]()
    for line in read_text(os.path.join(common, "packed-refs")).splitlines():
        oid, _, name = line.partition(" ")
        if name.startswith("refs/heads/"):
            found[name.removeprefix("refs/heads/")] = oid
    top = os.path.join(common, "refs", "heads")
    for folder, _, names in os.walk(top):
        for name in names:
            if oid := read_text(os.path.join(folder, name), 4096).strip():
                found[os.path.relpath(os.path.join(folder, name), top).replace(os.sep, "/")] = oid
    return found


def find_origin(tree: GitTree, branch: str) -> str:
    """The branch that a branch was made from, as git's own log of it says; "" where that does not."""
    first = read_text(os.path.join(tree.common, "logs", "refs", "heads", branch)).partition("\n")[0]
    start = first.partition("branch: Created from ")[2].removeprefix("refs/heads/")
    if start and start != "HEAD":
        return start if start in read_branches(tree.common) else ""
    for before, _, message in _read_log(tree, f" to {branch}"):
        if before and message.startswith("checkout: moving from "):
            return message.removeprefix("checkout: moving from ").removesuffix(f" to {branch}")
    return ""


def find_last(tree: GitTree, branch: str) -> str:
    """The commit that a branch which is gone was left at, as the log of HEAD says; "" where that does not."""
    moves = [before for before, _, said in _read_log(tree) if said.startswith(f"checkout: moving from {branch} to ")]
    return moves[-1] if moves else ""


def _read_log(tree: GitTree, end: str = "") -> Iterator[tuple[str, str, str]]:
    """The moves of HEAD, oldest first, whose message ends so: the commits before and after, and the message."""
    for folder in dict.fromkeys((tree.folder, tree.common)):
        for line in read_text(os.path.join(folder, "logs", "HEAD")).splitlines():
            moved, _, message = line.partition("\t")
            if message.endswith(end):
                before, after, *_ = [*moved.split(" ", 2), "", ""]
                yield before, after, message


def list_checked_out(common: str) -> set[str]:
    """The branches that some tree of a repo has checked out."""
    inner = os.path.join(common, "worktrees")
    folders = [common, *(os.path.join(inner, name) for name in (os.listdir(inner) if os.path.isdir(inner) else ()))]
    return {find_branch(GitTree("", "", common, folder)) for folder in folders}
