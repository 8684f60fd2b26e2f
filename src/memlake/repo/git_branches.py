"""Memories that follow the branches of git (setting `memory.follow_git`): which of ours stands for which of git's.

What is remembered on a branch of git stays there until git shows that it was merged. A branch of ours is made by the
first write. git itself is run only to ask whether a commit is part of another, and only when something moved.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from typing import TYPE_CHECKING

from memlake import config, git_files, memories, projects, versions
from memlake.errors import Error, InvalidInput
from memlake.git_files import GitTree
from memlake.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memlake.repo.open import Opened
    from memlake.repo.repo import Repo

_SECONDS = 5.0  # that git may take to answer
_MOST = 50  # branches that are asked about at once
_STEPS = 20  # branches made from branches


class Followed(NamedTuple):
    """The branch that is meant: `name` is to be written, `base` is read until that exists; they are the same then."""

    name: str
    base: str


def find_followed(repo: Opened, trunk: str) -> Followed:
    """Our branch for the one that git has checked out where we stand; git's default branch is `trunk`."""
    tree = _find_tree(repo)
    if tree is None:
        return Followed(trunk, trunk)
    default, branch = git_files.find_default(tree.common), git_files.find_branch(tree)
    name = _choose_name(branch, default, trunk)
    base = name
    for _ in range(_STEPS):
        if base == trunk or versions.refs.find(repo._history.db, base) is not None:
            break
        branch = git_files.find_origin(tree, branch)
        base = _choose_name(branch, default, trunk)
    else:
        base = trunk
    return Followed(name, base)


def _choose_name(branch: str, default: str, trunk: str) -> str:
    if not branch or branch == default:
        return trunk
    try:
        versions.refs.check_name(branch)
    except InvalidInput:  # git calls branches what we cannot
        return trunk
    return branch


def _find_tree(repo: Opened) -> GitTree | None:
    """The git tree we stand in, if it is of the git repo that ours lies in; else the tree that ours lies in."""
    home = projects.find_git_tree(os.path.realpath(repo.root))
    if home is None or not home.common:
        return None
    with contextlib.suppress(FileNotFoundError):
        here = projects.find_git_tree(os.path.realpath("."))
        if here is not None and here.common == home.common:
            return here
    return home


def _note_made(repo: Opened, name: str) -> None:
    """Note where git stood when a branch of ours was made: only what is merged after that counts."""
    if (tree := _find_tree(repo)) is not None and name not in _read_notes(repo):
        branches = git_files.read_branches(tree.common)
        since = branches.get(git_files.find_default(tree.common), "")
        _change_notes(repo, {**_read_notes(repo), name: {"since": since, "head": branches.get(name, "")}})


def _read_notes(repo: Opened) -> dict[str, dict[str, str]]:
    found = repo._local.json_state("followed")
    return found if isinstance(found, dict) else {}


def _change_notes(repo: Opened, notes: dict[str, dict[str, str]]) -> None:
    if notes != _read_notes(repo):
        with contextlib.suppress(Error):  # a branch whose note is lost is merged by hand: memlake merge NAME
            repo._local.set_state(followed=json.dumps(notes))


def merge_finished(repo: Repo) -> list[str]:
    """Merge the memories of branches that git has merged into its default branch since; returns their names."""
    notes, tree = _read_notes(repo), _find_tree(repo)
    if not notes or tree is None:
        return []
    branches = git_files.read_branches(tree.common)
    default = branches.get(git_files.find_default(tree.common), "")
    merged, kept = list[str](), dict[str, dict[str, str]]()
    busy = git_files.list_checked_out(tree.common)
    for number, (name, note) in enumerate(notes.items()):
        head = branches.get(name) or git_files.find_last(tree, name) or note["head"]
        asked = f"{head} {default}"
        kept[name] = {**note, "head": head}
        if name in busy or not head or not default or note.get("asked") == asked or number >= _MOST:
            continue
        is_part = _is_part(tree.common, head, default)
        if is_part is None:
            continue
        kept[name]["asked"] = asked
        if is_part and _is_part(tree.common, head, note["since"]) is False and _merge(repo, name):
            merged.append(name)
            kept[name]["since"] = default
            if name not in branches:
                del kept[name]
    _change_notes(repo, kept)
    return merged


def _merge(repo: Repo, name: str) -> bool:
    """Bring the memories of a branch to the trunk, as one operation that can be undone."""
    if versions.refs.find(repo._history.db, name) is None:
        return False
    trunk = repo._usual_branch()
    made = repo.memories(trunk).merge_branch(name)
    if made.commit is not None:
        written = [(trunk, made.commit)]
        versions.undo.note(repo._look(), "merge", f"memories of {name}, which git merged", written)
    return made.commit is not None


def _is_part(common: str, commit: str, of: str) -> bool | None:
    """Whether a commit of git is an ancestor of another; None when git cannot say."""
    if not of:
        return False
    command = ["git", "--git-dir", common, "merge-base", "--is-ancestor", commit, of]
    try:
        done = subprocess.run(
            command, env=config.plain_environment(), capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {0: True, 1: False}.get(done.returncode)


def make_branch(repo: Opened, followed: Followed) -> str:
    """Make the branch that is to be written, at where the one stands that is read until then; returns its name."""
    made = memories.branch_expiry.fork(repo._look(), followed.base, followed.name)
    if made == followed.name:
        _note_made(repo, made)
    return made
