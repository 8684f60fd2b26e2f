"""Showing how stage and files differ from HEAD. Loads no click, so that a plain `memlake status` starts fast."""

from __future__ import annotations

from memlake.cli.screen import Screen
from memlake.repo import Repo
from memlake.views import paths
from memlake.views.status import long_lines, short_lines, status_shape


def show_status(
    repo: Repo, screen: Screen, *given: str, brief: bool = False, with_branch: bool = False, porcelain: bool = False,
    ignored: bool = False,
) -> None:  # fmt: skip
    """For a person, a script (`porcelain`) or a program (--json); of everything or of the paths given."""
    state = repo.status(*given, ignored=ignored)
    if screen.as_json:
        screen.json(status_shape(state))
        return
    if porcelain:
        screen = Screen()
    base = "" if porcelain else paths.here(repo.root)
    if brief or porcelain:
        if with_branch:
            screen.line(f"## {state.branch or 'HEAD (no branch)'}")
        screen.lines(short_lines(state, screen, base))
    else:
        screen.lines(long_lines(state, screen, base))
