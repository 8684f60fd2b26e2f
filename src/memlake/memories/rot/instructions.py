"""Instruction files of a project: CLAUDE.md, AGENTS.md and what other coding agents call theirs."""

from __future__ import annotations

import re

_FILE = re.compile(
    r"(?:.*/)?(?:CLAUDE(?:\.local)?\.md|AGENTS?(?:\.override)?\.md|GEMINI\.md|QWEN\.md|\.cursorrules|\.windsurfrules"
    r"|\.clinerules|\.github/copilot-instructions\.md|\.github/instructions/[^/]+\.md|\.cursor/rules/.*\.mdc?"
    r"|\.claude/rules/.*\.md)",
    re.IGNORECASE,
)


def is_instruction_file(name: str) -> bool:
    """Whether a file, by its name below the project, tells coding agents what to do."""
    return _FILE.fullmatch(name) is not None
