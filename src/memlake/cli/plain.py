"""Command lines in their plainest form, run without click: loading click would be a third of `memlake status`.

What is not listed here, every option that takes a value and every mistake goes to click, which knows all of a verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import memlake

_STATUS = {
    "-s": "brief", "--short": "brief", "-b": "with_branch", "--branch": "with_branch",
    "--porcelain": "porcelain", "--ignored": "ignored", "--json": "as_json",
}  # fmt: skip


def run(args: Sequence[str]) -> bool:
    """Run the line if it is a plain one; False leaves it to click."""
    verb, *words = args or [""]
    if verb == "status" and all(word in _STATUS for word in words):
        _call("memlake.cli.files.show_status:show_status", **{_STATUS[word]: True for word in words})
    elif verb == "merge" and len(words) == 1 and words[0] and not words[0].startswith("-"):
        _call("memlake.cli.branches.merge_rev:merge_rev", words[0])
    else:
        return False
    return True


def _call(verb: str, *given: str, as_json: bool = False, **how: Any) -> None:
    module, _, function = verb.partition(":")
    show = getattr(import_module(module), function)  # by name: no command pays for the code of another
    with memlake.open() as repo:
        screen = import_module("memlake.cli.screen").open_screen("auto", as_json=as_json, settings=repo.config.in_force)
        show(repo, screen, *given, **how)
