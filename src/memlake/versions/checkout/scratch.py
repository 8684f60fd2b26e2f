"""A commit's files in a folder of their own, to try something with: nothing of this checkout knows of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

from memlake.records import Change, Commit
from memlake.versions.checkout import update
from memlake.versions.history.commits import History
from memlake.versions.paths import FILES


@contextlib.contextmanager
def checked_out_apart(history: History, commit: Commit | None) -> Iterator[str]:
    """A temporary folder with the files of a commit; it goes, whatever was done in it."""
    with tempfile.TemporaryDirectory(prefix="memlake-", ignore_cleanup_errors=True) as folder:
        changes = [Change(path, None, entry) for path, entry in history.scan(commit, FILES)] if commit else []
        history.objects.bring(change.new.oid for change in changes if change.new is not None)
        written = update.write_files(history.objects, folder, changes)
        for error in written.failed.values():
            raise error
        yield folder
