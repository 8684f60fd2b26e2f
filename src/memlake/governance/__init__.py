"""L3: governance. Rules that a branch keeps in policy files, and what they say of a merge or a promotion.

A module is imported when it is first used: a verb that no rule is about must not pay for it.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.governance import judge, policy

__all__ = ["judge", "policy"]
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
