"""What a new memory does to an old one, decided by rules of language. Pure: texts in, a decision out.

`decide(old, new, context) -> Decision` is the way in. Beside it there are questions about a new text alone, before
anything is compared: `warn_vague`; `name_rivals` and `is_elliptic`, which say what else to look for. Nobody outside
imports a module of this room. A name is loaded when it is first used, because a warning about vague words needs only
half of the rules.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.memories.rules.decision import Context, Decision, decide
    from memlake.memories.rules.sentences import is_elliptic
    from memlake.memories.rules.uses import name_rivals
    from memlake.memories.rules.wording import warn_vague

__all__ = ["Context", "Decision", "decide", "is_elliptic", "name_rivals", "warn_vague"]
_HOMES = {
    "decision": ("Context", "Decision", "decide"),
    "sentences": ("is_elliptic",),
    "uses": ("name_rivals",),
    "wording": ("warn_vague",),
}
__getattr__ = lazy(
    __name__, {name: f"{__name__}.{module}:{name}" for module, names in _HOMES.items() for name in names}
)
