"""The list of programs that memlake is set up in: one name for an agent at every door, and no absolute path."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlake.errors import InvalidInput
from memlake.programs import HOOKED, PROGRAMS, SCOPES, SERVED, find_file, name_agent


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", "claude-code"), ("codex", "codex-mcp-client"), ("gemini", "gemini-cli-mcp-client"),
        ("copilot", "copilot-cli"), ("opencode", "opencode"),
    ],
)  # fmt: skip
def test_what_hooks_and_the_server_store_is_signed_alike(name: str, said: str) -> None:
    assert name_agent(said) == PROGRAMS[name].agent


def test_every_client_that_has_hooks_also_has_the_server() -> None:
    assert set(HOOKED) <= set(SERVED) and len({program.agent for program in PROGRAMS.values()}) == len(PROGRAMS)


def test_files_lie_in_the_project_or_in_the_home(tmp_path: Path) -> None:
    for name, files in [(name, has.files) for has_all in (SERVED, HOOKED) for name, has in has_all.items()]:
        for scope in SCOPES:
            if scope in files:
                root = tmp_path if scope == "project" else Path.home()
                assert root in find_file(name, files, scope, tmp_path).parents
            else:
                with pytest.raises(InvalidInput, match=f"does not have settings for a {scope}"):
                    find_file(name, files, scope, tmp_path)
