"""Upkeep: whether what a repo holds is whole, what it takes, and what of it nothing needs any more."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from memlake import config, dataset, memories, nofollow, versions
from memlake import repo as later
from memlake.calls import check_methods
from memlake.errors import Error, Unavailable
from memlake.memories.kind import MEMORY
from memlake.repo.open import AnyPath, checked_oid
from memlake.repo.part import Part

if TYPE_CHECKING:
    from memlake.repo.tiers import Tiers
    from memlake.reports import Check, FsckReport, GcReport, PurgeReport, Usage


@check_methods
class Upkeep(Part):
    """What `repo.upkeep` gives: `gc`, `purge`, `fsck`, `doctor`, `du`, `backup`, `checkpoint` and `tiers`."""

    def gc(self, dry_run: bool = False, prune: bool = False) -> GcReport:
        """Remove what nothing needs any more; `prune` without waiting for the days of grace."""
        repo, settings = self._repo, self._repo._settings
        nofollow.check_folder(repo.dir)  # once more: what was made since would lead removals elsewhere
        policy = versions.gc.Policy(dry_run, 0.0 if prune else settings.gc_grace_hours, settings.gc_reflog_expire)
        recalled = repo._rows().recall.parts() if (repo.dir / dataset.RECALL).exists() else ()
        report = versions.gc.collect(repo._look(), policy, recalled)
        if dry_run:
            return report
        if (repo.dir / "tier.json").exists():
            self.tiers.move()
        told = later.clean_up(repo)
        return report._replace(notes=(told,)) if told else report

    def purge(self, *oids: str, reason: str, with_others: bool = False, leave_derived: bool = False) -> PurgeReport:
        """Erase objects for good; of a dataset's version all its rows, and what is remembered of work over them.

        `with_others`: also versions made from it, and its rows where others share them; `leave_derived`: not those.
        """
        repo = self._repo
        nofollow.check_folder(repo.dir)
        with repo._verb(files=False) as here:
            named, loose = dataset.erase.plan_erasure(
                here, map(checked_oid, oids), dataset.erase.Others(with_others, leave_derived)
            )
            done = versions.purge.purge(here, named, reason, loose=loose)
        done = repo.remotes.note_holders(done)
        dataset.erase.drop_copies(repo.dir)
        if (repo.dir / dataset.RECALL).exists():
            repo._rows().forget()
        if (repo.dir / "index").exists() and any(path.startswith(MEMORY.folder) for path in done.paths):
            try:
                repo.memories().follow()
            except Error as error:
                told = f"the index still has words of it, which the next search erases: {error.message}"
                return done._replace(notes=(*done.notes, told))
        return done

    @property
    def tiers(self) -> Tiers:
        """A colder place for what nobody has read for long: `repo.upkeep.tiers.set("s3://archive", "unread > 90d")`."""
        return later.tiers.Tiers(self._repo)

    def fsck(self, full: bool = False) -> FsckReport:
        """Check what is stored against its hashes; `full` reads every byte. A wrong index is mended."""
        report = versions.fsck.check(self._repo._look(), full=full)
        wrong = self._mend_index() if (self._repo.dir / "index").exists() else ""
        return report.blame_index(wrong) if wrong else report

    def _mend_index(self) -> str:
        """What was wrong with the index of memories, which is mended then; it may have been on being opened."""
        with contextlib.suppress(Error):  # of a history that cannot be read, the report has told already
            return memories.check_index.mend(self._repo.memories().context)
        return ""

    def doctor(self) -> list[Check]:
        """Check this machine and repo, with a cure for each fault."""
        return versions.doctor.examine(self._repo._look(), self._repo.dir)

    def du(self) -> Usage:
        """How many bytes the repo takes, and for what."""
        return versions.usage.measure(self._repo._look(), self._repo.dir)

    def backup(self, file: AnyPath) -> int:
        """Copy the repo into one file; returns its size. The data of old commits that is at a remote comes first."""
        try:
            self._repo._archives.have_all()
        except Unavailable as error:
            warnings.warn(f"the backup does not hold all commits: {error.message}", stacklevel=2)
        return versions.backup.backup(self._repo._look(), self._repo.dir, Path(config.real_name(file)))

    def checkpoint(self) -> bool:
        """Fold the write-ahead logs into the databases, as closing does."""
        return all(db.checkpoint() for db in reversed(self._repo._look().databases))
