"""embed: the vectors that memories still lack, made by whoever has time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from memlake import memories as parts
from memlake.cli.memory.options import memory_verb
from memlake.cli.screen import Screen
from memlake.errors import Nothing
from memlake.views import words

if TYPE_CHECKING:
    from memlake.memories.memories import Memories

_PAUSE = 0.2  # seconds between two looks at what other processes are making


@memory_verb()
@click.option("--wait", is_flag=True, help="Also wait for the vectors that other processes have begun.")
def embed(memories: Memories, screen: Screen, /, *, wait: bool) -> None:
    """Compute the vectors that memories still lack. Hooks store memories without one, so that they stay fast."""
    if memories.shared.provider_spec == "none":
        raise Nothing("there is no model, because embedding.provider is none. Memories are found by their words alone.")
    waited, made = parts.search.count_waiting(memories.context), 0
    while made < waited and (some := memories.embed_pending()):
        made += some
    while wait and parts.search.count_waiting(memories.context) and memories.shared.embedder() is not None:
        some = memories.embed_pending()  # what came meanwhile, and what another process began and gave back
        made += some
        if not some:
            time.sleep(_PAUSE)
    left = parts.search.count_waiting(memories.context)
    screen.line(f"Made {words.count(made, 'vector')}" + (f"; {left:,} are still to do." if left else "."))
