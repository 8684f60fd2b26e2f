"""Keys of functions and of whole plans: what work means, so that the same meaning is answered from memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from memlake.dataset import feedback, params
from memlake.dataset.memo.fingerprint import Fingerprint, Opaque, fingerprint
from memlake.dataset.parts import column_hashes
from memlake.dataset.plan.nodes import Call, Plan, Source
from memlake.dataset.run.call_work import MANY
from memlake.dataset.run.file_keys import FindTracked

_WARNED: set[tuple[str, str]] = set()


class RunServices:
    """What the steps of a run share: fingerprints with the params in force, each made once, and progress.

    `find_tracked` tells the hashes of those files that are in the working folder as the repo has them.
    """

    def __init__(self, progress: Any, cache: tuple[Path, int], find_tracked: FindTracked) -> None:
        self.progress, self.cache, self.find_tracked = progress, cache, find_tracked
        self._known: dict[int, tuple[Call, Fingerprint]] = {}  # the call is kept, or its id would be given to another

    def fingerprint(self, call: Call) -> Fingerprint:
        if id(call) not in self._known:
            self._known[id(call)] = call, fingerprint_of(call.function)
            # Once in a process for each opaque thing
            print_ = self._known[id(call)][1]
            for one in opaque_in(call, print_):
                if (call.name, one.name) not in _WARNED:
                    _WARNED.add((call.name, one.name))
                    feedback.warn(f"{call.name}(): {one.hint}")
        return self._known[id(call)][1]


def fingerprint_of(function: Callable[..., Any]) -> Fingerprint:
    """A function with the params it asks for."""
    return fingerprint(function, given=params.read_given)


def function_key(call: Call, print_: Fingerprint) -> str:
    """A function with all that makes its answers what they are; the names of its columns do not."""
    reads = [(call.columns.index(first), rest) for first, _, rest in (p.partition(".") for p in call.binds.values())]
    made = [field_key(one) for one in call.made]
    names = [one.name for one in call.made] if call.kind in MANY else []  # a gen's are inside its answers
    setup = [(name, fingerprint_of(make).key) for name, make in sorted(call.setup.items())]
    return column_hashes.of(
        call.kind, print_.key, list(call.binds), reads, repr(dict(call.wanted)), made, names, call.single, setup
    )


def field_key(one: pa.Field) -> tuple[Any, ...]:
    """What a field says, without its name: its type, and the class of its values."""
    return column_hashes.type_text(one.type), sorted((one.metadata or {}).items())


def opaque_in(call: Call, print_: Fingerprint) -> tuple[Opaque, ...]:
    """What memlake cannot fingerprint, in the function and in what sets it up."""
    return (*print_.opaque, *(one for make in call.setup.values() for one in fingerprint_of(make).opaque))


def plan_key(plan: Plan, run: RunServices) -> str | None:
    """Equal for chains that mean the same over the same content; None when doing it again may give something else."""
    known: dict[int, str] = {}
    for node in plan.walk():
        key: object = node.key()
        if isinstance(node, Call):
            print_ = run.fingerprint(node)
            if opaque_in(node, print_):
                return None
            made = [*(one.name for one in node.made), node.settings.on_error if node.settings else "raise"]
            key = ("call", function_key(node, print_), sorted(node.binds.items()), made)
        if key is None:
            return None
        known[id(node)] = column_hashes.of(key, node.schema.names, *(known[id(one)] for one in node.inputs))
    return known[id(plan)]


def files_read(plan: Plan) -> list[tuple[str, str]]:
    """Files that are read in place, and what marks them as they are now: they may change while they are read."""
    return [(one.describe(), one.mark()) for one in plan.walk() if isinstance(one, Source) and one.scan is not None]
