"""L3: what agents remember. Store, search, merge decisions, state, embedding. Knows nothing of doors.

A module is imported when it is first used: `memlake status` must not pay for numpy.
"""

from typing import TYPE_CHECKING

from memlake._lazy import lazy

if TYPE_CHECKING:
    from memlake.memories import (
        anchors,
        branch_expiry,
        branches,
        briefing,
        check_index,
        check_rot,
        coding_session,
        conflicts,
        context,
        doubt,
        embedders,
        forget,
        forgotten,
        hook_search,
        import_records,
        keep_turn,
        kind,
        lineage,
        memories,
        recall_tests,
        recalls,
        record,
        redact,
        remember,
        rerankers,
        resources,
        revert,
        review,
        search,
        standing,
        state,
        stats,
        take_anchors,
        take_files,
        timeline,
        transfer,
        upkeep,
        why,
    )

__all__ = [
    "anchors", "branch_expiry", "branches", "briefing", "check_index", "check_rot", "coding_session", "conflicts",
    "context", "doubt", "embedders", "forget", "forgotten", "hook_search", "import_records", "keep_turn", "kind",
    "lineage", "memories", "recall_tests", "recalls", "record", "redact", "remember", "rerankers", "resources",
    "revert", "review", "rules", "search", "standing", "state", "stats", "take_anchors", "take_files", "timeline",
    "transfer", "upkeep", "why",
]  # fmt: skip
__getattr__ = lazy(__name__, {name: f"{__name__}.{name}" for name in __all__})
