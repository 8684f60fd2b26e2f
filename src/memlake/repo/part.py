"""Part: what `repo.stash`, `repo.upkeep` and their like are made of. Knows no verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.repo.repo import Repo


class Part:
    """Verbs of a repo that belong together; a closed repo refuses them as it refuses its own."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo

    def _refuse_closed(self) -> None:
        self._repo._refuse_closed()
