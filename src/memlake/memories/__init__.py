"""L3: what agents remember. Store, search, merge decisions, state, embedding. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for numpy.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.memories import (
        branch_expiry,
        branches,
        check_index,
        check_rot,
        conflicts,
        context,
        embedders,
        forget,
        forgotten,
        import_records,
        kind,
        lineage,
        memories,
        record,
        redact,
        remember,
        rerankers,
        resources,
        revert,
        review,
        search,
        state,
        stats,
        timeline,
        transfer,
        upkeep,
    )
    from memlake.memories.anchors import anchor, doubt, standing, take_anchors, take_files
    from memlake.memories.answers import recall_tests, recalls, why
    from memlake.memories.sessions import briefing, coding_session, hook_search, keep_turn

_ROOMS = {
    "anchors": ("anchor", "doubt", "standing", "take_anchors", "take_files"),
    "answers": ("recall_tests", "recalls", "why"),
    "sessions": ("briefing", "coding_session", "hook_search", "keep_turn"),
}
__all__ = [
    "anchor", "branch_expiry", "branches", "briefing", "check_index", "check_rot", "coding_session", "conflicts",
    "context", "doubt", "embedders", "forget", "forgotten", "hook_search", "import_records", "keep_turn", "kind",
    "lineage", "memories", "recall_tests", "recalls", "record", "redact", "remember", "rerankers", "resources",
    "revert", "review", "rules", "search", "standing", "state", "stats", "take_anchors", "take_files", "timeline",
    "transfer", "upkeep", "why",
]  # fmt: skip
_HOMES = {name: f"{room}.{name}" for room, names in _ROOMS.items() for name in names}
__getattr__ = lazy(__name__, {name: f"{__name__}.{_HOMES.get(name, name)}" for name in __all__})
