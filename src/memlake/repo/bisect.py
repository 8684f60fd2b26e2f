"""Bisect: what `repo.bisect` gives. Searching by what commits record and by a command, and by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memlake import config, versions
from memlake.calls import check_methods
from memlake.errors import AlreadyExists, InvalidInput, Unavailable
from memlake.records import Commit, Lane, short
from memlake.repo.part import Part
from memlake.reports import Bisected
from memlake.versions.history import refs

if TYPE_CHECKING:
    from memlake.versions.checkout.context import Checkout
    from memlake.versions.verbs.bisect import Marks

_SKIP = 125  # exit codes, as of `git bisect run`
_CANNOT_RUN = {126: "it is not a program that may be run", 127: "it, or a command in it, was not found"}  # of a shell


@check_methods
class Bisect(Part):
    """Finding the commit that first went wrong."""

    def search(
        self, *, good: Sequence[str] = (), bad: str = "HEAD", lane: Lane = "work", metric: str | None = None,
        below: float | int | None = None, above: float | int | None = None,
        run: str | Callable[[Commit], str] | None = None,
    ) -> Bisected:  # fmt: skip
        """Find the first bad commit by a recorded metric, and by `run` where there is none. Changes nothing.

        `run` is a command for the shell or a function that says "good", "bad" or "skip" of a commit. A command runs in
        a folder of its own with the commit's files, and in MEMLAKE_BISECT_COMMIT has its id. It tells by its exit code:
        0 is good, 125 skips, 1 to 124 is bad, and any other stops the search.
        """
        if metric is None and run is None:
            raise InvalidInput("a search needs a metric or a command. Nothing was tried.")
        if (metric is None) != (below is None and above is None):
            raise InvalidInput("a metric needs a bound, below or above, and a bound a metric. Nothing was tried.")
        wanted = versions.bisect.Metric(metric, below, above) if metric is not None else None
        judge = self._make_judge(run) if isinstance(run, str) else run
        asked = versions.bisect.Asked(tuple(good), bad, lane, wanted)
        return versions.bisect.search(self._repo._look(), asked, judge)

    def _make_judge(self, command: str) -> Callable[[Commit], str]:
        import subprocess  # 3 ms of every start of memlake

        repo = self._repo

        def judge(commit: Commit) -> str:
            other = refs.commit_of(repo._history, repo._history.find_other(commit))
            files = commit if commit.lane == "work" else other
            variables = {"MEMLAKE_BISECT_COMMIT": commit.oid, "MEMLAKE_REPO": str(repo.root)}
            with versions.scratch.checked_out_apart(repo._history, files) as folder:
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=config.environment() | variables, check=False,
                    stdin=subprocess.DEVNULL,
                )  # fmt: skip
            if why := _CANNOT_RUN.get(done.returncode):
                raise Unavailable(
                    f"the command cannot run at commit {short(commit.oid)}: {why} (exit code {done.returncode}). "
                    "The search stopped and blames no commit. Nothing was changed.",
                    hint="It runs in a folder with the commit's files alone. If some commits lack what it needs, "
                    "let it end with 125 there.",
                )
            if not 0 <= done.returncode <= _SKIP:
                raise Unavailable(
                    f"the command ended with {done.returncode} at commit {short(commit.oid)}, so the search stopped. "
                    "Nothing was changed.",
                    hint="A command says by 0 that a commit is good, by 125 that it cannot be tested, by 1 to 124 that "
                    "it is bad.",
                )
            return {0: "good", _SKIP: "skip"}.get(done.returncode, "bad")

        return judge

    # -- by hand ------------------------------------------------------------------------------

    def start(self, bad: str | None = None, good: Sequence[str] = ()) -> Bisected | None:
        """Begin a search by hand. As soon as a bad and a good commit are known, the next to try is checked out."""
        with self._repo._verb() as here:
            return self._start(here, bad, good)

    def _start(self, here: Checkout, bad: str | None, good: Sequence[str]) -> Bisected | None:
        if versions.bisect.find_marks(here) is not None:
            raise AlreadyExists(
                "a bisect is under way already. Nothing was changed.", hint="End it with: memlake bisect reset"
            )
        marks = versions.bisect.Marks(here.local.state("head") or "")
        for verdict, name in [("bad", bad)] * (bad is not None) + [("good", one) for one in good]:
            marks = versions.bisect.add_mark(here, marks, verdict, str(name))
        return versions.bisect.go_on(here, marks, "start")

    def mark(self, verdict: str, rev: str = "HEAD") -> Bisected | None:
        """Say that a commit is "good" or "bad", or "skip" it; returns the result once it is known."""
        with self._repo._verb() as here:
            marks = versions.bisect.add_mark(here, versions.bisect.get_marks(here), verdict, rev)
            return versions.bisect.go_on(here, marks, f"{verdict} {short(marks.said[-1][1])}")

    def reset(self) -> None:
        """End a search by hand, and go back to where HEAD was before it. `undo` passes over it."""
        with self._repo._verb() as here:
            versions.bisect.end(here)

    @property
    def marks(self) -> Marks:
        """What was said so far; refused if no search is under way."""
        return versions.bisect.get_marks(self._repo._look())

    @property
    def left(self) -> int:
        """How many commits may still be the first bad one; 0 until a good and a bad one are named."""
        here = self._repo._look()
        return versions.bisect.weigh(here, versions.bisect.get_marks(here))[2]
