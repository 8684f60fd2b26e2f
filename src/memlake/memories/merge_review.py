"""What a merge brings, held against what is here. It changes neither: a doubt is noted on what came."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from memlake.errors import Corrupt, NotFound, Purged
from memlake.memories import record, remember, store
from memlake.memories.context import MemoryContext
from memlake.memories.kind import MEMORY
from memlake.memories.record import Memory
from memlake.records import Entry

MOST = 200  # memories of one merge that are held against others: each is a search
Edits = Mapping[str, Entry | None]


def find_doubts(ground: MemoryContext, edits: Edits) -> dict[str, tuple[str, Memory]]:
    """Those of a merge that say otherwise, or the same, as one that is here: path -> (object, the memory, noted)."""
    came = [(path, entry) for path, entry in edits.items() if entry is not None and path.startswith(MEMORY.folder)]
    found: dict[str, tuple[str, Memory]] = {}
    for path, entry in [one for one in came if ground.entry(one[0]) is None][:MOST]:
        with contextlib.suppress(Corrupt, Purged, NotFound):  # no memory, or none any more
            noted = _noted(ground, record.decode(ground.here.history.objects.read(entry.oid)))
            found |= {path: (entry.oid, noted)} if noted else {}
    return found


def _noted(ground: MemoryContext, new: Memory) -> Memory | None:
    met = None if new.review else remember.find_doubt(ground, new)
    return new._replace(review=met.decision.rule, related=(met.old.memory_id,)) if met and met.old else None


def apply_notes(
    ground: MemoryContext, edits: Edits, noted: Mapping[str, tuple[str, Memory]]
) -> dict[str, Entry | None]:
    """The edits of a merge with the doubts noted; what changed since they were looked for stays as it is."""
    same = {path: memory for path, (oid, memory) in noted.items() if (entry := edits.get(path)) and entry.oid == oid}
    return {**edits, **{path: store.write_entry(ground.here.history, memory) for path, memory in same.items()}}


def note_doubts(ground: MemoryContext, edits: Edits) -> dict[str, Entry | None]:
    """The edits of a merge with what is in doubt noted."""
    found = find_doubts(ground, edits)
    with ground.here.history.db.write():
        return apply_notes(ground, edits, found)
