"""What is rotten in a store of memories: said twice, contradicted, dangerous, or about what is no more. Reads only.

It knows texts and where they stand, not where they are kept, so it judges our store and another program's alike.
`find_rot(passages, project)` is the way in.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.memories.rot import find_rot, instructions, passages

__all__ = ["find_rot", "instructions", "passages"]
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
