"""L4: memories that other programs keep, read into ours. Knows their formats and `memories`, no door.

A module is imported when it is first used, so that other commands do not pay for it.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.integrations import fields, formats, markdown_notes, read_memories

# What `--format` takes; the formats themselves are in read_memories.FORMATS, which is slow to load.
FORMAT_NAMES = (
    "basic-memory", "chatgpt", "claude", "claude-code", "claude-mem", "hatidata", "instructions", "jsonl", "letta",
    "mem0", "okf", "server-memory",
)  # fmt: skip
__all__ = ["fields", "formats", "markdown_notes", "read_memories"]
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
