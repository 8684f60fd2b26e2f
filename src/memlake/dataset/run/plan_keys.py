"""Keys of whole plans: what a chain means, so that the same meaning is answered from memory."""

from __future__ import annotations

from memlake.dataset.parts import column_hashes
from memlake.dataset.plan.nodes import Call, Plan, Source
from memlake.dataset.run.call_step import RunServices, function_key, opaque_in


def plan_key(plan: Plan, run: RunServices) -> str | None:
    """Equal for chains that mean the same over the same content; None when doing it again may give something else."""
    known: dict[int, str] = {}
    for node in plan.walk():
        told = _own(node, run)
        if told is None:
            return None
        known[id(node)] = column_hashes.of(told, node.schema.names, *(known[id(one)] for one in node.inputs))
    return known[id(plan)]


def files_read(plan: Plan) -> list[tuple[str, str]]:
    """Files that are read in place, and what marks them as they are now: they may change while they are read."""
    return [(one.describe(), one.mark()) for one in plan.walk() if isinstance(one, Source) and one.scan is not None]


def _own(node: Plan, run: RunServices) -> object:
    if not isinstance(node, Call):
        return node.key()
    print_ = run.fingerprint(node)
    if opaque_in(node, print_):
        return None
    error = node.settings.on_error if node.settings else "raise"
    return ("call", function_key(node, print_), sorted(node.binds.items()), [*(one.name for one in node.made), error])
