"""L4: memories that other programs keep, read into ours. Knows their formats and `memories`, no door.

A module is imported when it is first used, so that other commands do not pay for it.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.integrations import fields, formats, markdown_notes, read_memories

__all__ = ["fields", "formats", "markdown_notes", "read_memories"]
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
