"""Every command that a message names can be typed: the verb is there, its options are, and the arguments fit."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest

from memlake.cli.commands import memlake
from memlake.errors import Error
from tests import hints
from tests.hints import Hint

# What a value stands for where any word does not do; each is tried.
_PICKS, _WAITING = ("revert", "cherry-pick"), ("merge", "revert", "cherry-pick", "stash apply")
_VERBS = ("verb", "doing", "found.doing", "pending.verb")
_FILLED = {
    "what": ("branch", "tag"),
    "how": ("add", "set-url"),
    "change": ("--unset user.name", "user.name Ada"),
    "' '.join(revs)": ("main~1 main",),
    "run.number": ("3",),
    "index": ("0",),
    "endpoint.timeout * 2": ("20",),
    "kept": ("ours (or theirs, or both)",),
    "pasted(other) if other else '-c NAME'": ("dev", "-c NAME"),
}
# Values that need no quotes: they are quoted already, or ids, or names that memlake allows only in plain letters.
_PLAIN = re.compile(
    r"(?:pasted|typed|worktree\.path_as_typed|_as_typed|short|type_server)\(.*\)"
    r"|ids\[0\]|first|memory_id|(?:done|one)\.memory_id|one\.path\.rsplit\('/', 1\)\[1\]"
    r"|found\.spec|unnamed\[0\]\.oid|key"
)
_QUOTED_BEFORE = {
    "cli/files/stage.py": {"there", "here", "name"},
    "cli/branches/conflicts.py": {"name"},
    "cli/branches/merge_rev.py": {"name", "marked[0]", "placed[0]"},
    "dataset/params.py": {"name"},
    "versions/verbs/merge.py": {"name"},
    "versions/verbs/resolve.py": {"name"},
    "versions/checkout/describe.py": {"word"},
    "versions/verbs/stage.py": {"name"},
}
_NOT_HINTS = ("memlake ⟦__version__⟧", "mcp/server.py")  # the latter holds hints to be said otherwise to agents
HINTS = [hint for hint in hints.collect() if not {hint.command, hint.module} & set(_NOT_HINTS)]


def test_the_scan_sees_the_hints_of_every_layer() -> None:
    layers = {hint.module.split("/")[0] for hint in HINTS}
    assert {
        "cli",
        "config.py",
        "dataset",
        "mcp",
        "memories",
        "nofollow.py",
        "objects",
        "repo",
        "versions",
        "views",
    } <= layers
    assert len(HINTS) > 350


def test_where_a_command_ends_can_be_told() -> None:
    unclear = [str(hint) for hint in HINTS if not hint.command]
    assert not unclear, "write these commands in backticks, or after a colon:\n" + "\n".join(unclear)


def test_every_advised_command_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = [f"{hint}\n    {line}: {why}" for hint in HINTS for line in fill(hint) if (why := find_fault(line))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line", ["memlake nosuch", "memlake add --nosuch", "memlake fsck to see", "memlake memory show", "memlake memory"]
)
def test_a_command_that_cannot_be_typed_is_noticed(line: str) -> None:
    assert find_fault(line)


def test_values_in_advised_commands_are_quoted_for_the_shell() -> None:
    bare = [
        f"{hint}: {value}"
        for hint in HINTS
        for value in hint.values
        if value not in (*_FILLED, *_VERBS)
        and not _PLAIN.fullmatch(value)
        and value not in _QUOTED_BEFORE.get(hint.module, ())
    ]
    assert not bare, "put these through errors.pasted or worktree.path_as_typed:\n" + "\n".join(bare)


def fill(hint: Hint) -> list[str]:
    """The command with something for each value, and for what only the user knows: `<file>...` or `...`."""
    verbs = _WAITING if hint.command.endswith(("--continue", "--abort")) else _PICKS
    choices = [verbs if value in _VERBS else _FILLED.get(value, ("x",)) for value in hint.values]
    return [_fill(hint.command, list(values)) for values in itertools.product(*choices)]


def _fill(command: str, values: list[str]) -> str:
    line = hints.VALUE.sub(lambda _: values.pop(0), command).partition(" (")[0]
    return re.sub(r"<[\w-]+>(\.\.\.)?|(?<= )\.\.\.$", "x", line)


def find_fault(line: str) -> str:
    """Why a command line cannot be understood, or nothing."""
    try:
        parse(shlex.split(line)[1:])
    except (click.ClickException, Error, AssertionError) as error:
        return f"{error}"
    return ""


def parse(words: list[str]) -> None:
    """As click does before a verb runs; raises what a user would see."""
    command: click.Command = memlake
    context, name = None, "memlake"
    while True:
        context = command.make_context(name, words, parent=context)
        if not isinstance(command, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            assert command.invoke_without_command, f"{name} needs a verb"
            return
        found, inner, words = command.resolve_command(context, rest)
        assert inner is not None and found is not None
        command, name = inner, found
