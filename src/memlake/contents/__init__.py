"""L3: what is inside a file. One FileType for each family of formats. Knows no repo and no door.

A module is imported when it is first used: `memlake status` must not pay for it.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.contents import content, explain, file_types, tensors

__all__ = ["content", "explain", "file_types", "tensors"]
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
