"""Instruction files of a project: CLAUDE.md, AGENTS.md and what other coding agents call theirs."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice

_MOST = 2000  # entries of a folder that are looked at
_FILE = re.compile(
    r"(?:.*/)?(?:CLAUDE(?:\.local)?\.md|AGENTS?(?:\.override)?\.md|GEMINI\.md|QWEN\.md|\.cursorrules|\.windsurfrules"
    r"|\.clinerules|\.github/copilot-instructions\.md|\.github/instructions/[^/]+\.md|\.cursor/rules/.*\.mdc?"
    r"|\.claude/rules/.*\.md)",
    re.IGNORECASE,
)


def is_instruction_file(name: str) -> bool:
    """Whether a file, by its name below the project, tells coding agents what to do."""
    return _FILE.fullmatch(name) is not None


def list_instruction_files(root: str) -> list[str]:
    """The instruction files at the top of a project, and where programs keep theirs below it."""
    found = []
    for folder in ("", ".github", ".github/instructions", ".claude/rules", ".cursor/rules"):
        with suppress(OSError), os.scandir(os.path.join(root, folder)) as entries:
            names = (f"{folder}/{entry.name}".lstrip("/") for entry in islice(entries, _MOST) if entry.is_file())
            found += [os.path.join(root, name) for name in names if is_instruction_file(name)]
    return sorted(found) if root else []
